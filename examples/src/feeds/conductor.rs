//! The conductor: sets the stage, plays the story, shuts the pool down, and reports, whatever happened meanwhile.

use clap::ValueEnum;
use tenure_testing::describe;
use tokio_util::sync::CancellationToken;

use super::failed::Failed;
use super::node::Timings;
use super::progress::Progress;
use super::report::{Closing, Report};
use super::stage::Stage;
use super::story::Story;
use super::tenants::Tenant;

/// The place of the pool.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Store {
    /// Redis, with nodes as processes.
    Redis,
    /// The memory of this process, with nodes as tasks.
    Memory,
}

/// The settings of a demo.
#[derive(Clone, Debug)]
pub struct Demo {
    /// The place of the pool.
    pub store: Store,
    /// The tenants, one job each.
    pub tenants: Vec<Tenant>,
    /// The seed that decides which nodes leave and which tenants stop.
    pub seed: u64,
    /// The pool's times.
    pub timings: Timings,
}

/// The reason why there is no report.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DemoError {
    /// The stage could not be set.
    #[error("the demo cannot be set up")]
    SetUp(#[source] Failed),
    /// The demo was interrupted.
    #[error("interrupted, everything has been cleaned up")]
    Interrupted,
    /// The demo was interrupted, and could not clean up.
    #[error("interrupted, and not everything could be cleaned up")]
    NotCleared(#[source] Failed),
}

/// Plays the demo from beginning to end. When this returns, all its processes have ended.
///
/// # Errors
/// Only when there is nothing to report: the report lists failures during the demo.
///
/// # Cancel safety
/// Not safe: keys may be left in a Redis that is not private. Cancel `interrupt` instead.
pub async fn run(demo: &Demo, interrupt: &CancellationToken) -> Result<Report, DemoError> {
    let setting = async {
        match demo.store {
            Store::Redis => Stage::over_redis(&demo.timings).await,
            Store::Memory => Stage::in_memory(&demo.timings).await,
        }
    };
    let mut stage = tokio::select! {
        stage = setting => stage.map_err(DemoError::SetUp)?,
        () = interrupt.cancelled() => return Err(DemoError::Interrupted),
    };
    let mut progress = Progress::default();
    let mut story = Story::new(&mut stage, &mut progress, &demo.tenants, &demo.timings, demo.seed);
    let played = tokio::select! {
        played = story.play() => Some(played),
        () = interrupt.cancelled() => None,
    };
    let (steps, live) = story.finish();
    let Some(played) = played else {
        progress.done("interrupted");
        stage.clear().await.map_err(DemoError::NotCleared)?;
        return Err(DemoError::Interrupted);
    };
    let mut failures = Failures::default();
    failures.check(played);
    progress.now("shutting the pool down");
    let lost = failures.check(stage.look().await).map_or(live.len(), |view| view.lost(&live));
    failures.check(stage.shut_down().await);
    let stats = failures.check(stage.control.stats().await).unwrap_or_default();
    let keys_left = failures.check(stage.keys_left().await).unwrap_or_default();
    failures.check(stage.clear().await);
    progress.done("shutdown");
    let closing = Closing {
        duplicates: stats.duplicates.len(),
        refused: stats.refused,
        stale_accepted: stats.stale_accepted,
        lost,
        keys_left,
    };
    Ok(Report { tenants: demo.tenants.len(), steps, closing, failures: failures.0 })
}

/// The failures so far, in words.
#[derive(Default)]
struct Failures(Vec<String>);

impl Failures {
    fn check<T, E: std::error::Error + 'static>(&mut self, result: Result<T, E>) -> Option<T> {
        result.map_err(|error| self.0.push(describe(&error))).ok()
    }
}
