//! The steps, one at a time.

use std::collections::BTreeSet;
use std::ops::Bound::{Excluded, Unbounded};
use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use tenure_steps::Letters;
use tokio::sync::mpsc;

use super::MemoryStore;
use super::edit::{Edit, flag, floor_at, limit_of, seen_token, server_name, unflag};
use super::news::watcher;
use super::state::with_prefix;
use super::tick::Limits;
use super::{add, attest, settle, steer, take, tick};
use crate::model::id::{Incarnation, JobId, NodeName, QueueName, Token};
use crate::model::queue::Settings;
use crate::model::record::{Record, State as JobState};
use crate::store::{
    AddReply, Adding, Attesting, Booted, Breakage, Ends, Extended, FULL, Figures, Hint, Lane, Listing,
    MOST_ENDS, Page, Peeked, Request, Result, Seen, SettleReply, Settling, SteerReply, Store, StoreError,
    TakeReply, Taking, Ticked, Watching,
};

/// The answer to the last call of a lane, if this is it.
fn before(edit: &Edit<'_>, lane: &Lane) -> Result<Option<String>> {
    if edit.state.data.is_broken(Breakage::CallsTwice) {
        return Ok(None);
    }
    match edit.state.data.lanes.get(&lane.name) {
        Some((number, answer)) if *number == lane.number => Ok(Some(answer.clone())),
        Some((number, _)) if *number > lane.number => Err(StoreError::Late),
        _ => Ok(None),
    }
}

fn remember(edit: &mut Edit<'_>, lane: &Lane, answer: &str) {
    edit.state.data.lanes.insert(lane.name.clone(), (lane.number, answer.to_owned()));
}

