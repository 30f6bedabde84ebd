//! The answers about the pool, which anybody who may look gets.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use axum::extract::State;
use axum::http::Uri;
use axum::{Extension, Json};
use serde::Serialize;
use serde_json::{Value, json};
use tenure_pool::event::EventKind;
use tenure_pool::inspect::{MemberState, Overview, PoolPhase, ShardState};
use tokio::time::timeout;

use super::App;
use super::ask::{Params, WHICH};
use super::problem::Problem;
use super::search::{self, Part};
use super::source::look;
use super::token::{Scope, Who};
use crate::args::{KindArg, Named};
use crate::out::when::{millis, stamp};
use crate::out::{Document, Row, VERSION, shown};
use crate::view::fleet::places;
use crate::view::moves::forecast;
use crate::view::{events, explain, jobs, parked, payload, schedules, settings};

pub(super) type Answer = Result<Json<Value>, Problem>;
pub(super) type Shared = State<Arc<App>>;

/// How long a forecast may take: it looks at every job.
const FORECAST: Duration = Duration::from_secs(20);
/// How long a request waits for its turn.
const TURN: Duration = Duration::from_secs(5);
const HOUR: Duration = Duration::from_secs(3_600);

/// A list, as the commands print it.
pub(super) fn list<T: Serialize>(kind: &str, items: &[T]) -> Value {
    json!({"v": VERSION, "kind": kind, "items": items})
}

fn rows<R: Row>(rows: &[R]) -> Value {
    list(R::KIND, rows)
}

/// With more fields of the list.
pub(super) fn with(mut document: Value, fields: Value) -> Value {
    if let (Value::Object(all), Value::Object(more)) = (&mut document, fields) {
        all.extend(more);
    }
    document
}

/// A document, as the commands print it.
pub(super) fn document<T: Serialize>(content: &T) -> Answer {
    let document = serde_json::to_value(Document::of(content));
    document.map(Json).map_err(|error| {
        Problem::new(axum::http::StatusCode::INTERNAL_SERVER_ERROR, "failed", error.to_string())
    })
}

/// The phase of the pool: the first one of a shard that is not open.
pub(super) fn phase(shards: &[ShardState]) -> PoolPhase {
    shards.iter().map(|shard| shard.phase).find(|phase| *phase != PoolPhase::Open).unwrap_or(PoolPhase::Open)
}

pub(super) async fn pool(State(app): Shared, Extension(who): Extension<Who>, uri: Uri) -> Answer {
    Params::of(&uri, &[])?;
    let fleet = app.source.fleet().await?;
    let Overview { shards, settings, workers, figures, .. } = &fleet.seen;
    let first = || workers.iter().filter(|worker| worker.shard == 0);
    let count = |state| first().filter(|worker| worker.state == state).count();
    let owned = figures.jobs.saturating_sub(figures.waiting + figures.parked);
    Ok(Json(json!({
        "v": VERSION,
        "pool": app.source.pool.pool_name(),
        "phase": phase(shards),
        "on_hold": settings.hold,
        "worker_ttl_ms": millis(settings.worker_ttl),
        "max_queued": settings.max_queued,
        "jobs": {
            "all": figures.jobs,
            "owned": owned,
            "waiting": figures.waiting,
            "queued": figures.queued,
            "returned": figures.returned,
            "parked": figures.parked,
            "oldest_queued_ms": figures.oldest_queued.map(millis),
        },
        "workers": {
            "up": count(MemberState::Up),
            "standby": count(MemberState::Standby),
            "draining": count(MemberState::Draining),
        },
        "shards": shards,
        "queues": app.source.sets().collect::<Vec<_>>(),
        "shows_payloads": app.shows_payloads,
        "you": {
            "name": who.name,
            "may_operate": !app.read_only && who.scope >= Scope::Operate,
            "read_only": app.read_only,
        },
        "version": env!("CARGO_PKG_VERSION"),
        "at": stamp(SystemTime::now()),
    })))
}

