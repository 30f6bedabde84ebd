//! Messages of a host to the node.

use serde::{Deserialize, Serialize};

use super::body::{Body, Key, State};

/// A message of a host to the node.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "op", rename_all = "snake_case")]
pub(in crate::host) enum Up {
    /// The first one.
    Hello(Hello),
    /// A job runs.
    Started { job: u64 },
    /// A job could not be started.
    Failed {
        job: u64,
        error: String,
        /// No further attempt can succeed.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        park: bool,
    },
    /// The host does not start a job now.
    Refused {
        job: u64,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        retry_ms: Option<u64>,
        /// Another worker shall be asked at once.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        elsewhere: bool,
    },
    /// A job has ended as it was told to.
    Stopped {
        job: u64,
        #[serde(flatten)]
        state: State,
    },
    /// A job has ended by itself.
    Ended {
        job: u64,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        error: Option<String>,
        /// No further attempt can succeed.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        park: bool,
        /// Its handler is not the cause.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        lost: bool,
    },
    /// A notification is done, or is refused for now if it has a time.
    Ack {
        job: u64,
        n: u64,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        retry_ms: Option<u64>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        error: Option<String>,
    },
    /// The answer to a question, its refusal, or the word that the job's next owner shall have it.
    Answer {
        job: u64,
        n: u64,
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        moved: bool,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        error: Option<String>,
        #[serde(flatten)]
        body: Body,
    },
    /// A payload was taken, or the job has to start again with it.
    Updated {
        job: u64,
        n: u64,
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        restart: bool,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        error: Option<String>,
    },
    /// The host is alive.
    Pong { n: u64 },
    /// Keep this state.
    Checkpoint {
        job: u64,
        rid: u64,
        #[serde(flatten)]
        body: Body,
    },
    /// A job makes progress.
    Progress { job: u64 },
    /// A text for people.
    Status { job: u64, text: String },
    /// Start a job, and say when it runs.
    Dispatch(Request),
    /// Start a job, if there is none.
    Ensure(Request),
    /// Take a job in.
    Submit(Request),
    /// Stop a job.
    Stop(Request),
    /// Leave a notification.
    Notify(Request),
    /// Ask the owner of a job.
    Ask(Request),
    /// Look at a job.
    Get(Request),
    /// Look at the jobs.
    List(Request),
    /// The host wants to end: hand its jobs on.
    Bye {},
}

/// The first message of a host.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(in crate::host) struct Hello {
    /// The versions that it speaks.
    pub(in crate::host) v: Vec<u32>,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub(in crate::host) name: String,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub(in crate::host) version: String,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub(in crate::host) sdk: String,
    /// How many jobs it takes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(in crate::host) max_jobs: Option<u32>,
    /// How many starts it has in hand at once.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(in crate::host) max_starting: Option<u32>,
    #[serde(default)]
    pub(in crate::host) features: Vec<String>,
}

/// A request to the pool. Each has the fields of its own kind.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub(in crate::host) struct Request {
    /// Names the answer.
    pub(in crate::host) rid: u64,
    #[serde(flatten)]
    pub(in crate::host) key: Key,
    #[serde(flatten)]
    pub(in crate::host) body: Body,
    /// The caller's id of a dispatch.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(in crate::host) id: Option<String>,
    /// When the job runs again: never, on-failure, always.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(in crate::host) policy: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(in crate::host) within_ms: Option<u64>,
    /// It may be asked twice.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub(in crate::host) idempotent: bool,
    /// A stop: wait for the end.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub(in crate::host) until_stopped: bool,
    /// How many jobs to list, about, and from where.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(in crate::host) limit: Option<usize>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(in crate::host) next: Option<String>,
}
