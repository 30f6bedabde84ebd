//! The calls that the engine makes to the store, and their answers. A call comes back with its step, so that the engine
//! can send the step again unchanged.

#![expect(missing_docs, reason = "a call has the name of its step")]

use std::time::Duration;

use crate::core::input::{LocalSchedule, Seating};
use crate::model::id::{Incarnation, JobKey};
use crate::step::{
    Ask, Attend, AttestJobs, Begin, Bootstrap, ChangeSchedule, ClaimPool, CleanUp, Dispatch, Drain, Expire,
    ForgetNode, HoldTurns, Inspect, Join, ListOwned, ListPlanned, LookUp, Notify, NotifyOrStart, OpenNormal,
    Performs, PoolEvent, PruneConsumers, Purge, ReadHeartbeats, ReadNode, ReadPool, ReadState, ReadTime,
    Reap, Recover, Release, Reply, RestoreGroup, Result, Route, Save, Settle, ShutDown, Started, Steer, Step,
    Stop, StoreError, Survey, Sweep, Take, TakeTick, Tell, Unpark, Update,
};

/// A schedule of this node. `round` rises with the incarnation, so late answers are known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OfSchedule {
    pub(crate) local: LocalSchedule,
    pub(crate) round: u64,
}

/// The schedules of a call about turns, in the order of the items.
#[derive(Clone, Debug)]
pub struct OfSchedules {
    pub(crate) locals: Vec<LocalSchedule>,
    pub(crate) round: u64,
}

/// A plan under way. `run` rises with the plans, so late answers are known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OfPlan {
    pub(crate) local: LocalSchedule,
    pub(crate) run: u64,
}

