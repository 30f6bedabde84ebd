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
    Ask, AskItem, Attend, AttestItem, AttestJobs, Begin, Bootstrap, ChangeSchedule, ChangeSettings,
    ClaimPool, CleanUp, Cordon, Cursors, Dispatch, DispatchItem, Drain, DropNotifications, Expire, Explain,
    ForgetNode, HoldTurns, Inspect, Join, JoinRequest, ListJobs, ListOwned, ListParked, ListPlanned, LookUp,
    Note, Notify, NotifyItem, NotifyOrStart, NotifyOrStartItem, OpenNormal, Outcome, PoolEvent, PoolState,
    PruneConsumers, Purge, RaiseLevel, ReadCheckpoint, ReadFigures, ReadHeartbeats, ReadHistory, ReadNode,
    ReadNotifications, ReadPayload, ReadPool, ReadState, ReadStatuses, Reap, Recover, Release, ReleaseItem,
    Renew, Reply, ReplyItem, RestoreGroup, Result, Route, Save, SaveItem, ScheduleChange, ScheduleKey, Seen,
    SettingChange, Settle, ShutDown, ShutdownMode, Started, Steer, SteerItem, Stop, StopItem, Store,
    StoreError, Sweep, Take, TakeItem, TakeTick, Tell, TermItem, Turn, Unpark, Update, UpdateItem,
    WorkerBegins, WorkerStarts,
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
pub(crate) async fn perform(store: &Store, side: usize, inc: Incarnation, step: &Step) -> Answer {
    let entries = |pairs: &[EntryPair]| -> Vec<EntryId> { pairs.iter().map(|pair| pair[side]).collect() };
    match step.clone() {
        Step::Join(request) => {
            let seat = store.run(inc, &Join { request: Box::new(request.clone()) }).await;
            let joined = seat.as_ref().ok().map(|seat| seat.worker);
            Answer { joined, ..text(&seat) }
        }
        Step::ChangeSettings(changes) => {
            text(&store.run(inc, &ChangeSettings { changes: changes.clone() }).await)
        }
        Step::Settle(worker) => text(&store.run(inc, &Settle { worker }).await),
        Step::Cordon(seen, node, on) => text(&store.run(inc, &Cordon { seen, node: node.clone(), on }).await),
        Step::Raise(level) => text(&store.run(inc, &RaiseLevel { level }).await),
        Step::Drain(workers) => text(&store.run(inc, &Drain { workers: workers.clone() }).await),
        Step::Expire(workers) => text(&store.run(inc, &Expire { workers: workers.clone() }).await),
        Step::Reap(worker, limit) => text(&store.run(inc, &Reap { worker, limit }).await),
        Step::Statuses => text(&store.read(&ReadStatuses).await),
        Step::Renew(seen, node, workers, status) => {
            let mut renewal = store
                .run(
                    inc,
                    &Renew { seen, node: node.clone(), workers: workers.clone(), status: status.clone() },
                )
                .await;
            if let Ok(renewal) = &mut renewal {
                renewal.run_id.clear();
            }
            text(&renewal)
        }
        Step::Dispatch(ring, items) => {
            text(&store.run(inc, &Dispatch { turn: None, ring: Some(ring), items: items.clone() }).await)
        }
        Step::Route(ring, pairs, jobs) => {
            text(&store.run(inc, &Route { ring, entries: entries(&pairs).clone(), jobs: jobs.clone() }).await)
        }
        Step::Begin(of) => {
            let begins = of.into_iter().map(|(worker, pairs, jobs)| WorkerBegins {
                worker,
                finished: entries(&pairs),
                jobs,
            });
            text(&store.run(inc, &Begin { begins: begins.collect::<Vec<_>>().clone() }).await)
        }
        Step::Started(starts) => text(&store.run(inc, &Started { starts: starts.clone() }).await),
        Step::Release(worker, pairs, items) => text(
            &store
                .run(inc, &Release { worker, finished: entries(&pairs).clone(), items: items.clone() })
                .await,
        ),
        Step::Stop(repeat, waiting, items) => text(
            &store
                .run(inc, &Stop { turn: None, repeat, waiting: waiting.clone(), items: items.clone() })
                .await,
        ),
        Step::Update(items) => text(&store.run(inc, &Update { turn: None, items: items.clone() }).await),
        Step::UpdatePlanned(turn, items) => {
            text(&store.run(inc, &Update { turn: Some(turn.clone()), items: items.clone() }).await)
        }
        Step::Notify(items) => text(&store.run(inc, &Notify { items: items.clone() }).await),
        Step::NotifyOrStart(ring, items) => {
            text(&store.run(inc, &NotifyOrStart { ring, items: items.clone() }).await)
        }
        Step::SaveState(worker, items) => text(&store.run(inc, &Save { worker, items: items.clone() }).await),
        Step::Ask(asker, items) => {
            text(&store.run(inc, &Ask { asker: asker.clone(), items: items.clone() }).await)
        }
        Step::Reply(worker, pairs, items) => text(
            &store.run(inc, &Reply { worker, finished: entries(&pairs).clone(), items: items.clone() }).await,
        ),
        Step::Checkpoint(key) => text(&store.read(&ReadCheckpoint { key: key.clone() }).await),
        Step::Take(worker, pairs, items) => text(
            &store.run(inc, &Take { worker, finished: entries(&pairs).clone(), items: items.clone() }).await,
        ),
        Step::Sweep(limit, kick) => text(&store.run(inc, &Sweep { limit, kick }).await),
        Step::Inspect(held) => {
            text(&store.run(inc, &Inspect { cursor: 0, limit: 512, held: held.clone() }).await)
        }
        Step::Owned(worker, after, limit) => {
            text(&store.run(inc, &ListOwned { worker, after: after.clone(), limit }).await)
        }
        Step::Sched(schedule, change) => text(
            &store.run(inc, &ChangeSchedule { schedule: schedule.clone(), change: change.clone() }).await,
        ),
        Step::Term(node, items) => {
            text(&store.run(inc, &HoldTurns { node: node.clone(), items: items.clone() }).await)
        }
        Step::Tick(schedule, turn, number) => {
            text(&store.run(inc, &TakeTick { schedule: schedule.clone(), turn, number }).await)
        }
        Step::DispatchPlanned(turn, items) => text(
            &store.run(inc, &Dispatch { turn: Some(turn.clone()), ring: None, items: items.clone() }).await,
        ),
        Step::StopPlanned(turn, items) => text(
            &store
                .run(
                    inc,
                    &Stop { turn: Some(turn.clone()), repeat: false, waiting: None, items: items.clone() },
                )
                .await,
        ),
        Step::Planned(plan, after, limit) => {
            text(&store.run(inc, &ListPlanned { plan: plan.clone(), after: after.clone(), limit }).await)
        }
        Step::Shutdown(by, mode) => text(&store.run(inc, &ShutDown { by: by.clone(), mode }).await),
        Step::Purge(limit) => text(&store.run(inc, &Purge { limit }).await),
        Step::Cleanup => text(&store.run(inc, &CleanUp { tombstone: Duration::from_secs(3_600) }).await),
        Step::Bootstrap(settings, less, closed, floor) => {
            let incarnation = Incarnation(inc.0.saturating_sub(less));
            let seen = Seen { incarnation, closed, floor, ..Seen::default() };
            let made = store
                .read(&Bootstrap { seen, run_id: "process".to_owned(), settings: Box::new(*settings) })
                .await;
            let incarnation = made.as_ref().ok().map(|made| made.incarnation);
            Answer { incarnation, ..text(&made) }
        }
        Step::Recover(closed, floor) => {
            let next = store
                .run(
                    inc,
                    &Recover {
                        seen: Seen { closed, floor, ..Seen::default() },
                        run_id: "process".to_owned(),
                        lost: String::new(),
                    },
                )
                .await;
            Answer { incarnation: next.as_ref().ok().copied(), ..text(&next) }
        }
        Step::OpenNormal => text(&store.run(inc, &OpenNormal).await),
        Step::Attest(worker, member, items) => {
            text(&store.run(inc, &AttestJobs { worker, member: member.clone(), items: items.clone() }).await)
        }
        Step::Attend(worker, after, limit) => {
            let next = store.run(inc, &Attend { worker, after: after.clone(), limit }).await;
            Answer { next: next.as_ref().ok().cloned().flatten(), ..text(&next) }
        }
        Step::Read(node, max) => {
            pool_events(store.read(&ReadPool { consumer: node.clone(), max, block: Duration::ZERO }).await)
        }
        Step::Claim(node, max) => pool_events(
            store.read(&ClaimPool { consumer: node.clone(), min_idle: Duration::ZERO, max }).await,
        ),
        Step::NodeEvents(node, workers, max) => node_events(store, &node, &workers, max).await,
        Step::Lookup(items) => text(&store.read(&LookUp { items: items.clone() }).await),
        Step::Payload(key) => text(&store.read(&ReadPayload { key: key.clone() }).await),
        Step::Explain(key, id) => text(&store.read(&Explain { key: key.clone(), id: id.clone() }).await),
        Step::Note(most, entry) => text(&store.run(inc, &Note { most, entry: entry.clone() }).await),
        Step::History(limit) => {
            let page = store.read(&ReadHistory { after: EntryId::default(), limit }).await;
            text(&page.map(|page| {
                let entries: Vec<_> = page.entries.into_iter().map(|(_, entry)| entry).collect();
                (page.oldest.is_some(), entries)
            }))
        }
        Step::Figures(look, workers) => {
            text(&store.read(&ReadFigures { look, workers: workers.clone() }).await)
        }
        Step::JobsPage => {
            let mut page = store.read(&ListJobs { cursor: 0, limit: 1_000 }).await;
            if let Ok(page) = &mut page {
                page.jobs.sort_by(|a, b| a.0.cmp(&b.0));
            }
            text(&page)
        }
        Step::ParkedPage => {
            let mut page = store.read(&ListParked { cursor: 0, limit: 1_000 }).await;
            if let Ok(page) = &mut page {
                page.jobs.sort_by(|a, b| a.key.cmp(&b.key));
            }
            text(&page)
        }
        Step::Steer(items) => text(&store.run(inc, &Steer { items: items.clone() }).await),
        Step::Unpark(jobs) => text(&store.run(inc, &Unpark { jobs: jobs.clone() }).await),
        Step::Notifications(key, from) => {
            text(&store.read(&ReadNotifications { key: key.clone(), from }).await)
        }
        Step::DropNotifications(key, through) => {
            text(&store.run(inc, &DropNotifications { key: key.clone(), through }).await)
        }
        Step::Heartbeats => text(&store.read(&ReadHeartbeats { workers: None }).await),
        Step::PoolState => {
            let mut state = store.read(&ReadState).await;
            if let Ok(PoolState::Present { run_id, .. }) = &mut state {
                run_id.clear();
            }
            text(&state)
        }
        Step::Tell(outcomes) => text(&store.read(&Tell { outcomes: outcomes.clone() }).await),
        Step::ForgetNode(node) => text(&store.read(&ForgetNode { node: node.clone() }).await),
        Step::RestoreGroup => text(&store.run(inc, &RestoreGroup).await),
        Step::Prune => text(&store.run(inc, &PruneConsumers { idle: Duration::ZERO }).await),
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

async fn node_events(store: &Store, node: &NodeName, workers: &[WorkerId], max: usize) -> Answer {
    let start = EntryId { ms: 0, seq: 0 };
    let cursors = Cursors { workers: workers.iter().map(|worker| (*worker, start)).collect(), node: start };
    let events = store
        .read(&ReadNode { node: node.clone(), cursors: cursors.clone(), max, block: Duration::ZERO })
        .await;
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
