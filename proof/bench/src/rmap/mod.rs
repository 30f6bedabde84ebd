//! A replicated map with entries of 16 and 100 bytes.

pub(crate) mod follow;
mod propagation;

use std::time::Instant;

use futures::StreamExt;
use redis::aio::MultiplexedConnection;
use tenure_connection::Client;
use tenure_rmap::RawMap;

use crate::figures::short;
use crate::load::suffix;
use crate::options::Options;
use crate::report::Report;
use crate::{Error, floor};

/// The number of writes in a pipeline of the floor.
const PIPELINED: u64 = 100;
const VALUE: usize = 100;

pub(crate) async fn run(options: Options) -> Result<Report, Error> {
    let server = options.server()?;
    let client = floor::client(&server.url())?;
    let mut redis = floor::connect(&server.url()).await?;
    let mut report = Report::new("rmap");
    let (entries, ticks) = options.sized((100_000, 3_000), (2_000, 50));

    let writes =
        options.sized([(1, 5_000), (64, 50_000), (1_000, 50_000)], [(1, 50), (64, 200), (1_000, 1_000)]);
    for (callers, writes) in writes {
        let (mut sets, mut floors) = (Vec::new(), Vec::new());
        for _ in 0..options.runs() {
            sets.push(set(&client, callers, writes).await?);
            floors.push(set_floor(&mut redis, writes.next_multiple_of(PIPELINED)).await?);
        }
        report.beside(format!("set_per_s{}", suffix(callers as u64)), sets, floors);
    }

    for (name, others) in [("propagation", 0), ("propagation_loaded", propagation::OTHERS)] {
        let (mut seen, mut floors) = (Vec::new(), Vec::new());
        for _ in 0..options.runs() {
            seen.push(propagation::measure(&server.url(), &client, ticks, others).await?);
            floors.push(propagation::measure_floor(&server.url(), &mut redis, ticks, others).await?);
        }
        let of = |seen: &[propagation::Figure], field: fn(&propagation::Figure) -> f64| {
            seen.iter().map(field).collect()
        };
        report.beside(format!("{name}_ms_p50"), of(&seen, |f| f.p50_ms), of(&floors, |f| f.p50_ms));
        report.beside(format!("{name}_ms_p99"), of(&seen, |f| f.p99_ms), of(&floors, |f| f.p99_ms));
        report.figure(format!("{name}_updates_per_s"), of(&seen, |f| f.updates_per_s));
        report.figure(format!("{name}_unseen"), of(&seen, |f| f.unseen));
    }

    let joined = fill(&client, entries).await?;
    let (mut joins, mut floors) = (Vec::new(), Vec::new());
    for _ in 0..options.runs() {
        let began = Instant::now();
        let copy = RawMap::join(&client, "big").await?;
        joins.push(began.elapsed().as_secs_f64() * 1e3);
        if copy.len() as u64 != entries {
            return Err(format!("a copy has {} of {entries} entries", copy.len()).into());
        }
        copy.close().await;
        let began = Instant::now();
        let reply: redis::Value = redis::cmd("HGETALL").arg("floor:big").query_async(&mut redis).await?;
        floors.push(began.elapsed().as_secs_f64() * 1e3);
        drop(reply);
    }
    report.beside(format!("join_{}_ms", short(entries)), joins, floors);
    joined.close().await;
    let held = follow::bytes_per_entry(&server.url(), entries).await?;
    report.beside("bytes_per_entry", vec![held], vec![(key(0).len() + VALUE) as f64]);
    Ok(report)
}

/// Many callers write through one handle.
async fn set(client: &Client, callers: usize, writes: u64) -> Result<f64, Error> {
    let map = RawMap::join(client, "writes").await?;
    let value = [b'x'; VALUE];
    let began = Instant::now();
    let mut calls =
        futures::stream::iter(0..writes).map(|i| map.set(key(i % 1_000), value)).buffer_unordered(callers);
    while let Some(written) = calls.next().await {
        written?;
    }
    let per_s = writes as f64 / began.elapsed().as_secs_f64();
    drop(calls);
    map.destroy().await?;
    map.close().await;
    Ok(per_s)
}

/// The least work of a write: the entry, the revision, the message.
async fn set_floor(redis: &mut MultiplexedConnection, writes: u64) -> Result<f64, Error> {
    let value = [b'x'; VALUE];
    let began = Instant::now();
    for batch in 0..writes / PIPELINED {
        let mut pipe = redis::pipe();
        for i in batch * PIPELINED..(batch + 1) * PIPELINED {
            let key = key(i % 1_000);
            pipe.cmd("HSET").arg("floor").arg(&key).arg(&value[..]).ignore();
            pipe.cmd("HINCRBY").arg("floor:meta").arg("rev").arg(1).ignore();
            pipe.cmd("SPUBLISH").arg("floor:changes").arg(&value[..]).ignore();
        }
        pipe.query_async::<()>(redis).await?;
    }
    let per_s = writes as f64 / began.elapsed().as_secs_f64();
    redis::cmd("DEL").arg("floor").arg("floor:meta").query_async::<()>(redis).await?;
    Ok(per_s)
}

/// A map of this many entries, and a bare hash with the same entries.
async fn fill(client: &Client, entries: u64) -> Result<RawMap, Error> {
    let map = RawMap::join(client, "big").await?;
    let value = vec![b'x'; VALUE];
    for batch in 0..entries / 1_000 {
        let part: Vec<_> = (batch * 1_000..(batch + 1) * 1_000).map(|i| (key(i), &value)).collect();
        map.set_many(part.iter().map(|(key, value)| (key, value))).await?;
        let mut command = redis::cmd("HSET");
        command.arg("floor:big");
        for (key, value) in &part {
            command.arg(key).arg(&value[..]);
        }
        client.commands().command(&command).await?;
    }
    Ok(map)
}

fn key(i: u64) -> String {
    format!("tenant:{i:09}")
}