pub(super) async fn workers(State(app): Shared, uri: Uri) -> Answer {
    let params = Params::of(&uri, &["node"])?;
    let node = params.text("node");
    let mut all = app.source.fleet().await?.workers();
    all.retain(|row| node.is_none_or(|node| row.node == node));
    Ok(Json(rows(&all)))
}

pub(super) async fn nodes(State(app): Shared, uri: Uri) -> Answer {
    Params::of(&uri, &[])?;
    Ok(Json(rows(&app.source.fleet().await?.nodes())))
}

pub(super) async fn ring(State(app): Shared, uri: Uri) -> Answer {
    let key = Params::of(&uri, &["key", "key64"])?.maybe_key()?;
    let (rings, fleet) = (app.source.rings().await?, app.source.fleet().await?);
    let found = places(&app.source.pool, &rings, &fleet.seen.workers, key.as_ref());
    Ok(Json(rows(&found.map_err(|error| Problem::usage(error.to_string()))?)))
}

/// A sample of the keys that workers have, for a picture.
pub(super) async fn ring_keys(State(app): Shared, uri: Uri) -> Answer {
    Params::of(&uri, &[])?;
    let (sample, fleet) = (app.source.sample().await?, app.source.fleet().await?);
    let key = |job: &tenure_pool::JobInfo| {
        let (key, key64) = shown::key_fields(&job.key);
        let shard = app.source.pool.shard_of(&job.key).unwrap_or_default();
        let worker = job.owner.map(|worker| worker.0);
        json!({"key": key, "key64": key64, "shard": shard, "worker": worker, "state": job.state})
    };
    let items: Vec<_> = sample.iter().map(key).collect();
    Ok(Json(with(list("keys", &items), json!({"all": fleet.seen.figures.jobs}))))
}

pub(super) async fn drains(State(app): Shared, uri: Uri) -> Answer {
    Params::of(&uri, &[])?;
    Ok(Json(list("drains", &app.source.drained().await?)))
}

pub(super) async fn setting_list(State(app): Shared, uri: Uri) -> Answer {
    Params::of(&uri, &[])?;
    let all: Vec<_> = app.source.settings().await?.list().into_iter().map(settings::Shown).collect();
    Ok(Json(rows(&all)))
}

pub(super) async fn schedule_list(State(app): Shared, uri: Uri) -> Answer {
    Params::of(&uri, &[])?;
    let all = app.source.schedules().await?;
    let all: Vec<_> = all.iter().cloned().map(schedules::Shown::from).collect();
    Ok(Json(rows(&all)))
}

pub(super) async fn queues(State(app): Shared, uri: Uri) -> Answer {
    let params = Params::of(&uri, &["set"])?;
    let set = match (params.text("set"), app.source.sets().next()) {
        (Some(set), _) => set,
        (None, Some(first)) => first,
        (None, None) => {
            return Err(Problem::absent("no set is watched: `--queues SET` names those that are"));
        }
    };
    let items = app.source.queues(set).await?;
    Ok(Json(json!({"v": VERSION, "kind": "queues", "set": set, "items": items})))
}

/// The number of workers that the jobs need.
pub(super) async fn scale(State(app): Shared, uri: Uri) -> Answer {
    let params = Params::of(&uri, &["target"])?;
    let target = params.number("target", 1..=u64::MAX)?.unwrap_or(500);
    let fleet = app.source.fleet().await?;
    let Overview { workers, figures, .. } = &fleet.seen;
    // Each worker has an entry in every shard.
    let up =
        workers.iter().filter(|worker| worker.state == MemberState::Up && worker.shard == 0).count() as u64;
    // Parked jobs need no worker.
    let live = figures.jobs.saturating_sub(figures.parked);
    let oldest = figures.oldest_queued.unwrap_or_default();
    Ok(Json(json!({
        "v": VERSION,
        "jobs": live,
        "queued": figures.queued,
        "returned": figures.returned,
        "waiting": figures.waiting,
        "oldest_queued_s": oldest.as_secs(),
        "workers": up,
        "jobs_per_worker": live.checked_div(up),
        "target": target,
        "desired": live.div_ceil(target),
    })))
}

