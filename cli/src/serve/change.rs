//! The requests that change something, for those whose token may operate. Each joins the pool as a client under the name
//! of the token, so the pool's events say who it was.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use axum::Extension;
use axum::extract::State;
use axum::http::StatusCode;
use futures::StreamExt;
use serde::Deserialize;
use serde_json::json;
use tenure_pool::inspect::{Cursor, WorkerInfo};
use tenure_pool::{Error, JobKey, Operator};
use tokio::sync::Semaphore;
use tokio::time::timeout;

use super::App;
use super::ask::{Asked, Named as OfKey};
use super::problem::Problem;
use super::read::{Answer, Shared, document};
use super::source::look;
use super::token::Who;
use crate::act::{Change, Verb};
use crate::args::{Named, Pattern};
use crate::exit::{Code, Failure};
use crate::out::{Tone, shown};
use crate::view::outcomes::{Held, Leaving, Marked, Steered};

/// How many changes are under way at once, and how long another one waits for its turn.
pub(super) const AT_ONCE: u32 = 4;
const TURN: Duration = Duration::from_secs(5);
/// The longest time that a change may take, once the pool is joined.
const LONGEST: Duration = Duration::from_secs(30);
/// The most jobs of one request, and how many are looked at for it.
const MOST: usize = 1_000;
const PAGE: usize = 512;
const LOOKED_AT: usize = 20_000;
/// The longest reason of a pause, in bytes: the pool keeps the name of the token and the end of the pause beside the reason.
const PAUSE_REASON: usize = 900;
/// How many failures an answer names.
const NAMED: usize = 10;

/// Makes a change. It goes on where the caller breaks off: only the answer is lost then.
pub(super) async fn change<T, F, Act>(app: &Arc<App>, who: &Who, what: String, act: F) -> Result<T, Problem>
where
    T: Send + 'static,
    F: FnOnce(Operator) -> Act + Send + 'static,
    Act: Future<Output = Result<T, Problem>> + Send,
{
    change_in_turn(|app| &app.changes, app, who, what, act).await
}

/// The same in one of these turns.
pub(super) async fn change_in_turn<T, F, Act>(
    turns: fn(&App) -> &Semaphore,
    app: &Arc<App>,
    who: &Who,
    what: String,
    act: F,
) -> Result<T, Problem>
where
    T: Send + 'static,
    F: FnOnce(Operator) -> Act + Send + 'static,
    Act: Future<Output = Result<T, Problem>> + Send,
{
    let (app, name) = (app.clone(), who.name.clone().unwrap_or_default());
    let changing = tokio::spawn(async move {
        let turn = timeout(TURN, turns(&app).acquire()).await.ok().and_then(Result::ok);
        let _turn = turn.ok_or_else(|| Problem::busy("other changes are under way: try again"))?;
        let pool = app.place.operator_of(&format!("serve-{name}")).await?;
        pool.node().await?;
        let done = timeout(LONGEST, act(pool.clone())).await;
        pool.close().await;
        let done = done.unwrap_or_else(|_| Err(late()));
        let failed = done.as_ref().err().map(|problem| problem.document()["detail"].to_string());
        tracing::info!(token = name, what, failed, "somebody has changed something");
        done
    });
    let broken = || Problem::new(StatusCode::INTERNAL_SERVER_ERROR, "failed", "the change has broken off");
    changing.await.unwrap_or_else(|_| Err(broken()))
}

fn late() -> Problem {
    Failure::new(Code::Late, "the time was up; it may still happen").into()
}

async fn steer(app: Arc<App>, who: Who, key: JobKey, verb: Verb) -> Answer {
    let (of, done) = (key.clone(), verb.done());
    let what = format!("{done} {}", shown::key(&key));
    let acted = Change { verb, by: who.name.clone(), within: LONGEST };
    change(&app, &who, what, move |pool| async move { Ok(acted.one(&pool, key).await?) }).await?;
    document(&Steered::new(&of, done, Tone::Good))
}

/// A job.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct OfJob {
    key: Option<String>,
    key64: Option<String>,
}

/// A job, and why it is parked.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct OfPark {
    key: Option<String>,
    key64: Option<String>,
    reason: Option<String>,
}

