//! Asks, and what is said to them: events in the streams of owners and of askers, and nothing else.

use std::collections::BTreeMap;

use tenure_steps::EntryId;

use super::log::Log;
use super::server::{Applied, Transition};
use super::state::State;
use super::streams::NodeEntry;
use crate::model::id::{Incarnation, JobKey, NodeName, Token, WorkerId};
use crate::model::record::JobState;
use crate::mutation::Mutation;
use crate::step::{
    ASK_ENTRIES, ASK_MAX, ASK_STREAM, Ask, AskEvent, AskId, AskItem, AskReply, Refusal, Reply, ReplyItem,
    ReplyReply, Said, WorkerEvent, replies_kept,
};

/// The asks of one call for a worker.
#[derive(Default)]
struct Sent {
    asks: Vec<(JobKey, AskEvent)>,
    bytes: usize,
}

impl Transition for Ask {
    fn apply(&self, state: &mut State, now: u64, inc: Incarnation) -> Applied<Self> {
        state.ask(now, inc, &self.asker, &self.items)
    }
}

impl Transition for Reply {
    fn apply(&self, state: &mut State, now: u64, inc: Incarnation) -> Applied<Self> {
        state.reply(now, inc, self.worker, &self.finished, &self.items)
    }
}

impl State {
    /// Hands asks to the owners of jobs.
    fn ask(
        &mut self,
        now: u64,
        inc: Incarnation,
        asker: &NodeName,
        items: &[AskItem],
    ) -> std::result::Result<Vec<AskReply>, Refusal> {
        self.guard(inc)?;
        let mut sent: BTreeMap<WorkerId, Sent> = BTreeMap::new();
        let replies = items.iter().map(|item| self.ask_one(now, item, &mut sent)).collect();
        for (worker, Sent { asks, .. }) in sent {
            if !asks.is_empty() {
                self.send(now, worker, WorkerEvent::Ask { asker: asker.clone(), asks });
            }
        }
        Ok(replies)
    }

    fn ask_one(&self, now: u64, item: &AskItem, sent: &mut BTreeMap<WorkerId, Sent>) -> AskReply {
        let AskItem { key, guess, ask } = item;
        if ask.body.len() > ASK_MAX {
            return AskReply::Bad;
        }
        let Some(record) = self.record(key) else {
            return match self.meta.recovering {
                _ if self.is_damaged(key) => AskReply::Bad,
                true => AskReply::Recovering,
                false => AskReply::Absent,
            };
        };
        match record.state {
            JobState::Queued | JobState::Assigned => return AskReply::Waiting,
            JobState::Stopping => return AskReply::Stopping,
            JobState::Parked if record.is_paused() => return AskReply::Paused,
            JobState::Parked => return AskReply::Parked,
            JobState::Running => {}
        }
        // Token 0 is nobody's, also where a record that was tampered with has it.
        let names_it = ask.token > Token(0) && record.token == ask.token;
        let fits = names_it || self.broken.has(Mutation::AskUnderAnyToken);
        let owner = match (record.owner, *guess) {
            (Some(owner), Some(guess)) if owner == guess && fits => owner,
            (owner, _) => return AskReply::Owner(owner.map(|owner| (owner, record.token))),
        };
        if ask.not_after < now || ask.not_after > now + self.limit("max_dispatch_deadline") {
            return AskReply::Late;
        }
        if !self.members.contains_key(&owner) {
            return AskReply::Gone;
        }
        let waiting = self.worker_streams.get(&owner).map_or(0, Log::len);
        let sent = sent.entry(owner).or_default();
        let bytes = sent.bytes + ask.body.len();
        if waiting > ASK_ENTRIES || waiting * bytes > ASK_STREAM {
            return AskReply::Crowded;
        }
        sent.bytes = bytes;
        sent.asks.push((key.clone(), ask.clone()));
        AskReply::Sent
    }

    /// Tells askers what became of their asks.
    fn reply(
        &mut self,
        now: u64,
        inc: Incarnation,
        worker: WorkerId,
        finished: &[EntryId],
        items: &[ReplyItem],
    ) -> std::result::Result<Vec<ReplyReply>, Refusal> {
        let recovering = self.guard(inc)?;
        let mut told: BTreeMap<&NodeName, Vec<(AskId, Said)>> = BTreeMap::new();
        let mut replies = Vec::with_capacity(items.len());
        for item in items {
            let reply = self.may_say(worker, item, recovering);
            if reply == ReplyReply::Told {
                told.entry(&item.asker).or_default().push((item.id, item.said.clone()));
            }
            replies.push(reply);
        }
        for (node, entry) in told {
            let bytes = entry.iter().map(|(_, said)| said.encode().len()).sum();
            if let Some(stream) = self.node_streams.get_mut(node) {
                stream.log.append(now, NodeEntry::Replies(entry));
                stream.log.trim(replies_kept(bytes));
                self.appended += 1;
            }
        }
        self.finish(worker, finished);
        Ok(replies)
    }

    fn may_say(&self, worker: WorkerId, item: &ReplyItem, recovering: bool) -> ReplyReply {
        if !item.said.is_the_owners() || self.broken.has(Mutation::RepliesUnfenced) {
            return ReplyReply::Told;
        }
        let owns = |state| matches!(state, JobState::Running | JobState::Stopping);
        if self.record_of(&item.key, worker, item.token).is_some_and(|record| owns(record.state)) {
            ReplyReply::Told
        } else if recovering && !self.jobs.contains_key(&item.key) {
            ReplyReply::Recovering
        } else {
            ReplyReply::Stale
        }
    }
}
