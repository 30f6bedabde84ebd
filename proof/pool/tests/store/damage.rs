//! Records and headers of notifications that do not parse. Each gets an answer, stays unchanged, and affects no other
//! item of its batch.

use tenure_pool::store::{
    AttestJobs, AttestReply, BeginReply, BegunJob, Dispatch, DispatchItem, DispatchReply, DropNotifications,
    Explain, ListJobs, ListOwned, ListParked, LookUp, Notify, NotifyItem, NotifyReply, Placing, Purge,
    ReadFigures, ReadHeartbeats, ReadNotifications, ReadPauses, Reap, Release, ReleaseItem, ReleaseMode,
    ReleaseReply, Route, RouteReply, Save, SaveItem, SaveReply, ShutDown, ShutdownMode, Started, StartedItem,
    StopReply, Sweep, Take, TakeItem, Unpark, UnparkReply, Waiting, WorkerStarts,
};
use tenure_protocol::model::id::{JobKey, Token, WorkerId};
use tenure_protocol::model::record::{JobState, Record};
use tenure_protocol::model::settings::Settings;

use super::attesting::{MEMBER, ended, item, member};
use super::lab::{Kind, Lab, id, key, node, release, renew, stop};
use super::single::Single as _;

const DAMAGED: [(&str, &str); 6] = [
    ("rubbish", "rubbish"),
    ("empty", ""),
    ("version", "2|Q||0|0|0|1|node1.g|1||0|"),
    ("state", "1|Z||0|0|0|1|node1.g|1||0|"),
    ("number", "1|Q||x|0|0|1|node1.g|1||0|"),
    ("cut", "1|R|5|9|1|1|17"),
];

scenarios! {
    dispatch_answers_it,
    route_answers_it,
    begin_started_and_take_refuse_it,
    begin_and_started_read_a_record_to_its_end,
    release_answers_it,
    stop_and_notify_answer_it,
    an_owner_that_no_worker_can_be_fails_no_others,
    sweep_reports_it_and_puts_it_off,
    reap_passes_it,
    it_is_listed,
    a_later_versions_fields_are_kept,
    a_later_versions_fields_outlast_being_parked,
    a_later_versions_fields_outlast_every_way_back,
    newer_data_are_told_from_damage,
    a_damaged_header_is_answered_and_heals,
    a_damaged_count_of_jobs_fills_no_pool,
    a_job_goes_with_its_damaged_header_by_every_way,
    a_damaged_count_of_notifications_loses_none,
    a_damaged_counter_of_a_worker_beats_on,
    a_dispatch_that_fails_half_way_is_made_again,
    an_end_that_fails_half_way_is_made_again,
    a_save_reads_a_record_up_to_its_token,
    a_save_answers_when_its_key_is_of_another_type,
    parked_jobs_are_listed_and_unparked_without_their_errors,
    explain_and_figures_pass_over_keys_of_another_type,
}

/// A pool with a damaged record under each key, and a good job beside them.
async fn damaged(kind: Kind) -> (Lab, WorkerId) {
    let (lab, worker) = Lab::with_worker(kind, Settings::default()).await;
    for (name, text) in DAMAGED {
        lab.backend.write_record(&key(name), text.as_bytes()).await;
    }
    (lab, worker)
}

/// Each damaged key, with a good one before and behind.
fn around<T>(item: impl Fn(JobKey) -> T) -> Vec<T> {
    let names = DAMAGED.iter().map(|(name, _)| *name);
    ["good", "better"]
        .into_iter()
        .take(1)
        .chain(names)
        .chain(["better"])
        .map(|name| item(key(name)))
        .collect()
}

/// The answers that [`around`] brings when the damaged ones all get `bad`.
fn expected<T: Clone>(good: T, bad: T) -> Vec<T> {
    let mut replies = vec![bad; DAMAGED.len() + 2];
    replies[0] = good.clone();
    replies[DAMAGED.len() + 1] = good;
    replies
}

async fn records(lab: &Lab) -> Vec<String> {
    let mut records = Vec::new();
    for (name, _) in DAMAGED {
        records.push(lab.field("jobs", name).await.unwrap());
    }
    records
}

async fn dispatch_good(lab: &Lab) {
    lab.dispatch("good", "node1.good").await;
    lab.dispatch("better", "node1.better").await;
}

