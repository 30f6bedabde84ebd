//! Requests about jobs, queues and groups from outside.

use super::edit::{Edit, LAST, flag, unflag};
use super::group::Group;
use super::steps::Transition;
use crate::model::id::{GroupName, QueueName};
use crate::model::record::{Record, State as JobState};
use crate::store::{Request, Result, Steer, SteerJobs, SteerReply};

/// The highest concurrency and limit of a group, and its longest window.
const MOST: u64 = 999_999_999;

impl Transition for SteerJobs {
    fn apply(&self, mut edit: Edit<'_>) -> Result<Vec<SteerReply>> {
        let requests = self.0.iter().enumerate();
        let replies = requests.map(|(item, request)| edit.steered(request, item)).collect();
        edit.flush();
        Ok(replies)
    }
}

impl Edit<'_> {
    fn steered(&mut self, request: &Request, item: usize) -> SteerReply {
        match request {
            Request::Job(id, steer) => match self.job(id.as_str()) {
                Some(job) => self.steer_job(id.as_str(), job, steer, item),
                None if is_sound(steer) => SteerReply::NotFound,
                None => SteerReply::Bad,
            },
            Request::PauseQueue(queue, on) => {
                let Some(settings) = self.state.data.queues.get_mut(queue) else {
                    return SteerReply::NotFound;
                };
                settings.paused = *on;
                if !on {
                    self.stir(queue).free += 1_000;
                    self.stir_pinned(queue);
                }
                SteerReply::Done
            }
            Request::PauseGroup(queue, group, on) => {
                self.steer_group(queue, group.as_ref(), |group| group.paused = *on)
            }
            Request::LimitGroup(queue, group, limit) => {
                let (n, ms) = limit.map_or((None, None), |(n, ms)| (Some(u64::from(n)), Some(ms)));
                let is_endless = n.unwrap_or_default() > 0 && ms.unwrap_or_default() == 0;
                if is_endless || n.unwrap_or_default() > MOST || ms.unwrap_or_default() > MOST {
                    return SteerReply::Bad;
                }
                self.steer_group(queue, group.as_ref(), |group| (group.limit, group.window_ms) = (n, ms))
            }
            Request::GroupConcurrency(queue, _, Some(_)) if self.settings(queue).pinned => SteerReply::Pinned,
            Request::GroupConcurrency(queue, group, most) => {
                self.steer_group(queue, group.as_ref(), |group| group.concurrency = most.map(u64::from))
            }
            Request::GroupWeight(queue, group, weight) => {
                if !(1..=99).contains(weight) {
                    return SteerReply::Bad;
                }
                self.steer_group(queue, group.as_ref(), |group| group.weight = Some(u64::from(*weight)))
            }
            Request::ResetGroup(queue, group) => self.steer_group(queue, group.as_ref(), |group| {
                group.paused = false;
                group.limit = None;
                group.window_ms = None;
                group.concurrency = None;
                group.weight = None;
            }),
        }
    }

    fn steer_group(
        &mut self,
        queue: &QueueName,
        group: Option<&GroupName>,
        change: impl FnOnce(&mut Group),
    ) -> SteerReply {
        if !self.settings(queue).grouped {
            return SteerReply::NotFound;
        }
        change(&mut self.group(queue, group.map_or("", GroupName::as_str)).group);
        SteerReply::Done
    }

    /// The job enters its place again, and watchers hear of it.
    fn enter_again(&mut self, id: &str, job: &mut Record) {
        self.enter(id, job, JobState::Ready);
        let state = job.state;
        self.tell(id, job, Some(state), None, None);
    }

    fn steer_job(&mut self, id: &str, mut job: Record, steer: &Steer, item: usize) -> SteerReply {
        if !is_sound(steer) {
            return SteerReply::Bad;
        }
        let job = &mut job;
        match steer {
            Steer::Remove => {
                self.remove(id, job);
                SteerReply::Done
            }
            Steer::Cancel(reason) => self.cancel_job(id, job, reason),
            Steer::Pause => self.pause_job(id, job),
            Steer::Resume => self.resume_job(id, job),
            Steer::Replay(due) => self.replay_job(id, job, *due, item),
            Steer::At(_) | Steer::Priority(_)
                if !matches!(job.state, JobState::Ready | JobState::Delayed | JobState::Paused) =>
            {
                SteerReply::NotInState
            }
            Steer::At(due) => {
                self.leave(id, job);
                job.due = *due;
                self.line_up(id, job, job.due, item)
            }
            Steer::Priority(priority) => {
                self.leave(id, job);
                job.priority = *priority;
                let since = if job.due > 0 { job.due } else { job.created_ms() };
                self.line_up(id, job, since, item)
            }
            Steer::Close => self.close_job(id, job),
        }
    }

    fn cancel_job(&mut self, id: &str, job: &mut Record, reason: &str) -> SteerReply {
        if job.state.is_over() {
            return SteerReply::NotInState;
        }
        job.again = None;
        if job.state == JobState::Running {
            flag(job, 'x');
            self.put(id, job);
            self.ask_to_cancel(id, job);
            return SteerReply::Asked;
        }
        self.outdate(id, job);
        self.leave(id, job);
        self.finish(id, job, JobState::Cancelled, &reason.to_owned().into());
        SteerReply::Done
    }

    fn pause_job(&mut self, id: &str, job: &mut Record) -> SteerReply {
        match job.state {
            JobState::Paused => SteerReply::Done,
            JobState::Waiting => SteerReply::NotInState,
            state if state.is_over() => SteerReply::NotInState,
            JobState::Running => {
                flag(job, 'p');
                self.put(id, job);
                SteerReply::Asked
            }
            _ => {
                self.leave(id, job);
                flag(job, 'p');
                self.enter_again(id, job);
                SteerReply::Done
            }
        }
    }

    fn resume_job(&mut self, id: &str, job: &mut Record) -> SteerReply {
        if !job.has('p') {
            return SteerReply::NotInState;
        }
        if job.state == JobState::Paused {
            self.leave(id, job);
            unflag(job, "p");
            self.enter_again(id, job);
        } else {
            unflag(job, "p");
            self.put(id, job);
        }
        SteerReply::Done
    }

    fn replay_job(&mut self, id: &str, job: &mut Record, due: u64, item: usize) -> SteerReply {
        if !matches!(job.state, JobState::Failed | JobState::Cancelled) {
            return SteerReply::NotInState;
        }
        if !self.has_room(&job.queue) {
            return SteerReply::Full;
        }
        self.leave(id, job);
        self.renew_life(id, job, None);
        (job.attempts, job.due) = (0, due);
        self.line_up(id, job, due, item)
    }

    fn close_job(&mut self, id: &str, job: &mut Record) -> SteerReply {
        if !job.has('o') {
            return SteerReply::NotInState;
        }
        unflag(job, "o");
        self.put(id, job);
        if job.state == JobState::Waiting && job.open == 0 {
            self.leave(id, job);
            self.enter_again(id, job);
        }
        SteerReply::Done
    }

    fn line_up(&mut self, id: &str, job: &mut Record, since: u64, item: usize) -> SteerReply {
        let step = self.settings(&job.queue).step;
        job.place = self.in_line(since, job.priority, step, item % 1_000);
        self.enter_again(id, job);
        SteerReply::Done
    }
}

fn is_sound(steer: &Steer) -> bool {
    match steer {
        Steer::Replay(due) | Steer::At(due) => *due < LAST,
        Steer::Priority(priority) => (-9..=9).contains(priority),
        _ => true,
    }
}
