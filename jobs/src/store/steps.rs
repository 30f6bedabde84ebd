//! The steps of the protocol as values, and the store that performs them. A list has at most [`MOST`](super::MOST) items.

use std::any::Any;
use std::sync::Arc;

use futures::FutureExt;
use futures::future::BoxFuture;
use tenure_steps::{Step, steps};
use tokio::sync::mpsc;

use super::asked::{AddReply, Adding, Attesting, Request, SettleReply, Settling, SteerReply};
use super::error::{Result, StoreError};
use super::memory::{MemoryStore, Transition};
use super::redis::{OnRedis, RedisStore};
use super::{
    Booted, Ends, Extended, Figures, Hint, Lane, Listing, Page, Peeked, Seen, TakeReply, Taking, Ticked,
    Watching,
};
use crate::model::id::{Incarnation, JobId, NodeName, QueueName, Token};
use crate::model::queue::Settings;
use crate::model::record::Record;

steps! {
    /// Makes the data of the set, above the highest token that the caller has seen, or finds them. Takes no incarnation.
    pub struct Boot(pub Token): "boot" -> Booted;

    /// Begins another incarnation, after a change of the server or a loss of data. The first caller wins; the others
    /// get [`StoreError::Stale`].
    pub struct Recover {
        /// The highest token that the caller has seen.
        pub seen: Token,
        /// The identity of the server.
        pub server: Box<str>,
        /// How long no job is taken, ms.
        pub hold: u64,
        /// How long no lease is lost, ms.
        pub grace: u64,
    }: "recover" -> Incarnation;

    /// The identity of the server that answers. Takes no incarnation.
    pub struct ReadServer(): "server" -> Box<str>;

    /// Makes a queue, or changes its settings but not whether it is paused. False when it would change from plain to
    /// grouped, or back. Without settings it only names a queue: it makes the queue with the default settings where there
    /// is none, and changes no queue. A merely named queue may still be declared with groups or pinned, until the first job
    /// comes.
    pub struct Declare(pub QueueName, pub Option<Settings>): "declare" -> bool;

    /// Adds jobs, and answers for each.
    pub struct AddJobs(pub Lane, pub Adding): "add" -> Vec<AddReply>;

    /// Lets jobs begin.
    pub struct TakeJobs(pub Lane, pub Taking): "take" -> TakeReply;

    /// Says what became of executions, and answers for each.
    pub struct SettleJobs(pub Lane, pub Vec<Settling>): "settle" -> Vec<SettleReply>;

    /// Renews the leases of executions.
    pub struct ExtendJobs(pub Vec<(JobId, Token)>): "extend" -> Extended;

    /// Says which executions a node has, or had: after a loss of data they are running again, unless the data know of a
    /// later one. A job that is gone is made again from the data that are given.
    pub struct AttestJobs(pub Vec<Attesting>): "attest" -> Extended;

    /// Does what is due. After a gap that is longer than `pause` by more than 1 s no lease is lost for as long again.
    pub struct Tick {
        /// The node that ticks.
        pub node: NodeName,
        /// The most of a kind that is done.
        pub most: u32,
        /// The next tick comes after this time at the latest, ms.
        pub pause: u64,
        /// The longest time in which no lease is lost after a gap, ms.
        pub grace: u64,
        /// The node ticks although another one is on duty.
        pub off_duty: bool,
    }: "tick" -> Ticked;

    /// Changes jobs, queues and groups from outside, and answers for each request.
    pub struct SteerJobs(pub Vec<Request>): "steer" -> Vec<SteerReply>;

    /// Watches jobs from a node, or no more, and answers how each of them is; `None` when it is not there. An answer with
    /// more than 1 MiB of data is shorter than `ids`, and the rest of the jobs is left as it was.
    pub struct WatchJobs {
        /// The node.
        pub node: NodeName,
        /// From now on, as before, or no more.
        pub watching: Watching,
        /// The number of the node's call, higher than all before: a call that comes late takes back no later one.
        pub number: u64,
        /// The jobs.
        pub ids: Vec<JobId>,
    }: "watch" -> Vec<Option<Seen>>;

    /// Jobs as they are. An answer with more than 1 MiB of data or 4,096 ends is shorter than the list, but never empty.
    /// The last job of it may have [more ends](Peeked::more).
    pub struct PeekJobs(pub Ends, pub Vec<JobId>): "peek" -> Vec<Option<Peeked>>;

    /// How many jobs queues have.
    pub struct ReadFigures(pub Vec<QueueName>): "figures" -> Vec<Figures>;

    /// The names of all queues that were ever declared. Takes no incarnation.
    pub struct ListQueues(): "HKEYS" -> Vec<QueueName>;

    /// A page of a listing. Takes no incarnation.
    pub struct ListJobs {
        /// The listing.
        pub of: Listing,
        /// The page begins behind this cursor.
        pub after: Option<String>,
        /// The most jobs of the page.
        pub size: u32,
    }: "ZRANGE" -> Page;

    /// A page of so many of all jobs behind a cursor, in no order, with their records. A job that comes or goes meanwhile
    /// may be missed; one that is there all the time is listed, perhaps twice. Takes no incarnation.
    pub struct ScanJobs(pub u64, pub u32): "HSCAN" -> (u64, Vec<(JobId, Record)>);

    /// The time by the store's clock, ms. Takes no incarnation.
    pub struct ReadTime(): "TIME" -> u64;
}

