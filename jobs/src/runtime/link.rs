//! The way to the store: a step is sent until it is answered, through outages and losses of data.

use std::collections::{BTreeMap, HashMap};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use futures::future::BoxFuture;
use futures::{FutureExt, TryFutureExt};
use tenure_connection::Backoff;
use tenure_steps::Step;
use tokio::sync::{Mutex, watch};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::metrics::Metrics;
use crate::error::Error;
use crate::model::id::{Incarnation, NodeName, QueueName, SetName, Token};
use crate::model::queue::Settings;
use crate::store::{
    Boot, Booted, Breakage, Declare, Figures, Known, MOST, ReadFigures, ReadServer, Recover,
    Result as StoreResult, Store, StoreError,
};

/// How long no job begins after a loss of data, ms.
const HOLD: u64 = 2_000;
/// A cause is warned of once in this time.
const WARN: Duration = Duration::from_secs(60);
/// How long a worker's queue may wait for a node that declares the queue, without a warning.
const PATIENCE: Duration = Duration::from_secs(10);
/// How long no lease is lost after one, ms: longer than nodes need to renew theirs.
const GRACE: u64 = 60_000;

#[derive(Clone)]
pub(crate) struct Link {
    pub(crate) store: Arc<dyn Store>,
    shared: Arc<Shared>,
}

struct Shared {
    node: NodeName,
    /// Tells the lanes of this life of the node from those of any other.
    life: String,
    /// The incarnation that this node follows.
    incarnation: watch::Sender<Incarnation>,
    /// The highest token that this node has seen.
    seen: AtomicU64,
    queues: std::sync::Mutex<Vec<Own>>,
    /// The queues of this node's workers that this node does not declare: since when, until the node has looked for a
    /// declaration.
    worked: std::sync::Mutex<BTreeMap<QueueName, Option<Instant>>>,
    repairing: Mutex<()>,
    closed: CancellationToken,
    /// When this node last warned, by cause.
    warned: std::sync::Mutex<HashMap<&'static str, Instant>>,
    metrics: Metrics,
    breakage: Option<Breakage>,
}

/// A queue of this node.
#[derive(Clone)]
struct Own {
    queue: QueueName,
    /// None of a queue that the node only names.
    settings: Option<Settings>,
    /// The incarnation whose data have taken the settings.
    declared_in: Incarnation,
}

/// A call of a node in an incarnation: a step, alone or behind others that remind the data of executions.
pub(crate) trait Call: Sync {
    type Answer;

    fn send<'a>(&'a self, link: &'a Link, inc: Incarnation) -> BoxFuture<'a, StoreResult<Self::Answer>>;
}

impl<S: Step + Known> Call for S {
    type Answer = S::Answer;

    fn send<'a>(&'a self, link: &'a Link, inc: Incarnation) -> BoxFuture<'a, StoreResult<S::Answer>> {
        link.store.run(inc, self).boxed()
    }
}

/// A call, answered with its incarnation.
pub(crate) struct In<C>(pub(crate) C);

impl<C: Call> Call for In<C> {
    type Answer = (Incarnation, C::Answer);

    fn send<'a>(&'a self, link: &'a Link, inc: Incarnation) -> BoxFuture<'a, StoreResult<Self::Answer>> {
        self.0.send(link, inc).map_ok(move |answer| (inc, answer)).boxed()
    }
}

impl Link {
    pub(crate) fn new(
        store: Arc<dyn Store>,
        set: &SetName,
        node: NodeName,
        breakage: Option<Breakage>,
    ) -> Self {
        let shared = Shared {
            metrics: Metrics::new(set, &node),
            node,
            life: ulid::Ulid::generate().to_string(),
            incarnation: watch::Sender::default(),
            seen: AtomicU64::new(0),
            queues: std::sync::Mutex::default(),
            worked: std::sync::Mutex::default(),
            repairing: Mutex::new(()),
            closed: CancellationToken::new(),
            warned: std::sync::Mutex::default(),
            breakage,
        };
        Self { store, shared: Arc::new(shared) }
    }

    /// The same link over connections of its own, for another runtime.
    pub(crate) fn apart(&self) -> Self {
        Self { store: self.store.apart(), shared: self.shared.clone() }
    }

    pub(crate) fn node(&self) -> &NodeName {
        &self.shared.node
    }

    /// The name of a lane of this life of the node.
    pub(crate) fn lane(&self, of: &str) -> String {
        format!("{}.{}.{of}", self.shared.node, self.shared.life)
    }

    pub(crate) fn metrics(&self) -> &Metrics {
        &self.shared.metrics
    }

    /// The line that a proof has left out.
    pub(crate) fn broken(&self) -> Option<Breakage> {
        self.shared.breakage
    }

