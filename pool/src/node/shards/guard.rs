//! What is seen to for all shards together, by each process that is part of them.
//!
//! - A shutdown that one shard has heard of is one of all: whoever asked may have died halfway. The others get the time that
//!   was asked for, less what has passed.
//! - The first shard ends last. It says how many there are, and refuses who was given another number; so nobody makes a pool
//!   with another number of shards while one of them still ends its jobs.
//! - Where all data of the first shard were lost, and somebody made it anew with another number of shards, this process must
//!   not go on with what it runs: it drops everything.

use std::time::{Duration, Instant};

use futures::future::{FutureExt, join_all, select_all};

use super::look::server_ms;
use crate::node::ends::CLOSING;
use crate::node::overseen::Overseen;
use crate::settings::{ShardId, ShutdownFlag};
use crate::store::ShutdownMode;

/// Sees to these shards of a pool, ordered by their place, until the last of the nodes has ended.
pub(super) async fn guard(mut nodes: Vec<Overseen>) {
    let (mut last, mut asked) = (false, None);
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

/// What a shard says that it is, when it is not what it was when it was joined.
fn other_shards(nodes: &[Overseen]) -> Option<String> {
    let count = nodes.len() as u32;
    (0..count).zip(nodes).find_map(|(index, node)| {
        let stored = node.stored()?;
        let theirs = stored.fields.get(ShardId::SETTING);
        (theirs != Some(&ShardId { index, count }.to_string())).then(|| theirs.cloned().unwrap_or_default())
    })
}

/// What was asked of the pool.
#[derive(Clone, Copy)]
pub(super) enum Asked {
    Drop,
    /// What was accepted may begin until then.
    CloseUntil(Instant),
}

impl Asked {
    /// As the flag tells, by the clock of the server that it stands on. Where that does not answer, what was accepted has
    /// the time that a shutdown gives by itself.
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

/// Has every shard shut down, if one has heard that the pool is to, or has ended of it.
async fn spread_shutdown(nodes: &[Overseen], asked: &mut Option<Asked>) {
    let Some((first, others)) = nodes.split_first() else { return };
    // It ends last: whoever still sees another shard is about to hear of its end, or sees one of a pool made since.
    if first.saw_the_end() {
        return;
    }
    if asked.is_none()
        && let Some((node, flag)) = nodes.iter().find_map(|node| Some((node, node.flag()?)))
    {
        let now = match node.store() {
            Some(store) => server_ms(&*store).await,
            None => None,
        };
        *asked = Some(Asked::of(&flag, now));
    }
    let mode = match asked {
        Some(asked) => asked.mode(),
        // Its flag came and went too fast to be seen.
        None if others.iter().any(Overseen::saw_the_end) => ShutdownMode::Closing(CLOSING),
        None => return,
    };
    let unheard = nodes.iter().filter(|node| !node.has_ended() && node.flag().is_none());
    join_all(unheard.map(|node| node.shut_down(mode))).await;
}