fn text(replies: &[impl Letters]) -> String {
    replies.iter().map(|reply| char::from(reply.letter())).collect()
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

#[async_trait]
impl Store for MemoryStore {
    async fn boot(&self, seen: Token) -> Result<Booted> {
        let (now, mut state) = (self.ms(), self.state());
        let server = state.server;
        let meta = &mut state.data.meta;
        if let Some(incarnation) = meta.incarnation {
            let (server, recovered) = (server_name(meta.server), meta.hold > 0);
            return Ok(Booted::Exists { incarnation, server, recovered });
        }
        meta.server = server;
        let incarnation = Incarnation(now);
        meta.incarnation = Some(incarnation);
        meta.token = floor_at(now).max(seen_token(seen.0));
        meta.ticked = now;
        Ok(Booted::Created { incarnation })
    }

    async fn recover(
        &self,
        inc: Incarnation,
        seen: Token,
        _server: &str,
        hold: u64,
        grace: u64,
    ) -> Result<Incarnation> {
        let (now, mut state) = (self.ms(), self.state());
        let edit = Edit::begin_anywhere(&mut state, now, inc)?;
        let server = edit.state.server;
        let token = floor_at(now).max(edit.state.data.token().0).max(seen_token(seen.0));
        let meta = &mut edit.state.data.meta;
        let incarnation = Incarnation(now.max(inc.0 + 1));
        meta.incarnation = Some(incarnation);
        (meta.token, meta.server) = (token, server);
        (meta.hold, meta.grace, meta.armed) = (now + hold, now + grace, 0);
        meta.duty.clear();
        Ok(incarnation)
    }

    async fn server(&self) -> Result<Box<str>> {
        Ok(server_name(self.state().server))
    }

    fn bless(&self, server: &str) {
        let mut state = self.state();
        if *server_name(state.server) == *server {
            state.blessed = state.server;
        }
    }

    async fn declare(&self, inc: Incarnation, queue: &QueueName, settings: &Settings) -> Result<bool> {
        let (now, mut state) = (self.ms(), self.state());
        let mut edit = Edit::begin(&mut state, now, inc)?;
        let was = edit.state.data.queues.get(queue).cloned();
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
            for id in edit.state.data.leases.members() {
                if let Some(job) = edit.job(&id).filter(|job| job.queue == *queue) {
                    edit.state.data.leases.insert(id, now + settings.lease);
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

    async fn name(&self, inc: Incarnation, queue: &QueueName) -> Result<()> {
        let (now, mut state) = (self.ms(), self.state());
        let mut edit = Edit::begin(&mut state, now, inc)?;
        if !edit.state.data.queues.contains_key(queue) {
            edit.state.data.queues.insert(queue.clone(), Settings::named());
            if edit.has_ready(queue, None) {
                edit.wake(queue, 1_000);
            }
            edit.tell_duty();
        }
        Ok(())
    }

    async fn add(&self, inc: Incarnation, lane: &Lane, adding: &Adding) -> Result<Vec<AddReply>> {
        let (now, mut state) = (self.ms(), self.state());
        let mut edit = Edit::begin(&mut state, now, inc)?;
        if let Some(answer) = before(&edit, lane)? {
            return Ok(answer.bytes().filter_map(AddReply::of_letter).collect());
        }
        edit.has_tokens()?;
        let replies = add::add(&mut edit, adding);
        remember(&mut edit, lane, &text(&replies));
        edit.flush();
        Ok(replies)
    }

    async fn take(&self, inc: Incarnation, lane: &Lane, taking: &Taking) -> Result<TakeReply> {
        let (now, mut state) = (self.ms(), self.state());
        let mut edit = Edit::begin(&mut state, now, inc)?;
        if edit.hold() > now {
            return Ok(TakeReply::Hold(edit.hold() - now));
        }
        edit.has_tokens()?;
        if let Some(answer) = before(&edit, lane)? {
            return Ok(take::again(&edit, &answer));
        }
        let (reply, remembered) = take::take(&mut edit, taking);
        remember(&mut edit, lane, &remembered);
        Ok(reply)
    }

    async fn settle(&self, inc: Incarnation, lane: &Lane, jobs: &[Settling]) -> Result<Vec<SettleReply>> {
        let (now, mut state) = (self.ms(), self.state());
        let mut edit = Edit::begin(&mut state, now, inc)?;
        if let Some(answer) = before(&edit, lane)? {
            return Ok(answer.bytes().filter_map(SettleReply::of_letter).collect());
        }
        let replies = settle::settle(&mut edit, jobs);
        remember(&mut edit, lane, &text(&replies));
        edit.flush();
        Ok(replies)
    }

    async fn extend(&self, inc: Incarnation, jobs: &[(JobId, Token)]) -> Result<Extended> {
        let (now, mut state) = (self.ms(), self.state());
        let edit = Edit::begin(&mut state, now, inc)?;
        let mut shortest = 0;
        let mut extended = |(id, token): &(JobId, Token)| {
            let running =
                edit.job(id.as_str()).filter(|job| job.state == JobState::Running && job.token == *token);
            let Some(job) = running else { return SettleReply::Halt };
            let lease = edit.settings(&job.queue).lease;
            shortest = if shortest == 0 { lease } else { lease.min(shortest) };
            edit.state.data.leases.insert(id.as_str(), now + lease);
            match &job {
                job if job.has('x') => SettleReply::ToCancel,
                job if job.again.is_some() => SettleReply::Asked,
                _ => SettleReply::GoesOn,
            }
        };
        let replies = jobs.iter().map(&mut extended).collect();
        Ok(Extended { lease: shortest, replies })
    }

    async fn attest(&self, inc: Incarnation, jobs: &[Attesting]) -> Result<Extended> {
        let (now, mut state) = (self.ms(), self.state());
        let mut edit = Edit::begin(&mut state, now, inc)?;
        let extended = attest::attest(&mut edit, jobs);
        edit.flush();
        Ok(extended)
    }

    async fn tick(
        &self,
        inc: Incarnation,
        node: &NodeName,
        most: u32,
        pause: u64,
        grace: u64,
        off_duty: bool,
    ) -> Result<Ticked> {
        let (now, mut state) = (self.ms(), self.state());
        let edit = Edit::begin(&mut state, now, inc)?;
        Ok(tick::tick(edit, node, &Limits { most: most as usize, pause, grace, off_duty }))
    }

    async fn steer(&self, inc: Incarnation, requests: &[Request]) -> Result<Vec<SteerReply>> {
        let (now, mut state) = (self.ms(), self.state());
        let mut edit = Edit::begin(&mut state, now, inc)?;
        let replies = steer::steer(&mut edit, requests);
        edit.flush();
        Ok(replies)
    }

    async fn watch(
        &self,
        inc: Incarnation,
        node: &NodeName,
        watching: Watching,
        number: u64,
        ids: &[JobId],
    ) -> Result<Vec<Option<Seen>>> {
        let (now, mut state) = (self.ms(), self.state());
        let mut edit = Edit::begin(&mut state, now, inc)?;
        let (mut jobs, mut bytes) = (Vec::with_capacity(ids.len()), 0);
        for id in ids {
            let seen = watch(&mut edit, node, (watching, number), id);
            bytes += seen.as_ref().map_or(0, size);
            jobs.push(seen);
            if bytes > FULL {
                break;
            }
        }
        Ok(jobs)
    }

    async fn peek(&self, inc: Incarnation, ends: &Ends, ids: &[JobId]) -> Result<Vec<Option<Peeked>>> {
        let (now, mut state) = (self.ms(), self.state());
        let edit = Edit::begin(&mut state, now, inc)?;
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

    async fn figures(&self, inc: Incarnation, queues: &[QueueName]) -> Result<Vec<Figures>> {
        let (now, mut state) = (self.ms(), self.state());
        let edit = Edit::begin(&mut state, now, inc)?;
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
        Ok(queues.iter().map(figures).collect())
    }

    async fn queues(&self) -> Result<Vec<QueueName>> {
        Ok(self.state().data.queues.keys().cloned().collect())
    }

    async fn list(&self, listing: &Listing, after: Option<&str>, size: u32) -> Result<Page> {
        let state = self.state();
        let (key, prefix) = listing.place();
        let set = if key == "index" { &state.data.index } else { &state.data.ready };
        let after = after.map(|after| format!("{prefix}{after}"));
        let members =
            with_prefix(set, &prefix).filter(|member| after.as_ref().is_none_or(|after| *member > after));
        let members: Vec<_> = members.take(size as usize).cloned().collect();
        Ok(listing.page(&prefix, &members, size))
    }

    async fn scan(&self, cursor: u64, size: u32) -> Result<(u64, Vec<(JobId, Record)>)> {
        let state = self.state();
        let jobs = state.data.jobs.iter().skip(cursor as usize).take(size as usize);
        let jobs: Vec<_> = jobs.filter_map(|(id, job)| Some((JobId::new(id).ok()?, job.clone()))).collect();
        let next = cursor + jobs.len() as u64;
        Ok((if next < state.data.jobs.len() as u64 { next } else { 0 }, jobs))
    }

    async fn time(&self) -> Result<u64> {
        Ok(self.ms())
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

fn size(seen: &Seen) -> usize {
    seen.body.len() + seen.result.len() + seen.notes.len()
}

fn watch(
    edit: &mut Edit<'_>,
    node: &NodeName,
    (watching, number): (Watching, u64),
    id: &JobId,
) -> Option<Seen> {
    let mut job = edit.job(id.as_str())?;
    let field = format!("s:{id}");
    let stored = String::from_utf8_lossy(&edit.state.data.extra(&field)).into_owned();
    let entries = stored.split(',').filter(|entry| !entry.is_empty());
    let (own, others): (Vec<_>, Vec<_>) = entries.partition(|entry| watcher(entry).0 == node.as_str());
    let last = own.first().map(|entry| watcher(entry).1);
    // A call that comes late takes back no later one.
    let later = last.filter(|last| *last > number);
    let on = watching != Watching::End && (last.is_some() || !job.state.is_over());
    let own = (on || later.is_some()).then(|| format!("{node}#{}", later.unwrap_or(number)));
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