/// A job, why it is paused, and for how long.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct OfPause {
    key: Option<String>,
    key64: Option<String>,
    reason: Option<String>,
    for_ms: Option<u64>,
}

macro_rules! of_job {
    ($($(#[$doc:meta])* $name:ident: $verb:expr,)*) => {$(
        $(#[$doc])*
        pub(super) async fn $name(
            State(app): Shared,
            Extension(who): Extension<Who>,
            Asked(OfJob { key, key64 }): Asked<OfJob>,
        ) -> Answer {
            steer(app, who, OfKey { key, key64 }.key()?, $verb).await
        }
    )*};
}

of_job! {
    /// Retries a job: it begins now, and waits no longer.
    retry: Verb::Retry,
    /// Bounces a job: the next worker of its chain begins it.
    bounce: Verb::Bounce,
    /// Restarts a job at home.
    restart: Verb::Restart,
    /// Resumes a paused job.
    resume: Verb::Resume,
    /// Stops a job.
    stop: Verb::STOP,
}

/// Parks a job.
pub(super) async fn park(
    State(app): Shared,
    Extension(who): Extension<Who>,
    Asked(OfPark { key, key64, reason }): Asked<OfPark>,
) -> Answer {
    let verb = reason.map_or_else(Verb::park, Verb::Park);
    steer(app, who, OfKey { key, key64 }.key()?, verb).await
}

/// Pauses a job in the name of the token.
pub(super) async fn pause(
    State(app): Shared,
    Extension(who): Extension<Who>,
    Asked(OfPause { key, key64, reason, for_ms }): Asked<OfPause>,
) -> Answer {
    if reason.as_ref().is_some_and(|reason| reason.len() > PAUSE_REASON) {
        return Err(Problem::usage(format!("the reason of a pause has at most {PAUSE_REASON} bytes")));
    }
    let verb = Verb::Pause(reason.unwrap_or_default(), for_ms.map(Duration::from_millis));
    steer(app, who, OfKey { key, key64 }.key()?, verb).await
}

/// The parked jobs of a bulk retry: those that fit both patterns.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct OfParked {
    #[serde(default, rename = "match")]
    keys: Option<String>,
    #[serde(default)]
    error: Option<String>,
    #[serde(default)]
    limit: Option<usize>,
    /// Where an earlier request has stopped to look.
    #[serde(default)]
    cursor: Option<String>,
}

impl OfParked {
    async fn find(self, app: &App) -> Result<Meant, Problem> {
        let pattern = |text: Option<String>| {
            let read = text.map(|text| text.parse::<Pattern>());
            read.transpose().map_err(|error| Problem::usage(format!("the pattern: {error}")))
        };
        let (fits_key, fits_error) = (pattern(self.keys)?, pattern(self.error)?);
        let limit = self.limit.unwrap_or(MOST);
        if limit == 0 || limit > MOST {
            return Err(Problem::usage(format!("the limit is from 1 to {MOST}")));
        }
        let read = self.cursor.map(|text| text.parse::<Cursor>());
        let mut at = read.transpose().map_err(|error| Problem::usage(format!("the cursor: {error}")))?;
        // A job may come twice while the server's table grows.
        let (mut found, mut looked) = (BTreeSet::new(), 0);
        loop {
            let page = look(app.source.pool.parked_page(at, PAGE)).await?;
            looked += page.items.len();
            let meant = page.items.into_iter().filter(|job| {
                job.paused.is_none()
                    && fits_key.as_ref().is_none_or(|pattern| pattern.fits(job.key.as_bytes()))
                    && fits_error.as_ref().is_none_or(|pattern| pattern.fits(job.error.as_bytes()))
            });
            found.extend(meant.map(|job| job.key));
            if found.len() > limit {
                // The rest of this page is left to the next request.
                return Ok(Meant { keys: found.into_iter().take(limit).collect(), more: true, next: at });
            }
            at = page.next;
            if at.is_none() || found.len() == limit || looked >= LOOKED_AT {
                return Ok(Meant { keys: found.into_iter().collect(), more: at.is_some(), next: at });
            }
        }
    }
}

/// The jobs of a bulk retry, whether there may be more of them, and where to look for those.
struct Meant {
    keys: Vec<JobKey>,
    more: bool,
    next: Option<Cursor>,
}

/// Retries many parked jobs, a bounded number at a time.
pub(super) async fn retry_parked(
    State(app): Shared,
    Extension(who): Extension<Who>,
    Asked(asked): Asked<OfParked>,
) -> Answer {
    let Meant { keys, more, next } = asked.find(&app).await?;
    let next = next.map(|next| next.to_string());
    let what = format!("retried {} parked jobs", keys.len());
    let act = move |pool: Operator| async move {
        let retry = Change { verb: Verb::Retry, by: None, within: LONGEST };
        let (mut retried, mut gone, mut failed, mut failures) = (0, 0, 0, Vec::new());
        let mut retries = std::pin::pin!(retry.each(&pool, keys));
        while let Some((key, done)) = retries.next().await {
            match done {
                Ok(()) => retried += 1,
                // It was retried, stopped or paused meanwhile.
                Err(Error::JobNotFound(_) | Error::NotWaiting(_) | Error::Paused(_)) => gone += 1,
                Err(error) => {
                    failed += 1;
                    failures.push(Steered::failed(&key, &error.to_string()));
                    failures.truncate(NAMED);
                }
            }
        }
        Ok(json!({"retried": retried, "gone": gone, "failed": failed, "failures": failures, "more": more,
            "next": next}))
    };
    document(&change(&app, &who, what, act).await?)
}

/// A worker, or all workers of a node.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct OfWorkers {
    #[serde(default)]
    node: Option<String>,
    #[serde(default)]
    worker: Option<u64>,
    #[serde(default)]
    shard: Option<usize>,
}