async fn dispatch_answers_it(kind: Kind) {
    let (lab, _) = damaged(kind).await;
    let before = records(&lab).await;
    let items: Vec<_> =
        around(|key| key.to_string()).iter().map(|k| lab.item(k, &format!("node1.{k}"))).collect();
    let replies = lab.dispatch_all(&items).await;
    assert_eq!(replies, expected(DispatchReply::Accepted, DispatchReply::Bad));
    assert_eq!(records(&lab).await, before);
}

async fn route_answers_it(kind: Kind) {
    let (lab, worker) = damaged(kind).await;
    dispatch_good(&lab).await;
    let before = records(&lab).await;
    let jobs = around(|key| (key, Some(worker)));
    let replies = lab.step(&Route { ring: lab.revision().await, entries: Vec::new(), jobs }).await.unwrap();
    assert_eq!(replies, expected(RouteReply::Routed, RouteReply::Bad));
    assert_eq!(records(&lab).await, before);
}

async fn begin_started_and_take_refuse_it(kind: Kind) {
    let (lab, worker) = damaged(kind).await;
    let before = records(&lab).await;
    dispatch_good(&lab).await;
    lab.route_all(&["good", "better"], Some(worker)).await;
    let token = lab.token("good").await;
    let jobs = around(|key| (key, token));
    let replies = lab.store().begin_one(lab.inc, worker, &[], &jobs).await.unwrap();
    let begun: Vec<_> = replies.iter().map(|reply| matches!(reply, BeginReply::Begun(_))).collect();
    assert_eq!(begun, expected(true, false));
    let items = around(|key| StartedItem { key, token, tell: None });
    let replies = lab
        .step(&Started { starts: vec![WorkerStarts { worker, finished: vec![], items: items.clone() }] })
        .await
        .unwrap();
    assert_eq!(replies, expected(true, false));
    let items = around(|key| TakeItem { key, token, ack: 0 });
    let replies = lab.step(&Take { worker, finished: Vec::new(), items }).await.unwrap();
    assert_eq!(replies.iter().map(Option::is_some).collect::<Vec<_>>(), expected(true, false));
    let replies = lab.store().begin_one(lab.inc, WorkerId(5), &[], &[(key("cut"), Token(9))]).await;
    assert!(replies.is_err(), "the worker that it seems to name is no member");
    assert_eq!(records(&lab).await, before);
}

/// The rest of a record after its token; only the last one is sound.
const TAILS: [(&str, &str); 11] = [
    ("no attempts", "|1|17|node1.g|17||4|"),
    ("no flag", "1|3|17|node1.g|17||4|"),
    ("no node in its id", "1|1|17|node1|17||4|"),
    ("a space in its id", "1|1|17|node1.a b|17||4|"),
    ("no time of its acceptance", "1|1|17|node1.g|||4|"),
    ("no strikes", "1|1|17|node1.g|17||x|"),
    ("no plan", "1|1|17|node1.g|17||4"),
    ("cut", "1|1|17"),
    ("never begun, and no node in its id", "0|0|17|node1|17||4|"),
    ("never begun, and cut", "0|0|17|node1.g|17||4"),
    ("sound", "1|1|17|node1.!own|17||4|"),
];

async fn begin_and_started_read_a_record_to_its_end(lab: Lab, worker: WorkerId) {
    let token = Token(worker.0 + 9);
    let write = async |state: char| {
        for (name, tail) in TAILS {
            let record = format!("1|{state}|{worker}|{token}|{tail}");
            lab.backend.write_record(&key(name), record.as_bytes()).await;
        }
    };
    let is_left = async |state: char, step: &str| {
        for (name, tail) in &TAILS[..TAILS.len() - 1] {
            let record = lab.field("jobs", name).await.unwrap();
            assert_eq!(record, format!("1|{state}|{worker}|{token}|{tail}"), "{step} of {name}");
        }
    };
    let answers = TAILS.map(|(name, _)| name == "sound");
    for state in ['A', 'R'] {
        write(state).await;
        let jobs = TAILS.map(|(name, _)| (key(name), token));
        let replies = lab.store().begin_one(lab.inc, worker, &[], &jobs).await.unwrap();
        let begun: Vec<_> = replies.iter().map(|reply| matches!(reply, BeginReply::Begun(_))).collect();
        assert_eq!(begun, answers, "begin in {state}");
        is_left(state, "begin").await;
    }
    for state in ['R', 'S'] {
        write(state).await;
        let items = TAILS.map(|(name, _)| StartedItem { key: key(name), token, tell: None }).to_vec();
        assert_eq!(
            lab.step(&Started { starts: vec![WorkerStarts { worker, finished: vec![], items }] })
                .await
                .unwrap(),
            answers,
            "started in {state}"
        );
        is_left(state, "started").await;
        assert_eq!(lab.record("sound").await.unwrap().strikes, 3, "whole strikes stay");
    }
}

