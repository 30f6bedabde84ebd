//! One concrete call, made alike on both stores, and its answer as text without what differs by nature: the ids of
//! stream entries and the server process.

use std::time::Duration;

use bytes::Bytes;
use tenure_pool::id::{
    DispatchId, Incarnation, JobKey, NodeName, Revision, ScheduleId, ScheduleName, Term, Token, WorkerId,
};
use tenure_pool::member::Member;
use tenure_pool::settings::Settings;
use tenure_pool::store::{
    AskItem, AttestItem, Cursors, DispatchItem, JoinRequest, NotifyItem, NotifyOrStartItem, Outcome,
    PoolEvent, PoolState, ReleaseItem, ReplyItem, Result, SaveItem, ScheduleChange, ScheduleKey, Seen,
    SettingChange, ShutdownMode, SteerItem, StopItem, Store, StoreError, TakeItem, TermItem, Turn,
    UpdateItem, WorkerBegins, WorkerStarts,
};
use tenure_streaming::EntryId;

/// An entry's id on each of the two stores.
pub(crate) type EntryPair = [EntryId; 2];
/// The jobs that one worker begins, and the entries that it has finished with.
type Begins = (WorkerId, Vec<EntryPair>, Vec<(JobKey, Token)>);

/// A call with all its arguments.
#[derive(Clone, Debug)]
pub(crate) enum Step {
    Join(JoinRequest),
    Settle(WorkerId),
    Raise(u32),
    Cordon(Revision, NodeName, bool),
    ChangeSettings(Vec<SettingChange>),
    Drain(Vec<WorkerId>),
    Expire(Vec<(WorkerId, Option<u64>)>),
    Reap(WorkerId, usize),
    Renew(Seen, Option<NodeName>, Vec<WorkerId>, Bytes),
    Statuses,
    Dispatch(Revision, Vec<DispatchItem>),
    Route(Revision, Vec<EntryPair>, Vec<(JobKey, Option<WorkerId>)>),
    Begin(Vec<Begins>),
    Started(Vec<WorkerStarts>),
    Release(WorkerId, Vec<EntryPair>, Vec<ReleaseItem>),
    Stop(bool, Option<NodeName>, Vec<StopItem>),
    Update(Vec<UpdateItem>),
    UpdatePlanned(Turn, Vec<UpdateItem>),
    Notify(Vec<NotifyItem>),
    NotifyOrStart(Revision, Vec<NotifyOrStartItem>),
    Notifications(JobKey, u64),
    DropNotifications(JobKey, u64),
    Take(WorkerId, Vec<EntryPair>, Vec<TakeItem>),
    SaveState(WorkerId, Vec<SaveItem>),
    Ask(NodeName, Vec<AskItem>),
    Reply(WorkerId, Vec<EntryPair>, Vec<ReplyItem>),
    Checkpoint(JobKey),
    Sweep(usize, Option<usize>),
    Inspect(Vec<(WorkerId, JobKey, Token)>),
    Owned(WorkerId, Option<JobKey>, usize),
    Sched(ScheduleKey, ScheduleChange),
    Term(NodeName, Vec<TermItem>),
    Tick(ScheduleKey, (ScheduleId, Term), u64),
    DispatchPlanned(Turn, Vec<DispatchItem>),
    StopPlanned(Turn, Vec<StopItem>),
    Planned(ScheduleName, Option<JobKey>, usize),
    Shutdown(NodeName, ShutdownMode),
    Purge(usize),
    Cleanup,
    /// With what the caller knows: how much less than the last incarnation, which one has ended, and the floor.
    Bootstrap(Box<Settings>, u64, Incarnation, u32),
    /// With the incarnation that the caller knows to have ended, and the floor.
    Recover(Incarnation, u32),
    OpenNormal,
    Attest(WorkerId, Member, Vec<AttestItem>),
    Attend(WorkerId, Option<JobKey>, usize),
    Read(NodeName, usize),
    Claim(NodeName, usize),
    NodeEvents(NodeName, Vec<WorkerId>, usize),
    Lookup(Vec<(JobKey, Option<DispatchId>)>),
    Payload(JobKey),
    Explain(JobKey, Option<DispatchId>),
    Figures(usize, Vec<WorkerId>),
    Note(u64, Bytes),
    History(usize),
    JobsPage,
    ParkedPage,
    Unpark(Vec<(JobKey, DispatchId)>),
    Steer(Vec<SteerItem>),
    Heartbeats,
    PoolState,
    Tell(Vec<(DispatchId, Outcome)>),
    ForgetNode(NodeName),
    RestoreGroup,
    Prune,
}

