//! `tenure drain`.

mod leaving;

use std::time::Duration;

use clap::Args;
use tenure_pool::inspect::WorkerInfo;

use super::Session;
use crate::args::{Named, Steer, time};
use crate::exit::{Code, Failure};
use crate::out::List;
use crate::signals;
use crate::view::moves::forecast;
use crate::view::outcomes;

/// Take workers out of the ring: their nodes hand their jobs on, and remove them for good
#[derive(Args, Debug)]
pub(crate) struct Drain {
    /// A worker by its id, or all workers of a node
    #[arg(value_name = "NODE|WORKER", required = true)]
    named: Vec<Named>,
    /// Wait until they have gone. The exit status is 1 or 8 if a worker is lost meanwhile
    #[arg(long)]
    wait: bool,
    /// How long to wait. They go on draining after that
    #[arg(long, value_name = "TIME", value_parser = time, default_value = "5m", requires = "wait")]
    within: Duration,
    #[command(flatten)]
    steer: Steer,
}

impl Drain {
    pub(crate) async fn run(self, session: &mut Session) -> Result<Code, Failure> {
        let Self { named, wait, within, steer } = self;
        let operator = session.place()?.operator().await?;
        let pool = operator.inspect();
        let workers = pool.workers().await?;
        for name in &named {
            if !workers.iter().any(|worker| name.means(worker)) {
                return Err(Failure::new(Code::NotFound, format!("there is no {name}")));
            }
        }
        let goes = |worker: &WorkerInfo| named.iter().any(|name| name.means(worker));
        let leaving: Vec<_> = workers.iter().filter(|worker| goes(worker)).cloned().collect();
        if steer.dry_run {
            let forecast = forecast(pool, &workers, goes, 0).await?;
            if session.out.format.is_data() {
                session.out.document(&forecast)?;
            } else {
                let (count, moves, jobs) = (leaving.len(), forecast.moves, forecast.jobs);
                session
                    .out
                    .line(format!("workers that would drain: {count}; {moves} of {jobs} jobs move"))?;
                List::print(&mut session.out, forecast.workers)?;
            }
            return Ok(Code::Done);
        }
        steer.confirm(&format!("workers to drain: {}; drain them all?", leaving.len()))?;
        let watched = if wait { Some(leaving::Leaving::begin(pool, &leaving).await?) } else { None };
        let drained = operator.drain_all(&leaving).await;
        operator.close().await;
        let drained = drained?;
        let ids = leaving.iter().map(|worker| worker.id.0).collect();
        let mut answer = outcomes::Leaving { workers: ids, drained, gone: false };
        if let Some(mut watched) = watched {
            let stopped = tokio::select! {
                gone = tokio::time::timeout(within, watched.gone()) => match gone {
                    Ok(gone) => {
                        gone?;
                        None
                    }
                    Err(_) => Some((Code::Late, "the workers have not gone in time; they go on draining")),
                },
                () = signals::interrupt() => {
                    Some((Code::Interrupted, "no longer waiting; the workers go on draining"))
                }
            };
            if let Some((code, why)) = stopped {
                return Err(watched.unfinished(code, why));
            }
            answer.gone = true;
        }
        let state = if answer.gone { "have gone" } else { "drain" };
        session.out.one(&answer, format!("workers that {state}: {drained}"))?;
        Ok(Code::Done)
    }
}