impl OfWorkers {
    fn named(self) -> Result<Named, Problem> {
        match self {
            Self { node: Some(node), worker: None, shard: None } if !node.is_empty() => Ok(Named::Node(node)),
            Self { node: None, worker: Some(id), shard } => {
                Ok(Named::Worker { shard, id: tenure_pool::WorkerId(id) })
            }
            _ => Err(Problem::usage("name either a node, or a worker and perhaps its shard")),
        }
    }
}

/// Drains workers. It does not wait until they have gone.
pub(super) async fn drain(
    State(app): Shared,
    Extension(who): Extension<Who>,
    Asked(asked): Asked<OfWorkers>,
) -> Answer {
    let named = asked.named()?;
    let workers = look(app.source.pool.workers()).await?;
    let leaving: Vec<WorkerInfo> = workers.into_iter().filter(|worker| named.means(worker)).collect();
    if leaving.is_empty() {
        return Err(Problem::absent(format!("there is no {named}")));
    }
    let ids = leaving.iter().map(|worker| worker.id.0).collect();
    let act = move |pool: Operator| async move { Ok(pool.drain_all(&leaving).await?) };
    let drained = change(&app, &who, format!("drained {named}"), act).await?;
    document(&Leaving { workers: ids, drained, gone: false })
}

/// A node.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct OfNode {
    node: String,
}

/// Gives a node no other job, or lifts its cordon.
pub(super) async fn cordon(
    State(app): Shared,
    Extension(who): Extension<Who>,
    Asked(OfNode { node: name }): Asked<OfNode>,
    on: bool,
) -> Answer {
    let workers = look(app.source.pool.workers()).await?;
    let count = workers.iter().filter(|worker| worker.node == name).count();
    let what = format!("{} {}", if on { "cordoned" } else { "uncordoned" }, shown::plain(&name));
    let of = name.clone();
    let act = move |pool: Operator| async move {
        if on {
            pool.cordon(&name).await?;
        } else {
            pool.uncordon(&name).await?;
        }
        Ok(())
    };
    change(&app, &who, what, act).await?;
    document(&Marked { node: &of, cordoned: on, dry_run: false, workers: count })
}

/// Nothing more is said.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Nothing {}

/// Holds the pool, so that no job starts, or lifts the hold.
pub(super) async fn hold(
    State(app): Shared,
    Extension(who): Extension<Who>,
    Asked(Nothing {}): Asked<Nothing>,
    on: bool,
) -> Answer {
    let what = if on { "held the pool" } else { "lifted the hold of the pool" };
    change(&app, &who, what.to_owned(), move |pool| async move { Ok(pool.hold(on).await?) }).await?;
    document(&Held { pool: app.place.pool.clone(), on_hold: on, dry_run: false })
}
