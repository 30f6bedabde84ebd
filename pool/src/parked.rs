//! Jobs that failed too often: what an operator sees of them.

use std::collections::BTreeMap;
use std::time::{Duration, SystemTime};

use serde::Serialize;

use crate::error::Error;
use crate::id::{DispatchId, JobKey};
use crate::listing::{PAGE, page_size};
use crate::serial;
use crate::store::{Parked, Store};

/// A job that failed too often: nothing tries it again until [`Node::unpark`](crate::Node::unpark) says so. Serialized, times
/// are milliseconds since 1970.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct ParkedJob {
    /// Its key.
    pub key: JobKey,
    /// The dispatch that made it.
    pub id: DispatchId,
    /// The error of its last attempt, at most 1 KiB; `worker lost` when that attempt ended with its worker.
    pub error: String,
    /// Begins since it was last healthy.
    pub attempts: u32,
    /// When it was parked, by the store's clock.
    #[serde(serialize_with = "serial::time")]
    pub since: SystemTime,
    /// When it was accepted, by the store's clock.
    #[serde(serialize_with = "serial::time")]
    pub created: SystemTime,
}

/// What a call that un-parks many jobs has done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Unparked {
    /// How many jobs are tried again.
    pub jobs: usize,
    /// Whether there may be more: the call ended at its bound.
    pub more: bool,
}

impl ParkedJob {
    /// `None` for a job whose record cannot be read.
    fn new(parked: Parked) -> Option<Self> {
        let time = |ms| SystemTime::UNIX_EPOCH + Duration::from_millis(ms);
        let Parked { key, at, error, record } = parked;
        let record = record?;
        Some(Self {
            key,
            id: record.id,
            error,
            attempts: record.attempts,
            since: time(at),
            created: time(record.created),
        })
    }
}

/// A page of a store's listing, and where the next one begins.
pub(crate) async fn page(
    store: &dyn Store,
    at: u64,
    limit: usize,
) -> Result<(Vec<ParkedJob>, Option<u64>), Error> {
    let page = store.parked_page(at, page_size(limit)).await?;
    Ok((page.jobs.into_iter().filter_map(ParkedJob::new).collect(), page.next))
}

/// All parked jobs, each once.
pub(crate) async fn all(store: &dyn Store) -> Result<Vec<ParkedJob>, Error> {
    let mut jobs = BTreeMap::new();
    let mut next = Some(0);
    while let Some(at) = next {
        let (page, after) = page(store, at, PAGE).await?;
        jobs.extend(page.into_iter().map(|job| (job.key.clone(), job)));
        next = after;
    }
    Ok(jobs.into_values().collect())
}
