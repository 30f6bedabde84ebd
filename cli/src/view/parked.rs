//! Parked jobs, as they are shown.

use std::time::SystemTime;

use serde::Serialize;
use tenure_pool::inspect::ParkedJob;

use crate::out::shown;
use crate::out::when::as_stamp;

/// A parked job.
#[derive(Serialize)]
pub(crate) struct Shown {
    key: Option<String>,
    key64: Option<String>,
    pub(crate) error: String,
    attempts: u32,
    #[serde(serialize_with = "as_stamp")]
    since: SystemTime,
    id: String,
    #[serde(serialize_with = "as_stamp")]
    created: SystemTime,
}

impl From<ParkedJob> for Shown {
    fn from(job: ParkedJob) -> Self {
        let (key, key64) = shown::key_fields(&job.key);
        Self {
            key,
            key64,
            error: job.error,
            attempts: job.attempts,
            since: job.since,
            id: job.id.to_string(),
            created: job.created,
        }
    }
}
