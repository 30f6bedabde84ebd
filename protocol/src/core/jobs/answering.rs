//! Asks that come for a worker's jobs, and what is said to them (a part of [`Jobs`]).
//!
//! - An attempt is handed to a handler at most once: its id is remembered for as long as a copy of it may come.
//! - An attempt that was refused here is not handed over later, for the same reason. So its asker may try elsewhere.
//! - An ask comes after every notification that was kept before it, and after every update of its job that was made before
//!   it, unless the event of that was lost.
//! - A job is released only after what its handler said to asks was told.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

use bytes::Bytes;
use tenure_steps::EntryId;

use super::Jobs;
use super::held::JobPhase;
use super::seen::Seen;
use super::unsaid::Word;
use crate::core::batcher::Batcher;
use crate::core::call::{Call, READ_ENTRIES};
use crate::core::ctx::Ctx;
use crate::core::effect::{Effect, HandedAsk};
use crate::core::time::{Time, earliest};
use crate::model::id::{JobKey, NodeName, Token};
use crate::mutation::Mutation;
use crate::step::{
    AskEvent, AskId, BATCH_MAX, Cursors, NodeEvents, ReadNode, Reply, ReplyItem, ReplyReply, Result, Said,
    StoreError, WorkerEvent,
};

/// The most asks that are open for one job, and their bytes.
const OPEN_MAX: usize = 64;
const OPEN_BYTES: usize = 1 << 20;
/// The most replies that are kept for pokes, and their bytes.
const KEPT_MAX: usize = 1_024;
const KEPT_BYTES: usize = 4 << 20;

/// How long an entry that was read waits for a reply to go with.
const ENTRY_WAITS: Duration = Duration::from_secs(1);

/// A job in this worker's hands.
type Id = (JobKey, Token);

/// The latest replies, for pokes.
#[derive(Debug, Default)]
struct Kept {
    replies: BTreeMap<AskId, ReplyItem>,
    order: VecDeque<AskId>,
    bytes: usize,
}

impl Kept {
    fn keep(&mut self, reply: ReplyItem) {
        self.bytes += size_of_reply(&reply);
        self.order.push_back(reply.id);
        self.replies.insert(reply.id, reply);
        while self.order.len() > KEPT_MAX || self.bytes > KEPT_BYTES {
            let Some(oldest) = self.order.pop_front() else { return };
            if let Some(reply) = self.replies.remove(&oldest) {
                self.bytes -= size_of_reply(&reply);
            }
        }
    }
}

/// An ask that waits for its turn.
#[derive(Debug)]
struct Waiting {
    asker: NodeName,
    ask: AskEvent,
    deadline: Time,
    /// The notifications of its job that were delivered before it came, as far as they are counted.
    before: usize,
}

/// The open asks of one job.
#[derive(Debug, Default)]
struct OfJob {
    waiting: VecDeque<Waiting>,
    /// Those in the hands of its handler, each with who asks and its bytes.
    handed: BTreeMap<AskId, (NodeName, usize)>,
    bytes: usize,
    /// Notifications delivered since the job has open asks.
    passed: usize,
}

/// The asks of a worker's jobs.
#[derive(Debug, Default)]
pub(super) struct Answering {
    seen: Seen,
    kept: Kept,
    open: BTreeMap<Id, OfJob>,
    /// Jobs whose asks may have their turn now, or none any more.
    touched: BTreeSet<Id>,
    lane: Batcher<ReplyItem>,
    /// How many words of each job's handler were not told yet.
    owed: BTreeMap<Id, usize>,
    /// Entries of the worker's stream that go with the next reply, or at this time without one.
    entries: Vec<EntryId>,
    entries_due: Option<Time>,
    last_read: LastRead,
    /// A job may have been begun for this worker, so asks may have been sent to it.
    may_be_asked: bool,
}

/// A worker that has had a job reads its stream once more before it leaves: every ask that was sent to it stands there.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum LastRead {
    #[default]
    Due,
    UnderWay,
    Done,
}

impl Answering {
    pub(super) fn deadline(&self) -> Option<Time> {
        earliest(self.lane.deadline(), self.entries_due)
    }

    /// A job is begun: asks may be sent to its owner from now on.
    pub(super) fn begins_a_job(&mut self) {
        self.may_be_asked = true;
    }

    /// The asks of this job may have their turn.
    pub(super) fn touch(&mut self, key: &JobKey, token: Token) {
        if self.open.is_empty() {
            return;
        }
        let id = (key.clone(), token);
        if self.open.contains_key(&id) {
            self.touched.insert(id);
        }
    }