/// An answer.
#[derive(Debug, Default)]
pub(crate) struct Answer {
    pub(crate) text: String,
    /// The start events it brought.
    pub(crate) events: Vec<PoolEvent>,
    /// The worker that joined.
    pub(crate) joined: Option<WorkerId>,
    /// The pool's incarnation, when the call may have changed it.
    pub(crate) incarnation: Option<Incarnation>,
    /// Where a worker's next page begins.
    pub(crate) next: Option<JobKey>,
}

/// Makes the call on one of the two stores.
pub(crate) async fn perform(store: &dyn Store, side: usize, inc: Incarnation, step: &Step) -> Answer {
    let entries = |pairs: &[EntryPair]| -> Vec<EntryId> { pairs.iter().map(|pair| pair[side]).collect() };
    match step.clone() {
        Step::Join(request) => {
            let seat = store.join(inc, &request).await;
            let joined = seat.as_ref().ok().map(|seat| seat.worker);
            Answer { joined, ..text(&seat) }
        }
        Step::ChangeSettings(changes) => text(&store.change_settings(inc, &changes).await),
        Step::Settle(worker) => text(&store.settle(inc, worker).await),
        Step::Cordon(seen, node, on) => text(&store.cordon(inc, seen, &node, on).await),
        Step::Raise(level) => text(&store.raise_level(inc, level).await),
        Step::Drain(workers) => text(&store.drain_all(inc, &workers).await),
        Step::Expire(workers) => text(&store.expire_all(inc, &workers).await),
        Step::Reap(worker, limit) => text(&store.reap(inc, worker, limit).await),
        Step::Statuses => text(&store.statuses().await),
        Step::Renew(seen, node, workers, status) => {
            let mut renewal = store.renew_saying(inc, seen, node.as_ref(), &workers, &status).await;
            if let Ok(renewal) = &mut renewal {
                renewal.run_id.clear();
            }
            text(&renewal)
        }
        Step::Dispatch(ring, items) => text(&store.dispatch(inc, ring, &items).await),
        Step::Route(ring, pairs, jobs) => text(&store.route(inc, ring, &entries(&pairs), &jobs).await),
        Step::Begin(of) => {
            let begins = of.into_iter().map(|(worker, pairs, jobs)| WorkerBegins {
                worker,
                finished: entries(&pairs),
                jobs,
            });
            text(&store.begin_all(inc, &begins.collect::<Vec<_>>()).await)
        }
        Step::Started(starts) => text(&store.started_all(inc, &starts).await),
        Step::Release(worker, pairs, items) => {
            text(&store.release(inc, worker, &entries(&pairs), &items).await)
        }
        Step::Stop(repeat, waiting, items) => text(&store.stop(inc, repeat, waiting.as_ref(), &items).await),
        Step::Update(items) => text(&store.update(inc, &items).await),
        Step::UpdatePlanned(turn, items) => text(&store.update_planned(inc, &turn, &items).await),
        Step::Notify(items) => text(&store.notify(inc, &items).await),
        Step::NotifyOrStart(ring, items) => text(&store.notify_or_start(inc, ring, &items).await),
        Step::SaveState(worker, items) => text(&store.save(inc, worker, &items).await),
        Step::Ask(asker, items) => text(&store.ask(inc, &asker, &items).await),
        Step::Reply(worker, pairs, items) => text(&store.reply(inc, worker, &entries(&pairs), &items).await),
        Step::Checkpoint(key) => text(&store.checkpoint(&key).await),
        Step::Take(worker, pairs, items) => text(&store.take(inc, worker, &entries(&pairs), &items).await),
        Step::Sweep(limit, kick) => text(&store.sweep(inc, limit, kick).await),
        Step::Inspect(held) => text(&store.inspect(inc, 0, 512, &held).await),
        Step::Owned(worker, after, limit) => text(&store.owned(inc, worker, after.as_ref(), limit).await),
        Step::Sched(schedule, change) => text(&store.sched(inc, &schedule, &change).await),
        Step::Term(node, items) => text(&store.term(inc, &node, &items).await),
        Step::Tick(schedule, turn, number) => text(&store.tick(inc, &schedule, turn, number).await),
        Step::DispatchPlanned(turn, items) => text(&store.dispatch_planned(inc, &turn, &items).await),
        Step::StopPlanned(turn, items) => text(&store.stop_planned(inc, &turn, &items).await),
        Step::Planned(plan, after, limit) => text(&store.planned(inc, &plan, after.as_ref(), limit).await),
        Step::Shutdown(by, mode) => text(&store.shutdown(inc, &by, mode).await),
        Step::Purge(limit) => text(&store.purge(inc, limit).await),
        Step::Cleanup => text(&store.cleanup(inc, Duration::from_secs(3_600)).await),
        Step::Bootstrap(settings, less, closed, floor) => {
            let incarnation = Incarnation(inc.0.saturating_sub(less));
            let seen = Seen { incarnation, closed, floor, ..Seen::default() };
            let made = store.bootstrap(seen, "process", &settings).await;
            let incarnation = made.as_ref().ok().map(|made| made.incarnation);
            Answer { incarnation, ..text(&made) }
        }
        Step::Recover(closed, floor) => {
            let next = store.recover(inc, Seen { closed, floor, ..Seen::default() }, "process", "").await;
            Answer { incarnation: next.as_ref().ok().copied(), ..text(&next) }
        }
        Step::OpenNormal => text(&store.open_normal(inc).await),
        Step::Attest(worker, member, items) => text(&store.attest(inc, worker, &member, &items).await),
        Step::Attend(worker, after, limit) => {
            let next = store.attend(inc, worker, after.as_ref(), limit).await;
            Answer { next: next.as_ref().ok().cloned().flatten(), ..text(&next) }
        }
        Step::Read(node, max) => pool_events(store.pool_events(&node, max, Duration::ZERO).await),
        Step::Claim(node, max) => pool_events(store.claim_events(&node, Duration::ZERO, max).await),
        Step::NodeEvents(node, workers, max) => node_events(store, &node, &workers, max).await,
        Step::Lookup(items) => text(&store.lookup(&items).await),
        Step::Payload(key) => text(&store.payload(&key).await),
        Step::Explain(key, id) => text(&store.explain(&key, id.as_ref()).await),
        Step::Note(most, entry) => text(&store.note(inc, most, &entry).await),
        Step::History(limit) => {
            let page = store.history(EntryId::default(), limit).await;
            text(&page.map(|page| {
                let entries: Vec<_> = page.entries.into_iter().map(|(_, entry)| entry).collect();
                (page.oldest.is_some(), entries)
            }))
        }
        Step::Figures(look, workers) => text(&store.figures(look, &workers).await),
        Step::JobsPage => {
            let mut page = store.jobs_page(0, 1_000).await;
            if let Ok(page) = &mut page {
                page.jobs.sort_by(|a, b| a.0.cmp(&b.0));
            }
            text(&page)
        }
        Step::ParkedPage => {
            let mut page = store.parked_page(0, 1_000).await;
            if let Ok(page) = &mut page {
                page.jobs.sort_by(|a, b| a.key.cmp(&b.key));
            }
            text(&page)
        }
        Step::Steer(items) => text(&store.steer(inc, &items).await),
        Step::Unpark(jobs) => text(&store.unpark(inc, &jobs).await),
        Step::Notifications(key, from) => text(&store.notifications(&key, from).await),
        Step::DropNotifications(key, through) => text(&store.drop_notifications(inc, &key, through).await),
        Step::Heartbeats => text(&store.heartbeats(None).await),
        Step::PoolState => {
            let mut state = store.pool_state().await;
            if let Ok(PoolState::Present { run_id, .. }) = &mut state {
                run_id.clear();
            }
            text(&state)
        }
        Step::Tell(outcomes) => text(&store.tell(&outcomes).await),
        Step::ForgetNode(node) => text(&store.forget_node(&node).await),
        Step::RestoreGroup => text(&store.restore_group(inc).await),
        Step::Prune => text(&store.prune_consumers(inc, Duration::ZERO).await),
    }
}

