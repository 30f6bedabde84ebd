//! Renders calls and effects as one line each, for comparison in tests. Jobs read `key@token`, and entries are
//! numbers. Longer pauses are in whole seconds (jitter stays below).

use std::fmt::{Debug, Display};
use std::time::Duration;

use tenure_steps::EntryId;
use tenure_steps::Letters as _;

use crate::core::call::Call;
use crate::core::effect::{Effect, Notice};
use crate::core::input::Answer;
use crate::model::id::DispatchId;
use crate::model::record::Begun;
use crate::model::settings::Settings;
use crate::step::{
    Ask, AskItem, Attend, Attest, AttestItem, AttestJobs, Begin, Bootstrap, ChangeSchedule, Dispatch,
    DispatchItem, HoldTurns, Inspect, Join, ListOwned, LookUp, Notify, NotifyOrStart, NotifyOrStartItem,
    ReadNode, Recover, Release, ReleaseItem, ReleaseMode, Reply, ReplyItem, Route, Save, SaveItem,
    ScheduleChange, Started, StartedItem, Steer, SteerItem, Stop, StopItem, Take, TakeItem, TakeTick,
    TermItem, Turn, Update, UpdateItem, WorkerBegins, WorkerStarts,
};

fn join<T>(items: impl IntoIterator<Item = T>, line: impl Fn(T) -> String) -> String {
    items.into_iter().map(line).collect::<Vec<_>>().join(" ")
}

fn with_entries(line: String, entries: &[EntryId]) -> String {
    if entries.is_empty() { line } else { format!("{line}; done {}", join(entries, |e| e.ms.to_string())) }
}

fn some(name: &str, value: Option<impl Display>) -> String {
    value.map_or(String::new(), |value| format!(" {name}={value}"))
}

fn pause(pause: Duration) -> String {
    if pause >= Duration::from_secs(1) {
        format!("{}s", pause.as_secs())
    } else {
        format!("{}ms", pause.as_millis())
    }
}

fn update(item: &UpdateItem) -> String {
    let UpdateItem { key, id, generation, guess, .. } = item;
    format!("{key}/{id}#{generation}{}", some("owner", guess.as_ref()))
}

fn release(item: &ReleaseItem) -> String {
    let mode = match item.mode {
        ReleaseMode::Delete => 'd',
        ReleaseMode::HandOff => 'h',
        ReleaseMode::GiveBack => 'b',
        ReleaseMode::Refuse => 'r',
        ReleaseMode::Elsewhere { .. } => 'e',
        ReleaseMode::Fail => 'q',
        ReleaseMode::Park => 'p',
    };
    let delay = (!item.delay.is_zero()).then(|| pause(item.delay));
    let result = (!item.result.is_empty()).then_some(format!("'{}'", item.result));
    let (tell, stopper) = (some("tell", item.tell.as_ref()), some("stopper", item.tell_stopper.as_ref()));
    format!(
        "{}@{} {mode}{}{tell}{stopper}{}",
        item.key,
        item.token,
        some("in", delay),
        some("result", result)
    )
}

fn stop(item: &StopItem) -> String {
    let forbid = if item.forbid { " for good" } else { "" };
    format!("{}/{}{}{forbid}", item.key, item.id, some("owner", item.guess))
}

fn keys(look: &LookUp) -> String {
    join(&look.items, |(key, _)| key.to_string())
}

fn turn_of(turn: Option<&Turn>) -> String {
    turn.map(|turn| format!(" in {}", turn.term)).unwrap_or_default()
}

/// A value that differs from the usual value.
fn unless<T: PartialEq + Debug>(usual: &T, value: &T) -> String {
    if value == usual { String::new() } else { format!(" {value:?}") }
}

/// The size of a page that differs from the usual size.
fn page(limit: usize) -> String {
    unless(&256, &limit)
}

