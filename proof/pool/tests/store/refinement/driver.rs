//! Resolves moves against the state, makes each call on both stores, and compares answers and states.

use std::time::Duration;

use tenure_pool::inspect::Cause;
use tenure_pool::store::Said as Word;
use tenure_pool::store::{
    Ask, AskEvent, AskId, AskItem, Attend, Attest, AttestItem, AttestJobs, Begin, Bootstrap, ChangeSchedule,
    ChangeSettings, CleanUp, Content, Cordon, Dispatch, DispatchItem, Drain, DropNotifications, EntryId,
    Expire, Explain, ForgetNode, HandedOff, HoldTurns, Inspect, Join, JoinRequest, LaterPayload, ListJobs,
    ListOwned, ListParked, ListPlanned, LookUp, Note, Notify, NotifyItem, NotifyOrStart, NotifyOrStartItem,
    OpenNormal, Placing, PoolEvent, PoolState, PruneConsumers, Purge, RaiseLevel, ReadCheckpoint, ReadDue,
    ReadFigures, ReadHeartbeats, ReadNotifications, ReadPayload, ReadState, ReadStatuses, Reap, Recover,
    Release, ReleaseItem, ReleaseMode, Renew, Reply, ReplyItem, RestoreGroup, Route, Save, SaveItem,
    ScheduleChange, ScheduleEntry, ScheduleKey, ScheduleKind, Seen, SettingChange, Settle, ShutDown,
    ShutdownMode, Started, StartedItem, Steer, SteerItem, Stop, StopItem, Store, Sweep, Take, TakeItem,
    TakeTick, Tell, TermItem, Text, Turn, Unpark, Update, UpdateItem, Way, WorkerBegins, WorkerStarts,
};
use tenure_protocol::model::id::{
    DispatchId, Incarnation, JobKey, NodeName, Nonce, Revision, ScheduleId, ScheduleName, Term, Token,
    WorkerId,
};
use tenure_protocol::model::member::Member;
use tenure_protocol::model::record::{Begun, JobState, Record};
use tenure_protocol::model::settings::Settings;

use JobState::{Assigned, Parked, Queued, Running, Stopping};

use super::call::{
    Call, EntryPair, body, claim_pool, entries, of_side, read_history, read_node, read_pool, same, viewed,
};
use super::op::{Aim, Attested, Begun as Drawn, Dispatched, Op, Released, Said, Stopped};
use crate::backend::{Backend, Saved};
use crate::single::Single as _;

/// Keys whose bytes may be mistaken for something else.
const KEYS: [&[u8]; 8] = [b"a", b"a:", b"1:a", b"h:a", b"0:a", b"\xff|\n", b"|1|R|", b"s3"];
const RESULTS: [&str; 4] = ["", "e:no", "op|1700000000000|boom", "s:jammed"];

/// Small limits and short times, so that a short walk reaches all of them.
fn settings(max_attempts: u32) -> Settings {
    let ms = Duration::from_millis;
    Settings {
        // Node streams live twice as long by the server's own clock, which nobody sets.
        worker_ttl: ms(600_000),
        max_queued: 5,
        route_timeout: ms(200),
        assign_timeout: ms(500),
        stop_retry: ms(300),
        max_dispatch_deadline: ms(3_000),
        outcome_retention: ms(5_000),
        max_attempts,
        stable_run: ms(600),
        strikes: 2,
        notify_cap: 3,
        notify_bytes: 60,
        payload_max: 32,
        checkpoint_max: 12,
        grant_max: 8,
        ..Settings::default()
    }
}

/// A client of both stores.
pub(crate) struct Driver<'a> {
    sides: [&'a Backend; 2],
    /// Clients of level 2.
    newer: [Store; 2],
    is_newer: bool,
    inc: Incarnation,
    outdated: bool,
    max_attempts: u32,
    /// Every worker that ever joined, and one that never did.
    workers: Vec<WorkerId>,
    nonces: u32,
    /// Start events read and not routed yet.
    read: Vec<(EntryPair, Vec<(JobKey, u32)>)>,
    sent: Vec<Call>,
    /// Where the page after the last answer's begins.
    next: Option<JobKey>,
    /// The data that a loss leaves, and the incarnation they belong to.
    saved: Option<([Saved; 2], Incarnation)>,
    /// The records before the last loss.
    before: Vec<(usize, Record)>,
}

impl<'a> Driver<'a> {
    /// A driver of two fresh stores, with the pool open and one worker in it.
    pub(crate) async fn start(
        memory: &'a Backend,
        redis: &'a Backend,
        max_attempts: u32,
    ) -> Result<Self, String> {
        let newer = [memory.newer_client(), redis.newer_client()];
        memory.bless(&newer[0]).await;
        redis.bless(&newer[1]).await;
        let mut driver = Self {
            sides: [memory, redis],
            newer,
            is_newer: false,
            inc: Incarnation(0),
            outdated: false,
            max_attempts,
            workers: vec![WorkerId(7)],
            nonces: 0,
            read: Vec::new(),
            sent: Vec::new(),
            next: None,
            saved: None,
            before: Vec::new(),
        };
        for op in [
            Op::Bootstrap { seen: true, ended: 0, floor: 0 },
            Op::OpenNormal,
            Op::Join { preferred: None, again: false, other_settings: false },
        ] {
            driver.make(&op).await?;
        }
        Ok(driver)
    }

