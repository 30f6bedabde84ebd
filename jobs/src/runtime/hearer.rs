//! The messages to a node, handed to those whom they concern.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::UNIX_EPOCH;

use tokio::sync::{Notify, mpsc, oneshot};

use super::keeper::Keeper;
use super::link::Link;
use crate::model::id::{GroupName, JobId, QueueName};
use crate::store::{Hint, News, StoreError, WatchJobs, Watching};

/// Something that happened to watched jobs.
#[derive(Clone, Debug)]
pub(crate) enum Heard {
    News(News),
    /// News may have been missed.
    Gap,
}

/// Those who are told.
#[derive(Clone, Default)]
pub(crate) struct Ears(Arc<Mutex<Listeners>>);

#[derive(Default)]
struct Listeners {
    takers: Vec<(QueueName, Arc<Notify>)>,
    /// Those that take the jobs of one group alone.
    owners: HashMap<(QueueName, GroupName), Arc<Notify>>,
    watchers: BTreeMap<JobId, Vec<mpsc::UnboundedSender<Heard>>>,
    /// The number of the last call that watches or does so no more.
    call: u64,
}

impl Listeners {
    /// The number of the next call. It is drawn together with what the call says, so the latest word is the true one. It
    /// begins with the clock, and so above those of an earlier life of the node.
    fn next_call(&mut self) -> u64 {
        let since = UNIX_EPOCH.elapsed().unwrap_or_default();
        self.call = (self.call + 1).max(u64::try_from(since.as_micros()).unwrap_or_default());
        self.call
    }
}

impl Ears {
    fn listeners(&self) -> MutexGuard<'_, Listeners> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Wakes a taker when a queue has ready jobs.
    pub(crate) fn wake_for(&self, queue: &QueueName, taker: &Arc<Notify>) {
        self.listeners().takers.push((queue.clone(), taker.clone()));
    }

    pub(crate) fn forget(&self, taker: &Arc<Notify>) {
        self.listeners().takers.retain(|(_, known)| !Arc::ptr_eq(known, taker));
    }

    /// Wakes a taker when a group of a pinned queue has ready jobs. It takes the place of the group's former one.
    pub(crate) fn wake_owner(&self, queue: &QueueName, group: &GroupName, taker: &Arc<Notify>) {
        self.listeners().owners.insert((queue.clone(), group.clone()), taker.clone());
    }

    pub(crate) fn forget_owner(&self, queue: &QueueName, group: &GroupName, taker: &Arc<Notify>) {
        let (mut listeners, of) = (self.listeners(), (queue.clone(), group.clone()));
        if listeners.owners.get(&of).is_some_and(|known| Arc::ptr_eq(known, taker)) {
            listeners.owners.remove(&of);
        }
    }

    /// Tells news of a job, and has the number of the call that watches it.
    pub(crate) fn watch(&self, id: &JobId) -> (mpsc::UnboundedReceiver<Heard>, u64) {
        let (sender, receiver) = mpsc::unbounded_channel();
        let mut listeners = self.listeners();
        let watchers = listeners.watchers.entry(id.clone()).or_default();
        watchers.retain(|watcher| !watcher.is_closed());
        watchers.push(sender);
        (receiver, listeners.next_call())
    }

    /// Forgets watchers that are gone. When nobody on this node watches the job any more: the number of the call that
    /// says so.
    pub(crate) fn unwatched(&self, id: &JobId) -> Option<u64> {
        let mut listeners = self.listeners();
        if let Some(watchers) = listeners.watchers.get_mut(id) {
            watchers.retain(|watcher| !watcher.is_closed());
            if !watchers.is_empty() {
                return None;
            }
            listeners.watchers.remove(id);
        }
        Some(listeners.next_call())
    }

    fn wake(&self, queue: &QueueName, group: Option<GroupName>) {
        let listeners = self.listeners();
        if let Some(group) = group {
            if let Some(owner) = listeners.owners.get(&(queue.clone(), group)) {
                owner.notify_one();
            }
            return;
        }
        for (_, taker) in listeners.takers.iter().filter(|(of, _)| of == queue) {
            taker.notify_one();
        }
    }

    fn wake_all(&self) {
        let listeners = self.listeners();
        let takers = listeners.takers.iter().map(|(_, taker)| taker);
        takers.chain(listeners.owners.values()).for_each(|taker| taker.notify_one());
    }

    fn tell(&self, news: &News) {
        if let Some(watchers) = self.listeners().watchers.get_mut(&news.id) {
            watchers.retain(|watcher| watcher.send(Heard::News(news.clone())).is_ok());
        }
    }

    /// All that is watched has a gap, and is watched again by calls of this number.
    fn watched(&self) -> (Vec<JobId>, u64) {
        let mut listeners = self.listeners();
        listeners.watchers.retain(|_, watchers| {
            watchers.retain(|watcher| watcher.send(Heard::Gap).is_ok());
            !watchers.is_empty()
        });
        (listeners.watchers.keys().cloned().collect(), listeners.next_call())
    }
}