/// A call; its first word is its kind. Limits and times are left out as long as they have the usual values.
pub(super) fn call(call: &Call) -> String {
    match call {
        Call::Survey(..) => "survey".into(),
        Call::Revisions(..) => "revisions".into(),
        Call::ServerTime(..) => "time".into(),
        Call::Bootstrap(Bootstrap { seen, run_id, settings }) => {
            // The keys of the hash are drawn.
            let usual = Settings { hash_keys: settings.hash_keys, ..Settings::default() };
            let other = if **settings == usual { "" } else { " other settings" };
            format!("bootstrap {run_id} above {}{other}", seen.token)
        }
        Call::Recover(Recover { seen, run_id, lost }) if lost.is_empty() => {
            format!("recover {run_id} above {}", seen.token)
        }
        Call::Recover(Recover { run_id, lost, .. }) => format!("recover {run_id} for {lost}"),
        Call::OpenNormal(..) => "open".into(),
        Call::Join(Join { request }, _) => {
            format!("join {}{}", request.nonce, some("slot", request.preferred))
        }
        Call::Settle(step) => format!("settle {}", step.worker),
        Call::Drain(step) => format!("drain {}", join(&step.workers, ToString::to_string)),
        Call::Leave(step) => format!("leave {}", join(&step.workers, |(worker, _)| worker.to_string())),
        Call::Expire(step) => {
            let worker = |(worker, seq): &(_, Option<u64>)| format!("{worker}{}", some("seq", *seq));
            format!("expire {}", join(&step.workers, worker))
        }
        Call::Reap(step) => format!("reap {}{}", step.worker, page(step.limit)),
        Call::Dispatch(Dispatch { by, items }) => {
            let (_, ring) = by.parts();
            let item = |i: &DispatchItem| {
                let placed = i.worker.zip(ring).map(|(worker, ring)| format!(">{worker} at {ring}"));
                let placed = placed.unwrap_or_default();
                format!("{}/{}<{}{placed}", i.key, i.id, i.not_after)
            };
            format!("dispatch {}", join(items, item))
        }
        Call::Route(Route { ring, entries, jobs }, _) => {
            let job = |(key, worker): &(_, Option<_>)| match worker {
                Some(worker) => format!("{key}>{worker}"),
                None => format!("{key}>-"),
            };
            with_entries(format!("route at {ring}: {}", join(jobs, job)), entries)
        }
        Call::Attest(AttestJobs { worker, items, .. }, _) => {
            let item = |i: &AttestItem| {
                let what = match &i.what {
                    Attest::Runs { begun, payload, .. } => {
                        let how = if *begun == Begun::Started { "started" } else { "begun" };
                        format!("{how}{}", if payload.is_some() { "+payload" } else { "" })
                    }
                    Attest::Ended { outcome, .. } => format!("ended{}", quoted(outcome)),
                    Attest::HandedOff(_) => "handed-on".into(),
                };
                format!("{}@{} {what}", i.key, i.token)
            };
            format!("attest {worker}: {}", items.iter().map(item).collect::<Vec<_>>().join(", "))
        }
        Call::Attend(Attend { worker, after, limit }, _) => {
            format!("attend {worker}{}{}", some("after", after.as_ref()), page(*limit))
        }
        Call::Begin(Begin { begins }) => {
            let words = begins.iter().map(|WorkerBegins { worker, finished, jobs }| {
                let jobs = join(jobs, |(key, token)| format!("{key}@{token}"));
                with_entries(format!("{worker}: {jobs}"), finished)
            });
            format!("begin {}", words.collect::<Vec<_>>().join("; "))
        }
        Call::Started(Started { starts }) => {
            let item = |i: &StartedItem| format!("{}@{}{}", i.key, i.token, some("tell", i.tell.as_ref()));
            let words = starts.iter().map(|WorkerStarts { worker, finished, items }| {
                with_entries(format!("{worker}: {}", join(items, item)), finished)
            });
            format!("started {}", words.collect::<Vec<_>>().join("; "))
        }
        Call::Release(Release { worker, finished, items }) => {
            let items = items.iter().map(release).collect::<Vec<_>>().join(", ");
            with_entries(format!("release {worker}: {items}"), finished)
        }
        Call::Take(Take { worker, finished, items }) => {
            let item = |i: &TakeItem| format!("{}@{} ack={}", i.key, i.token, i.ack);
            with_entries(format!("take {worker}: {}", join(items, item)), finished)
        }
        Call::Save(Save { worker, items }) => {
            let item = |i: &SaveItem| format!("{}@{} given={}#{}", i.key, i.token, i.given, i.number);
            format!("save {worker}: {}", join(items, item))
        }
        Call::Reply(Reply { worker, finished, items }) => {
            let item = |i: &ReplyItem| format!("{}@{} {} {:?}", i.key, i.token, i.id, i.said);
            with_entries(format!("reply {worker}: {}", join(items, item)), finished)
        }
        Call::ReadLast(step) => {
            format!("read-last {}", join(step.cursors.workers.keys(), ToString::to_string))
        }
        Call::Owned(ListOwned { worker, after, limit }) => {
            format!("owned {worker}{}{}", some("after", after.as_ref()), page(*limit))
        }
        Call::Stop(Stop { repeat, waiting, items, .. }) => {
            let how = if *repeat { "-again" } else { "" };
            format!("stop{how} {}{}", join(items, stop), if waiting.is_some() { " tell me" } else { "" })
        }
        Call::Notify(Notify { items }) => {
            format!("notify {}", join(items, |i| format!("{}{}", i.key, some("owner", i.guess))))
        }
        Call::NotifyOrStart(NotifyOrStart { ring, items }) => {
            let item = |i: &NotifyOrStartItem| {
                let (owner, worker) = (some("owner", i.guess), some("at", i.start.worker));
                format!("{}/{}<{}{owner}{worker}", i.start.key, i.start.id, i.start.not_after)
            };
            format!("notify-or-start {} by {ring}", join(items, item))
        }
        Call::Steer(Steer { items }) | Call::TellOwners(Steer { items }) => {
            let item = |i: &SteerItem| {
                let at = format!("{}/{}@{}+{}", i.key, i.id, i.token, i.since);
                format!("{at} {}{}{}", char::from(i.way.letter()), some("owner", i.guess), quoted(&i.reason))
            };
            format!("steer {}", join(items, item))
        }
        Call::Unpark(step) => format!("unpark {}", join(&step.jobs, |(key, id)| format!("{key}/{id}"))),
        Call::Update(step) => format!("update {}", join(&step.items, update)),
        Call::LookToUpdate(look) => format!("look-to-update {}", keys(look)),
        Call::LookUp(look) => {
            let ticket = |(key, id): &(_, Option<DispatchId>)| match id {
                Some(id) => format!("{key}/{id}"),
                None => format!("{key}/-"),
            };
            format!("lookup {}", join(&look.items, ticket))
        }
        Call::Ask(Ask { items, .. }) => {
            let item = |i: &AskItem| {
                format!(
                    "{}@{} {} {}",
                    i.key,
                    i.ask.token,
                    i.ask.id.number,
                    if i.ask.poke { "poke" } else { "ask" }
                )
            };
            format!("ask {}", join(items, item))
        }
        Call::LookAtAsked(look) => format!("look {}", keys(look)),
        Call::FindOwners(look) => format!("find {}", keys(look)),
        Call::Tell(step) => {
            format!("tell {}", join(&step.outcomes, |(id, outcome)| format!("{id}={outcome}")))
        }
        Call::Inspect(Inspect { cursor, limit, held }) => {
            format!("inspect from={cursor} held={}{}", held.len(), unless(&512, limit))
        }
        Call::Sweep(step) => {
            let kick = match step.kick {
                None => String::new(),
                Some(0) => " kick".to_owned(),
                Some(passed) => format!(" kick after {passed}"),
            };
            format!("sweep{kick}{}", page(step.limit))
        }
        Call::Heartbeats(step) => {
            format!("heartbeats{}", some("of", step.workers.as_ref().map(|w| join(w, ToString::to_string))))
        }
        Call::ReadPool(..) => "read-pool".into(),
        Call::ClaimPool(step) => match step.min_idle {
            Duration::ZERO => "claim-pool all".to_owned(),
            idle => format!("claim-pool{}", unless(&Duration::from_secs(5), &idle)),
        },
        Call::RestoreGroup(..) => "restore-group".into(),
        Call::PruneConsumers(step) => format!("prune{}", unless(&Duration::from_secs(600), &step.idle)),
        Call::ReadNode(ReadNode { cursors, .. }, _) => {
            let worker = |(worker, cursor): (_, &EntryId)| format!("{worker}>{}", cursor.ms);
            format!("read-node >{} {}", cursors.node.ms, join(&cursors.workers, worker))
        }
        Call::Sched(ChangeSchedule { schedule, change }, _) => match change {
            ScheduleChange::Create { period, first } => {
                format!("sched {schedule} create {} first {}", pause(*period), pause(*first))
            }
            ScheduleChange::Period { id, revision, period } => {
                format!("sched {schedule}/{id} period {} from {revision}", pause(*period))
            }
            ScheduleChange::End { id, term } => format!("sched {schedule}/{id} end{}", some("term", *term)),
        },
        Call::Term(HoldTurns { items, .. }, _) => {
            let item = |item: &TermItem| {
                let seen = item.seen.map(|(term, seq)| format!("{term}:{seq}"));
                let word = if item.leave { "leave" } else { "take" };
                format!("{word} {}/{}{}", item.schedule, item.id, some("seen", seen))
            };
            format!("term {}", join(items, item))
        }
        Call::Tick(TakeTick { schedule, turn: (id, term), number }, _) => {
            format!("tick {schedule}/{id} {number} in {term}")
        }
        Call::PlanList(step, _) => {
            format!("plan-list{}{}", some("after", step.after.as_ref()), page(step.limit))
        }
        Call::PlanFind(look, _) => format!("plan-find {}", keys(look)),
        Call::PlanDispatch(Dispatch { by, items }, _) => {
            let item = |i: &DispatchItem| format!("{}/{}<{}", i.key, i.id, i.not_after);
            format!("plan-dispatch{}: {}", turn_of(by.parts().0), join(items, item))
        }
        Call::PlanUpdate(Update { turn, items }, _) => {
            format!("plan-update{}: {}", turn_of(turn.as_ref()), join(items, update))
        }
        Call::PlanStop(Stop { turn, items, .. }, _) => {
            format!("plan-stop{}: {}", turn_of(turn.as_ref()), join(items, stop))
        }
        Call::Shutdown(step) => format!("shutdown {:?}", step.mode),
        Call::Purge(step) => format!("purge{}", page(step.limit)),
        Call::CleanUp(step) => format!("cleanup{}", unless(&Duration::from_secs(3_600), &step.tombstone)),
        Call::ForgetNode(..) => "forget-node".into(),
    }
}

