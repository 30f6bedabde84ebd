//! Listings of a pool's workers and jobs, read from the store on request.

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;
use std::time::{Duration, SystemTime};

use bytes::Bytes;
use serde::Serialize;
use tenure_steps::Failure;

use crate::api::node::PATIENCE;
use crate::error::Error;
use crate::model::id::{DispatchId, IdError, Incarnation, JobKey, Token, WorkerId};
use crate::model::member::{MemberState, Members};
use crate::model::paused::Paused;
use crate::model::record::{JobState, Record};
use crate::model::serial;
use crate::model::why::Why;
use crate::model::wire::{self, EnvelopeError};
use crate::store::{ListJobs, ListOwned, LookUp, Pause, ReadPauses, ReadPayload, Store, StoreError};

/// The page size for a listing that is read to its end.
pub(crate) const PAGE: usize = 512;
/// The largest page that a caller gets, about.
const LARGEST_PAGE: usize = 4_096;

/// Where a listing continues: [`Page::next`] of one page is the argument for the next. Outside the process it is
/// plain text: a number, with `shard:` before it from the second shard on, and behind it `@` and a mark of the server
/// process that gave it. Another process refuses it with [`Error::StaleCursor`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Cursor {
    /// The index of the shard whose listing continues.
    pub(crate) shard: usize,
    /// The place in that listing. 0 is its beginning.
    pub(crate) at: u64,
    /// The server process in whose listing that place is.
    pub(crate) server: Option<ServerMark>,
}

/// Tells server processes apart: each orders its hashes in its own way.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct ServerMark(u32);

impl ServerMark {
    /// The mark of the process that this store sends to.
    pub(crate) fn of(store: &Store) -> Option<Self> {
        store.blessed().map(|run_id| Self::of_process(&run_id))
    }

    /// FNV-1a: the same in every version of this crate.
    fn of_process(run_id: &str) -> Self {
        let mixed = run_id
            .bytes()
            .fold(0x811c_9dc5_u32, |mixed, byte| (mixed ^ u32::from(byte)).wrapping_mul(0x0100_0193));
        Self(mixed)
    }
}

impl fmt::Display for Cursor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.shard {
            0 => self.at.fmt(f),
            shard => write!(f, "{shard}:{}", self.at),
        }?;
        match self.server {
            Some(ServerMark(mark)) => write!(f, "@{mark:x}"),
            None => Ok(()),
        }
    }
}

impl FromStr for Cursor {
    type Err = IdError;

    fn from_str(text: &str) -> Result<Self, IdError> {
        let bad = |_| IdError::Number { what: "cursor" };
        let (place, mark) = text.split_once('@').map_or((text, None), |(place, mark)| (place, Some(mark)));
        let (shard, at) = place.split_once(':').unwrap_or(("0", place));
        let mark = mark.map(|mark| u32::from_str_radix(mark, 16)).transpose().map_err(bad)?;
        let server = mark.map(ServerMark);
        Ok(Self { shard: shard.parse().map_err(bad)?, at: at.parse().map_err(bad)?, server })
    }
}

/// A page of a listing.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Page<T> {
    /// The items. May be empty although more pages follow.
    pub items: Vec<T>,
    /// Where the next page begins. `None` after the last page.
    pub next: Option<Cursor>,
}

/// How many items a page has about, if the caller asks for `limit`.
pub(crate) fn page_size(limit: usize) -> usize {
    limit.clamp(1, LARGEST_PAGE)
}

/// A worker of the pool, in one shard.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct WorkerInfo {
    /// The shard, from 0.
    pub shard: usize,
    /// Its id, unique within the shard.
    pub id: WorkerId,
    /// The node it lives on.
    pub node: String,
    /// Whether it is in the ring.
    pub state: MemberState,
    /// Its slot of the ring.
    pub slot: Option<u32>,
    /// The text that its owner gave it ([`AddWorker::meta`](crate::node::AddWorker::meta)), or empty.
    pub meta: String,
    /// The level of its node ([`Operator::level`](crate::Operator::level)).
    pub level: u32,
    /// The address that its node publishes ([`NodeBuilder::address`](crate::NodeBuilder::address)), or empty.
    pub address: String,
    /// Its node is [cordoned](crate::Operator::cordon): it gets no new job.
    pub cordoned: bool,
}