async fn release_answers_it(kind: Kind) {
    let (lab, worker) = damaged(kind).await;
    let before = records(&lab).await;
    lab.dispatch("good", "node1.good").await;
    lab.dispatch("better", "node1.better").await;
    lab.route_all(&["good", "better"], Some(worker)).await;
    let token = lab.token("good").await;
    let items = around(|key| release(&key.to_string(), token, ReleaseMode::Delete));
    let replies = lab.step(&Release { worker, finished: Vec::new(), items }).await.unwrap();
    assert_eq!(replies, expected(ReleaseReply::Deleted, ReleaseReply::Bad));
    assert_eq!(records(&lab).await, before);
}

async fn stop_and_notify_answer_it(kind: Kind) {
    let (lab, _) = damaged(kind).await;
    let before = records(&lab).await;
    dispatch_good(&lab).await;
    let items = around(|key| NotifyItem { key, guess: None, body: "body".into() });
    let replies = lab.step(&Notify { items: items.clone() }).await.unwrap();
    assert_eq!(replies, expected(NotifyReply::Kept, NotifyReply::Bad));
    let items = around(|key| stop(&key.to_string(), &format!("node1.{key}"), None));
    assert_eq!(lab.stop_all(&items).await, expected(StopReply::Deleted, StopReply::Bad));
    assert_eq!(records(&lab).await, before);
}

async fn an_owner_that_no_worker_can_be_fails_no_others(lab: Lab) {
    dispatch_good(&lab).await;
    lab.backend.write_record(&key("owned"), b"1|R|99999999999999999999999|9|1|1|17|node1.owned|17||0|").await;
    let keys = ["good", "owned", "better"];
    let items = keys.map(|name| NotifyItem { key: key(name), guess: None, body: "body".into() });
    let replies = lab.step(&Notify { items: items.to_vec() }).await.unwrap();
    assert_eq!((&replies[0], &replies[2]), (&NotifyReply::Kept, &NotifyReply::Kept));
    let items = keys.map(|name| stop(name, &format!("node1.{name}"), None));
    let replies = lab.stop_all(&items).await;
    assert_eq!((&replies[0], &replies[2]), (&StopReply::Deleted, &StopReply::Deleted));
}

async fn sweep_reports_it_and_puts_it_off(lab: Lab) {
    for (name, text) in DAMAGED {
        lab.dispatch(name, &format!("node1.{name}")).await;
        lab.backend.write_record(&key(name), text.as_bytes()).await;
    }
    dispatch_good(&lab).await;
    lab.starts().await;
    let before = records(&lab).await;
    lab.backend.advance(2_000).await;
    let mut swept = lab.step(&Sweep { limit: 100, kick: None }).await.unwrap();
    swept.bad.sort();
    let mut damaged = DAMAGED.map(|(name, _)| key(name));
    damaged.sort();
    assert_eq!(swept.bad, damaged);
    assert_eq!(swept.count, 8);
    assert_eq!(lab.score("queue", "cut").await, Some(lab.backend.now() + 60_000));
    let started: Vec<_> = lab.starts().await.into_iter().flat_map(|(_, jobs)| jobs).collect();
    assert_eq!(started, [(key("better"), 0), (key("good"), 0)]);
    assert_eq!(records(&lab).await, before);
}

async fn reap_passes_it(kind: Kind) {
    let (lab, worker) = damaged(kind).await;
    let before = records(&lab).await;
    dispatch_good(&lab).await;
    lab.route_all(&["good", "better"], Some(worker)).await;
    for (name, _) in DAMAGED {
        lab.backend.write_index(worker, &key(name)).await;
    }
    lab.store().expire_one(lab.inc, worker, None).await.unwrap();
    let reaped = lab.step(&Reap { worker, limit: 100 }).await.unwrap();
    assert_eq!((reaped.done, reaped.count), (true, 8));
    assert_eq!(lab.record("good").await.unwrap().state, JobState::Queued);
    assert_eq!(records(&lab).await, before);
    assert!(lab.backend.dump().await.get("owners").is_none());
}

