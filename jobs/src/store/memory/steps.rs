//! The transitions of the steps. The long ones stand beside this file.

use std::collections::BTreeSet;
use std::ops::Bound::{Excluded, Unbounded};
use std::sync::Arc;

use bytes::Bytes;
use futures::FutureExt;
use futures::future::BoxFuture;
use tenure_steps::{Letters, Step};
use tokio::sync::mpsc;

use super::MemoryStore;
use super::edit::{Edit, flag, floor_at, limit_of, seen_token, server_name, unflag};
use super::news::watcher;
use super::settle::goes_on;
use super::state::with_prefix;
use crate::model::id::{Incarnation, JobId, NodeName, QueueName, Token};
use crate::model::queue::Settings;
use crate::model::record::{Record, State as JobState};
use crate::store::{
    Answer, Boot, Booted, Declare, Ends, ExtendJobs, Extended, FULL, Figures, Hint, Known, ListJobs,
    ListQueues, MOST_ENDS, Page, PeekJobs, Peeked, ReadFigures, ReadServer, ReadTime, Recover, Result,
    ScanJobs, Seen, SettleReply, Store, WatchJobs, Watching,
};

/// Refuses a step on another server, or in another incarnation.
type Check = fn(&Edit<'_>, Incarnation) -> Result<()>;

/// The check of a step that takes no incarnation.
const NONE: Check = |_, _| Ok(());

/// The transition of a step in memory.
pub trait Transition: Step {
    /// The check before the step.
    const CHECK: Check = |edit, inc| edit.is_blessed_in(inc);

    /// Changes the data.
    ///
    /// # Errors
    /// [`StoreError`](crate::StoreError).
    fn apply(&self, edit: Edit<'_>) -> Result<Self::Answer>;

    /// Performs the step in this incarnation, if the check allows the step.
    ///
    /// # Errors
    /// [`StoreError`](crate::StoreError).
    fn on_memory(&self, store: &MemoryStore, inc: Incarnation) -> Result<Self::Answer> {
        let (now, mut state) = (store.ms(), store.state());
        let edit = Edit::new(&mut state, now);
        Self::CHECK(&edit, inc)?;
        self.apply(edit)
    }
}

impl Store for MemoryStore {
    fn perform<'a>(&'a self, inc: Incarnation, step: &'a dyn Known) -> BoxFuture<'a, Result<Answer>> {
        async move { step.with_memory(self, inc) }.boxed()
    }

    fn bless(&self, server: &str) {
        let mut state = self.state();
        if *server_name(state.server) == *server {
            state.blessed = state.server;
        }
    }

    fn listen(&self, node: &NodeName) -> mpsc::UnboundedReceiver<Hint> {
        let (sender, receiver) = mpsc::unbounded_channel();
        // The receiver is at hand.
        let _ = sender.send(Hint::Subscribed);
        self.state().listeners.insert(node.clone(), sender);
        receiver
    }

    fn apart(&self) -> Arc<dyn Store> {
        Arc::new(self.clone())
    }
}

/// The letters of replies, as a lane remembers them.
pub(super) fn letters(replies: &[impl Letters]) -> String {
    replies.iter().map(|reply| char::from(reply.letter())).collect()
}

impl Transition for Boot {
    const CHECK: Check = NONE;
    fn apply(&self, edit: Edit<'_>) -> Result<Booted> {
        let (now, server, meta) = (edit.now, edit.state.server, &mut edit.state.data.meta);
        if let Some(incarnation) = meta.incarnation {
            let (server, recovered) = (server_name(meta.server), meta.hold > 0);
            return Ok(Booted::Exists { incarnation, server, recovered });
        }
        meta.server = server;
        let incarnation = Incarnation(now);
        meta.incarnation = Some(incarnation);
        meta.token = floor_at(now).max(seen_token(self.0.0));
        meta.ticked = now;
        Ok(Booted::Created { incarnation })
    }
}

impl Transition for Recover {
    const CHECK: Check = |edit, inc| edit.is_in(inc);
    fn apply(&self, edit: Edit<'_>) -> Result<Incarnation> {
        let (now, server, meta) = (edit.now, edit.state.server, &mut edit.state.data.meta);
        let incarnation = Incarnation(meta.incarnation.map_or(now, |former| now.max(former.0 + 1)));
        meta.incarnation = Some(incarnation);
        meta.token = floor_at(now).max(meta.token).max(seen_token(self.seen.0));
        meta.server = server;
        (meta.hold, meta.grace, meta.armed) = (now + self.hold, now + self.grace, 0);
        meta.duty.clear();
        Ok(incarnation)
    }
}

impl Transition for ReadServer {
    const CHECK: Check = NONE;
    fn apply(&self, edit: Edit<'_>) -> Result<Box<str>> {
        Ok(server_name(edit.state.server))
    }
}

impl Transition for Declare {
    fn apply(&self, mut edit: Edit<'_>) -> Result<bool> {
        let (Self(queue, settings), now) = (self, edit.now);
        let was = edit.state.data.queues.get(queue).cloned();
        let Some(settings) = settings else {
            if was.is_none() {
                edit.state.data.queues.insert(queue.clone(), Settings::named());
                if edit.has_ready(queue, None) {
                    edit.wake(queue, 1_000);
                }
                edit.tell_duty();
            }
            return Ok(true);
        };
        let kind = |settings: &Settings| (settings.grouped, settings.pinned);
        if let Some(was) = &was
            && kind(was) != kind(settings)
            && !(was.is_named() && is_blank(&edit, queue))
        {
            return Ok(false);
        }
        let mut settings = settings.clone();
        settings.paused = was.as_ref().is_some_and(|was| was.paused);
        edit.state.data.note_kind(queue, &settings);
        edit.state.data.queues.insert(queue.clone(), settings.clone());
        if !settings.pinned && edit.has_ready(queue, None) {
            edit.wake(queue, 1_000);
        }
        edit.tell_duty();
        let Some(was) = was else { return Ok(true) };
        if was.lease != settings.lease {
            let mut nodes = BTreeSet::new();
            let leased: Vec<_> = edit.state.data.leases.iter().map(|(_, id)| id.clone()).collect();
            for id in leased {
                if let Some(job) = edit.job(&id).filter(|job| job.queue == *queue) {
                    edit.state.data.leases.put(id, now + settings.lease);
                    edit.arm(now + settings.lease);
                    nodes.insert(job.node);
                }
            }
            for node in nodes {
                edit.publish(&node, Hint::Extend);
            }
        }
        let limits =
            |settings: &Settings| (settings.group_limit, settings.group_window, settings.group_concurrency);
        if settings.grouped && (limits(&was) != limits(&settings) || was.lease != settings.lease) {
            let prefix = format!("{queue}|");
            let keys: Vec<_> =
                edit.state.data.groups.keys().filter(|key| key.starts_with(&prefix)).cloned().collect();
            for key in keys {
                edit.group(queue, &key[prefix.len()..]);
            }
            edit.place_groups();
            if edit.stir(queue).added > 0 && !settings.paused {
                edit.wake_for(queue);
            }
        }
        edit.tell_duty();
        Ok(true)
    }
}

impl Transition for ExtendJobs {
    fn apply(&self, edit: Edit<'_>) -> Result<Extended> {
        let mut shortest = 0;
        let mut extended = |(id, token): &(JobId, Token)| {
            let running =
                edit.job(id.as_str()).filter(|job| job.state == JobState::Running && job.token == *token);
            let Some(job) = running else { return SettleReply::Halt };
            let lease = edit.settings(&job.queue).lease;
            shortest = if shortest == 0 { lease } else { lease.min(shortest) };
            edit.state.data.leases.put(id.to_string(), edit.now + lease);
            goes_on(&job)
        };
        let replies = self.0.iter().map(&mut extended).collect();
        Ok(Extended { lease: shortest, replies })
    }
}

impl Transition for WatchJobs {
    fn apply(&self, mut edit: Edit<'_>) -> Result<Vec<Option<Seen>>> {
        let (mut jobs, mut bytes) = (Vec::with_capacity(self.ids.len()), 0);
        for id in &self.ids {
            let seen = self.watch(&mut edit, id);
            bytes += seen.as_ref().map_or(0, size);
            jobs.push(seen);
            if bytes > FULL {
                break;
            }
        }
        Ok(jobs)
    }
}

impl Transition for PeekJobs {
    fn apply(&self, edit: Edit<'_>) -> Result<Vec<Option<Peeked>>> {
        let Self(ends, ids) = self;
        let (mut jobs, mut answered) = (Vec::with_capacity(ids.len()), Answered::default());
        for id in ids {
            let Some(mut seen) = seen(&edit, id) else {
                jobs.push(None);
                continue;
            };
            let behind = match ends {
                Ends::Behind(child) if jobs.is_empty() => {
                    (seen.body, seen.result, seen.notes) = (Bytes::new(), Bytes::new(), Bytes::new());
                    child
                }
                _ => "",
            };
            answered.bytes += size(&seen);
            let begins_at = begins_at(&edit, id, &seen.record);
            let mut peeked = Peeked { seen, begins_at, children: Vec::new(), more: None };
            if *ends != Ends::Without && peeked.seen.record.has('c') {
                tell_ends(&edit, id, behind, &mut peeked, &mut answered);
            }
            let is_full = peeked.more.is_some() || answered.bytes > FULL;
            jobs.push(Some(peeked));
            if is_full {
                break;
            }
        }
        Ok(jobs)
    }
}

impl Transition for ReadFigures {
    fn apply(&self, edit: Edit<'_>) -> Result<Vec<Figures>> {
        let data = &edit.state.data;
        let figures = |queue: &QueueName| Figures {
            settings: data.queues.get(queue).cloned(),
            ready: with_prefix(&data.ready, &format!("{queue}|")).count() as u64,
            running: data.count(queue, "running"),
            delayed: data.count(queue, "delayed"),
            waiting: data.count(queue, "waiting"),
            dead: with_prefix(&data.index, &format!("f:{queue}|")).count() as u64,
            done: data.count(queue, "done"),
            failed: data.count(queue, "failed"),
            cancelled: data.count(queue, "cancelled"),
        };
        Ok(self.0.iter().map(figures).collect())
    }
}

impl Transition for ListQueues {
    const CHECK: Check = NONE;
    fn apply(&self, edit: Edit<'_>) -> Result<Vec<QueueName>> {
        Ok(edit.state.data.queues.keys().cloned().collect())
    }
}

impl Transition for ListJobs {
    const CHECK: Check = NONE;
    fn apply(&self, edit: Edit<'_>) -> Result<Page> {
        let (key, prefix) = self.of.place();
        let set = if key == "index" { &edit.state.data.index } else { &edit.state.data.ready };
        let after = self.after.as_ref().map(|after| format!("{prefix}{after}"));
        let members =
            with_prefix(set, &prefix).filter(|member| after.as_ref().is_none_or(|after| *member > after));
        let members: Vec<_> = members.take(self.size as usize).cloned().collect();
        Ok(self.of.page(&prefix, &members, self.size))
    }
}

impl Transition for ScanJobs {
    const CHECK: Check = NONE;
    fn apply(&self, edit: Edit<'_>) -> Result<(u64, Vec<(JobId, Record)>)> {
        let (Self(cursor, size), all) = (self, &edit.state.data.jobs);
        let jobs = all.iter().skip(*cursor as usize).take(*size as usize);
        let jobs: Vec<_> = jobs.filter_map(|(id, job)| Some((JobId::new(id).ok()?, job.clone()))).collect();
        let next = cursor + jobs.len() as u64;
        Ok((if next < all.len() as u64 { next } else { 0 }, jobs))
    }
}

impl Transition for ReadTime {
    const CHECK: Check = NONE;
    fn apply(&self, edit: Edit<'_>) -> Result<u64> {
        Ok(edit.now)
    }
}

fn seen(edit: &Edit<'_>, id: &JobId) -> Option<Seen> {
    let record = edit.job(id.as_str())?;
    let data = &edit.state.data;
    let (body, result, notes) = (data.body(id), data.extra(&format!("r:{id}")), data.notes(id));
    Some(Seen { record, body, result, notes })
}

/// The time until which the limit of its group keeps a ready job from beginning.
fn begins_at(edit: &Edit<'_>, id: &JobId, job: &Record) -> u64 {
    let settings = edit.settings(&job.queue);
    if job.state != JobState::Ready || !settings.grouped {
        return 0;
    }
    let key = format!("{}|{}", job.queue, job.group);
    let Some(group) = edit.state.data.groups.get(&key) else { return 0 };
    let (limit, size) = limit_of(group, &settings);
    let mut at = 0;
    if limit > 0 {
        let begins = edit.now / size * size;
        let left = if group.window == begins { limit.saturating_sub(group.used) } else { limit };
        let (prefix, own) = (format!("{key}|"), format!("{key}|{}{id}", job.place));
        let rank =
            with_prefix(&edit.state.data.ready, &prefix).take_while(|member| **member < own).count() as u64;
        if rank >= left {
            at = begins + size + (rank - left) / limit * size;
        }
    }
    if group.blocked > edit.now { at.max(group.blocked) } else { at }
}

/// Whether no job has ever come to a queue.
fn is_blank(edit: &Edit<'_>, queue: &QueueName) -> bool {
    let counts = ["running", "delayed", "waiting", "done", "failed", "cancelled"];
    let data = &edit.state.data;
    counts.iter().all(|of| data.count(queue, of) == 0) && !edit.has_ready(queue, None)
}

/// The fill of an answer about jobs.
#[derive(Default)]
struct Answered {
    bytes: usize,
    ends: usize,
}

/// Tells the ends of the children of a job, from one on, until the answer is full; and behind which of them there are more.
fn tell_ends(edit: &Edit<'_>, id: &JobId, behind: &str, peeked: &mut Peeked, answered: &mut Answered) {
    let (prefix, mut behind) = (format!("c:{id}#{}|", peeked.seen.record.birth), behind.to_owned());
    let from = (Excluded(format!("{prefix}{behind}")), Unbounded);
    let members = edit.state.data.index.range(from).take_while(|member| member.starts_with(&prefix));
    for member in members {
        if answered.bytes > FULL || answered.ends == MOST_ENDS {
            peeked.more = Some(behind.into());
            return;
        }
        member[prefix.len()..].clone_into(&mut behind);
        let end = edit.state.data.extras.get(member).cloned().unwrap_or_else(|| Bytes::from_static(b"X"));
        let letter = end.first().map_or('X', |letter| char::from(*letter));
        answered.bytes += behind.len() + end.len();
        answered.ends += 1;
        let Ok(child) = JobId::new(&behind) else { continue };
        peeked.children.push((child, letter, end.slice(1.min(end.len())..)));
    }
}

fn size(seen: &Seen) -> usize {
    seen.body.len() + seen.result.len() + seen.notes.len()
}

impl WatchJobs {
    fn watch(&self, edit: &mut Edit<'_>, id: &JobId) -> Option<Seen> {
        let Self { node, watching, number, .. } = self;
        let mut job = edit.job(id.as_str())?;
        let field = format!("s:{id}");
        let stored = String::from_utf8_lossy(&edit.state.data.extra(&field)).into_owned();
        let entries = stored.split(',').filter(|entry| !entry.is_empty());
        let (own, others): (Vec<_>, Vec<_>) = entries.partition(|entry| watcher(entry).0 == node.as_str());
        let last = own.first().map(|entry| watcher(entry).1);
        // A call that comes late takes back no later one.
        let later = last.filter(|last| last > number);
        let on = *watching != Watching::End && (last.is_some() || !job.state.is_over());
        let own = (on || later.is_some()).then(|| format!("{node}#{}", later.unwrap_or(*number)));
        let nodes: Vec<_> = others.into_iter().chain(own.as_deref()).collect();
        if nodes.is_empty() {
            edit.state.data.extras.remove(&field);
            unflag(&mut job, "w");
        } else {
            edit.state.data.extras.insert(field, nodes.join(",").into());
            flag(&mut job, 'w');
        }
        edit.put(id.as_str(), &job);
        match watching {
            Watching::Begin => seen(edit, id),
            _ => Some(Seen { record: job, body: Bytes::new(), result: Bytes::new(), notes: Bytes::new() }),
        }
    }
}