/// A node of the pool that has workers. Nodes without workers leave no trace in the store.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct NodeInfo {
    /// Its name.
    pub name: String,
    /// The address that it publishes ([`NodeBuilder::address`](crate::NodeBuilder::address)), or empty.
    pub address: String,
    /// Its level ([`Operator::level`](crate::Operator::level)).
    pub level: u32,
    /// Its workers, shard by shard.
    pub workers: Vec<WorkerInfo>,
}

/// A job of the pool. When serialized, times are milliseconds since 1970.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct JobInfo {
    /// Its key.
    pub key: JobKey,
    /// The dispatch that made it.
    pub id: DispatchId,
    /// Its state.
    pub state: JobState,
    /// The worker that owns it.
    pub owner: Option<WorkerId>,
    /// The node that its owner lives on, as far as this node knows.
    pub node: Option<String>,
    /// The fencing token of its last assignment; 0 before the first.
    pub token: Token,
    /// The number of begins since it was last healthy.
    pub attempts: u32,
    /// The strikes against its placement: every [`strikes`](crate::Settings::strikes) of them send it to the next worker of
    /// its chain.
    pub strikes: u32,
    /// How often it was given another payload ([`Node::update`](crate::Node::update)).
    pub generation: u64,
    /// Why it is where it is, as far as a worker has had it before.
    pub why: Option<Why>,
    /// Why it waits for a retry or is parked: the error of its last attempt, at most 1 KiB, or `worker lost` if the
    /// attempt ended with its worker. `None` for a job that runs, has not failed, was refused since, or is paused.
    pub error: Option<String>,
    /// The reason of the last refusal by a worker ([`Start::Unable`](crate::Start::Unable)), at most 200 bytes. `None` if the job
    /// does not wait, or was not refused since the last run.
    pub refusal: Option<String>,
    /// The one who has paused it, and the reason; [`since`](Self::since) says when. Its state is [`JobState::Parked`] then. `None` if it is
    /// not paused.
    pub paused: Option<Paused>,
    /// For a queued job: when it is retried, or announced again if no worker has taken it, by the store's clock.
    #[serde(serialize_with = "serial::maybe_time")]
    pub next_try: Option<SystemTime>,
    /// When it was last begun or became free, by the store's clock.
    #[serde(serialize_with = "serial::time")]
    pub since: SystemTime,
    /// When it was accepted, by the store's clock.
    #[serde(serialize_with = "serial::time")]
    pub created: SystemTime,
    /// The [schedule](crate::Node::schedule) whose plan dispatched it. `None` if no plan did.
    pub plan: Option<String>,
}

impl JobInfo {
    fn new(key: JobKey, record: &Record, pause: Pause, members: &Members) -> Self {
        let time = |ms| SystemTime::UNIX_EPOCH + Duration::from_millis(ms);
        let paused = Paused::of(record, pause.error.as_deref());
        let refusal = record.refusal().map(str::to_owned);
        Self {
            key,
            id: record.id.clone(),
            state: record.state,
            owner: record.owner,
            node: record.owner.and_then(|owner| Some(members.entries.get(&owner)?.node.to_string())),
            token: record.token,
            attempts: record.attempts,
            strikes: record.strikes,
            generation: record.generation(),
            why: record.why(),
            error: pause.error.filter(|_| paused.is_none() && refusal.is_none()),
            refusal,
            paused,
            next_try: pause.until.filter(|_| record.state == JobState::Queued).map(time),
            since: time(record.since),
            created: time(record.created),
            plan: (!record.plan.is_empty()).then(|| record.plan.clone()),
        }
    }
}

/// The owner of a job, from [`Inspector::owner`](crate::Inspector::owner).
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Owner {
    /// The worker.
    pub worker: WorkerId,
    /// The node that it lives on. `None` while this node has not heard of the worker yet.
    pub node: Option<String>,
    /// The address that its node publishes ([`NodeBuilder::address`](crate::NodeBuilder::address)), or empty.
    pub address: String,
    /// The fencing token of its ownership.
    pub token: Token,
    /// [`Assigned`](JobState::Assigned): it will start there. [`Running`](JobState::Running): it was begun there.
    /// [`Stopping`](JobState::Stopping): it ends there.
    pub state: JobState,
}

impl Owner {
    /// `None` if nobody owns the job.
    pub(crate) fn of(job: JobInfo, members: &Members) -> Option<Self> {
        let worker = job.owner?;
        let address = members.entries.get(&worker).map(|member| member.address.clone());
        Some(Self {
            worker,
            node: job.node,
            address: address.unwrap_or_default(),
            token: job.token,
            state: job.state,
        })
    }
}