/// Those who act upon messages, and whether Redis refuses to send any.
struct Hearing {
    link: Link,
    ears: Ears,
    keeper: Keeper,
    is_refused: bool,
}

/// Hands out messages until the node is closed.
///
/// It says when it hears for the first time: what happens before is missed. Or it says that it may not.
pub(crate) async fn run(
    link: Link,
    ears: Ears,
    keeper: Keeper,
    tick: Arc<Notify>,
    hears: oneshot::Sender<Result<(), StoreError>>,
) {
    let mut hears = Some(hears);
    let mut hints = link.store.listen(link.node());
    let mut incarnations = link.incarnations();
    let mut hearing = Hearing::new(link, ears, keeper);
    let closed = hearing.link.closed().clone();
    loop {
        tokio::select! {
            biased;
            () = closed.cancelled() => return,
            hint = hints.recv() => match hint {
                Some(hint) => {
                    let first = match &hint {
                        Hint::Subscribed => Some(Ok(())),
                        Hint::Refused(why) => Some(Err(StoreError::unusable(why))),
                        _ => None,
                    };
                    if let Some((hears, first)) = first.and_then(|first| Some((hears.take()?, first))) {
                        // Nobody may wait for it any more.
                        let _ = hears.send(first);
                    }
                    hearing.hear(&tick, hint).await;
                }
                None => return,
            },
            () = incarnations.changed() => {
                incarnations.see();
                hearing.look_again().await;
            }
        }
    }
}

impl Hearing {
    fn new(link: Link, ears: Ears, keeper: Keeper) -> Self {
        Self { link, ears, keeper, is_refused: false }
    }

    async fn hear(&mut self, tick: &Notify, hint: Hint) {
        match hint {
            Hint::Ready(queue, group) => self.ears.wake(&queue, group),
            Hint::Earlier => tick.notify_one(),
            Hint::Halted(id, token) => self.keeper.halt(&id, token),
            Hint::Cancel(id, token) => self.keeper.cancel(&id, token),
            Hint::Extend => self.keeper.renew_all(),
            Hint::News(news) => self.ears.tell(&news),
            Hint::Refused(why) if self.is_refused => {
                tracing::debug!(node = %self.link.node(), why, "redis still refuses to send messages");
            }
            Hint::Refused(why) => {
                self.is_refused = true;
                tracing::warn!(node = %self.link.node(), why, "redis refuses to send messages, the node only looks for itself");
            }
            Hint::Subscribed => {
                if std::mem::take(&mut self.is_refused) {
                    tracing::info!(node = %self.link.node(), "redis sends messages again");
                }
                self.look_again().await;
            }
        }
    }

    /// Messages may have been missed: everybody looks for himself.
    async fn look_again(&self) {
        self.ears.wake_all();
        self.keeper.renew_all();
        let (all, number) = self.ears.watched();
        for ids in all.chunks(crate::store::MOST) {
            let (node, ids) = (self.link.node().clone(), ids.to_vec());
            let watch = WatchJobs { node, watching: Watching::Again, number, ids };
            if self.link.call(&watch).await.is_err() {
                return;
            }
        }
        // A second look finds the changes between the gap and the watch.
        self.ears.watched();
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use tracing::{Event, Level, Metadata, Subscriber, span};

    use super::*;
    use crate::MemoryStore;
    use crate::model::id::{Incarnation, NodeName, SetName};

    /// The levels of the events of this crate.
    #[derive(Clone, Default)]
    struct Levels(Arc<Mutex<Vec<Level>>>);

    impl Subscriber for Levels {
        fn enabled(&self, metadata: &Metadata<'_>) -> bool {
            metadata.target().starts_with(module_path!().split("::").next().unwrap())
        }

        fn new_span(&self, _: &span::Attributes<'_>) -> span::Id {
            span::Id::from_u64(1)
        }

        fn record(&self, _: &span::Id, _: &span::Record<'_>) {}

        fn record_follows_from(&self, _: &span::Id, _: &span::Id) {}

        fn event(&self, event: &Event<'_>) {
            self.0.lock().unwrap().push(*event.metadata().level());
        }

        fn enter(&self, _: &span::Id) {}

        fn exit(&self, _: &span::Id) {}
    }

    #[tokio::test]
    async fn a_refusal_is_warned_of_once_until_it_is_over() {
        let (set, node) = (SetName::new("s").unwrap(), NodeName::new("n").unwrap());
        let link = Link::new(Arc::new(MemoryStore::new()), &set, node, None);
        link.follow(Incarnation(0)).await.unwrap();
        let (mut hearing, levels) =
            (Hearing::new(link, Ears::default(), Keeper::default()), Levels::default());
        let _guard = tracing::subscriber::set_default(levels.clone());
        let refused = || Hint::Refused("no".into());
        for hint in [Hint::Subscribed, refused(), refused(), refused(), Hint::Subscribed, refused()] {
            hearing.hear(&Notify::new(), hint).await;
        }
        let levels = levels.0.lock().unwrap().clone();
        assert_eq!(levels, [Level::WARN, Level::DEBUG, Level::DEBUG, Level::INFO, Level::WARN]);
    }
}
