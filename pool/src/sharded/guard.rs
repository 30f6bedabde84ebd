//! What is seen to for all shards together, by each process that is part of them.
//!
//! - A shutdown that one shard has heard of is one of all: whoever asked may have died halfway.
//! - The first shard ends last. It says how many there are, and refuses who was given another number; so nobody makes a pool
//!   with another number of shards while one of them still ends its jobs.
//! - Where all data of the first shard were lost, and somebody made it anew with another number of shards, this process must
//!   not go on with what it runs: it drops everything. The new pool opens no sooner than a lease lasts.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use futures::future::{FutureExt, select_all};

use crate::node::Overseen;
use crate::settings::{Shard, ShutdownFlag};
use crate::store::ShutdownMode;

/// Sees to these shards of a pool, ordered by their place, until the last of the nodes has ended.
pub(super) async fn guard(mut nodes: Vec<Overseen>) {
    let mut last = false;
    loop {
        if let Some(theirs) = other_shards(&nodes) {
            tracing::error!(
                theirs,
                ours = nodes.len(),
                "the pool was made anew with other shards: everything is dropped here"
            );
            for node in &nodes {
                node.abandon();
            }
            return;
        }
        spread_shutdown(&nodes).await;
        if !last && nodes.len() > 1 && nodes[1..].iter().all(Overseen::saw_the_end) {
            last = true;
            nodes[0].others_ended().await;
        }
        let living = nodes.iter_mut().filter(|node| !node.has_ended());
        let changes: Vec<_> = living.map(|node| node.changed().boxed()).collect();
        if changes.is_empty() {
            return;
        }
        select_all(changes).await;
    }
}

/// What a shard says that it is, when it is not what it was when it was joined.
fn other_shards(nodes: &[Overseen]) -> Option<String> {
    let count = nodes.len() as u32;
    (0..count).zip(nodes).find_map(|(index, node)| {
        let stored = node.stored()?;
        let theirs = stored.fields.get(Shard::SETTING);
        (theirs != Some(&Shard { index, count }.to_string())).then(|| theirs.cloned().unwrap_or_default())
    })
}

/// Has every shard shut down, if one has heard that the pool is to.
async fn spread_shutdown(nodes: &[Overseen]) {
    let ended = nodes.iter().any(Overseen::saw_the_end).then_some(ShutdownMode::DropQueued);
    let flag = nodes.iter().find_map(Overseen::flag);
    let Some(mode) = flag.as_ref().map(mode_of).or(ended) else { return };
    for node in nodes.iter().filter(|node| !node.has_ended() && node.flag().is_none()) {
        node.shut_down(mode).await;
    }
}

/// What was asked for, as far as the flag tells.
fn mode_of(flag: &ShutdownFlag) -> ShutdownMode {
    match flag {
        ShutdownFlag::Stopping { .. } => ShutdownMode::DropQueued,
        ShutdownFlag::Closing { deadline_ms, .. } => {
            let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
            ShutdownMode::Closing(Duration::from_millis(*deadline_ms).saturating_sub(now))
        }
    }
}