/// The answer of a step whose type the caller knows.
pub type Answer = Box<dyn Any + Send>;

/// A step of both stores, whichever it is.
pub trait Known: Any + Send + Sync {
    /// Performs the step in memory.
    ///
    /// # Errors
    /// [`StoreError`].
    fn with_memory(&self, store: &MemoryStore, inc: Incarnation) -> Result<Answer>;

    /// Performs the step on Redis.
    ///
    /// # Cancel safety
    /// After a dropped step it is not known whether it was executed.
    fn with_redis<'a>(&'a self, store: &'a RedisStore, inc: Incarnation) -> BoxFuture<'a, Result<Answer>>;
}

impl<S: Transition + OnRedis> Known for S {
    fn with_memory(&self, store: &MemoryStore, inc: Incarnation) -> Result<Answer> {
        Ok(Box::new(self.on_memory(store, inc)?))
    }

    fn with_redis<'a>(&'a self, store: &'a RedisStore, inc: Incarnation) -> BoxFuture<'a, Result<Answer>> {
        async move { Ok(Box::new(self.send(store, inc).await?) as Answer) }.boxed()
    }
}

/// A store. Errors are those of [`StoreError`]; each step ends within the client's deadline.
pub trait Store: Send + Sync + 'static {
    /// Performs a step in this incarnation.
    ///
    /// # Cancel safety
    /// After a dropped step it is not known whether it was executed.
    fn perform<'a>(&'a self, inc: Incarnation, step: &'a dyn Known) -> BoxFuture<'a, Result<Answer>>;

    /// Sends steps only to this server from now on.
    fn bless(&self, server: &str);

    /// The messages to a node from now on.
    fn listen(&self, node: &NodeName) -> mpsc::UnboundedReceiver<Hint>;

    /// The same store over connections of its own, for another runtime.
    fn apart(&self) -> Arc<dyn Store>;
}

impl dyn Store {
    /// Performs a step in this incarnation.
    ///
    /// # Errors
    /// [`StoreError`].
    ///
    /// # Cancel safety
    /// After a dropped step it is not known whether it was executed.
    pub async fn run<S: Step + Known>(&self, inc: Incarnation, step: &S) -> Result<S::Answer> {
        let answer = self.perform(inc, step).await?.downcast();
        answer.map(|answer| *answer).map_err(|_| StoreError::damaged("the answer is another step's"))
    }
}
