//! Jobs come in.

use std::collections::BTreeSet;
use std::sync::Arc;

use tenure_steps::Letters;

use super::edit::{Edit, LAST, flag, unflag};
use super::state::with_prefix;
use super::steps::{Transition, letters};
use crate::model::id::{GroupName, JobId, QueueName, Token};
use crate::model::queue::Settings;
use crate::model::record::{Record, State as JobState};
use crate::store::{AddJobs, AddMode, AddReply, Adding, Kind, NewJob, Result};

pub(super) struct Coming<'a> {
    adding: &'a Adding,
    /// Parents of this call that wait for their children.
    waits: BTreeSet<JobId>,
}

impl Transition for AddJobs {
    fn apply(&self, mut edit: Edit<'_>) -> Result<Vec<AddReply>> {
        let Self(lane, adding) = self;
        if let Some(answer) = edit.before(lane)? {
            return Ok(answer.bytes().filter_map(AddReply::of_letter).collect());
        }
        edit.has_tokens()?;
        let mut adding = adding.clone();
        for job in &mut adding.jobs {
            job.kind = Arc::new(job.kind.at(edit.now));
        }
        let adding = &adding;
        let mut coming = Coming { adding, waits: BTreeSet::new() };
        let jobs = adding.jobs.iter().enumerate();
        let replies: Vec<_> = jobs.map(|(item, job)| coming.added(&mut edit, job, item)).collect();
        for id in &coming.waits {
            if let Some(mut job) = edit.job(id.as_str())
                && job.open == 0
                && !job.has('o')
            {
                edit.leave(id.as_str(), &mut job);
                edit.enter(id.as_str(), &mut job, JobState::Ready);
            }
        }
        for (job, reply) in adding.jobs.iter().zip(&replies) {
            if matches!(reply, AddReply::Added | AddReply::Changed | AddReply::Anew)
                && !job.lookups.is_empty()
                && let Some(mut record) = edit.job(job.id.as_str())
            {
                // In the place of its former ones.
                edit.drop_lookups(job.id.as_str());
                flag(&mut record, 'l');
                edit.put(job.id.as_str(), &record);
                for lookup in &job.lookups {
                    edit.state.data.index.insert(format!("k:{lookup}|{}", job.id));
                }
                edit.state.data.extras.insert(format!("l:{}", job.id), job.lookups.join("\n").into());
            }
        }
        edit.remember(lane, letters(&replies));
        edit.flush();
        Ok(replies)
    }
}

impl Edit<'_> {
    /// Whether a bounded queue has room for one more, after all that the step has done. Jobs that were accepted go over the
    /// bound: those that move on, and those that are tried again.
    pub(super) fn has_room(&mut self, queue: &QueueName) -> bool {
        let capacity = self.settings(queue).capacity;
        if capacity == 0 {
            return true;
        }
        let data = &self.state.data;
        let room = self.rooms.entry(queue.clone()).or_insert_with(|| {
            let ready = with_prefix(&data.ready, &format!("{queue}|")).count();
            i64::from(capacity) - ready as i64 - data.count(queue, "delayed") as i64
        });
        *room > 0
    }

    /// One more job of a queue is ready or delayed, or one less.
    pub(super) fn grow(&mut self, queue: &QueueName, by: i64) {
        if let Some(room) = self.rooms.get_mut(queue) {
            *room -= by;
        }
    }
}