async fn it_is_listed(kind: Kind) {
    let (lab, worker) = damaged(kind).await;
    let items: Vec<_> = DAMAGED.iter().map(|(name, _)| (key(name), None)).collect();
    for found in lab.read(&LookUp { items }).await.unwrap() {
        assert_eq!((found.record, found.bad), (None, true));
    }
    let page = lab.read(&ListJobs { cursor: 0, limit: 100 }).await.unwrap();
    assert_eq!(page.jobs.len(), DAMAGED.len());
    assert!(page.jobs.iter().all(|(_, record)| record.is_none()));
    lab.backend.write_index(worker, &key("cut")).await;
    let page = lab.step(&ListOwned { worker, after: None, limit: 10 }).await.unwrap();
    assert_eq!(page.jobs, [(key("cut"), None)]);
}

/// The fields behind the generation and the reason.
fn behind(record: &Record) -> &str {
    record.tail.match_indices('|').nth(2).map_or("", |(at, _)| &record.tail[at..])
}

async fn a_later_versions_fields_are_kept(lab: Lab, worker: WorkerId) {
    lab.dispatch("k", "node1.g").await;
    let record = lab.record("k").await.unwrap().to_string();
    lab.backend.write_record(&key("k"), format!("{record}plan|||new|field").as_bytes()).await;
    lab.run_again("k", worker).await;
    assert!(lab.started("k", worker).await);
    assert_eq!(lab.release("k", worker, ReleaseMode::HandOff).await, ReleaseReply::Queued);
    lab.run_again("k", worker).await;
    assert_eq!(lab.stop("k", "node1.g", Some(worker)).await, StopReply::Stopping);
    let record = lab.record("k").await.unwrap();
    assert_eq!((record.plan.as_str(), behind(&record)), ("plan", "|new|field"));
}

async fn a_later_versions_fields_outlast_being_parked(kind: Kind) {
    let (lab, worker) = Lab::with_worker(kind, Settings { max_attempts: 1, ..Settings::default() }).await;
    lab.dispatch("k", "node1.g").await;
    let record = lab.record("k").await.unwrap().to_string();
    lab.backend.write_record(&key("k"), format!("{record}plan|||new|field").as_bytes()).await;
    lab.run_again("k", worker).await;
    assert_eq!(lab.release("k", worker, ReleaseMode::Fail).await, ReleaseReply::Parked);
    let job = (key("k"), lab.record("k").await.unwrap().id);
    assert_eq!(lab.step(&Unpark { jobs: vec![job] }).await.unwrap(), [UnparkReply::Queued]);
    let record = lab.record("k").await.unwrap();
    assert_eq!((record.plan.as_str(), behind(&record)), ("plan", "|new|field"));
}

async fn a_later_versions_fields_outlast_every_way_back(lab: Lab, worker: WorkerId) {
    lab.dispatch("k", "node1.g").await;
    let record = lab.record("k").await.unwrap().to_string();
    lab.backend.write_record(&key("k"), format!("{record}plan|||new|field").as_bytes()).await;
    let kept = async |step: &str, state: JobState| {
        let record = lab.record("k").await.unwrap();
        let seen = (record.state, record.plan.as_str(), behind(&record));
        assert_eq!(seen, (state, "plan", "|new|field"), "{step}");
    };
    for mode in [ReleaseMode::Refuse, ReleaseMode::Fail] {
        lab.run_again("k", worker).await;
        assert_eq!(lab.release("k", worker, mode).await, ReleaseReply::Queued);
        kept("release", JobState::Queued).await;
    }
    lab.route("k", worker).await;
    lab.backend.advance(10_000).await;
    assert_eq!(lab.sweep().await.count, 1);
    kept("an assignment that nobody began", JobState::Queued).await;
    lab.run_again("k", worker).await;
    lab.leave(worker).await;
    kept("a lost worker", JobState::Queued).await;
}

async fn newer_data_are_told_from_damage(kind: Kind) {
    let (lab, _) = damaged(kind).await;
    for (name, _) in DAMAGED {
        let newer = lab.read(&LookUp { items: vec![(key(name), None)] }).await.unwrap()[0].newer;
        assert_eq!(newer, (name == "version").then_some(2), "{name}");
    }
}

