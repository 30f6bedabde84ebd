//! A node in a service: it leaves its pool in order when the process is told to end.

use std::future::Future;
use std::io;
use std::process::{ExitCode, Termination};
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::runtime::Handle;
use tokio::signal::unix::{Signal, SignalKind, signal};

use crate::error::Error;
use crate::node::{CloseReport, Node};

/// How long a node that is given up is asked what it still holds.
const LAST_WORD: Duration = Duration::from_secs(1);
/// How many of the jobs that are left are named in the log.
const NAMED: usize = 10;
/// A signal that comes again within this time is the same one.
const SAME_SIGNAL: Duration = Duration::from_millis(500);

impl Node {
    /// Runs until the process is told to end (SIGTERM or SIGINT, which is Ctrl-C), then leaves the pool as
    /// [`close_within`](Self::close_within) does: every job is handed on, each stopped here before it begins elsewhere.
    ///
    /// Returns also when the node has left for another reason, as when the pool was shut down. When the time is up
    /// the report says what is left: the caller ends the process, best by [`CloseReport::exit`], which waits for no handler
    /// that blocks its thread, and these jobs start elsewhere when the leases have run out. A second signal, half a
    /// second later or more, means at once: handlers are aborted as by [`abandon`](Self::abandon).
    ///
    /// The signals are listened to from this call on, not from the first poll, and do not end the process any more.
    /// Call it right after the join, before the workers are added. For several nodes, call it for each and await
    /// all of them together.
    ///
    /// The crate's front page has an example.
    ///
    /// # Errors
    /// The signals cannot be listened to: the call is not within a tokio runtime, or the system refuses. Otherwise as
    /// `close`.
    ///
    /// # Cancel safety
    /// A future that is dropped listens no more, and a signal is passed over from then on. A node that has begun to
    /// leave goes on.
    pub fn close_on_signal(
        &self,
        budget: Duration,
    ) -> impl Future<Output = Result<CloseReport, Error>> + Send + use<> {
        let node = self.clone();
        let signals = Signals::listen();
        async move {
            let mut signals = signals.map_err(|error| Error::Signals(Arc::new(error)))?;
            tokio::select! {
                biased;
                () = node.closed() => return node.close_within(budget).await,
                name = signals.next() => {
                    tracing::info!(node = node.name(), signal = name, ?budget, "told to end: the node leaves its pool");
                }
            }
            let told = Instant::now();
            tokio::select! {
                biased;
                report = node.close_within(budget) => report.inspect(|report| tell(node.name(), report, told)),
                name = signals.another() => {
                    tracing::warn!(node = node.name(), signal = name, "told to end at once: the node drops its jobs");
                    let report = give_up(&node).await;
                    tell(node.name(), &report, told);
                    Ok(report)
                }
            }
        }
    }
}

/// Says how a node that was told to end has left, and which jobs it still has.
fn tell(node: &str, report: &CloseReport, told: Instant) {
    let took = told.elapsed();
    if report.complete {
        tracing::info!(node, ?took, "the node has left its pool");
    } else {
        let (jobs, left) = (report.left.len(), report.left.iter().take(NAMED).collect::<Vec<_>>());
        tracing::warn!(node, ?took, jobs, ?left, "the node has not left its pool in time: it still has jobs");
    }
}

/// Drops everything, and says what that was.
async fn give_up(node: &Node) -> CloseReport {
    let left = tokio::time::timeout(LAST_WORD, node.close_within(Duration::ZERO)).await;
    node.abandon();
    left.ok().and_then(Result::ok).unwrap_or_default()
}

/// What tells a process to end.
struct Signals {
    term: Signal,
    int: Signal,
}

impl Signals {
    fn listen() -> io::Result<Self> {
        // Without a runtime the listeners would panic.
        Handle::try_current().map_err(io::Error::other)?;
        Ok(Self { term: signal(SignalKind::terminate())?, int: signal(SignalKind::interrupt())? })
    }

    /// The next one that is another than the last: some supervisors send one signal twice, to a process and to its group.
    async fn another(&mut self) -> &'static str {
        let told = Instant::now();
        loop {
            let name = self.next().await;
            if told.elapsed() >= SAME_SIGNAL {
                return name;
            }
        }
    }

    async fn next(&mut self) -> &'static str {
        tokio::select! {
            _ = self.term.recv() => "SIGTERM",
            _ = self.int.recv() => "SIGINT",
        }
    }
}

impl CloseReport {
    /// Ends the process at once: with success when the node has left its pool, with failure (1) when something is left.
    ///
    /// A `main` that returns waits until its runtime has ended, and that waits for every handler that blocks its thread:
    /// for ever, perhaps. This does not. Nothing is dropped, so do before it whatever must be done.
    ///
    /// ```no_run
    /// # async fn example(node: tenure_pool::Node) -> Result<(), tenure_pool::Error> {
    /// let serving = node.close_on_signal(std::time::Duration::from_secs(25));
    /// serving.await?.exit()
    /// # }
    /// ```
    pub fn exit(self) -> ! {
        std::process::exit(i32::from(!self.complete))
    }
}

/// Success when the node has left its pool, failure when something is left.
impl Termination for CloseReport {
    fn report(self) -> ExitCode {
        if self.complete { ExitCode::SUCCESS } else { ExitCode::FAILURE }
    }
}
