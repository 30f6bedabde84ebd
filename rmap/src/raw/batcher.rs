//! Batches the sets of one handle and its clones on their way to Redis.
//!
//! A caller sends its set itself, at once, when no other is on its way. Otherwise the set waits for a task. The task
//! sends all waiting sets in one call, and has up to a few calls in flight; the sets that wait when a call ends are the
//! next one. So calls grow with the load, without timers. A call writes only the last of several sets of one key; each
//! of these is answered the value that the one before it wrote.
//!
//! Invariants:
//! - A set that waits has a caller that awaits it. Until its call is built, it goes when its caller does. So no more
//!   sets wait than there are callers.
//! - While a set waits, the task exists, and has been woken or has a call in flight.
//! - Sets leave in the order in which they came. A call may be overtaken by the next one while the server is out of
//!   reach or loads the script. A caller who awaits its sets one by one never overtakes itself.
//! - A set is awaited no longer than twice the time for a call. One that has waited longer than that time once is not
//!   sent.
//! - The lock is never held across an await.

use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use futures::StreamExt;
use futures::stream::FuturesUnordered;
use redis::RedisError;
use tenure_connection::{Call, Connection};
use tokio::sync::{Notify, oneshot};
use tokio::task::yield_now;
use tokio::time::{Instant, timeout};

use crate::Error;
use crate::view::Tasks;
use crate::wire::Written;

/// The most calls that the task has in flight: on a slow path to Redis they do not wait for each other.
const MOST_CALLS: usize = 4;
/// The most sets that share a call: the server does nothing else meanwhile.
const MOST_SETS: usize = 128;
/// The most bytes of keys and values that share a call, except for a single set that has more.
const MOST_BYTES: usize = 256 << 10;

type Answer = Result<Written, Error>;

pub(crate) struct Batcher {
    redis: Connection,
    /// The script's call without the entries.
    head: Call,
    tasks: Tasks,
    state: Mutex<State>,
    /// Wakes the task when a set waits.
    arrived: Notify,
}

#[derive(Default)]
struct State {
    /// Whether a caller has a call of its own in flight.
    is_alone: bool,
    /// Whether the task that sends waiting sets is running.
    is_sending: bool,
    next: u64,
    waiting: BTreeMap<u64, Waiting>,
}

struct Waiting {
    key: Bytes,
    value: Bytes,
    since: Instant,
    answer: oneshot::Sender<Answer>,
}

impl Batcher {
    pub(crate) fn new(redis: Connection, head: Call, tasks: Tasks) -> Arc<Self> {
        Arc::new(Self { redis, head, tasks, state: Mutex::default(), arrived: Notify::new() })
    }

    /// Sets a key. Key and value have been checked.
    pub(crate) async fn set(self: &Arc<Self>, key: &[u8], value: &[u8]) -> Answer {
        let Some((mut place, answer)) = self.enter(key, value) else {
            let _turn = Turn(self);
            let mut call = self.head.clone();
            call.arg(key).arg(value);
            return Written::decode(self.redis.call(&call).await?);
        };
        // The task that should answer may have no thread.
        let allowed = self.redis.response_timeout() * 2;
        let Ok(answer) = timeout(allowed, answer).await else {
            let not_sent = place.leave();
            let why = RedisError::from(io::Error::from(io::ErrorKind::TimedOut));
            let unreachable = tenure_connection::Error::Unreachable(why);
            return Err(
                if not_sent { unreachable } else { tenure_connection::Error::TimedOut(allowed) }.into()
            );
        };
        place.is_left = true;
        answer.unwrap_or_else(|_| {
            let why = RedisError::from(io::Error::other("the runtime of the map has ended"));
            Err(tenure_connection::Error::Lost(why).into())
        })
    }

    /// Registers a set that must wait, and returns its place and the channel of its answer; `None` for one that goes at
    /// once.
    fn enter(self: &Arc<Self>, key: &[u8], value: &[u8]) -> Option<(Place<'_>, oneshot::Receiver<Answer>)> {
        let mut state = self.lock();
        if !state.is_sending && !state.is_alone {
            state.is_alone = true;
            return None;
        }
        let (answer, answered) = oneshot::channel();
        let (key, value) = (Bytes::copy_from_slice(key), Bytes::copy_from_slice(value));
        let id = state.next;
        state.next += 1;
        let is_first = state.waiting.is_empty();
        state.waiting.insert(id, Waiting { key, value, since: Instant::now(), answer });
        let was_sending = std::mem::replace(&mut state.is_sending, true);
        drop(state);
        if !was_sending {
            self.tasks.spawn(Sending { batcher: self.clone(), is_over: false }.run());
        } else if is_first {
            self.arrived.notify_one();
        }
        Some((Place { batcher: self, id, is_left: false }, answered))
    }

