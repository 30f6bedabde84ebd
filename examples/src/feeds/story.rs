//! The story. A pool is filled, grows, is drained, loses a node and gets it back. Then ten tenants are stopped, and the
//! others are notified. Each step settles before the next, and reports how many tenants moved and how many had to.

use std::collections::BTreeSet;
use std::pin::pin;
use std::time::Duration;

use futures::{StreamExt, TryStreamExt, stream};
use rand::SeedableRng;
use rand::rngs::StdRng;
use rand::seq::IteratorRandom;
use tenure_pool::{BoxError, Node};
use tokio::time::{Instant, sleep, timeout};

use super::failed::{Context, Failed};
use super::node::{Timings, WORKERS};
use super::progress::Progress;
use super::report::StepReport;
use super::stage::{NO_JUDGE, Stage};
use super::step::{Step, deadline};
use super::tenants::Tenant;
use super::view::View;

/// The interval between looks while something is awaited.
const LOOK_EVERY: Duration = Duration::from_millis(50);
/// The extra time, beyond the ring's own wait, without any change until a step counts as settled.
const QUIET_MARGIN: Duration = Duration::from_millis(400);
/// The most calls under way at once.
const CONCURRENCY: usize = 64;
/// Tenants that are stopped.
const STOPPED: usize = 10;
/// The number of the notification that all tenants get.
const NOTIFICATION: u64 = 1;

const FIRST_NODES: [&str; 3] = ["node-1", "node-2", "node-3"];
const ADDED_NODE: &str = "node-4";

/// The story so far.
pub struct Story<'a> {
    stage: &'a mut Stage,
    progress: &'a mut Progress,
    tenants: &'a [Tenant],
    /// The time without any change until a step counts as settled.
    quiet: Duration,
    random: StdRng,
    live: BTreeSet<String>,
    killed: Option<String>,
    awaited: String,
    steps: Vec<StepReport>,
}

impl<'a> Story<'a> {
    /// A story on this stage, before its first step. The seed decides which nodes leave and which tenants stop.
    pub fn new(
        stage: &'a mut Stage,
        progress: &'a mut Progress,
        tenants: &'a [Tenant],
        timings: &Timings,
        seed: u64,
    ) -> Self {
        Self {
            stage,
            progress,
            tenants,
            quiet: timings.stable_after() * 2 + QUIET_MARGIN,
            random: StdRng::seed_from_u64(seed),
            live: BTreeSet::new(),
            killed: None,
            awaited: String::new(),
            steps: Vec::new(),
        }
    }

    /// Plays all steps.
    ///
    /// # Errors
    /// The failed step, or the condition that it awaited in vain; later steps were not played.
    ///
    /// # Cancel safety
    /// The stage is left in the middle of a step; [`finish`](Self::finish) tells how far the story came.
    pub async fn play(&mut self) -> Result<(), Failed> {
        for step in Step::ALL {
            let begun = Instant::now();
            let within = deadline(self.tenants.len());
            let Ok(performed) = timeout(within, self.perform(step)).await else {
                return Err(Failed::new(format!(
                    "{}: not done within {} s, waited for {}; an optimised build carries more tenants (make demo RELEASE=1)",
                    step.name(),
                    within.as_secs(),
                    self.awaited
                )));
            };
            let (view, fewest) = performed.context(step.name())?;
            let report = StepReport {
                name: step.name(),
                change: step.change(),
                expected: self.live.len(),
                connected: view.connected(&self.live),
                moves: view.stats.moves,
                fewest,
            };
            self.progress.done(&format!(
                "{:<8} {} connected, {} moved, {:.1} s",
                report.name,
                report.connected,
                report.moves.len(),
                begun.elapsed().as_secs_f64()
            ));
            self.steps.push(report);
        }
        Ok(())
    }

    /// The steps that were played, and the tenants that should be connected.
    pub fn finish(self) -> (Vec<StepReport>, BTreeSet<String>) {
        (self.steps, self.live)
    }

    /// Plays one step until it has settled. Returns the last look, and the fewest tenants that had to move.
    async fn perform(&mut self, step: Step) -> Result<(View, usize), Failed> {
        "the judge".clone_into(&mut self.awaited);
        let before = self.stage.look().await?;
        self.stage.control.mark().await.context(NO_JUDGE)?;
        match step {
            Step::Submit => {
                for name in FIRST_NODES {
                    self.start_node(name).await?;
                }
                // A worker without a slot would get one while the jobs start, and some would move at once.
                self.agreed(step, Duration::ZERO).await?;
                self.submit().await?;
                Ok((self.settled(step).await?, 0))
            }
            Step::Add => {
                self.start_node(ADDED_NODE).await?;
                let view = self.settled(step).await?;
                let fewest = view.tenants_on(ADDED_NODE);
                Ok((view, fewest))
            }
            Step::Drain => {
                let node = self.any_node();
                self.awaited = format!("{node} to hand its tenants off and leave");
                self.progress.now(&format!("drain: {}", self.awaited));
                self.stage.fleet.drain(&node).await?;
                Ok((self.settled(step).await?, before.tenants_on(&node)))
            }
            Step::Kill => {
                let node = self.any_node();
                self.stage.fleet.kill(&node).await?;
                let view = self.settled(step).await?;
                let fewest = before.tenants_on(&node);
                self.killed = Some(node);
                Ok((view, fewest))
            }
            Step::Restart => {
                let node = self.killed.take().unwrap_or_default();
                self.start_node(&node).await?;
                let view = self.settled(step).await?;
                let fewest = view.tenants_on(&node);
                Ok((view, fewest))
            }
            Step::Stop => {
                self.stop().await?;
                Ok((self.settled(step).await?, 0))
            }
            Step::Notify => {
                self.notify().await?;
                Ok((self.settled(step).await?, 0))
            }
        }
    }