impl Coming<'_> {
    /// Whether this call may add a child to a parent.
    fn takes(&self, parent: &JobId, job: &Record) -> bool {
        match self.adding.token {
            Some(token) => job.state == JobState::Running && job.token == token,
            None => job.state == JobState::Waiting && (job.has('o') || self.waits.contains(parent)),
        }
    }

    fn added(&mut self, edit: &mut Edit<'_>, new: &NewJob, item: usize) -> AddReply {
        let (id, kind) = (new.id.as_str(), &new.kind);
        let splits = kind.flow.contains('|') || kind.correlation.contains('|');
        if kind.due >= LAST
            || kind.deadline >= LAST
            || kind.keep.is_some_and(|keep| keep >= LAST as i64)
            || splits
        {
            return AddReply::Bad;
        }
        let settings = edit.settings(&kind.queue);
        let is_early = kind.group.is_some() && !settings.grouped && settings.is_named();
        if settings.shut || is_early {
            return AddReply::NoQueue;
        }
        if settings.pinned && kind.group.is_none() {
            return AddReply::NoGroup;
        }
        let mut parent = None;
        if let Some(parent_id) = &kind.parent {
            let found = edit.job(parent_id.as_str());
            if let Some(found) = &found {
                let child = format!("{parent_id}#{}|{id}", found.birth);
                let index = &edit.state.data.index;
                if index.contains(&format!("o:{child}")) || index.contains(&format!("c:{child}")) {
                    return AddReply::Exists;
                }
            }
            parent =
                found.filter(|found| self.takes(parent_id, found)).map(|found| (parent_id.clone(), found));
            if parent.is_none() {
                return AddReply::NoParent;
            }
        }
        let known = edit.job(id);
        let over = known.as_ref().is_none_or(|job| job.state.is_over());
        if let (Some(job), Some((parent_id, parent))) = (&known, &parent)
            && is_former(id, job, parent_id.as_str())
        {
            if over && !edit.has_room(&kind.queue) {
                return AddReply::Full;
            }
            return self.take_over(edit, job.clone(), (parent_id, parent.clone()), new, &settings, item);
        }
        if known.is_none() && self.adding.mode == AddMode::Resubmit {
            return AddReply::Missing;
        }
        if let Some(job) = &known {
            let stays = match self.adding.mode {
                AddMode::Keep => true,
                AddMode::Again | AddMode::Schedule | AddMode::Resubmit => false,
                AddMode::Replace => over,
            };
            // A flow that has ended is wherever its last stage was.
            let began_here = over && !kind.flow.is_empty() && job.flow == kind.flow;
            if stays || parent.is_some() || job.queue != kind.queue && !began_here {
                return AddReply::Exists;
            }
        }
        if over && !edit.has_room(&kind.queue) {
            return AddReply::Full;
        }
        if let Some(job) = known {
            return self.again(edit, job, new, &settings, item);
        }
        self.make(edit, new, parent, &settings, item);
        AddReply::Added
    }

    /// A job of the call is in line, or waits for its children. Until they are known it takes room as if it were in line.
    fn begin(&mut self, edit: &mut Edit<'_>, new: &NewJob, job: &mut Record) {
        let waits = new.kind.waits;
        if waits {
            self.waits.insert(new.id.clone());
            edit.grow(&new.kind.queue, 1);
        }
        edit.enter(new.id.as_str(), job, if waits { JobState::Waiting } else { JobState::Ready });
    }

    fn make(
        &mut self,
        edit: &mut Edit<'_>,
        new: &NewJob,
        parent: Option<(JobId, Record)>,
        settings: &Settings,
        item: usize,
    ) {
        let (id, kind) = (new.id.as_str(), &new.kind);
        let group = kind.group.as_ref().filter(|_| settings.grouped).map_or("", GroupName::as_str);
        let letters = [(kind.fails_fast, 'f'), (kind.open, 'o'), (kind.deadline > 0, 'd')];
        let mut job = Record {
            state: JobState::Ready,
            token: Token(0),
            attempts: 0,
            node: String::new(),
            again: None,
            flags: letters.iter().filter(|(set, _)| *set).map(|(_, letter)| letter).collect(),
            parent: parent.as_ref().map(|(id, job)| format!("{id}#{}", job.birth)).unwrap_or_default(),
            open: 0,
            keep: kind.keep.unwrap_or(settings.keep),
            queue: kind.queue.clone(),
            group: group.to_owned(),
            place: edit.in_line(kind.due, kind.priority, settings.step, item),
            priority: kind.priority,
            max: kind.max,
            due: kind.due,
            birth: edit.birth_at(item),
            news: 0,
            flow: kind.flow.clone(),
            correlation: kind.correlation.clone(),
            tail: String::new(),
        };
        edit.state.data.bodies.insert(id.to_owned(), new.body.clone());
        if let Some((parent_id, mut parent)) = parent {
            parent.open += 1;
            flag(&mut parent, 'c');
            edit.put(parent_id.as_str(), &parent);
            edit.state.data.index.insert(format!("o:{}|{id}", job.parent));
        }
        if kind.deadline > 0 {
            edit.timer(format!("r:{id}"), Some(kind.deadline));
            edit.arm(kind.deadline);
        }
        self.begin(edit, new, &mut job);
    }

    /// A child of a former life belongs to this one from now on, and runs for it.
    fn take_over(
        &mut self,
        edit: &mut Edit<'_>,
        mut job: Record,
        (parent_id, mut parent): (&JobId, Record),
        new: &NewJob,
        settings: &Settings,
        item: usize,
    ) -> AddReply {
        let (id, kind) = (new.id.as_str(), &new.kind);
        if !job.parent.is_empty() {
            edit.state.data.index.remove(&format!("o:{}|{id}", job.parent));
        }
        job.parent = format!("{parent_id}#{}", parent.birth);
        unflag(&mut job, "e");
        parent.open += 1;
        flag(&mut parent, 'c');
        edit.put(parent_id.as_str(), &parent);
        edit.state.data.index.insert(format!("o:{}|{id}", job.parent));
        if matches!(job.state, JobState::Running | JobState::Waiting) {
            set_deadline(edit, id, &mut job, kind.deadline);
            job.again = Some(kind.due);
            edit.put(id, &job);
            return AddReply::RunsAgain;
        }
        let over = job.state.is_over();
        edit.leave(id, &mut job);
        set_deadline(edit, id, &mut job, kind.deadline);
        if over {
            edit.renew_life(id, &mut job, None);
        } else {
            edit.outdate(id, &mut job);
        }
        let group = kind.group.as_ref().filter(|_| settings.grouped).map_or("", GroupName::as_str);
        (job.queue, job.group) = (kind.queue.clone(), group.to_owned());
        (job.keep, job.priority, job.max, job.due, job.attempts) =
            (kind.keep.unwrap_or(settings.keep), kind.priority, kind.max, kind.due, 0);
        job.correlation.clone_from(&kind.correlation);
        job.place = edit.in_line(kind.due, kind.priority, settings.step, item);
        edit.state.data.bodies.insert(id.to_owned(), new.body.clone());
        edit.forget_notes(id, &mut job);
        self.begin(edit, new, &mut job);
        let state = job.state;
        edit.tell(id, &mut job, Some(state), Some(new.body.clone()), None);
        if over { AddReply::Anew } else { AddReply::Changed }
    }

    /// A job that is there, and was asked for again.
    fn again(
        &mut self,
        edit: &mut Edit<'_>,
        mut job: Record,
        new: &NewJob,
        settings: &Settings,
        item: usize,
    ) -> AddReply {
        let (id, due) = (new.id.as_str(), new.kind.due);
        let waiting = matches!(job.state, JobState::Ready | JobState::Delayed | JobState::Paused);
        if waiting && job.due == due {
            if matches!(self.adding.mode, AddMode::Schedule | AddMode::Resubmit) {
                // An execution of the lost time does not answer for it.
                if edit.now < edit.grace() {
                    edit.outdate(id, &mut job);
                }
                return AddReply::Same;
            }
            // It keeps its place.
            job.correlation.clone_from(&new.kind.correlation);
            edit.forget_notes(id, &mut job);
            edit.outdate(id, &mut job);
            edit.state.data.bodies.insert(id.to_owned(), new.body.clone());
            let state = job.state;
            edit.tell(id, &mut job, Some(state), Some(new.body.clone()), None);
            return AddReply::Changed;
        }
        if matches!(job.state, JobState::Running | JobState::Waiting) {
            if self.adding.mode == AddMode::Replace {
                return AddReply::Exists;
            }
            job.again = Some(due);
            edit.put(id, &job);
            return AddReply::RunsAgain;
        }
        edit.leave(id, &mut job);
        if waiting {
            edit.outdate(id, &mut job);
        } else {
            edit.renew_life(id, &mut job, None);
            job.attempts = 0;
            set_deadline(edit, id, &mut job, new.kind.deadline);
            if !new.kind.flow.is_empty() {
                begin_flow(&mut job, &new.kind, settings);
            }
        }
        job.due = due;
        job.place = edit.in_line(due, job.priority, settings.step, item);
        let keeps = self.adding.mode == AddMode::Resubmit && new.body.is_empty();
        let body = (!keeps).then(|| new.body.clone());
        if body.is_some() || !waiting {
            edit.forget_notes(id, &mut job);
        }
        if let Some(body) = &body {
            job.correlation.clone_from(&new.kind.correlation);
            edit.state.data.bodies.insert(id.to_owned(), body.clone());
        }
        edit.enter(id, &mut job, JobState::Ready);
        let state = job.state;
        edit.tell(id, &mut job, Some(state), body, None);
        if waiting { AddReply::Changed } else { AddReply::Anew }
    }
}

