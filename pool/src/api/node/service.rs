//! A node in a service: it leaves its pool cleanly when the process is asked to end.

use std::future::{Future, pending};
use std::io;
use std::process::{ExitCode, Termination};
use std::sync::Arc;
use std::time::Duration;

use tokio::runtime::Handle;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::time::Instant;

use super::{CloseReport, Node};
use crate::error::Error;

/// How long a node that is abandoned may take to report the jobs that it still holds.
const LAST_WORD: Duration = Duration::from_secs(1);
/// The log names at most this many of the remaining jobs.
const NAMED: usize = 10;
/// A signal that is repeated within this time counts once.
const SAME_SIGNAL: Duration = Duration::from_millis(500);

impl Node {
    /// Runs until the process gets SIGTERM or SIGINT (Ctrl-C). Then it leaves the pool like
    /// [`close_within`](Self::close_within): every job moves to another worker, and each is stopped here before it
    /// begins elsewhere. It also returns when the node has left for another reason, for example because the pool was
    /// shut down.
    ///
    /// If the time is up, the report lists the remaining jobs. The caller must then end the process, best by
    /// [`CloseReport::exit`], which does not wait for blocked handlers. These jobs start elsewhere when the leases
    /// have run out. A second signal, at least half a second later, aborts all handlers at once, like
    /// [`abandon`](Self::abandon).
    ///
    /// From this call on, not only from the first poll, the signals no longer end the process. A process that ignores SIGINT
    /// goes on ignoring SIGINT: a script starts programs in the background so. Call it right after the join, before you add
    /// workers. For several nodes, call it for each, and await all of the futures together.
    ///
    /// The crate's front page has an example.
    ///
    /// # Errors
    /// The signals cannot be received: the call is not within a tokio runtime, or the system refuses. Otherwise as
    /// `close`.
    ///
    /// # Cancel safety
    /// A dropped future no longer listens, and later signals have no effect. A node that has begun to leave goes on.
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
                    tracing::warn!(node = node.name(), signal = name, "asked again to end: the node drops its jobs at once");
                    let report = give_up(&node).await;
                    tell(node.name(), &report, told);
                    Ok(report)
                }
            }
        }
    }
}

/// Logs how a node has left, and which jobs it still has.
fn tell(node: &str, report: &CloseReport, told: Instant) {
    let took = told.elapsed();
    if report.complete {
        tracing::info!(node, ?took, "the node has left its pool");
    } else {
        let (jobs, left) = (report.left.len(), report.left.iter().take(NAMED).collect::<Vec<_>>());
        tracing::warn!(node, ?took, jobs, ?left, "the node has not left its pool in time: it still has jobs");
    }
}

/// Abandons the node, and returns the jobs that it held.
async fn give_up(node: &Node) -> CloseReport {
    let left = tokio::time::timeout(LAST_WORD, node.close_within(Duration::ZERO)).await;
    node.abandon();
    left.ok().and_then(Result::ok).unwrap_or_default()
}

/// The signals that ask a process to end.
struct Signals {
    term: Signal,
    /// None: the process ignores SIGINT.
    int: Option<Signal>,
}

impl Signals {
    fn listen() -> io::Result<Self> {
        // Without a runtime the listeners would panic.
        Handle::try_current().map_err(io::Error::other)?;
        let int = SignalKind::interrupt();
        let int = if ignores(int) { None } else { Some(signal(int)?) };
        Ok(Self { term: signal(SignalKind::terminate())?, int })
    }

    /// The next separate signal. Some supervisors send one signal twice: to a process and to its group.
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
        let int = async {
            match &mut self.int {
                Some(int) => int.recv().await,
                None => pending().await,
            }
        };
        tokio::select! {
            _ = self.term.recv() => "SIGTERM",
            _ = int => "SIGINT",
        }
    }
}

/// Whether the process ignores a signal. A system without `/proc` does not say so.
fn ignores(signal: SignalKind) -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let mask = mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or_default();
    mask >> (signal.as_raw_value() - 1) & 1 == 1
}

impl CloseReport {
    /// Ends the process at once: with success if the node has left its pool, and with failure (1) if jobs remain.
    ///
    /// A `main` that returns waits for its runtime, and the runtime waits for every handler that blocks its thread,
    /// perhaps for ever. This call does not wait. It drops nothing, so do all necessary work before it.
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

/// Success if the node has left its pool, and failure if jobs remain.
impl Termination for CloseReport {
    fn report(self) -> ExitCode {
        if self.complete { ExitCode::SUCCESS } else { ExitCode::FAILURE }
    }
}
