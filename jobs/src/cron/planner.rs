//! The planning of crons. Each cron has a job that plans it: its data say how far it is planned. It runs in a queue of its own,
//! on any node that plans, under a token. So one node plans a cron at a time, and what is planned is kept in the same step
//! that gives the right to go on.

use std::collections::BTreeMap;

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use futures::FutureExt;
use futures::future::try_join_all;
use serde::{Deserialize, Serialize};
use tokio_util::sync::{CancellationToken, DropGuard};

use super::{Calendar, Cron, Spec, occurrence_id, planning_id};
use crate::api::add::{Add, How, Unique};
use crate::api::ctx::Ctx;
use crate::api::jobs::{Jobs, PATIENCE};
use crate::api::outcome::Outcome;
use crate::api::queue::Queue;
use crate::api::worker::{CloseReport, Worker};
use crate::data;
use crate::error::{BoxError, Error};
use crate::model::id::JobId;
use crate::model::record::State;

/// The queue of the jobs that plan.
const QUEUE: &str = "tenure:cron";
/// The look-up by which they are found.
const MARK: &str = "tenure:cron";
/// How far ahead occurrences are added, ms: longer than the lease of a planner that dies and the pause between two of its
/// runs together.
const HORIZON: u64 = 90_000;
/// The shortest pause between two runs, ms.
const PAUSE: u64 = 30_000;
/// The pause after a run that failed.
const TROUBLE: Duration = Duration::from_secs(5);
/// The longest pause, ms: for an expression whose next moment is out of sight.
const DAY: u64 = 24 * 60 * 60 * 1_000;
/// The most occurrences that one run adds ahead.
const MOST: usize = 128;
/// The pause before a cron that is being planned is changed, and before a loss of data is made up for again.
const AGAIN: Duration = Duration::from_millis(200);
/// The pause before a cron is looked at again that is there, and not listed.
const LISTS: Duration = Duration::from_secs(1);

/// The data of a planning job.
#[derive(Serialize, Deserialize)]
struct Plan {
    spec: Spec,
    /// Occurrences up to this moment are there, ms; 0 before the first run.
    planned: u64,
    /// The calendars of those whose place it took, until their occurrences are taken back and its own are there.
    formers: Vec<Calendar>,
    /// When a run began to take those back, ms: occurrences begin then, also when that run was cut off for a while.
    changed: Option<u64>,
}

impl Plan {
    /// Another description takes the place of this one. It may come before this one was planned, or in the middle of that.
    fn replaced_by(self, spec: Spec) -> Self {
        let Self { spec: former, planned, mut formers, changed } = self;
        if !formers.contains(&former.calendar) {
            formers.push(former.calendar);
        }
        Self { spec, planned, formers, changed }
    }
}

/// A cron as it is planned.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct CronInfo {
    /// Its name, percent-encoded where no id may have a character.
    pub name: String,
    /// Its expression.
    pub expression: String,
    /// Its time zone.
    pub zone: String,
    /// The queue of its jobs.
    pub queue: String,
    /// Its occurrences up to this moment are there. `None` before it was planned for the first time.
    pub planned_until: Option<SystemTime>,
}

/// This node's part in planning. When this is dropped, the node plans no more, and the crons stay.
#[derive(Debug)]
pub struct Planner {
    worker: Worker,
    _follows: DropGuard,
}

impl Planner {
    /// Plans no more, and lets a run that is under way end within this time.
    ///
    /// # Errors
    /// [`Error::Closed`] when the node is closed.
    ///
    /// # Cancel safety
    /// A dropped call has begun to close; another one goes on.
    pub async fn close(&self, within: Duration) -> Result<CloseReport, Error> {
        self.worker.close(within).await
    }
}

