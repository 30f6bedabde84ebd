//! `tenure rebalance`.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::time::{Duration, Instant};

use clap::Args;
use serde::Serialize;
use tenure_pool::Inspector;
use tenure_pool::inspect::NodeStatus;

use super::Session;
use crate::args::{Steer, number, time};
use crate::exit::{Code, Failure};
use crate::out::List;
use crate::out::progress::Progress;
use crate::signals;
use crate::view::moves::{Forecast, Share, forecast};

/// The pause between two looks at all jobs.
const PAUSE: Duration = Duration::from_secs(1);

/// Show which jobs are to move and how fast they do, limit that, or have them move now
#[derive(Args, Debug)]
pub(crate) struct Rebalance {
    /// The most jobs of the whole pool that may move in a second from now on; 0 is no limit
    #[arg(long, value_name = "N", value_parser = number(0..=1_000_000_u32))]
    rate: Option<u32>,
    /// Have all of them move now: once, without a wait and at no rate
    #[arg(long)]
    now: bool,
    /// Wait until every job is where it belongs, and has started there
    #[arg(long)]
    wait: bool,
    /// How long to wait. The jobs go on moving after that
    #[arg(long, value_name = "TIME", value_parser = time, default_value = "5m", requires = "wait")]
    within: Duration,
    #[command(flatten)]
    steer: Steer,
}

#[derive(Serialize)]
struct Answer {
    jobs: u64,
    /// Those of them that are to move.
    astray: u64,
    /// How many have moved in a second, between two looks. None without two.
    per_second: Option<f64>,
    /// The pool's limit. None if there is none.
    rate: Option<u32>,
    on_hold: bool,
    dry_run: bool,
    workers: Vec<Share>,
}

impl Rebalance {
    pub(crate) async fn run(self, session: &mut Session) -> Result<Code, Failure> {
        let Self { rate, now, wait, within, steer } = self;
        let operator = session.place()?.operator().await?;
        let pool = operator.inspect();
        if (rate.is_some() || now) && !steer.dry_run {
            if now {
                let astray = look(pool).await?.moves;
                steer.confirm(&format!("{astray} jobs move now, at no rate?"))?;
            }
            let steered = async {
                if let Some(rate) = rate {
                    operator.limit_moves(rate).await?;
                }
                if now { operator.move_now().await } else { Ok(()) }
            };
            let steered = steered.await;
            operator.close().await;
            steered?;
        }
        let (seen, per_second) = if wait {
            let waited = until_placed(pool, Instant::now() + within);
            tokio::select! {
                placed = waited => placed?,
                () = signals::interrupt() => {
                    return Err(Failure::new(Code::Interrupted, "no longer waiting; the jobs go on moving"));
                }
            }
        } else {
            measured(pool).await?
        };
        let settings = pool.settings().await?;
        let (limit, on_hold) = (Some(settings.move_rate).filter(|rate| *rate > 0), settings.hold);
        let Forecast { jobs, moves: astray, workers, .. } = seen;
        let dry_run = steer.dry_run;
        let answer = Answer { jobs, astray, per_second, rate: limit, on_hold, dry_run, workers };
        if session.out.format.is_data() {
            session.out.document(&answer)?;
        } else {
            session.out.line(said(&answer))?;
            List::print(&mut session.out, answer.workers)?;
        }
        Ok(Code::Done)
    }
}

/// The answer in a line.
fn said(answer: &Answer) -> String {
    let Answer { jobs, astray, per_second, rate, on_hold, .. } = answer;
    let speed = per_second.map(|speed| format!("; {speed:.1} a second have moved")).unwrap_or_default();
    let limit = rate.map(|rate| format!("; at most {rate} a second may")).unwrap_or_default();
    let hold = if *on_hold { "; the pool is on hold, so none does" } else { "" };
    format!("{astray} of {jobs} jobs are to move{speed}{limit}{hold}")
}

/// The jobs of each worker, now and once all are where they belong.
async fn look(pool: &Inspector) -> Result<Forecast, Failure> {
    let workers = pool.workers().await?;
    forecast(pool, &workers, |_| false, 0).await
}

/// How many jobs have moved in a second.
fn speed(before: u64, after: u64, time: Duration) -> f64 {
    let moved = u32::try_from(before.saturating_sub(after)).unwrap_or(u32::MAX);
    f64::from(moved) / time.as_secs_f64().max(0.001)
}