/// A notification that is kept until the job's owner has taken it.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct WaitingNotification {
    /// Its number, which rises with each notification of the job. After a loss of data the numbers may begin again.
    pub number: u64,
    /// Its bytes.
    pub body: Bytes,
    /// The incarnation that the number belongs to, or an earlier one.
    pub(crate) incarnation: Incarnation,
}

/// The listings of all shards in one. The first one is handed off, and no item is copied.
pub(crate) fn one_after_another<T>(shards: Vec<Vec<T>>) -> Vec<T> {
    let joined = shards.into_iter().reduce(|mut all, shard| {
        all.extend(shard);
        all
    });
    joined.unwrap_or_default()
}

pub(crate) fn workers(shard: usize, members: &Members) -> Vec<WorkerInfo> {
    let info = |(&id, m): (&WorkerId, &crate::model::member::Member)| WorkerInfo {
        shard,
        id,
        node: m.node.to_string(),
        state: m.state,
        slot: m.slot,
        meta: m.meta.clone(),
        level: m.level,
        address: m.address.clone(),
        cordoned: members.cordoned.contains(&m.node),
    };
    members.entries.iter().map(info).collect()
}

/// The nodes of these workers, by name.
pub(crate) fn nodes(workers: Vec<WorkerInfo>) -> Vec<NodeInfo> {
    let mut nodes: BTreeMap<String, NodeInfo> = BTreeMap::new();
    for worker in workers {
        let first = || NodeInfo {
            name: worker.node.clone(),
            address: worker.address.clone(),
            level: worker.level,
            workers: Vec::new(),
        };
        nodes.entry(worker.node.clone()).or_insert_with(first).workers.push(worker);
    }
    nodes.into_values().collect()
}

/// The incarnation of the pool, as soon as the copy of its settings has one.
pub(crate) async fn known_incarnation(store: &Store) -> Result<Incarnation, Error> {
    let mut settings = store.settings();
    let known = settings.wait_for(|settings| settings.incarnation.is_some());
    match tokio::time::timeout(PATIENCE, known).await {
        Ok(Ok(settings)) => Ok(settings.incarnation.unwrap_or_default()),
        Ok(Err(_)) => Err(Error::NodeClosed),
        Err(_) => Err(Error::Deadline { within: PATIENCE, last: store.unfollowed() }),
    }
}

/// A page of a store's listing, and where the next page begins.
pub(crate) async fn jobs_page(
    store: &Store,
    at: u64,
    limit: usize,
) -> Result<(Vec<JobInfo>, Option<u64>), Error> {
    let page = store.read(&ListJobs { cursor: at, limit: page_size(limit) }).await?;
    Ok((infos(store, page.jobs).await?, page.next))
}

/// All jobs, ordered by key, each once.
pub(crate) async fn jobs(store: &Store) -> Result<Vec<JobInfo>, Error> {
    let (mut jobs, mut pages) = (BTreeMap::new(), Pages::of(store));
    while let Some(at) = pages.next {
        let (page, next) = jobs_page(store, at, PAGE).await?;
        if pages.turn(store, next) {
            jobs.extend(page.into_iter().map(|job| (job.key.clone(), job)));
        } else {
            jobs.clear();
        }
    }
    Ok(jobs.into_values().collect())
}

/// The way through all pages of a listing.
pub(crate) struct Pages {
    /// Where the next page begins. `None` after the last one.
    pub(crate) next: Option<u64>,
    server: Option<ServerMark>,
}

impl Pages {
    pub(crate) fn of(store: &Store) -> Self {
        Self { next: Some(0), server: ServerMark::of(store) }
    }

    /// Goes on after a page. False if the server has changed: the listing begins anew, because a place in that of another
    /// process would leave some out.
    pub(crate) fn turn(&mut self, store: &Store, next: Option<u64>) -> bool {
        let former = std::mem::replace(&mut self.server, ServerMark::of(store));
        let goes_on = former == self.server;
        self.next = if goes_on { next } else { Some(0) };
        goes_on
    }
}