    async fn start_node(&mut self, name: &str) -> Result<(), Failed> {
        self.awaited = format!("{name} to join");
        self.progress.now(&self.awaited);
        self.stage.fleet.start(name).await
    }

    fn any_node(&mut self) -> String {
        self.stage.fleet.names().into_iter().choose(&mut self.random).unwrap_or_default()
    }

    /// Submits a job for each tenant, and waits until each has started.
    async fn submit(&mut self) -> Result<(), Failed> {
        self.progress.now("submitting");
        let node = &self.stage.node;
        let started = stream::iter(self.tenants).map(|tenant| async move {
            begin(node, tenant).await.context(failed(&tenant.id))?;
            Ok::<_, Failed>(tenant.id.clone())
        });
        let mut started = pin!(started.buffer_unordered(CONCURRENCY));
        let all = self.tenants.len();
        loop {
            self.awaited = format!("all {all} jobs to be started, {} are", self.live.len());
            match started.try_next().await? {
                Some(tenant) => self.live.insert(tenant),
                None => return Ok(()),
            };
        }
    }

    async fn stop(&mut self) -> Result<(), Failed> {
        "ten jobs to be stopped".clone_into(&mut self.awaited);
        for tenant in self.live.clone().into_iter().choose_multiple(&mut self.random, STOPPED) {
            self.stage.node.stop_job(tenant.as_str()).await.context(failed(&tenant))?;
            self.live.remove(&tenant);
        }
        Ok(())
    }

    /// Notifies all tenants, and waits until the judge has heard of it from each.
    async fn notify(&mut self) -> Result<(), Failed> {
        let node = &self.stage.node;
        let told = stream::iter(&self.live).map(|tenant| async move {
            let told = node.notify(tenant.as_str(), NOTIFICATION.to_string()).await;
            told.context(failed(tenant))
        });
        told.buffer_unordered(CONCURRENCY).try_collect::<()>().await?;
        loop {
            let stats = self.stage.control.stats().await.context(NO_JUDGE)?;
            let noted = |tenant: &&String| {
                stats.tenants.get(*tenant).is_some_and(|s| s.noted.contains_key(&NOTIFICATION))
            };
            let missing = self.live.iter().filter(|tenant| !noted(tenant)).count();
            if missing == 0 {
                return Ok(());
            }
            self.awaited = format!("{missing} notifications to arrive");
            self.progress.now(&self.awaited);
            sleep(LOOK_EVERY).await;
        }
    }

    /// Waits until pool and judge agree on all tenants, for longer than workers wait before they move any.
    async fn settled(&mut self, step: Step) -> Result<View, Failed> {
        self.agreed(step, self.quiet).await
    }

    /// Waits until pool and judge agree on all tenants, and have agreed without any change for this long.
    async fn agreed(&mut self, step: Step, unchanged: Duration) -> Result<View, Failed> {
        let mut since = None;
        loop {
            let view = self.stage.look().await?;
            let connected = view.connected(&self.live);
            if let Some(awaited) = view.unsettled(&self.live, &self.stage.fleet.names(), WORKERS) {
                self.awaited = awaited;
                since = None;
            } else {
                let quiet = Duration::from_millis(view.stats.quiet_ms);
                if since.get_or_insert_with(Instant::now).elapsed().min(quiet) >= unchanged {
                    return Ok(view);
                }
                "everything to be quiet for a while".clone_into(&mut self.awaited);
            }
            let moved = view.stats.moves.len();
            let (name, all) = (step.name(), self.live.len());
            self.progress.now(&format!("{name}: {connected} of {all} connected, {moved} moved"));
            sleep(LOOK_EVERY).await;
        }
    }
}

/// Submits a tenant's job, and waits until it has started.
async fn begin(node: &Node, tenant: &Tenant) -> Result<(), BoxError> {
    let ticket = node.submit((tenant.id.as_str(), serde_json::to_vec(tenant)?)).await?;
    node.wait(&ticket).await?;
    Ok(())
}

fn failed(tenant: &str) -> String {
    format!("tenant {tenant} failed")
}
