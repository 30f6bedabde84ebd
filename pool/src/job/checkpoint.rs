//! The state that a handler leaves with its job, on its way to the engine.

use std::fmt;
use std::future::{Future, IntoFuture};
use std::pin::Pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime};

use bytes::Bytes;
use tokio::sync::{Notify, mpsc};

use crate::error::BoxError;
use crate::job::Job;
use crate::job::typed::{self, DecodeError, Payload};
use crate::model::id::{JobKey, Token, WorkerId};
use crate::model::unsaved::NotSaved;
use crate::store::Checkpoint;

/// The state that a job has in the pool.
#[derive(Clone, Debug)]
pub struct Checkpointed(Checkpoint);

impl Checkpointed {
    pub(crate) fn new(checkpoint: Checkpoint) -> Self {
        Self(checkpoint)
    }

    /// The bytes as they were given.
    pub fn bytes(&self) -> &Bytes {
        &self.0.bytes
    }

    /// The token of the owner that gave them.
    pub fn token(&self) -> Token {
        self.0.token
    }

    /// When the pool kept them, by the store's clock.
    pub fn at(&self) -> SystemTime {
        SystemTime::UNIX_EPOCH + Duration::from_millis(self.0.at)
    }

    /// The bytes as a value, for a checkpoint from [`Job::checkpoint_as`](crate::Job::checkpoint_as).
    ///
    /// # Errors
    /// The bytes cannot be read as this type.
    pub fn decode<T: Payload>(&self) -> Result<T, DecodeError> {
        typed::decode(Some(T::TYPE), self.bytes())
    }
}

/// A checkpoint on its way to the store. Await it to know that it is kept, or that a newer one of the job is. It is on
/// its way whether it is awaited or not.
///
/// # Errors
/// [`NotSaved`]: it is not kept, or may not be.
#[derive(Debug)]
pub struct Saving(Result<(Arc<Slot>, u64), NotSaved>);

impl IntoFuture for Saving {
    type Output = Result<(), NotSaved>;
    type IntoFuture = Pin<Box<dyn Future<Output = Self::Output> + Send>>;

    /// # Cancel safety
    /// Safe to drop at any time: the checkpoint is saved all the same.
    fn into_future(self) -> Self::IntoFuture {
        Box::pin(async move {
            let (slot, number) = self.0?;
            slot.settled(number).await
        })
    }
}

/// A job that ends by its own word, and how.
pub(crate) type OwnEnd = (Job, Result<(), BoxError>);

/// Hears of a checkpoint that the node refuses at once. The job may not look at the result.
pub(crate) type OnRefused = Box<dyn Fn(&JobKey, &NotSaved) + Send + Sync>;

/// The ways of checkpoints and of ends from all jobs of a node to its driver.
pub(crate) struct Savers {
    to: mpsc::UnboundedSender<Arc<Slot>>,
    ends: mpsc::UnboundedSender<OwnEnd>,
    on_refused: OnRefused,
    /// The pool's `checkpoint_max`.
    max: AtomicUsize,
}

impl fmt::Debug for Savers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Savers").field("max", &self.max).finish_non_exhaustive()
    }
}

impl Savers {
    pub(crate) fn new(
        (to, ends): (mpsc::UnboundedSender<Arc<Slot>>, mpsc::UnboundedSender<OwnEnd>),
        max: usize,
        on_refused: OnRefused,
    ) -> Self {
        Self { to, ends, on_refused, max: AtomicUsize::new(max) }
    }

    /// Refuses the checkpoint of this job before anything is sent.
    pub(super) fn refuse(&self, key: &JobKey, why: NotSaved) -> Saving {
        (self.on_refused)(key, &why);
        Saving(Err(why))
    }

    /// The job ends in this way. A node that hears nothing has ended it already.
    pub(crate) fn end(&self, job: &Job, result: Result<(), BoxError>) {
        let _ = self.ends.send((job.clone(), result));
    }

    /// Those of a node that hears nothing.
    #[cfg(test)]
    pub(crate) fn unheard() -> Arc<Self> {
        let ways = (mpsc::unbounded_channel().0, mpsc::unbounded_channel().0);
        Arc::new(Self::new(ways, usize::MAX, Box::new(|_, _| {})))
    }

    pub(crate) fn go_by(&self, max: usize) {
        self.max.store(max, Ordering::Relaxed);
    }
}

/// The checkpoint that a job has given and the engine has not taken; a newer one replaces it.
pub(crate) struct Slot {
    pub(crate) worker: WorkerId,
    pub(crate) key: JobKey,
    pub(crate) token: Token,
    state: Mutex<State>,
    changed: Notify,
}

#[derive(Default)]
struct State {
    /// How many were given.
    given: u64,
    /// The newest, until the engine takes it.
    next: Option<Bytes>,
    /// All up to this number are kept, or a newer one is.
    kept: u64,
    /// Nobody waits any longer for those up to this number that are not kept, and why.
    lost: Option<(u64, NotSaved)>,
}

impl fmt::Debug for Slot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Slot").field("key", &self.key).field("token", &self.token.0).finish_non_exhaustive()
    }
}