/// The jobs that this worker owns by the store: about `limit` of them, ordered by key, beginning after `after`.
pub(crate) async fn jobs_of(
    store: &Store,
    worker: WorkerId,
    after: Option<&JobKey>,
    limit: usize,
) -> Result<Vec<JobInfo>, Error> {
    let incarnation = store.members().borrow().incarnation;
    let Some(incarnation) = incarnation else { return Ok(Vec::new()) };
    let mut jobs = Vec::new();
    let mut after = after.cloned();
    loop {
        let page = store
            .run(incarnation, &ListOwned { worker, after: after.clone(), limit: page_size(limit) })
            .await?;
        jobs.extend(infos(store, page.jobs).await?.into_iter().filter(|job| job.owner == Some(worker)));
        after = page.next;
        if after.is_none() || jobs.len() >= limit {
            return Ok(jobs);
        }
    }
}

/// The jobs whose records can be read. Waiting jobs are read once more, for the reason why they wait.
pub(crate) async fn infos(store: &Store, jobs: Vec<(JobKey, Option<Record>)>) -> Result<Vec<JobInfo>, Error> {
    let waits = |record: &Record| !matches!(record.state, JobState::Running | JobState::Stopping);
    let jobs: Vec<_> = jobs.into_iter().filter_map(|(key, record)| Some((key, record?))).collect();
    let waiting: Vec<_> =
        jobs.iter().filter(|(_, record)| waits(record)).map(|(key, _)| key.clone()).collect();
    let mut pauses: BTreeMap<_, _> =
        if waiting.is_empty() { BTreeMap::new() } else { pauses(store, waiting).await? };
    let members = store.members().borrow().clone();
    let info = |(key, record): (JobKey, Record)| {
        let pause = pauses.remove(&key).unwrap_or_default();
        JobInfo::new(key, &record, pause, &members)
    };
    Ok(jobs.into_iter().map(info).collect())
}

async fn pauses(store: &Store, keys: Vec<JobKey>) -> Result<BTreeMap<JobKey, Pause>, Error> {
    let read = ReadPauses { keys };
    let pauses = store.read(&read).await?;
    Ok(read.keys.into_iter().zip(pauses).collect())
}

pub(crate) async fn job(store: &Store, key: JobKey) -> Result<Option<JobInfo>, Error> {
    let found = store
        .read(&LookUp { items: vec![(key.clone(), None)] })
        .await?
        .into_iter()
        .next()
        .unwrap_or_default();
    if let Some(version) = found.newer {
        let what = "the job's record";
        return Err(Error::NewerVersion { what, version, known: Record::VERSION });
    }
    if found.bad {
        return Err(Error::BadRecord { of: format!("the job {key}") });
    }
    Ok(infos(store, vec![(key, found.record)]).await?.pop())
}

pub(crate) async fn payload(store: &Store, key: &JobKey) -> Result<Option<Bytes>, Error> {
    let Some(envelope) = store.read(&ReadPayload { key: key.clone() }).await? else { return Ok(None) };
    let opened = wire::open(&envelope).map_err(|error| match error {
        EnvelopeError::Newer(version) => {
            Error::NewerVersion { what: "the payload's envelope", version, known: wire::VERSION }
        }
        error @ (EnvelopeError::Damaged(_) | EnvelopeError::UnknownPolicy) => {
            StoreError::Damaged(Failure::new(error)).into()
        }
    })?;
    Ok(Some(opened.body))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cursor_is_plain_text() {
        let mark = Some(ServerMark(0xaf));
        let cursors =
            [("0", 0, 0, None), ("17", 0, 17, None), ("3:17", 3, 17, None), ("3:17@af", 3, 17, mark)];
        for (text, shard, at, server) in cursors {
            let cursor = Cursor { shard, at, server };
            assert_eq!(cursor.to_string(), text);
            assert_eq!(text.parse(), Ok(cursor));
        }
        for text in ["", "3:", ":17", "3:x", "x:1", "17@", "17@x", "@af", "17@1af00bad1"] {
            assert!(text.parse::<Cursor>().is_err(), "{text}");
        }
    }

    #[test]
    fn the_mark_of_a_server_never_changes() {
        assert_eq!(ServerMark::of_process("foobar"), ServerMark(0xbf9c_f968));
    }

    #[test]
    fn a_listing_begins_anew_at_another_server() {
        let store = Store::from(crate::store::MemoryStore::new());
        store.bless("first");
        let mut pages = Pages::of(&store);
        assert!(pages.turn(&store, Some(7)));
        assert_eq!(pages.next, Some(7));
        store.bless("second");
        assert!(!pages.turn(&store, None));
        assert_eq!(pages.next, Some(0));
        assert!(pages.turn(&store, None));
        assert_eq!(pages.next, None);
    }
}