    /// Whether to warn of a cause again: lasting damage fills no log.
    pub(crate) fn may_warn(&self, cause: &'static str) -> bool {
        let mut warned = self.shared.warned.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        let is_time = warned.get(cause).is_none_or(|at| at.elapsed() >= WARN);
        if is_time {
            warned.insert(cause, Instant::now());
        }
        is_time
    }

    pub(crate) fn closed(&self) -> &CancellationToken {
        &self.shared.closed
    }

    /// The incarnation that this node follows, seen by the caller, and word of the next ones.
    pub(crate) fn incarnations(&self) -> watch::Receiver<Incarnation> {
        self.shared.incarnation.subscribe()
    }

    pub(crate) fn see(&self, token: Token) {
        self.shared.seen.fetch_max(token.0, Ordering::Relaxed);
    }

    /// Remembers a queue: after a loss of data the node declares the queue anew, or makes the queue if nobody declares
    /// it.
    pub(crate) fn remember(&self, queue: &QueueName, settings: Option<&Settings>) {
        let mut queues = self.queues();
        queues.retain(|known| known.queue != *queue);
        let (queue, settings) = (queue.clone(), settings.cloned());
        queues.push(Own { queue, settings, declared_in: Incarnation(0) });
    }

    /// The data of the incarnation have the settings of a queue.
    pub(crate) fn declared(&self, queue: &QueueName, inc: Incarnation) {
        for known in self.queues().iter_mut().filter(|known| known.queue == *queue) {
            known.declared_in = known.declared_in.max(inc);
        }
    }

