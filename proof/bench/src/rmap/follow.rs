//! The other process of the benchmark: it joins, follows, and reports its observations.

use std::process::Stdio;

use clap::Args;
use tenure_connection::{Client, Event};
use tenure_rmap::RawMap;
use tenure_testing::end_with_parent;
use tokio::process::Command;

use super::propagation::{FLOOR, MAP, ring_key};
use crate::Error;
use crate::clock::now_us;
use crate::floor;
use crate::usage::resident;
use crate::worker::READY;

#[derive(Args)]
pub(crate) struct Following {
    #[arg(long)]
    url: String,
    /// Follow bare messages instead of a map.
    #[arg(long)]
    bare: bool,
    /// Join the big map several times and report the size of an entry instead.
    #[arg(long)]
    weigh: Option<u64>,
    /// The number of timed writes.
    #[arg(long, default_value_t = 0)]
    ticks: u64,
}

/// Copies whose memory is compared with that of the first, which includes the temporary memory of joining.
const COPIES: u64 = 5;
/// The number of timed writes that are looked for at each change.
const LOOKED_AT: u64 = 16;

pub(crate) async fn run(options: Following) -> Result<(), Error> {
    if options.weigh.is_none() {
        end_with_parent();
    }
    let client = floor::client(&options.url)?;
    let delays = match options.weigh {
        Some(entries) => {
            println!("{}", weigh(&client, entries).await?);
            return Ok(());
        }
        None if options.bare => follow_bare(&client).await?,
        None => follow_map(&client, options.ticks).await?,
    };
    println!("{}", serde_json::to_string(&delays)?);
    Ok(())
}

/// The memory, per entry, that one more copy of the big map adds to a process.
pub(crate) async fn bytes_per_entry(url: &str, entries: u64) -> Result<f64, Error> {
    let mut command = Command::new(std::env::current_exe()?);
    command.args(["follow", "--url", url, "--weigh", &entries.to_string()]);
    let output = command.stderr(Stdio::inherit()).output().await?;
    Ok(String::from_utf8(output.stdout)?.trim().parse()?)
}

async fn weigh(client: &Client, entries: u64) -> Result<f64, Error> {
    let mut copies = vec![RawMap::join(client, "big").await?];
    let first = resident(std::process::id())?;
    for _ in 0..COPIES {
        copies.push(RawMap::join(client, "big").await?);
    }
    let added = resident(std::process::id())?.saturating_sub(first);
    drop(copies);
    Ok(added as f64 / (COPIES * entries) as f64)
}

async fn follow_map(client: &Client, ticks: u64) -> Result<Vec<u64>, Error> {
    let map = RawMap::join(client, MAP).await?;
    let mut watcher = map.watch();
    println!("{READY}");
    let (mut seen, mut next, mut delays) = (vec![false; ticks as usize], 0, Vec::new());
    while map.get("end").is_none() {
        watcher.changed().await?;
        let now = now_us();
        // They come nearly in order: the first unseen one, and some after it.
        for tick in next..ticks.min(next + LOOKED_AT) {
            let at = tick as usize;
            let Some(value) = map.get(ring_key(tick)) else { continue };
            let Some((written, sent)) = parse(&value) else { return Err("no probe".into()) };
            if written == tick && !seen[at] {
                seen[at] = true;
                delays.push(now.saturating_sub(sent));
            }
            // An overwritten one is never seen.
            seen[at] |= written > tick;
        }
        while seen.get(next as usize) == Some(&true) {
            next += 1;
        }
    }
    map.close().await;
    Ok(delays)
}

/// Parses `tick time`, as the writer writes it.
fn parse(value: &[u8]) -> Option<(u64, u64)> {
    let (tick, sent) = std::str::from_utf8(value).ok()?.split_once(' ')?;
    Some((tick.parse().ok()?, sent.parse().ok()?))
}

async fn follow_bare(client: &Client) -> Result<Vec<u64>, Error> {
    let mut messages = client.subscriber([FLOOR]);
    let mut delays = Vec::new();
    loop {
        match messages.next().await {
            Event::Subscribed => println!("{READY}"),
            Event::Message(message) if &message.payload[..] == b"end" => return Ok(delays),
            Event::Message(message) => {
                if let Ok(sent) = std::str::from_utf8(&message.payload)?.parse::<u64>() {
                    delays.push(now_us().saturating_sub(sent));
                }
            }
            Event::Disconnected(error) => return Err(error.into()),
            _ => {}
        }
    }
}