pub(super) async fn simulate(State(app): Shared, uri: Uri) -> Answer {
    let params = Params::of(&uri, &["add", "remove"])?;
    let add = params.number("add", 0..=1_000_u32)?.unwrap_or_default();
    let remove: Vec<Named> = params.list("remove")?;
    let _turn = turn(&app).await?;
    let pool = &app.source.pool;
    let workers = look(pool.workers()).await?;
    if let Some(named) = remove.iter().find(|named| !workers.iter().any(|worker| named.means(worker))) {
        return Err(Problem::absent(format!("there is no {named}")));
    }
    let goes = |worker: &tenure_pool::inspect::WorkerInfo| remove.iter().any(|named| named.means(worker));
    let late = || Problem::redis("the jobs could not be looked at in time");
    let made = timeout(FORECAST, forecast(pool, &workers, goes, add)).await.map_err(|_| late())?;
    document(&made?)
}

/// A turn of those who read much at once.
async fn turn(app: &App) -> Result<tokio::sync::SemaphorePermit<'_>, Problem> {
    let busy = || Problem::busy("others search now: try again");
    timeout(TURN, app.searches.acquire()).await.ok().and_then(Result::ok).ok_or_else(busy)
}

pub(super) async fn job_list(State(app): Shared, uri: Uri) -> Answer {
    let known: Vec<_> = WHICH.into_iter().chain(["limit", "cursor"]).collect();
    let params = Params::of(&uri, &known)?;
    let (which, limit) = (params.which()?, params.limit(100, search::LIMIT)?);
    let _turn = turn(&app).await?;
    let Part { jobs, scanned, next } =
        search::part(&app.source.pool, &which, params.text("cursor"), limit).await?;
    let shown: Vec<_> = jobs.into_iter().map(jobs::Shown::from).collect();
    Ok(Json(with(rows(&shown), json!({"next": next, "scanned": scanned}))))
}

pub(super) async fn job(State(app): Shared, uri: Uri) -> Answer {
    let key = Params::of(&uri, &["key", "key64"])?.key()?;
    let found = look(app.source.pool.job(&key)).await?;
    let absent = || Problem::absent(format!("no job has the key {}", shown::key(&key)));
    document(&jobs::Shown::from(found.ok_or_else(absent)?))
}

pub(super) async fn job_explain(State(app): Shared, uri: Uri) -> Answer {
    let key = Params::of(&uri, &["key", "key64"])?.key()?;
    document(&explain::fields(&look(app.source.pool.explain(&key)).await?))
}

pub(super) async fn job_history(State(app): Shared, uri: Uri) -> Answer {
    let key = Params::of(&uri, &["key", "key64"])?.key()?;
    let seen = look(app.source.pool.explain(&key)).await?;
    let log = app.log.up_to_date().await?;
    let kept = log.borrow();
    let of_key = kept.from(0).filter(|(_, event)| event.keys.contains(&key));
    let found: Vec<_> = of_key.map(|(_, event)| events::Shown::from(event.clone())).collect();
    document(&events::history(&key, &found, kept.reach(), kept.dropped, &seen))
}

/// The payload of a job. It is its tenant's, so not all who may look see it.
pub(super) async fn job_payload(State(app): Shared, uri: Uri) -> Answer {
    let key = Params::of(&uri, &["key", "key64"])?.key()?;
    if !app.shows_payloads {
        let text = "payloads are not shown: `tenure serve --show-payloads` shows them";
        return Err(Problem::new(axum::http::StatusCode::FORBIDDEN, "payloads", text));
    }
    let bytes = look(app.source.pool.payload(&key)).await?;
    let absent = || Problem::absent(format!("no job has the key {}", shown::key(&key)));
    let payload = payload::Payload::of(&bytes.ok_or_else(absent)?);
    let (key, key64) = shown::key_fields(&key);
    document(&json!({"key": key, "key64": key64, "payload": payload}))
}