/// A flow that is there anew begins with its first stage.
fn begin_flow(job: &mut Record, kind: &Kind, settings: &Settings) {
    let group = kind.group.as_ref().filter(|_| settings.grouped).map_or("", GroupName::as_str);
    (job.queue, job.group) = (kind.queue.clone(), group.to_owned());
    (job.priority, job.keep) = (kind.priority, kind.keep.unwrap_or(settings.keep));
    job.flow.clone_from(&kind.flow);
}

/// Gives a job the deadline of its new life. That of its former life is none of it.
fn set_deadline(edit: &mut Edit<'_>, id: &str, job: &mut Record, deadline: u64) {
    let timer = format!("r:{id}");
    if deadline > 0 {
        flag(job, 'd');
        edit.timer(timer, Some(deadline));
        edit.arm(deadline);
    } else if job.has('d') {
        unflag(job, "d");
        edit.timer(timer, None);
    }
}

/// Whether a job is a child of a former life of this parent, under the same id. One whose parent is not known any more has
/// ended, or was abandoned. Any other one is a stranger's.
fn is_former(id: &str, job: &Record, parent: &str) -> bool {
    match job.parent.rsplit_once('#') {
        Some((of, _)) => of == parent,
        None if job.state.is_over() || job.has('x') => {
            id.strip_prefix(parent).is_some_and(|name| name.starts_with('.'))
        }
        None => false,
    }
}
