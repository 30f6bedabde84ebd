//! What there is in a pool: workers and jobs, read from the store when asked.

use std::collections::BTreeMap;
use std::time::{Duration, SystemTime};

use bytes::Bytes;

use crate::error::Error;
use crate::id::{JobKey, Token, WorkerId};
use crate::member::{MemberState, Members};
use crate::record::{JobState, Record};
use crate::store::{Store, StoreError};
use crate::wire;

/// Jobs per page of a listing.
const PAGE: usize = 512;

/// A worker of the pool.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct WorkerInfo {
    /// Its id.
    pub id: WorkerId,
    /// The node it lives on.
    pub node: String,
    /// Whether it is in the ring.
    pub state: MemberState,
    /// Its slot of the ring.
    pub slot: Option<u32>,
}

/// A job of the pool.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct JobInfo {
    /// Its key.
    pub key: JobKey,
    /// Where it is in its life.
    pub state: JobState,
    /// The worker that owns it.
    pub owner: Option<WorkerId>,
    /// The fencing token of its last assignment; 0 before the first.
    pub token: Token,
    /// Begins since it was last healthy.
    pub attempts: u32,
    /// When it was last begun or became free, by the store's clock.
    pub since: SystemTime,
    /// When it was accepted, by the store's clock.
    pub created: SystemTime,
}

impl JobInfo {
    fn new(key: JobKey, record: &Record) -> Self {
        let time = |ms| SystemTime::UNIX_EPOCH + Duration::from_millis(ms);
        Self {
            key,
            state: record.state,
            owner: record.owner,
            token: record.token,
            attempts: record.attempts,
            since: time(record.since),
            created: time(record.created),
        }
    }
}

pub(crate) fn workers(members: &Members) -> Vec<WorkerInfo> {
    let info = |(&id, m): (&WorkerId, &crate::member::Member)| WorkerInfo {
        id,
        node: m.node.to_string(),
        state: m.state,
        slot: m.slot,
    };
    members.entries.iter().map(info).collect()
}

pub(crate) async fn jobs(store: &dyn Store) -> Result<Vec<JobInfo>, Error> {
    let mut jobs = BTreeMap::new();
    let mut cursor = Some(0);
    while let Some(at) = cursor {
        let page = store.jobs_page(at, PAGE).await?;
        for (key, record) in page.jobs {
            if let Some(record) = record {
                jobs.insert(key.clone(), JobInfo::new(key, &record));
            }
        }
        cursor = page.next;
    }
    Ok(jobs.into_values().collect())
}

pub(crate) async fn job(store: &dyn Store, key: JobKey) -> Result<Option<JobInfo>, Error> {
    let found = store.lookup(&[(key.clone(), None)]).await?.into_iter().next().unwrap_or_default();
    if found.bad {
        return Err(Error::BadRecord);
    }
    Ok(found.record.map(|record| JobInfo::new(key, &record)))
}

pub(crate) async fn payload(store: &dyn Store, key: &JobKey) -> Result<Option<Bytes>, Error> {
    let Some(envelope) = store.payload(key).await? else { return Ok(None) };
    let body = wire::open(&envelope).map_err(|error| StoreError::Unusable(std::sync::Arc::new(error)))?;
    Ok(Some(body))
}