fn answer(answer: &Answer) -> String {
    fn result<T>(name: &str, result: &Result<T, impl std::fmt::Debug>) -> String {
        match result {
            Ok(_) => format!("{name} ok"),
            Err(error) => {
                let text = format!("{error:?}");
                let named = [
                    "JobNotFound",
                    "NotParked",
                    "Parked",
                    "Paused",
                    "NotWaiting",
                    "OtherGeneration",
                    "OtherDispatch",
                    "UpdateInDoubt",
                    "NotifyFull",
                    "BadRecord",
                    "JobExists",
                ];
                let named = named.into_iter().find(|word| text.starts_with(word));
                format!("{name} {}", named.unwrap_or(&text))
            }
        }
    }
    match answer {
        Answer::Attached(r) => result("attached", r),
        Answer::WorkerAdded(r) => result("worker", r),
        Answer::Submitted(r) => match r {
            Err(crate::error::DispatchError::Deadline { accepted, trouble, .. }) => {
                let why = trouble.as_ref().map(|error| format!(" since {error}"));
                format!("submitted Deadline accepted={accepted}{}", why.unwrap_or_default())
            }
            r => result("submitted", r),
        },
        Answer::Stopped(r) => result("stopped", r),
        Answer::Asked(Ok(body)) => format!("asked {}", String::from_utf8_lossy(body)),
        Answer::Asked(Err(error)) => format!("asked: {error}"),
        Answer::Notified(r) => result("notified", r),
        Answer::Steered(r) => result("steered", r),
        Answer::Unparked(r) => result("unparked", r),
        Answer::Updated(Ok(generation)) => format!("updated #{generation}"),
        Answer::Updated(r) => result("updated", r),
        Answer::Scheduled(r) => result("scheduled", r),
        Answer::Drained(r) => result("drained", r),
        Answer::Late { stopping: None } => "late".to_owned(),
        Answer::Late { stopping: Some(key) } => format!("late, {key} stops"),
        Answer::Closed { left, .. } => format!("closed{}", join(left, |key| format!(" left={key}"))),
        Answer::ShutDown { result: r, left, dropped, .. } => {
            let left = join(left, |worker| format!(" left={worker}"));
            format!("{} dropped={dropped}{left}", result("shut-down", r))
        }
    }
}

