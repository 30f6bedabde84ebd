//! The node of `tenure work`: the guard's child, and the parent of all keepers.

use std::collections::BTreeMap;
use std::env;
use std::fs;
use std::future::Future;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use rustix::process::{Pid, Resource, Rlimit, getrlimit, setrlimit};
use tenure_pool::Node;
use tokio::sync::Semaphore;

use super::able::{self, Able};
use super::cgroup::Groups;
use super::guard::{Guarded, LOST};
use super::handler::{Handler, Shared, Talks};
use super::launch::{Confines, MEMORY};
use super::logs::Target;
use super::options::{CgroupMode, Confining, Membership, Ready, Work};
use super::place;
use super::plan::{self, Facts};
use super::run::EXTENDED_MAX;
use super::shim::LAST_SECONDS;
use super::starter::{Outlet, Starter};
use crate::args::Global;
use crate::connect::{Place, node_name};
use crate::exit::{Code, Failure};
use crate::journal;
use crate::probes::Probes;

/// The time that the node needs beside the grace of its jobs to have them dead.
const MARGIN: Duration = Duration::from_secs(3);
/// How often it is seen whether the node's workers were drained.
const LOOK: Duration = Duration::from_millis(500);

/// Runs the node to its end.
///
/// # Errors
/// The command line does not fit, or the pool cannot be joined.
pub(super) fn run(work: Work, global: &Global, guarded: &Guarded) -> Result<Code, Failure> {
    let level = work.log.log_level;
    run_below_guard(&guarded.folder, level, serve(work, global, guarded.clone()))
}

/// Runs a node as the child of its guard, and logs to standard error.
///
/// # Errors
/// Those of the node, or there is no thread.
pub(crate) fn run_below_guard(
    folder: &Path,
    log_level: tracing::Level,
    node: impl Future<Output = Result<Code, Failure>>,
) -> Result<Code, Failure> {
    journal::log(log_level)?;
    let _lock = place::lock(folder)?;
    end_with_guard(folder.to_owned())?;
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let code = runtime.block_on(node);
    // A look-up of a host name may hang, and nothing waits for it.
    runtime.shutdown_background();
    code
}

/// Ends this process when its guard has ended. All keepers see that, and kill.
fn end_with_guard(folder: PathBuf) -> io::Result<()> {
    let watch = move || {
        let mut bytes = [0; 64];
        loop {
            match io::stdin().lock().read(&mut bytes) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Ok(1..) => {}
                Ok(0) | Err(_) => {
                    let _ = fs::remove_dir_all(&folder);
                    journal::exit(LOST);
                }
            }
        }
    };
    thread::Builder::new().name("guard".to_owned()).spawn(watch).map(drop)
}

async fn serve(work: Work, global: &Global, guarded: Guarded) -> Result<Code, Failure> {
    let place = Place::of(global)?;
    able::sockets(&guarded.folder).map_err(Failure::usage)?;
    if let Some(program) = work.command.first() {
        let unfit = |why| Failure::new(Code::Unfit, format!("the program cannot be started: {why}"));
        able::program(program).map_err(unfit)?;
    }
    let groups = work.confine.groups(guarded.guard)?;
    let nofile = raise_nofile();
    let (outlet, writer) = Outlet::open(&work.log, usual_target)?;

    // Before the wait for Redis: the process lives meanwhile.
    let probes = work.place.listen.map(Probes::start).transpose()?;
    let mut builder = place.worker_builder().await?;
    builder = builder.name(work.place.name_or("work"));
    if let Some(ttl) = work.place.ttl {
        builder = builder.worker_ttl(ttl);
    }
    // A program that is late is stopped by its run, which has all the time for that.
    let longest = match work.start.ready {
        Ready::Exec => work.start.start_timeout,
        Ready::Notify => work.start.start_timeout.max(EXTENDED_MAX),
    };
    let last = work.stop.grace + MARGIN;
    let builder = builder.start_timeout(longest + last).stop_timeout(last);
    let node = builder.join().await?;
    let able = Arc::new(Able::default());
    if let Some(probes) = probes {
        let able = able.clone();
        probes.joined(&node, move || able.lack());
    }
    let leaving = node.close_on_signal(work.place.drain);

    let ttl = node.settings().worker_ttl;
    let starter = Starter::new(ttl, guarded, groups, outlet)?;
    let confines = work.confine.confines(nofile);
    let facts = Facts {
        pool: place.pool.clone(),
        node: node.name().to_owned(),
        ttl,
        unset: plan::unset(&work.start.pass_env),
        confines,
    };
    let parallel = thread::available_parallelism().map_or(2, usize::from) * 2;
    let starts = Semaphore::new(work.start.start_parallel.map_or(parallel, usize::from));
    let work = Arc::new(work);
    let talks = Talks::default();
    let handler = Handler { work: work.clone(), facts, starter, starts, talks, able, node: node.clone() };
    let handler = Arc::new(handler);
    let working = async {
        let mut workers = Vec::new();
        for _ in 0..work.place.workers {
            let adding = node.add_worker(Shared(handler.clone())).meta("tenure-work");
            let adding = match work.place.max_jobs {
                Some(jobs) => adding.capacity(jobs),
                None => adding,
            };
            workers.push(adding.await?);
        }
        tracing::info!(node = node.name(), pool = place.pool, workers = workers.len(), "ready for jobs");
        // Drained by another node, they have left for good.
        while workers.iter().any(|worker| worker.ids().iter().any(Option::is_some)) {
            tokio::time::sleep(LOOK).await;
        }
        Ok::<_, Failure>(())
    };
    let mut leaving = std::pin::pin!(leaving);
    let report = tokio::select! {
        report = &mut leaving => report,
        worked = working => {
            worked?;
            tracing::info!(node = node.name(), "all workers have left, the node leaves, too");
            node.close_within(work.place.drain).await
        }
    }?;
    drop(handler);
    if let Some(writer) = writer {
        tokio::task::spawn_blocking(|| writer.end()).await.ok();
    }
    if report.complete { Ok(Code::Done) } else { Ok(Code::Failed) }
}