    /// Notifications of this job were delivered.
    pub(super) fn passed(&mut self, key: &JobKey, token: Token, count: usize) {
        if !self.open.is_empty()
            && let Some(of_job) = self.open.get_mut(&(key.clone(), token))
        {
            of_job.passed += count;
        }
    }
}

impl Jobs {
    /// An entry with asks has come. `server`: the server's clock now, if known.
    pub(in crate::core) fn on_asks(
        &mut self,
        ctx: &Ctx,
        entry: EntryId,
        asker: &NodeName,
        asks: Vec<(JobKey, AskEvent)>,
        server: Option<u64>,
    ) {
        if !self.inbox.admit(entry, 1) {
            return;
        }
        for (_, ask) in &asks {
            self.grants.has_seen(ask.token);
        }
        self.answering.entries.push(entry);
        self.answering.entries_due.get_or_insert(ctx.now + ENTRY_WAITS);
        let settings = &ctx.config.settings;
        let memory = 2 * settings.max_dispatch_deadline + settings.worker_ttl;
        self.answering.seen.forget(ctx.now, memory);
        for (key, ask) in asks {
            let left = server.map_or(settings.max_dispatch_deadline, |server| {
                Duration::from_millis(ask.not_after.saturating_sub(server))
                    .min(settings.max_dispatch_deadline)
            });
            let deadline = ctx.now + left;
            self.on_ask(ctx, key, Waiting { asker: asker.clone(), ask, deadline, before: 0 });
        }
    }

    fn on_ask(&mut self, ctx: &Ctx, key: JobKey, waiting: Waiting) {
        let (id, attempt, poke) = ((key, waiting.ask.token), waiting.ask.id, waiting.ask.poke);
        let is_new = self.answering.seen.note(ctx.now, attempt);
        if !is_new && !ctx.config.broken.has(Mutation::AsksUnremembered) {
            return self.on_known(id, waiting);
        }
        if poke {
            return self.say(ctx, id, waiting.asker, attempt, Said::Missed);
        }
        let comes =
            self.is_here(&id.0, id.1) || self.beginning.contains_key(&id) || self.succeeds(&id.0, id.1);
        if !comes {
            return self.say(ctx, id, waiting.asker, attempt, Said::Moved);
        }
        let of_job = self.answering.open.entry(id.clone()).or_default();
        let bytes = of_job.bytes + waiting.ask.body.len();
        if of_job.waiting.len() + of_job.handed.len() >= OPEN_MAX || bytes > OPEN_BYTES {
            return self.say(ctx, id, waiting.asker, attempt, Said::Busy);
        }
        of_job.bytes = bytes;
        of_job.waiting.push_back(Waiting { before: of_job.passed, ..waiting });
        self.answering.touched.insert(id);
    }

    /// A copy of what has come before, or a poke for it.
    fn on_known(&mut self, id: Id, Waiting { asker, ask, .. }: Waiting) {
        let open = self.answering.open.get(&id);
        let waits = |of: &OfJob| of.waiting.iter().any(|waiting| waiting.ask.id == ask.id);
        if let Some(reply) = self.answering.kept.replies.get(&ask.id) {
            let reply = reply.clone();
            self.tell(reply);
        } else if ask.poke && !open.is_some_and(|of| of.handed.contains_key(&ask.id) || waits(of)) {
            let (key, token) = id;
            self.tell(ReplyItem { key, token, asker, id: ask.id, said: Said::Forgotten });
        }
    }

    /// The handler has said this to an ask that it was handed. Nobody hears its words after the end of its job.
    pub(super) fn answered(&mut self, ctx: &Ctx, key: &JobKey, token: Token, attempt: AskId, said: Said) {
        let id = (key.clone(), token);
        let Some(of_job) = self.answering.open.get_mut(&id) else { return };
        let Some((asker, bytes)) = of_job.handed.remove(&attempt) else { return };
        of_job.bytes -= bytes;
        if of_job.handed.is_empty() && of_job.waiting.is_empty() {
            self.answering.open.remove(&id);
        }
        self.say(ctx, id, asker, attempt, said);
    }

    /// Says the last word to an attempt.
    fn say(&mut self, ctx: &Ctx, (key, token): Id, asker: NodeName, id: AskId, said: Said) {
        if said == Said::Moved && ctx.config.broken.has(Mutation::MovesUntold) {
            return;
        }
        let reply = ReplyItem { key, token, asker, id, said };
        self.answering.kept.keep(reply.clone());
        self.tell(reply);
    }

    fn tell(&mut self, reply: ReplyItem) {
        if reply.said.is_the_owners() {
            let id = (reply.key.clone(), reply.token);
            *self.answering.owed.entry(id.clone()).or_default() += 1;
            if self.is_here(&id.0, id.1) {
                self.owes(id, Word::Replies);
            }
        }
        self.answering.lane.push(reply);
    }