/// Two looks, if jobs are to move.
async fn measured(pool: &Inspector) -> Result<(Forecast, Option<f64>), Failure> {
    let (began, first) = (Instant::now(), look(pool).await?);
    if first.moves == 0 {
        return Ok((first, None));
    }
    tokio::time::sleep(PAUSE).await;
    let second = look(pool).await?;
    let speed = speed(first.moves, second.moves, began.elapsed());
    Ok((second, Some(speed)))
}

/// Looks until every job is where it belongs, and its worker has started it.
async fn until_placed(pool: &Inspector, until: Instant) -> Result<(Forecast, Option<f64>), Failure> {
    let (began, mut progress, mut most) = (Instant::now(), Progress::new(), 0);
    loop {
        let seen = look(pool).await?;
        most = most.max(seen.moves);
        let speed = (most > 0).then(|| speed(most, seen.moves, began.elapsed()));
        let rest = if seen.moves + seen.between > 0 {
            Rest { to_move: seen.moves, between: seen.between, to_start: 0 }
        } else {
            let Some(to_start) = coming(pool, until).await? else {
                return Err(late("their start is not known"));
            };
            if to_start == 0 {
                return Ok((seen, speed));
            }
            Rest { to_start, ..Rest::default() }
        };
        if Instant::now() >= until {
            return Err(late(&rest.to_string()));
        }
        progress.show(|| format!("{rest}, of {most} that were to move"));
        tokio::time::sleep(PAUSE).await;
    }
}

fn late(what: &str) -> Failure {
    Failure::new(Code::Late, format!("the jobs are not all in their places: {what}; they go on moving"))
}

/// The jobs that are not in their places.
#[derive(Default)]
struct Rest {
    to_move: u64,
    between: u64,
    to_start: u64,
}

impl fmt::Display for Rest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { to_move, between, to_start } = self;
        match (to_move, between) {
            (0, 0) => write!(f, "{to_start} are still to start"),
            (_, 0) => write!(f, "{to_move} are still to move"),
            _ => write!(f, "{to_move} are still to move, and {between} are between two workers"),
        }
    }
}

/// How many jobs have come to workers that have not started them, as all nodes say from now on. `None`: not all have said so
/// in time.
async fn coming(pool: &Inspector, until: Instant) -> Result<Option<u64>, Failure> {
    let mut heard = Heard::default();
    loop {
        if let Some(jobs) = heard.hear(&pool.statuses().await?) {
            return Ok(Some(jobs));
        }
        if Instant::now() >= until {
            return Ok(None);
        }
        tokio::time::sleep(PAUSE / 4).await;
    }
}

/// The words of the nodes about themselves, from the first look on.
#[derive(Default)]
struct Heard {
    /// For each node of a shard how old it was when it spoke last, and how often it has spoken since the first look.
    nodes: BTreeMap<(usize, String), (Duration, u32)>,
}

impl Heard {
    /// The jobs that have come and not started, once every node has spoken twice anew: the first word may have been on its way
    /// before.
    fn hear(&mut self, nodes: &[NodeStatus]) -> Option<u64> {
        let of = |node: &NodeStatus| (node.shard, node.node.clone());
        let present: BTreeSet<_> = nodes.iter().map(of).collect();
        self.nodes.retain(|node, _| present.contains(node));
        for node in nodes {
            let (age, times) = self.nodes.entry(of(node)).or_insert((node.up, 0));
            if *age != node.up {
                (*age, *times) = (node.up, *times + 1);
            }
        }
        let have_spoken = self.nodes.values().all(|(_, times)| *times >= 2);
        have_spoken.then(|| nodes.iter().flat_map(|node| &node.workers).map(|worker| worker.coming).sum())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_left_is_said() {
        let said = |to_move, between, to_start| Rest { to_move, between, to_start }.to_string();
        assert_eq!(said(3, 0, 0), "3 are still to move");
        assert_eq!(said(0, 2, 0), "0 are still to move, and 2 are between two workers");
        assert_eq!(said(0, 0, 4), "4 are still to start");
    }

    #[test]
    fn the_line_says_how_many_move_and_how_fast() {
        let answer = |astray, per_second, rate, on_hold| {
            let workers = Vec::new();
            said(&Answer { jobs: 400, astray, per_second, rate, on_hold, dry_run: false, workers })
        };
        assert_eq!(answer(0, None, None, false), "0 of 400 jobs are to move");
        assert_eq!(
            answer(12, Some(speed(37, 12, Duration::from_secs(2))), Some(50), false),
            "12 of 400 jobs are to move; 12.5 a second have moved; at most 50 a second may"
        );
        assert_eq!(
            answer(12, Some(0.0), None, true),
            "12 of 400 jobs are to move; 0.0 a second have moved; the pool is on hold, so none does"
        );
    }
}
