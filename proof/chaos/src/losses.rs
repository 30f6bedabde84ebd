//! Losses of data that befall Redis, and when they were.

use std::time::Duration;

use redis::cmd;
use tenure_testing::history::boottime_ns;
use tenure_testing::{Data, RedisServer, Sentinels, within};
use tokio::time::sleep;

use crate::Result;

/// The longest time for the data to be made anew.
const PATIENCE: Duration = Duration::from_secs(60);
/// How far a replica that is held back is behind.
const BEHIND: Duration = Duration::from_secs(1);

/// A loss, in nanoseconds of `CLOCK_BOOTTIME`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Loss {
    /// When it was.
    pub(crate) lost: u64,
    /// Acknowledgements from then on may be forgotten.
    pub(crate) since: u64,
    /// When there were data again.
    pub(crate) back: u64,
    /// Nothing was left.
    pub(crate) wiped: bool,
}

/// How a replica becomes the master.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Change {
    /// On order.
    Ordered,
    /// The master is killed.
    Lost,
    /// The same, and the replica lacks the last second.
    LostAhead,
}

impl Change {
    pub(crate) const ALL: [Self; 3] = [Self::Ordered, Self::Lost, Self::LostAhead];
}

/// Loses all data, and waits until somebody has made this key anew. Returns how many keys there were, too.
pub(crate) async fn flush_all(server: &RedisServer, key: &str) -> Result<(Loss, u64)> {
    let (lost, keys) = (boottime_ns(), server.query::<u64>(&cmd("DBSIZE"))?);
    server.query::<()>(&cmd("FLUSHALL"))?;
    let back = made_anew(server, key).await?;
    Ok((Loss { lost, since: lost, back, wiped: true }, keys))
}

/// The moment at which a key exists again.
pub(crate) async fn made_anew(server: &RedisServer, key: &str) -> Result<u64> {
    let made = within(PATIENCE, "the data to be made anew", async || {
        let there = server.query::<u64>(cmd("EXISTS").arg(key)).ok()?;
        (there > 0).then(boottime_ns)
    });
    Ok(made.await?)
}

/// Makes the replica the master, and waits until it has a replica again.
pub(crate) async fn fail_over(sentinels: &Sentinels, change: Change) -> Result<Loss> {
    sentinels.await_replica().await?;
    let since = boottime_ns();
    if change == Change::Ordered {
        sentinels.fail_over().await?;
        // The old master accepts writes until it is told, and loses them.
        sentinels.await_replica().await?;
        return Ok(Loss { lost: since, since, back: boottime_ns(), wiped: false });
    }
    if change == Change::LostAhead {
        sentinels.hold_replica_back().await?;
        sleep(BEHIND).await;
    }
    let lost = boottime_ns();
    let old = sentinels.kill_master().await?;
    sentinels.await_new_master(old).await?;
    let back = boottime_ns();
    old.restart(Data::Wipe)?;
    sentinels.let_replica_follow()?;
    sentinels.await_replica().await?;
    Ok(Loss { lost, since, back, wiped: false })
}
