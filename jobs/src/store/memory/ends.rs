//! How jobs come to their end, and what becomes of those that wait for it.

use bytes::Bytes;

use super::edit::{Edit, birth_of, flag, unflag};
use super::state::with_prefix;
use crate::model::record::{Record, State as JobState};
use crate::store::{Breakage, SettleReply};

impl Edit<'_> {
    /// A parent in one of its lives: its id, and its job while that life lasts.
    pub(super) fn parent(&self, text: &str) -> (String, Option<Record>) {
        let Some((id, birth)) = text.rsplit_once('#') else { return (String::new(), None) };
        (id.to_owned(), self.job(id).filter(|job| job.birth == birth))
    }

    /// Its parent counts it no more. It still names its parent, which takes it along when it is removed.
    fn counts_no_more(&mut self, id: &str, job: &mut Record) {
        flag(job, 'e');
        self.put(id, job);
    }

    /// A job is not found by its look-ups any more.
    pub(super) fn drop_lookups(&mut self, id: &str) {
        let data = &mut self.state.data;
        let lookups = data.extras.remove(&format!("l:{id}")).unwrap_or_default();
        for lookup in String::from_utf8_lossy(&lookups).lines() {
            data.index.remove(&format!("k:{lookup}|{id}"));
        }
    }

    /// Which child of a parent has failed concerns one life of the parent, and until its end.
    pub(super) fn forget_failure(&mut self, id: &str, job: &mut Record) {
        if job.has('b') {
            self.state.data.extras.remove(&format!("b:{id}#{}", job.birth));
            unflag(job, "b");
        }
    }

    /// Deletes a job with all that belongs to it.
    pub(super) fn drop(&mut self, id: &str, job: &Record) {
        let data = &mut self.state.data;
        data.jobs.remove(id);
        if !data.is_broken(Breakage::LeavesData) {
            data.bodies.remove(id);
        }
        if job.has('j') {
            data.extras.remove(&format!("r:{id}"));
        }
        if job.has('n') {
            data.extras.remove(&format!("n:{id}"));
        }
        if job.has('b') {
            data.extras.remove(&format!("b:{id}#{}", job.birth));
        }
        if job.has('l') {
            self.drop_lookups(id);
        }
        if job.has('c') {
            self.timer(format!("w:{id}#{}", job.birth), Some(self.now));
            self.arm(self.now);
        }
        if job.has('d') {
            self.timer(format!("r:{id}"), None);
        }
    }

    /// Another life of a job that has ended: the children, the executions and the parent of the former one are none of its.
    pub(super) fn renew_life(&mut self, id: &str, job: &mut Record, birth: Option<String>) {
        self.forget_failure(id, job);
        forget_parent(job);
        if job.has('c') {
            self.timer(format!("w:{id}#{}", job.birth), Some(self.now));
            self.arm(self.now);
            unflag(job, "ch");
            job.open = 0;
        }
        job.birth = birth.unwrap_or_else(|| self.birth_at(999));
    }

    /// A child has come to its end: its parent counts it once, and goes on when it was the last one.
    pub(super) fn count_child(&mut self, id: &str, job: &mut Record, state: JobState, text: &Bytes) {
        let of = job.parent.clone();
        self.counts_no_more(id, job);
        if !self.state.data.index.remove(&format!("o:{of}|{id}")) {
            return;
        }
        let (parent_id, Some(mut parent)) = self.parent(&of) else {
            // Its parent was removed a moment ago, and the tick that takes it along has to find it.
            let taken = format!("x:{of}");
            let now = self.later_timers.get(&taken).is_some_and(Option::is_some);
            if now || self.state.data.timers.contains(&taken) {
                self.state.data.index.insert(format!("c:{of}|{id}"));
            }
            return;
        };
        let outcome = [state.letter().to_string().as_bytes(), text].concat();
        self.state.data.index.insert(format!("c:{of}|{id}"));
        self.state.data.extras.insert(format!("c:{of}|{id}"), outcome.into());
        let twice = self.state.data.is_broken(Breakage::ChildCountsTwice);
        parent.open = parent.open.saturating_sub(if twice { 2 } else { 1 });
        if parent.state != JobState::Waiting {
            // Its next wait is not for nothing.
            flag(&mut parent, 'h');
            // It has not come to wait for its children yet.
            let fails = state != JobState::Done && parent.has('f') && !parent.state.is_over();
            if fails && !parent.has('b') {
                self.state.data.extras.insert(format!("b:{of}"), id.to_owned().into());
                flag(&mut parent, 'b');
            }
            self.put(&parent_id, &parent);
            return;
        }
        self.put(&parent_id, &parent);
        if state != JobState::Done && parent.has('f') {
            self.leave(&parent_id, &mut parent);
            self.finish(&parent_id, &mut parent, JobState::Failed, &format!("child {id} failed").into());
        } else if parent.open == 0 && !parent.has('o') && !self.state.data.is_broken(Breakage::ParentSleeps) {
            self.leave(&parent_id, &mut parent);
            parent.attempts = 0;
            self.enter(&parent_id, &mut parent, JobState::Ready);
            let state = Some(parent.state);
            self.tell(&parent_id, &mut parent, state, None, None);
        }
    }

    /// The end of a job that has left its place.
    pub(super) fn finish(
        &mut self,
        id: &str,
        job: &mut Record,
        state: JobState,
        text: &Bytes,
    ) -> SettleReply {
        let queue = job.queue.clone();
        let settings = self.settings(&queue);
        if let Some(again) = job.again.take() {
            // This end makes the same life when it is said again after a loss of data: then whoever runs that goes on.
            let birth = Some(birth_of(job.token.0, 999)).filter(|birth| *birth > job.birth);
            self.renew_life(id, job, birth);
            self.forget_notes(id, job);
            unflag(job, "x");
            job.due = again;
            job.attempts = 0;
            job.place = self.in_line(job.due, job.priority, settings.step, 0);
            self.set_result(id, job, text);
            self.enter(id, job, JobState::Ready);
            let state = Some(job.state);
            self.tell(id, job, state, None, None);
            return SettleReply::Pending;
        }
        let (total, reply) = match state {
            JobState::Done => ("done", SettleReply::Ended),
            JobState::Failed => ("failed", SettleReply::Failed),
            _ => ("cancelled", SettleReply::Cancelled),
        };
        self.state.data.add_count(&queue, total, 1);
        if counts_for(job) {
            self.count_child(id, job, state, text);
        }
        let mut keep = if state == JobState::Done { job.keep } else { settings.keep_failed };
        if keep >= 0 && (job.has('w') || job.has('v')) {
            keep = keep.max(60_000);
        }
        self.forget_failure(id, job);
        unflag(job, "xpoh");
        if job.has('c') && job.open > 0 {
            self.timer(format!("w:{id}#{}", job.birth), Some(self.now));
            self.arm(self.now);
        }
        job.state = state;
        job.node.clear();
        self.put(id, job);
        let outcome = [state.letter().to_string().as_bytes(), text].concat();
        self.tell(id, job, Some(state), None, Some(outcome.into()));
        if keep == 0 {
            self.drop(id, job);
            return reply;
        }
        self.set_result(id, job, text);
        if job.has('d') {
            unflag(job, "d");
            self.timer(format!("r:{id}"), None);
        }
        if let Some(keep) = u64::try_from(keep).ok().filter(|keep| *keep > 0) {
            self.timer(format!("r:{id}"), Some(self.now + keep));
            self.arm(self.now + keep);
        }
        if state == JobState::Failed {
            self.state.data.index.insert(format!("f:{queue}|{}{id}", job.place));
        }
        self.put(id, job);
        reply
    }

    /// An execution has failed, or was lost.
    pub(super) fn retry(&mut self, id: &str, job: &mut Record, delay: u64, text: &Bytes) -> SettleReply {
        let most = if job.max > 0 { job.max } else { self.settings(&job.queue).max };
        self.leave(id, job);
        if job.has('x') {
            return self.finish(id, job, JobState::Cancelled, &Bytes::from_static(b"cancelled"));
        }
        let unbounded = self.state.data.is_broken(Breakage::AttemptsUnbounded);
        if job.again.is_some() || most > 0 && job.attempts >= most && !unbounded {
            return self.finish(id, job, JobState::Failed, text);
        }
        self.set_result(id, job, text);
        if delay > 0 {
            job.due = self.now + delay;
        }
        self.enter(id, job, JobState::Ready);
        let state = job.state;
        self.tell(id, job, Some(state), None, None);
        if state == JobState::Delayed { SettleReply::Delayed } else { SettleReply::Pending }
    }

    /// The open children of a parent that has ended are cancelled, and count no more. Returns how many there were.
    pub(super) fn abandon(&mut self, of: &str, most: usize) -> usize {
        let prefix = format!("o:{of}|");
        let members: Vec<_> = with_prefix(&self.state.data.index, &prefix).take(most).cloned().collect();
        for member in &members {
            let id = &member[prefix.len()..];
            self.state.data.index.remove(member);
            self.state.data.index.insert(format!("c:{of}|{id}"));
            let Some(mut job) = self.job(id).filter(|job| job.parent == of) else { continue };
            self.counts_no_more(id, &mut job);
            if job.state == JobState::Running {
                flag(&mut job, 'x');
                self.put(id, &job);
                self.ask_to_cancel(id, &job);
            } else if !job.state.is_over() {
                job.again = None;
                self.leave(id, &mut job);
                self.finish(id, &mut job, JobState::Cancelled, &Bytes::from_static(b"its parent has ended"));
            }
        }
        members.len()
    }

    /// Removes a job, also one that runs. Its children go with it, in the ticks that follow. After a loss of data, nodes may
    /// still attest some that the data do not know.
    pub(super) fn remove(&mut self, id: &str, job: &mut Record) {
        if job.state == JobState::Running {
            self.halt(id, job);
        }
        let lease = self.settings(&job.queue).lease;
        let may_come = self.bury(id, lease, None);
        self.leave(id, job);
        if counts_for(job) {
            self.count_child(id, job, JobState::Cancelled, &Bytes::from_static(b"removed"));
        }
        self.tell(id, job, None, None, None);
        self.drop(id, job);
        if (job.has('c') || may_come) && !self.state.data.is_broken(Breakage::RemovesAlone) {
            self.timer(format!("w:{id}#{}", job.birth), None);
            self.timer(format!("x:{id}#{}", job.birth), Some(self.now));
        }
    }

    /// The children of a parent that was removed go with it: those that wait, that run and that have ended. Returns how many
    /// were looked at, and how many were removed.
    pub(super) fn remove_children(&mut self, of: &str, most: usize) -> (usize, u64) {
        let (mut looked_at, mut removed) = (0, 0);
        for kind in ["o", "c"] {
            let prefix = format!("{kind}:{of}|");
            let members = with_prefix(&self.state.data.index, &prefix).take(most - looked_at);
            let members: Vec<_> = members.cloned().collect();
            for member in &members {
                let id = &member[prefix.len()..];
                self.state.data.index.remove(member);
                self.state.data.extras.remove(member);
                // By now it may be another parent's, or nobody's.
                if let Some(mut job) = self.job(id).filter(|job| job.parent == of) {
                    self.remove(id, &mut job);
                    removed += 1;
                }
            }
            looked_at += members.len();
        }
        (looked_at, removed)
    }

    /// Forgets what children came to. Returns how many there were.
    pub(super) fn forget(&mut self, of: &str, most: usize) -> usize {
        let prefix = format!("c:{of}|");
        let members: Vec<_> = with_prefix(&self.state.data.index, &prefix).take(most).cloned().collect();
        for member in &members {
            self.state.data.index.remove(member);
            self.state.data.extras.remove(member);
        }
        members.len()
    }
}

/// Whether its parent counts the job.
fn counts_for(job: &Record) -> bool {
    !job.parent.is_empty() && !job.has('e')
}

/// A child that counts no more is a job by itself.
pub(super) fn forget_parent(job: &mut Record) {
    if job.has('e') {
        unflag(job, "e");
        job.parent.clear();
    }
}