    /// Makes one move and compares.
    pub(crate) async fn make(&mut self, op: &Op) -> Result<(), String> {
        match op {
            Op::Outdated => {
                self.outdated = true;
                return Ok(());
            }
            Op::Client(newer) => {
                self.is_newer = *newer;
                return Ok(());
            }
            Op::Clock(step) => {
                for side in self.sides {
                    side.set_clock(side.now().saturating_add_signed(*step)).await;
                }
                return Ok(());
            }
            Op::Damage { key, kind } => {
                let damage = self.damage(*key, *kind).await;
                for side in self.sides {
                    side.write_record(&job(*key), &damage).await;
                }
            }
            Op::Stray { worker, key } => {
                for side in self.sides {
                    side.write_index(self.worker(*worker), &job(*key)).await;
                }
            }
            Op::LoseGroup if self.is_present().await => {
                for side in self.sides {
                    side.destroy_group().await;
                }
                self.call(read_pool(node(0), 1)).await?;
                self.call(same(RestoreGroup)).await?;
            }
            Op::Note { most, entry } => {
                self.call(same(Note { most: *most, entry: entry.to_string().into() })).await?;
                self.call(read_history(2)).await?;
            }
            Op::Look => {
                let items = (0..24).map(|id| (job(id), Some(dispatch_id(id)))).collect();
                self.call(same(LookUp { items })).await?;
                self.call(viewed(ListJobs { cursor: 0, limit: 1_000 }, |page, _| {
                    page.jobs.sort_by(|a, b| a.0.cmp(&b.0));
                }))
                .await?;
                self.call(viewed(ListParked { cursor: 0, limit: 1_000 }, |page, _| {
                    page.jobs.sort_by(|a, b| a.key.cmp(&b.key));
                }))
                .await?;
                self.call(same(ReadHeartbeats { workers: None })).await?;
                self.call(same(ReadDue { limit: 3 })).await?;
                self.call(viewed(ReadState, |state, _| {
                    if let PoolState::Present { run_id, .. } = state {
                        run_id.clear();
                    }
                }))
                .await?;
                self.call(same(ReadPayload { key: job(0) })).await?;
                self.call(same(ReadStatuses)).await?;
                for look in [0, 1, 4] {
                    self.call(same(ReadFigures { look, workers: self.workers.clone() })).await?;
                }
                for key in (0..KEYS.len()).map(job) {
                    self.call(same(ReadNotifications { key: key.clone(), from: 0 })).await?;
                    self.call(same(ReadCheckpoint { key: key.clone() })).await?;
                    self.call(same(Explain { key, id: None })).await?;
                }
                // Every third id is a caller's own.
                for id in 0..24 {
                    self.call(same(Explain { key: job(id), id: Some(dispatch_id(id)) })).await?;
                }
            }
            Op::Reopen if self.is_recovering().await => {
                for worker in self.workers.clone() {
                    self.call(end(vec![(worker, None)])).await?;
                }
                self.call(same(OpenNormal)).await?;
            }
            Op::Save if self.is_present().await => {
                let saved = [self.sides[0].save().await, self.sides[1].save().await];
                self.saved = Some((saved, self.inc));
            }
            Op::Lose { all, said } => {
                self.lose(*all).await?;
                for said in said {
                    self.attest(said).await?;
                }
            }
            Op::Attest(said) => self.attest(said).await?,
            Op::End => {
                for worker in self.workers.clone() {
                    self.call(end(vec![(worker, None)])).await?;
                    self.call(same(Reap { worker, limit: KEYS.len() })).await?;
                }
            }
            Op::Run(key) => self.run(*key).await?,
            Op::Route { read, extra, spread, aim } => self.route(*read, extra, *spread, *aim).await?,
            _ => {
                if let Some(call) = self.resolve(op).await {
                    self.call(call).await?;
                }
            }
        }
        self.compare_states(op).await
    }

    async fn compare_states(&self, op: &Op) -> Result<(), String> {
        let [memory, redis] = [self.sides[0].dump().await, self.sides[1].dump().await];
        if memory == redis {
            return Ok(());
        }
        let [ours, theirs] = [memory.lines(), redis.lines()];
        let only = |these: &[String], those: &[String], mark: &str| -> Vec<_> {
            let missing = these.iter().filter(|line| !those.contains(line));
            missing.map(|line| format!("{mark} {line}")).collect()
        };
        let difference =
            [only(&ours, &theirs, "memory:"), only(&theirs, &ours, "redis: ")].concat().join("\n");
        Err(format!("the states differ after {op:?}, resolved to {:?}:\n{difference}", self.sent.last()))
    }

    async fn call(&mut self, call: Call) -> Result<Vec<EntryPair>, String> {
        let inc = Incarnation(self.inc.0 - u64::from(std::mem::take(&mut self.outdated)));
        let client = |side: usize| if self.is_newer { &self.newer[side] } else { &self.sides[side].store };
        let memory = call.perform(client(0), 0, inc).await;
        let redis = call.perform(client(1), 1, inc).await;
        if memory.text != redis.text {
            return Err(format!("{call:?}\n  memory: {}\n  redis:  {}", memory.text, redis.text));
        }
        self.workers.extend(memory.joined.filter(|worker| !self.workers.contains(worker)));
        self.inc = memory.incarnation.unwrap_or(self.inc);
        self.next = memory.next;
        self.sent.push(call);
        let pair = |(ours, theirs): (&PoolEvent, &PoolEvent)| [ours.entry, theirs.entry];
        let pairs: Vec<_> = memory.events.iter().zip(&redis.events).map(pair).collect();
        self.read.extend(pairs.iter().copied().zip(memory.events.into_iter().map(|event| event.jobs)));
        Ok(pairs)
    }