fn quoted(text: &str) -> String {
    if text.is_empty() { String::new() } else { format!(" '{text}'") }
}

fn notice(notice: &Notice) -> String {
    match notice {
        Notice::Recovering { incarnation, wait } => format!("recovering {incarnation} for {}", pause(*wait)),
        Notice::Normal { incarnation } => format!("normal {incarnation}"),
        Notice::Trouble(_) => "trouble".into(),
        Notice::SetAside { key, .. } => format!("set aside {key}"),
        Notice::Expired { worker, .. } => format!("expired {worker}"),
        Notice::Fenced { worker, jobs } => format!("fenced {worker} with {jobs}"),
        Notice::Attested { worker, count: c } => {
            let past = [
                ("unreadable", c.unreadable),
                ("ended", c.ended),
                ("requeued", c.requeued),
                ("gone", c.gone),
            ];
            let past = past.iter().filter(|(_, n)| *n > 0).map(|(name, n)| format!(" {name}={n}"));
            format!("attested {worker} {} {} {}{}", c.kept, c.stopped, c.outranked, past.collect::<String>())
        }
        Notice::Lost { signs } => format!("lost {signs}"),
        Notice::Namesake => "namesake".into(),
        Notice::TooOld(why) => format!("too old for {}", why.floor),
        Notice::Damaged { signs } => format!("damaged {signs}"),
        Notice::Evicts { policy } => format!("evicts {}", policy.as_deref().unwrap_or("nothing")),
        Notice::Outranked { key, token } => format!("outranked {key}@{token}"),
        Notice::NotTakenBack { error } => format!("not-taken-back '{error}'"),
        Notice::BadRecord { key } => format!("bad-record {key}"),
        Notice::Unreadable { key, error } => format!("unreadable {key} '{error}'"),
        Notice::NotSaved { key, others, .. } => format!("not-saved {key} and {others} others"),
        Notice::NotificationRefused { key, refusals, pause: of, why, .. } => {
            format!("not yet {key} {refusals} for {}{}", pause(*of), quoted(why))
        }
        Notice::StopFailed { key, error } => format!("stop-failed {key} '{error}'"),
        Notice::NotUpdated { key, token, why } => format!("not-updated {key}@{token} '{why}'"),
        Notice::Stuck { key, token } => format!("stuck {key}@{token}"),
        Notice::Paused { key, pause } => format!("paused {key}{}", quoted(pause)),
        Notice::ParkedUnowned { id } => format!("parked {id}"),
        Notice::PlanFailed { plan, error } => format!("plan-failed {plan} '{error}'"),
        Notice::BadSchedule { schedule } => format!("bad-schedule {schedule}"),
        Notice::Failed { key, token, attempts, what, error, again_in } => {
            let again = again_in.map_or("gone".into(), |delay| format!("again in {}", pause(delay)));
            let what = format!("{what:?}").to_lowercase();
            format!("failed {key}@{token} {what} {attempts} '{error}' {again}")
        }
        Notice::Parked { key, error } => format!("parked {key} '{error}'"),
    }
}