pub(super) async fn parked_list(State(app): Shared, uri: Uri) -> Answer {
    let params = Params::of(&uri, &["limit", "cursor"])?;
    let limit = params.limit(100, search::LIMIT)?;
    let page = look(app.source.pool.parked_page(params.parsed("cursor")?, limit)).await?;
    let shown: Vec<_> =
        page.items.into_iter().filter(|job| job.paused.is_none()).map(parked::Shown::from).collect();
    let next = page.next.map(|next| next.to_string());
    Ok(Json(with(list("parked", &shown), json!({"next": next}))))
}

pub(super) async fn event_list(State(app): Shared, uri: Uri) -> Answer {
    let known = ["since", "kind", "key", "key64", "worker", "node", "limit"];
    let params = Params::of(&uri, &known)?;
    let (since, kinds) = (params.time("since")?, params.list::<KindArg>("kind")?);
    let (key, worker) = (params.maybe_key()?, params.number("worker", 0..=u64::MAX)?);
    let (node, limit) = (params.text("node"), params.limit(200, search::LIMIT)?);
    let from = since.and_then(|since| SystemTime::now().checked_sub(since));
    let log = app.log.up_to_date().await?;
    let kept = log.borrow();
    let is_meant = |event: &tenure_pool::event::Event| {
        from.is_none_or(|from| event.at >= from)
            && (kinds.is_empty() || kinds.contains(&KindArg(event.kind)))
            && key.as_ref().is_none_or(|key| event.keys.contains(key))
            && worker.is_none_or(|worker| event.worker.is_some_and(|its| its.0 == worker))
            && node.is_none_or(|node| event.node == node)
    };
    let last = kept.from(0).rev().filter(|(_, event)| is_meant(event)).take(limit);
    let mut found: Vec<_> = last.map(|(_, event)| events::Shown::from(event.clone())).collect();
    found.reverse();
    let reach = json!({"noted_since": kept.reach().map(stamp), "dropped": kept.dropped});
    Ok(Json(with(rows(&found), reach)))
}

/// The jobs that left their workers in the last hour: why, from where, and when.
pub(super) async fn moves(State(app): Shared, uri: Uri) -> Answer {
    Params::of(&uri, &[])?;
    let now = SystemTime::now();
    let log = app.log.up_to_date().await?;
    let kept = log.borrow();
    let mut minutes = [0_u64; 60];
    let (mut why, mut from, mut all) = (BTreeMap::new(), BTreeMap::new(), 0);
    for (_, event) in kept.from(0) {
        if !matches!(event.kind, EventKind::Moved | EventKind::Lost) {
            continue;
        }
        let ago = now.duration_since(event.at).unwrap_or_default();
        // One about a worker, and of no job, says that it was lost. Another one follows for its jobs.
        if ago >= HOUR || event.count == 0 {
            continue;
        }
        let minute = usize::try_from(ago.as_secs() / 60).unwrap_or(0).min(59);
        minutes[59 - minute] += event.count;
        all += event.count;
        let cause = match event.why {
            _ if event.kind == EventKind::Lost => "lost".to_owned(),
            Some(cause) => serde_json::to_value(cause)
                .ok()
                .and_then(|cause| Some(cause.as_str()?.to_owned()))
                .unwrap_or_default(),
            None => "handed_on".to_owned(),
        };
        *why.entry(cause).or_insert(0_u64) += event.count;
        if let Some(worker) = event.worker {
            *from.entry((event.shard, worker)).or_insert(0_u64) += event.count;
        }
    }
    let mut why: Vec<_> = why.into_iter().map(|(why, jobs)| json!({"why": why, "jobs": jobs})).collect();
    why.sort_by_key(|one| std::cmp::Reverse(one["jobs"].as_u64()));
    let mut from: Vec<_> = from.into_iter().collect();
    from.sort_by_key(|(_, jobs)| std::cmp::Reverse(*jobs));
    from.truncate(20);
    let from: Vec<_> = from
        .into_iter()
        .map(|((shard, worker), jobs)| json!({"shard": shard, "worker": worker.0, "jobs": jobs}))
        .collect();
    Ok(Json(json!({
        "v": VERSION,
        "jobs": all,
        "minutes": minutes.as_slice(),
        "why": why,
        "from": from,
        "noted_since": kept.reach().map(stamp),
        "dropped": kept.dropped,
    })))
}