    /// Loses what came after the last save, or everything.
    async fn lose(&mut self, all: bool) -> Result<(), String> {
        let mut records = Vec::new();
        for key in 0..KEYS.len() {
            records.extend(self.record(key).await.map(|record| (key, record)));
        }
        self.before = records;
        if all {
            for side in self.sides {
                side.wipe().await;
            }
            self.saved = None;
            let seen = Seen { incarnation: self.inc, ..Seen::default() };
            return self.call(self.bootstrap(seen)).await.map(drop);
        }
        if let Some((saved, inc)) = &self.saved {
            for (side, saved) in self.sides.into_iter().zip(saved) {
                side.roll_back(saved).await;
            }
            self.inc = *inc;
        }
        self.call(recover(Seen::default())).await.map(drop)
    }

    /// A worker attests, and has its last word.
    async fn attest(&mut self, said: &Said) -> Result<(), String> {
        let worker = self.worker(said.worker);
        let mut items = Vec::new();
        for job in &said.jobs {
            items.extend(self.attested(worker, job).await);
        }
        let place = ["U|0", "U|1", "P|-", "G|1", "G|-", "U|3"][said.member];
        let level = 1 + u32::from(self.is_newer);
        let entry = format!("{place}|600000|{worker}|node0|meta|{level}|http://n:{}", said.member);
        let member = Member::parse(entry.as_bytes()).unwrap();
        self.call(same(AttestJobs { worker, member, items })).await?;
        let Some(limit) = said.attends else { return Ok(()) };
        let mut after = None;
        loop {
            let attend = Attend { worker, after, limit };
            self.call(viewed(attend, |next, answer| answer.next.clone_from(next))).await?;
            after = self.next.take();
            if after.is_none() {
                return Ok(());
            }
        }
    }

    async fn updates(&self, items: &[(usize, Aim, i64, usize)]) -> Vec<UpdateItem> {
        let mut updates = Vec::new();
        for (key, aim, ahead, len) in items {
            let key = self.near(*key, &[Running, Queued, Assigned, Parked, Stopping], None).await;
            let (guess, record) = (self.guess(key, *aim).await, self.record(key).await);
            let generation = record.as_ref().map_or(0, Record::generation).saturating_add_signed(*ahead);
            let id = record.map_or_else(|| dispatch_id(key), |record| record.id);
            updates.push(UpdateItem { key: job(key), id, generation, guess, payload: body(*len) });
        }
        updates
    }

    async fn steers(&self, jobs: &[(usize, Aim, Aim, usize)]) -> Vec<SteerItem> {
        let mut items = Vec::new();
        for (key, right_owner, right_time, way) in jobs {
            let key = self.near(*key, &[Running, Queued, Assigned, Parked, Stopping], None).await;
            let (guess, record) = (self.guess(key, *right_owner).await, self.record(key).await);
            let since = record.as_ref().map_or(0, |record| record.since) + u64::from(!right_time);
            let token = record.as_ref().map_or(Token(0), |record| record.token);
            let id = record.map_or_else(|| dispatch_id(key), |record| record.id);
            let way = Way::ALL[*way];
            let reason = if matches!(way, Way::Park | Way::Pause) { "op|steered" } else { "" }.to_owned();
            items.push(SteerItem { key: job(key), id, token, since, way, guess, reason });
        }
        items
    }

    async fn attested(&self, worker: WorkerId, said: &Attested) -> Option<AttestItem> {
        let owned = |record: &Record| !said.right_worker || record.owner == Some(worker);
        let (key, record) = if said.before {
            let mut known = self.before.iter().filter(|(_, record)| owned(record)).cycle();
            known.nth(said.key).cloned()?
        } else {
            let owner = Some(worker).filter(|_| said.right_worker);
            let key = self.near(said.key, &[Running, Stopping, Queued, Assigned, Parked], owner).await;
            (key, self.record(key).await?)
        };
        let generation =
            (record.generation() + u64::from(said.token == 1)).saturating_sub(said.what as u64 / 4);
        let id = if said.right_id { record.id } else { dispatch_id(said.key) };
        let plan = if record.plan.is_empty() && said.key == 9 { "a".to_owned() } else { record.plan };
        let what = match said.what {
            0 => {
                let outcome = ["", "ok", "e:no"][said.key % 3].to_owned();
                let unless = said.key.is_multiple_of(2).then(|| LaterPayload {
                    than: generation.saturating_sub(u64::from(said.payload)),
                    begun: [Begun::Begun, Begun::Started][said.key / 2 % 2],
                    rest: [None, Some((Cause::Paused, "so".to_owned()))][said.key / 4 % 2].clone(),
                });
                Attest::Ended { outcome, unless }
            }
            what @ (1 | 2) => {
                let error = "boom".to_owned();
                let modes = [
                    ReleaseMode::HandOff,
                    ReleaseMode::GiveBack,
                    ReleaseMode::Refuse,
                    ReleaseMode::Fail,
                    ReleaseMode::Park,
                    ReleaseMode::Elsewhere { workers: 2 },
                ];
                let mode = modes[said.key % modes.len()];
                let (attempts, delay) = (said.key as u32 * 3, Duration::from_millis((what as u64 - 1) * 700));
                let begun = [Begun::Begun, Begun::Started][said.key % 2];
                Attest::HandedOff(HandedOff {
                    begun,
                    mode,
                    cause: Cause::ALL[said.key % 13],
                    attempts,
                    delay,
                    error,
                })
            }
            _ => Attest::Runs {
                back: said.payload && said.key % 2 == 1,
                begun: record.begun.max(if said.what == 3 { Begun::Started } else { Begun::Never }),
                attempts: record.attempts,
                created: record.created,
                plan,
                generation,
                payload: said.payload.then(|| body(said.what)),
            },
        };
        Some(AttestItem {
            key: job(key),
            token: Token(record.token.0.saturating_add_signed(said.token)),
            id: if said.elsewhere { from_another_node(id) } else { id },
            what,
        })
    }