/// Headers of notifications that the pool cannot have written.
const HEADERS: [(&str, &str); 8] = [
    ("of thousands", "1|9000|5"),
    ("of millions", "1|30000000|5"),
    ("one too many", "1|1002|5"),
    ("reversed", "9|1|5"),
    ("of nothing", "5|5|0"),
    ("beyond numbers", "9007199254740993|9007199254740995|5"),
    ("rubbish", "rubbish"),
    ("empty", ""),
];

/// A running job under each damaged header, between two good ones, each with a notification.
async fn with_headers(lab: &Lab, worker: WorkerId) -> Vec<(JobKey, Token)> {
    let names = ["good"].into_iter().chain(HEADERS.map(|(name, _)| name)).chain(["better"]);
    let mut jobs = Vec::new();
    for (at, name) in names.enumerate() {
        jobs.push((key(name), lab.run(name, &format!("node1.{at}"), worker).await));
        assert_eq!(lab.notify(name, Some(worker), "body").await, NotifyReply::Kept);
    }
    for (name, header) in HEADERS {
        lab.backend.write_header(&key(name), header).await;
    }
    jobs
}

async fn a_damaged_header_is_answered_and_heals(lab: Lab, worker: WorkerId) {
    let jobs = with_headers(&lab, worker).await;
    let is_good = |key: &JobKey| *key == "good" || *key == "better";
    let notes = jobs.iter().map(|(key, _)| NotifyItem { key: key.clone(), guess: None, body: "more".into() });
    let replies = lab.step(&Notify { items: notes.collect::<Vec<_>>().clone() }).await.unwrap();
    for ((key, _), reply) in jobs.iter().zip(replies) {
        assert_eq!(reply, if is_good(key) { NotifyReply::Kept } else { NotifyReply::Bad }, "notify of {key}");
    }
    let items: Vec<_> =
        jobs.iter().map(|(key, token)| TakeItem { key: key.clone(), token: *token, ack: 0 }).collect();
    let replies = lab.step(&Take { worker, finished: Vec::new(), items }).await.unwrap();
    for ((key, _), reply) in jobs.iter().zip(replies) {
        let taken = reply.unwrap().bodies.len();
        assert_eq!(taken, if is_good(key) { 2 } else { 0 }, "take of {key}");
    }
    for (name, header) in HEADERS {
        assert_eq!(
            lab.field("notifications", &format!("h:{name}")).await.unwrap(),
            header,
            "it is left as it is"
        );
    }
    for (name, _) in HEADERS {
        let listed = lab.read(&ReadNotifications { key: key(name), from: 0 }).await.unwrap();
        assert_eq!(listed, Waiting::Bad, "a list of {name}");
    }
    let (name, token) = &jobs[2];
    assert_eq!(lab.step(&DropNotifications { key: name.clone(), through: 0 }).await.unwrap(), Some(0));
    assert_eq!(lab.notify(&name.to_string(), Some(worker), "anew").await, NotifyReply::Kept);
    assert_eq!(lab.take(&name.to_string(), worker, *token, 0).await.unwrap().bodies, ["anew"]);
    let (name, token) = &jobs[1];
    // Bodies are numbered from 0, as they came.
    lab.backend.write_header(name, "1|2|4").await;
    let taken = lab.take(&name.to_string(), worker, *token, 0).await.unwrap();
    assert_eq!((taken.first, taken.bodies), (1, vec!["body".into()]), "put right, it is taken");
}

/// In memory it cannot be damaged.
async fn a_damaged_count_of_notifications_loses_none(kind: Kind) {
    let Kind::Redis = kind else { return };
    let beyond = ["999999999999999", "1000000000000000", "9007199254740993", "18446744073709551616"];
    for count in ["-5", "1.5", "nan", "abc", "", "1e3", "007"].into_iter().chain(beyond) {
        let (lab, worker) = Lab::with_worker(kind, Settings::default()).await;
        lab.run("k", "node1.k", worker).await;
        let token = lab.token("k").await;
        lab.backend.write_meta("notified", Some(count)).await;
        for body in ["first", "second"] {
            assert_eq!(lab.notify("k", Some(worker), body).await, NotifyReply::Kept, "{count:?}");
        }
        assert_eq!(lab.take("k", worker, token, 0).await.unwrap().bodies, ["first", "second"], "{count:?}");
    }
}

