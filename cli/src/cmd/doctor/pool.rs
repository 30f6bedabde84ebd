//! The checks of a pool. Each rests on what an inspector reads.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, SystemTime};

use futures::StreamExt;
use tenure_pool::inspect::{Figures, MemberState, PoolPhase, ShardState, Verdict, WorkerInfo};
use tenure_pool::{Error, Inspector, JobState, Settings};

use super::super::events::Found;
use super::{Finding, Unit, past};
use crate::out::{shown, when};
use crate::view::schedules::kind;

/// A handler that was told to end this long ago does not end.
const STUCK: Duration = Duration::from_secs(60);
/// Of how many workers the lease is looked at.
const LEASES: usize = 128;
/// How many nodes of an older level are named.
const OLDER: usize = 5;
/// An uneven share says something if workers have this many jobs or more.
const ENOUGH: u64 = 50;

/// Checks the pool, and looks at this many of its jobs.
///
/// # Errors
/// The pool cannot be read.
pub(super) async fn check(pool: &Inspector, sample: usize) -> Result<Vec<Finding>, Error> {
    let (states, settings) = (pool.pool_state().await?, pool.settings().await?);
    let (workers, figures) = (pool.workers().await?, pool.figures().await?);
    let mut findings = vec![phase(&states), hold(&settings), members(&workers), levels(&workers)];
    findings.push(queue(&figures, &settings));
    findings.push(oldest(&figures, &settings));
    findings.push(balance(&figures));
    findings.push(leases(pool, &workers).await?);
    findings.push(parked(pool, &figures).await?);
    findings.push(schedules(pool, &settings).await?);
    findings.extend(jobs(pool, sample).await?);
    findings.extend(past(pool, &settings, &workers).await?);
    Ok(findings)
}

fn phase(states: &[ShardState]) -> Finding {
    const CHECK: &str = "pool.phase";
    let of = |phase| states.iter().filter(|state| state.phase == phase).count();
    let (recovering, ending) = (of(PoolPhase::Recovering), of(PoolPhase::Closing) + of(PoolPhase::Stopping));
    if ending > 0 {
        return Finding::warn(
            CHECK,
            "the pool is being shut down",
            "wait until it has ended: a join makes it anew",
        );
    }
    if recovering > 0 {
        return Finding::fail(
            CHECK,
            format!("{recovering} of {} shards are being opened: nothing starts before that", states.len()),
            "wait for T after a loss of data; if it stays so, start a node: only a full node opens a pool",
        );
    }
    if states.iter().any(|state| state.server_changed) {
        return Finding::warn(
            CHECK,
            "another server process answers than the one that the pool was last seen on",
            "a node looks whether data were lost within seconds; if it stays so, no full node lives",
        );
    }
    Finding::ok(CHECK, "the pool is open")
}

fn hold(settings: &Settings) -> Finding {
    const CHECK: &str = "pool.hold";
    if settings.hold {
        let remedy = "when the incident is over: tenure unhold";
        return Finding::warn(CHECK, "the pool is on hold: it accepts jobs and starts none", remedy);
    }
    Finding::ok(CHECK, "the pool is not on hold")
}

fn members(workers: &[WorkerInfo]) -> Finding {
    const CHECK: &str = "pool.workers";
    let of = |state| workers.iter().filter(|worker| worker.state == state).count();
    let (up, standby, draining) = (of(MemberState::Up), of(MemberState::Standby), of(MemberState::Draining));
    let cordoned = workers.iter().filter(|worker| worker.state == MemberState::Up && worker.cordoned).count();
    match (up, standby) {
        (0, 0) => Finding::fail(CHECK, "no worker is up: no job starts", "start a node with a worker"),
        (0, _) => Finding::fail(
            CHECK,
            format!("no worker is up, and {standby} stand by"),
            "wait for join_settle; if it stays so, look at the logs of their nodes",
        ),
        _ if cordoned == up => Finding::fail(
            CHECK,
            format!("all {up} workers that are up are cordoned: no job starts"),
            "tenure uncordon NODE",
        ),
        _ if cordoned > 0 => Finding::warn(
            CHECK,
            format!("{cordoned} of {up} workers are cordoned, {draining} drain"),
            "tenure uncordon NODE, when its maintenance is over",
        ),
        _ => Finding::ok(CHECK, format!("{up} workers are up, {standby} stand by, {draining} drain")),
    }
}