    /// Reads start events and routes them, with other jobs mixed in.
    async fn route(&mut self, read: usize, extra: &[usize], spread: usize, aim: bool) -> Result<(), String> {
        self.call(read_pool(node(read), read)).await?;
        let (revision, up) = self.ring().await;
        let ring = Revision(revision.0 - u64::from(!aim).min(revision.0));
        let taken: Vec<_> = self.read.drain(..read.min(self.read.len())).collect();
        let (pairs, jobs): (Vec<_>, Vec<_>) = taken.into_iter().unzip();
        let mut keys: Vec<_> = jobs.into_iter().flatten().map(|(key, _)| key).collect();
        for key in extra {
            keys.push(job(self.near(*key, &[Queued], None).await));
        }
        let worker = |at: usize| up.get(at % up.len().max(1)).copied();
        let jobs: Vec<_> =
            keys.into_iter().enumerate().map(|(at, key)| (key, worker(at / spread + read))).collect();
        let route = |side| Route { ring, entries: entries(&pairs, side), jobs: jobs.clone() };
        self.call(of_side(route)).await.map(drop)
    }

    /// Routes a queued job and begins it.
    async fn run(&mut self, key: usize) -> Result<(), String> {
        let key = self.near(key, &[Queued], None).await;
        let (ring, up) = self.ring().await;
        let worker = up.get(key % up.len().max(1)).copied();
        self.call(same(Route { ring, entries: Vec::new(), jobs: vec![(job(key), worker)] })).await?;
        if let Some(owner) = self.record(key).await.and_then(|record| record.owner) {
            let token = self.token(key, true).await;
            let of = WorkerBegins { worker: owner, finished: Vec::new(), jobs: vec![(job(key), token)] };
            self.call(same(Begin { begins: vec![of] })).await?;
        }
        Ok(())
    }

