//! Does what is due.

use bytes::Bytes;

use super::edit::Edit;
use super::group::Place;
use super::steps::Transition;
use crate::model::id::QueueName;
use crate::model::record::State as JobState;
use crate::store::{Breakage, Result, Tick, Ticked};

/// How long a node may be late before another one takes over, ms.
const LATE: u64 = 250;
/// A timer further away than this was set before the clock stepped back, ms.
const ASTRAY: u64 = 60_000;
/// A tick makes up for lost wake-ups of this many queues.
const QUEUES: u32 = 64;
/// A gap between ticks that is longer than their pause by this means that the server was away, ms.
const GAP: u64 = 1_000;
/// A clock that steps back by more than this gives everybody time, ms.
const BACK: u64 = 7_000;
/// The most gaps in a row that spare leases.
const SPARED: u64 = 8;

#[derive(Default)]
struct Tally {
    lost: u64,
    promoted: u64,
    gone: u64,
    more: bool,
    /// Children that this tick may still clear, of all parents.
    children: usize,
}

impl Transition for Tick {
    fn apply(&self, mut edit: Edit<'_>) -> Result<Ticked> {
        let (now, mut grace, most) = (edit.now, edit.grace(), self.most as usize);
        let meta = &mut edit.state.data.meta;
        let other = !meta.duty.is_empty() && meta.duty != self.node.as_str();
        if !self.off_duty && other && now < meta.armed + LATE && meta.armed < now + ASTRAY {
            return Ok(Ticked::OnDuty(meta.armed + LATE - now));
        }
        if now > meta.ticked + self.pause + GAP && meta.spared < SPARED {
            grace = grace.max(now + self.grace.min(now - meta.ticked));
            (meta.grace, meta.spared) = (grace, meta.spared + 1);
        } else if now + BACK < meta.ticked {
            grace = now + self.grace;
            meta.grace = grace;
        } else if now >= grace {
            meta.spared = 0;
        }
        let timers: Vec<_> = edit.state.data.timers.range(None, now).take(most).cloned().collect();
        let mut tally = Tally { children: most, ..Tally::default() };
        if now >= grace {
            edit.reap(most, &mut tally);
        }
        tally.more |= timers.len() == most;
        for member in timers {
            edit.timer_is_due(&member, &mut tally);
        }
        tally.more |= edit.wake_again();
        edit.disarm();
        let Tally { lost, promoted, gone, mut more, .. } = tally;
        let (data, earliest) = edit.flush_and_keep();
        if earliest.is_some_and(|earliest| earliest <= now) {
            // Nodes that do not hear have used up its patience: the next one begins with the first queue.
            more = true;
            data.meta.woken.clear();
        }
        let mut next = now + self.pause;
        if more {
            next = now;
        } else {
            if let Some(first) = data.timers.first() {
                next = next.min(first.max(now + 1));
            }
            if let Some(first) = data.leases.first() {
                next = next.min(first.max(now + 1).max(grace));
            }
        }
        data.meta.armed = next;
        data.meta.duty = self.node.to_string();
        data.meta.ticked = now;
        Ok(Ticked::Done { next: next - now, lost, promoted, gone })
    }
}