impl Jobs {
    /// Takes part in planning, and brings in these crons. Each occurrence is a job with the id `<name>@<moment>`, such as
    /// `report@2026-11-22T21:00:00Z`. It is added up to 90 s ahead, however many nodes plan. Any node that plans, plans
    /// the crons of all.
    ///
    /// A cron that is there with the same name and another description is replaced: its occurrences that wait are taken back,
    /// and so are those of all that it has replaced.
    /// One that is there unchanged goes on from where it was. Crons that nobody names stay, until
    /// [`remove_cron`](Self::remove_cron).
    ///
    /// After a loss of Redis' data, each planner brings its crons in again, and they go on from that moment. One that was being
    /// planned during the loss is not among [`crons`](Self::crons) until that run has ended, or has lost its lease.
    ///
    /// # Errors
    /// [`Error::Cron`], [`Error::Setting`], [`Error::Name`], [`Error::Encode`] and [`Error::TooLarge`] for a cron that
    /// cannot be, before anything is written. [`Error::Store`].
    ///
    /// # Cancel safety
    /// A dropped call may have brought in some of the crons.
    pub async fn plan(&self, crons: impl IntoIterator<Item = Cron> + Send) -> Result<Planner, Error> {
        let crons = crons.into_iter().map(Cron::checked).collect::<Result<BTreeMap<_, _>, _>>()?;
        self.declare(&Queue::new(QUEUE).attempts(0)).await?;
        let mut incarnations = self.shared.own.incarnations();
        let mut left = Vec::new();
        for (id, spec) in &crons {
            if !bring_in(self, id, spec).await? {
                left.push(id.clone());
            }
        }
        let own = self.clone();
        let worker =
            self.worker(QUEUE, move |ctx: Ctx, plan: Plan| run(own.clone(), ctx, plan)).slots(4).start()?;
        let follows = CancellationToken::new();
        let (jobs, ended) = (self.clone(), follows.clone());
        let follow = async move {
            loop {
                tokio::select! {
                    biased;
                    Ok(()) = incarnations.changed() => left = crons.keys().cloned().collect(),
                    () = tokio::time::sleep(LISTS), if !left.is_empty() => {}
                }
                for id in std::mem::take(&mut left) {
                    let Some(spec) = crons.get(&id) else { continue };
                    let is_listed = loop {
                        match bring_in(&jobs, &id, spec).await {
                            Ok(is_listed) => break is_listed,
                            Err(Error::Closed) => return,
                            Err(error) => {
                                tracing::debug!(cron = %id, error = &error as &dyn std::error::Error, "it is brought in again later");
                                tokio::time::sleep(AGAIN).await;
                            }
                        }
                    };
                    if !is_listed {
                        left.push(id);
                    }
                }
            }
        };
        tokio::spawn(async move { ended.run_until_cancelled(follow).await });
        Ok(Planner { worker, _follows: follows.drop_guard() })
    }

    /// All crons of the set, by name.
    ///
    /// # Errors
    /// [`Error::Store`].
    ///
    /// # Cancel safety
    /// Safe: it only reads.
    pub async fn crons(&self) -> Result<Vec<CronInfo>, Error> {
        let ids = self.find(MARK, 1).await?;
        let views = self.get_many(&ids).await?;
        let info = |(id, view): (&JobId, Option<crate::JobView>)| {
            let Plan { spec, planned, .. } = view?.data().ok()?;
            Some(CronInfo {
                name: id.as_str().trim_start_matches("cron:").to_owned(),
                expression: spec.calendar.expression,
                zone: spec.calendar.zone,
                queue: spec.queue,
                planned_until: (planned > 0).then(|| UNIX_EPOCH + Duration::from_millis(planned)),
            })
        };
        Ok(ids.iter().zip(views).filter_map(info).collect())
    }

    /// Ends a cron on all nodes, and takes its waiting occurrences back. False when there is none of this name. An occurrence
    /// that is being planned at this moment may still come. A node that brings the cron in again begins it anew.
    ///
    /// # Errors
    /// [`Error::Name`] and [`Error::Store`].
    ///
    /// # Cancel safety
    /// Dropping the future leaves open whether it was ended; do it again.
    pub async fn remove_cron(&self, name: &str) -> Result<bool, Error> {
        let id = planning_id(name)?;
        let Some(view) = self.get(&id).await? else { return Ok(false) };
        let plan = view.data::<Plan>().ok();
        let calendars = plan.map_or_else(Vec::new, |Plan { spec, mut formers, .. }| {
            formers.push(spec.calendar);
            formers
        });
        // Before the cron is gone: a call that is cut off in between finds it again, and takes back the rest.
        take_back(self, &id, &calendars, self.now().await?).await?;
        let removed = match self.remove(&id).await {
            Ok(()) => true,
            Err(Error::NotFound(_)) => false,
            Err(error) => return Err(error),
        };
        // And after it: a run may have added some meanwhile.
        take_back(self, &id, &calendars, self.now().await?).await?;
        Ok(removed)
    }
}

