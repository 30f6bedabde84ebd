//! Duties that concern all shards of a pool together. Each process with a node in them does them.
//!
//! - A shutdown of one shard is a shutdown of all, because the caller may have died halfway. The others get the
//!   remaining part of the time that was asked for.
//! - The first shard ends last. It stores the number of shards, and refuses nodes that were given another number. So
//!   no node creates a pool with another number of shards while one of them still ends its jobs.
//! - The first shard may lose all data, and a node may create it again with another number of shards. This process
//!   then drops everything that it runs.

use std::time::Duration;

use futures::future::{FutureExt, join_all, select_all};
use tokio::time::Instant;

use super::probe::server_ms;
use crate::api::node::operator::CLOSING;
use crate::api::node::overseen::Overseen;
use crate::model::settings::{ShardId, ShutdownFlag};
use crate::store::ShutdownMode;

/// Guards these shards of a pool, ordered by index, until the last of the nodes has ended.
pub(super) async fn supervise(mut nodes: Vec<Overseen>) {
    let (mut last, mut asked) = (false, None);
    loop {
        if let Some(theirs) = other_shards(&nodes) {
            tracing::error!(
                theirs,
                ours = nodes.len(),
                "the pool was created again with other shards: everything is dropped here"
            );
            for node in &nodes {
                node.abandon();
            }
            return;
        }
        spread_shutdown(&nodes, &mut asked).await;
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

/// The `shard` setting of a shard that is no longer the one that was joined.
fn other_shards(nodes: &[Overseen]) -> Option<String> {
    let count = nodes.len() as u32;
    (0..count).zip(nodes).find_map(|(index, node)| {
        let stored = node.stored()?;
        let theirs = stored.fields.get(ShardId::SETTING);
        (theirs != Some(&ShardId { index, count }.to_string())).then(|| theirs.cloned().unwrap_or_default())
    })
}

/// The shutdown that the pool was asked for.
#[derive(Clone, Copy)]
pub(super) enum Asked {
    Drop,
    /// Accepted jobs may begin until then.
    CloseUntil(Instant),
}

impl Asked {
    /// Reads the flag, by the clock of its server. If that server does not answer, accepted jobs get the default time
    /// of a shutdown.
    pub(super) fn of(flag: &ShutdownFlag, server_ms: Option<u64>) -> Self {
        let deadline_ms = match flag {
            ShutdownFlag::Stopping { deadline_ms: None, .. } => return Self::Drop,
            ShutdownFlag::Stopping { deadline_ms: Some(at), .. } => *at,
            ShutdownFlag::Closing { deadline_ms, .. } => *deadline_ms,
        };
        let rest = server_ms.map_or(CLOSING, |now| Duration::from_millis(deadline_ms.saturating_sub(now)));
        let now = Instant::now();
        Self::CloseUntil(now.checked_add(rest).unwrap_or(now + CLOSING))
    }

    pub(super) fn mode(self) -> ShutdownMode {
        match self {
            Self::Drop => ShutdownMode::DropQueued,
            Self::CloseUntil(at) => ShutdownMode::Closing(at.saturating_duration_since(Instant::now())),
        }
    }
}

/// Shuts every shard down if one of them is shutting down, or has ended with its pool.
async fn spread_shutdown(nodes: &[Overseen], asked: &mut Option<Asked>) {
    let Some((first, others)) = nodes.split_first() else { return };
    // The first shard ends last. A node of another shard that still lives will soon hear of its end, or belongs to a
    // pool that was created since.
    if first.saw_the_end() {
        return;
    }
    if asked.is_none()
        && let Some((node, flag)) = nodes.iter().find_map(|node| Some((node, node.flag()?)))
    {
        let now = match node.store() {
            Some(store) => server_ms(&store).await,
            None => None,
        };
        *asked = Some(Asked::of(&flag, now));
    }
    let mode = match asked {
        Some(asked) => asked.mode(),
        // The flag came and went too fast to be seen.
        None if others.iter().any(Overseen::saw_the_end) => ShutdownMode::Closing(CLOSING),
        None => return,
    };
    let unheard = nodes.iter().filter(|node| !node.has_ended() && node.flag().is_none());
    join_all(unheard.map(|node| node.shut_down(mode))).await;
}
