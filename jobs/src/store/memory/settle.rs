//! The fates of executions.

use bytes::Bytes;
use tenure_steps::Letters;

use super::edit::{Edit, flag, unflag};
use super::steps::{Transition, letters};
use crate::model::id::{GroupName, JobId, QueueName};
use crate::model::record::{Record, State as JobState};
use crate::store::{Breakage, Data, Result, Settle, SettleJobs, SettleReply};

const CANCELLED: Bytes = Bytes::from_static(b"cancelled");
const IN_VAIN: Bytes = Bytes::from_static(b"it waits, and nothing has ended since its last wait");
/// Times of 14 digits and more are none.
const TOO_LATE: u64 = 10_000_000_000_000;

impl Transition for SettleJobs {
    fn apply(&self, mut edit: Edit<'_>) -> Result<Vec<SettleReply>> {
        let Self(lane, jobs) = self;
        if let Some(answer) = edit.before(lane)? {
            return Ok(answer.bytes().filter_map(SettleReply::of_letter).collect());
        }
        let replies = jobs.iter().enumerate().map(|(item, settling)| {
            let time = match settling.settle {
                Settle::Retry(ms, _)
                | Settle::Wait(ms, _)
                | Settle::Later(ms, _)
                | Settle::Limited(ms)
                | Settle::Resubmit(ms) => ms,
                _ => 0,
            };
            if time >= TOO_LATE {
                return SettleReply::Bad;
            }
            match edit.job(settling.id.as_str()) {
                Some(mut job)
                    if job.state == JobState::Running
                        && (job.token == settling.token
                            || edit.state.data.is_broken(Breakage::AnyTokenSettles)) =>
                {
                    edit.settled(&settling.id, &mut job, &settling.settle, item)
                }
                _ => SettleReply::Halt,
            }
        });
        let replies: Vec<_> = replies.collect();
        edit.remember(lane, letters(&replies));
        edit.flush();
        Ok(replies)
    }
}

/// The reply to an execution that goes on.
pub(super) fn goes_on(job: &Record) -> SettleReply {
    if job.has('x') {
        SettleReply::ToCancel
    } else if job.again.is_some() {
        SettleReply::Asked
    } else {
        SettleReply::GoesOn
    }
}

