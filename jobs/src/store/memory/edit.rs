//! The changes of a step: places that jobs leave and enter, and the groups, wake-ups and news that follow.

use std::collections::{BTreeMap, HashMap};

use bytes::Bytes;

use super::group::{Group, Place};
use super::state::{Data, State, with_prefix};
use crate::model::id::{Incarnation, JobId, NodeName, QueueName, Token};
use crate::model::queue::Settings;
use crate::model::record::{Record, State as JobState};
use crate::store::{Breakage, Hint, Lane, News, Result, StoreError};

/// No moment of a job is later.
pub(super) const LAST: u64 = 1 << 43;
/// The most nodes that do not hear which a step passes over.
const PATIENCE: u32 = 128;
/// The store's data know no token of before 2025.
const EPOCH: u64 = 1_735_689_600_000;

/// The identity of a server.
pub(super) fn server_name(number: u64) -> Box<str> {
    format!("memory {number}").into()
}

/// The birth of a life that a call with this number has made.
pub(super) fn birth_of(number: u64, item: usize) -> String {
    format!("{:011x}{:03x}{item:03}", number / 4_096 + EPOCH, number % 4_096)
}

/// The longest wait of a head, ms from now: a moment further away does not count.
const LONGEST: u64 = 120_000;

/// A moment until which the head of a set waits.
fn until_when(at: u64, now: u64) -> u64 {
    if at <= now + LONGEST { at } else { 0 }
}

/// A token that a caller has seen: 0 for a token that no set gives.
pub(super) fn seen_token(token: u64) -> u64 {
    if token <= Token::LAST.0 { token } else { 0 }
}

/// Where tokens begin by this time of the clock.
pub(super) fn floor_at(now: u64) -> u64 {
    (now.saturating_sub(EPOCH) * 4_096).min(1 << 52)
}

/// A group that a step has looked at.
pub(super) struct Touched {
    pub(super) queue: QueueName,
    pub(super) name: String,
    pub(super) group: Group,
    pub(super) tag_before: u64,
    added: u64,
    fresh: bool,
}

/// Slots that are free again, jobs that became ready, and their groups in a pinned queue.
#[derive(Clone, Default)]
pub(super) struct Stir {
    pub(super) free: u64,
    pub(super) added: u64,
    pub(super) owners: Vec<String>,
}

/// The data in the hands of a step, with all that its changes bring about.
pub struct Edit<'a> {
    pub(super) state: &'a mut State,
    pub(super) now: u64,
    minted: Option<u64>,
    pub(super) groups: Vec<Touched>,
    pub(super) stirs: BTreeMap<QueueName, Stir>,
    pub(super) news: Vec<News>,
    /// Timers as they will be at the end of the step: a step does not see its own.
    pub(super) later_timers: HashMap<String, Option<u64>>,
    earliest: Option<u64>,
    /// The room of bounded queues, once a step has asked for it.
    pub(super) rooms: BTreeMap<QueueName, i64>,
    /// The nodes that do not hear which the step still passes over, of all queues.
    pub(super) patience: u32,
}

impl<'a> Edit<'a> {
    pub(super) fn new(state: &'a mut State, now: u64) -> Self {
        let (groups, stirs) = (Vec::new(), BTreeMap::new());
        let (news, later_timers) = (Vec::new(), HashMap::new());
        let (earliest, rooms, patience) = (None, BTreeMap::new(), PATIENCE);
        Self { state, now, minted: None, groups, stirs, news, later_timers, earliest, rooms, patience }
    }

    /// Refuses a caller of another incarnation.
    pub(super) fn is_in(&self, inc: Incarnation) -> Result<()> {
        match self.state.data.meta.incarnation {
            None => Err(StoreError::NoSet),
            Some(own) if own != inc => Err(StoreError::Stale(own)),
            Some(_) => Ok(()),
        }
    }

    /// Checks the incarnation, and that this is the blessed server.
    pub(super) fn is_blessed_in(&self, inc: Incarnation) -> Result<()> {
        if self.state.server != self.state.blessed {
            return Err(StoreError::OtherServer { identity: server_name(self.state.server) });
        }
        self.is_in(inc)
    }

    /// The answer to the last call of a lane, if this is it.
    pub(super) fn before(&self, lane: &Lane) -> Result<Option<String>> {
        if self.state.data.is_broken(Breakage::CallsTwice) {
            return Ok(None);
        }
        match self.state.data.lanes.get(&lane.name) {
            Some((number, answer)) if *number == lane.number => Ok(Some(answer.clone())),
            Some((number, _)) if *number > lane.number => Err(StoreError::Late),
            _ => Ok(None),
        }
    }

