//! Pools with several shards, for more load than one Redis core can take.
//!
//! The shards of a pool are the pools `name#0`, `name#1` and so on. Each key belongs to one of them, by a hash that
//! never changes ([`place`](super::place)). Two nodes that disagree about the number of shards would run a key twice.
//! So the number is in every shard's settings, as `shard` = `index/count`. A node with another number is refused
//! before it writes anything. The first shard is joined before the others ([`joining`]) and ends after them
//! ([`supervise`]).

mod joining;
mod probe;
mod supervisor;
#[cfg(test)]
mod tests;

use std::any::Any;

pub(crate) use probe::SOON;
pub(crate) use probe::{Probe, Seen, is_silence, no_answer};
use tenure_connection::Thread;

use super::Shard;
use super::joining::Limit;
use crate::api::builder::NodeBuilder;
use crate::error::Error;
use crate::runtime::actor::panicked;
use joining::Joining;
use supervisor::supervise;

/// Joins every shard of the pool, and creates missing ones. If no living node carries on a shutdown of the pool, this
/// first ends it, shard by shard.
pub(crate) async fn join(node: NodeBuilder, count: u32, limit: Limit) -> Result<Vec<Shard>, Error> {
    // A handler that blocks every thread of its runtime must not stop the guard.
    let name = node.names(None)?.1;
    let thread = node.thread(|| Thread::own(format!("guard {name}")))?;
    let joining = Joining { node, count, limit };
    loop {
        if let Some(shards) = joining.attempt().await? {
            // The thread ends when the shards have ended.
            let ended = |panic: Option<Box<dyn Any + Send>>| {
                if let Some(panic) = panic {
                    tracing::error!(
                        error = panicked(&*panic),
                        "the guard failed: another number of shards goes unnoticed here"
                    );
                }
            };
            thread.drive(supervise(shards.iter().map(Shard::overseen).collect()), ended);
            return Ok(shards);
        }
        if limit.rest().is_zero() {
            return Err(limit.is_up(None));
        }
    }
}