/// In memory it cannot be damaged.
async fn a_damaged_counter_of_a_worker_beats_on(kind: Kind) {
    let Kind::Redis = kind else { return };
    for count in ["9007199254740992", "18446744073709551615", "99999999999999999999", "-5", "1.5", "abc", ""]
    {
        let (lab, worker) = Lab::with_worker(kind, Settings::default()).await;
        lab.backend.write("HSET", "heartbeats", &[&worker.to_string(), count]).await;
        let mut seen = Vec::new();
        for _ in 0..3 {
            lab.step(&renew(&[worker])).await.unwrap();
            seen.push(lab.read(&ReadHeartbeats { workers: None }).await.unwrap()[&worker]);
            lab.backend.advance(1).await;
        }
        assert!(seen.windows(2).all(|two| two[0] != two[1]), "{count:?}: {seen:?}");
    }
}

/// On Redis: what a step does while a key is of another type, which is put right again afterwards.
async fn while_spoiled<T>(lab: &Lab, name: &str, step: impl AsyncFnOnce() -> T) -> T {
    let (kept, there) = (lab.backend.key("kept"), lab.backend.dump().await.get(name).is_some());
    if there {
        lab.backend.write("RENAME", name, &[&kept]).await;
    }
    lab.backend.write("SET", name, &["of another type"]).await;
    let done = step().await;
    lab.backend.write("DEL", name, &[]).await;
    if there {
        lab.backend.write("RENAME", "kept", &[&lab.backend.key(name)]).await;
    }
    done
}

/// In memory no key is of another type.
async fn a_dispatch_that_fails_half_way_is_made_again(kind: Kind) {
    let Kind::Redis = kind else { return };
    for name in ["payloads", "queue", "outcomes", "owners", "starts"] {
        let (lab, worker) = Lab::with_worker(kind, Settings::default()).await;
        lab.dispatch("waits", "node1.waits").await;
        let placed = DispatchItem { worker: Some(worker), ..lab.item("k", "node1.!own") };
        let items = [placed, lab.item("queued", "node1.q")];
        let ring = lab.revision().await;
        while_spoiled(&lab, name, async || {
            for _ in 0..3 {
                let done = lab.step(&Dispatch { by: Placing::Ring(ring), items: items.to_vec() }).await;
                assert!(done.is_err(), "{name}: {done:?}");
            }
        })
        .await;
        assert_eq!(
            lab.step(&Dispatch { by: Placing::Ring(ring), items: items.to_vec() }).await.unwrap(),
            vec![DispatchReply::Accepted; 2]
        );
        let begun = lab.begin("k", worker).await;
        assert!(
            matches!(&begun, BeginReply::Begun(BegunJob { payload, .. }) if *payload == items[0].payload),
            "{name}: {begun:?}"
        );
        assert_eq!(lab.field("pool", "queued").await.as_deref(), Some("2"), "{name}");
    }
}

/// In memory no key is of another type.
async fn an_end_that_fails_half_way_is_made_again(kind: Kind) {
    let Kind::Redis = kind else { return };
    for name in ["payloads", "owners", "ended"] {
        for mode in [ReleaseMode::Delete, ReleaseMode::HandOff] {
            let (lab, worker) = Lab::with_worker(kind, Settings::default()).await;
            let token = lab.run("k", "node1.k", worker).await;
            while_spoiled(&lab, name, async || {
                for _ in 0..3 {
                    let _ = lab
                        .step(&Release {
                            worker,
                            finished: Vec::new(),
                            items: vec![release("k", token, mode)],
                        })
                        .await;
                }
            })
            .await;
            lab.step(&Release { worker, finished: Vec::new(), items: vec![release("k", token, mode)] })
                .await
                .unwrap();
            if mode == ReleaseMode::Delete {
                assert_eq!(lab.dispatch("k", "node1.k").await, DispatchReply::Ended, "{name}: it runs again");
            } else {
                lab.run_again("k", worker).await;
            }
        }
    }
}