impl Edit<'_> {
    fn write(&mut self, id: &JobId, data: &Data) -> Option<Bytes> {
        let bytes = match data {
            Data::Keep => return None,
            Data::Replace(bytes) => bytes.clone(),
            Data::Append(bytes) => [&self.state.data.body(id)[..], bytes].concat().into(),
        };
        self.state.data.bodies.insert(id.to_string(), bytes.clone());
        Some(bytes)
    }

    fn settled(&mut self, id: &JobId, job: &mut Record, settle: &Settle, item: usize) -> SettleReply {
        let key = id.as_str();
        match settle {
            Settle::Done(result, data) => {
                self.write(id, data);
                self.leave(key, job);
                self.finish(key, job, JobState::Done, result)
            }
            Settle::GoOn(data) => {
                let body = self.write(id, data);
                self.renew_lease(key, job);
                self.tell(key, job, Some(JobState::Running), body, None);
                goes_on(job)
            }
            Settle::Note(notes) => {
                self.set_notes(key, job, notes);
                self.renew_lease(key, job);
                self.tell_notes(id, job, notes);
                goes_on(job)
            }
            Settle::Resubmit(due) => {
                self.renew_lease(key, job);
                if job.has('x') {
                    return SettleReply::ToCancel;
                }
                job.again = Some(*due);
                self.put(key, job);
                SettleReply::Asked
            }
            Settle::MoveOn { queue, priority, group, data } => {
                self.move_on(id, job, (queue, *priority, group.as_ref()), data, item)
            }
            Settle::Wait(delay, data) => {
                let body = self.write(id, data);
                let is_news = job.open > 0 || job.has('h') || job.has('b') || !job.has('c');
                if !is_news {
                    return self.retry(key, job, *delay, &IN_VAIN);
                }
                self.leave(key, job);
                if job.has('x') {
                    return self.finish(key, job, JobState::Cancelled, &CANCELLED);
                }
                if job.has('b') {
                    let child = self.state.data.extra(&format!("b:{key}#{}", job.birth));
                    let why = format!("child {} failed", String::from_utf8_lossy(&child));
                    return self.finish(key, job, JobState::Failed, &why.into());
                }
                job.attempts = 0;
                unflag(job, "oh");
                flag(job, 'c');
                self.enter(key, job, if job.open > 0 { JobState::Waiting } else { JobState::Ready });
                let state = job.state;
                self.tell(key, job, Some(state), body, None);
                SettleReply::Waits
            }
            Settle::Retry(delay, error) => self.retry(key, job, *delay, error),
            Settle::Fail(error, data) => {
                self.write(id, data);
                self.leave(key, job);
                let state = if job.has('x') { JobState::Cancelled } else { JobState::Failed };
                self.finish(key, job, state, error)
            }
            Settle::Later(..) | Settle::GiveBack | Settle::Limited(_) => self.put_back(key, job, settle),
        }
    }

    fn renew_lease(&mut self, key: &str, job: &Record) {
        let lease = self.now + self.settings(&job.queue).lease;
        if self.state.data.leases.contains(key) {
            self.state.data.leases.put(key.to_owned(), lease);
        }
    }

    fn move_on(
        &mut self,
        id: &JobId,
        job: &mut Record,
        (queue, priority, group): (&QueueName, Option<i8>, Option<&GroupName>),
        data: &Data,
        item: usize,
    ) -> SettleReply {
        let settings = self.settings(queue);
        if settings.shut {
            return SettleReply::NoQueue;
        }
        let group = group.map_or_else(|| job.group.clone(), GroupName::to_string);
        if settings.pinned && group.is_empty() {
            return SettleReply::NoGroup;
        }
        let (key, from) = (id.as_str(), job.queue.clone());
        let body = self.write(id, data);
        self.leave(key, job);
        self.state.data.add_count(&from, "done", 1);
        if job.has('x') {
            return self.finish(key, job, JobState::Cancelled, &CANCELLED);
        }
        job.queue = queue.clone();
        job.priority = priority.unwrap_or(job.priority);
        job.group = if settings.grouped { group } else { String::new() };
        job.attempts = 0;
        job.due = 0;
        job.place = self.in_line(0, job.priority, settings.step, item);
        self.forget_notes(key, job);
        self.enter(key, job, JobState::Ready);
        let state = job.state;
        self.tell(key, job, Some(state), body, None);
        SettleReply::Moved
    }

    /// It runs again, and its attempt does not count.
    fn put_back(&mut self, key: &str, job: &mut Record, settle: &Settle) -> SettleReply {
        job.attempts = job.attempts.saturating_sub(1);
        let queue = job.queue.clone();
        self.leave(key, job);
        if job.has('x') {
            return self.finish(key, job, JobState::Cancelled, &CANCELLED);
        }
        if job.again.is_some() {
            return self.finish(key, job, JobState::Failed, &Bytes::new());
        }
        match settle {
            Settle::Later(delay, reason) => {
                job.due = self.now + delay;
                self.set_result(key, job, reason);
            }
            Settle::Limited(until) if self.settings(&queue).grouped => {
                let group = &mut self.group(&queue, &job.group).group;
                group.blocked = group.blocked.max(*until);
            }
            Settle::Limited(until) => job.due = *until,
            _ => {}
        }
        self.enter(key, job, JobState::Ready);
        let state = job.state;
        self.tell(key, job, Some(state), None, None);
        if state == JobState::Delayed { SettleReply::Delayed } else { SettleReply::Pending }
    }
}