    /// The next call. The task is over when nothing waits and nothing `is_in_flight`.
    fn take(&self, is_in_flight: bool) -> Option<Batch> {
        let allowed = self.redis.response_timeout();
        let (mut batch, mut late) = (Batch::default(), Vec::new());
        let mut state = self.lock();
        let is_closed = self.tasks.stop.is_cancelled();
        let refused = if is_closed { std::mem::take(&mut state.waiting) } else { BTreeMap::new() };
        while let Some(first) = state.waiting.first_entry() {
            if first.get().since.elapsed() > allowed {
                late.push(first.remove());
            } else if batch.has_room(first.get()) {
                batch.push(first.remove());
            } else {
                break;
            }
        }
        let is_empty = batch.sets.is_empty();
        state.is_sending = !is_empty || is_in_flight;
        drop(state);
        refuse(refused);
        for late in late {
            let why = RedisError::from(io::Error::from(io::ErrorKind::TimedOut));
            let _ = late.answer.send(Err(tenure_connection::Error::Unreachable(why).into()));
        }
        (!is_empty).then_some(batch)
    }

    /// Sends a call, answers the sets in it and returns their number.
    async fn send(&self, batch: Batch) -> usize {
        let answers = self.call(&batch).await;
        let answered = batch.sets.len();
        batch.answer(answers);
        answered
    }

    async fn call(&self, batch: &Batch) -> Result<Vec<Written>, Error> {
        let mut call = self.head.clone();
        for (key, value) in batch.entries() {
            call.arg(key).arg(value);
        }
        let (at, found) = Written::decode_all(self.redis.call(&call).await?)?;
        batch.answers(found.into_iter().map(|found| Written { at, found }).collect())
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Refuses sets of which nothing was sent.
fn refuse(waiting: BTreeMap<u64, Waiting>) {
    for waiting in waiting.into_values() {
        let _ = waiting.answer.send(Err(Error::Closed));
    }
}

/// A call that a caller sends itself.
struct Turn<'a>(&'a Batcher);

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        self.0.lock().is_alone = false;
    }
}

/// The task that sends waiting sets.
struct Sending {
    batcher: Arc<Batcher>,
    is_over: bool,
}

impl Sending {
    async fn run(mut self) {
        let mut calls = FuturesUnordered::new();
        loop {
            while calls.len() < MOST_CALLS
                && let Some(batch) = self.batcher.take(!calls.is_empty())
            {
                calls.push(self.batcher.send(batch));
            }
            if calls.is_empty() {
                break;
            }
            let has_room = calls.len() < MOST_CALLS;
            let answered = tokio::select! {
                biased;
                answered = calls.next() => answered.unwrap_or(0),
                () = self.batcher.arrived.notified(), if has_room => 0,
            };
            // Callers that write again at once then share the next call.
            if answered > 1 {
                yield_now().await;
            }
        }
        drop(calls);
        self.is_over = true;
    }
}

impl Drop for Sending {
    /// Lets no caller wait when the runtime ends.
    fn drop(&mut self) {
        if !self.is_over {
            let mut state = self.batcher.lock();
            state.is_sending = false;
            let waiting = std::mem::take(&mut state.waiting);
            drop(state);
            refuse(waiting);
        }
    }
}

/// The place of a waiting set.
struct Place<'a> {
    batcher: &'a Batcher,
    id: u64,
    is_left: bool,
}

impl Place<'_> {
    /// Gives the place up. Returns whether the set still waited.
    fn leave(&mut self) -> bool {
        self.is_left = true;
        // Dropped after the lock.
        let waiting = self.batcher.lock().waiting.remove(&self.id);
        waiting.is_some()
    }
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        if !self.is_left {
            self.leave();
        }
    }
}

/// The sets of one call.
#[derive(Default)]
struct Batch {
    /// The sets in their order, each with the number of its key.
    sets: Vec<(usize, Waiting)>,
    /// The last set of each key, by the key's number.
    last: Vec<usize>,
    numbers: HashMap<Bytes, usize>,
    bytes: usize,
}

impl Batch {
    fn has_room(&self, next: &Waiting) -> bool {
        let bytes = self.bytes + next.key.len() + next.value.len();
        self.sets.is_empty() || self.sets.len() < MOST_SETS && bytes <= MOST_BYTES
    }

    fn push(&mut self, set: Waiting) {
        let number = *self.numbers.entry(set.key.clone()).or_insert(self.last.len());
        match self.last.get_mut(number) {
            Some(last) => *last = self.sets.len(),
            None => self.last.push(self.sets.len()),
        }
        self.bytes += set.key.len() + set.value.len();
        self.sets.push((number, set));
    }

    /// The entries to write, each key once.
    fn entries(&self) -> impl Iterator<Item = (&[u8], &[u8])> {
        self.last.iter().map(|&last| (&*self.sets[last].1.key, &*self.sets[last].1.value))
    }