async fn a_save_reads_a_record_up_to_its_token(lab: Lab, worker: WorkerId) {
    let token = Token(worker.0 + 9);
    let of = |name: &str| {
        let (key, bytes) = (key(name), "state".into());
        SaveItem { key, token, given: token, number: 1, bytes }
    };
    for (state, reply) in [
        ('R', SaveReply::Kept),
        ('S', SaveReply::Kept),
        ('A', SaveReply::Stale),
        ('P', SaveReply::Stale),
        ('Z', SaveReply::Stale),
    ] {
        for (name, tail) in TAILS {
            let record = format!("1|{state}|{worker}|{token}|{tail}");
            lab.backend.write_record(&key(name), record.as_bytes()).await;
        }
        let items = TAILS.map(|(name, _)| of(name)).to_vec();
        let replies = lab.step(&Save { worker, items }).await.unwrap();
        assert_eq!(replies, TAILS.map(|_| reply), "state {state}");
    }
    for start in ["2|R|", "1|R", "x1|R|"] {
        let record = format!("{start}{worker}|{token}|1|1|17|node1.g|17||0|");
        lab.backend.write_record(&key("other"), record.as_bytes()).await;
        let replies = lab.step(&Save { worker, items: vec![of("other")] }).await.unwrap();
        assert_eq!(replies, [SaveReply::Stale], "{start}");
    }
    lab.backend.write_record(&key("cut"), format!("1|R|{worker}|{token}").as_bytes()).await;
    assert_eq!(lab.step(&Save { worker, items: vec![of("cut")] }).await.unwrap(), [SaveReply::Stale]);
}

/// In memory no key is of another type.
async fn a_save_answers_when_its_key_is_of_another_type(kind: Kind) {
    let Kind::Redis = kind else { return };
    let (lab, worker) = Lab::with_worker(kind, Settings::default()).await;
    let token = lab.run("k", "node1.k", worker).await;
    let items = ["k", "absent"].map(|name| SaveItem {
        key: key(name),
        token,
        given: token,
        number: 1,
        bytes: "state".into(),
    });
    let save = async || lab.step(&Save { worker, items: items.to_vec() }).await.unwrap();
    let replies = while_spoiled(&lab, "checkpoints", save).await;
    assert_eq!(replies, [SaveReply::Unusable, SaveReply::Stale]);
    assert_eq!(save().await, [SaveReply::Kept, SaveReply::Stale]);
}

/// In memory no key is of another type.
async fn parked_jobs_are_listed_and_unparked_without_their_errors(kind: Kind) {
    let Kind::Redis = kind else { return };
    let (lab, worker) = Lab::with_worker(kind, Settings { max_attempts: 1, ..Settings::default() }).await;
    let token = lab.run("k", "node1.k", worker).await;
    let failed = release("k", token, ReleaseMode::Fail);
    lab.release_item(worker, ReleaseItem { result: "no route".into(), ..failed }).await;
    let (page, pauses, unparked) = while_spoiled(&lab, "errors", async || {
        let page = lab.read(&ListParked { cursor: 0, limit: 10 }).await.unwrap();
        let pauses = lab.read(&ReadPauses { keys: vec![key("k")] }).await.unwrap();
        (page, pauses, lab.step(&Unpark { jobs: vec![(key("k"), id("node1.k"))] }).await.unwrap())
    })
    .await;
    assert_eq!((page.jobs.len(), page.next, page.jobs[0].error.as_str()), (1, None, ""));
    assert_eq!((page.jobs[0].record.is_some(), pauses[0].error.clone()), (true, None));
    assert_eq!(unparked, [UnparkReply::Queued]);
}

/// In memory no key is of another type.
async fn explain_and_figures_pass_over_keys_of_another_type(kind: Kind) {
    let Kind::Redis = kind else { return };
    let (lab, worker) = Lab::with_worker(kind, Settings::default()).await;
    lab.run("k", "node1.!k", worker).await;
    let names =
        ["queue", "parked", "errors", "notifications", "checkpoints", "heartbeats", "expired", "settings"];
    for name in names {
        let seen =
            while_spoiled(&lab, name, async || lab.read(&Explain { key: key("k"), id: None }).await.unwrap())
                .await;
        assert_eq!(seen.found.record.unwrap().owner, Some(worker), "{name}");
        assert_eq!(seen.heard.is_some(), name != "heartbeats", "{name}");
    }
    for (name, dispatch) in [("ended", "node1.gone"), ("outcomes", "node1.!gone")] {
        let explain = async || lab.read(&Explain { key: key("gone"), id: Some(id(dispatch)) }).await.unwrap();
        let seen = while_spoiled(&lab, name, explain).await;
        assert_eq!((seen.found.record.is_none(), seen.found.bad_id), (true, true), "{name}");
        assert!(!explain().await.found.bad_id, "{name}");
    }
    for name in ["queue", "owners", "parked"] {
        let counts = while_spoiled(&lab, name, async || {
            lab.read(&ReadFigures { look: 5, workers: vec![worker] }).await.unwrap()
        })
        .await;
        assert_eq!((counts.jobs, counts.owned), (1, u64::from(name != "owners")), "{name}");
    }
}

