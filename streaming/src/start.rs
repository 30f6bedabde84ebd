//! The place where reading begins.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use redis::Value;
use tenure_connection::{Connection, Error as RedisError};

use crate::{EntryId, Error, reply};

/// Longer than anybody waits, and short enough for every clock and every reply to `PEXPIRE`: 100 years.
const LONGEST: Duration = Duration::from_secs(100 * 366 * 86_400);

/// The place where reading begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Start {
    /// At the oldest entry.
    Oldest,
    /// After the newest entry: only later ones.
    Newest,
    /// After this entry.
    After(EntryId),
    /// At the first entry added at or after this time, by the server's clock.
    At(SystemTime),
}

impl Start {
    /// The cursor at which reading begins; `None` when only Redis knows it.
    pub(crate) fn cursor(self) -> Option<EntryId> {
        match self {
            Self::Oldest => Some(EntryId::MIN),
            Self::After(id) => Some(id),
            Self::At(time) => {
                let since_1970 = time.duration_since(UNIX_EPOCH).unwrap_or_default();
                let ms = u64::try_from(since_1970.as_nanos().div_ceil(1_000_000)).unwrap_or(u64::MAX);
                Some(EntryId::new(ms, 0).previous())
            }
            Self::Newest => None,
        }
    }

    /// The cursor at which reading begins, as of now. Only [`Start::Newest`] asks Redis.
    pub(crate) async fn resolve(self, redis: &Connection, stream: &str) -> Result<EntryId, Error> {
        match self.cursor() {
            Some(cursor) => Ok(cursor),
            None => Ok(last_id(redis, stream).await?.unwrap_or_default()),
        }
    }
}

/// The last id that a stream has assigned, if it exists. The newest entry may have a lower id, after a deletion.
pub(crate) async fn last_id(redis: &Connection, stream: &str) -> Result<Option<EntryId>, Error> {
    match redis.command(redis::cmd("XINFO").arg("STREAM").arg(stream)).await {
        Ok(info) => reply::optional_id(reply::field(&info, "last-generated-id").unwrap_or(&Value::Nil)),
        Err(RedisError::Server { code, detail }) if &*code == "ERR" && detail.starts_with("no such key") => {
            Ok(None)
        }
        Err(error) => Err(error.into()),
    }
}

/// A duration in whole milliseconds, rounded up, and at most 100 years.
pub(crate) fn milliseconds(duration: Duration) -> u64 {
    u64::try_from(duration.min(LONGEST).as_nanos().div_ceil(1_000_000)).unwrap_or(u64::MAX)
}

/// A count that Redis accepts: it knows no larger numbers.
pub(crate) fn countable(count: u64) -> u64 {
    count.min(i64::MAX.unsigned_abs())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn milliseconds_round_up_and_have_a_bound() {
        assert_eq!(milliseconds(Duration::ZERO), 0);
        assert_eq!(milliseconds(Duration::from_micros(1)), 1);
        assert_eq!(milliseconds(Duration::from_micros(1001)), 2);
        assert_eq!(milliseconds(Duration::MAX), milliseconds(LONGEST));
    }
}