    async fn resolve(&mut self, op: &Op) -> Option<Call> {
        Some(match op {
            Op::Join { preferred, again, other_settings } => {
                self.nonces += u32::from(!again);
                let mut settings = settings(self.max_attempts);
                settings.max_queued += u64::from(*other_settings);
                let request = Box::new(JoinRequest {
                    nonce: Nonce::new(format!("nonce{}", self.nonces)).unwrap(),
                    node: node(0),
                    meta: "meta".into(),
                    address: "http://n:1".into(),
                    preferred: *preferred,
                    settings,
                });
                viewed(Join { request }, |seat, answer| answer.joined = Some(seat.worker))
            }
            Op::Raise(level) => same(RaiseLevel { level: *level }),
            Op::Cordon { node: at, on, aim } => {
                let (revision, _) = self.ring().await;
                let seen = Revision(revision.0.saturating_sub(u64::from(!aim)));
                same(Cordon { seen, node: node(*at), on: *on })
            }
            Op::Settle(worker) => same(Settle { worker: self.worker(*worker) }),
            Op::ChangeSettings(changes) => {
                let stored = self.memory().settings().borrow().fields.clone();
                let change = |&(setting, aim, to): &(usize, bool, u64)| {
                    let name =
                        ["max_queued", "notify_cap", "strikes", "later", "worker_ttl", "no|name"][setting];
                    let from = if aim { stored.get(name).cloned().unwrap_or_default() } else { "1".into() };
                    SettingChange { name: name.into(), from, to: to.to_string() }
                };
                same(ChangeSettings { changes: changes.iter().map(change).collect() })
            }
            Op::Drain(workers) => {
                same(Drain { workers: workers.iter().map(|worker| self.worker(*worker)).collect() })
            }
            Op::Leave(worker) => end(vec![(self.worker(*worker), None)]),
            Op::Expire(of) => {
                let counters = self.memory().read(&ReadHeartbeats { workers: None }).await.unwrap();
                let ended = |&(worker, leaves, aim): &(usize, bool, bool)| {
                    let worker = self.worker(worker);
                    let seq = counters.get(&worker).copied().unwrap_or(1) - u64::from(!aim);
                    (worker, (!leaves).then_some(seq))
                };
                end(of.iter().map(ended).collect())
            }
            Op::Reap { worker, limit } => same(Reap { worker: self.worker(*worker), limit: *limit }),
            Op::Renew { workers, node: name, ahead, floor } => {
                let token = Token(self.workers.last()?.0 + ahead);
                let workers = workers.iter().map(|worker| self.worker(*worker)).collect();
                let status = body(*floor as usize % 3);
                let seen = Seen { token, floor: *floor, ..Seen::default() };
                let looks_at_memory = floor % 2 == 1;
                let renew = Renew { seen, node: name.map(node), workers, status, looks_at_memory };
                viewed(renew, |renewal, _| {
                    renewal.run_id.clear();
                    // Each store has ids of its own.
                    let entries = renewal.streams.iter_mut().filter_map(|stream| stream.oldest.as_mut());
                    entries.for_each(|entry| *entry = EntryId::MIN);
                })
            }
            Op::Dispatch { jobs, placed } => {
                let mut items: Vec<_> = jobs.iter().map(|job| self.dispatched(job)).collect();
                let ring = self.place(items.iter_mut(), *placed).await;
                same(Dispatch { by: Placing::Ring(ring), items })
            }
            Op::NotifyOrStart { items, placed } => {
                let mut notes = Vec::new();
                for (job, aim, len) in items {
                    let guess = self.guess(job.key, *aim).await;
                    let start = self.dispatched(job);
                    notes.push(NotifyOrStartItem { start, guess, body: body(*len) });
                }
                let ring = self.place(notes.iter_mut().map(|note| &mut note.start), *placed).await;
                same(NotifyOrStart { ring, items: notes })
            }
            Op::Begin(of) => {
                let mut begins = Vec::new();
                for Drawn { jobs, finish, idle } in of {
                    let (worker, keys) =
                        self.held(jobs.iter().map(|job| job.0), &[Assigned, Assigned, Running]).await;
                    let mut items = Vec::new();
                    for (key, (_, aim)) in keys.into_iter().zip(jobs) {
                        items.push((job(key), self.token(key, *aim).await));
                    }
                    items.retain(|_| !idle);
                    begins.push((worker, self.oldest(worker, *finish).await, items));
                }
                let of = |side, (worker, pairs, jobs): &(_, Vec<EntryPair>, Vec<_>)| WorkerBegins {
                    worker: *worker,
                    finished: entries(pairs, side),
                    jobs: jobs.clone(),
                };
                of_side(|side| Begin { begins: begins.iter().map(|begins| of(side, begins)).collect() })
            }
            Op::Started(of) => {
                let mut starts = Vec::new();
                for (jobs, finish) in of {
                    let (worker, keys) = self.held(jobs.iter().map(|job| job.0), &[Running, Stopping]).await;
                    let mut items = Vec::new();
                    for (key, (_, aim, tell)) in keys.into_iter().zip(jobs) {
                        let token = self.token(key, *aim).await;
                        items.push(StartedItem { key: job(key), token, tell: tell.map(node) });
                    }
                    starts.push((worker, self.oldest(worker, *finish).await, items));
                }
                let of = |side, (worker, pairs, items): &(_, Vec<EntryPair>, Vec<_>)| WorkerStarts {
                    worker: *worker,
                    finished: entries(pairs, side),
                    items: items.clone(),
                };
                of_side(|side| Started { starts: starts.iter().map(|starts| of(side, starts)).collect() })
            }
            Op::Release { jobs, finish } => {
                let states = [Running, Stopping, Assigned];
                let (worker, keys) = self.held(jobs.iter().map(|job| job.key), &states).await;
                let mut items = Vec::new();
                for (key, job) in keys.into_iter().zip(jobs) {
                    items.push(self.released(key, job).await);
                }
                let pairs = self.oldest(worker, *finish).await;
                of_side(|side| Release { worker, finished: entries(&pairs, side), items: items.clone() })
            }
            Op::Stop { jobs, repeat, waiting } => {
                let mut items = Vec::new();
                for Stopped { key, right_id, right_owner, forbid, elsewhere } in jobs {
                    let key = self.near(*key, &[Running, Stopping, Parked, Queued], None).await;
                    let record = self.record(key).await;
                    let id =
                        record.filter(|_| *right_id).map_or_else(|| dispatch_id(key), |record| record.id);
                    let id = if *elsewhere { from_another_node(id) } else { id };
                    let guess = self.guess(key, *right_owner).await;
                    items.push(StopItem { key: job(key), id, guess, forbid: *forbid });
                }
                same(Stop { turn: None, repeat: *repeat, waiting: waiting.map(node), items })
            }
            Op::Unpark(jobs) => {
                let mut items = Vec::new();
                for (key, right_id) in jobs {
                    let key = self.near(*key, &[Parked, Parked, Running], None).await;
                    let record = self.record(key).await;
                    let id =
                        record.filter(|_| *right_id).map_or_else(|| dispatch_id(key), |record| record.id);
                    items.push((job(key), id));
                }
                same(Unpark { jobs: items })
            }
            Op::Steer(jobs) => same(Steer { items: self.steers(jobs).await }),
            Op::Sched { schedule, change, period, aim } => {
                let key = schedule_key(*schedule);
                let entry = self.schedule(*schedule).await;
                let period = Duration::from_millis(*period);
                let id = ScheduleId(entry.as_ref().map_or(1, |entry| entry.id.0) + u64::from(!aim));
                let revision = entry.as_ref().map_or(1, |entry| entry.revision) - u64::from(!aim);
                let term = entry.filter(|_| period.as_millis().is_multiple_of(2)).map(|entry| entry.term);
                let change = match change {
                    0..3 => ScheduleChange::Create { period, first: period / 2 },
                    3 | 4 => ScheduleChange::Period { id, revision, period },
                    _ => ScheduleChange::End { id, term },
                };
                same(ChangeSchedule { schedule: key, change })
            }
            Op::Term { node: name, items } => {
                let mut terms = Vec::new();
                for (schedule, life, leave, aim) in items {
                    let entry = self.schedule(*schedule).await;
                    terms.push(TermItem {
                        schedule: schedule_key(*schedule),
                        id: entry.as_ref().map_or(ScheduleId(1), |entry| entry.id),
                        life: *life,
                        leave: *leave,
                        seen: entry.filter(|_| *aim).map(|entry| (entry.term, entry.seq)),
                    });
                }
                same(HoldTurns { node: node(*name), items: terms })
            }
            Op::Tick { schedule, aim, ahead } => {
                let turn = self.turn(*schedule, *aim).await;
                let ticks = self.schedule(*schedule).await.map_or(0, |entry| entry.ticks);
                let turn = (turn.id, turn.term);
                same(TakeTick { schedule: schedule_key(*schedule), turn, number: ticks + ahead })
            }
            Op::DispatchPlanned { schedule, jobs, aim } => {
                let items = jobs.iter().map(|job| self.dispatched(job)).collect();
                same(Dispatch { by: Placing::Turn(self.turn(*schedule, *aim).await), items })
            }
            Op::StopPlanned { schedule, jobs, aim } => {
                let mut items = Vec::new();
                for (key, right_id, right_owner) in jobs {
                    let key = self.near(*key, &[Running, Queued, Stopping, Parked], None).await;
                    let record = self.record(key).await;
                    let id =
                        record.filter(|_| *right_id).map_or_else(|| dispatch_id(key), |record| record.id);
                    items.push(StopItem {
                        key: job(key),
                        id,
                        guess: self.guess(key, *right_owner).await,
                        forbid: false,
                    });
                }
                let turn = Some(self.turn(*schedule, *aim).await);
                same(Stop { turn, repeat: false, waiting: None, items })
            }
            Op::Planned { schedule, after, limit } => {
                let plan = schedule_key(*schedule).name;
                same(ListPlanned { plan, after: after.map(job), limit: *limit })
            }
            Op::Notify(items) => {
                let mut notes = Vec::new();
                for (key, aim, len) in items {
                    let key = self.near(*key, &[Running, Queued, Stopping], None).await;
                    let guess = self.guess(key, *aim).await;
                    notes.push(NotifyItem { key: job(key), guess, body: body(*len) });
                }
                same(Notify { items: notes })
            }
            Op::Update(items) => same(Update { turn: None, items: self.updates(items).await }),
            Op::UpdatePlanned { schedule, items, aim } => {
                let items = self.updates(items).await;
                same(Update { turn: Some(self.turn(*schedule, *aim).await), items })
            }
            Op::DropNotifications { key, behind } => {
                let key = self.near(*key, &[Running, Queued, Stopping], None).await;
                let through = self.notified().await.saturating_sub(*behind);
                same(DropNotifications { key: job(key), through })
            }
            Op::Take { jobs, finish } => {
                let (worker, keys) = self.held(jobs.iter().map(|job| job.0), &[Running]).await;
                let notified = self.notified().await;
                let mut items = Vec::new();
                for (key, (_, aim, behind)) in keys.into_iter().zip(jobs) {
                    let ack = notified.saturating_sub(*behind);
                    items.push(TakeItem { key: job(key), token: self.token(key, *aim).await, ack });
                }
                let pairs = self.oldest(worker, *finish).await;
                of_side(|side| Take { worker, finished: entries(&pairs, side), items: items.clone() })
            }
            Op::SaveStates(jobs) => {
                let (worker, keys) = self.held(jobs.iter().map(|job| job.0), &[Running, Stopping]).await;
                let mut items = Vec::new();
                for (key, &(_, aim, own, number, len)) in keys.into_iter().zip(jobs) {
                    let token = self.token(key, aim).await;
                    let given = if own { token } else { Token(token.0.saturating_sub(1)) };
                    items.push(SaveItem { key: job(key), token, given, number, bytes: body(len) });
                }
                same(Save { worker, items })
            }
            Op::Ask { items, node: at } => {
                let mut asks = Vec::new();
                for (number, &(key, owner, token, ahead, len)) in items.iter().enumerate() {
                    let key = self.near(key, &[Running, Stopping, Queued], None).await;
                    let guess = self.guess(key, owner).await;
                    let ask = AskEvent {
                        id: AskId { life: 1, number: number as u64 },
                        name: "name".into(),
                        token: self.token(key, token).await,
                        not_after: self.sides[0].now().saturating_add_signed(ahead),
                        poke: len == 0,
                        body: body(len),
                    };
                    asks.push(AskItem { key: job(key), guess, ask });
                }
                same(Ask { asker: node(*at), items: asks })
            }
            Op::Reply { jobs, finish } => {
                let (worker, keys) = self.held(jobs.iter().map(|job| job.0), &[Running, Stopping]).await;
                let sayings = [Word::Answer(body(9)), Word::Refused(body(3)), Word::Dropped, Word::Moved];
                let mut items = Vec::new();
                for (key, &(_, aim, asker, said)) in keys.into_iter().zip(jobs) {
                    let (token, id) = (self.token(key, aim).await, AskId { life: 1, number: said as u64 });
                    let said = sayings[said].clone();
                    items.push(ReplyItem { key: job(key), token, asker: node(asker), id, said });
                }
                let pairs = self.oldest(worker, *finish).await;
                of_side(|side| Reply { worker, finished: entries(&pairs, side), items: items.clone() })
            }
            Op::Sweep { limit, kick } => same(Sweep { limit: *limit, kick: *kick }),
            Op::Inspect { worker, keys } => {
                let mut held = Vec::new();
                for (key, aim) in keys {
                    held.push((self.worker(*worker), job(*key), self.token(*key, *aim).await));
                }
                same(Inspect { cursor: 0, limit: 512, held })
            }
            Op::Owned { worker, after, limit } => {
                same(ListOwned { worker: self.worker(*worker), after: after.map(job), limit: *limit })
            }
            Op::Read { node: at, max } => read_pool(node(*at), *max),
            Op::Claim { node: at, max } => claim_pool(node(*at), *max),
            Op::NodeEvents { node: at, max } => read_node(node(*at), &self.workers, *max),
            Op::Tell(ids) => {
                same(Tell { outcomes: ids.iter().map(|id| (dispatch_id(*id), "ok".to_owned())).collect() })
            }
            Op::Shutdown(mode) => {
                let closing = ShutdownMode::Closing(Duration::from_secs(2));
                let modes = [closing, ShutdownMode::DropQueued, ShutdownMode::Advance];
                same(ShutDown { by: node(1), mode: modes[*mode] })
            }
            Op::Purge => same(Purge { limit: KEYS.len() }),
            Op::Cleanup => same(CleanUp { tombstone: Duration::from_secs(3_600) }),
            Op::Bootstrap { seen, ended, floor } => {
                let incarnation = Incarnation(self.inc.0.saturating_sub(u64::from(!seen)));
                let (closed, floor) = (self.ended(*ended), *floor);
                self.bootstrap(Seen { incarnation, closed, floor, ..Seen::default() })
            }
            Op::Recover { ended, floor } => {
                recover(Seen { closed: self.ended(*ended), floor: *floor, ..Seen::default() })
            }
            Op::OpenNormal => same(OpenNormal),
            Op::Prune => same(PruneConsumers { idle: Duration::ZERO }),
            Op::ForgetNode(at) => same(ForgetNode { node: node(*at) }),
            Op::Resend(back) => self.sent.iter().rev().nth(*back)?.clone(),
            _ => return None,
        })
    }

