//! The node of `tenure host`: the guard's child, and the parent of its hosts' keepers if it has any.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use futures::future::{join_all, try_join_all};
use tenure_pool::{CloseReport, Error, Node, Settings};
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::watch;

use super::figures::Figures;
use super::handler::{Gate, Handler, Times};
use super::hosts::Hosts;
use super::link::Link;
use super::means::Means;
use super::members::Members;
use super::options::Host;
use super::wire::down::Down;
use super::worker::{Serves, farewell};
use crate::args::Global;
use crate::connect::Place;
use crate::exit::{Code, Failure};
use crate::probes::Probes;
use crate::work::guard::Guarded;
use crate::work::node::run_below_guard;

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
    let place = Place::of(global)?;
    let (means, writer) = Means::of(&host, &guarded).await?;

    let Host { time, .. } = &host;
    // Before the wait for Redis: the process lives meanwhile.
    let probes = host.place.listen.map(Probes::start).transpose()?;
    let mut builder = place.worker_builder().await?.name(host.place.name_or("host"));
    if let Some(ttl) = host.place.ttl {
        builder = builder.worker_ttl(ttl);
    }
    // The pool aborts a job only after all that is done for it in order.
    let mut last = time.grace + time.handoff + MARGIN;
    if let Means::Peers(..) = means {
        // The end of a peer's jobs comes when the lease that it was told is over, with its margin.
        last += ttl_of(&place, host.place.ttl).await?;
    }
    let node = builder.start_timeout(time.start_timeout + last).stop_timeout(last).join().await?;
    let members = Members::new(host.place.workers);
    if let Some(probes) = probes {
        let members = members.clone();
        probes.joined(&node, move || members.lack());
    }
    let leaving = node.close_on_signal(host.place.drain);

    let ttl = node.settings().worker_ttl;
    let source = means.source(&host, guarded, &place.pool, &node)?;
    let (hello_timeout, deadline) = (time.hello_timeout, time.host_deadline);
    let pool = place.pool.clone();
    let hosts = Arc::new(Hosts { source, pool, node: node.clone(), ttl, hello_timeout, deadline });
    let times = Times { ttl, start: time.start_timeout, grace: time.grace };
    let workers: Vec<_> = (0..host.place.workers)
        .map(|number| {
            let (gate, seen) = watch::channel(Gate::Coming);
            let handler = Handler::new(node.clone(), seen, times);
            let (hosts, node) = (hosts.clone(), node.clone());
            let (max_jobs, handoff) = (host.place.max_jobs, time.handoff);
            let members = members.clone();
            let figures = Figures::new(&place.pool, node.name(), number);
            Serves { number, hosts, node, gate, handler, members, max_jobs, handoff, figures }
        })
        .collect();
    let working = work(workers, &hosts, &node, (&place.pool, host.place.drain), leaving);
    let (is_complete, failed) = working.await?;
    drop(hosts);
    if let Some(writer) = writer {
        tokio::task::spawn_blocking(|| writer.end()).await.ok();
    }
    match failed {
        Some(failure) => Err(failure),
        None if is_complete => Ok(Code::Done),
        None => Ok(Code::Failed),
    }
}

/// The worker TTL of the pool, which need not exist.
async fn ttl_of(place: &Place, given: Option<Duration>) -> Result<Duration, Failure> {
    if let Some(given) = given {
        return Ok(given);
    }
    match place.inspector().await {
        Ok(inspector) => Ok(inspector.settings().await?.worker_ttl),
        Err(failure) if failure.code == Code::NotFound => Ok(Settings::default().worker_ttl),
        Err(failure) => Err(failure),
    }
}

/// Serves with all workers until the node has left. Says whether it left in order, and why it cannot serve.
async fn work(
    workers: Vec<Serves>,
    hosts: &Hosts,
    node: &Node,
    (pool, drain): (&str, Duration),
    leaving: impl Future<Output = Result<CloseReport, Error>>,
) -> Result<(bool, Option<Failure>), Failure> {
    let mut told = signal(SignalKind::terminate())?;
    let gates: Vec<_> = workers.iter().map(|worker| worker.gate.subscribe()).collect();
    let tell_all = async {
        told.recv().await;
        hosts.close();
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
    let what = if hosts.are_peers() { "hosts may attach" } else { "the hosts are started" };
    tracing::info!(node = node.name(), pool, workers = count, "{what}");
    let mut leaving = std::pin::pin!(leaving);
    let (report, failed) = tokio::select! {
        biased;
        report = &mut leaving => (report?, None),
        worked = working => match worked {
            Ok(()) => (node.close_within(drain).await?, None),
            Err(failure) => (node.close_within(drain).await?, Some(failure)),
        },
        // Nobody new can connect. The jobs that there are go on elsewhere, in order.
        why = hosts.lost() => {
            tracing::error!(why, "the node leaves");
            hosts.close();
            (node.close_within(drain).await?, Some(Failure::new(Code::Failed, why)))
        }
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