    pub(super) fn remember(&mut self, lane: &Lane, answer: String) {
        self.state.data.lanes.insert(lane.name.clone(), (lane.number, answer));
    }

    /// No job begins until then.
    pub(super) fn hold(&self) -> u64 {
        until_when(self.state.data.meta.hold, self.now)
    }

    /// No lease is lost until then.
    pub(super) fn grace(&self) -> u64 {
        until_when(self.state.data.meta.grace, self.now)
    }

    /// Whether the set can give another token.
    pub(super) fn has_tokens(&self) -> Result<()> {
        if self.state.data.meta.token < Token::LAST.0 { Ok(()) } else { Err(StoreError::NoTokens) }
    }

    /// One number a call, higher than all before.
    pub(super) fn mint(&mut self) -> u64 {
        let meta = &mut self.state.data.meta;
        *self.minted.get_or_insert_with(|| {
            // One that is used up stays as it is.
            let minted = (meta.token + 1).max(floor_at(self.now)).min(Token::LAST.0);
            meta.token = meta.token.max(minted);
            minted
        })
    }

    pub(super) fn place_at(&mut self, ms: i64, item: usize) -> String {
        let ms = u64::try_from(ms).unwrap_or_default().min(LAST);
        format!("{ms:011x}{:03x}{item:03}", self.mint() % 4_096)
    }

    /// The birth of a life: it rises with the numbers of calls, also when the clock steps back.
    pub(super) fn birth_at(&mut self, item: usize) -> String {
        birth_of(self.mint(), item)
    }

    /// The place of a job that is due then, or now.
    pub(super) fn in_line(&mut self, due: u64, priority: i8, step: u64, item: usize) -> String {
        let since = if due > 0 { due } else { self.now };
        self.place_at(since as i64 - i64::from(priority) * step as i64, item)
    }

    pub(super) fn settings(&self, queue: &QueueName) -> Settings {
        self.state.data.settings_of(queue)
    }

    /// Those that place a job. Where a queue has none, the record says whether the job takes turns with others of its
    /// group.
    pub(super) fn settings_for(&self, queue: &QueueName, group: &str) -> Settings {
        let mut settings = self.settings(queue);
        settings.grouped |= !group.is_empty() && !self.state.data.queues.contains_key(queue);
        settings
    }

    pub(super) fn stir(&mut self, queue: &QueueName) -> &mut Stir {
        self.stirs.entry(queue.clone()).or_default()
    }

    pub(super) fn arm(&mut self, due: u64) {
        self.earliest = Some(self.earliest.map_or(due, |earliest| earliest.min(due)));
    }

    pub(super) fn disarm(&mut self) {
        self.earliest = None;
    }

    /// Sends a hint. False when nobody hears it.
    pub(super) fn publish(&mut self, node: &str, hint: Hint) -> bool {
        let Ok(node) = NodeName::new(node) else { return false };
        let heard = self.state.listeners.get(&node).is_some_and(|listener| listener.send(hint).is_ok());
        if !heard {
            self.state.listeners.remove(&node);
        }
        heard
    }

    pub(super) fn halt(&mut self, id: &str, job: &Record) {
        if let Ok(id) = JobId::new(id) {
            self.publish(&job.node.clone(), Hint::Halted(id, job.token));
        }
    }

    pub(super) fn ask_to_cancel(&mut self, id: &str, job: &Record) {
        if let Ok(id) = JobId::new(id) {
            self.publish(&job.node.clone(), Hint::Cancel(id, job.token));
        }
    }

    pub(super) fn job(&self, id: &str) -> Option<Record> {
        self.state.data.jobs.get(id).cloned()
    }

    pub(super) fn put(&mut self, id: &str, job: &Record) {
        self.state.data.jobs.insert(id.to_owned(), job.clone());
    }

    pub(super) fn group(&mut self, queue: &QueueName, name: &str) -> &mut Touched {
        let found = self.groups.iter().position(|touched| touched.queue == *queue && touched.name == name);
        let at = found.unwrap_or_else(|| {
            let known = self.state.data.groups.get(&format!("{queue}|{name}")).cloned();
            let fresh = known.is_none();
            let group = known.unwrap_or_default();
            let (queue, name, tag_before) = (queue.clone(), name.to_owned(), group.tag);
            self.groups.push(Touched { queue, name, group, tag_before, added: 0, fresh });
            self.groups.len() - 1
        });
        &mut self.groups[at]
    }

    pub(super) fn turn_of(&self, queue: &QueueName) -> u64 {
        self.state.data.turns_given.get(queue).copied().unwrap_or_default()
    }

