//! Keys in several processes. Each job writes to a log outside of Redis while it runs, so that a judge sees two runs of a key.

use std::fs::File;
use std::io::{self, Write};
use std::sync::Arc;
use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};
use tenure_peers::{Error, PAYLOAD};
use tenure_pool::{BoxError, Job, JobSpec};
use tokio::time::{MissedTickBehavior, interval};

use super::{placed, pool, until_the_input_ends};

/// The deeds of a process's jobs, a line each: µs since the machine was started, the deed, the key, the token.
struct Log(File);

impl Log {
    fn line(&self, what: &str, job: &Job) -> io::Result<()> {
        let now = clock_gettime(ClockId::Monotonic);
        let us = now.tv_sec.unsigned_abs() * 1_000_000 + now.tv_nsec.unsigned_abs() / 1_000;
        let line = format!("{us} {what} {} {}\n", job.key(), job.token().0);
        (&self.0).write_all(line.as_bytes())
    }
}

/// A run of a job. Its end is written when it is dropped: an aborted handler ends nowhere else.
struct Run(Arc<Log>, Job);

impl Drop for Run {
    fn drop(&mut self) {
        if let Err(error) = self.0.line("end", &self.1) {
            eprintln!("the end of {} is not written: {error}", self.1.key());
        }
    }
}

/// A worker's process, until its input ends. Each of its jobs does a piece of work after each pause. A job whose lease says no
/// writes `refrain` in place of `work`: that is the piece which a job would do that waits for its cancellation alone.
pub(super) async fn work(log: &str, pause: Duration) -> Result<(), Error> {
    let log = Arc::new(Log(File::create(log)?));
    let node = pool()?.join().await?;
    let run = move |job: Job| {
        let log = log.clone();
        async move {
            log.line("begin", &job)?;
            let run = Run(log.clone(), job.clone());
            let mut pieces = interval(pause);
            pieces.set_missed_tick_behavior(MissedTickBehavior::Delay);
            loop {
                tokio::select! {
                    () = job.cancelled() => break,
                    _ = pieces.tick() => log.line(if job.lease().check() { "work" } else { "refrain" }, &job)?,
                }
            }
            drop(run);
            Ok::<(), BoxError>(())
        }
    };
    let worker = node.add_worker(tenure_pool::run(run)).await?;
    placed(&worker).await;
    println!("{{\"ready\": true}}");
    until_the_input_ends().await
}

/// Dispatches a job for each of so many keys.
pub(super) async fn dispatch(jobs: u64) -> Result<(), Error> {
    let node = pool()?.client_only().join().await?;
    let payload = "x".repeat(PAYLOAD);
    let specs = (0..jobs).map(move |n| JobSpec::new(format!("k{n}"), payload.clone()));
    for started in node.dispatch_many(specs).await {
        started?;
    }
    println!("{{\"jobs\": {jobs}}}");
    node.close().await?;
    Ok(())
}
