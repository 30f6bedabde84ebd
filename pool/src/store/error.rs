//! Why a step was refused, or has no answer.

use std::sync::Arc;

use crate::id::{Incarnation, Revision};

/// A step was answered with a refusal: nothing was changed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Refusal {
    /// There is no pool of this name.
    #[error("there is no such pool")]
    NoPool,
    /// The pool was shut down a short time ago.
    #[error("the pool was shut down")]
    Closed,
    /// The pool lives in another incarnation than the caller.
    #[error("the pool is in incarnation {0}")]
    StaleIncarnation(Incarnation),
    /// The pool is recovering from a loss of data.
    #[error("the pool is recovering")]
    Recovering,
    /// The step belongs to a recovery, which is over: the pool was opened without the caller.
    #[error("the pool is not recovering")]
    Normal,
    /// One of the pool's keys was lost alone, as what the others say of it shows.
    #[error("{}", loss(.0))]
    Lost(String),
    /// The pool is shutting down.
    #[error("the pool is shutting down")]
    ShuttingDown,
    /// The ring has changed since the caller looked.
    #[error("the ring is at revision {0}")]
    StaleRing(Revision),
    /// The worker is no member any more.
    #[error("the worker is no member any more")]
    Fenced,
    /// The pool runs with another value of a setting.
    #[error("the pool runs with {name} = {theirs}, not {ours}")]
    Setting {
        /// The setting's name.
        name: String,
        /// The pool's value.
        theirs: String,
        /// The caller's value.
        ours: String,
    },
    /// The caller's turn to plan is over.
    #[error("the turn to plan is over")]
    StaleTerm,
    /// The counter of tokens is at its end, or damaged: nothing can be assigned, nobody can join.
    #[error(
        "the pool's counter of tokens is used up or damaged, see 'Out of tokens' in docs/protocol/data.md"
    )]
    OutOfTokens,
    /// An argument is out of its range.
    #[error("an argument is out of its range")]
    BadArgument,
    /// The step belongs to a shutdown's second half, which has not begun.
    #[error("the pool is not stopping")]
    NotStopping,
    /// Workers or their remains are left.
    #[error("{0} members are left")]
    Members(u64),
}

/// The keys that were lost, by their signs as the store says them.
pub(crate) fn loss(signs: &str) -> String {
    let what = |sign| match sign {
        'm' => "members",
        'r' => "records of jobs",
        'p' => "payloads of jobs",
        'o' => "lists of what workers own",
        _ => "something that a newer version knows of",
    };
    format!("the pool has lost {}", signs.chars().map(what).collect::<Vec<_>>().join(" and "))
}

/// Why a step has no answer.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StoreError {
    /// The step was answered with a refusal: nothing was changed.
    #[error("{0}, nothing was changed")]
    Refused(Refusal),
    /// The server process behind the connection is not the one that the pool last blessed: a sign of data loss.
    /// Nothing was sent.
    #[error("another server process answers (run id {run_id}), nothing was sent")]
    OtherServer {
        /// The process that answers.
        run_id: String,
    },
    /// The step was not executed; it may be sent again.
    #[error(transparent)]
    NotExecuted(Arc<dyn std::error::Error + Send + Sync>),
    /// The step may or may not have been executed: send it again, unchanged.
    #[error("no answer, the step may have been executed")]
    Unanswered(#[source] Arc<dyn std::error::Error + Send + Sync>),
    /// The step failed on what is stored: its script raised an error, or its answer cannot be read. It may have been
    /// executed, wholly or in part; sent again without the item that it fails on, it succeeds.
    #[error("the step failed on what is stored")]
    Damaged(#[source] Arc<dyn std::error::Error + Send + Sync>),
    /// The store will not do it, now or later: wrong password, missing right, unsuitable server.
    #[error("the store cannot be used")]
    Unusable(#[source] Arc<dyn std::error::Error + Send + Sync>),
}

/// The answer to a step.
pub type Result<T> = std::result::Result<T, StoreError>;
