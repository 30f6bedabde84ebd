//! The entries of streams, and the positions up to which a node has read them.

use std::collections::BTreeMap;

use super::performing::read;
use super::{AskEvent, AskId, BegunJob, EntryId, Outcome, PoolEvent, Said, Way};
use crate::model::id::{DispatchId, Incarnation, JobKey, NodeName, Token, WorkerId};
use std::time::Duration;

/// An entry of a worker's stream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WorkerEvent {
    /// `s`: jobs were assigned to the worker.
    Start {
        /// The token of all these jobs.
        token: Token,
        /// Their keys.
        keys: Vec<JobKey>,
    },
    /// `g`: jobs were granted to the worker, which may start them without asking.
    Grant(Granted),
    /// `x`: jobs must stop.
    Stop {
        /// The node that waits for the stop.
        waiting: Option<NodeName>,
        /// Keys, tokens, and the dispatches that must end, if the entry names them.
        jobs: Vec<(JobKey, Token, Option<DispatchId>)>,
    },
    /// `n`: notifications wait.
    Notify {
        /// Keys and tokens.
        jobs: Vec<(JobKey, Token)>,
    },
    /// `u`: jobs were given another payload.
    Update {
        /// Keys, tokens and generations.
        jobs: Vec<(JobKey, Token, u64)>,
    },
    /// `r`: an operator wants runs of jobs to end.
    Steer {
        /// Keys, tokens, what becomes of the jobs, and why.
        jobs: Vec<(JobKey, Token, Way, String)>,
    },
    /// `a`: asks of jobs, and pokes after them.
    Ask {
        /// The asking node.
        asker: NodeName,
        /// The asks with the keys of their jobs, in order.
        asks: Vec<(JobKey, AskEvent)>,
    },
    /// An entry that cannot be read. It is skipped and deleted.
    Unknown,
}

impl WorkerEvent {
    /// The highest token that it names; 0 if it names none.
    pub fn newest(&self) -> Token {
        fn newest(tokens: impl Iterator<Item = Token>) -> Token {
            tokens.max().unwrap_or_default()
        }
        match self {
            Self::Start { token, .. } | Self::Grant(Granted { token, .. }) => *token,
            Self::Stop { jobs, .. } => newest(jobs.iter().map(|(_, token, _)| *token)),
            Self::Notify { jobs } => newest(jobs.iter().map(|(_, token)| *token)),
            Self::Update { jobs } => newest(jobs.iter().map(|(_, token, _)| *token)),
            Self::Steer { jobs } => newest(jobs.iter().map(|(_, token, ..)| *token)),
            Self::Ask { asks, .. } => newest(asks.iter().map(|(_, ask)| ask.token)),
            Self::Unknown => Token::default(),
        }
    }
}

/// Jobs that one call has granted to a worker. Their records say that the worker runs them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Granted {
    /// The token of all these jobs.
    pub token: Token,
    /// The incarnation in which the grant holds.
    pub incarnation: Incarnation,
    /// The jobs.
    pub jobs: Vec<GrantedJob>,
}

/// A job that its worker may start without asking.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GrantedJob {
    /// The key.
    pub key: JobKey,
    /// Somebody may wait for its start.
    pub awaited: bool,
    /// The answer that a `begin` would have got. The record says that the worker runs the job.
    pub job: BegunJob,
}

impl GrantedJob {
    /// Its letter in the entry: that of `begin`'s answer, a small one if nobody waits for the start.
    pub fn letter(&self) -> u8 {
        let letter = match (self.job.waiting, &self.job.checkpoint) {
            (false, None) => b'B',
            (true, None) => b'N',
            (false, Some(_)) => b'C',
            (true, Some(_)) => b'D',
        };
        if self.awaited { letter } else { letter.to_ascii_lowercase() }
    }
}

/// The result of one read of a node's streams.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NodeEvents {
    /// Events of its workers, in order for each worker.
    pub workers: Vec<(WorkerId, EntryId, WorkerEvent)>,
    /// Entries of the node's own stream, in order, with the outcomes in them.
    pub outcomes: Vec<(EntryId, Vec<(DispatchId, Outcome)>)>,
    /// The words to the node's asks, in order.
    pub replies: Vec<(AskId, Said)>,
}

