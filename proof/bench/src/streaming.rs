//! Streams with entries of one field of 100 bytes.

use std::time::Instant;

use futures::StreamExt;
use redis::Value;
use redis::aio::MultiplexedConnection;
use tenure_connection::Client;
use tenure_streaming::{NewEntry, Reader, Sink, Start, Stream};

use crate::figures::percentile_ms;
use crate::options::Options;
use crate::report::Report;
use crate::{Error, floor};

const NAME: &str = "entries";
const PIPELINED: u64 = 100;
const BODY: [u8; 100] = [b'x'; 100];

/// The sizes of one repetition.
#[derive(Clone, Copy)]
struct Sizes {
    entries: u64,
    /// Entries of a single caller, one after the other.
    single: u64,
    wake_ups: usize,
}

const SIZES: Sizes = Sizes { entries: 100_000, single: 5_000, wake_ups: 1_000 };
const QUICK: Sizes = Sizes { entries: 1_000, single: 50, wake_ups: 20 };

pub(crate) async fn run(options: Options) -> Result<Report, Error> {
    let sizes = options.sized(SIZES, QUICK);
    let server = options.server()?;
    let client = floor::client(&server.url())?;
    let mut redis = floor::connect(&server.url()).await?;
    let mut figures: [Vec<f64>; 10] = Default::default();
    for _ in 0..options.runs() {
        let stream = Stream::new(&client, NAME)?;
        let measured = [
            add_one_by_one(&stream, sizes.single, 1).await?,
            add_one_by_one(&stream, sizes.entries, 64).await?,
            add_one_by_one(&stream, sizes.entries, 1_000).await?,
            add_in_batches(&stream, sizes.entries).await?,
            add_floor(&mut redis, sizes.entries).await?,
            // All ways of adding have filled the stream: it has enough for every way of taking.
            drain(&client, sizes.entries).await?,
            drain_one_by_one(&client, sizes.entries, 64).await?,
            drain_floor(&mut redis, sizes.entries).await?,
            wake_up(&client, sizes.wake_ups).await?,
            wake_up_floor(&server.url(), &mut redis, sizes.wake_ups).await?,
        ];
        for (figures, measured) in figures.iter_mut().zip(measured) {
            figures.push(measured);
        }
        stream.destroy().await?;
        redis::cmd("FLUSHALL").query_async::<()>(&mut redis).await?;
    }
    let [add_1, add_64, add, batches, add_floor, drain, drain_64, drain_floor, wake_up, wake_up_floor] =
        figures;
    let mut report = Report::new("streaming");
    report.beside("add_per_s_1_caller", add_1, add_floor.clone());
    report.beside("add_per_s_64_callers", add_64, add_floor.clone());
    report.beside("add_per_s", add, add_floor.clone());
    report.beside("add_many_per_s", batches, add_floor);
    report.beside("sink_events_per_s", drain, drain_floor.clone());
    report.beside("sink_events_per_s_64_ackers", drain_64, drain_floor);
    report.beside("wakeup_ms_p50", wake_up, wake_up_floor);
    Ok(report)
}

/// Many callers add one entry each.
async fn add_one_by_one(stream: &Stream, entries: u64, callers: usize) -> Result<f64, Error> {
    let began = Instant::now();
    let mut adds = futures::stream::iter(0..entries)
        .map(|_| async { stream.add(&[("d", &BODY[..])]).await })
        .buffer_unordered(callers);
    while let Some(added) = adds.next().await {
        added?;
    }
    Ok(per_s(entries, began))
}

/// One caller adds in batches, each in one atomic step.
async fn add_in_batches(stream: &Stream, entries: u64) -> Result<f64, Error> {
    let batch: Vec<_> = (0..PIPELINED).map(|_| NewEntry::new().field("d", &BODY[..])).collect();
    let began = Instant::now();
    for _ in 0..entries / PIPELINED {
        stream.add_many(&batch).await?;
    }
    Ok(per_s(entries, began))
}

async fn add_floor(redis: &mut MultiplexedConnection, entries: u64) -> Result<f64, Error> {
    let began = Instant::now();
    for _ in 0..entries / PIPELINED {
        let mut pipe = redis::pipe();
        for _ in 0..PIPELINED {
            pipe.cmd("XADD").arg("floor").arg("*").arg("d").arg(&BODY[..]).ignore();
        }
        pipe.query_async::<()>(redis).await?;
    }
    Ok(per_s(entries, began))
}

/// One consumer takes and acknowledges all entries. While a batch is acknowledged, the next one is read.
async fn drain(client: &Client, entries: u64) -> Result<f64, Error> {
    let sink = Sink::builder(client, "group").stream(NAME).start(Start::Oldest).count(PIPELINED);
    let mut sink = sink.open().await?;
    let acks = sink.handle();
    let began = Instant::now();
    let (mut taken, mut batch) = (0, Vec::new());
    while taken < entries {
        let (next, acked) = tokio::join!(sink.next_batch(PIPELINED as usize), acks.ack(&batch));
        acked?;
        batch = next?;
        taken += batch.len() as u64;
    }
    acks.ack(&batch).await?;
    let per_s = per_s(entries, began);
    sink.close().await?;
    Ok(per_s)
}