fn text<T: std::fmt::Debug>(answer: &Result<T>) -> Answer {
    if let Err(error) = answer {
        assert!(matches!(error, StoreError::Refused(_)), "not an answer: {error:?}");
    }
    Answer { text: format!("{answer:?}"), ..Answer::default() }
}

fn pool_events(events: Result<Option<Vec<PoolEvent>>>) -> Answer {
    let jobs = events.as_ref().map(|events| {
        let jobs =
            |events: &Vec<PoolEvent>| events.iter().map(|event| event.jobs.clone()).collect::<Vec<_>>();
        events.as_ref().map(jobs)
    });
    let jobs = jobs.map_err(Clone::clone);
    Answer { events: events.ok().flatten().unwrap_or_default(), ..text(&jobs) }
}

async fn node_events(store: &dyn Store, node: &NodeName, workers: &[WorkerId], max: usize) -> Answer {
    let start = EntryId { ms: 0, seq: 0 };
    let cursors = Cursors { workers: workers.iter().map(|worker| (*worker, start)).collect(), node: start };
    let events = store.node_events(node, &cursors, max, Duration::ZERO).await;
    text(&events.map(|events| {
        let workers: Vec<_> = events.workers.into_iter().map(|(worker, _, event)| (worker, event)).collect();
        let outcomes: Vec<_> = events.outcomes.into_iter().map(|(_, outcomes)| outcomes).collect();
        (workers, outcomes)
    }))
}

/// A body of this many bytes.
pub(crate) fn body(len: usize) -> Bytes {
    Bytes::from(vec![b'x'; len])
}
