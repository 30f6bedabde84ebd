//! The delay until another process sees a write. Every millisecond one write carries the time of its sending, alone or
//! among nine others. It uses one of a ring of keys, so that no write is overwritten before it was seen.

use std::time::Duration;

use futures::future::join_all;
use redis::aio::MultiplexedConnection;
use tenure_connection::Client;
use tenure_rmap::RawMap;
use tenure_testing::ChildProcess;
use tokio::time::{Instant, MissedTickBehavior, interval};

use super::{VALUE, key};
use crate::Error;
use crate::clock::now_us;
use crate::figures::percentile_ms;
use crate::process::started;

/// The number of writes beside each timed write, for 10,000 writes a second.
pub(crate) const OTHERS: u64 = 9;
/// The number of keys of timed writes: a follower may be this many milliseconds late before it misses one.
const RING: u64 = 256;
pub(crate) const MAP: &str = "seen";
pub(crate) const FLOOR: &str = "floor:seen";

/// The longest time from the last write until it has reported.
const PATIENCE: Duration = Duration::from_secs(60);

/// The delays of the writes.
pub(crate) struct Figure {
    pub(crate) p50_ms: f64,
    pub(crate) p99_ms: f64,
    pub(crate) updates_per_s: f64,
    /// Timed writes that the follower did not see.
    pub(crate) unseen: f64,
}

pub(crate) fn ring_key(i: u64) -> String {
    format!("probe:{:03}", i % RING)
}

/// Without others, each write awaits the previous one.
pub(crate) async fn measure(url: &str, client: &Client, writes: u64, others: u64) -> Result<Figure, Error> {
    let map = RawMap::join(client, MAP).await?;
    let follower = Follower::start(url, false, writes).await?;
    let value = [b'x'; VALUE];
    let began = Instant::now();
    let mut ticks = every_millisecond();
    let mut running = tokio::task::JoinSet::new();
    for tick in 0..writes {
        ticks.tick().await;
        if others == 0 {
            map.set(ring_key(tick), format!("{tick} {}", now_us())).await?;
            continue;
        }
        let map = map.clone();
        running.spawn(async move {
            let probe = map.set(ring_key(tick), format!("{tick} {}", now_us()));
            let others = join_all((0..others).map(|i| map.set(key((tick * others + i) % 1_000), value)));
            let (probe, others) = tokio::join!(probe, others);
            others.into_iter().try_for_each(|other| other.map(drop)).and(probe.map(drop))
        });
        while let Some(done) = running.try_join_next() {
            done??;
        }
    }
    while let Some(done) = running.join_next().await {
        done??;
    }
    let elapsed = began.elapsed();
    map.set("end", "").await?;
    let figure = follower.figure(elapsed, others).await;
    map.destroy().await?;
    map.close().await;
    figure
}

pub(crate) async fn measure_floor(
    url: &str,
    redis: &mut MultiplexedConnection,
    writes: u64,
    others: u64,
) -> Result<Figure, Error> {
    let follower = Follower::start(url, true, writes).await?;
    let value = [b'x'; VALUE];
    let began = Instant::now();
    let mut ticks = every_millisecond();
    for tick in 0..writes {
        ticks.tick().await;
        let mut pipe = redis::pipe();
        pipe.cmd("SPUBLISH").arg(FLOOR).arg(now_us()).ignore();
        for i in 0..others {
            pipe.cmd("HSET").arg("floor").arg(key((tick * others + i) % 1_000)).arg(&value[..]).ignore();
            pipe.cmd("SPUBLISH").arg(FLOOR).arg(&value[..]).ignore();
        }
        pipe.query_async::<()>(redis).await?;
    }
    let elapsed = began.elapsed();
    redis::cmd("SPUBLISH").arg(FLOOR).arg("end").query_async::<()>(redis).await?;
    redis::cmd("DEL").arg("floor").query_async::<()>(redis).await?;
    follower.figure(elapsed, others).await
}

fn every_millisecond() -> tokio::time::Interval {
    let mut ticks = interval(Duration::from_millis(1));
    ticks.set_missed_tick_behavior(MissedTickBehavior::Burst);
    ticks
}

/// The other process.
struct Follower {
    process: ChildProcess,
    /// The number of timed writes that it should see.
    writes: u64,
}

impl Follower {
    async fn start(url: &str, bare: bool, writes: u64) -> Result<Self, Error> {
        let ticks = writes.to_string();
        let args = ["follow", "--url", url, "--ticks", &ticks];
        let process = started("the follower", args.into_iter().chain(bare.then_some("--bare"))).await?;
        Ok(Self { process, writes })
    }

    /// Reads the delays that it saw, in microseconds.
    async fn figure(mut self, elapsed: Duration, others: u64) -> Result<Figure, Error> {
        let delays: Vec<u64> = serde_json::from_str(&self.process.line(PATIENCE).await?)?;
        let mut delays: Vec<_> = delays.into_iter().map(Duration::from_micros).collect();
        delays.sort_unstable();
        Ok(Figure {
            p50_ms: percentile_ms(&delays, 0.5),
            p99_ms: percentile_ms(&delays, 0.99),
            updates_per_s: (self.writes * (others + 1)) as f64 / elapsed.as_secs_f64(),
            unseen: self.writes as f64 - delays.len() as f64,
        })
    }
}