    pub(super) fn timer(&mut self, member: String, at: Option<u64>) {
        self.later_timers.insert(member, at);
    }

    /// A job leaves its place.
    pub(super) fn leave(&mut self, id: &str, job: &mut Record) {
        let queue = job.queue.clone();
        let settings = self.settings_for(&queue, &job.group);
        match job.state {
            JobState::Running => {
                self.state.data.leases.remove(id);
                self.state.data.add_count(&queue, "running", -1);
                job.node.clear();
                if settings.grouped {
                    let group = &mut self.group(&queue, &job.group).group;
                    group.running = group.running.saturating_sub(1);
                }
                if settings.concurrency > 0 {
                    self.stir(&queue).free += 1;
                }
            }
            JobState::Ready => {
                self.grow(&queue, -1);
                self.state.data.ready.remove(&ready_member(&settings, id, job));
                if settings.grouped {
                    let group = &mut self.group(&queue, &job.group).group;
                    group.ready = group.ready.saturating_sub(1);
                }
            }
            JobState::Delayed => {
                self.grow(&queue, -1);
                self.timer(format!("d:{id}"), None);
                self.state.data.add_count(&queue, "delayed", -1);
            }
            JobState::Waiting | JobState::Paused => self.state.data.add_count(&queue, "waiting", -1),
            JobState::Done | JobState::Failed | JobState::Cancelled => {
                self.timer(format!("r:{id}"), None);
                if job.state == JobState::Failed {
                    self.state.data.index.remove(&format!("f:{queue}|{}{id}", job.place));
                }
            }
        }
    }

    /// A job enters a place: one that would be ready may have to wait for its time, or is paused.
    pub(super) fn enter(&mut self, id: &str, job: &mut Record, state: JobState) {
        let queue = job.queue.clone();
        let settings = self.settings_for(&queue, &job.group);
        let state = match state {
            JobState::Ready if job.has('p') => JobState::Paused,
            JobState::Ready if job.due > self.now && !self.state.data.is_broken(Breakage::RunsEarly) => {
                JobState::Delayed
            }
            state => state,
        };
        job.state = state;
        match state {
            JobState::Ready => {
                self.grow(&queue, 1);
                self.state.data.ready.insert(ready_member(&settings, id, job));
                if settings.grouped {
                    let touched = self.group(&queue, &job.group);
                    touched.group.ready += 1;
                    touched.added += 1;
                } else {
                    self.stir(&queue).added += 1;
                }
            }
            JobState::Delayed => {
                self.grow(&queue, 1);
                self.timer(format!("d:{id}"), Some(job.due));
                self.state.data.add_count(&queue, "delayed", 1);
                self.arm(job.due);
            }
            JobState::Waiting | JobState::Paused => self.state.data.add_count(&queue, "waiting", 1),
            _ => {}
        }
        self.put(id, job);
    }

    pub(super) fn set_result(&mut self, id: &str, job: &mut Record, text: &Bytes) {
        if text.is_empty() {
            return;
        }
        self.state.data.extras.insert(format!("r:{id}"), text.clone());
        flag(job, 'j');
        self.put(id, job);
    }

    /// Whether a queue has a job that could be taken now, but for the queue's own limits.
    pub(super) fn has_ready(&self, queue: &QueueName, bound: Option<&str>) -> bool {
        let settings = self.settings(queue);
        if settings.shut || settings.paused {
            return false;
        }
        let set = if settings.grouped { &self.state.data.turns } else { &self.state.data.ready };
        let prefix = format!("{queue}|");
        let first = with_prefix(set, &prefix).next();
        first.is_some_and(|member| bound.is_none_or(|bound| settings.grouped || member.as_str() < bound))
    }

    /// All that follows from the changes of a step.
    pub(super) fn flush(self) {
        self.flush_and_keep();
    }

    /// The same, for a step that goes on. Returns the earliest timer that it has set.
    pub(super) fn flush_and_keep(mut self) -> (&'a mut Data, Option<u64>) {
        self.tell_all();
        for (member, at) in std::mem::take(&mut self.later_timers) {
            match at {
                Some(at) => self.state.data.timers.put(member, at),
                None => self.state.data.timers.remove(&member),
            }
        }
        self.place_groups();
        for (queue, stir) in self.stirs.clone() {
            let settings = self.settings(&queue);
            if stir.free > stir.added && self.has_ready(&queue, None) {
                self.stir(&queue).added = stir.free;
            }
            if self.stir(&queue).added > 0 && !settings.paused && !settings.shut {
                self.wake_for(&queue);
            }
        }
        self.tell_duty();
        (&mut self.state.data, self.earliest)
    }

