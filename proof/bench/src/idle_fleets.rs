//! The cost of fleets without users, by their nodes: the CPU of Redis and of the workers, and the commands.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use tokio::time::sleep;

use crate::Error;
use crate::arena::Arena;
use crate::options::Options;
use crate::report::Report;
use crate::{idle, machine, results};

/// The nodes of each fleet, and the workers of each. Every node hears of every worker that joins, so two cores take too long
/// for more of them.
const FLEETS: &[(usize, usize)] = &[(2, 2), (50, 2), (200, 2), (1_000, 1)];
const FLEETS_QUICK: &[(usize, usize)] = &[(2, 2), (6, 2)];
/// Processes that share the nodes.
const PROCESSES: usize = 2;
/// Longer than any after-effect of a start: a blocking read, a sweep, a renewal.
const REST: Duration = Duration::from_secs(15);
const REST_QUICK: Duration = Duration::from_millis(500);
/// One repetition: each node does all that it does from time to time.
const TIME: Duration = Duration::from_secs(20);
const TIME_QUICK: Duration = Duration::from_secs(2);

/// What a second costs while nobody uses a pool.
pub(crate) struct Second {
    /// CPU time of Redis, µs.
    pub(crate) redis_us: f64,
    /// CPU time of the worker processes, µs.
    pub(crate) workers_us: f64,
    /// Commands from clients, without those that scripts run.
    pub(crate) commands: f64,
}

impl Second {
    /// Measures the times, and then counts the commands for as long: the monitor that counts them costs Redis time.
    pub(crate) async fn of(arena: &mut Arena, time: Duration) -> Result<Self, Error> {
        let before = arena.usage().await?;
        sleep(time).await;
        let used = arena.usage().await?.each(&before, 1);
        let commands = idle::count(arena, time).await? as f64;
        let each = |value: f64| value / time.as_secs_f64();
        let (redis_us, workers_us, commands) = (each(used.redis_us), each(used.workers_us), each(commands));
        Ok(Self { redis_us, workers_us, commands })
    }
}

/// The selected part of the measurements.
#[derive(Args, Debug, Default)]
pub(crate) struct Part {
    /// Only with this many nodes, of 2, 50, 200 and 1000.
    #[arg(long)]
    nodes: Option<usize>,
    /// Also write the figures to idle-fleets.json and idle-fleets.md in this folder.
    #[arg(long)]
    folder: Option<PathBuf>,
}

pub(crate) async fn run(options: Options, part: &Part) -> Result<Report, Error> {
    let mut report = Report::new("idle-fleets");
    let fleets = options.sized(FLEETS, FLEETS_QUICK);
    let chosen = || fleets.iter().filter(|&&(nodes, _)| part.nodes.is_none_or(|only| only == nodes));
    if chosen().next().is_none() {
        return Err("there is no such fleet".into());
    }
    for &(nodes, workers) in chosen() {
        fleet(&mut report, options, nodes, workers).await?;
    }
    if let Some(folder) = &part.folder {
        results::write_one(folder, &machine::describe(&options)?, &report)?;
    }
    Ok(report)
}

async fn fleet(report: &mut Report, options: Options, nodes: usize, workers: usize) -> Result<(), Error> {
    let mut arena = Arena::without_workers(&options, |_| {}).await?;
    arena.add_nodes(PROCESSES, nodes / PROCESSES, workers).await?;
    arena.producer.close().await?;
    sleep(options.sized(REST, REST_QUICK)).await;
    let time = options.sized(TIME, TIME_QUICK);
    let mut repetitions = [const { Vec::new() }; 3];
    for _ in 0..options.runs() {
        let Second { redis_us, workers_us, commands } = Second::of(&mut arena, time).await?;
        for (values, value) in repetitions.iter_mut().zip([redis_us, workers_us, commands]) {
            values.push(value);
        }
    }
    let names = ["redis_us_per_s", "workers_us_per_s", "commands_per_s"];
    for (name, values) in names.into_iter().zip(repetitions) {
        report.figure(format!("{name}_{nodes}_nodes"), values);
    }
    Ok(())
}
