//! Parked jobs, as an operator sees them.

use std::collections::BTreeMap;
use std::time::{Duration, SystemTime};

use serde::Serialize;

use crate::api::listing::{PAGE, Pages, page_size};
use crate::error::Error;
use crate::model::id::{DispatchId, JobKey};
use crate::model::paused::Paused;
use crate::model::serial;
use crate::store::{ListParked, Parked, Store};

/// A job that failed too often, or was parked or paused by an operator. The pool does not retry it before
/// [`Operator::unpark`](crate::Operator::unpark), or [`Operator::resume`](crate::Operator::resume) if it is paused. When serialized, times are
/// milliseconds since 1970.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct ParkedJob {
    /// Its key.
    pub key: JobKey,
    /// The dispatch that made it.
    pub id: DispatchId,
    /// The error of its last attempt, at most 1 KiB, or `worker lost` if the attempt ended with its worker. Empty for a
    /// paused job.
    pub error: String,
    /// The one who has paused it, until when, and why. `None` if it is not paused.
    pub paused: Option<Paused>,
    /// The number of begins since it was last healthy.
    pub attempts: u32,
    /// When it was parked or paused, by the store's clock.
    #[serde(serialize_with = "serial::time")]
    pub since: SystemTime,
    /// When it was accepted, by the store's clock.
    #[serde(serialize_with = "serial::time")]
    pub created: SystemTime,
}

/// The result of a call that unparks many jobs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Unparked {
    /// The number of jobs that will be retried.
    pub jobs: usize,
    /// Whether more jobs may be parked, because the call ended at its limit.
    pub more: bool,
}

impl ParkedJob {
    /// `None` for a job whose record cannot be read.
    fn new(parked: Parked) -> Option<Self> {
        let time = |ms| SystemTime::UNIX_EPOCH + Duration::from_millis(ms);
        let Parked { key, error, record } = parked;
        let record = record?;
        let paused = Paused::of(&record, Some(&error));
        Some(Self {
            key,
            id: record.id,
            error: if paused.is_some() { String::new() } else { error },
            paused,
            attempts: record.attempts,
            since: time(record.since),
            created: time(record.created),
        })
    }
}

/// A page of a store's listing, and where the next page begins.
pub(crate) async fn page(
    store: &Store,
    at: u64,
    limit: usize,
) -> Result<(Vec<ParkedJob>, Option<u64>), Error> {
    let page = store.read(&ListParked { cursor: at, limit: page_size(limit) }).await?;
    Ok((page.jobs.into_iter().filter_map(ParkedJob::new).collect(), page.next))
}

/// All parked jobs, each once.
pub(crate) async fn all(store: &Store) -> Result<Vec<ParkedJob>, Error> {
    let (mut jobs, mut pages) = (BTreeMap::new(), Pages::of(store));
    while let Some(at) = pages.next {
        let (page, next) = page(store, at, PAGE).await?;
        if pages.turn(store, next) {
            jobs.extend(page.into_iter().map(|job| (job.key.clone(), job)));
        } else {
            jobs.clear();
        }
    }
    Ok(jobs.into_values().collect())
}