fn levels(workers: &[WorkerInfo]) -> Finding {
    const CHECK: &str = "pool.levels";
    let levels: BTreeSet<_> = workers.iter().map(|worker| worker.level).collect();
    match (levels.first(), levels.last()) {
        (Some(least), Some(most)) if least < most => {
            let older: BTreeSet<_> =
                workers.iter().filter(|of| of.level < *most).map(|of| &*of.node).collect();
            let named: Vec<_> = older.iter().copied().take(OLDER).collect();
            let others = match older.len().saturating_sub(OLDER) {
                0 => String::new(),
                others => format!(" and {others} more"),
            };
            let named = named.join(", ");
            Finding::warn(
                CHECK,
                format!(
                    "nodes of the levels {least} to {most} run side by side; the older ones are {named}{others}"
                ),
                "end the deploy: what is newer is used when all nodes have it",
            )
        }
        _ => Finding::ok(CHECK, "all nodes have one level"),
    }
}

fn queue(figures: &Figures, settings: &Settings) -> Finding {
    const CHECK: &str = "pool.queue";
    let (queued, most) = (figures.queued.saturating_sub(figures.returned), settings.max_queued);
    let returned = match figures.returned {
        0 => String::new(),
        returned => format!(", and {returned} more came back before it"),
    };
    let text = format!("{queued} of at most {most} jobs wait for their first start{returned}");
    let remedy = "add workers, or raise it: tenure settings set max_queued=COUNT";
    let finding = match queued {
        queued if queued >= most => Finding::fail(CHECK, format!("{text}: dispatches are refused"), remedy),
        queued if queued.saturating_mul(5) >= most.saturating_mul(4) => Finding::warn(CHECK, text, remedy),
        _ => Finding::ok(CHECK, text),
    };
    finding.count(figures.queued, Unit::Jobs)
}

fn oldest(figures: &Figures, settings: &Settings) -> Finding {
    const CHECK: &str = "pool.oldest";
    let Some(oldest) = figures.oldest_queued else {
        return Finding::ok(CHECK, "no job waits for its first start").takes(Duration::ZERO);
    };
    let text = format!("the oldest job has waited for its first start for {}", when::brief(oldest));
    if oldest > settings.assign_timeout * 10 {
        return Finding::fail(CHECK, text, "tenure explain --any says what it waits for").takes(oldest);
    }
    Finding::ok(CHECK, text).takes(oldest)
}

fn balance(figures: &Figures) -> Finding {
    const CHECK: &str = "pool.balance";
    let up: Vec<_> = figures.workers.iter().filter(|of| of.state == MemberState::Up).collect();
    let all: u64 = up.iter().map(|of| of.jobs).sum();
    let Some(most) = up.iter().max_by_key(|of| of.jobs) else {
        return Finding::ok(CHECK, "no worker has jobs");
    };
    let mean = all / up.len() as u64;
    let text = format!("worker {} has {} jobs, and the mean is {mean}", most.worker, most.jobs);
    if mean >= ENOUGH && most.jobs.saturating_mul(10) > mean.saturating_mul(13) {
        let remedy =
            "jobs move when the ring has been stable for a while; capacities, cordons and bounces keep them";
        return Finding::warn(CHECK, text, remedy);
    }
    Finding::ok(CHECK, text)
}

/// Workers that do not renew their leases, seen through one job of each.
async fn leases(pool: &Inspector, workers: &[WorkerInfo]) -> Result<Finding, Error> {
    const CHECK: &str = "pool.leases";
    let (mut silent, mut looked) = (Vec::new(), 0);
    for worker in workers.iter().take(LEASES) {
        let Some(job) = pool.jobs_of(worker, None, 1).await?.pop() else { continue };
        looked += 1;
        let seen = pool.explain(&job.key).await?;
        if matches!(seen.verdict, Verdict::OwnerSilent | Verdict::OwnerLost | Verdict::NobodyLives { .. }) {
            silent.push(format!("worker {} of node {}", worker.id, worker.node));
        }
    }
    let finding = match silent.first() {
        Some(first) => Finding::fail(
            CHECK,
            format!("{} of {looked} workers do not renew their leases, the first is {first}", silent.len()),
            "look at that process: it is dead, hangs, or is cut off. Its jobs go elsewhere after T",
        ),
        None => Finding::ok(CHECK, format!("{looked} workers with jobs renew their leases")),
    };
    Ok(finding.count(silent.len() as u64, Unit::Workers))
}