    /// Whether any job of this worker has asks that are not answered.
    pub(super) fn has_asks(&self) -> bool {
        !self.answering.open.is_empty()
    }

    /// The job leaves this worker's hands: nobody answers its asks any more.
    pub(super) fn drop_asks(&mut self, ctx: &Ctx, key: &JobKey, token: Token) {
        let id = (key.clone(), token);
        let Some(of_job) = self.answering.open.remove(&id) else { return };
        for (attempt, (asker, _)) in of_job.handed {
            self.say(ctx, id.clone(), asker, attempt, Said::Dropped);
        }
        for waiting in of_job.waiting {
            self.say(ctx, id.clone(), waiting.asker, waiting.ask.id, Said::Moved);
        }
    }

    /// The worker is fenced: it says nothing more.
    pub(super) fn forget_asks(&mut self) {
        self.answering = Answering::default();
    }

    /// Hands asks to the handlers whose turn it is, and sends what was said.
    pub(super) fn flush_asks(&mut self, ctx: &mut Ctx) {
        if !self.answering.touched.is_empty() {
            for id in std::mem::take(&mut self.answering.touched) {
                self.take_turn(ctx, id);
            }
        }
        let size = |reply: &ReplyItem| 128 + reply.key.as_bytes().len() + size_of_reply(reply);
        if let Some(items) = self.answering.lane.batch(ctx.now, size) {
            self.finish_entries();
            let (worker, finished) = (self.worker, self.inbox.take_handled());
            ctx.call(Call::Reply(Reply { worker, finished, items }));
        } else if self.answering.entries.len() >= BATCH_MAX
            || self.answering.entries_due.is_some_and(|due| due <= ctx.now)
        {
            self.finish_entries();
        }
    }

    fn finish_entries(&mut self) {
        self.answering.entries_due = None;
        for entry in std::mem::take(&mut self.answering.entries) {
            self.inbox.answered(entry);
        }
    }

    fn take_turn(&mut self, ctx: &mut Ctx, id: Id) {
        let cap = ctx.config.settings.notify_cap as usize;
        let before_notes = ctx.config.broken.has(Mutation::AsksBeforeNotes);
        let before_updates = ctx.config.broken.has(Mutation::AsksBeforeUpdates);
        let Some(of_job) = self.answering.open.get_mut(&id) else { return };
        let held = self.held.get(&id.0).filter(|held| held.token == id.1);
        let Some(held) = held else {
            if self.beginning.contains_key(&id) || self.succeeds(&id.0, id.1) {
                // It is not known yet whether the job will be here.
                self.answering.touched.insert(id);
            } else {
                self.drop_asks(ctx, &id.0, id.1);
            }
            return;
        };
        if held.order.is_some() {
            return self.turn_away(ctx, &id);
        }
        match held.phase {
            JobPhase::Waiting(_) | JobPhase::Starting => return,
            JobPhase::Running if held.notes.behind_update && !before_updates => return,
            JobPhase::Running => {}
            JobPhase::Stopping | JobPhase::Aborting => return self.turn_away(ctx, &id),
        }
        let all = held.notes.all_delivered() || before_notes;
        let has_waited = |waiting: &&Waiting| all || of_job.passed - waiting.before >= cap;
        let ready = of_job.waiting.iter().take_while(has_waited).count();
        let (mut asks, mut late) = (Vec::new(), Vec::new());
        for Waiting { asker, ask, deadline, .. } in of_job.waiting.drain(..ready) {
            if deadline <= ctx.now {
                of_job.bytes -= ask.body.len();
                late.push((asker, ask.id));
                continue;
            }
            of_job.handed.insert(ask.id, (asker.clone(), ask.body.len()));
            asks.push(HandedAsk { id: ask.id, name: ask.name, asker, body: ask.body, deadline });
        }
        let is_over = of_job.handed.is_empty() && of_job.waiting.is_empty();
        if is_over {
            self.answering.open.remove(&id);
        }
        for (asker, attempt) in late {
            self.say(ctx, id.clone(), asker, attempt, Said::Late);
        }
        if !asks.is_empty() {
            let (worker, (key, token)) = (self.worker, id);
            ctx.out.push(Effect::HandOver { worker, key, token, asks });
        }
    }

    /// The job is asked to end: those that wait have no turn any more.
    fn turn_away(&mut self, ctx: &Ctx, id: &Id) {
        let Some(of_job) = self.answering.open.get_mut(id) else { return };
        let waiting = std::mem::take(&mut of_job.waiting);
        of_job.bytes -= waiting.iter().map(|waiting| waiting.ask.body.len()).sum::<usize>();
        if of_job.handed.is_empty() {
            self.answering.open.remove(id);
        }
        for waiting in waiting {
            self.say(ctx, id.clone(), waiting.asker, waiting.ask.id, Said::Moved);
        }
    }

