//! The node of `tenure host`: the guard's child, and the parent of its hosts' keepers.

use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::Duration;

use futures::future::{join_all, try_join_all};
use tenure_pool::{CloseReport, Error, Node};
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::watch;

use super::child::Launcher;
use super::handler::{Gate, Handler, Times};
use super::hosts::Hosts;
use super::link::Link;
use super::options::Host;
use super::wire::down::Down;
use super::worker::{Serves, farewell};
use crate::args::Global;
use crate::connect::Place;
use crate::exit::{Code, Failure};
use crate::probes::Probes;
use crate::work::book::Book;
use crate::work::guard::Guarded;
use crate::work::logs::Writer;
use crate::work::node::{raise_nofile, renew, run_below_guard, usual_target};
use crate::work::plan;

/// The time that the pool gives a job beside what its host has.
const MARGIN: Duration = Duration::from_secs(5);

/// Runs the node to its end.
///
/// # Errors
/// The command line does not fit, the pool cannot be joined, or the hosts cannot serve.
pub(super) fn run(host: Host, global: &Global, guarded: &Guarded) -> Result<Code, Failure> {
    let level = host.log.log_level;
    run_below_guard(&guarded.folder, level, serve(host, global, guarded.clone()))
}

async fn serve(host: Host, global: &Global, guarded: Guarded) -> Result<Code, Failure> {
    let Guarded { guard, folder } = guarded;
    let place = Place::of(global)?;
    let groups = host.confine.groups(guard)?;
    let nofile = raise_nofile();
    let target = host.log.logs.clone().unwrap_or_else(usual_target);
    let writer = Writer::start(&target, host.log.log_max)
        .map_err(|error| Failure::usage(format!("the output of hosts has no place: {error}")))?;
    let (writer, lines) = writer.unzip();

    let Host { time, .. } = &host;
    let mut builder = place.worker_builder().await?.name(host.place.name_or("host"));
    if let Some(ttl) = host.place.ttl {
        builder = builder.worker_ttl(ttl);
    }
    // The pool aborts a job only after all that is done for it in order.
    let last = time.grace + time.handoff + MARGIN;
    let probes = host.place.listen.map(Probes::start).transpose()?;
    let node = builder.start_timeout(time.start_timeout + last).stop_timeout(last).join().await?;
    if let Some(probes) = probes {
        probes.joined(&node);
    }
    let leaving = node.close_on_signal(host.place.drain);

    let ttl = node.settings().worker_ttl;
    let book = Arc::new(Book::new(ttl)?);
    renew(&book, ttl)?;
    let launcher = Launcher {
        command: host.command.clone(),
        pool: place.pool.clone(),
        node: node.name().to_owned(),
        book,
        groups,
        guard,
        folder,
        unset: plan::unset(&host.pass_env),
        confines: host.confine.confines(nofile),
        target,
        lines,
        numbers: AtomicU64::new(0),
    };
    let (hello_timeout, deadline) = (time.hello_timeout, time.host_deadline);
    let pool = place.pool.clone();
    let hosts = Arc::new(Hosts { launcher, pool, node: node.clone(), ttl, hello_timeout, deadline });
    let times = Times { ttl, start: time.start_timeout, grace: time.grace };
    let workers: Vec<_> = (0..host.place.workers)
        .map(|number| {
            let (gate, seen) = watch::channel(Gate::Coming);
            let handler = Handler::new(node.clone(), seen, times);
            let (hosts, node) = (hosts.clone(), node.clone());
            let (max_jobs, handoff) = (host.place.max_jobs, time.handoff);
            Serves { number, hosts, node, gate, handler, max_jobs, handoff }
        })
        .collect();
    drop(hosts);
    let (is_complete, failed) = work(workers, &node, (&place.pool, host.place.drain), leaving).await?;
    if let Some(writer) = writer {
        tokio::task::spawn_blocking(|| writer.end()).await.ok();
    }
    match failed {
        Some(failure) => Err(failure),
        None if is_complete => Ok(Code::Done),
        None => Ok(Code::Failed),
    }
}

/// Serves with all workers until the node has left. Says whether it left in order, and why it cannot serve.
async fn work(
    workers: Vec<Serves>,
    node: &Node,
    (pool, drain): (&str, Duration),
    leaving: impl Future<Output = Result<CloseReport, Error>>,
) -> Result<(bool, Option<Failure>), Failure> {
    let mut told = signal(SignalKind::terminate())?;
    let gates: Vec<_> = workers.iter().map(|worker| worker.gate.subscribe()).collect();
    let tell_all = async {
        told.recv().await;
        let within_ms = u64::try_from(drain.as_millis()).unwrap_or(u64::MAX);
        each_host(&gates, |link| {
            link.send(&Down::Drain { within_ms });
        });
        std::future::pending().await
    };
    let count = workers.len();
    let working = async {
        try_join_all(workers.iter().map(Serves::run)).await?;
        tracing::info!(node = node.name(), "all workers have left, the node leaves, too");
        Ok::<_, Failure>(())
    };
    tracing::info!(node = node.name(), pool, workers = count, "the hosts are started");
    let mut leaving = std::pin::pin!(leaving);
    let (report, failed) = tokio::select! {
        biased;
        report = &mut leaving => (report?, None),
        worked = working => match worked {
            Ok(()) => (node.close_within(drain).await?, None),
            // A worker cannot join a node that leaves.
            Err(failure) if failure.code != Code::Unfit && node.health().leaving => (leaving.await?, None),
            Err(failure) => (node.close_within(drain).await?, Some(failure)),
        },
        never = tell_all => never,
    };
    let mut links = Vec::new();
    each_host(&gates, |link| links.push(link.clone()));
    join_all(links.iter().map(|link| farewell(link))).await;
    Ok((report.complete, failed))
}

/// Calls this with each host that is ready.
fn each_host(gates: &[watch::Receiver<Gate>], mut call: impl FnMut(&Arc<Link>)) {
    for gate in gates {
        if let Gate::Ready(link) = &*gate.borrow() {
            call(link);
        }
    }
}
