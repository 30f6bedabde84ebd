//! A replicated map with entries of 16 and 100 bytes.

pub(crate) mod follow;
mod propagation;

use std::time::Instant;

use futures::StreamExt;
use redis::aio::MultiplexedConnection;
use tenure_connection::Client;
use tenure_rmap::RawMap;
use tenure_testing::RedisServer;

use crate::figures::{Report, median};
use crate::floor;

type Error = Box<dyn std::error::Error>;

const ENTRIES: u64 = 100_000;
const WRITES: u64 = 50_000;
const CALLERS: usize = 1_000;
/// Writes that share a pipeline of the floor.
const PIPELINED: u64 = 100;
const VALUE: usize = 100;

pub(crate) async fn run(as_json: bool, runs: u32) -> Result<(), Error> {
    let server = RedisServer::start()?;
    let client = Client::open(&server.url())?;
    let mut redis = floor::connect(&server.url()).await?;
    let mut report = Report::default();

    let (mut sets, mut sets_floor) = (Vec::new(), Vec::new());
    for _ in 0..runs {
        sets.push(set(&client).await?);
        sets_floor.push(set_floor(&mut redis).await?);
    }
    report.figure("set_per_s", median(sets), median(sets_floor));

    let (mut seen, mut seen_floor) = (Vec::new(), Vec::new());
    for _ in 0..runs {
        seen.push(propagation::measure(&server.url(), &client).await?);
        seen_floor.push(propagation::measure_floor(&server.url(), &mut redis).await?);
    }
    let of = |figures: &[propagation::Figure], field: fn(&propagation::Figure) -> f64| {
        median(figures.iter().map(field).collect())
    };
    report.figure("propagation_ms_p50", of(&seen, |f| f.p50_ms), of(&seen_floor, |f| f.p50_ms));
    report.figure("propagation_ms_p99", of(&seen, |f| f.p99_ms), of(&seen_floor, |f| f.p99_ms));
    report.load("propagation_updates_per_s", of(&seen, |f| f.updates_per_s));
    report.load("propagation_unseen", of(&seen, |f| f.unseen));

    let joined = fill(&client).await?;
    let (mut joins, mut joins_floor) = (Vec::new(), Vec::new());
    for _ in 0..runs {
        let began = Instant::now();
        let copy = RawMap::join(&client, "big").await?;
        joins.push(began.elapsed().as_secs_f64() * 1e3);
        assert_eq!(copy.len() as u64, ENTRIES);
        copy.close().await;
        let began = Instant::now();
        let reply: redis::Value = redis::cmd("HGETALL").arg("floor:big").query_async(&mut redis).await?;
        joins_floor.push(began.elapsed().as_secs_f64() * 1e3);
        drop(reply);
    }
    report.figure("join_100k_ms", median(joins), median(joins_floor));
    joined.close().await;
    let held = follow::bytes_per_entry(&server.url(), ENTRIES).await?;
    report.figure("bytes_per_entry", held, (key(0).len() + VALUE) as f64);
    report.print(as_json);
    Ok(())
}

/// Many callers write through one handle.
async fn set(client: &Client) -> Result<f64, Error> {
    let map = RawMap::join(client, "writes").await?;
    let value = [b'x'; VALUE];
    let began = Instant::now();
    let mut writes =
        futures::stream::iter(0..WRITES).map(|i| map.set(key(i % 1_000), value)).buffer_unordered(CALLERS);
    while let Some(written) = writes.next().await {
        written?;
    }
    let per_s = WRITES as f64 / began.elapsed().as_secs_f64();
    drop(writes);
    map.destroy().await?;
    map.close().await;
    Ok(per_s)
}

/// What a write does at least: the entry, the revision, the message.
async fn set_floor(redis: &mut MultiplexedConnection) -> Result<f64, Error> {
    let value = [b'x'; VALUE];
    let began = Instant::now();
    for batch in 0..WRITES / PIPELINED {
        let mut pipe = redis::pipe();
        for i in batch * PIPELINED..(batch + 1) * PIPELINED {
            let key = key(i % 1_000);
            pipe.cmd("HSET").arg("floor").arg(&key).arg(&value[..]).ignore();
            pipe.cmd("HINCRBY").arg("floor:meta").arg("rev").arg(1).ignore();
            pipe.cmd("SPUBLISH").arg("floor:changes").arg(&value[..]).ignore();
        }
        pipe.query_async::<()>(redis).await?;
    }
    let per_s = WRITES as f64 / began.elapsed().as_secs_f64();
    redis::cmd("DEL").arg("floor").arg("floor:meta").query_async::<()>(redis).await?;
    Ok(per_s)
}

/// A map of that many entries, and a bare hash with the same.
async fn fill(client: &Client) -> Result<RawMap, Error> {
    let map = RawMap::join(client, "big").await?;
    let value = vec![b'x'; VALUE];
    for batch in 0..ENTRIES / 1_000 {
        let entries: Vec<_> = (batch * 1_000..(batch + 1) * 1_000).map(|i| (key(i), &value)).collect();
        map.set_many(entries.iter().map(|(key, value)| (key, value))).await?;
        let mut command = redis::cmd("HSET");
        command.arg("floor:big");
        for (key, value) in &entries {
            command.arg(key).arg(&value[..]);
        }
        client.commands().command(&command).await?;
    }
    Ok(map)
}

fn key(i: u64) -> String {
    format!("tenant:{i:09}")
}
