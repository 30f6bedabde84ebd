//! The schedules and tickers of a pool, as an operator sees them.

use std::time::{Duration, SystemTime};

use serde::Serialize;

use crate::error::Error;
use crate::model::id::{NodeName, ScheduleName, Term};
use crate::model::serial;
use crate::store::{ReadSchedules, ScheduleEntry, ScheduleKey, ScheduleKind, Store};

/// A schedule or ticker. When serialized, times are milliseconds.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct ScheduleInfo {
    /// The shard, from 0. A schedule has an entry in each shard, a ticker in one.
    pub shard: usize,
    /// Its use.
    pub kind: ScheduleKind,
    /// Its name.
    #[serde(serialize_with = "serial::text")]
    pub name: ScheduleName,
    /// The time from tick to tick.
    #[serde(serialize_with = "serial::lapse")]
    pub period: Duration,
    /// When its next tick is due, by the store's clock. One that is long past says that nobody takes it.
    #[serde(serialize_with = "serial::time")]
    pub next: SystemTime,
    /// The number of the last tick that a node got. 0 before the first.
    pub ticks: u64,
    /// The node whose turn it is. It may have gone: another one takes the turn about one worker TTL later. `None`: nobody's.
    #[serde(serialize_with = "serial::maybe_text")]
    pub holder: Option<NodeName>,
    /// The fencing token of that turn. 0 before the first.
    #[serde(serialize_with = "serial::text")]
    pub term: Term,
}

impl ScheduleInfo {
    fn new(shard: usize, ScheduleKey { kind, name }: ScheduleKey, entry: ScheduleEntry) -> Self {
        let ScheduleEntry { period, next, ticks, holder, term, .. } = entry;
        let (next, holder) =
            (SystemTime::UNIX_EPOCH + Duration::from_millis(next), holder.map(|holder| holder.node));
        Self { shard, kind, name, period, next, ticks, holder, term }
    }
}

/// Those of one shard, by kind and name.
pub(crate) async fn of_shard(store: &Store, shard: usize) -> Result<Vec<ScheduleInfo>, Error> {
    let mut entries = store.read(&ReadSchedules).await?;
    entries.sort_by(|(a, _), (b, _)| a.cmp(b));
    Ok(entries.into_iter().map(|(key, entry)| ScheduleInfo::new(shard, key, entry)).collect())
}