    /// The value that each set found, from the values that the keys had before.
    fn answers(&self, mut before: Vec<Written>) -> Result<Vec<Written>, Error> {
        if before.len() != self.last.len() {
            return Err(Error::Malformed { what: "another number of values than keys" });
        }
        let answers = self.sets.iter().map(|(number, set)| {
            let before = &mut before[*number];
            let next = Written { at: before.at, found: Some(set.value.clone()) };
            std::mem::replace(before, next)
        });
        Ok(answers.collect())
    }

    /// Answers each set. A caller that has stopped waiting needs no answer.
    fn answer(self, answers: Result<Vec<Written>, Error>) {
        match answers {
            Ok(answers) => {
                for ((_, set), answer) in self.sets.into_iter().zip(answers) {
                    let _ = set.answer.send(Ok(answer));
                }
            }
            Err(error) => {
                for (_, set) in self.sets {
                    let _ = set.answer.send(Err(error.clone()));
                }
            }
        }
    }
}

impl fmt::Debug for Batcher {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = self.lock();
        f.debug_struct("Batcher")
            .field("is_alone", &state.is_alone)
            .field("waiting", &state.waiting.len())
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::time::Duration;

    use tenure_connection::Client;

    use super::*;
    use crate::lua;
    use crate::snapshot::Place as At;

    fn waiting(key: &'static str, value: &'static str) -> Waiting {
        Waiting { key: key.into(), value: value.into(), since: Instant::now(), answer: oneshot::channel().0 }
    }

    fn batch(entries: &[(&'static str, &'static str)]) -> Batch {
        let mut batch = Batch::default();
        for &(key, value) in entries {
            batch.push(waiting(key, value));
        }
        batch
    }

    #[test]
    fn a_call_writes_a_key_once_and_each_set_finds_the_last_value() {
        let batch = batch(&[("k", "1"), ("l", "2"), ("k", "3"), ("m", "4"), ("k", "5")]);
        let entries: Vec<_> = batch.entries().collect();
        assert_eq!(entries, [(&b"k"[..], &b"5"[..]), (b"l", b"2"), (b"m", b"4")]);
        let at = Some(At::new(1, 2, 3));
        let found = |found: Option<&'static str>| Written { at, found: found.map(Bytes::from) };
        let answers = batch.answers(vec![found(None), found(Some("x")), found(None)]).unwrap();
        assert_eq!(answers, [None, Some("x"), Some("1"), None, Some("3")].map(found));
        for wrong in [vec![found(None); 2], vec![found(None); 4]] {
            assert!(matches!(batch.answers(wrong), Err(Error::Malformed { .. })));
        }
    }

    #[test]
    fn a_call_is_bounded_in_sets_and_bytes_and_has_at_least_one() {
        let mut batch = Batch::default();
        let long = || Waiting { value: vec![0; MOST_BYTES + 1].into(), ..waiting("k", "") };
        assert!(batch.has_room(&long()));
        batch.push(waiting("k", "v"));
        assert!(!batch.has_room(&long()));
        let fitting = |bytes: usize| Waiting { value: vec![0; bytes].into(), ..waiting("k", "") };
        assert!(batch.has_room(&fitting(MOST_BYTES - 3)));
        assert!(!batch.has_room(&fitting(MOST_BYTES - 2)));
        for _ in 1..MOST_SETS {
            batch.push(waiting("k", "v"));
        }
        assert!(!batch.has_room(&waiting("k", "v")));
    }

    /// A batcher that has sent nothing, with these sets waiting, each for the given time.
    fn batcher(allowed: Duration, waiting: impl IntoIterator<Item = (Duration, Waiting)>) -> Arc<Batcher> {
        let client = Client::builder("redis://127.0.0.1:1").response_timeout(allowed).build().unwrap();
        let batcher = Batcher::new(client.commands(), lua::SET.call(&["k"]), Tasks::new());
        let waiting = waiting.into_iter().zip(0..);
        let since = |long| Instant::now().checked_sub(long).unwrap();
        batcher.lock().waiting =
            waiting.map(|((long, set), id)| (id, Waiting { since: since(long), ..set })).collect();
        batcher
    }

    #[tokio::test]
    async fn a_set_that_has_waited_too_long_is_not_sent() {
        let (answer, answered) = oneshot::channel();
        let late = Waiting { answer, ..waiting("late", "1") };
        let hour = Duration::from_secs(3600);
        let batcher = batcher(hour, [(hour * 2, late), (hour / 2, waiting("in time", "2"))]);
        let batch = batcher.take(false).unwrap();
        assert_eq!(batch.entries().collect::<Vec<_>>(), [(&b"in time"[..], &b"2"[..])]);
        let error = answered.await.unwrap().unwrap_err();
        assert!(matches!(&error, Error::Redis(error) if error.is_transient()) && !error.may_have_executed());
        assert!(batcher.take(false).is_none() && !batcher.lock().is_sending, "the task is over");
    }
}