    fn bootstrap(&self, seen: Seen) -> Call {
        let settings = Box::new(settings(self.max_attempts));
        let bootstrap = Bootstrap { seen, run_id: "process".to_owned(), settings };
        viewed(bootstrap, |made, answer| answer.incarnation = Some(made.incarnation))
    }

    /// A caller's knowledge of a pool that has ended.
    fn ended(&self, which: usize) -> Incarnation {
        Incarnation([0, self.inc.0.saturating_sub(1), self.inc.0][which])
    }

    fn memory(&self) -> &Store {
        &self.sides[0].store
    }

    async fn is_recovering(&self) -> bool {
        matches!(self.memory().read(&ReadState).await, Ok(PoolState::Present { recovering: true, .. }))
    }

    async fn is_present(&self) -> bool {
        matches!(self.memory().read(&ReadState).await, Ok(PoolState::Present { .. }))
    }

    /// The ring's revision and the workers in it.
    async fn ring(&self) -> (Revision, Vec<WorkerId>) {
        match self.memory().read(&ReadState).await.unwrap() {
            PoolState::Present { incarnation, members, settings, .. } => {
                self.memory().expect(incarnation, members, settings);
                let entries = self.memory().members().borrow().entries.clone();
                let up = entries.into_iter().filter(|(_, member)| member.slot.is_some());
                (members, up.map(|(worker, _)| worker).collect())
            }
            _ => (Revision(0), Vec::new()),
        }
    }