    pub(in crate::core) fn on_replied(
        &mut self,
        now: Time,
        finished: &[EntryId],
        items: Vec<ReplyItem>,
        replies: &[ReplyReply],
    ) {
        self.inbox.deleted(finished);
        let mut again = Vec::new();
        for (item, reply) in items.into_iter().zip(replies) {
            // Only the worker's report gives a job of lost data its record. One on its way out is not in that report before
            // its release was tried, which waits no longer.
            if *reply == ReplyReply::Recovering {
                let id = (item.key.clone(), item.token);
                if !self.is_here(&id.0, id.1) && self.answering.owed.remove(&id).is_some() {
                    self.said(id, Word::Replies);
                }
                again.push(item);
            } else {
                self.told(item);
            }
        }
        if again.is_empty() {
            self.answering.lane.answered();
        } else {
            self.answering.lane.put_back(now, again);
        }
    }

    fn told(&mut self, item: ReplyItem) {
        if !item.said.is_the_owners() {
            return;
        }
        let id = (item.key, item.token);
        let Some(owed) = self.answering.owed.get_mut(&id) else { return };
        *owed -= 1;
        if *owed == 0 {
            self.answering.owed.remove(&id);
            self.said(id, Word::Replies);
        }
    }

    /// A call has no answer: it goes again. Returns whether the error is news.
    pub(in crate::core) fn reply_again(
        &mut self,
        ctx: &mut Ctx,
        finished: Vec<EntryId>,
        items: Vec<ReplyItem>,
        error: StoreError,
    ) -> Result<()> {
        self.inbox.not_deleted(finished);
        let (whole, first) = (items.len(), items.first().map(|item| item.key.clone()));
        let news = self.answering.lane.failed(ctx.now, items, whole, &error);
        ctx.heard(news, first, error)
    }

    /// Whether the worker has said all that it will say to asks. Every ask that was sent to it stands before the release
    /// of its job, so one more read of its stream finds all of them.
    pub(in crate::core) fn has_said_all(&mut self, ctx: &mut Ctx) -> bool {
        if !self.answering.may_be_asked || ctx.config.broken.has(Mutation::LastReadLeftOut) {
            return true;
        }
        if self.answering.last_read == LastRead::Due {
            self.answering.last_read = LastRead::UnderWay;
            let cursors =
                Cursors { workers: [(self.worker, self.inbox.cursor())].into(), node: EntryId::MAX };
            let node = ctx.config.node.clone();
            ctx.call(Call::ReadLast(ReadNode { node, cursors, max: READ_ENTRIES, block: Duration::ZERO }));
        }
        self.answering.last_read == LastRead::Done && self.answering.lane.is_idle()
    }

    /// The last entries of the stream. `most`: how many entries a read brings.
    pub(in crate::core) fn on_last_read(&mut self, ctx: &Ctx, answer: Option<NodeEvents>, most: usize) {
        let events = answer.unwrap_or_default().workers;
        self.answering.last_read = if events.len() < most { LastRead::Done } else { LastRead::Due };
        for (_, entry, event) in events {
            match event {
                WorkerEvent::Ask { asker, asks } => self.on_asks(ctx, entry, &asker, asks, None),
                _ => {
                    self.inbox.pass_over(entry);
                }
            }
        }
    }
}

fn size_of_reply(reply: &ReplyItem) -> usize {
    match &reply.said {
        Said::Answer(words) | Said::Refused(words) => Bytes::len(words),
        _ => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(number: u64) -> AskId {
        AskId { life: 7, number }
    }

    #[test]
    fn so_many_replies_are_kept_and_so_many_bytes() {
        let reply = |number: u64, bytes: usize| ReplyItem {
            key: JobKey::try_from("k").unwrap_or_else(|error| panic!("{error}")),
            token: Token(1),
            asker: NodeName::new("n").unwrap_or_else(|error| panic!("{error}")),
            id: id(number),
            said: Said::Answer("x".repeat(bytes).into()),
        };
        let mut kept = Kept::default();
        (0..2_000).for_each(|number| kept.keep(reply(number, 1)));
        assert_eq!((kept.replies.len(), kept.bytes), (KEPT_MAX, KEPT_MAX));
        assert!(kept.replies.contains_key(&id(1_999)) && !kept.replies.contains_key(&id(0)));
        (2_000..2_100).for_each(|number| kept.keep(reply(number, 64 << 10)));
        assert_eq!((kept.replies.len(), kept.order.len()), (64, 64));
    }
}
