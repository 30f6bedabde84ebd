//! Concurrent calls: each caller makes its next call when the last one was answered.

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use tokio::task::JoinSet;

use crate::Error;
use crate::arena::Arena;
use crate::figures::percentile_ms;
use crate::floor::Floor;
use crate::report::Report;
use crate::usage::Usage;

/// Calls that are due at a rate are made this often.
const TICK: Duration = Duration::from_millis(1);

/// The times of calls.
#[derive(Debug)]
pub(crate) struct Calls {
    /// The time of each call, in ascending order.
    times: Vec<Duration>,
    /// The time of all calls together.
    elapsed: Duration,
}

/// Makes one call for each number.
pub(crate) async fn call<F, Fut>(callers: u64, numbers: Range<u64>, call: F) -> Result<Calls, Error>
where
    F: Fn(u64) -> Fut + Clone + Send + 'static,
    Fut: Future<Output = Result<(), Error>> + Send,
{
    let next = Arc::new(AtomicU64::new(numbers.start));
    let began = Instant::now();
    let mut running = JoinSet::new();
    for _ in 0..callers {
        let (next, call, end) = (next.clone(), call.clone(), numbers.end);
        running.spawn(async move {
            let mut times = Vec::new();
            loop {
                let number = next.fetch_add(1, Ordering::Relaxed);
                if number >= end {
                    return Ok::<_, Error>(times);
                }
                let began = Instant::now();
                call(number).await?;
                times.push(began.elapsed());
            }
        });
    }
    let mut times = Vec::new();
    while let Some(ended) = running.join_next().await {
        times.extend(ended??);
    }
    let elapsed = began.elapsed();
    times.sort_unstable();
    Ok(Calls { times, elapsed })
}

/// Makes `rate` calls a second, whether or not the former ones were answered. The time of a call begins when it was
/// due, so a call that comes late because others take long counts as long.
pub(crate) async fn offer<F, Fut>(rate: u64, numbers: Range<u64>, call: F) -> Result<Calls, Error>
where
    F: Fn(u64) -> Fut,
    Fut: Future<Output = Result<(), Error>> + Send + 'static,
{
    let began = Instant::now();
    let mut running = JoinSet::new();
    let mut ticks = tokio::time::interval(TICK);
    let mut next = numbers.start;
    while next < numbers.end {
        ticks.tick().await;
        let due = numbers.start + (began.elapsed().as_secs_f64() * rate as f64) as u64;
        for number in next..due.min(numbers.end) {
            let due = Duration::from_secs_f64((number - numbers.start) as f64 / rate as f64);
            let call = call(number);
            running.spawn(async move { call.await.map(|()| began.elapsed().saturating_sub(due)) });
        }
        next = next.max(due.min(numbers.end));
    }
    let mut times = Vec::new();
    while let Some(ended) = running.join_next().await {
        times.push(ended??);
    }
    let elapsed = began.elapsed();
    times.sort_unstable();
    Ok(Calls { times, elapsed })
}

/// One repetition: calls, the cost of each, and the floor measured just before.
#[derive(Debug)]
pub(crate) struct Run {
    pub(crate) per_s: f64,
    pub(crate) p50_ms: f64,
    pub(crate) p99_ms: f64,
    pub(crate) each: Usage,
    pub(crate) floor: Floor,
}

impl Run {
    pub(crate) fn new(calls: &Calls, each: Usage, floor: Floor) -> Self {
        Self {
            per_s: calls.times.len() as f64 / calls.elapsed.as_secs_f64(),
            p50_ms: percentile_ms(&calls.times, 0.5),
            p99_ms: percentile_ms(&calls.times, 0.99),
            each,
            floor,
        }
    }
}

/// Waits for these calls and measures their cost.
pub(crate) async fn measure(
    arena: &mut Arena,
    calls: impl Future<Output = Result<Calls, Error>>,
) -> Result<Run, Error> {
    let floor = arena.floor().await?;
    let before = arena.usage().await?;
    let calls = calls.await?;
    let each = arena.usage().await?.each(&before, calls.times.len() as u64);
    Ok(Run::new(&calls, each, floor))
}

/// Adds repetitions to a report, with this suffix of each name.
pub(crate) fn report(report: &mut Report, what: &str, one: &str, suffix: &str, runs: &[Run]) {
    let of = |field: fn(&Run) -> f64| runs.iter().map(field).collect::<Vec<_>>();
    report.beside(format!("{what}_per_s{suffix}"), of(|run| run.per_s), of(|run| run.floor.xadd_per_s));
    report.figure(format!("floor_ratio{suffix}"), of(|run| run.per_s / run.floor.xadd_per_s));
    costs(report, one, suffix, runs);
}

/// Adds repetitions of calls at a rate. Below a share of about 0.98 the pool, or this machine, cannot keep up: the
/// times then measure the length of the run.
pub(crate) fn report_offered(report: &mut Report, one: &str, suffix: &str, rate: u64, runs: &[Run]) {
    let shares = runs.iter().map(|run| run.per_s / rate as f64).collect();
    report.figure(format!("share_of_offered{suffix}"), shares);
    costs(report, one, suffix, runs);
}

fn costs(report: &mut Report, one: &str, suffix: &str, runs: &[Run]) {
    let of = |field: fn(&Run) -> f64| runs.iter().map(field).collect::<Vec<_>>();
    report.beside(format!("p50_ms{suffix}"), of(|run| run.p50_ms), of(|run| run.floor.ping_ms));
    report.figure(format!("p99_ms{suffix}"), of(|run| run.p99_ms));
    report.figure(format!("redis_us_per_{one}{suffix}"), of(|run| run.each.redis_us));
    report.figure(format!("commands_per_{one}{suffix}"), of(|run| run.each.commands));
    report.figure(format!("bytes_per_{one}{suffix}"), of(|run| run.each.bytes));
    report.figure(format!("producer_us_per_{one}{suffix}"), of(|run| run.each.producer_us));
    report.figure(format!("workers_us_per_{one}{suffix}"), of(|run| run.each.workers_us));
}

/// The suffix of a figure's name for this number of callers; empty for the largest number.
pub(crate) fn suffix(callers: u64) -> String {
    match callers {
        1_000.. => String::new(),
        1 => "_1_caller".to_owned(),
        callers => format!("_{callers}_callers"),
    }
}