    fn worker(&self, at: usize) -> WorkerId {
        self.workers[self.workers.len() - 1 - at % self.workers.len()]
    }

    async fn record(&self, key: usize) -> Option<Record> {
        let found = self.memory().read(&LookUp { items: vec![(job(key), None)] }).await.unwrap();
        found.into_iter().next().and_then(|found| found.record)
    }

    /// The next key whose record is in the first of these states in which there is any, if there is one.
    async fn near(&self, key: usize, states: &[JobState], owner: Option<WorkerId>) -> usize {
        if key >= KEYS.len() {
            return key % KEYS.len();
        }
        let keys = (0..KEYS.len()).map(|step| (key + step) % KEYS.len());
        let asked: Vec<_> = keys.clone().map(|key| (job(key), None)).collect();
        let found = self.memory().read(&LookUp { items: asked.clone() }).await.unwrap();
        let records: Vec<_> = keys.zip(found).filter_map(|(key, found)| Some((key, found.record?))).collect();
        let fits = |record: &Record| owner.is_none() || record.owner == owner;
        let rotated = (0..states.len()).map(|step| states[(key + step) % states.len()]);
        let mut candidates = rotated.flat_map(|state| records.iter().filter(move |(_, r)| r.state == state));
        candidates.find(|(_, record)| fits(record)).map_or(key, |(key, _)| *key)
    }

    /// Keys of one worker, and the worker.
    async fn held(&self, keys: impl Iterator<Item = usize>, states: &[JobState]) -> (WorkerId, Vec<usize>) {
        let mut held = Vec::new();
        let mut owner = None;
        for key in keys {
            let key = self.near(key, states, owner).await;
            owner = owner.or(self.record(key).await.and_then(|record| record.owner));
            held.push(key);
        }
        (owner.unwrap_or_else(|| self.worker(held[0])), held)
    }

    /// A schedule as it stands.
    async fn schedule(&self, at: usize) -> Option<ScheduleEntry> {
        match self.sides[0].dump().await.get("schedules") {
            Some(Content::Hash(schedules)) => {
                let text = schedules.get(&Text::from(schedule_key(at).to_string()))?.to_string();
                ScheduleEntry::parse(&text)
            }
            _ => None,
        }
    }

    /// The turn of a schedule's holder, or one that is over.
    async fn turn(&self, at: usize, aim: bool) -> Turn {
        let entry = self.schedule(at).await;
        let term = entry.as_ref().map_or(1, |entry| entry.term.0);
        Turn {
            plan: schedule_key(at).name,
            id: entry.map_or(ScheduleId(1), |entry| entry.id),
            term: Term(term - u64::from(!aim).min(term)),
        }
    }