    fn queues(&self) -> std::sync::MutexGuard<'_, Vec<Own>> {
        self.shared.queues.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }

    /// Looks whether the data still have the settings that this node has declared. Lost or unreadable settings are a
    /// loss of data: a new incarnation begins, and all nodes declare their queues anew.
    pub(crate) async fn look_after_queues(&self) -> Result<(), Error> {
        let inc = *self.shared.incarnation.borrow();
        let is_ours = |known: &&Own| known.settings.is_some() && known.declared_in == inc;
        let names: Vec<_> = self.queues().iter().filter(is_ours).map(|known| known.queue.clone()).collect();
        for page in names.chunks(MOST) {
            let (found_in, figures) = self.call(&In(ReadFigures(page.to_vec()))).await?;
            if found_in != inc {
                break;
            }
            if figures.iter().any(is_undeclared) {
                tracing::warn!(node = %self.shared.node, "the settings of queues are lost, all nodes declare theirs anew");
                let server = self.store.run(inc, &ReadServer()).await?;
                match self.recover(inc, server).await {
                    Ok(_) | Err(StoreError::Stale(_)) => self.follow(inc).await?,
                    Err(error) => return Err(error.into()),
                }
                break;
            }
        }
        Ok(())
    }

    /// A worker of this node takes from these queues.
    pub(crate) fn works_on(&self, queues: &[QueueName]) {
        let (known, mut worked) = (self.queues().clone(), self.worked());
        for queue in queues {
            let is_ours = known.iter().any(|known| known.queue == *queue && known.settings.is_some());
            if !is_ours && !worked.contains_key(queue) {
                worked.insert(queue.clone(), Some(Instant::now()));
            }
        }
    }

    fn worked(&self) -> std::sync::MutexGuard<'_, BTreeMap<QueueName, Option<Instant>>> {
        self.shared.worked.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }

    /// Returns the queues that workers of this node take from and that no node has declared for a while. Names every
    /// queue once.
    pub(crate) async fn undeclared(&self) -> Result<Vec<QueueName>, Error> {
        let is_due = |since: &Option<Instant>| since.is_some_and(|since| since.elapsed() >= PATIENCE);
        let due: Vec<QueueName> =
            self.worked().iter().filter(|(_, since)| is_due(since)).map(|(queue, _)| queue.clone()).collect();
        let mut undeclared = Vec::new();
        for page in due.chunks(MOST) {
            let figures = self.call(&ReadFigures(page.to_vec())).await?;
            let found = page.iter().zip(&figures).filter(|(_, figures)| is_undeclared(figures));
            undeclared.extend(found.map(|(queue, _)| queue.clone()));
        }
        self.worked().extend(due.into_iter().map(|queue| (queue, None)));
        Ok(undeclared)
    }

    fn seen(&self) -> Token {
        Token(self.shared.seen.load(Ordering::Relaxed))
    }

    /// Sends a step until it is answered, or the node is closed. The same step goes again unchanged, so it takes effect
    /// once.
    pub(crate) async fn call<C: Call>(&self, step: &C) -> Result<C::Answer, Error> {
        self.send(step, None, false).await
    }

    /// A call for users: a refusal of Redis ends the step at once, unless an earlier attempt may have been executed. A refusal
    /// lasts until somebody mends the rights, the settings or the server.
    pub(crate) async fn call_or_refuse<C: Call>(&self, step: &C) -> Result<C::Answer, Error> {
        self.send(step, None, true).await
    }

    /// Sends a step until it is answered or refused, or so much time has passed.
    pub(crate) async fn call_within<C: Call>(&self, time: Duration, step: &C) -> Result<C::Answer, Error> {
        self.send(step, Some(Instant::now() + time), true).await
    }

    async fn send<C: Call>(
        &self,
        step: &C,
        end: Option<Instant>,
        mut hears_refusals: bool,
    ) -> Result<C::Answer, Error> {
        let mut pauses = self.pauses();
        loop {
            let error = match self.once(step).await {
                Ok(answer) => return Ok(answer),
                Err(error) => error,
            };
            let lasts = match error {
                StoreError::Late | StoreError::NoTokens | StoreError::Damaged(_) => true,
                StoreError::Unusable(_) => hears_refusals,
                _ => false,
            };
            hears_refusals &= end.is_some() || !matches!(error, StoreError::Unanswered(_));
            pauses.fail();
            if lasts || end.is_some_and(|end| Instant::now() + pauses.pause() >= end) {
                return Err(error.into());
            }
            if end.is_none() && pauses.failures() == 3 {
                tracing::warn!(node = %self.shared.node, error = &error as &dyn std::error::Error, "a step has failed three times and is sent again");
            }
            tokio::select! {
                biased;
                () = pauses.wait() => {}
                () = self.shared.closed.cancelled(), if end.is_none() => return Err(Error::Closed),
            }
        }
    }

    /// Sends a step once, and again at once when only the incarnation or the server was another one.
    async fn once<C: Call>(&self, step: &C) -> StoreResult<C::Answer> {
        let mut last = StoreError::NoSet;
        for _ in 0..3 {
            let inc = *self.shared.incarnation.borrow();
            match step.send(self, inc).await {
                Err(error @ (StoreError::NoSet | StoreError::Stale(_) | StoreError::OtherServer { .. })) => {
                    self.follow(inc).await?;
                    last = error;
                }
                answer => return answer,
            }
        }
        Err(last)
    }

    /// Follows the set from an incarnation that is over to the next one, or makes the set.
    pub(crate) async fn follow(&self, former: Incarnation) -> StoreResult<()> {
        let _alone = self.shared.repairing.lock().await;
        if *self.shared.incarnation.borrow() != former {
            return Ok(());
        }
        let server = self.store.run(former, &ReadServer()).await?;
        // A set that was made anew, by whomever, waits for those who know the former one.
        let knows_a_former = former.0 != 0;
        let (found, is_sound) = match self.store.run(former, &Boot(self.seen())).await? {
            Booted::Created { incarnation } => (incarnation, !knows_a_former),
            Booted::Exists { incarnation, server: known, recovered } => {
                let made_anew = knows_a_former && incarnation != former && !recovered;
                // A damaged head has none.
                (incarnation, incarnation.0 != 0 && known == server && !made_anew)
            }
        };
        let incarnation = if is_sound {
            found
        } else {
            match self.recover(found, server.clone()).await {
                Ok(incarnation) | Err(StoreError::Stale(incarnation)) => incarnation,
                Err(error) => return Err(error),
            }
        };
        self.store.bless(&server);
        let queues = self.queues().clone();
        for Own { queue, settings, .. } in queues {
            if self.store.run(incarnation, &Declare(queue.clone(), settings)).await? {
                self.declared(&queue, incarnation);
            } else {
                tracing::error!(node = %self.shared.node, %queue, "after a loss of data the queue is there as another kind, without groups, with groups or pinned");
            }
        }
        if former.0 != 0 && former != incarnation {
            self.metrics().data_are_lost();
            tracing::warn!(node = %self.shared.node, %incarnation, "the data of the jobs were lost or went back");
        }
        self.shared
            .incarnation
            .send_if_modified(|known| std::mem::replace(known, incarnation) != incarnation);
        Ok(())
    }

    async fn recover(&self, inc: Incarnation, server: Box<str>) -> StoreResult<Incarnation> {
        let recover = Recover { seen: self.seen(), server, hold: HOLD, grace: GRACE };
        self.store.run(inc, &recover).await
    }

    /// The pauses of one node differ from those of others.
    fn pauses(&self) -> Backoff {
        let mut hasher = DefaultHasher::new();
        self.shared.node.hash(&mut hasher);
        Backoff::new(Duration::from_millis(20), Duration::from_secs(1)).with_seed(hasher.finish())
    }
}

