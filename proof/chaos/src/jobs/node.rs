//! A node of background jobs in a process of its own: its handlers write to the world outside, and end as their kind says.

use std::io::{self, Write};
use std::net::SocketAddr;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime};

use rand::Rng;
use serde::{Deserialize, Serialize};
use tenure_jobs::store::{Breakage, RedisStore, ScriptPatch, Store};
use tenure_jobs::{
    Backoff, BoxError, Client, Ctx, Fatal, Groups, Jobs, JobsBuilder, Outcome, Queue, SetName, State, Worker,
};
use tenure_testing::end_with_parent;
use tokio::signal::unix::{SignalKind, signal};
use tokio::time::sleep;

use super::JobsFault;
use crate::Result;
use crate::process::READY;
use crate::resource::Access;

/// The set of queues.
pub(super) const SET: &str = "chaos";
/// The time without a word after which an execution is lost.
pub(super) const LEASE: Duration = Duration::from_secs(3);
/// How long ended jobs are kept for the judges.
const KEPT: Duration = Duration::from_secs(24 * 60 * 60);
/// The longest time for what runs to end when the node leaves.
const BUDGET: Duration = Duration::from_secs(20);
/// The children of a parent.
pub(super) const CHILDREN: usize = 3;
/// How much earlier than due a job may seem to run, by the rounding of clocks.
const ROUNDING: Duration = Duration::from_millis(5);

/// The part of the protocol that nodes leave out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, clap::ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub enum BrokenJobs {
    /// All executions have the same token, and are not aborted when their leases are over.
    TokensRepeat,
    /// A job whose lease is lost runs no more.
    LostLeasesForgotten,
    /// After a loss of data, nodes say nothing of what they run.
    NothingAttested,
    /// An execution is asked to end, and nobody remembers that its job was cancelled.
    CancelsForgotten,
    /// After a loss of data, nodes do not say what has lately ended there.
    JournalForgotten,
}

impl BrokenJobs {
    /// A fault that shows the missing part.
    pub fn shown_by(self) -> JobsFault {
        match self {
            Self::TokensRepeat => JobsFault::Pause,
            Self::LostLeasesForgotten | Self::CancelsForgotten => JobsFault::Kill,
            Self::NothingAttested => JobsFault::FlushAll,
            Self::JournalForgotten => JobsFault::FailOver,
        }
    }

    fn breakage(self) -> Option<Breakage> {
        match self {
            Self::NothingAttested => Some(Breakage::NothingAttested),
            Self::CancelsForgotten => None,
            Self::JournalForgotten => Some(Breakage::NoJournal),
            Self::TokensRepeat | Self::LostLeasesForgotten => Some(Breakage::NoAbort),
        }
    }

    fn patches(self) -> Vec<ScriptPatch> {
        let (script, from, to) = match self {
            Self::NothingAttested | Self::JournalForgotten => return Vec::new(),
            Self::TokensRepeat => ("take", "unpack(ids)), num(mint())", "unpack(ids)), '7'"),
            Self::LostLeasesForgotten => ("tick", "retry(j, 0, 'lease expired')", "leave(j)"),
            Self::CancelsForgotten => ("steer", "flag(j, 'x')\n    call('SPUBLISH'", "call('SPUBLISH'"),
        };
        // A patch changes the first place that it finds, and plain queues have a place of their own.
        let places = if self == Self::TokensRepeat { 2 } else { 1 };
        vec![ScriptPatch { script, from, to }; places]
    }
}

/// The way in which a job ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Kind {
    /// It ends well.
    Plain,
    /// Its first attempt fails.
    FailsOnce,
    /// It fails for good.
    Fails,
    /// It goes on in another queue, and ends there.
    MovesOn,
    /// It waits for its children.
    Parent,
}

/// The data of a job.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Work {
    pub(crate) kind: Kind,
    /// How long it takes, ms.
    pub(crate) ms: u64,
    /// It ends when it is told to.
    pub(crate) heeds: bool,
}

/// The result of a job: which execution has ended it.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Ended {
    pub(super) token: u64,
    pub(super) holder: String,
    /// How many of its children have ended well.
    pub(super) children: usize,
    pub(super) early: bool,
}

/// The settings of a node's process.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct JobsNodePlan {
    /// The set.
    pub set: String,
    /// The node's name, unique to one life.
    pub name: String,
    /// The address of its Redis.
    pub url: String,
    /// The world outside.
    pub resource: SocketAddr,
    /// The part of the protocol that it leaves out.
    pub broken: Option<BrokenJobs>,
}

