//! After a loss of data, the executions of nodes are running again.

use bytes::Bytes;

use super::edit::{Edit, flag, seen_token, unflag};
use super::ends::forget_parent;
use super::settle::goes_on;
use super::state::with_prefix;
use super::steps::Transition;
use crate::model::id::{JobId, Token};
use crate::model::record::{Record, State as JobState};
use crate::store::{AttestJobs, Attesting, Breakage, Extended, Result, SettleReply};

impl Transition for AttestJobs {
    fn apply(&self, mut edit: Edit<'_>) -> Result<Extended> {
        let (mut lease, mut replies) = (0, Vec::with_capacity(self.0.len()));
        for job in &self.0 {
            let reply = edit.attested(job);
            if !matches!(reply, SettleReply::Halt | SettleReply::Bad) {
                let own = edit.settings(&job.record.queue).lease;
                lease = if lease == 0 { own } else { own.min(lease) };
                edit.state.data.leases.put(job.id.to_string(), edit.now + own);
                edit.arm(edit.now + own);
            }
            replies.push(reply);
        }
        edit.flush();
        Ok(Extended { lease, replies })
    }
}

impl Edit<'_> {
    /// Executions of a job up to a token, or all of before this call, are not made again after a loss of data: they
    /// were, or are over. Returns whether they could have been. The incarnation tells the first word of an execution after
    /// a loss.
    pub(super) fn bury(&mut self, id: &str, lease: u64, token: Option<Token>) -> bool {
        let till = self.grace().max(self.hold() + lease);
        if self.hold() == 0 || self.now >= till || self.state.data.is_broken(Breakage::MadeAgainTwice) {
            return false;
        }
        let token = token.map_or_else(|| self.mint(), |token| token.0);
        let heard = format!("{token}|{}", self.incarnation());
        self.state.data.extras.insert(format!("a:{id}"), heard.into());
        self.timer(format!("a:{id}"), Some(till));
        self.arm(till);
        true
    }

    fn incarnation(&self) -> u64 {
        self.state.data.meta.incarnation.map_or(0, |incarnation| incarnation.0)
    }

    /// The executions of a job that were heard of: the highest token, and whether this incarnation has heard of the token.
    fn heard(&self, id: &JobId) -> (Token, bool) {
        let heard = self.state.data.extra(&format!("a:{id}"));
        let heard = std::str::from_utf8(&heard).unwrap_or_default();
        let (token, inc) = heard.split_once('|').unwrap_or((heard, ""));
        (Token(token.parse().unwrap_or(0)), inc == self.incarnation().to_string())
    }

    /// A word from outside: executions that began before it do not answer for the job, also those that the data do not
    /// know.
    pub(super) fn outdate(&mut self, id: &str, job: &mut Record) {
        if self.state.data.is_broken(Breakage::RequestsMetEarly) {
            return;
        }
        job.token = Token(self.mint());
        self.put(id, job);
        let lease = self.settings(&job.queue).lease;
        self.bury(id, lease, None);
    }

    fn attested(&mut self, attesting: &Attesting) -> SettleReply {
        let Attesting { id, record: own, body, notes } = attesting;
        if own.state != JobState::Running {
            return SettleReply::Bad;
        }
        let token = self.state.data.meta.token;
        self.state.data.meta.token = token.max(seen_token(own.token.0));
        let lease = self.settings(&own.queue).lease;
        let (before, heard_now) = self.heard(id);
        let is_first = own.token > before || own.token == before && !heard_now;
        let is_first = is_first && self.bury(id.as_str(), lease, Some(own.token));
        let is_late = self.now >= self.hold() + lease;
        let known = self.job(id.as_str());
        let any_life = self.state.data.is_broken(Breakage::RequestsMetEarly);
        let runs = |job: &Record| job.state == JobState::Running && job.token == own.token;
        let job = match (known, body) {
            (Some(mut job), body) if runs(&job) => {
                // The data may have lost a later word than the start. Further copies may be late, and know less.
                if let Some(body) = body.as_ref().filter(|_| is_first) {
                    self.keep_left(id, &mut job, body, notes);
                }
                job
            }
            (Some(job), _) if (job.birth > own.birth && !any_life) || job.token >= own.token => {
                return SettleReply::Halt;
            }
            (None, body) if body.is_none() || own.token <= before || is_late => return SettleReply::Halt,
            (known, body) => {
                let mut job = match known {
                    Some(job) => self.adopt(id, job, own),
                    None => self.remake(id, own),
                };
                if let Some(body) = body {
                    self.keep_left(id, &mut job, body, notes);
                }
                self.runs_again(id, &mut job, own);
                job
            }
        };
        goes_on(&job)
    }

    /// Data and notes as an execution has left them.
    fn keep_left(&mut self, id: &JobId, job: &mut Record, body: &Bytes, notes: &Bytes) {
        self.state.data.bodies.insert(id.to_string(), body.clone());
        if notes.is_empty() {
            self.forget_notes(id.as_str(), job);
        } else {
            self.set_notes(id.as_str(), job, notes);
        }
    }

    fn runs_again(&mut self, id: &JobId, job: &mut Record, own: &Record) {
        job.state = JobState::Running;
        (job.token, job.attempts) = (own.token, own.attempts);
        job.node.clone_from(&own.node);
        let settings = self.settings_for(&own.queue, &job.group);
        if !settings.grouped {
            job.group.clear();
        }
        self.state.data.add_count(&own.queue, "running", 1);
        if settings.grouped {
            self.group(&own.queue, &job.group).group.running += 1;
        }
        self.put(id.as_str(), job);
        self.tell(id.as_str(), job, Some(JobState::Running), None, None);
    }

    /// An older state of the job gives way, also that of an earlier life.
    fn adopt(&mut self, id: &JobId, mut job: Record, own: &Record) -> Record {
        self.leave(id.as_str(), &mut job);
        // Notes belong to a single life of a job in a single queue.
        if job.birth != own.birth || job.queue != own.queue {
            self.forget_notes(id.as_str(), &mut job);
        }
        if job.birth != own.birth {
            self.forget_failure(id.as_str(), &mut job);
            if job.has('c') {
                self.timer(format!("w:{id}#{}", job.birth), Some(self.now));
                self.arm(self.now);
                unflag(&mut job, "ch");
            }
            forget_parent(&mut job);
            job.birth.clone_from(&own.birth);
            self.count_children(id, &mut job);
        }
        job.place.clone_from(&own.place);
        (job.keep, job.priority, job.max, job.due) = (own.keep, own.priority, own.max, own.due);
        (job.queue, job.group) = (own.queue.clone(), own.group.clone());
        (job.flow, job.correlation) = (own.flow.clone(), own.correlation.clone());
        job
    }

    fn remake(&mut self, id: &JobId, own: &Record) -> Record {
        let mut job = own.clone();
        job.flags.retain(|letter| "fopc".contains(letter));
        (job.again, job.news) = (None, 0);
        self.count_children(id, &mut job);
        if !job.parent.is_empty() {
            self.join(id, &mut job);
        }
        job
    }

    /// A parent counts the child that it has lost. One that is not there may come back, and counts then. One that was
    /// removed takes it along.
    fn join(&mut self, id: &JobId, job: &mut Record) {
        let of = job.parent.rsplit_once('#').map(|(parent, birth)| (parent.to_owned(), birth.to_owned()));
        let parent = of.as_ref().and_then(|(parent, _)| self.job(parent));
        let (open, ended) = (format!("o:{}|{id}", job.parent), format!("c:{}|{id}", job.parent));
        let Some((parent_id, birth)) = of else {
            job.parent.clear();
            return;
        };
        let taken = format!("x:{}", job.parent);
        if self.state.data.timers.contains(&taken) {
            self.state.data.index.insert(open);
            self.timer(taken, Some(self.now));
            self.arm(self.now);
            return;
        }
        let over = parent.as_ref().is_some_and(|parent| parent.birth != birth || parent.state.is_over());
        if over || self.state.data.index.contains(&ended) {
            if over {
                // Children of an ended life end.
                flag(job, 'x');
            }
            flag(job, 'e');
        } else if self.state.data.index.insert(open)
            && let Some(mut parent) = parent
        {
            parent.open += 1;
            flag(&mut parent, 'c');
            self.put(&parent_id, &parent);
        }
    }

    /// The children of this life that the data know.
    fn count_children(&self, id: &JobId, job: &mut Record) {
        let of =
            |kind: char| with_prefix(&self.state.data.index, &format!("{kind}:{id}#{}|", job.birth)).count();
        let (open, ended) = (of('o'), of('c'));
        job.open = open as u32;
        if open + ended > 0 {
            flag(job, 'c');
        }
    }
}