async fn a_job_goes_with_its_damaged_header_by_every_way(kind: Kind) {
    for way in ["release", "stop", "reap", "purge", "attend", "attest"] {
        let (mut lab, worker) = Lab::with_worker(kind, Settings::default()).await;
        let jobs = with_headers(&lab, worker).await;
        let stops = jobs.iter().enumerate().map(|(at, (key, _))| {
            let guess = (way != "stop").then_some(worker);
            stop(&key.to_string(), &format!("node1.{at}"), guess)
        });
        let stops: Vec<_> = stops.collect();
        let releases = |mode| {
            let items = jobs.iter().map(|(key, token)| release(&key.to_string(), *token, mode));
            items.collect::<Vec<_>>()
        };
        let hand_off = async || {
            let items = releases(ReleaseMode::HandOff);
            let replies =
                lab.step(&Release { worker, finished: Vec::new(), items: items.clone() }).await.unwrap();
            assert_eq!(replies, vec![ReleaseReply::Queued; jobs.len()]);
        };
        match way {
            "release" => {
                let items = releases(ReleaseMode::Delete);
                let replies = lab.step(&Release { worker, finished: Vec::new(), items }).await.unwrap();
                assert_eq!(replies, vec![ReleaseReply::Deleted; jobs.len()]);
            }
            "stop" => {
                hand_off().await;
                assert_eq!(lab.stop_all(&stops).await, vec![StopReply::Deleted; jobs.len()]);
            }
            "reap" => {
                assert_eq!(lab.stop_all(&stops).await, vec![StopReply::Stopping; jobs.len()]);
                lab.store().expire_one(lab.inc, worker, None).await.unwrap();
                assert!(lab.step(&Reap { worker, limit: 100 }).await.unwrap().done);
            }
            "purge" => {
                hand_off().await;
                lab.step(&ShutDown { by: node("node1"), mode: ShutdownMode::DropQueued }).await.unwrap();
                assert_eq!(lab.step(&Purge { limit: 100 }).await.unwrap().len(), jobs.len());
            }
            "attend" | "attest" => {
                assert_eq!(lab.stop_all(&stops).await, vec![StopReply::Stopping; jobs.len()]);
                lab.recover().await;
                if way == "attest" {
                    let said = jobs.iter().enumerate();
                    let said = said.map(|(at, (key, token))| {
                        item(&key.to_string(), *token, &format!("node1.{at}"), ended())
                    });
                    let said: Vec<_> = said.collect();
                    let replies =
                        lab.step(&AttestJobs { worker, member: member(MEMBER), items: said }).await.unwrap();
                    assert_eq!(replies, vec![AttestReply::Ended; jobs.len()]);
                }
                lab.attend(worker).await;
            }
            _ => unreachable!(),
        }
        let left = lab.backend.dump().await;
        assert!(left.get("jobs").is_none(), "{way} leaves jobs");
        for (name, _) in HEADERS {
            assert_eq!(lab.field("notifications", &format!("h:{name}")).await, None, "{way} leaves a header");
        }
    }
}

/// Only on Redis can the count be damaged.
async fn a_damaged_count_of_jobs_fills_no_pool(kind: Kind) {
    let settings = Settings { max_queued: 2, ..Settings::default() };
    let lab = Lab::with(kind, settings).await;
    if matches!(kind, Kind::Memory) {
        return;
    }
    lab.backend.write_meta("queued", Some("9007199254740993")).await;
    assert_eq!(lab.dispatch("first", "node1.1").await, DispatchReply::Accepted);
    assert_eq!(lab.field("pool", "queued").await.as_deref(), Some("1"));
    assert_eq!(lab.dispatch("second", "node1.2").await, DispatchReply::Accepted);
    assert_eq!(lab.dispatch("third", "node1.3").await, DispatchReply::Full);
}