    pub(super) fn tell_duty(&mut self) {
        let Some(earliest) = self.earliest else { return };
        let meta = &mut self.state.data.meta;
        if earliest < meta.armed {
            meta.armed = earliest;
            let duty = meta.duty.clone();
            self.publish(&duty, Hint::Earlier);
        }
    }

    /// After all changes: each group goes where it belongs, and is forgotten when it says nothing.
    pub(super) fn place_groups(&mut self) {
        for at in 0..self.groups.len() {
            let queue = self.groups[at].queue.clone();
            let (settings, turn, now) = (self.settings(&queue), self.turn_of(&queue), self.now);
            let touched = &mut self.groups[at];
            let group = &mut touched.group;
            let (room, blocked_till) = allowance_of(group, &settings, now);
            let (mut place, mut till) = (Place::Nowhere, 0);
            if group.ready > 0 && !group.paused {
                if blocked_till > now {
                    (place, till) = (Place::Blocked, blocked_till);
                } else if room > 0 {
                    place = Place::InLine;
                }
            }
            let mut kept = group.ready > 0 || group.running > 0 || group.has_own_settings();
            if !kept {
                let (limit, window) = limit_of(group, &settings);
                let used = if limit > 0 && group.used > 0 { group.window + window } else { 0 };
                let ends = group.blocked.max(used);
                if ends > now {
                    (place, till, kept) = (Place::Blocked, ends, true);
                }
            }
            let was = group.place;
            if place == Place::InLine && was != Place::InLine {
                group.tag = group.tag.max(turn).min(turn + 100);
            }
            group.place = place;
            let member = |tag: u64| format!("{queue}|{tag:014x}|{}", touched.name);
            let (key, data) = (format!("{queue}|{}", touched.name), &mut self.state.data);
            if was == Place::InLine {
                data.turns.remove(&member(touched.tag_before));
            }
            if place == Place::InLine {
                data.turns.insert(member(group.tag));
            }
            if was == Place::Blocked && place != Place::Blocked {
                data.timers.remove(&format!("g:{key}"));
            }
            if place == Place::Blocked {
                data.timers.put(format!("g:{key}"), till);
            }
            if kept {
                data.groups.insert(key, group.clone());
            } else if !touched.fresh {
                data.groups.remove(&key);
            }
            let more = if was == Place::InLine { touched.added } else { touched.group.ready };
            if place == Place::InLine {
                let (more, name) = (more.min(room), touched.name.clone());
                let stir = self.stir(&queue);
                stir.added += more;
                if settings.pinned && more > 0 {
                    stir.owners.push(name);
                }
            }
            if place == Place::Blocked {
                self.arm(till);
            }
        }
    }
}

pub(super) fn ready_member(settings: &Settings, id: &str, job: &Record) -> String {
    if settings.grouped {
        format!("{}|{}|{}{id}", job.queue, job.group, job.place)
    } else {
        format!("{}|{}{id}", job.queue, job.place)
    }
}

/// Of a limit in each window: how many more may begin now, and until when none.
pub(super) fn allowance(window: &mut u64, used: &mut u64, limit: u64, size: u64, now: u64) -> (u64, u64) {
    if limit == 0 {
        return (1_000_000_000, 0);
    }
    let begins = now / size * size;
    if *window != begins {
        (*window, *used) = (begins, 0);
    }
    if *used >= limit { (0, begins + size) } else { (limit - *used, 0) }
}

pub(super) fn limit_of(group: &Group, settings: &Settings) -> (u64, u64) {
    let limit = group.limit.unwrap_or(settings.group_limit.into());
    let window = group.window_ms.unwrap_or(settings.group_window);
    if window > 0 { (limit, window) } else { (0, 0) }
}

/// How many of a group's jobs may begin now, and until when none.
pub(super) fn allowance_of(group: &mut Group, settings: &Settings, now: u64) -> (u64, u64) {
    let (limit, size) = limit_of(group, settings);
    let (mut room, mut till) = allowance(&mut group.window, &mut group.used, limit, size, now);
    if group.blocked > now {
        (room, till) = (0, till.max(group.blocked));
    }
    let concurrency = group.concurrency.unwrap_or(settings.group_concurrency.into());
    if concurrency > 0 {
        room = room.min(concurrency.saturating_sub(group.running));
    }
    (room, till)
}

pub(super) fn flag(job: &mut Record, letter: char) {
    if !job.has(letter) {
        job.flags.push(letter);
    }
}

pub(super) fn unflag(job: &mut Record, letters: &str) {
    job.flags.retain(|letter| !letters.contains(letter));
}
