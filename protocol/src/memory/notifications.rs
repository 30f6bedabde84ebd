//! Notifications: kept with the record, taken by the owner.

use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;
use tenure_steps::EntryId;

use super::state::{Mailbox, State};
use crate::model::id::{Incarnation, JobKey, Token, WorkerId};
use crate::model::record::JobState;
use crate::mutation::Mutation;
use crate::step::{NotifyItem, NotifyReply, Refusal, TakeItem, Taken, Waiting, WorkerEvent};

/// The most notifications of one job in one answer.
const TAKE_MAX: usize = 16;
/// If an answer has more bytes than this, it takes no further notification of a job that already has one in it.
const TAKE_BYTES: usize = 256 << 10;

impl State {
    /// Keeps notifications.
    pub(super) fn notify(
        &mut self,
        now: u64,
        inc: Incarnation,
        items: &[NotifyItem],
    ) -> Result<Vec<NotifyReply>, Refusal> {
        self.guard(inc)?;
        let mut events: BTreeMap<WorkerId, Vec<(JobKey, Token)>> = BTreeMap::new();
        let replies = items.iter().map(|item| self.notify_one(item, &mut events)).collect();
        self.wake(now, events);
        Ok(replies)
    }

    /// Wakes the owners of jobs of which the first notification was kept.
    pub(super) fn wake(&mut self, now: u64, events: BTreeMap<WorkerId, Vec<(JobKey, Token)>>) {
        for (worker, jobs) in events {
            self.send_to_owner(now, worker, WorkerEvent::Notify { jobs });
        }
    }

    pub(super) fn notify_one(
        &mut self,
        item: &NotifyItem,
        events: &mut BTreeMap<WorkerId, Vec<(JobKey, Token)>>,
    ) -> NotifyReply {
        let NotifyItem { key, guess, body } = item;
        let Some(record) = self.record(key) else {
            return match self.meta.recovering {
                _ if self.is_damaged(key) => NotifyReply::Bad,
                true => NotifyReply::Recovering,
                false => NotifyReply::Absent,
            };
        };
        if record.state == JobState::Stopping {
            return NotifyReply::Absent;
        }
        let running = (record.state == JobState::Running).then_some((record.owner, record.token));
        self.keep(key, body, running, *guess, events)
    }

    /// `running`: who runs the job, under which token.
    pub(super) fn keep(
        &mut self,
        key: &JobKey,
        body: &Bytes,
        running: Option<(Option<WorkerId>, Token)>,
        guess: Option<WorkerId>,
        events: &mut BTreeMap<WorkerId, Vec<(JobKey, Token)>>,
    ) -> NotifyReply {
        if self.mailboxes.get(key).is_some_and(|mailbox| mailbox.damage.is_some()) {
            return NotifyReply::Bad;
        }
        let size = body.len() as u64;
        let (waiting, bytes) = self.mailboxes.get(key).map_or((0, 0), |m| (m.bodies.len(), m.bytes));
        let early = if self.broken.has(Mutation::NotesRefusedEarly) { 2 } else { 1 };
        if waiting as u64 >= self.limit("notify_cap") / early || bytes + size > self.limit("notify_bytes") {
            return NotifyReply::Full;
        }
        if waiting == 0
            && let Some((owner, token)) = running
        {
            match owner {
                Some(owner) if guess == Some(owner) => {
                    events.entry(owner).or_default().push((key.clone(), token));
                }
                owner => return NotifyReply::Owner(owner),
            }
        }
        // Numbers are never used twice. So a late acknowledgement never removes a later notification.
        let head = if self.broken.has(Mutation::NotesNumberedAnew) { 0 } else { self.meta.notified };
        let mailbox =
            self.mailboxes.entry(key.clone()).or_insert_with(|| Mailbox { head, ..Mailbox::default() });
        mailbox.bodies.push_back(body.clone());
        mailbox.bytes += size;
        self.meta.notified += 1;
        NotifyReply::Kept
    }

