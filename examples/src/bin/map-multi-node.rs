//! `map-multi-node`: processes that know of each other through a map whose entries end by themselves.
//!
//! Each node keeps its own entry alive. One is killed: its entry ends, and all others hear of it.

use std::env;
use std::process::ExitStatus;
use std::time::Duration;

use futures::future::try_join_all;
use tenure_connection::Client;
use tenure_rmap::RawMap;
use tenure_testing::{Endpoint, Failure};
use tokio::process::{Child, Command};
use tokio::time::{interval, timeout};

const NODES: &str = "example:nodes";
const TALLY: &str = "example:tally";
/// A node that is silent for this long is taken for dead.
const TTL: Duration = Duration::from_secs(1);
const RENEW_EVERY: Duration = Duration::from_millis(250);
/// The number of increments by each node.
const COUNTS: usize = 100;
/// Long enough for the slowest machine.
const PATIENCE: Duration = Duration::from_secs(30);

type Result<T> = std::result::Result<T, Failure>;

#[tokio::main]
async fn main() -> Result<()> {
    let words: Vec<String> = env::args().skip(1).collect();
    match &words[..] {
        [url, name] => node(url, name).await,
        [] => story(Endpoint::from_env()?.url()).await,
        _ => Err("usage: map-multi-node".into()),
    }
}

/// One node, in a process of its own.
async fn node(url: &str, name: &str) -> Result<()> {
    let client = Client::open(url)?;
    let nodes = RawMap::join(&client, NODES).await?;
    let tally = RawMap::join(&client, TALLY).await?;
    let mine = nodes.with_entry_ttl(TTL);
    mine.set(name, "here").await?;
    try_join_all((0..COUNTS).map(|_| tally.increment("count", 1))).await?;

    let mut stop = tally.watch_key("stop");
    let mut renew = interval(RENEW_EVERY);
    while stop.value().is_none() {
        tokio::select! {
            _ = renew.tick() => { mine.set(name, "here").await?; }
            told = stop.changed() => { told?; }
        }
    }
    nodes.delete(name).await?;
    nodes.close().await;
    tally.close().await;
    Ok(())
}

async fn story(url: &str) -> Result<()> {
    let client = Client::open(url)?;
    let nodes = RawMap::join(&client, NODES).await?;
    let tally = RawMap::join(&client, TALLY).await?;

    let mut anna = start(url, "anna")?;
    let mut bert = start(url, "bert")?;
    let mut cleo = start(url, "cleo")?;
    wait_for(&nodes, "anna bert cleo").await?;
    timeout(PATIENCE, async {
        let mut count = tally.watch_key("count");
        while count.value().is_none_or(|value| value != "300") {
            count.changed().await?;
        }
        Ok::<_, tenure_rmap::Error>(())
    })
    .await??;
    println!("they have counted to {} together", 3 * COUNTS);

    bert.kill().await?;
    println!("bert is killed");
    wait_for(&nodes, "anna cleo").await?;

    let mut dora = start(url, "dora")?;
    wait_for(&nodes, "anna cleo dora").await?;

    tally.set("stop", "now").await?;
    wait_for(&nodes, "").await?;
    for (name, node) in [("anna", &mut anna), ("cleo", &mut cleo), ("dora", &mut dora)] {
        let status: ExitStatus = node.wait().await?;
        println!("{name} ended {}", if status.success() { "well" } else { "badly" });
    }
    nodes.destroy().await?;
    tally.destroy().await?;
    nodes.close().await;
    tally.close().await;
    Ok(())
}

fn start(url: &str, name: &str) -> Result<Child> {
    Ok(Command::new(env::current_exe()?).args([url, name]).kill_on_drop(true).spawn()?)
}

/// Waits until exactly these nodes are present.
async fn wait_for(nodes: &RawMap, names: &str) -> Result<()> {
    let mut changes = nodes.watch();
    let there = async {
        loop {
            let keys: Vec<_> =
                nodes.keys().iter().map(|key| String::from_utf8_lossy(key).into_owned()).collect();
            if keys.join(" ") == names {
                return Ok::<_, tenure_rmap::Error>(());
            }
            changes.changed().await?;
        }
    };
    timeout(PATIENCE, there)
        .await
        .map_err(|_| format!("{names:?} are not there, but {:?}", nodes.keys()))??;
    println!("the nodes are: {}", if names.is_empty() { "none" } else { names });
    Ok(())
}
