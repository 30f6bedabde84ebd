//! Jobs stopped, and jobs notified: the calls answered in a second, and the handlers that have heard of them.

use std::ops::Range;
use std::time::Duration;

use crate::Error;
use crate::arena::{Arena, PAYLOAD, key};
use crate::clock::now_us;
use crate::load::{self, Run, suffix};
use crate::options::Options;
use crate::report::Report;
use crate::tally::Counts;

/// Numbers of callers, and the calls that they make in one repetition.
const LOADS: &[(u64, u64)] = &[(1, 1_500), (16, 8_000), (1_000, 60_000)];
const QUICK: &[(u64, u64)] = &[(1, 20), (16, 64), (1_000, 1_000)];

/// The result of a repetition.
struct Delivered {
    /// Until the calls were answered.
    answered: Run,
    /// Until the handlers had heard of all calls.
    delivered_per_s: f64,
}

pub(crate) async fn stop(options: Options) -> Result<Report, Error> {
    let mut report = Report::new("stop");
    let mut arena = Arena::open(&options).await?;
    for &(callers, jobs) in options.sized(LOADS, QUICK) {
        let mut runs = Vec::new();
        for run in 0..=options.runs() {
            let numbers = arena.fill(if run == 0 { jobs.div_ceil(4) } else { jobs }).await?;
            let producer = arena.producer.clone();
            let stop = move |number| {
                let stop = producer.stop_job(key(number));
                async move { stop.await.map_err(Error::from) }
            };
            let delivered = measure(&mut arena, callers, numbers, stop, |counts| counts.stopped).await?;
            if run > 0 {
                runs.push(delivered);
            }
        }
        write_down(&mut report, "stops", "stop", callers, runs);
    }
    Ok(report)
}

pub(crate) async fn notify(options: Options) -> Result<Report, Error> {
    let mut report = Report::new("notify");
    let mut arena = Arena::open(&options).await?;
    let most = options.sized(LOADS, QUICK).iter().map(|load| load.1).max().unwrap_or_default();
    let jobs = arena.fill(most).await?;
    for &(callers, calls) in options.sized(LOADS, QUICK) {
        let mut runs = Vec::new();
        for run in 0..=options.runs() {
            let calls = if run == 0 { calls.div_ceil(4) } else { calls };
            let producer = arena.producer.clone();
            let notify = move |number| {
                let producer = producer.clone();
                async move { producer.notify(key(number), PAYLOAD.as_slice()).await.map_err(Error::from) }
            };
            let numbers = jobs.start..jobs.start + calls;
            let delivered = measure(&mut arena, callers, numbers, notify, |counts| counts.notified).await?;
            if run > 0 {
                runs.push(delivered);
            }
        }
        write_down(&mut report, "notifications", "notification", callers, runs);
    }
    Ok(report)
}

async fn measure<F, Fut>(
    arena: &mut Arena,
    callers: u64,
    numbers: Range<u64>,
    call: F,
    heard: fn(&Counts) -> u64,
) -> Result<Delivered, Error>
where
    F: Fn(u64) -> Fut + Clone + Send + 'static,
    Fut: Future<Output = Result<(), Error>> + Send,
{
    let count = numbers.end - numbers.start;
    let target = heard(&arena.counts().await?) + count;
    let floor = arena.floor().await?;
    let before = arena.usage().await?;
    let began = now_us();
    let calls = load::call(callers, numbers, call).await?;
    let ended = arena.seen(heard, target).await?;
    let each = arena.usage().await?.each(&before, count);
    let answered = Run::new(&calls, each, floor);
    // The last handler may have heard before its caller was answered.
    let elapsed = Duration::from_micros(ended.saturating_sub(began).max(1));
    Ok(Delivered { answered, delivered_per_s: count as f64 / elapsed.as_secs_f64() })
}

fn write_down(report: &mut Report, what: &str, one: &str, callers: u64, runs: Vec<Delivered>) {
    let suffix = suffix(callers);
    let delivered = runs.iter().map(|run| run.delivered_per_s).collect();
    let answered: Vec<_> = runs.into_iter().map(|run| run.answered).collect();
    let floor = answered.iter().map(|run| run.floor.xadd_per_s).collect();
    report.beside(format!("delivered_per_s{suffix}"), delivered, floor);
    load::report(report, what, one, &suffix, &answered);
}
