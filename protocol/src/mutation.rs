//! Mutations, for the proofs. A property that no mutation violates is not tested.
//!
//! A [`Mutation`] leaves out one line of the protocol. A node's configuration and a
//! server's state say which ones are in force. Without the feature `proof` there are none,
//! and the checks cost nothing. A [`ScriptPatch`] breaks a script on Redis.

#[cfg(any(test, feature = "proof"))]
use std::collections::BTreeSet;

pub use tenure_steps::ScriptPatch;

/// One line of the protocol that is left out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Mutation {
    /// The engine and its connections run on the runtime of the handlers.
    EngineAtHome,
    /// A worker whose lease has run out goes on: its handlers are neither asked to end nor aborted.
    NoSelfFence,
    /// `begin` takes jobs of any owner, under any token.
    BeginUnchecked,
    /// `save` writes a copy that comes late over a newer checkpoint.
    LateSaveWins,
    /// `update` goes by no generation, so a late copy undoes what came after it.
    LateUpdateWins,
    /// A job that ends, fails or is parked before its owner has heard of its update does so without the later payload.
    UpdateEndsWithRun,
    /// A later payload starts a job that an operator wants to rest.
    UpdateEndsRest,
    /// `steer` goes by no token and no time, so a late copy steers what came after it.
    LateSteerWins,
    /// `unpark` starts paused jobs.
    UnparkResumes,
    /// No pause ends by itself.
    PausesStay,
    /// An owner does not heed what an operator wants of its jobs.
    SteerUnheard,
    /// An owner does not go by the generation of its job's payload.
    UpdateUnheard,
    /// A plan replaces no payloads, whatever it says.
    PlanReplacesNothing,
    /// A payload counts as the one that a job runs with as soon as its handler is given it.
    HandedCountsAsTaken,
    /// A handler may have another payload in hand for ever.
    HungUpdateStays,
    /// A payload that comes while the handler has one in hand is not handed over.
    NextUpdateForgotten,
    /// A payload that is being handed over when data are lost is taken all the same.
    LostUpdateTaken,
    /// An ask is handed over before an update of its job that was made before it.
    AsksBeforeUpdates,
    /// A job is released before its last checkpoint is kept.
    ReleaseBeforeCheckpoint,
    /// The refusal of a checkpoint counts for a newer checkpoint of the same job, too.
    RefusalOfNewest,
    /// A worker does not save its checkpoints again after a loss of data.
    StateNotSavedAgain,
    /// A job that is deleted leaves its checkpoint behind.
    StatesStay,
    /// `release` gives the job that it queues a new token.
    ReleaseMints,
    /// A dispatch names no worker, so a router places each of its jobs. That is allowed, and proofs about routers
    /// need it.
    NothingPlaced,
    /// A job that is taken from a lost worker does not say so.
    LossUnsaid,
    /// `attend` gives the jobs that it queues a new token.
    AttendMints,
    /// `attest` gives a job that was handed off a new token.
    HandedOffMints,
    /// `attest` takes a record that nobody owns for an owner under its token.
    UnownedOutranks,
    /// `attest` takes a job back whose release was carried out, and that has run elsewhere since.
    TakenBackAnyway,
    /// A notification that its handler refuses for now counts as delivered.
    RefusedPassedOver,
    /// A job's next owner gets notifications again that the former one had taken.
    TakenForgotten,
    /// A record that nobody owns gives way to a run of an earlier dispatch.
    NextDispatchGivesWay,
    /// `route` assigns under any ring that its caller knows.
    RouteUnchecked,
    /// A job that ran for long before its worker was lost is blamed like any other job.
    LossesNeverForgiven,
    /// No rate delays a start.
    StartsTogether,
    /// A worker takes more jobs than its capacity.
    CapacityPassedOver,
    /// A worker that is full refuses a job: `strikes` refusals and pauses before the next worker is asked.
    ElsewhereIsAStrike,
    /// Jobs that all workers have turned away do not hear that the ring has more room.
    RoomUnheard,
    /// If no worker is up, the first one that joins where jobs wait takes a slot at once.
    FirstTakesAll,
    /// A worker that was silent for its time to live counts as up until it is expired.
    SilentAreUp,
    /// The jobs of a lost worker begin again at once, all together, however often that happens.
    SuspectsTogether,
    /// Start handlers run one after the other, however long one takes.
    StartsInTurn,
    /// Nobody looks whether a job makes progress.
    StalledStays,
    /// A worker does not heed who asks for all moves at once.
    MoveNowUnheard,
    /// A node moves all jobs now by the ring that it knows, which may be an old one.
    MoveNowByAnyRing,
    /// The pool's rate of moves counts for each worker.
    MoveRateUnshared,
    /// Jobs are placed on cordoned nodes.
    CordonPassedOver,
    /// A copy of a cordon, or of its end, that comes late counts.
    LateCordonCounts,
    /// Jobs are placed although the pool is held.
    HoldPassedOver,
    /// An ask is handed to a job's owner under whatever token it names.
    AskUnderAnyToken,
    /// An id of an attempt that has come before counts as new.
    AsksUnremembered,
    /// An ask that may have been handled is sent again, whatever its caller said.
    DoubtfulAskSentAgain,
    /// An ask is handed over before the notifications that were kept before it.
    AsksBeforeNotes,
    /// A job is released before its asker was told what its handler has said.
    ReleaseBeforeReply,
    /// Nobody tells who asks that the job has moved.
    MovesUntold,
    /// A worker leaves without a last read of its stream.
    LastReadLeftOut,
    /// Any worker tells askers what was done.
    RepliesUnfenced,
    /// An outcome counts only if it comes after the answer to the sending, and nobody asks for it.
    EarlyAnswersUnheard,
    /// A job whose stop handler fails stays.
    FailedStopKeepsJob,
    /// No caller learns that a stop handler failed.
    FailedStopUntold,
    /// The shutdown flag is sent once, and its caller waits for ever.
    ShutdownAskedOnce,
    /// The answer to a cleanup of an earlier incarnation ends the present pool.
    FormerCleanupEnds,
    /// Renewals report neither the revisions of the maps nor the shutdown flag.
    FlagNotPolled,
    /// A router that leaves stops routing, and waits until nothing is left to route.
    LeavingStopsDraining,
    /// A lost consumer group is read again at once, and not created again.
    GroupStaysLost,
    /// A fenced worker forgets its jobs, and their handlers are told nothing.
    FencedForgets,
    /// A worker's handlers are called after all that it ran was aborted.
    AbortedStartsOn,
    /// A job that moves is given up before its handler has stopped.
    HandOffBeforeStop,
    /// A repeated start of a running job is refused: the job is given up as failed.
    RedeliveredStartRefused,
    /// A worker starts a job that it already holds under another token.
    StartsWhatItHolds,
    /// A job that comes back under a newer token waits for the end of its earlier run, and does not end it.
    FormerRunKept,
    /// A handler that panics takes down the task that reports its end.
    PanicUntold,
    /// After a loss of data, a worker that has lost its lease still reports its jobs as running.
    FencedAttests,
    /// After a loss of data, a worker does not report the jobs that it gave up.
    JournalNotSent,
    /// A worker reports an end that may have met a later payload without the payload that it ended with.
    EndNamesNoPayload,
    /// After a loss of data, a worker takes the end of a run for that of its dispatch, though a later run may be hidden.
    LossEndIsSure,
    /// After a loss of data, the end of a run ends later runs of its dispatch, too.
    EarlierRunEnds,
    /// A worker that did not report its given-up jobs after one loss of data reports them after the next.
    SilentKeepsJournal,
    /// A worker that loses its lease while it reports its given-up jobs reports them after the next loss of data.
    FencedKeepsJournal,
    /// After a loss of data, a worker sends its final report before it has named all its jobs.
    AttendBeforeAttested,
    /// After a loss of data, a node whose pool was shut down takes a newer pool for its own.
    NewPoolJoined,
    /// Any tombstone ends a node, even one that is older than its pool.
    OlderTombstoneEnds,
    /// A tombstone counts as the latest state, even on a server that may have lost a newer pool.
    TombstoneTrusted,
    /// A bootstrap replaces a tombstone that its sender has not seen.
    LateBootstrapMakes,
    /// A pool that has lost data never opens again.
    RecoveryStays,
    /// The lease is not checked between the answer to `begin` and the call of the handler.
    NoRecheckAfterBegin,
    /// A `begin` without an answer is not sent again.
    BeginGivenUp,
    /// `stop` ends any job of the key, whichever dispatch it names.
    StopUnnamed,
    /// `reap` ends the jobs of a lost worker, and does not queue them.
    ReapEnds,
    /// After a loss of data, tokens continue from the server's time alone, and ignore tokens that callers have seen.
    TokensBelowSeen,
    /// `route` assigns under the last token, not under a new one.
    TokenAssignedAgain,
    /// A dispatch grants a job also where a checkpoint or notifications of a former job of its key are left.
    GrantOverStrays,
    /// `save` keeps the checkpoint of a granted job that nobody has begun, and leaves it so.
    SaveLeavesUnbegun,
    /// A granted job that somebody may have in hand still counts as never begun.
    ConfirmUncounted,
    /// A worker honours the same grant again.
    GrantTwice,
    /// A worker may honour the grant of a job after it has read other news of it.
    NewsRaisesNothing,
    /// A worker may honour the grant of a job that it has begun before it read of the grant.
    BeginRaisesNothing,
    /// A worker honours a grant of an incarnation that is over.
    GrantOfAnyIncarnation,
    /// A worker honours a grant although its lease does not hold.
    GrantWithoutLease,
    /// A worker says nothing of granted jobs whose start takes long.
    GrantsUnconfirmed,
    /// Nobody tells the owner of a granted job again that does not begin it.
    LostGrantsStay,
    /// A worker does not notice that somebody has deleted its stream.
    DeletedStreamUnnoticed,
    /// `begin` leaves the job in the sweeper's queue.
    BegunStaysQueued,
    /// A job's notifications are numbered from 0 again once all were taken.
    NotesNumberedAnew,
    /// A dispatch under a caller's own id gets the first one's answer, whatever its bytes.
    OwnIdsUncompared,
    /// A caller's own id is forgotten with its job.
    OwnIdsForgotten,
    /// A dispatch that was cancelled before it arrived is accepted when it arrives.
    CancelsForgotten,
    /// A job's notifications are refused when half of the allowed number waits.
    NotesRefusedEarly,
    /// A job that a notification starts is accepted without it.
    StartedWithoutNote,
    /// Steps are executed whatever incarnation their caller knows.
    IncarnationUnchecked,
    /// Steps are executed although the floor is above their level.
    FloorUnchecked,
    /// The floor is raised above the level of a member.
    FloorPassesMembers,
    /// A recovery keeps the floor of the data, and not the higher one that its caller has seen.
    FloorForgotten,
    /// A renewal leaves a lower floor than its node has seen.
    RenewalForgetsFloor,
    /// Steps are sent to any server process that answers.
    ScriptBeforeIdentity,
    /// All jobs of a dead worker are freed before the first one of the next.
    ReapedOneByOne,
    /// An observer that gets no answer starts to watch anew.
    ResetOnReconnect,
    /// No node checks records whose owners are unknown.
    NeverInspects,
    /// A member whose counter is lost is not watched.
    UncountedLive,
    /// A counter that is seen anew counts as seen when it was asked for.
    FirstSeenBeforeReply,
    /// A lease counts from the answer to its renewal.
    RenewalFromReply,
    /// A worker leaves, or its lease is forgotten, before its handlers have ended.
    ExpireBeforeJoined,
    /// A worker joins with another time to live than the pool's.
    OtherTtlJoins,
    /// A node that was given no worker TTL uses the default for its leases, and not the pool's.
    OwnTtlKept,
    /// A node joins a shard of a pool with another number of shards.
    OtherShardsJoin,
    /// A worker that another node drains is out of the ring and stays.
    DrainsUnheard,
    /// The first shard of a pool is cleaned up while other shards still end their jobs.
    FirstShardEndsAlone,
    /// A shutdown that another shard was asked for replaces the one that this shard was asked for.
    HearsayGoesFirst,
}

/// The mutations in force.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Mutations(#[cfg(any(test, feature = "proof"))] BTreeSet<Mutation>);

impl Mutations {
    /// Exactly these.
    #[cfg(any(test, feature = "proof"))]
    pub fn of(mutations: impl IntoIterator<Item = Mutation>) -> Self {
        Self(mutations.into_iter().collect())
    }

    /// These and this one.
    #[cfg(any(test, feature = "proof"))]
    #[must_use]
    pub fn and(mut self, mutation: Mutation) -> Self {
        self.0.insert(mutation);
        self
    }

    /// Whether the line is left out.
    #[cfg(any(test, feature = "proof"))]
    pub fn has(&self, mutation: Mutation) -> bool {
        self.0.contains(&mutation)
    }

    /// Without the feature `proof` no line is ever left out.
    #[cfg(not(any(test, feature = "proof")))]
    pub const fn has(&self, _: Mutation) -> bool {
        false
    }
}