/// Makes the engine's calls of a list: the name, the step, and facts for the time of the answer.
macro_rules! calls {
    ($($(#[$doc:meta])* $name:ident($step:ident $(, $of:ident: $kind:ty)?),)*) => {
        /// A step, under the engine's name for the purpose.
        #[derive(Clone, Debug)]
        pub enum Call {
            $($(#[$doc])* $name($step $(, $kind)?),)*
        }

        /// The answer to a [`Call`], behind its step.
        #[derive(Debug)]
        #[allow(dead_code, reason = "the engine reads the steps that an answer alone does not explain")]
        pub enum Done {
            $($(#[$doc])* $name($step $(, $kind)?, Result<<$step as Step>::Answer>),)*
        }

        impl Call {
            /// Makes the call.
            ///
            /// # Cancel safety
            /// After a dropped call it is not known whether its step was executed.
            pub async fn perform<P>(self, by: &P, inc: Incarnation) -> Done
            where
                P: $(Performs<$step> +)* Sync,
            {
                match self {
                    $(Self::$name(step $(, $of)?) => {
                        let answer = by.perform(inc, &step).await;
                        Done::$name(step $(, $of)?, answer)
                    })*
                }
            }

            /// Ends without an answer of the store.
            #[cfg(any(test, feature = "proof"))]
            pub fn failed(self, error: StoreError) -> Done {
                match self {
                    $(Self::$name(step $(, $of)?) => Done::$name(step $(, $of)?, Err(error)),)*
                }
            }

            /// The store's answer to this call.
            ///
            /// # Panics
            /// The answer is of another step.
            #[cfg(test)]
            pub fn answered<A: 'static>(self, answer: Result<A>) -> Done {
                let answer: Box<dyn std::any::Any> = Box::new(answer);
                match self {
                    $(Self::$name(step $(, $of)?) => {
                        let answer = answer.downcast().expect(concat!("an answer to ", stringify!($name)));
                        Done::$name(step $(, $of)?, *answer)
                    })*
                }
            }

            /// How many items its step has, as far as the step counts them.
            #[cfg(test)]
            pub fn items(&self) -> usize {
                match self {
                    $(Self::$name(step, ..) => step.items(),)*
                }
            }

            /// The name of its step.
            pub fn step(&self) -> &'static str {
                match self {
                    $(Self::$name(..) => <$step as Step>::NAME,)*
                }
            }
        }

        /// The names of all steps.
        #[cfg(any(test, feature = "proof"))]
        pub const STEPS: &[&str] = &[$(<$step as Step>::NAME),*];

        impl Done {
            /// The error of a call that was not carried out; a refusal is an answer.
            pub fn failure(&self) -> Option<&StoreError> {
                let error = match self {
                    $(Self::$name(.., answer) => answer.as_ref().err()?,)*
                };
                (!matches!(error, StoreError::Refused(_))).then_some(error)
            }
        }
    };
}

calls! {
    Survey(Survey),
    /// The revisions of the maps.
    Revisions(ReadState),
    ServerTime(ReadTime),
    Bootstrap(Bootstrap),
    Recover(Recover),
    OpenNormal(OpenNormal),
    Join(Join, seating: Seating),
    Settle(Settle),
    Drain(Drain),
    /// A worker of this node ends; nothing of it runs.
    Leave(Expire),
    /// Silent workers.
    Expire(Expire),
    Reap(Reap),
    Dispatch(Dispatch),
    Route(Route, events: Vec<PoolEvent>),
    /// The jobs of a worker, reported after a loss of data in this incarnation.
    Attest(AttestJobs, incarnation: Incarnation),
    /// The worker has reported everything.
    Attend(Attend, incarnation: Incarnation),
    Begin(Begin),
    Started(Started),
    Release(Release),
    Take(Take),
    Save(Save),
    Reply(Reply),
    /// Reads the last entries in the stream of a leaving worker.
    ReadLast(ReadNode),
    Owned(ListOwned),
    Stop(Stop),
    Notify(Notify),
    NotifyOrStart(NotifyOrStart),
    Ask(Ask),
    /// Looks up the owners of jobs that were asked.
    LookAtAsked(LookUp),
    Unpark(Unpark),
    Steer(Steer),
    Update(Update),
    /// Looks up the records of jobs that get another payload.
    LookToUpdate(LookUp),
    /// Looks up the outcomes of dispatches.
    LookUp(LookUp),
    /// Tells the owners of granted jobs once more to begin them. Another look repeats it.
    TellOwners(Steer),
    /// Looks up the owners of keys.
    FindOwners(LookUp),
    Tell(Tell),
    Sweep(Sweep),
    Inspect(Inspect),
    Heartbeats(ReadHeartbeats),
    ReadPool(ReadPool),
    ClaimPool(ClaimPool),
    RestoreGroup(RestoreGroup),
    PruneConsumers(PruneConsumers),
    /// `round` rises with the reads: a new read replaces the read in flight.
    ReadNode(ReadNode, round: u64),
    Sched(ChangeSchedule, of: OfSchedule),
    Term(HoldTurns, of: OfSchedules),
    Tick(TakeTick, of: OfSchedule),
    /// A page of the jobs of a plan.
    PlanList(ListPlanned, of: OfPlan),
    /// The records of a plan's keys.
    PlanFind(LookUp, of: OfPlan),
    PlanDispatch(Dispatch, of: OfPlan),
    PlanStop(Stop, of: OfPlan),
    PlanUpdate(Update, of: OfPlan),
    Shutdown(ShutDown),
    Purge(Purge),
    CleanUp(CleanUp),
    ForgetNode(ForgetNode),
}

/// How many entries one read of a stream takes; an entry has up to 128 jobs.
pub const READ_ENTRIES: usize = 8;
/// The same for a node that finds more in its streams, if there is little in them.
pub const READ_ENTRIES_MAX: usize = 128;
/// How long a read of a stream waits for the first entry.
pub const READ_BLOCK: Duration = Duration::from_secs(5);
/// The pause before streams are read again, and before jobs are routed again, after a failure.
pub const READ_RETRY: Duration = Duration::from_millis(50);
/// How long start events may lie with a consumer before another node takes them over.
pub const CLAIM_IDLE: Duration = Duration::from_secs(5);
/// After this time a consumer without entries is forgotten.
pub const CONSUMER_IDLE: Duration = Duration::from_secs(600);
/// How long the name of a pool that was shut down stays marked.
pub const TOMBSTONE: Duration = Duration::from_secs(3600);
/// Records per page of the slow look at all of them.
pub const INSPECT: usize = 512;
/// Jobs per page of a sweep, a reap, a purge or a scan.
pub const PAGE: usize = 256;

impl LookUp {
    /// A look at the records of keys, of any dispatch.
    pub fn of_keys(keys: impl IntoIterator<Item = JobKey>) -> Self {
        Self { items: keys.into_iter().map(|key| (key, None)).collect() }
    }
}

impl Call {
    /// The name of the step in metrics. `None` for reads that wait.
    pub fn metric(&self) -> Option<&'static str> {
        Some(match self {
            Self::ReadPool(..) | Self::ReadNode(..) | Self::ForgetNode(..) => return None,
            Self::Shutdown(..) | Self::Purge(..) | Self::CleanUp(..) => "shutdown",
            Self::PlanList(..)
            | Self::PlanFind(..)
            | Self::PlanDispatch(..)
            | Self::PlanStop(..)
            | Self::PlanUpdate(..) => "plan",
            Self::Survey(..)
            | Self::Revisions(..)
            | Self::ServerTime(..)
            | Self::Bootstrap(..)
            | Self::Recover(..)
            | Self::OpenNormal(..)
            | Self::ReadLast(..)
            | Self::RestoreGroup(..)
            | Self::PruneConsumers(..) => "other",
            call => call.step(),
        })
    }
}
