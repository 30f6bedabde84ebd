//! The common part of the programs of the comparison that are written in Rust: arguments, waiting, and the line that a program prints.
//!
//! The program of apalis includes this file: a build without Tenure's packages never waits for a change of theirs.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::sync::Notify;

/// A failure of a program: printed, and the end of the run.
pub type Error = Box<dyn std::error::Error + Send + Sync>;

/// The length of a payload, bytes.
pub const PAYLOAD: usize = 100;

/// The measurement that a program is asked for.
pub enum Asked {
    /// Add this many jobs while a worker with this many slots does them.
    Throughput {
        /// How many jobs.
        jobs: u64,
        /// How many of the worker's jobs run at once.
        slots: u32,
    },
    /// Add one job after the other to an idle worker.
    Latency {
        /// How many jobs.
        jobs: u64,
    },
}

/// Reads the arguments: `throughput JOBS SLOTS`, or `latency JOBS`.
///
/// # Errors
///
/// If the arguments are different ones, or a number is none.
pub fn asked() -> Result<Asked, Error> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    match args.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["throughput", jobs, slots] => Ok(Asked::Throughput { jobs: jobs.parse()?, slots: slots.parse()? }),
        ["latency", jobs] => Ok(Asked::Latency { jobs: jobs.parse()? }),
        _ => Err("throughput JOBS SLOTS, or latency JOBS".into()),
    }
}

/// The URL of the Redis that all programs share.
///
/// # Errors
///
/// If `REDIS_URL` is not set.
pub fn url() -> Result<String, Error> {
    Ok(std::env::var("REDIS_URL")?)
}

/// Counts what handlers have done.
#[derive(Clone, Default)]
pub struct Count(Arc<(AtomicU64, Notify)>);

impl Count {
    /// Counts one more.
    pub fn up(&self) {
        self.0.0.fetch_add(1, Ordering::AcqRel);
        self.0.1.notify_one();
    }

    /// Waits until the count is at least `count`. One task may wait at a time.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future loses no count.
    pub async fn until(&self, count: u64) {
        while self.0.0.load(Ordering::Acquire) < count {
            self.0.1.notified().await;
        }
    }
}

/// Prints the time that all jobs took.
pub fn print_throughput(jobs: u64, took: Duration) {
    println!("{}", serde_json::json!({"jobs": jobs, "seconds": took.as_secs_f64()}));
}

/// Prints the percentiles of the times until a handler began.
pub fn print_latency(mut times: Vec<Duration>) {
    times.sort_unstable();
    let at = |part: f64| {
        let index = (part * times.len() as f64) as usize;
        times.get(index.min(times.len().saturating_sub(1))).copied().unwrap_or_default().as_secs_f64() * 1e3
    };
    println!("{}", serde_json::json!({"jobs": times.len(), "p50_ms": at(0.5), "p99_ms": at(0.99)}));
}