/// How many parked jobs are read at once, and how many are looked at.
const PARKED_PAGE: usize = 512;
const MOST_PARKED: usize = 4_096;

async fn parked(pool: &Inspector, figures: &Figures) -> Result<Finding, Error> {
    const CHECK: &str = "pool.parked";
    if figures.parked == 0 {
        return Ok(Finding::ok(CHECK, "no job is parked").count(0, Unit::Jobs));
    }
    let mut errors: BTreeMap<String, usize> = BTreeMap::new();
    let (mut paused, mut cursor) = (0, None);
    for _ in 0..MOST_PARKED / PARKED_PAGE {
        let page = pool.parked_page(cursor, PARKED_PAGE).await?;
        for job in page.items {
            match job.paused {
                Some(_) => paused += 1,
                None => *errors.entry(shown::plain(&job.error)).or_default() += 1,
            }
        }
        cursor = page.next;
        if cursor.is_none() {
            break;
        }
    }
    if errors.is_empty() {
        let text = match cursor {
            None => format!("no job is parked, and {paused} are paused"),
            Some(_) => format!("the first {paused} of {} parked or paused jobs are paused", figures.parked),
        };
        return Ok(Finding::ok(CHECK, text).count(figures.parked, Unit::Jobs));
    }
    let most = errors.into_iter().max_by_key(|(_, count)| *count);
    let most = most.map(|(error, count)| format!("; {count} with: {error}")).unwrap_or_default();
    let resting = if paused > 0 { format!(", {paused} of them paused") } else { String::new() };
    let text = format!("{} jobs are parked{resting}{most}", figures.parked);
    let remedy = "mend the cause, then tenure retry --state parked, or stop them";
    Ok(Finding::warn(CHECK, text, remedy).count(figures.parked, Unit::Jobs))
}

async fn schedules(pool: &Inspector, settings: &Settings) -> Result<Finding, Error> {
    const CHECK: &str = "pool.schedules";
    let (all, now) = (pool.schedules().await?, SystemTime::now());
    let late = all.iter().find(|schedule| {
        let late = now.duration_since(schedule.next).unwrap_or_default();
        late > schedule.period + settings.worker_ttl * 3
    });
    Ok(match late {
        Some(late) => Finding::fail(
            CHECK,
            format!("nobody takes the {} {}", kind(late.kind), late.name),
            "start a node that has it: Node::schedule or Node::ticker",
        ),
        None => Finding::ok(CHECK, format!("{} schedules and tickers are in time", all.len())),
    })
}

/// The findings of the last hour.
async fn past(pool: &Inspector, settings: &Settings, workers: &[WorkerInfo]) -> Result<Vec<Finding>, Error> {
    if settings.history_max == 0 {
        let none = |check| Finding::ok(check, "the pool keeps no history: history_max is 0");
        return Ok(["pool.churn", "pool.losses"].map(none).into());
    }
    let noted: Vec<_> =
        Found::read(pool, Some(past::HOUR)).await?.events.into_iter().map(Into::into).collect();
    let (nodes, now) = (workers.iter().map(|worker| &*worker.node).collect(), SystemTime::now());
    Ok(vec![past::churn(&noted, &nodes, now), past::losses(&noted, now)])
}

/// Jobs that wait because of a trouble: the number, and the most frequent reason.
#[derive(Debug, Default)]
struct Troubled {
    reasons: BTreeMap<String, u64>,
}

impl Troubled {
    fn add(&mut self, reason: &str) {
        *self.reasons.entry(shown::plain(reason)).or_default() += 1;
    }

    /// The words for jobs without the trouble, and for jobs with the trouble.
    fn finding(self, check: &'static str, looked: u64, (none, some): (&str, &str), remedy: &str) -> Finding {
        let count = self.reasons.values().sum();
        let Some((reason, most)) = self.reasons.into_iter().max_by_key(|(_, count)| *count) else {
            return Finding::ok(check, format!("of {looked} jobs none {none}")).count(0, Unit::Jobs);
        };
        let text = format!("{count} of {looked} jobs {some}; {most} with: {reason}");
        Finding::warn(check, text, remedy).count(count, Unit::Jobs)
    }
}