/// An effect other than a call.
pub(super) fn effect(effect: &Effect) -> String {
    match effect {
        Effect::Call { call: c, .. } => call(c),
        Effect::StopReadingPool => "stop-reading-pool".into(),
        Effect::Bless(run_id) => format!("bless {run_id}"),
        Effect::Expect { members, settings, .. } => format!("expect {members} {settings}"),
        Effect::Reread { members } => format!("reread{}", if *members { " members" } else { "" }),
        Effect::Renew { incarnation } => format!("renew {incarnation}"),
        Effect::Hold { worker, .. } => format!("hold {worker}"),
        Effect::Keep { worker, .. } => format!("keep {worker}"),
        Effect::Drop { worker } => format!("drop {worker}"),
        Effect::Fence { worker } => format!("fence {worker}"),
        Effect::Start { job, .. } => format!("RUN {}@{}", job.key, job.token),
        Effect::Stop { key, token, why, .. } => format!("STOP {key}@{token} {why:?}"),
        Effect::Cancel { key, token, .. } => format!("CANCEL {key}@{token}"),
        Effect::Update { key, token, new, .. } => format!("UPDATE {key}@{token} #{}", new.generation),
        Effect::Look { key, token, .. } => format!("LOOK {key}@{token}"),
        Effect::HandOver { key, token, asks, .. } => {
            format!("ASK {key}@{token} {}", join(asks, |ask| ask.name.clone()))
        }
        Effect::Abort { key, token, .. } => format!("ABORT {key}@{token}"),
        Effect::Saved { key, token, number, .. } => format!("saved {key}@{token} #{number}"),
        Effect::NotSaved { key, token, number, .. } => format!("not-saved {key}@{token} #{number}"),
        Effect::Deliver { key, token, taken, .. } => {
            format!(
                "DELIVER {key}@{token} {}",
                join(&taken.bodies, |b| String::from_utf8_lossy(b).into_owned())
            )
        }
        Effect::Seated { local, worker } => format!("seated {}{}", local.0, some("as", *worker)),
        Effect::Settings { revision, .. } => format!("settings {revision}"),
        Effect::Plan { local, tick, .. } => format!("PLAN {} {} in {}", local.0, tick.number, tick.term),
        Effect::AbortPlan { local } => format!("ABORT-PLAN {}", local.0),
        Effect::Tick { local, tick } => format!("TICK {} {} in {}", local.0, tick.number, tick.term),
        Effect::ScheduleEnded { local } => format!("ended {}", local.0),
        Effect::Reply { to, answer: a } => format!("reply {} {}", to.0, answer(a)),
        Effect::Report(n) => format!("! {}", notice(n)),
        Effect::End => "end".into(),
    }
}
