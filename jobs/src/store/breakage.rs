//! Lines of the protocol that are left out, for proofs: a property that nothing violates is not tested.

/// One line of the protocol that is left out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Breakage {
    /// A job whose delay is over is lost.
    LosesDelayed,
    /// An execution is settled under any token.
    AnyTokenSettles,
    /// A call that comes twice takes effect twice.
    CallsTwice,
    /// A job has any number of attempts.
    AttemptsUnbounded,
    /// A lost lease counts no attempt.
    LossUncounted,
    /// The limit of a group is not used up.
    GroupLimitOff,
    /// The concurrency of a queue is none.
    ConcurrencyOff,
    /// The end of a child counts twice.
    ChildCountsTwice,
    /// A parent does not go on when its last child has ended.
    ParentSleeps,
    /// A parent that is removed leaves its children behind.
    RemovesAlone,
    /// A token comes again.
    TokensRepeat,
    /// A delay is none.
    RunsEarly,
    /// The data of a job stay when it goes.
    LeavesData,
    /// A lease is taken before it is over.
    LeasesTakenEarly,
    /// A lease is never taken.
    LeasesLast,
    /// A job that has ended stays for ever.
    KeepsForEver,
    /// A node does not end the handlers whose leases are over.
    NoAbort,
    /// A node does not say what it runs after a loss of data.
    NothingAttested,
    /// A node does not say what it has lately ended after a loss of data.
    NoJournal,
    /// After a loss of data, a job is made again each time that an execution of it is heard of.
    MadeAgainTwice,
    /// After a loss of data, an execution answers for requests that came after its begin.
    RequestsMetEarly,
}