/// A node of the set.
pub(crate) fn builder(url: &str, set: &str, name: &str, broken: Option<BrokenJobs>) -> Result<JobsBuilder> {
    let client = Client::open(url)?;
    let builder = match broken {
        None => Jobs::builder(set, client),
        Some(broken) => {
            let store = RedisStore::open_broken(&client, &SetName::new(set)?, &broken.patches());
            let builder = Jobs::over(Arc::new(store) as Arc<dyn Store>);
            match broken.breakage() {
                Some(breakage) => builder.break_with(breakage),
                None => builder,
            }
        }
    };
    let queue = |name: &str| {
        let backoff = Backoff::new(Duration::from_millis(50), Duration::from_millis(200));
        Queue::new(name).lease(LEASE).attempts(0).backoff(backoff).keep(KEPT).keep_failed(KEPT)
    };
    let grouped = queue("work").groups(Groups::new().concurrency(4));
    let few = queue("few").concurrency(2);
    Ok(builder.name(name).queue(grouped).queue(queue("more")).queue(queue("children")).queue(few))
}

/// Joins, reports that the node is ready, and works until the process is told to end.
///
/// # Errors
/// An error of the set.
///
/// # Cancel safety
/// Not safe: what has begun continues.
pub async fn run(plan: JobsNodePlan) -> Result<ExitCode> {
    end_with_parent();
    let mut told = signal(SignalKind::terminate())?;
    let access = Access::open(plan.resource).await?;
    let jobs = join(&plan).await?;
    let workers = [
        worker(&jobs, &["work", "more", "few"], 8, &plan.name, &access)?,
        worker(&jobs, &["children"], 4, &plan.name, &access)?,
    ];
    writeln!(io::stdout(), "{READY}")?;
    told.recv().await;
    for worker in &workers {
        worker.close(BUDGET).await?;
    }
    jobs.close();
    Ok(ExitCode::SUCCESS)
}

/// Joins, also when Redis is away for a moment: that is one of the faults.
async fn join(plan: &JobsNodePlan) -> Result<Jobs> {
    let mut attempts = 0;
    loop {
        match builder(&plan.url, &plan.set, &plan.name, plan.broken)?.join().await {
            Ok(jobs) => return Ok(jobs),
            Err(error) if attempts == 10 => return Err(error.into()),
            Err(_) => attempts += 1,
        }
        sleep(Duration::from_millis(200)).await;
    }
}

fn worker(jobs: &Jobs, queues: &[&str], slots: u32, node: &str, access: &Access) -> Result<Worker> {
    let (node, access, executions) = (node.to_owned(), access.clone(), Arc::new(AtomicU64::new(0)));
    let builder = jobs.worker_of(queues.iter().copied(), move |ctx: Ctx, work: Work| {
        let number = executions.fetch_add(1, Ordering::Relaxed);
        let holder = format!("{node}/{}/{number}", ctx.queue());
        handle(ctx, work, holder, access.clone())
    });
    Ok(builder.slots(slots).start()?)
}

async fn handle(
    ctx: Ctx,
    work: Work,
    holder: String,
    access: Access,
) -> std::result::Result<Outcome, BoxError> {
    let early = ctx.due_at().is_some_and(|due| SystemTime::now() + ROUNDING < due);
    let (id, token) = (ctx.id().to_string(), ctx.token().0);
    let write = async || {
        if access.write(&id, token, &holder).await { Ok(()) } else { Err("a later execution has written") }
    };
    write().await?;
    // Not all take the same time, also when they are tried again.
    let took = rand::rng().random_range(0..=work.ms);
    let told = async { if work.heeds { ctx.cancelled().await } else { std::future::pending().await } };
    tokio::select! {
        () = sleep(Duration::from_millis(took)) => {}
        () = told => return Err("it was told to end".into()),
    }
    let mut children = 0;
    if work.kind == Kind::Parent {
        let ended = ctx.children().await?.unwrap_or_default();
        if ended.len() < CHILDREN {
            // An execution that was cut off has made some of them. None is made twice.
            for number in 0..CHILDREN {
                let child = Work { kind: Kind::Plain, ms: work.ms, heeds: false };
                ctx.spawn("children", &number.to_string(), &child).await?;
            }
            return Ok(Outcome::wait());
        }
        children = ended.iter().filter(|child| child.state == State::Done).count();
    }
    write().await?;
    match work.kind {
        Kind::FailsOnce if ctx.attempt() == 1 => return Err("its first attempt".into()),
        Kind::MovesOn if *ctx.queue() == "work" => return Ok(Outcome::go_on().to("more")),
        Kind::Fails => return Err(Fatal::new(format!("{token} {holder}")).into()),
        _ => {}
    }
    Ok(Outcome::result(&Ended { token, holder, children, early })?)
}
