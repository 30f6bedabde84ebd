//! What the proofs break on purpose: a property that no breakage violates is one that nothing tests.
//!
//! A [`Breakage`] leaves out one line of the protocol. Which ones are in force is part of a node's configuration and of
//! a [`MemoryStore`](crate::MemoryStore)'s state; without the feature `sim` none can be, and the questions cost nothing.
//! A script on Redis is broken by a [`ScriptPatch`].

#[cfg(feature = "sim")]
use std::collections::BTreeSet;

/// One line of the protocol that is left out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Breakage {
    /// The engine and its connections run on the runtime of the handlers.
    EngineAtHome,
    /// A worker whose lease has run out goes on: its handlers are neither asked to end nor aborted.
    NoSelfFence,
    /// `begin` takes jobs whoever owns them, under whatever token.
    BeginUnchecked,
    /// `release` gives the job that it queues another token.
    ReleaseMints,
    /// A dispatch names no worker, so that each of its jobs goes by a router: allowed, and what proofs of routers need.
    NothingPlaced,
    /// `attend` gives the jobs that it queues another token.
    AttendMints,
    /// `attest` gives a job that was handed on another token.
    HandedOnMints,
    /// `attest` takes a record that nobody owns for an owner under its token.
    UnownedOutranks,
    /// A job's next owner is given again what the job had taken when it ended.
    TakenForgotten,
    /// A record that nobody owns gives way to a run of an earlier dispatch.
    NextDispatchGivesWay,
    /// `route` assigns whatever ring its caller knows.
    RouteUnchecked,
    /// A job that ran for long before its worker was lost is blamed like any other.
    LossesNeverForgiven,
    /// The first worker that comes where jobs wait and nobody is up takes a slot at once.
    FirstTakesAll,
    /// A worker that was not heard of for its time to live counts as up until it is expired.
    SilentAreUp,
    /// The jobs of a lost worker are begun again at once, all together, however often that happens.
    SuspectsTogether,
    /// Start handlers run one after the other, however long one takes.
    StartsInTurn,
    /// Callers that have gone are answered all the same, and such an answer ends the node.
    GoneCallersEndNode,
    /// What becomes of a dispatch is heard only after the answer to its sending, and not asked for.
    EarlyAnswersUnheard,
    /// A job whose stop handler fails stays.
    FailedStopKeepsJob,
    /// A stop handler that fails is told to nobody.
    FailedStopUntold,
    /// The shutdown flag is sent once, and whoever asked for it waits for ever.
    ShutdownAskedOnce,
    /// The answer to a cleanup that was asked for in a former incarnation is the end of the present pool.
    FormerCleanupEnds,
    /// Renewals say nothing of what the maps have come to, nor of the shutdown flag.
    FlagNotPolled,
    /// A router that leaves routes no more, and waits until it has nothing left to route.
    LeavingStopsDraining,
    /// A lost consumer group is read again at once, and not made again.
    GroupStaysLost,
    /// A key is placed by the worker's place in the list of those that live.
    PackedRing,
    /// A fenced worker forgets its jobs: their handlers hear nothing of it.
    FencedForgets,
    /// Handlers of a worker are called when all that ran of it were aborted.
    AbortedStartsOn,
    /// A job that is handed on is given up before its handler has stopped.
    HandOffBeforeStop,
    /// A start that comes again for a job that runs is refused: the job is given up as one that failed.
    RedeliveredStartRefused,
    /// A worker starts a job that it holds already, under another token.
    StartsWhatItHolds,
    /// A job that comes back under a newer token waits for the end of its former run, and does not end it.
    FormerRunKept,
    /// A handler that panics takes with it who would tell of its end.
    PanicUntold,
    /// A handler that panics ends what reads its worker's events, while its lease goes on.
    PanicEndsReading,
    /// A worker that has lost its lease says after a loss of data that it runs what it has not ended yet.
    FencedAttests,
    /// After a loss of data a worker does not say what it has given up.
    JournalNotSent,
    /// A worker that has not said after a loss of data what it has given up says it after the next one.
    SilentKeepsJournal,
    /// A worker that loses its lease while it says after a loss of data what it has given up says it after the next one.
    FencedKeepsJournal,
    /// A worker says its last word after a loss of data before it has named all its jobs.
    AttendBeforeAttested,
    /// A node of a pool that was shut down takes the pool that was made since for its own after a loss of data.
    NewPoolJoined,
    /// A node ends with any tombstone that it finds, also with one from before its pool.
    OlderTombstoneEnds,
    /// A tombstone is taken for the last word, also on a server that may have lost a pool made since.
    TombstoneTrusted,
    /// A bootstrap replaces a tombstone that its sender has not seen.
    LateBootstrapMakes,
    /// A pool that has lost data is not opened again.
    RecoveryStays,
    /// The lease is not looked at again between the answer to `begin` and the call of the handler.
    NoRecheckAfterBegin,
    /// A `begin` that has no answer is not sent again.
    BeginGivenUp,
    /// `stop` ends whatever job has the key, whichever dispatch it names.
    StopUnnamed,
    /// `reap` ends the jobs of a lost worker instead of queueing them.
    ReapEnds,
    /// After a loss of data tokens go on from the server's time alone, whatever token a caller has seen.
    TokensBelowSeen,
    /// `route` assigns under the last token instead of a new one.
    TokenAssignedAgain,
    /// `begin` leaves the job in the sweeper's queue.
    BegunStaysQueued,
    /// A job's notifications are numbered from 0 again once all have been taken.
    NotesNumberedAnew,
    /// A dispatch under a caller's own id gets the first one's answer whatever its bytes.
    OwnIdsUncompared,
    /// A caller's own id is forgotten with its job.
    OwnIdsForgotten,
    /// A cancelled dispatch that the pool has not seen yet is accepted when it comes.
    CancelsForgotten,
    /// A job's notifications are refused when half as many wait as may.
    NotesRefusedEarly,
    /// Steps are executed whichever incarnation their caller knows.
    IncarnationUnchecked,
    /// Steps are sent to whatever server process answers.
    ScriptBeforeIdentity,
    /// All jobs of a dead worker are freed before the first one of the next.
    ReapedOneByOne,
    /// An observer that gets no answer begins to watch anew.
    ResetOnReconnect,
    /// Nobody looks at the records of owners that nobody knows.
    NeverInspects,
    /// A member whose counter is lost is not watched.
    UncountedLive,
    /// A counter that is seen anew counts as seen when it was asked for.
    FirstSeenBeforeReply,
    /// A lease counts from the answer to its renewal.
    RenewalFromReply,
    /// A worker says good-bye, or its lease is forgotten, before its handlers have ended.
    ExpireBeforeJoined,
    /// A worker joins with another time to live than the pool's.
    OtherTtlJoins,
    /// The leases of a node that was given no worker TTL go by the default, and not by the pool's.
    OwnTtlKept,
    /// A node joins a shard of a pool that has another number of them.
    OtherShardsJoin,
    /// The first shard of a pool is cleaned up while others still end their jobs.
    FirstShardEndsAlone,
    /// A shutdown that another shard has heard of replaces the one that this shard was asked for.
    HearsayGoesFirst,
}

/// The breakages in force.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Breakages(#[cfg(feature = "sim")] BTreeSet<Breakage>);

impl Breakages {
    /// These and no others.
    #[cfg(feature = "sim")]
    pub fn of(breakages: impl IntoIterator<Item = Breakage>) -> Self {
        Self(breakages.into_iter().collect())
    }

    /// These and that one.
    #[cfg(feature = "sim")]
    pub(crate) fn and(mut self, breakage: Breakage) -> Self {
        self.0.insert(breakage);
        self
    }

    /// Whether the line is left out.
    #[cfg(feature = "sim")]
    pub fn has(&self, breakage: Breakage) -> bool {
        self.0.contains(&breakage)
    }

    /// Whether the line is left out: never, without the feature `sim`.
    #[cfg(not(feature = "sim"))]
    pub const fn has(&self, _: Breakage) -> bool {
        false
    }
}

/// A text in a script, or in one of the parts that scripts share, and what stands in its place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ScriptPatch {
    /// The script's name, as in `begin`; if empty, every script that has the text, as it comes from a shared part.
    pub script: &'static str,
    /// What stands there.
    pub from: &'static str,
    /// What is to stand there.
    pub to: &'static str,
}
