//! The node on duty does what is due, and this one when that is late.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::Instant;

use super::link::Link;
use crate::error::Error;
use crate::store::{Tick, Ticked};

/// The most leases and timers of one tick.
const MOST: u32 = 128;
/// The longest pause between two ticks or looks, ms. A node that has nothing to do notices a loss of data within it. So it
/// tells what it has ended before the hold is over.
const PAUSE: u64 = 1_000;
/// The longest time for which no lease is lost after a longer pause, ms. It is as long as the pause was.
const GRACE: u64 = 60_000;

/// How often a node looks whether the data have the settings of its queues. Damage is rare.
const LOOK: Duration = Duration::from_secs(10);

/// Ticks until the node is closed.
pub(crate) async fn run(link: Link, earlier: Arc<Notify>) {
    let mut looked = Instant::now();
    let node = link.node().clone();
    let tick = Tick { node, most: MOST, pause: PAUSE, grace: GRACE, off_duty: false };
    loop {
        if looked.elapsed() >= LOOK {
            looked = Instant::now();
            let found = tokio::select! {
                biased;
                found = look(&link) => found,
                () = link.closed().cancelled() => return,
            };
            if let Err(error) = found
                && link.may_warn("look")
            {
                tracing::warn!(error = &error as &dyn std::error::Error, "a look at the queues failed");
            }
        }
        let pause = tokio::select! {
            biased;
            ticked = link.call(&tick) => match ticked {
                Ok(Ticked::Done { next, lost, promoted, gone }) => {
                    if lost > 0 {
                        tracing::info!(lost, "executions have lost their leases");
                    }
                    link.metrics().ticked(lost, promoted);
                    tracing::trace!(next, promoted, gone, "ticked");
                    next
                }
                Ok(Ticked::OnDuty(late)) => late.clamp(1, PAUSE),
                Err(error) => {
                    if link.may_warn("tick") {
                        tracing::warn!(error = &error as &dyn std::error::Error, "a tick failed");
                    }
                    PAUSE
                }
            },
            () = link.closed().cancelled() => return,
        };
        tokio::select! {
            biased;
            () = tokio::time::sleep(Duration::from_millis(pause)) => {}
            () = earlier.notified() => {}
            () = link.closed().cancelled() => return,
        }
    }
}

/// Looks after the settings of this node's queues, and warns of queues without settings.
async fn look(link: &Link) -> Result<(), Error> {
    link.look_after_queues().await?;
    for queue in link.undeclared().await? {
        tracing::warn!(node = %link.node(), %queue, "a worker takes from a queue that no node has declared");
    }
    Ok(())
}