impl NodeEvents {
    /// The most entries of one stream.
    pub fn longest(&self) -> usize {
        let of_workers = self.workers.chunk_by(|one, next| one.0 == next.0).map(<[_]>::len).max();
        self.outcomes.len().max(of_workers.unwrap_or_default())
    }

    /// About how many bytes of keys, texts and bodies are in the entries.
    pub fn bytes(&self) -> usize {
        let of_event = |(_, _, event): &(WorkerId, EntryId, WorkerEvent)| match event {
            WorkerEvent::Start { keys, .. } => keys.iter().map(|key| key.as_bytes().len()).sum(),
            WorkerEvent::Grant(granted) => {
                granted.jobs.iter().map(|of| of.key.as_bytes().len() + of.job.bytes()).sum()
            }
            WorkerEvent::Stop { jobs, .. } => jobs.iter().map(|(key, ..)| key.as_bytes().len()).sum(),
            WorkerEvent::Notify { jobs } => jobs.iter().map(|(key, ..)| key.as_bytes().len()).sum(),
            WorkerEvent::Update { jobs } => jobs.iter().map(|(key, ..)| key.as_bytes().len()).sum(),
            WorkerEvent::Steer { jobs } => {
                jobs.iter().map(|(key, .., why)| key.as_bytes().len() + why.len()).sum()
            }
            WorkerEvent::Ask { asks, .. } => {
                asks.iter().map(|(key, ask)| key.as_bytes().len() + ask.body.len()).sum()
            }
            WorkerEvent::Unknown => 0,
        };
        let of_reply = |(_, said): &(AskId, Said)| match said {
            Said::Answer(body) | Said::Refused(body) => body.len(),
            _ => 0,
        };
        let outcomes = self.outcomes.iter().flat_map(|(_, outcomes)| outcomes);
        self.workers.iter().map(of_event).sum::<usize>()
            + outcomes.map(|(_, outcome)| outcome.len()).sum::<usize>()
            + self.replies.iter().map(of_reply).sum::<usize>()
    }
}

/// The arguments of one blocking read by a node.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Cursors {
    /// Its workers, each with the last entry that the node has read.
    pub workers: BTreeMap<WorkerId, EntryId>,
    /// The last entry that the node has read of its own stream.
    pub node: EntryId,
}

/// New start events for this consumer. `None`: the consumer group is gone.
#[derive(Clone, Debug)]
pub struct ReadPool {
    /// The routing node.
    pub consumer: NodeName,
    /// The most entries.
    pub max: usize,
    /// How long the read waits for the first entry; zero: not at all.
    pub block: Duration,
}

read!(ReadPool: "pool_events" -> Option<Vec<PoolEvent>>);

/// Start events in the hands of slow consumers. `None`: the consumer group is gone.
#[derive(Clone, Debug)]
pub struct ClaimPool {
    /// The routing node.
    pub consumer: NodeName,
    /// How long another consumer has kept an entry at least.
    pub min_idle: Duration,
    /// The most entries.
    pub max: usize,
}

read!(ClaimPool: "claim" -> Option<Vec<PoolEvent>>);

/// New entries of a node's streams.
#[derive(Clone, Debug)]
pub struct ReadNode {
    /// The node.
    pub node: NodeName,
    /// The positions in the streams of the node and of the workers.
    pub cursors: Cursors,
    /// The most entries of a stream.
    pub max: usize,
    /// How long the read waits for the first entry; zero: not at all.
    pub block: Duration,
}

read!(ReadNode: "node_events" -> NodeEvents);

/// The heartbeat counters of the given workers, or of all.
#[derive(Clone, Debug)]
pub struct ReadHeartbeats {
    /// The workers; `None`: all.
    pub workers: Option<Vec<WorkerId>>,
}

read!(ReadHeartbeats: "heartbeats" -> BTreeMap<WorkerId, u64>);

/// Tells nodes about outcomes, as a hint only.
#[derive(Clone, Debug)]
pub struct Tell {
    /// The dispatches and their outcomes.
    pub outcomes: Vec<(DispatchId, Outcome)>,
}

read!(Tell: "tell" -> ());

/// Deletes the node's own stream: the last step of a leaving node.
#[derive(Clone, Debug)]
pub struct ForgetNode {
    /// The node.
    pub node: NodeName,
}

read!(ForgetNode: "forget_node" -> ());