/// Failing and refused jobs, jobs without an end, and jobs in a wrong place.
async fn jobs(pool: &Inspector, sample: usize) -> Result<[Finding; 4], Error> {
    const STOPPING: &str = "pool.stopping";
    const PLACES: &str = "pool.places";
    let (rings, now) = (pool.rings().await?, SystemTime::now());
    let (mut looked, mut misplaced, mut stuck) = (0_u64, 0_u64, None);
    let (mut failing, mut refused) = (Troubled::default(), Troubled::default());
    let mut jobs = pool.job_stream().take(sample);
    while let Some(job) = jobs.next().await {
        let job = job?;
        looked += 1;
        match (&job.refusal, &job.error) {
            (Some(why), _) => refused.add(why),
            // A separate check tells of parked jobs.
            (None, Some(error)) if job.state != JobState::Parked => failing.add(error),
            _ => {}
        }
        let old = now.duration_since(job.since).is_ok_and(|age| age > STUCK);
        if job.state == JobState::Stopping && old && stuck.is_none() {
            stuck = Some(shown::key(&job.key));
        }
        let ring = pool.shard_of(&job.key).ok().and_then(|shard| rings.get(shard));
        misplaced += u64::from(ring.is_some_and(|ring| ring.takes_away(&job)));
    }
    let stopping = match stuck {
        Some(key) => Finding::fail(
            STOPPING,
            format!("{key} was told to end, and has not for more than a minute"),
            "tenure explain KEY names its node: restart that process if its handler hangs",
        ),
        None => Finding::ok(STOPPING, format!("of {looked} jobs none hangs in its end")),
    };
    let places = if misplaced > 0 {
        Finding::warn(
            PLACES,
            format!("{misplaced} of {looked} jobs are about to move"),
            "wait until the ring has been stable for stable_after; a hold keeps them where they are",
        )
    } else {
        Finding::ok(PLACES, format!("{looked} jobs are where they belong"))
    };
    let failing = failing.finding(
        "pool.failing",
        looked,
        ("fails", "have failed and are tried again"),
        "mend the cause: tenure ls --failing, tenure explain KEY",
    );
    let refused = refused.finding(
        "pool.refused",
        looked,
        ("was refused with a reason", "were refused by a worker"),
        "mend the cause, such as a program or an image: tenure ls --refused, tenure explain KEY",
    );
    Ok([failing, refused, stopping, places])
}

#[cfg(test)]
mod tests {
    use super::super::Severity;
    use super::*;

    #[test]
    fn a_queue_warns_before_it_is_full() {
        let settings = Settings::default();
        let of = |queued| {
            let mut figures = Figures::default();
            figures.queued = queued;
            queue(&figures, &settings).severity
        };
        assert_eq!(
            [of(0), of(7_999), of(8_000), of(10_000)],
            [Severity::Ok, Severity::Ok, Severity::Warn, Severity::Fail]
        );
    }

    #[test]
    fn a_job_that_came_back_takes_no_place_in_the_queue() {
        let (settings, mut figures) = (Settings::default(), Figures::default());
        (figures.queued, figures.returned) = (10_002, 3);
        let finding = queue(&figures, &settings);
        assert_eq!(finding.severity, Severity::Warn);
        assert!(finding.text.starts_with("9999 of at most 10000"), "{}", finding.text);
        assert!(finding.text.ends_with("and 3 more came back before it"), "{}", finding.text);
    }

    #[test]
    fn a_job_that_waits_for_long_is_a_failure() {
        let settings = Settings::default();
        let of = |oldest| {
            let mut figures = Figures::default();
            figures.oldest_queued = oldest;
            oldest_of(&figures, &settings)
        };
        assert_eq!(of(None), Severity::Ok);
        assert_eq!(of(Some(Duration::from_secs(50))), Severity::Ok);
        assert_eq!(of(Some(Duration::from_secs(51))), Severity::Fail);
    }

    fn oldest_of(figures: &Figures, settings: &Settings) -> Severity {
        oldest(figures, settings).severity
    }
}