impl Edit<'_> {
    /// Takes the leases that are over.
    fn reap(&mut self, most: usize, tally: &mut Tally) {
        let (mut till, data) = (self.now, &self.state.data);
        if data.is_broken(Breakage::LeasesLast) {
            return;
        }
        if data.is_broken(Breakage::LeasesTakenEarly) {
            till += 2_000;
        }
        let due: Vec<_> = data.leases.range(None, till).take(most).cloned().collect();
        tally.more = due.len() == most;
        for id in due {
            match self.job(&id) {
                Some(mut job) if job.state == JobState::Running => {
                    self.halt(&id, &job);
                    if self.state.data.is_broken(Breakage::LossUncounted) {
                        job.attempts = job.attempts.saturating_sub(1);
                    }
                    self.retry(&id, &mut job, 0, &Bytes::from_static(b"lease expired"));
                    tally.lost += 1;
                }
                _ => self.state.data.leases.remove(&id),
            }
        }
    }

    fn timer_is_due(&mut self, member: &str, tally: &mut Tally) {
        // The last word on it was said a moment ago, in this tick.
        if self.later_timers.contains_key(member) {
            return;
        }
        let (kind, of) =
            (member.as_bytes().first().copied().unwrap_or_default(), member.get(2..).unwrap_or_default());
        match kind {
            b'd' => match self.job(of) {
                Some(mut job) if job.state == JobState::Delayed => {
                    if job.due <= self.now {
                        self.leave(of, &mut job);
                        if self.state.data.is_broken(Breakage::LosesDelayed) {
                            self.drop(of, &job);
                            return;
                        }
                        self.enter(of, &mut job, JobState::Ready);
                        tally.promoted += 1;
                    } else {
                        self.timer(member.to_owned(), Some(job.due));
                    }
                }
                _ => self.state.data.timers.remove(member),
            },
            b'g' => self.limit_is_over(of, member),
            b'r' => self.expire(of, member, tally),
            b'w' => self.clear_children(of, member, tally),
            b'x' => {
                let (looked_at, removed) = self.remove_children(of, tally.children);
                tally.children -= looked_at;
                tally.gone += removed;
                if tally.children == 0 {
                    tally.more = true;
                } else {
                    let burial = format!("a:{}", of.split('#').next().unwrap_or_default());
                    let till = self.state.data.timers.score(&burial);
                    self.timer(member.to_owned(), till);
                }
            }
            b'a' => {
                self.state.data.extras.remove(member);
                self.state.data.timers.remove(member);
            }
            _ => self.state.data.timers.remove(member),
        }
    }

    /// A window or a block is over, of a group or of a queue.
    fn limit_is_over(&mut self, of: &str, member: &str) {
        let (name, group) = of.split_once('|').map_or((of, None), |(queue, group)| (queue, Some(group)));
        let Ok(queue) = QueueName::new(name) else { return };
        if group.is_none_or(|group| self.group(&queue, group).group.place != Place::Blocked) {
            self.state.data.timers.remove(member);
        }
        if group.is_none() {
            self.stir(&queue).free += 8;
        }
    }

    fn expire(&mut self, id: &str, member: &str, tally: &mut Tally) {
        let Some(mut job) = self.job(id) else {
            self.state.data.timers.remove(member);
            return;
        };
        tally.gone += 1;
        if self.state.data.is_broken(Breakage::KeepsForEver) {
            self.timer(member.to_owned(), None);
        } else if job.state.is_over() {
            self.leave(id, &mut job);
            self.tell(id, &mut job, None, None, None);
            self.drop(id, &job);
        } else if job.has('d') {
            if job.state == JobState::Running {
                self.halt(id, &job);
            }
            job.again = None;
            self.leave(id, &mut job);
            let why = if job.has('o') { "never closed" } else { "deadline" };
            self.finish(id, &mut job, JobState::Failed, &why.into());
        } else {
            self.state.data.timers.remove(member);
        }
    }

    fn clear_children(&mut self, of: &str, member: &str, tally: &mut Tally) {
        let (_, parent) = self.parent(of);
        if parent.as_ref().is_some_and(|parent| !parent.state.is_over()) {
            self.timer(member.to_owned(), None);
            return;
        }
        tally.children -= self.abandon(of, tally.children);
        if parent.is_none() {
            tally.children -= self.forget(of, tally.children);
        }
        if tally.children == 0 {
            tally.more = true;
            return;
        }
        self.timer(member.to_owned(), None);
        if let (id, Some(mut parent)) = self.parent(of) {
            parent.open = 0;
            self.put(&id, &parent);
        }
    }

    /// A wake-up may have been lost with the node that it was for. True when the next tick has to go on.
    fn wake_again(&mut self) -> bool {
        let (mut from, mut left) = (std::mem::take(&mut self.state.data.meta.woken), QUEUES);
        loop {
            let first = self.state.data.waiting.range(from.clone()..).next();
            let Some((name, pinned)) = first.and_then(|member| {
                let (name, rest) = member.split_at(member.find(['|', '/'])?);
                Some((QueueName::new(name).ok()?, rest.starts_with('/')))
            }) else {
                return false;
            };
            if left == 0 {
                self.state.data.meta.woken = from;
                return true;
            }
            left -= 1;
            if pinned {
                // The next owner of a group of a pinned queue looks by itself.
                from = format!("{name}0");
            } else {
                self.stir(&name).free += 1;
                from = format!("{name}}}");
            }
        }
    }
}