impl Slot {
    pub(crate) fn new(worker: WorkerId, key: JobKey, token: Token) -> Self {
        Self { worker, key, token, state: Mutex::default(), changed: Notify::new() }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Gives a checkpoint.
    pub(crate) fn give(self: &Arc<Self>, savers: &Savers, bytes: Bytes) -> Saving {
        let max = savers.max.load(Ordering::Relaxed);
        if bytes.len() > max {
            return savers.refuse(&self.key, NotSaved::TooLong { len: bytes.len(), max });
        }
        let (number, is_heard) = {
            let mut state = self.state();
            state.given += 1;
            let is_told = state.next.replace(bytes).is_some();
            // Sent under the lock. Otherwise another task of the job could find the engine told before it is.
            (state.given, is_told || savers.to.send(self.clone()).is_ok())
        };
        if !is_heard {
            // The node has ended.
            self.lose(u64::MAX, NotSaved::JobGone);
        }
        Saving(Ok((self.clone(), number)))
    }

    /// The newest checkpoint, with its number, unless the engine has it.
    pub(crate) fn take(&self) -> Option<(u64, Bytes)> {
        let mut state = self.state();
        let bytes = state.next.take()?;
        Some((state.given, bytes))
    }

    /// The checkpoint of this number is kept. Returns whether it is the newest.
    pub(crate) fn keep(&self, number: u64) -> bool {
        let is_newest = {
            let mut state = self.state();
            state.kept = state.kept.max(number);
            state.kept >= state.given
        };
        self.changed.notify_waiters();
        is_newest
    }

    /// Nobody waits any longer for those up to this number. Returns whether that is the newest.
    pub(crate) fn lose(&self, number: u64, why: NotSaved) -> bool {
        let is_newest = {
            let mut state = self.state();
            let is_newest = number >= state.given;
            if is_newest {
                state.next = None;
            }
            let before = state.lost.as_ref().map_or(0, |(number, _)| *number);
            state.lost = Some((number.min(state.given).max(before), why));
            is_newest
        };
        self.changed.notify_waiters();
        is_newest
    }

    async fn settled(&self, number: u64) -> Result<(), NotSaved> {
        loop {
            let changed = self.changed.notified();
            {
                let state = self.state();
                if state.kept >= number {
                    return Ok(());
                }
                if let Some((_, why)) = state.lost.as_ref().filter(|(lost, _)| *lost >= number) {
                    return Err(why.clone());
                }
            }
            changed.await;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicBool;
    use std::task::{Context, Wake, Waker};

    use futures::FutureExt;

    use super::*;

    fn slot() -> (Arc<Slot>, Savers, mpsc::UnboundedReceiver<Arc<Slot>>) {
        let (to, from) = mpsc::unbounded_channel();
        let key = JobKey::try_from("k").unwrap_or_else(|error| panic!("{error}"));
        (
            Arc::new(Slot::new(WorkerId(1), key, Token(1))),
            Savers::new((to, mpsc::unbounded_channel().0), 4, Box::new(|_, _| {})),
            from,
        )
    }

    #[tokio::test]
    async fn the_newest_checkpoint_takes_the_place_of_one_that_waits() {
        let (slot, savers, mut from) = slot();
        let (first, second) = (slot.give(&savers, "a".into()), slot.give(&savers, "b".into()));
        assert!(from.try_recv().is_ok() && from.try_recv().is_err(), "the engine is told once");
        assert_eq!(slot.take(), Some((2, "b".into())));
        assert_eq!(slot.take(), None);
        let mut second = second.into_future();
        assert_eq!((&mut second).now_or_never(), None);
        assert!(slot.keep(2));
        assert_eq!((second.await, first.await), (Ok(()), Ok(())));
    }

    /// Notes whether other tasks of the job must still wait when the engine is woken.
    struct Engine(Arc<Slot>, AtomicBool);

    impl Wake for Engine {
        fn wake(self: Arc<Self>) {
            self.1.store(self.0.state.try_lock().is_err(), Ordering::Relaxed);
        }
    }

    #[test]
    fn the_engine_is_told_before_another_task_goes_on() {
        let (slot, savers, mut from) = slot();
        let engine = Arc::new(Engine(slot.clone(), AtomicBool::new(false)));
        let waker = Waker::from(engine.clone());
        assert!(from.poll_recv(&mut Context::from_waker(&waker)).is_pending());
        drop(slot.give(&savers, "a".into()));
        assert!(engine.1.load(Ordering::Relaxed));
    }

    #[tokio::test]
    async fn who_waits_for_a_lost_checkpoint_is_told() {
        let (slot, savers, from) = slot();
        let lost = slot.give(&savers, "a".into());
        slot.lose(1, NotSaved::JobGone);
        assert_eq!(lost.await, Err(NotSaved::JobGone));
        let later = slot.give(&savers, "b".into());
        slot.take();
        assert!(slot.keep(2));
        assert_eq!(later.await, Ok(()));
        drop(from);
        assert_eq!(slot.give(&savers, "c".into()).await, Err(NotSaved::JobGone), "the node has ended");
    }

    #[tokio::test]
    async fn a_checkpoint_that_is_too_long_is_not_given() {
        let (slot, savers, _from) = slot();
        let refused = slot.give(&savers, "12345".into()).await;
        assert_eq!(refused, Err(NotSaved::TooLong { len: 5, max: 4 }));
        assert_eq!(slot.take(), None);
    }
}
