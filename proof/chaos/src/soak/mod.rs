//! A long run with many jobs and little trouble: does anything grow?
//!
//! `load.rs` stops, dispatches and notifies; `trouble.rs` replaces, pauses and disconnects nodes; `sample.rs` measures;
//! `verdict.rs` compares the beginning with the end, and `plot.rs` draws it all.

mod load;
mod plot;
mod sample;
mod trouble;
mod verdict;

use std::path::PathBuf;
use std::time::{Duration, Instant};

use rand::SeedableRng;
use rand::rngs::StdRng;
use tenure_pool::{JobState, Node};
use tenure_testing::{RedisServer, within};
use tokio::time::{MissedTickBehavior, interval, timeout};

pub use plot::svg;
pub use sample::{SERIES, Sample, Series};
pub use verdict::{Change, growth};

use crate::Result;
use crate::node::PoolPlan;
use load::Load;
use sample::Sampler;
use trouble::Fleet;

/// The interval between samples.
const EVERY: Duration = Duration::from_secs(10);
/// The longest time until all jobs run, at the beginning and at the end.
const SETTLED: Duration = Duration::from_secs(120);
/// The number of samples in a row that may fail: the trouble pauses Redis, and a busy machine has the same effect.
const MISSED: usize = 6;
/// A run with fewer samples is too short to be judged.
const FEWEST: usize = 12;

/// The settings of a soak.
#[derive(Clone, Debug, clap::Args)]
pub struct SoakPlan {
    /// The length of the run, from the moment at which all jobs run.
    #[arg(long = "minutes", value_name = "MINUTES", value_parser = crate::cli::minutes, default_value = "60")]
    pub time: Duration,
    /// Jobs that run throughout.
    #[arg(long, default_value_t = 20_000)]
    pub jobs: usize,
    /// The seed of the order of events; random by default.
    #[arg(long, default_value_t = rand::random(), hide_default_value = true)]
    pub seed: u64,
    /// The file for the samples, as comma-separated values.
    #[arg(long)]
    pub csv: Option<PathBuf>,
    /// The file for the plot of the samples.
    #[arg(long)]
    pub svg: Option<PathBuf>,
}

/// Runs a soak, and returns the series that have grown. The last line it prints is the verdict as JSON.
///
/// # Errors
/// The run cannot be executed.
///
/// # Cancel safety
/// All processes end when the future is dropped.
pub async fn run(plan: SoakPlan, say: fn(&str)) -> Result<Vec<String>> {
    let dir = tempfile::Builder::new().prefix("tenure-soak.").tempdir()?;
    say(&format!("seed {}; the logs of the nodes are in {} while it runs", plan.seed, dir.path().display()));
    let redis = RedisServer::builder().tcp().start()?;
    let pool = PoolPlan {
        pool: "soak".into(),
        ttl_ms: 10_000,
        join_settle_ms: 5_000,
        stable_after_ms: 5_000,
        max_queued: 2 * plan.jobs as u64,
        assign_ms: 5_000,
        grants: true,
        stop_ms: None,
        broken: None,
    };
    let conductor = pool.node(&redis.url(), "conductor")?.assume_fresh(true).client_only().join().await?;
    let mut random = StdRng::seed_from_u64(plan.seed);
    let mut fleet = Fleet::start(&pool, &redis.url(), dir.path()).await?;
    let mut load = Load::start(&conductor, plan.jobs, StdRng::from_rng(&mut random)).await?;
    await_all_running(&conductor, plan.jobs).await?;
    say(&format!("{} jobs run; sampling every {} s", plan.jobs, EVERY.as_secs()));

    let mut sampler = Sampler::new(&redis, &pool.pool, fleet.steady());
    let began = Instant::now();
    let mut ticks = interval(EVERY);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let sampling = async {
        let mut samples = Vec::new();
        let mut missed = 0;
        while began.elapsed() < plan.time {
            ticks.tick().await;
            match sampler.take(began.elapsed()) {
                Ok(sample) => samples.push(sample),
                Err(error) if missed == MISSED => return Err(error),
                Err(error) => {
                    missed += 1;
                    say(&format!("no sample at {} s: {error}", began.elapsed().as_secs()));
                    continue;
                }
            }
            missed = 0;
            write(&plan, &samples)?;
        }
        Ok::<_, tenure_pool::BoxError>(samples)
    };
    let samples = tokio::select! {
        samples = sampling => samples?,
        ended = fleet.trouble(&redis, &mut random, say) => return Err(ended.err().unwrap_or_else(|| "the trouble ended".into())),
        never = load.go_on() => match never {},
    };
    let (done, failed) = load.counts();
    timeout(SETTLED, load.settle()).await.map_err(|_| "the last calls were not answered in time")?;
    await_all_running(&conductor, plan.jobs).await?;
    let faults = fleet.faults();
    fleet.end().await?;
    conductor.close().await?;

    let changes = growth(&samples, FEWEST);
    for change in &changes {
        say(&change.to_string());
    }
    let grown: Vec<_> = changes.iter().filter(|change| change.grows()).map(Change::to_string).collect();
    say(&serde_json::json!({
        "flat": grown.is_empty(), "judged": !changes.is_empty() && nearly_all(samples.len(), plan.time), "minutes": plan.time.as_secs() / 60, "jobs": plan.jobs,
        "samples": samples.len(), "calls": done, "calls_refused": failed, "faults": faults, "seed": plan.seed,
    }).to_string());
    Ok(grown)
}

/// Whether at most 5 % of the expected samples are missing.
fn nearly_all(samples: usize, time: Duration) -> bool {
    samples as f64 >= 0.95 * (time.as_secs_f64() / EVERY.as_secs_f64()).floor()
}

async fn await_all_running(node: &Node, jobs: usize) -> Result<()> {
    let all_run = within(SETTLED, "all jobs to run", async || {
        let listed = node.inspect().jobs().await.unwrap_or_default();
        listed.len() == jobs && listed.iter().all(|job| job.state == JobState::Running)
    });
    Ok(all_run.await?)
}

/// Written after every sample, so that a run can be watched.
fn write(plan: &SoakPlan, samples: &[Sample]) -> Result<()> {
    if let Some(path) = &plan.csv {
        std::fs::write(path, sample::csv(samples))?;
    }
    if let Some(path) = &plan.svg {
        let title = format!("{} jobs", plan.jobs);
        std::fs::write(path, svg(&title, samples))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_that_lacks_over_5_percent_of_its_samples_is_not_judged() {
        let hour = Duration::from_secs(3_600);
        assert!(nearly_all(361, hour) && nearly_all(342, hour));
        assert!(!nearly_all(341, hour) && !nearly_all(264, hour));
    }
}
