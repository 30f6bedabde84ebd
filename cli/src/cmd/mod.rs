//! The commands, one file each: its options, and what it does.

#![allow(clippy::doc_markdown, reason = "these texts are the help")]
#![allow(clippy::large_enum_variant, reason = "there is one command in a process")]

mod bench;
mod bulk;
mod completions;
mod cordon;
mod ctx;
pub(crate) mod dispatch;
mod doctor;
mod drain;
mod events;
mod explain;
mod fleet;
mod get;
mod line;
mod ls;
mod man;
mod many;
mod nodes;
mod rebalance;
mod schedules;
mod settings;
mod shutdown;
mod simulate;
pub(crate) mod steer;
mod talk;
mod version;
mod wait;
mod watch;

use clap::Subcommand;
use tenure_pool::error::IdError;
use tenure_pool::id::{DispatchId, NodeName};
use tenure_pool::{JobKey, Ticket};

pub(crate) use self::line::Cli;
use crate::act::How;
use crate::args::Global;
use crate::connect::{Session, close};
use crate::exit::{Code, Failure};
use crate::host::Host;
use crate::out::Out;
use crate::serve::Serve;
use crate::top::Top;
use crate::work::{Ctl, Work};

/// A command.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    Ls(ls::Ls),
    Get(get::Get),
    Explain(explain::Explain),
    Events(events::Events),
    History(events::History),
    /// Start a job, or many from a file, and wait until they have started
    Dispatch(dispatch::Dispatch),
    /// As dispatch, but a job that is there already is fine
    Ensure(dispatch::Dispatch),
    /// As dispatch, but wait only until the pool has accepted the job
    Submit(dispatch::Dispatch),
    Wait(wait::Wait),
    Stop(steer::Stop),
    Retry(steer::Retry),
    Bounce(steer::Bounce),
    Park(steer::Park),
    Pause(steer::Pause),
    Resume(steer::Resume),
    Update(talk::Update),
    Notify(talk::Notify),
    Ask(talk::Ask),
    Workers(fleet::Workers),
    Nodes(fleet::Nodes),
    Ring(fleet::Ring),
    Simulate(simulate::Simulate),
    Drain(drain::Drain),
    Rebalance(rebalance::Rebalance),
    /// Give no new job to a node's workers: they keep what they have
    Cordon(cordon::Cordon),
    /// Lift the cordon of a node
    Uncordon(cordon::Cordon),
    /// Start no job from now on, while a dependency is down
    Hold(settings::Hold),
    /// Lift the hold of the pool
    Unhold(settings::Hold),
    #[command(subcommand)]
    Settings(settings::Settings),
    Schedules(schedules::Schedules),
    Shutdown(shutdown::Shutdown),
    Doctor(doctor::Doctor),
    Serve(Serve),
    Bench(bench::Bench),
    Top(Top),
    Work(Box<Work>),
    Host(Box<Host>),
    #[command(subcommand)]
    Ctl(Ctl),
    #[command(subcommand)]
    Ctx(ctx::Ctx),
    Completions(completions::Completions),
    Man(man::Man),
    Version(version::Version),
}

/// The dispatch of a key with this id of a caller: it is the same from every node.
///
/// # Errors
/// The id is not valid.
fn ticket(key: &JobKey, id: &str) -> Result<Ticket, IdError> {
    Ok(Ticket { key: key.clone(), id: DispatchId::of_caller(&NodeName::new("cli")?, id)? })
}

impl Command {
    /// Runs the command to its end.
    ///
    /// # Errors
    /// The command failed.
    pub(crate) fn run(self, global: Global) -> Result<Code, Failure> {
        // They have no runtime, or one of their own.
        match self {
            Self::Work(work) => return work.run(&global),
            Self::Host(host) => return host.run(&global),
            Self::Serve(serve) => return serve.run(&global),
            Self::Ctl(ctl) => return ctl.run(),
            _ => {}
        }
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
        let mut session = Session { out: Out::new(global.output, global.utc), global };
        let done = runtime.block_on(self.run_in(&mut session));
        let flushed = session.out.flush();
        // A look-up of a host name may hang, and nothing waits for it.
        runtime.shutdown_background();
        let code = done?;
        flushed?;
        Ok(code)
    }

    async fn run_in(self, session: &mut Session) -> Result<Code, Failure> {
        match self {
            Self::Ls(ls) => ls.run(session).await,
            Self::Get(get) => get.run(session).await,
            Self::Explain(explain) => explain.run(session).await,
            Self::Events(events) => events.run(session).await,
            Self::History(history) => history.run(session).await,
            Self::Dispatch(dispatch) => dispatch.run(session, How::Dispatch).await,
            Self::Ensure(dispatch) => dispatch.run(session, How::Ensure).await,
            Self::Submit(dispatch) => dispatch.run(session, How::Submit).await,
            Self::Wait(wait) => wait.run(session).await,
            Self::Stop(stop) => stop.run(session).await,
            Self::Retry(retry) => retry.run(session).await,
            Self::Bounce(bounce) => bounce.run(session).await,
            Self::Park(park) => park.run(session).await,
            Self::Pause(pause) => pause.run(session).await,
            Self::Resume(resume) => resume.run(session).await,
            Self::Update(update) => update.run(session).await,
            Self::Notify(notify) => notify.run(session).await,
            Self::Ask(ask) => ask.run(session).await,
            Self::Workers(workers) => workers.run(session).await,
            Self::Nodes(nodes) => nodes.run(session).await,
            Self::Ring(ring) => ring.run(session).await,
            Self::Simulate(simulate) => simulate.run(session).await,
            Self::Drain(drain) => drain.run(session).await,
            Self::Rebalance(rebalance) => rebalance.run(session).await,
            Self::Hold(hold) => hold.run(session, true).await,
            Self::Unhold(hold) => hold.run(session, false).await,
            Self::Settings(settings) => settings.run(session).await,
            Self::Schedules(schedules) => schedules.run(session).await,
            Self::Doctor(doctor) => doctor.run(session).await,
            Self::Bench(bench) => bench.run(session).await,
            Self::Top(top) => top.run(session).await,
            Self::Cordon(cordon) => cordon.run(session, true).await,
            Self::Uncordon(cordon) => cordon.run(session, false).await,
            Self::Shutdown(shutdown) => shutdown.run(session).await,
            Self::Work(work) => work.run(&session.global),
            Self::Host(host) => host.run(&session.global),
            Self::Serve(serve) => serve.run(&session.global),
            Self::Ctl(ctl) => ctl.run(),
            Self::Ctx(ctx) => ctx.run(session),
            Self::Completions(completions) => completions.run(session),
            Self::Man(man) => man.run(session),
            Self::Version(version::Version {}) => version::run(session),
        }
    }
}
