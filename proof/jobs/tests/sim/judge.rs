//! The judge: after each step it compares the records with those before, and the indexes with the records.

use std::collections::{BTreeMap, BTreeSet};
use std::hash::{DefaultHasher, Hash, Hasher};

use tenure_jobs::store::{
    Adding, Attesting, Content, Dump, Lane, Request, Settle, SettleReply, Settling, Steer,
};
use tenure_jobs::{Record, State};

use super::world::rules;

/// A step, as far as it may change jobs.
pub(crate) enum Word<'a> {
    Add(&'a Lane, &'a Adding),
    Take(&'a Lane),
    Settle(&'a Lane, &'a [Settling], &'a [SettleReply]),
    Steer(&'a [Request]),
    Attest(&'a [Attesting]),
    Tick,
    /// Changes no job's state.
    Other,
    /// Changes nothing.
    Read,
}

/// A handler that is there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Alive {
    pub(crate) id: String,
    pub(crate) token: u64,
    pub(crate) life: String,
}

/// An end that was answered.
struct Finished {
    birth: String,
    token: u64,
    /// The life of the node that has said it, and the time.
    life: String,
    at: u64,
    /// The data know it: there was no loss since, or they were told in time.
    is_known: bool,
}

#[derive(Default)]
pub(crate) struct Judge {
    last: Dump,
    records: BTreeMap<String, Record>,
    highest: u64,
    /// The token of the jobs that this step begins.
    current: BTreeSet<u64>,
    /// The last call of each lane that was seen.
    lanes: BTreeMap<String, u128>,
    /// How many jobs have begun, by group and window.
    begun: BTreeMap<(String, u64), u32>,
    /// Executions that were ever given out: their birth, and the step.
    issued: BTreeMap<(String, u64), (String, u64)>,
    /// The step of the last word from outside that wants another execution of a job, or none at all, since the last loss.
    asked: BTreeMap<String, u64>,
    /// Executions whose leases were lost.
    lapsed: BTreeSet<(String, u64)>,
    /// Jobs whose end was answered.
    finished: BTreeMap<String, Finished>,
    pub(crate) seen: BTreeSet<String>,
    /// Executions whose handlers have ended by themselves.
    pub(crate) returned: BTreeSet<(String, u64)>,
    /// Executions whose handlers have succeeded.
    pub(crate) succeeded: BTreeSet<(String, u64)>,
    pub(crate) handlers: Vec<Alive>,
    /// Lives of nodes that go on, and those whose worker was closed.
    pub(crate) lives: BTreeSet<String>,
    pub(crate) closed: BTreeSet<String>,
    /// Lives of parents that were removed, as `id#birth`: their children go with them.
    removed: BTreeSet<String>,
    /// Jobs that were steered since the last loss, or went with their parents.
    pub(crate) steered: BTreeSet<String>,
    pub(crate) begins: u64,
    pub(crate) steps: u64,
    pub(crate) losses: u64,
    pub(crate) violations: Vec<String>,
    digest: DefaultHasher,
}

fn over(state: State) -> bool {
    matches!(state, State::Done | State::Failed | State::Cancelled)
}

fn parsed(dump: &Dump) -> BTreeMap<String, Record> {
    let jobs = dump.get("jobs").into_iter().flatten();
    jobs.map(|(id, text)| (id.clone(), Record::parse(text).unwrap())).collect()
}

impl Judge {
    pub(crate) fn object(&mut self, now: u64, to: impl Into<String>) {
        let to = to.into();
        self.violations.push(format!("at {now}: {to}"));
    }

    pub(crate) fn digest(&self) -> u64 {
        self.digest.finish()
    }

    pub(crate) fn records(&self) -> &BTreeMap<String, Record> {
        &self.records
    }

    /// Data were lost, or went back. In a quiet time the nodes tell them at once what they know.
    pub(crate) fn lost(&mut self, dump: Dump, quiet: bool) {
        self.asked.clear();
        for finished in self.finished.values_mut() {
            finished.is_known &= quiet;
        }
        self.records = parsed(&dump);
        self.last = dump;
        // The parent may be there again. Its children go only if it is not.
        let last = &self.last;
        self.removed.retain(|life| last.value("timers", &format!("x:{life}")).is_some());
        self.lanes.clear();
        self.begun.clear();
        self.steered.clear();
        self.losses += 1;
    }

    pub(crate) fn after(&mut self, now: u64, life: &str, dump: Dump, word: &Word<'_>) {
        self.steps += 1;
        if dump == self.last {
            return;
        }
        if matches!(word, Word::Read) {
            self.object(now, "a step that reads has written");
        }
        let (old, new) = (std::mem::take(&mut self.records), parsed(&dump));
        now.hash(&mut self.digest);
        for (id, text) in dump.get("jobs").into_iter().flatten() {
            (id, text).hash(&mut self.digest);
        }
        self.lane(now, word, &old, &new);
        self.current.clear();
        for id in old.keys().chain(new.keys()).collect::<BTreeSet<_>>() {
            if old.get(id) != new.get(id) {
                self.changed(now, word, id, old.get(id), new.get(id), &dump);
            }
        }
        self.settled(now, word, &old, &new);
        self.told(life, word, &old);
        self.left_behind(now, &new, &dump);
        let wrong = indexes(&new, &dump);
        for what in wrong {
            self.object(now, what);
        }
        self.limits(now, word, &old, &new);
        (self.records, self.last) = (new, dump);
    }

    /// A call takes effect once.
    fn lane(
        &mut self,
        now: u64,
        word: &Word<'_>,
        old: &BTreeMap<String, Record>,
        new: &BTreeMap<String, Record>,
    ) {
        let (Word::Add(lane, ..) | Word::Take(lane) | Word::Settle(lane, ..)) = word else { return };
        let last = self.lanes.entry(lane.name.clone()).or_default();
        if lane.number <= *last && old != new {
            self.object(now, format!("a call came twice and took effect twice: {lane:?}"));
        } else {
            *last = lane.number.max(*last);
        }
    }

    fn changed(
        &mut self,
        now: u64,
        word: &Word<'_>,
        id: &str,
        old: Option<&Record>,
        new: Option<&Record>,
        dump: &Dump,
    ) {
        let steers = |what: fn(&Steer) -> bool| {
            let Word::Steer(requests) = word else { return false };
            requests
                .iter()
                .any(|request| matches!(request, Request::Job(of, steer) if *of == *id && what(steer)))
        };
        match (old, new) {
            (None, Some(new)) => {
                let named = match word {
                    Word::Add(_, adding) => adding.jobs.iter().any(|job| job.id == id),
                    Word::Attest(jobs) => jobs.iter().any(|job| job.id == id),
                    _ => false,
                };
                if !named {
                    self.object(now, format!("{id} came from nowhere: {new}"));
                }
                self.seen.insert(id.to_owned());
                if matches!(word, Word::Add(..)) {
                    self.asked.insert(id.to_owned(), self.steps);
                }
            }
            (Some(old), None) => {
                let with_parent = matches!(word, Word::Tick) && self.removed.contains(&old.parent);
                let removed = with_parent || steers(|steer| matches!(steer, Steer::Remove));
                if removed {
                    self.removed.insert(format!("{id}#{}", old.birth));
                    self.steered.insert(id.to_owned());
                    self.finished.remove(id);
                }
                let went = match word {
                    Word::Settle(_, jobs, replies) => jobs.iter().zip(*replies).any(|(job, reply)| {
                        job.id == id && job.token == old.token && *reply == SettleReply::Ended
                    }),
                    Word::Tick => over(old.state) || with_parent,
                    _ => steers(|steer| matches!(steer, Steer::Remove)),
                };
                if !went {
                    self.object(now, format!("{id} is lost: it was {old}"));
                }
                if removed || steers(|_| true) {
                    self.asked.insert(id.to_owned(), self.steps);
                }
                self.ended(now, word, id, old);
            }
            (Some(before), Some(after)) => self.moved(now, word, id, (before, after), dump, steers(|_| true)),
            (None, None) => {}
        }
        if steers(|_| true) {
            self.steered.insert(id.to_owned());
            self.finished.remove(id);
        }
        let runs = new.filter(|new| new.state == State::Running);
        let begins =
            runs.filter(|new| old.is_none_or(|old| (old.state, old.token) != (new.state, new.token)));
        if let Some(new) = begins {
            self.began(now, word, id, old, new, dump);
        }
    }

    /// The children of a removed parent go with it: at once, or in the ticks that follow.
    fn left_behind(&mut self, now: u64, jobs: &BTreeMap<String, Record>, dump: &Dump) {
        let stays = |job: &Record| {
            let goes = dump.value("timers", &format!("x:{}", job.parent)).is_some();
            self.removed.contains(&job.parent) && !goes
        };
        let left: Vec<_> = jobs.iter().filter(|(_, job)| stays(job)).map(|(id, _)| id.clone()).collect();
        for id in left {
            self.object(now, format!("{id} was left behind by its parent"));
        }
    }

    /// An execution has ended its job.
    fn ended(&mut self, now: u64, word: &Word<'_>, id: &str, old: &Record) {
        if !matches!(word, Word::Settle(..)) {
            return;
        }
        if old.again.is_some() {
            self.object(now, format!("{id} was asked for again and has ended: {old}"));
        }
        let began = self.issued.get(&(id.to_owned(), old.token.0)).map(|(_, step)| *step);
        if self.asked.get(id) > began.as_ref() {
            self.object(
                now,
                format!("{id} was asked for after this run of it began, which has ended it: {old}"),
            );
        }
    }

    fn moved(
        &mut self,
        now: u64,
        word: &Word<'_>,
        id: &str,
        (old, new): (&Record, &Record),
        dump: &Dump,
        steered: bool,
    ) {
        if over(old.state) && !over(new.state) {
            let anew = matches!(word, Word::Add(..) | Word::Attest(_)) || steered;
            if !anew {
                self.object(now, format!("{id} has ended and goes on: {old} {new}"));
            }
        }
        let waits = |state| matches!(state, State::Ready | State::Delayed | State::Paused);
        let asks = matches!(word, Word::Add(..)) && (over(old.state) || waits(old.state));
        if asks || steered && over(old.state) != over(new.state) {
            self.asked.insert(id.to_owned(), self.steps);
        }
        if !over(old.state) && over(new.state) {
            self.ended(now, word, id, old);
        }
        if new.token < old.token {
            self.object(now, format!("{id} has a lower token: {old} {new}"));
        }
        if new.attempts > old.attempts && !matches!(word, Word::Take(_) | Word::Attest(_)) {
            self.object(now, format!("{id} has more attempts than runs: {old} {new}"));
        }
        if old.state == State::Running && (new.state != State::Running || new.token != old.token) {
            let by_its_own = match word {
                Word::Settle(_, jobs, replies) => jobs.iter().zip(*replies).any(|(job, reply)| {
                    job.id == id && job.token == old.token && *reply != SettleReply::Halt
                }),
                Word::Tick => {
                    let until = self.last.value("leases", id).and_then(|at| at.parse::<u64>().ok());
                    let grace = self.last.value("meta", "grace").and_then(|at| at.parse::<u64>().ok());
                    if old.again.is_none() && new.state == State::Ready && new.attempts != old.attempts {
                        self.object(now, format!("{id} lost its lease and an attempt: {old} {new}"));
                    }
                    self.lapsed.insert((id.to_owned(), old.token.0));
                    until.is_none_or(|until| until <= now) && grace.is_none_or(|grace| grace <= now)
                }
                Word::Attest(_) => true,
                _ => steered,
            };
            if !by_its_own {
                self.object(now, format!("{id} was taken from who runs it: {old} {new}"));
            }
        }
        if old.state != State::Waiting && new.state == State::Waiting && !matches!(word, Word::Settle(..)) {
            self.object(now, format!("{id} waits for its children by itself: {old} {new}"));
        }
        let _ = dump;
    }

    fn began(
        &mut self,
        now: u64,
        word: &Word<'_>,
        id: &str,
        old: Option<&Record>,
        new: &Record,
        dump: &Dump,
    ) {
        let execution = (id.to_owned(), new.token.0);
        if matches!(word, Word::Attest(_)) {
            self.goes_on(now, &execution, old, new, dump);
            return;
        }
        self.begins += 1;
        if new.token.0 <= self.highest && !self.current.contains(&new.token.0) {
            self.object(now, format!("{id} began under a token that was given before: {new}"));
        }
        self.highest = self.highest.max(new.token.0);
        self.current.insert(new.token.0);
        if !matches!(word, Word::Take(_)) {
            self.object(now, format!("{id} began, and nobody took it: {new}"));
        }
        let Some(old) = old else {
            self.object(now, format!("{id} began and was not there: {new}"));
            return;
        };
        if old.state != State::Ready {
            self.object(now, format!("{id} began and was not ready: {old}"));
        }
        if old.due > now {
            self.object(now, format!("{id} began before its time: {old}"));
        }
        let most = if new.max > 0 { new.max } else { rules(new.queue.as_str()).max };
        if new.attempts != old.attempts + 1 || most > 0 && new.attempts > most {
            self.object(now, format!("{id} began with a wrong attempt: {old} {new}"));
        }
        if let Some(Finished { birth, life, at, is_known, .. }) = self.finished.get(id)
            && *birth == new.birth
            && *is_known
            && self.lives.contains(life)
            && !self.closed.contains(life)
            && now < at + 18_000
        {
            self.object(now, format!("{id} began again after its end was answered: {new}"));
        }
        self.issued.insert(execution, (new.birth.clone(), self.steps));
    }

    /// After a loss of data an execution is running again.
    fn goes_on(
        &mut self,
        now: u64,
        execution: &(String, u64),
        old: Option<&Record>,
        new: &Record,
        dump: &Dump,
    ) {
        let id = &execution.0;
        let Some((_, began)) = self.issued.get(execution) else {
            self.object(now, format!("{id} runs under a token that nobody has: {new}"));
            return;
        };
        let hold = dump.value("meta", "hold").and_then(|at| at.parse::<u64>().ok()).unwrap_or_default();
        if old.is_none() && self.finished.get(id).is_some_and(|finished| finished.token == new.token.0) {
            self.object(now, format!("{id} was made again after its end was answered: {new}"));
        } else if old.is_none() && now >= hold {
            // Its node was cut off for longer than the hold. The job was lost and not ended: it may run, though another one
            // under its id has come and gone meanwhile.
            self.asked.remove(id);
            self.finished.remove(id);
        } else if self.asked.get(id) > Some(began) {
            self.object(now, format!("{id} was asked for after this run of it began, which goes on: {new}"));
        }
    }

    /// A node tells the data what it has ended.
    fn told(&mut self, life: &str, word: &Word<'_>, old: &BTreeMap<String, Record>) {
        let mut knows = |id: &str, token: u64| {
            let finished = self.finished.get_mut(id);
            if let Some(finished) = finished.filter(|one| one.life == life && one.token == token) {
                finished.is_known = true;
            }
        };
        match word {
            Word::Settle(_, jobs, replies) => {
                let ends = jobs.iter().zip(*replies).filter(|(_, reply)| **reply == SettleReply::Ended);
                ends.for_each(|(job, _)| knows(job.id.as_str(), job.token.0));
            }
            Word::Attest(jobs) => {
                let gone = jobs.iter().filter(|job| !old.contains_key(job.id.as_str()));
                gone.for_each(|job| knows(job.id.as_str(), job.record.token.0));
            }
            _ => {}
        }
    }

    /// The fates of executions.
    fn settled(
        &mut self,
        now: u64,
        word: &Word<'_>,
        old: &BTreeMap<String, Record>,
        new: &BTreeMap<String, Record>,
    ) {
        let Word::Settle(_, jobs, replies) = word else { return };
        if replies.iter().all(|reply| *reply == SettleReply::Halt) && old != new {
            self.object(now, "a fenced word has written");
        }
        let mut touched = BTreeSet::new();
        for (job, reply) in jobs.iter().zip(*replies) {
            let valid = old
                .get(job.id.as_str())
                .is_some_and(|record| record.state == State::Running && record.token == job.token);
            let first = touched.insert(job.id.clone());
            if !valid && first && *reply != SettleReply::Halt && old != new {
                self.object(now, format!("{job:?} was settled and is not valid: {reply:?}"));
            }
        }
    }

    /// A worker has heard what became of its executions.
    pub(crate) fn heard(&mut self, life: &str, now: u64, jobs: &[Settling], replies: &[SettleReply]) {
        for (job, reply) in jobs.iter().zip(replies) {
            let token = job.token.0;
            let Some((birth, _)) = self.issued.get(&(job.id.to_string(), token)) else { continue };
            if *reply == SettleReply::Ended && matches!(job.settle, Settle::Done(..)) {
                let (birth, life) = (birth.clone(), life.to_owned());
                let finished = Finished { birth, token, life, at: now, is_known: true };
                self.finished.insert(job.id.to_string(), finished);
            }
        }
    }

    /// Limits of groups and concurrency are exact.
    fn limits(
        &mut self,
        now: u64,
        word: &Word<'_>,
        old: &BTreeMap<String, Record>,
        new: &BTreeMap<String, Record>,
    ) {
        if !matches!(word, Word::Take(_)) {
            return;
        }
        let begun: Vec<_> = new
            .iter()
            .filter(|(id, job)| {
                job.state == State::Running && old.get(*id).is_none_or(|old| old.state != State::Running)
            })
            .map(|(_, job)| (job.queue.to_string(), job.group.clone()))
            .collect();
        for (queue, group) in begun {
            let rules = rules(&queue);
            let running = |of: &dyn Fn(&Record) -> bool| {
                new.values()
                    .filter(|job| job.state == State::Running && job.queue == *queue && of(job))
                    .count()
            };
            if rules.concurrency > 0 && running(&|_| true) > rules.concurrency {
                self.object(now, format!("more than {} run in {queue}", rules.concurrency));
            }
            if rules.group_concurrency > 0 && running(&|job| job.group == group) > rules.group_concurrency {
                self.object(now, format!("more than {} of {group} run in {queue}", rules.group_concurrency));
            }
            if let Some((most, window)) = rules.group_limit {
                let begun = self.begun.entry((format!("{queue}|{group}"), now / window)).or_default();
                *begun += 1;
                if *begun > most {
                    self.object(now, format!("more than {most} of {group} began in a window"));
                }
            }
        }
    }

    pub(crate) fn begins(&mut self, now: u64, alive: Alive) {
        let other =
            |one: &&Alive| one.id == alive.id && one.token != alive.token && self.lives.contains(&one.life);
        let lapsed = |one: &&Alive| self.lapsed.contains(&(one.id.clone(), one.token));
        if let Some(one) = self.handlers.iter().filter(other).find(lapsed) {
            let what = format!("two handlers of a job: {one:?}, and now {alive:?}");
            self.object(now, what);
        }
        if self.closed.contains(&alive.life) {
            self.object(now, format!("a closed worker has begun {alive:?}"));
        }
        self.handlers.push(alive);
    }

    pub(crate) fn ends(&mut self, alive: &Alive) {
        if let Some(at) = self.handlers.iter().position(|one| one == alive) {
            self.handlers.remove(at);
        }
    }
}

fn members(dump: &Dump, key: &str, prefix: &str) -> BTreeSet<String> {
    let content = dump.get(key).into_iter().flat_map(Content::keys);
    content.filter(|member| member.starts_with(prefix)).cloned().collect()
}

/// The differences between the indexes and the records.
fn indexes(jobs: &BTreeMap<String, Record>, dump: &Dump) -> Vec<String> {
    let mut wrong = Vec::new();
    let mut compare = |what: &str, are: BTreeSet<String>, should: BTreeSet<String>| {
        if are != should {
            let only: Vec<_> = are.symmetric_difference(&should).collect();
            wrong.push(format!("{what} and the records differ: {only:?}"));
        }
    };
    let in_state = |state: State| jobs.iter().filter(move |(_, job)| job.state == state);
    let ready = in_state(State::Ready).map(|(id, job)| {
        if rules(job.queue.as_str()).grouped {
            format!("{}|{}|{}{id}", job.queue, job.group, job.place)
        } else {
            format!("{}|{}{id}", job.queue, job.place)
        }
    });
    compare("ready", members(dump, "ready", ""), ready.collect());
    compare(
        "leases",
        members(dump, "leases", ""),
        in_state(State::Running).map(|(id, _)| id.clone()).collect(),
    );
    let delayed = in_state(State::Delayed).map(|(id, _)| format!("d:{id}"));
    compare("timers of the delayed", members(dump, "timers", "d:"), delayed.collect());
    let dead = in_state(State::Failed).map(|(id, job)| format!("f:{}|{}{id}", job.queue, job.place));
    compare("dead letters", members(dump, "index", "f:"), dead.collect());
    let ended = jobs.iter().filter(|(_, job)| over(job.state)).map(|(id, _)| format!("r:{id}"));
    compare("timers of retention", members(dump, "timers", "r:"), ended.collect());
    compare("bodies", members(dump, "bodies", ""), jobs.keys().cloned().collect());
    let results = jobs.iter().filter(|(_, job)| job.flags.contains('j')).map(|(id, _)| format!("r:{id}"));
    compare("results", members(dump, "extras", "r:"), results.collect());
    let failed = jobs.iter().filter(|(_, job)| job.flags.contains('b'));
    let failed = failed.map(|(id, job)| format!("b:{id}#{}", job.birth));
    compare("failed children", members(dump, "extras", "b:"), failed.collect());
    let watched = jobs.iter().filter(|(_, job)| job.flags.contains('w')).map(|(id, _)| format!("s:{id}"));
    compare("watchers", members(dump, "extras", "s:"), watched.collect());
    let counts = |job: &Record| !job.parent.is_empty() && !job.flags.contains('e');
    let child = |(id, job): (&String, &Record)| counts(job).then(|| format!("o:{}|{id}", job.parent));
    compare("open children", members(dump, "index", "o:"), jobs.iter().filter_map(child).collect());
    // A child that was abandoned has no outcome.
    let ends = members(dump, "extras", "c:");
    compare(
        "ends of children",
        ends.clone(),
        ends.intersection(&members(dump, "index", "c:")).cloned().collect(),
    );
    for (id, job) in jobs {
        let open = members(dump, "index", &format!("o:{id}#{}|", job.birth)).len();
        if open != job.open as usize {
            wrong.push(format!("{id} counts {} open children, and has {open}", job.open));
        }
        if job.state == State::Waiting && job.open == 0 && !job.flags.contains('o') {
            wrong.push(format!("{id} waits for nothing: {job}"));
        }
        if (job.state == State::Running) == job.node.is_empty() {
            wrong.push(format!("{id} runs on no node, or a node does not run it: {job}"));
        }
    }
    let number = |queue: &str, of: &str| -> usize {
        dump.value("counts", &format!("{queue}|{of}")).map_or(0, |text| text.parse().unwrap())
    };
    for queue in super::world::QUEUES {
        let count = |states: &[State]| {
            jobs.values().filter(|job| job.queue == queue && states.contains(&job.state)).count()
        };
        let counts = [
            ("running", count(&[State::Running])),
            ("delayed", count(&[State::Delayed])),
            ("waiting", count(&[State::Waiting, State::Paused])),
        ];
        for (of, should) in counts {
            if number(queue, of) != should {
                wrong.push(format!("{queue} counts {} {of}, and has {should}", number(queue, of)));
            }
        }
    }
    for (key, text) in dump.get("groups").into_iter().flatten() {
        let mut numbers = text.split('|').map(|number| number.parse::<usize>().unwrap_or_default());
        let of = |state: State| {
            in_state(state).filter(|(_, job)| format!("{}|{}", job.queue, job.group) == *key).count()
        };
        let (ready, running) = (numbers.next().unwrap(), numbers.next().unwrap());
        if (ready, running) != (of(State::Ready), of(State::Running)) {
            wrong.push(format!("the group {key} is wrong: {text}"));
        }
    }
    wrong
}
