//! The traffic of idle nodes: the commands of three pools without users, one without jobs, one with jobs, and one with
//! twice the nodes.
//!
//! `INFO` counts all commands of the server; commands of scripts appear in `MONITOR` and are subtracted. The rest came
//! from clients.

use std::time::Duration;

use futures::StreamExt;
use redis::pipe;
use tenure_pool::JobState;
use tokio::time::sleep;

use crate::Error;
use crate::arena::Arena;
use crate::options::Options;
use crate::report::Report;

/// The allowed excess of a pool with jobs over one without, as a share, because timers have jitter. One command a
/// minute for each 1,000 jobs would be nine times as much.
const ALLOWED: f64 = 0.02;
/// Longer than any after-effect of a start: a blocking read, a sweep, a renewal.
const REST: Duration = Duration::from_secs(15);
/// The time for which commands are counted: in a minute, timers alone make a difference of 2 %.
const TIME: Duration = Duration::from_secs(180);
/// The marks around the counted commands.
const MARKS: [&str; 2] = ["count-from-here", "count-to-here"];

pub(crate) async fn run(options: Options) -> Result<Report, Error> {
    let jobs = options.sized(100_000, 200);
    // Side by side: the nodes' periodic work falls on the same age of all pools.
    let (mut empty, mut full, mut large) =
        tokio::try_join!(Arena::open(&options), Arena::open(&options), Arena::open(&options))?;
    large.add_processes(2, 2).await?;
    full.fill(jobs).await?;
    sleep(options.sized(REST, Duration::from_millis(500))).await;
    let running = full.jobs().await?.iter().filter(|job| job.state == JobState::Running).count() as u64;
    tokio::try_join!(empty.producer.close(), full.producer.close(), large.producer.close())?;

    let time = options.sized(TIME, Duration::from_secs(2));
    // In parts, to get a spread.
    let part = time / u32::try_from(options.runs())?;
    let mut counts = [const { Vec::new() }; 3];
    for _ in 0..options.runs() {
        let (without, with, twice) =
            tokio::try_join!(count(&mut empty, part), count(&mut full, part), count(&mut large, part),)?;
        for (counts, commands) in counts.iter_mut().zip([without, with, twice]) {
            counts.push(commands as f64);
        }
    }
    let [without, with] = [&counts[0], &counts[1]].map(|counts| counts.iter().sum::<f64>());
    let [empty, full, large] =
        counts.map(|counts| counts.iter().map(|count| count / part.as_secs_f64()).collect());
    let mut report = Report::new("idle");
    report.figure("jobs", vec![jobs as f64]);
    report.figure("commands_per_s_without_jobs", empty);
    report.figure("commands_per_s", full);
    report.figure("commands_per_s_4_nodes", large);
    report.figure("difference_percent", vec![(with / without - 1.0) * 100.0]);
    if running != jobs {
        return Err(format!("{running} of {jobs} jobs run").into());
    }
    if !options.quick && with / without - 1.0 > ALLOWED {
        return Err(format!("{with} commands with {jobs} jobs, {without} without").into());
    }
    Ok(report)
}

/// The commands that clients send in this time.
pub(crate) async fn count(arena: &mut Arena, time: Duration) -> Result<u64, Error> {
    let Arena { server, redis, .. } = arena;
    let mut monitor = redis::Client::open(server.url())?.get_async_monitor().await?;
    let mut lines = monitor.on_message::<String>();
    let seen = async {
        let (mut counting, mut inside) = (false, 0);
        while let Some(line) = lines.next().await {
            if line.contains(MARKS[1]) {
                return Ok(inside);
            } else if line.contains(MARKS[0]) {
                counting = true;
            } else if counting && line.contains(" lua] ") {
                inside += 1;
            }
        }
        Err::<u64, Error>("the monitor has ended".into())
    };
    let counted = async {
        // A mark and its count are one transaction: no command of others comes between them.
        let (before,): (String,) = pipe()
            .atomic()
            .cmd("ECHO")
            .arg(MARKS[0])
            .ignore()
            .cmd("INFO")
            .arg("commandstats")
            .query_async(redis)
            .await?;
        sleep(time).await;
        let (after,): (String,) = pipe()
            .atomic()
            .cmd("INFO")
            .arg("commandstats")
            .cmd("ECHO")
            .arg(MARKS[1])
            .ignore()
            .query_async(redis)
            .await?;
        // The first INFO and its EXEC, and the second MULTI.
        Ok::<_, Error>(commands(&after) - commands(&before) - 3)
    };
    let (inside, within) = tokio::try_join!(seen, counted)?;
    Ok(within - inside)
}

/// The number of commands that the server has run, those in scripts included, as its `INFO commandstats` says.
fn commands(info: &str) -> u64 {
    let calls = info.lines().filter_map(|line| {
        let (_, stats) = line.strip_prefix("cmdstat_")?.split_once(":calls=")?;
        stats.split(',').next()?.parse::<u64>().ok()
    });
    calls.sum()
}