impl Membership {
    /// The node's name: the one that is given, or one for this kind of node.
    pub(crate) fn name_or(&self, kind: &str) -> String {
        let pod = || env::var("POD_NAME").ok().filter(|name| !name.is_empty());
        self.name.clone().or_else(pod).unwrap_or_else(|| node_name(kind))
    }
}

impl Confining {
    /// The groups of the node's programs, if they have any.
    ///
    /// # Errors
    /// They must have them, and cannot.
    pub(crate) fn groups(&self, guard: Pid) -> Result<Option<Groups>, Failure> {
        match self.cgroup {
            CgroupMode::Off => Ok(None),
            CgroupMode::Auto => Ok(Groups::make(guard)
                .inspect_err(|error| tracing::debug!(%error, "jobs have no cgroups here"))
                .ok()),
            CgroupMode::Require => Groups::make(guard).map(Some).map_err(|error| {
                Failure::new(Code::Failed, format!("jobs cannot have cgroups here: {error}"))
            }),
        }
    }

    /// The limits of a program without a cgroup of its own.
    pub(crate) fn confines(&self, nofile: Option<u64>) -> Confines {
        let mut limits: BTreeMap<_, _> = self.limit.iter().cloned().collect();
        let memory = limits.remove(MEMORY);
        let hard = getrlimit(Resource::Cpu).maximum;
        if let (Some(wanted), Some(hard)) = (limits.get("cpu"), hard)
            && hard < wanted.saturating_add(LAST_SECONDS)
        {
            tracing::warn!(
                wanted,
                hard,
                "the node has a hard limit of processor time near cpu or below it: programs are killed at that one"
            );
        }
        Confines { cgroup: None, memory, limits, nofile, nice: self.nice }
    }
}

/// Lets this process have as many files as it may, because each job needs some. Returns the former limit.
pub(crate) fn raise_nofile() -> Option<u64> {
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    // The old limit serves if the new one is refused.
    let _ = setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum });
    current
}

pub(crate) fn usual_target() -> Target {
    if io::IsTerminal::is_terminal(&io::stdout()) { Target::Prefix } else { Target::Json }
}

impl Place {
    /// A builder of a node that runs jobs. The pool need not exist.
    ///
    /// # Errors
    /// Redis does not answer for a minute, or refuses.
    pub(crate) async fn worker_builder(&self) -> Result<tenure_pool::NodeBuilder, Failure> {
        // It finds the number of shards of a pool that exists.
        let found = self.inspector_in_time().await?;
        let shards = found.map_or(1, |inspector| u32::try_from(inspector.shards()).unwrap_or(u32::MAX));
        let builder = Node::builder(&self.pool, &self.client);
        Ok(if shards > 1 { builder.shards(shards) } else { builder })
    }
}