    /// The owner acknowledges and fetches notifications.
    pub(super) fn take(
        &mut self,
        inc: Incarnation,
        worker: WorkerId,
        finished: &[EntryId],
        items: &[TakeItem],
    ) -> Result<Vec<Option<Taken>>, Refusal> {
        self.guard_normal(inc)?;
        let mut seen = BTreeSet::new();
        let mut bytes = 0;
        let mut replies = Vec::with_capacity(items.len());
        for TakeItem { key, token, ack } in items {
            let running =
                self.record_of(key, worker, *token).is_some_and(|record| record.state == JobState::Running);
            let own = running && seen.insert(key);
            replies.push(own.then(|| self.take_one(key, *ack, &mut bytes)));
        }
        self.finish(worker, finished);
        Ok(replies)
    }

    fn take_one(&mut self, key: &JobKey, ack: u64, bytes: &mut usize) -> Taken {
        let Some(mailbox) = self.mailboxes.get_mut(key).filter(|mailbox| mailbox.damage.is_none()) else {
            return Taken { first: 0, bodies: Vec::new() };
        };
        mailbox.drop_below(ack);
        let mut taken = Taken { first: mailbox.head, bodies: Vec::new() };
        for body in mailbox.bodies.iter().take(TAKE_MAX) {
            if *bytes > TAKE_BYTES && !taken.bodies.is_empty() {
                break;
            }
            *bytes += body.len();
            taken.bodies.push(body.clone());
        }
        if mailbox.bodies.is_empty() {
            self.mailboxes.remove(key);
            taken.first = 0;
        }
        taken
    }

    /// The share of a job's notifications in the page of those that a call deletes.
    pub(super) fn notes_of(&self, key: &JobKey) -> usize {
        self.mailboxes.get(key).map_or(0, |mailbox| 1 + mailbox.bodies.len())
    }

    /// A page of the notifications that wait for a job.
    pub(super) fn notifications(&self, key: &JobKey, from: u64) -> Waiting {
        if !self.jobs.contains_key(key) {
            return Waiting::Absent;
        }
        let Some(mailbox) = self.mailboxes.get(key) else {
            return Waiting::Page { first: 0, bodies: Vec::new(), more: false };
        };
        if mailbox.damage.is_some() {
            return Waiting::Bad;
        }
        let end = mailbox.head + mailbox.bodies.len() as u64;
        let first = mailbox.head.max(from).min(end);
        let mut left = mailbox.bodies.iter().skip((first - mailbox.head) as usize).peekable();
        let (mut bodies, mut bytes) = (Vec::new(), 0);
        while bodies.len() < TAKE_MAX
            && bytes <= TAKE_BYTES
            && let Some(body) = left.next()
        {
            bytes += body.len();
            bodies.push(body.clone());
        }
        Waiting::Page { first, bodies, more: left.peek().is_some() }
    }

    /// Drops notifications that an operator does not want to be delivered.
    pub(super) fn drop_notifications(
        &mut self,
        inc: Incarnation,
        key: &JobKey,
        through: u64,
    ) -> Result<Option<u64>, Refusal> {
        self.guard(inc)?;
        if !self.jobs.contains_key(key) {
            return Ok(None);
        }
        let Some(mailbox) = self.mailboxes.get_mut(key) else { return Ok(Some(0)) };
        mailbox.drop_below(through.saturating_add(1));
        let left = if mailbox.damage.is_some() { 0 } else { mailbox.bodies.len() as u64 };
        if left == 0 {
            self.mailboxes.remove(key);
        }
        Ok(Some(left))
    }
}

impl Mailbox {
    /// Drops notifications with lower numbers.
    fn drop_below(&mut self, number: u64) {
        while self.head < number {
            let Some(body) = self.bodies.pop_front() else { break };
            self.head += 1;
            self.bytes -= body.len() as u64;
        }
    }
}