/// Brings a cron in, or changes it. False when it is there, and is not listed. One that ran while all data were lost is made
/// again without its look-up. It gets that when it is added again after the run.
async fn bring_in(jobs: &Jobs, id: &JobId, spec: &Spec) -> Result<bool, Error> {
    let bring = async {
        loop {
            let view = jobs.get(id).await?.filter(|view| !view.state().is_over());
            let is_listed = view.as_ref().is_some_and(|view| view.record().has('l'));
            let runs = view.as_ref().is_some_and(|view| view.state() == State::Running);
            let plan = match view.and_then(|view| view.data::<Plan>().ok()) {
                // It is planned as it must be. Nobody waits for a run that may have died with its node.
                Some(plan) if plan.spec == *spec && (is_listed || runs) => return Ok(is_listed),
                Some(plan) if plan.spec == *spec => plan,
                Some(plan) => plan.replaced_by(spec.clone()),
                None => Plan { spec: spec.clone(), planned: 0, formers: Vec::new(), changed: None },
            };
            let add = Add::new(jobs, QUEUE, data::encode(&plan)).named(Ok(id.clone())).unique(Unique::Again);
            // One that runs keeps its data and its look-ups. It is changed when it has run.
            if add.lookup(MARK, 1).await?.how != How::RunsAgain {
                return Ok(true);
            }
            tokio::time::sleep(AGAIN).await;
        }
    };
    let late =
        || Error::Cron { name: id.to_string(), reason: "it is being planned for a long time".to_owned() };
    tokio::time::timeout(PATIENCE, bring).await.unwrap_or_else(|_| Err(late()))
}

/// Takes the occurrences by these calendars back that wait for their time.
async fn take_back(jobs: &Jobs, id: &JobId, calendars: &[Calendar], now: u64) -> Result<(), Error> {
    let times = calendars.iter().filter_map(|calendar| calendar.times().ok());
    let ahead = times.flat_map(|times| times.between(now, now + 2 * HORIZON, 2 * MOST));
    let ids = ahead.map(|at| JobId::new(occurrence_id(id, at))).collect::<Result<Vec<_>, _>>()?;
    for view in jobs.get_many(&ids).await?.into_iter().flatten() {
        if view.state() == State::Delayed {
            match jobs.remove(view.id()).await {
                Ok(()) | Err(Error::NotFound(_)) => {}
                Err(error) => return Err(error),
            }
        }
    }
    Ok(())
}

/// A run of a planning job. One that fails is no failed attempt: the pauses between those would grow to ten minutes, and a
/// cron must not come late once the trouble is over.
async fn run(jobs: Jobs, ctx: Ctx, plan: Plan) -> Result<Outcome, BoxError> {
    let id = ctx.id().clone();
    Ok(plan_ahead(jobs, ctx, plan).await.unwrap_or_else(|error| {
        tracing::warn!(cron = %id, error = &*error as &dyn std::error::Error, "it is planned later");
        Outcome::later(TROUBLE, error.to_string())
    }))
}

/// Adds what is missed and what is ahead, and says when to run again.
async fn plan_ahead(jobs: Jobs, ctx: Ctx, plan: Plan) -> Result<Outcome, BoxError> {
    let Plan { spec, planned, formers, changed } = plan;
    let keep = async |planned, formers, changed| {
        ctx.replace(&Plan { spec: spec.clone(), planned, formers, changed }).await
    };
    let times = spec.calendar.times()?;
    let now = jobs.now().await?;
    let since = if planned > 0 { planned } else { now };
    let mut from = since.max(now);
    if !formers.is_empty() {
        if changed.is_none() {
            // Before the first one is gone: a run that takes over adds those that are due meanwhile.
            let planned = if planned == 0 { now } else { planned.min(now) };
            keep(planned, formers.clone(), Some(now)).await?;
        }
        // The former ones were there for so long. Later ones were missed, as when nobody plans.
        from = changed.filter(|at| now.saturating_sub(*at) <= HORIZON).unwrap_or(now);
        take_back(&jobs, ctx.id(), &formers, now).await?;
    }
    let missed = times.last(since.min(from), from.min(now), spec.missed as usize);
    let ahead = times.between(from, now + HORIZON, MOST);
    let until = if ahead.len() < MOST { now + HORIZON } else { ahead[MOST - 1] };
    let adds = missed.into_iter().chain(ahead).map(|at| occurrence(&jobs, ctx.id(), &spec, at).boxed());
    try_join_all(adds).await?;
    let planned = until.max(from);
    keep(planned, Vec::new(), None).await?;
    let next = times.after(planned).map_or(DAY, |next| next.saturating_sub(HORIZON + now));
    let pause = next.clamp(PAUSE, DAY);
    Ok(Outcome::later(Duration::from_millis(pause), format!("planned until {}", super::times::text(planned))))
}

async fn occurrence(jobs: &Jobs, id: &JobId, spec: &Spec, at: u64) -> Result<(), Error> {
    let add = Add::new(jobs, &spec.queue, Ok(spec.body.to_vec().into()));
    let mut add = add.named(JobId::new(occurrence_id(id, at))).at(UNIX_EPOCH + Duration::from_millis(at));
    if let Some(group) = &spec.group {
        // It is encoded already: percent signs are not encoded again.
        add = add.in_group(group);
    }
    add = add.priority(spec.priority).attempts(spec.attempts).keep(Duration::from_millis(spec.keep));
    add.await.map(drop)
}
