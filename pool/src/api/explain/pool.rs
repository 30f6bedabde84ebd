//! The state of a pool that bears on each of its jobs: it is being opened, or shut down.

use std::fmt::{self, Display, Formatter};
use std::time::Duration;

use serde::Serialize;

use super::text::{For, Shown};
use crate::model::id::WorkerId;
use crate::model::member::Members;
use crate::model::serial;
use crate::model::settings::ShutdownFlag;
use crate::store::Evidence;

/// The number of workers that a text names.
const NAMED: usize = 5;

/// The opening of a pool, after its creation or a loss of data. Nothing begins before it is over.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Opening {
    /// The workers that have not reported all that they have, ordered by id. The pool opens once each of them has, or is
    /// lost. If there is none, a full node opens it within about the worker TTL.
    pub awaited: Vec<AwaitedWorker>,
}

/// A worker whose report a pool waits for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct AwaitedWorker {
    /// The worker.
    pub worker: WorkerId,
    /// The node that it lives on.
    pub node: String,
}

/// The shutdown of a pool. When serialized, its time is in milliseconds.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct PoolShutdown {
    /// The node that asked for it.
    pub by: String,
    /// How long accepted jobs may still begin. `None` if every job is told to end.
    #[serde(serialize_with = "serial::maybe_lapse")]
    pub left: Option<Duration>,
}

impl Opening {
    pub(super) fn of(seen: &Evidence, members: &Members) -> Option<Self> {
        let awaited = members.entries.iter().filter(|(worker, _)| !seen.attested.contains(worker));
        let awaited =
            awaited.map(|(&worker, member)| AwaitedWorker { worker, node: member.node.to_string() });
        seen.recovering.then(|| Self { awaited: awaited.collect() })
    }
}

impl PoolShutdown {
    pub(super) fn of(seen: &Evidence) -> Option<Self> {
        Some(match seen.flag.clone()? {
            ShutdownFlag::Closing { deadline_ms, by } => {
                let left = Duration::from_millis(deadline_ms.saturating_sub(seen.now));
                Self { by, left: Some(left) }
            }
            ShutdownFlag::Stopping { by, .. } => Self { by, left: None },
        })
    }
}

impl Display for Opening {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        if self.awaited.is_empty() {
            return f.write_str("every member has reported: a full node opens the pool");
        }
        f.write_str("before the pool opens, it waits for the report of ")?;
        for (at, AwaitedWorker { worker, node }) in self.awaited.iter().take(NAMED).enumerate() {
            write!(f, "{}worker {worker} (node {node})", if at == 0 { "" } else { ", " })?;
        }
        match self.awaited.len().saturating_sub(NAMED) {
            0 => Ok(()),
            more => write!(f, " and {more} more"),
        }
    }
}

impl Display for PoolShutdown {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "node {} asked for the shutdown of the pool: ", Shown(&self.by))?;
        match self.left {
            Some(Duration::ZERO) => f.write_str("the time in which accepted jobs may begin is over"),
            Some(left) => write!(f, "accepted jobs may begin for {} more", For(left)),
            None => f.write_str("every job ends"),
        }
    }
}
