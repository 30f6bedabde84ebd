//! The reasons why a step was refused or has no answer.

use tenure_steps::{Class, Failure, Unexpected};

use crate::model::id::{Incarnation, Revision};
use crate::model::level::TooOld;

/// The refusal of a step. Nothing was changed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Refusal {
    /// There is no pool with this name.
    #[error("there is no such pool")]
    NoPool,
    /// The pool was shut down a short time ago.
    #[error("the pool was shut down")]
    Closed,
    /// The pool is in another incarnation than the caller.
    #[error("the pool is in incarnation {0}")]
    StaleIncarnation(Incarnation),
    /// The pool is recovering from a loss of data.
    #[error("the pool is recovering")]
    Recovering,
    /// The step belongs to a recovery that is over: the pool was opened without the caller.
    #[error("the pool is not recovering")]
    Normal,
    /// One of the pool's keys was lost alone. Its other keys show that.
    #[error("{}", loss(.0))]
    Lost(String),
    /// The pool is shutting down.
    #[error("the pool is shutting down")]
    ShuttingDown,
    /// The ring has changed since the caller looked.
    #[error("the ring is at revision {0}")]
    StaleRing(Revision),
    /// The worker is no longer a member.
    #[error("the worker is no longer a member")]
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
    /// The floor of the pool is above the level of the caller's script.
    #[error("{0}")]
    Level(TooOld),
    /// The caller's turn to plan is over.
    #[error("the turn to plan is over")]
    StaleTerm,
    /// The counter of tokens is used up or damaged: no job can be assigned, and no worker can join.
    #[error(
        "the pool's counter of tokens is used up or damaged, see 'Out of tokens' in docs/protocol/data.md"
    )]
    OutOfTokens,
    /// An argument is out of its range.
    #[error("an argument is out of its range")]
    BadArgument,
    /// The step belongs to the second half of a shutdown, which has not begun.
    #[error("the pool is not stopping")]
    NotStopping,
    /// There are still workers, or remains of workers.
    #[error("{0} members are left")]
    Members(u64),
}

/// The lost keys, by the signs that the store gives.
pub fn loss(signs: &str) -> String {
    let what = |sign| match sign {
        'm' => "members",
        'r' => "records of jobs",
        'p' => "payloads of jobs",
        'o' => "lists of what workers own",
        _ => "something that a newer version knows of",
    };
    format!("the pool has lost {}", signs.chars().map(what).collect::<Vec<_>>().join(" and "))
}

/// The reason why a step has no answer.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StoreError {
    /// The step was refused. Nothing was changed.
    #[error("{0}, nothing was changed")]
    Refused(Refusal),
    /// Another server process answers than the pool last blessed. That is a sign of data loss. Nothing was sent.
    #[error("another server process answers (run id {run_id}), nothing was sent")]
    OtherServer {
        /// The process that answers.
        run_id: String,
    },
    /// The step was not executed. It may be sent again.
    #[error(transparent)]
    NotExecuted(Failure),
    /// The step may have been executed. Send it again, unchanged.
    #[error("no answer, the step may have been executed")]
    Unanswered(#[source] Failure),
    /// The step failed on stored data: its script raised an error, or its answer cannot be read. It may have been
    /// executed, wholly or in part. It succeeds if it is sent again without the item on which it fails.
    #[error("the step failed on stored data")]
    Damaged(#[source] Failure),
    /// The store refuses until somebody mends it: a wrong password, a missing right, an unsuitable server. Earlier writes of a
    /// script stay.
    #[error("the store cannot be used")]
    Unusable(#[source] Failure),
}

impl From<Unexpected> for StoreError {
    fn from(answer: Unexpected) -> Self {
        Self::Damaged(Failure::new(answer))
    }
}

impl StoreError {
    /// The name in metrics.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Refused(_) => "refused",
            Self::OtherServer { .. } => "other_server",
            Self::NotExecuted(_) => "not_executed",
            Self::Unanswered(_) => "unanswered",
            Self::Damaged(_) => "damaged",
            Self::Unusable(_) => "unusable",
        }
    }

    /// Its text, with those of its sources.
    #[doc(hidden)]
    pub fn with_sources(&self) -> String {
        let (mut text, mut source) = (self.to_string(), std::error::Error::source(self));
        while let Some(error) = source {
            text.push_str(": ");
            text.push_str(&error.to_string());
            source = error.source();
        }
        text
    }

    /// Whether the store's user lacks a right that the step needs. `tenure doctor` names the right.
    pub fn is_forbidden(&self) -> bool {
        self.class() == Some(Class::Forbidden)
    }

    /// Whether the store rejects the client itself: a setting, a certificate, a user or a password. No step was sent.
    #[doc(hidden)]
    pub fn is_locked_out(&self) -> bool {
        matches!((self, self.class()), (Self::Unusable(_), Some(Class::Config | Class::Refused)))
    }

    /// Whether the step was not executed because the memory of the store is full.
    pub fn is_full(&self) -> bool {
        self.class() == Some(Class::Full)
    }

    /// Whether the store refuses the step whatever its items are, until somebody mends the user's rights or the memory. So
    /// a caller hears of it at once.
    #[doc(hidden)]
    pub fn is_refusal(&self) -> bool {
        self.is_forbidden() || self.is_full()
    }

    /// The class of the error, if the connection to Redis gave the error.
    #[doc(hidden)]
    pub fn class(&self) -> Option<Class> {
        match self {
            Self::NotExecuted(failure)
            | Self::Unanswered(failure)
            | Self::Damaged(failure)
            | Self::Unusable(failure) => failure.class(),
            Self::Refused(_) | Self::OtherServer { .. } => None,
        }
    }
}

/// The answer to a step.
pub type Result<T> = std::result::Result<T, StoreError>;