    /// How many notifications were ever stored: their numbers are below.
    async fn notified(&self) -> u64 {
        match self.sides[0].dump().await.get("pool") {
            Some(Content::Hash(meta)) => {
                meta.get(&Text::from("notified")).and_then(|text| text.to_string().parse().ok()).unwrap_or(0)
            }
            _ => 0,
        }
    }

    async fn guess(&self, key: usize, aim: bool) -> Option<WorkerId> {
        let owner = self.record(key).await.and_then(|record| record.owner);
        if aim { owner } else { Some(self.worker(key)).filter(|_| key > 3) }
    }

    async fn token(&self, key: usize, aim: bool) -> Token {
        let token = self.record(key).await.map_or(Token(1), |record| record.token);
        Token(token.0 - u64::from(!aim).min(token.0))
    }

    /// The oldest entry of a worker's stream, on both stores.
    async fn oldest(&self, worker: WorkerId, wanted: bool) -> Vec<EntryPair> {
        let memory = self.sides[0].store.oldest(worker).await;
        let redis = self.sides[1].store.oldest(worker).await;
        match (memory, redis) {
            (Some(ours), Some(theirs)) if wanted => vec![[ours, theirs]],
            _ => Vec::new(),
        }
    }

    /// Names a worker for each job, and returns the ring that it is from.
    async fn place(
        &self,
        items: impl Iterator<Item = &mut DispatchItem>,
        placed: Option<(usize, Aim)>,
    ) -> Revision {
        let (revision, up) = self.ring().await;
        let Some((first, aim)) = placed else { return Revision(0) };
        for (at, item) in items.enumerate() {
            // Every fourth is left to the routers.
            let worker = up.get((first + at) % up.len().max(1)).copied();
            item.worker = worker.filter(|_| (first + at) % 4 != 3);
        }
        Revision(revision.0.saturating_sub(u64::from(!aim)))
    }

    fn dispatched(&self, job_: &Dispatched) -> DispatchItem {
        DispatchItem {
            key: job(job_.key),
            id: dispatch_id(job_.id),
            not_after: self.sides[0].now().saturating_add_signed(job_.deadline),
            hash: if job_.hash == 0 { String::new() } else { "digest".to_owned() },
            payload: body(job_.size),
            worker: None,
            awaited: job_.id.is_multiple_of(2),
        }
    }

    async fn released(&self, key: usize, release: &Released) -> ReleaseItem {
        let modes = [
            ReleaseMode::Delete,
            ReleaseMode::HandOff,
            ReleaseMode::Refuse,
            ReleaseMode::Fail,
            ReleaseMode::GiveBack,
            ReleaseMode::Park,
            ReleaseMode::Elsewhere { workers: release.delay as u32 % 4 },
        ];
        ReleaseItem {
            key: job(key),
            token: self.token(key, release.aim).await,
            mode: modes[release.mode],
            cause: Cause::ALL[(release.mode + 5 * release.result) % Cause::ALL.len()],
            ran: release.ran,
            rests: RESULTS[3 - release.result].to_owned(),
            delay: Duration::from_millis(release.delay),
            tell: release.tell.map(node),
            tell_stopper: release.tell_stopper.map(node),
            result: RESULTS[release.result].to_owned(),
        }
    }

    /// The bytes in the place of a record: damage, another version, or fields of a later one.
    async fn damage(&self, key: usize, kind: usize) -> Vec<u8> {
        let record = self.record(key).await.map(|record| record.to_string());
        let text = match (kind, record) {
            (0, _) | (4, None) => "rubbish".to_owned(),
            (1, _) | (5, None) => "2|Q||0|0|0|1|node0.g0|1||0|".to_owned(),
            (2, _) => "1|Z||0|0|0|1|node0.g0|1||0|".to_owned(),
            (3, _) => "1|Q||0|0|0|1|node0|1||0|".to_owned(),
            (4, Some(record)) => record.chars().take(record.len() / 2).collect(),
            (_, Some(record)) => format!("{record}|later"),
            (_, None) => String::new(),
        };
        text.into_bytes()
    }
}

fn end(workers: Vec<(WorkerId, Option<u64>)>) -> Call {
    same(Expire { workers })
}

fn recover(seen: Seen) -> Call {
    let recover = Recover { seen, run_id: "process".to_owned(), lost: String::new() };
    viewed(recover, |next, answer| answer.incarnation = Some(*next))
}

fn job(at: usize) -> JobKey {
    JobKey::try_from(KEYS[at % KEYS.len()]).unwrap()
}

/// One of two plans and two tickers, whose names agree.
fn schedule_key(at: usize) -> ScheduleKey {
    let kind = if at < 2 { ScheduleKind::Plan } else { ScheduleKind::Ticker };
    ScheduleKey { kind, name: ScheduleName::new(["a", "a."][at % 2]).unwrap() }
}

fn node(at: usize) -> NodeName {
    NodeName::new(format!("node{}", at % 3)).unwrap()
}

/// One of 24 dispatches; every third carries a caller's own id, which different nodes may use.
fn dispatch_id(at: usize) -> DispatchId {
    let own = if at.is_multiple_of(3) { format!("!own{}", at % 4) } else { format!("g{at}") };
    format!("node{}.{own}", (at + at / 12) % 2).parse().unwrap()
}

/// A caller's own id as another node gives it; a node's own id stays.
fn from_another_node(id: DispatchId) -> DispatchId {
    id.caller_id().map(|own| DispatchId::of_caller(&node(2), own).unwrap()).unwrap_or(id)
}
