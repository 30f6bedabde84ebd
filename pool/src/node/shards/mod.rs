//! A pool that is made of several: past what one Redis core can do.
//!
//! The shards of a pool are the pools `name#0`, `name#1` and so on. Each key belongs to one of them, by a hash that never
//! changes ([`place`](super::place)). Two nodes that disagree about the number of shards would run a key twice. So the number
//! stands in every shard's settings, as `shard` = `index/count`, and a node that was given another is refused before it has
//! written anything. The first shard is joined before the others ([`joining`]) and ends after them ([`guard`]).

mod guard;
mod joining;
mod look;
#[cfg(test)]
mod tests;

pub(super) use look::{Look, Seen};

use std::time::{Duration, Instant};

use super::Shard;
use crate::builder::NodeBuilder;
use crate::error::Error;
use guard::guard;
use joining::Joining;

/// Joins every shard of the pool, and creates those that are missing. A pool whose shutdown nobody lives to carry on is
/// brought to its end first, shard by shard.
pub(crate) async fn join(node: NodeBuilder, count: u32, patience: Duration) -> Result<Vec<Shard>, Error> {
    let joining = Joining { deadline: Instant::now() + patience, node, count };
    loop {
        if let Some(shards) = joining.attempt().await? {
            // It ends when the shards have.
            tokio::spawn(guard(shards.iter().map(Shard::overseen).collect()));
            return Ok(shards);
        }
        if Instant::now() >= joining.deadline {
            return Err(Error::Deadline(patience));
        }
    }
}
