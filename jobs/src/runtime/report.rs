//! The log and the metrics of a node's engine.

use std::time::Duration;

use super::link::Link;
use crate::core::effect::Notice;
use crate::core::execution::Execution;
use crate::error::Error;
use crate::store::SettleReply;

type Cause<'a> = &'a (dyn std::error::Error + 'static);

/// The store has answered an end.
pub(super) fn ended(link: &Link, execution: &Execution, reply: SettleReply, after: Duration) {
    let Execution { id, token, record, .. } = execution;
    link.metrics().ends(&record.queue, reply, after);
    match reply {
        SettleReply::Halt => tracing::debug!(job = %id, %token, "the end comes too late"),
        reply => tracing::trace!(job = %id, ?reply, "ended"),
    }
}

/// The store was not told that nobody watches a job any more.
pub(super) fn still_watched(error: &Error) {
    tracing::debug!(error = error as Cause<'_>, "a job goes on to be watched");
}

/// Tells the operator. Lasting damage fills no log.
pub(super) fn notice(link: &Link, notice: Notice) {
    let node = link.node();
    match notice {
        Notice::LeaseLost((job, _)) => {
            tracing::warn!(%job, "the lease could not be renewed, the handler is ended");
        }
        Notice::NotRenewed(error) => {
            tracing::debug!(error = &error as Cause<'_>, "leases were not renewed, they will be");
        }
        Notice::Stranded => {
            tracing::warn!(%node, "the runtime of a worker is gone, it takes no more jobs");
        }
        Notice::NotRepeated(error) if link.may_warn("journal") => {
            tracing::warn!(error = &error as Cause<'_>, "ends were not said again");
        }
        Notice::NotSaid { jobs, again, error } if link.may_warn("settle") => {
            tracing::warn!(jobs, again, error = &error as Cause<'_>, "ends were not said");
        }
        Notice::CannotGoOn((job, _)) => {
            tracing::warn!(%job, "the job cannot go on as its handler says, it fails");
        }
        Notice::WaitsForNothing((job, _)) if link.may_warn("wait") => {
            tracing::warn!(%job, "the job waits again, and no child is open or has ended: an attempt has failed");
        }
        Notice::RightOver => tracing::debug!("a later owner of the group takes its jobs, or may do so"),
        Notice::NotTaken(error) if link.may_warn("take") => {
            tracing::warn!(error = &error as Cause<'_>, "no jobs could be taken");
        }
        Notice::Unheard { why, again: true } => {
            tracing::debug!(%node, why, "redis still refuses to send messages");
        }
        Notice::Unheard { why, again: false } => {
            tracing::warn!(%node, why, "redis refuses to send messages, the node only looks for itself");
        }
        Notice::HeardAgain => tracing::info!(%node, "redis sends messages again"),
        Notice::NotRepeated(_)
        | Notice::NotSaid { .. }
        | Notice::WaitsForNothing(_)
        | Notice::NotTaken(_) => {}
    }
}