/// A node that only names a queue has made the queue without a declaration.
fn is_undeclared(found: &Figures) -> bool {
    found.settings.as_ref().is_none_or(Settings::is_named)
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;
    use crate::MemoryStore;
    use crate::store::{Lane, TakeJobs, TakeReply, Taking};

    #[tokio::test(start_paused = true)]
    async fn a_worked_queue_that_nobody_declares_is_told_once() {
        let store = MemoryStore::new();
        let set = SetName::new("s").unwrap();
        let link = Link::new(Arc::new(store), &set, NodeName::new("n").unwrap(), None);
        link.follow(Incarnation(0)).await.unwrap();
        let queues = ["absent", "named", "declared", "own"].map(|name| QueueName::new(name).unwrap());
        let [absent, named, declared, own] = &queues;
        link.remember(own, Some(&Settings::default()));
        link.works_on(&queues);
        link.call(&Declare(named.clone(), None)).await.unwrap();
        link.call(&Declare(declared.clone(), None)).await.unwrap();
        assert!(link.undeclared().await.unwrap().is_empty(), "another node may declare the queues soon");
        tokio::time::advance(PATIENCE).await;
        link.call(&Declare(declared.clone(), Some(Settings::default()))).await.unwrap();
        assert_eq!(link.undeclared().await.unwrap(), [absent.clone(), named.clone()]);
        link.works_on(&queues);
        tokio::time::advance(PATIENCE).await;
        assert!(link.undeclared().await.unwrap().is_empty());
    }

    /// The answers of a step, the last one first.
    struct Answers(std::sync::Mutex<Vec<StoreResult<()>>>);

    impl Call for Answers {
        type Answer = ();

        fn send<'a>(&'a self, _: &'a Link, _: Incarnation) -> BoxFuture<'a, StoreResult<()>> {
            std::future::ready(self.0.lock().unwrap().pop().unwrap()).boxed()
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_refused_step_ends_unless_it_may_be_done() {
        let set = SetName::new("s").unwrap();
        let link = Link::new(Arc::new(MemoryStore::new()), &set, NodeName::new("n").unwrap(), None);
        let lost = || Arc::new(std::io::Error::other("for a test"));
        // The step fails in this way, is refused, and is executed.
        let step = |first: StoreError| {
            let answers = [Ok(()), Err(StoreError::unusable("a right is missing")), Err(first)];
            Answers(std::sync::Mutex::new(answers.to_vec()))
        };
        let refused = link.call_or_refuse(&step(StoreError::NotExecuted(lost()))).await;
        assert!(matches!(refused, Err(Error::Store(StoreError::Unusable(_)))), "{refused:?}");
        link.call_or_refuse(&step(StoreError::Unanswered(lost()))).await.unwrap();
        link.call(&step(StoreError::NotExecuted(lost()))).await.unwrap();
    }

    #[tokio::test]
    async fn a_started_worker_has_its_queues_looked_at() {
        let jobs = crate::Jobs::in_memory(MemoryStore::new()).queue(crate::Queue::new("own"));
        let jobs = jobs.queues(["named"]).join().await.unwrap();
        let handler = async |_: crate::Ctx, (): ()| Ok::<_, crate::BoxError>(());
        let _worker = jobs.worker_of(["own", "named", "absent"], handler).start().unwrap();
        let worked: Vec<_> = jobs.shared.own.worked().keys().map(ToString::to_string).collect();
        assert_eq!(worked, ["absent", "named"]);
    }

    #[tokio::test]
    async fn no_job_begins_right_after_a_loss_of_all_data() {
        for a_newcomer_comes_first in [false, true] {
            let clock = Arc::new(AtomicU64::new(1_000_000_000));
            let read = clock.clone();
            let store = MemoryStore::with_clock(move || read.load(Ordering::Relaxed));
            let link = |name: &str| {
                let set = SetName::new("s").unwrap();
                Link::new(Arc::new(store.clone()), &set, NodeName::new(name).unwrap(), None)
            };
            let take = async |link: &Link| {
                let queue = QueueName::new("q").unwrap();
                let taking = Taking::new(link.node().clone(), queue, 1);
                link.call(&TakeJobs(Lane::new(link.lane("take")), taking)).await.unwrap()
            };
            let (first, second) = (link("n"), link("m"));
            for link in [&first, &second] {
                assert!(matches!(take(link).await, TakeReply::Taken { .. }), "a new set holds nobody up");
            }
            store.wipe();
            clock.fetch_add(1_000, Ordering::Relaxed);
            if a_newcomer_comes_first {
                link("new").follow(Incarnation(0)).await.unwrap();
            }
            assert!(matches!(take(&second).await, TakeReply::Hold(_)));
            let incarnation = *second.incarnations().borrow();
            assert!(matches!(take(&first).await, TakeReply::Hold(_)));
            assert_eq!(*first.incarnations().borrow(), incarnation, "one recovery is enough");
        }
    }
}
