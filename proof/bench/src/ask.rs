//! Jobs asked: beside a dispatch of the same minute, as many as can be, and while all jobs move to another worker.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use tenure_pool::AskError;

use crate::Error;
use crate::arena::{Arena, PATIENCE, PAYLOAD, key};
use crate::load::{self, suffix};
use crate::options::Options;
use crate::report::Report;

/// Numbers of callers, and the asks that they make in one repetition.
const LOADS: &[(u64, u64)] = &[(1, 1_500), (16, 8_000), (1_000, 60_000)];
const QUICK: &[(u64, u64)] = &[(1, 20), (16, 64), (1_000, 1_000)];
/// The dispatches that the asks of one caller stand beside.
const DISPATCHES: (u64, u64) = (1_500, 20);
/// The jobs that are asked.
const JOBS: (u64, u64) = (1_000, 50);
/// The jobs that move, the asks a second meanwhile, and how long they are made.
const MOVED: (u64, u64) = (10_000, 200);
const RATE: (u64, u64) = (1_000, 200);
const TIME: (u64, u64) = (10, 1);
/// How long the asks go on before the drain.
const BEFORE: Duration = Duration::from_millis(500);
/// No job moves by itself.
const NEVER_MS: u64 = 3_600_000;

pub(crate) async fn run(options: Options) -> Result<Report, Error> {
    let mut report = Report::new("ask");
    let mut arena = Arena::open(&options).await?;
    let jobs = arena.fill(options.sized(JOBS.0, JOBS.1)).await?;
    for &(callers, asks) in options.sized(LOADS, QUICK) {
        let (mut runs, mut dispatches) = (Vec::new(), Vec::new());
        for run in 0..=options.runs() {
            if callers == 1 {
                let dispatched = dispatch(&mut arena, options.sized(DISPATCHES.0, DISPATCHES.1)).await?;
                dispatches.extend((run > 0).then_some(dispatched));
            }
            let (producer, jobs) = (arena.producer.clone(), jobs.clone());
            let ask = move |number: u64| {
                let ask =
                    producer.ask(key(jobs.start + number % (jobs.end - jobs.start)), PAYLOAD.as_slice());
                async move { ask.deadline(PATIENCE).await.map(drop).map_err(Error::from) }
            };
            let asks = if run == 0 { asks.div_ceil(4) } else { asks };
            let measured = load::measure(&mut arena, load::call(callers, 0..asks, ask)).await?;
            runs.extend((run > 0).then_some(measured));
        }
        if callers == 1 {
            let ratio = runs.iter().zip(&dispatches).map(|(run, dispatch)| run.p50_ms / dispatch).collect();
            report.figure("dispatch_p50_ms_1_caller", dispatches);
            report.figure("p50_to_dispatch_1_caller", ratio);
        }
        load::report(&mut report, "asks", "ask", &suffix(callers), &runs);
    }
    drop(arena);
    let mut drains = Vec::new();
    for _ in 0..options.runs() {
        drains.push(Box::pin(drain(&options)).await?);
    }
    let of = |field: fn(&Drained) -> f64| drains.iter().map(field).collect::<Vec<_>>();
    report.figure("drain_asks", of(|drained| drained.asks));
    report.figure("drain_unknown", of(|drained| drained.unknown));
    report.figure("drain_not_handled", of(|drained| drained.not_handled));
    report.figure("drain_worst_ms", of(|drained| drained.worst_ms));
    report.figure("drain_ms", of(|drained| drained.drain_ms));
    Ok(report)
}

/// The p50 of dispatches by one caller, ms.
async fn dispatch(arena: &mut Arena, jobs: u64) -> Result<f64, Error> {
    let producer = arena.producer.clone();
    let dispatch = move |number| {
        let dispatch = producer.dispatch((key(number), PAYLOAD.as_slice()));
        async move { dispatch.await.map_err(Error::from) }
    };
    let numbers = arena.fresh(jobs);
    let run = load::measure(arena, load::call(1, numbers.clone(), dispatch)).await?;
    arena.clear(numbers).await?;
    Ok(run.p50_ms)
}

/// The ends of the asks of jobs that moved.
struct Drained {
    asks: f64,
    unknown: f64,
    not_handled: f64,
    worst_ms: f64,
    drain_ms: f64,
}

#[derive(Default)]
struct Outcomes {
    unknown: AtomicU64,
    not_handled: AtomicU64,
    worst_us: AtomicU64,
}

/// One worker has all jobs and leaves them to another one, while they are asked at a rate.
async fn drain(options: &Options) -> Result<Drained, Error> {
    let mut arena = Arena::without_workers(options, |pool| pool.stable_after_ms = NEVER_MS).await?;
    arena.add_processes(1, 1).await?;
    let jobs = arena.fill(options.sized(MOVED.0, MOVED.1)).await?;
    arena.add_processes(1, 1).await?;
    let rate = options.sized(RATE.0, RATE.1);
    let asks = rate * options.sized(TIME.0, TIME.1);
    let outcomes = Arc::new(Outcomes::default());
    let (producer, counted) = (arena.producer.clone(), outcomes.clone());
    let asking = tokio::spawn(load::offer(rate, 0..asks, move |number| {
        // Neighbours are asked long after each other.
        let number = jobs.start + number * 7_919 % (jobs.end - jobs.start);
        let (ask, counted) = (producer.ask(key(number), PAYLOAD.as_slice()), counted.clone());
        async move {
            let began = Instant::now();
            match ask.await {
                Ok(_) => {}
                Err(AskError::Unknown { .. }) => {
                    counted.unknown.fetch_add(1, Ordering::Relaxed);
                }
                Err(AskError::NotHandled(_)) => {
                    counted.not_handled.fetch_add(1, Ordering::Relaxed);
                }
                Err(error) => return Err(error.into()),
            }
            counted.worst_us.fetch_max(began.elapsed().as_micros() as u64, Ordering::Relaxed);
            Ok(())
        }
    }));
    tokio::time::sleep(BEFORE).await;
    let began = Instant::now();
    arena.workers[0].drain().await?;
    let drain_ms = began.elapsed().as_secs_f64() * 1e3;
    asking.await??;
    let of = |count: &AtomicU64| count.load(Ordering::Relaxed) as f64;
    Ok(Drained {
        asks: asks as f64,
        unknown: of(&outcomes.unknown),
        not_handled: of(&outcomes.not_handled),
        worst_ms: of(&outcomes.worst_us) / 1e3,
        drain_ms,
    })
}