/// Takes all entries like [`drain`], but acknowledges each by itself, with `ackers` acknowledgements at once.
async fn drain_one_by_one(client: &Client, entries: u64, ackers: usize) -> Result<f64, Error> {
    let sink = Sink::builder(client, "ackers").stream(NAME).start(Start::Oldest).count(PIPELINED);
    let mut sink = sink.open().await?;
    let acks = sink.handle();
    let began = Instant::now();
    {
        let acknowledge = async |entry: Result<_, _>| acks.ack([&entry?]).await;
        let mut acknowledged = sink.by_ref().take(entries as usize).map(acknowledge).buffer_unordered(ackers);
        while let Some(acknowledged) = acknowledged.next().await {
            acknowledged?;
        }
    }
    let per_s = per_s(entries, began);
    sink.close().await?;
    Ok(per_s)
}

/// Drains with bare commands: while one batch is acknowledged, the next is read.
async fn drain_floor(redis: &mut MultiplexedConnection, entries: u64) -> Result<f64, Error> {
    redis::cmd("XGROUP").arg(&["CREATE", "floor", "group", "0"]).query_async::<()>(redis).await?;
    let began = Instant::now();
    let mut pending: Vec<Vec<u8>> = Vec::new();
    loop {
        let mut pipe = redis::pipe();
        if !pending.is_empty() {
            pipe.cmd("XACK").arg("floor").arg("group");
            pipe.arg(&pending);
            pipe.ignore();
        }
        pipe.cmd("XREADGROUP").arg(&["GROUP", "group", "consumer", "COUNT", "100", "STREAMS", "floor", ">"]);
        let reply: (Value,) = pipe.query_async(redis).await?;
        pending = ids(reply.0);
        if pending.is_empty() {
            return Ok(per_s(entries, began));
        }
    }
}

/// The ids in a reply of `XREADGROUP` for one stream.
fn ids(reply: Value) -> Vec<Vec<u8>> {
    let list = |value: Value| match value {
        Value::Array(items) => items,
        _ => Vec::new(),
    };
    let streams = list(reply).into_iter().next().map(list).unwrap_or_default();
    let entries = streams.into_iter().nth(1).map(list).unwrap_or_default();
    let id = |entry| match list(entry).into_iter().next() {
        Some(Value::BulkString(id)) => Some(id),
        _ => None,
    };
    entries.into_iter().filter_map(id).collect()
}

/// The time from just before an entry is added until a waiting reader has it.
async fn wake_up(client: &Client, wake_ups: usize) -> Result<f64, Error> {
    let stream = Stream::new(client, "wake")?;
    let mut reader = Reader::builder(client).stream("wake", Start::Newest).open().await?;
    let mut delays = Vec::new();
    for _ in 0..wake_ups {
        let (added, read) = tokio::join!(
            async {
                waiting(client).await?;
                let began = Instant::now();
                stream.add(&[("d", &BODY[..])]).await?;
                Ok::<_, Error>(began)
            },
            async {
                let entry = reader.next().await.ok_or("the reader has ended")??;
                Ok::<_, Error>((Instant::now(), entry))
            },
        );
        delays.push(read?.0.duration_since(added?));
    }
    delays.sort_unstable();
    stream.destroy().await?;
    Ok(percentile_ms(&delays, 0.5))
}

async fn wake_up_floor(url: &str, redis: &mut MultiplexedConnection, wake_ups: usize) -> Result<f64, Error> {
    let client = floor::client(url)?;
    let mut blocked = floor::connect(url).await?;
    let (mut delays, mut last) = (Vec::new(), "0".to_owned());
    for _ in 0..wake_ups {
        let mut read = redis::cmd("XREAD");
        read.arg(&["BLOCK", "5000", "STREAMS", "wake:floor"]).arg(&last);
        let (added, woken) = tokio::join!(
            async {
                waiting(&client).await?;
                let began = Instant::now();
                let id: String = redis::cmd("XADD")
                    .arg(&["wake:floor", "*", "d"])
                    .arg(&BODY[..])
                    .query_async(redis)
                    .await?;
                Ok::<_, Error>((began, id))
            },
            async {
                read.query_async::<Value>(&mut blocked).await?;
                Ok::<_, Error>(Instant::now())
            },
        );
        let (began, id) = added?;
        delays.push(woken?.duration_since(began));
        last = id;
    }
    delays.sort_unstable();
    Ok(percentile_ms(&delays, 0.5))
}

/// Waits until the reader's command has reached the server.
async fn waiting(client: &Client) -> Result<(), Error> {
    let redis = client.commands();
    loop {
        let info = redis.command(redis::cmd("INFO").arg("clients")).await?;
        let text: String = redis::from_redis_value(info)?;
        if text.lines().any(|line| line.trim() == "blocked_clients:1") {
            return Ok(());
        }
    }
}

fn per_s(entries: u64, began: Instant) -> f64 {
    entries as f64 / began.elapsed().as_secs_f64()
}
