//! Messages of the node to a host.

use serde::{Deserialize, Serialize};

use super::body::{Body, Key, State};

/// A message of the node to a host.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "op", rename_all = "snake_case")]
pub(in crate::host) enum Down {
    /// The host is welcome.
    Hello {
        v: u32,
        pool: String,
        node: String,
        /// Which of the node's workers the host serves, from 0.
        worker: u16,
        ttl_ms: u64,
        /// The longest state that the pool keeps of a job, bytes.
        checkpoint_max: u64,
        features: Vec<String>,
        /// The version of the command.
        tenure: String,
    },
    /// The host is not. With versions it must end with status 78, for it speaks none of ours. Without them no worker is free
    /// for it now.
    Refused {
        why: String,
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        ours: Vec<u32>,
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        theirs: Vec<u32>,
    },
    /// The lease of this number lasts so long without another renewal.
    Lease {
        lease: u64,
        left_ms: u64,
        /// Its end by `CLOCK_MONOTONIC`.
        until_ms: u64,
    },
    /// The pool's settings have changed: this is the longest state from now on.
    Bounds { checkpoint_max: u64 },
    /// Start a job.
    Start(Box<Start>),
    /// End a job.
    Stop { job: u64, why: String, within_ms: u64 },
    /// Take a notification.
    Notify {
        job: u64,
        n: u64,
        /// How often this one was refused.
        #[serde(default, skip_serializing_if = "is_zero")]
        refusals: u32,
        #[serde(flatten)]
        body: Body,
    },
    /// Answer a question.
    Ask {
        job: u64,
        n: u64,
        id: String,
        asker: String,
        within_ms: u64,
        #[serde(flatten)]
        body: Body,
    },
    /// Take another payload.
    Update {
        job: u64,
        n: u64,
        #[serde(rename = "type", skip_serializing_if = "Option::is_none")]
        kind: Option<String>,
        #[serde(flatten)]
        body: Body,
    },
    /// Say that you are alive.
    Ping { n: u64 },
    /// A request was done.
    Ok {
        rid: u64,
        #[serde(flatten)]
        done: Done,
    },
    /// A request failed.
    Error { rid: u64, code: String, text: String },
    /// The state that a job has left with its last word is not kept, or may not be.
    Unsaved {
        job: u64,
        #[serde(flatten)]
        key: Key,
        code: String,
        text: String,
    },
    /// The node is leaving: each job will be stopped, within this time.
    Drain { within_ms: u64 },
    /// There is nothing more to do: end.
    Bye {},
}

/// A job to start.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(in crate::host) struct Start {
    pub(in crate::host) job: u64,
    #[serde(flatten)]
    pub(in crate::host) key: Key,
    pub(in crate::host) token: u64,
    /// The lease that it runs under.
    pub(in crate::host) lease: u64,
    pub(in crate::host) id: String,
    pub(in crate::host) attempt: u32,
    pub(in crate::host) within_ms: u64,
    #[serde(rename = "type", skip_serializing_if = "Option::is_none")]
    pub(in crate::host) kind: Option<String>,
    #[serde(flatten)]
    pub(in crate::host) body: Body,
    #[serde(flatten)]
    pub(in crate::host) state: State,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(in crate::host) trace: Option<Trace>,
}

/// The trace of a job's dispatch.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(in crate::host) struct Trace {
    pub(in crate::host) parent: String,
    pub(in crate::host) state: String,
}

/// The result of a request. Each has the fields of its own kind.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(in crate::host) struct Done {
    /// The id of an accepted dispatch.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(in crate::host) id: Option<String>,
    /// Whether an ensure has started its job. Else the key had one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(in crate::host) started: Option<bool>,
    /// An answer.
    #[serde(flatten)]
    pub(in crate::host) body: Body,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(in crate::host) job: Option<Info>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(in crate::host) jobs: Option<Vec<Info>>,
    /// Where the list continues.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(in crate::host) next: Option<String>,
}

/// A job of the pool.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(in crate::host) struct Info {
    #[serde(flatten)]
    pub(in crate::host) key: Key,
    pub(in crate::host) state: String,
    pub(in crate::host) token: u64,
    pub(in crate::host) worker: Option<u64>,
    pub(in crate::host) attempts: u32,
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "serde's signature")]
fn is_zero(number: &u32) -> bool {
    *number == 0
}
