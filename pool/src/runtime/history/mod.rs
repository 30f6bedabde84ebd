//! The words of the node in its pool's history: a bounded queue of news, and the batches in which they are written.
//!
//! News are for people. Nothing waits for them: a queue that is full forgets the oldest ones and counts them, and a node
//! that dies takes those of the last moments with it. A job that starts, runs and ends makes none, unless the pool wants to
//! have all of it told. Such news are forgotten first.

mod heard;

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use futures::future::{BoxFuture, FutureExt};

use crate::clock;
use crate::core::input::LocalWorker;
use crate::core::time::Time;
use crate::model::event::{Entry, EventKind, KEYS_MAX, Line, News, VERSION};
use crate::model::id::{Incarnation, NodeName, WorkerId};
use crate::model::settings::Settings;
use crate::store::{Note, Refusal, Result, Store, StoreError};

/// How many news wait, at most.
const WAITING_MAX: usize = 4_096;
/// How many news wait, at most, before one of a start or an end is forgotten.
const ORDINARY_MAX: usize = WAITING_MAX / 2;
/// How many starts and ends are told in a second, at most. The history of a pool with more of them would soon be over, and
/// dispatches would pay for it.
const ORDINARY_A_SECOND: u32 = 1_000;
/// A batch is written when it has this many news, or this many bytes, or when its oldest one has waited for this long.
const BATCH: usize = 64;
const BATCH_BYTES: usize = 8 << 10;
const PATIENCE: Duration = Duration::from_millis(200);
/// The pause after a batch that was not written.
const AGAIN: Duration = Duration::from_secs(1);
/// The longest time that a node takes at its end for what it has not written.
const LAST: Duration = Duration::from_secs(1);
/// How far back news of the same kind are looked for, to be told together.
const ALIKE: usize = 16;

type Writing = BoxFuture<'static, Result<()>>;

/// The news of one node.
pub(super) struct Chronicle {
    node: NodeName,
    /// Tells this process of the node from another.
    life: u64,
    /// The number of the next entry.
    next: u64,
    /// How many entries the history keeps; 0: nothing is written.
    most: u64,
    /// Starts and ends of jobs are told, too.
    all: bool,
    /// How many of them were told since this time, a second ago at most.
    ordinary: (Time, u32),
    incarnation: Option<Incarnation>,
    waiting: VecDeque<(Time, News)>,
    /// The bytes of those.
    bytes: usize,
    /// How many were forgotten since the last batch was made.
    dropped: u64,
    /// The news of the entry that is being written. It has its number until it is written.
    batch: Vec<(Time, News)>,
    /// How many were forgotten before that batch.
    before: u64,
    writing: Option<Writing>,
    /// When the next batch is written at the latest. `None`: nothing waits.
    due: Option<Time>,
    /// The workers of this node.
    seated: BTreeMap<LocalWorker, WorkerId>,
}

impl Chronicle {
    pub(super) fn new(node: NodeName, life: u64, settings: &Settings) -> Self {
        let Settings { history_max: most, history_all: all, .. } = *settings;
        Self {
            node,
            life,
            next: 1,
            most,
            all,
            ordinary: Default::default(),
            incarnation: None,
            waiting: VecDeque::new(),
            bytes: 0,
            dropped: 0,
            batch: Vec::new(),
            before: 0,
            writing: None,
            due: None,
            seated: BTreeMap::new(),
        }
    }

    /// The pool has these settings from now on.
    pub(super) fn go_by(&mut self, settings: &Settings) {
        (self.most, self.all) = (settings.history_max, settings.history_all);
        if self.most == 0 {
            self.forget();
        }
    }

    /// The node lives in this incarnation of its pool.
    pub(super) fn live_in(&mut self, incarnation: Incarnation) {
        self.incarnation = Some(incarnation);
    }

    fn forget(&mut self) {
        self.waiting.clear();
        self.batch.clear();
        (self.bytes, self.dropped, self.before) = (0, 0, 0);
        (self.due, self.writing) = (None, None);
    }

    /// Whether a start or an end is told. One that is not is counted.
    fn tells_ordinary(&mut self, now: Time) -> bool {
        if !self.all || self.most == 0 {
            return false;
        }
        if now.since(self.ordinary.0) >= Duration::from_secs(1) {
            self.ordinary = (now, 0);
        }
        let told = self.ordinary.1 < ORDINARY_A_SECOND && self.waiting.len() < ORDINARY_MAX;
        self.ordinary.1 += u32::from(told);
        self.dropped += u64::from(!told);
        told
    }

    /// Something has happened. News of the same worker and cause are told together.
    pub(super) fn add(&mut self, now: Time, news: News) {
        if self.most == 0 {
            return;
        }
        if let Some((_, known)) =
            self.waiting.iter_mut().rev().take(ALIKE).find(|(_, known)| alike(known, &news))
        {
            known.count += news.count;
            let room = KEYS_MAX.saturating_sub(known.keys.len());
            let (before, keys) = (known.size(), news.keys.into_iter().take(room));
            known.keys.extend(keys);
            self.bytes += known.size() - before;
            return;
        }
        if self.waiting.len() == WAITING_MAX
            && let Some((_, oldest)) = self.waiting.pop_front()
        {
            self.bytes -= oldest.size();
            self.dropped += 1;
        }
        self.bytes += news.size();
        self.waiting.push_back((now, news));
        let full = self.waiting.len() >= BATCH || self.bytes >= BATCH_BYTES;
        // A pause after a failure goes on.
        if self.batch.is_empty() {
            let due = if full { now } else { now + PATIENCE };
            self.due = Some(self.due.map_or(due, |known| known.min(due)));
        }
    }

    /// Writes what is due, for as long as it is polled. Never returns; it may be dropped and called again at any time.
    pub(super) async fn write(&mut self, store: &Store) {
        loop {
            if let Some(writing) = &mut self.writing {
                let answer = writing.await;
                self.writing = None;
                self.written(clock::now(), &answer);
            }
            let Some(due) = self.due else { return std::future::pending().await };
            let rest = due.since(clock::now());
            // A sleep ends only after a turn of the timer, which a busy node does not wait for.
            if !rest.is_zero() {
                tokio::time::sleep(rest).await;
            }
            self.begin(clock::now(), store);
        }
    }

    /// Begins what is due, and goes on with it without a wait. A node that always has other things to do never polls
    /// [`write`](Self::write).
    pub(super) fn nudge(&mut self, now: Time, store: &Store) {
        if self.writing.is_some() || self.due.is_some_and(|due| due <= now) {
            let _ = self.write(store).now_or_never();
        }
    }

    /// Writes all that waits, for a moment at most. The node leaves.
    pub(super) async fn finish(&mut self, store: &Store) {
        let all = async {
            while self.writing.is_some() || self.due.is_some() {
                if self.writing.is_none() {
                    self.begin(clock::now(), store);
                }
                let Some(writing) = &mut self.writing else { break };
                let answer = writing.await;
                self.writing = None;
                self.written(clock::now(), &answer);
                if answer.is_err() {
                    break;
                }
            }
        };
        // The rest is lost, as the module says.
        let _ = tokio::time::timeout(LAST, all).await;
    }

    fn begin(&mut self, now: Time, store: &Store) {
        let Some(incarnation) = self.incarnation else {
            self.due = Some(now + AGAIN);
            return;
        };
        if self.batch.is_empty() {
            let mut bytes = 0;
            while self.batch.len() < BATCH
                && let Some((at, news)) = self.waiting.pop_front()
            {
                bytes += news.size();
                self.bytes -= news.size();
                self.batch.push((at, news));
                if bytes >= BATCH_BYTES {
                    break;
                }
            }
            self.before += std::mem::take(&mut self.dropped);
        }
        if self.batch.is_empty() {
            self.due = None;
            return;
        }
        let entry = Entry {
            v: VERSION,
            node: self.node.to_string(),
            life: self.life,
            n: self.next,
            dropped: self.before,
            events: self.batch.iter().map(|(at, news)| Line::of(news, now.since(*at))).collect(),
        };
        let (store, most, entry) = (store.clone(), self.most, entry.encode());
        self.writing =
            Some(async move { store.run(incarnation, &Note { most, entry: entry.clone() }).await }.boxed());
        self.due = None;
    }

    fn written(&mut self, now: Time, answer: &Result<()>) {
        match answer {
            // The pool has ended, or the node must hear of another life of it first.
            Err(StoreError::Refused(Refusal::NoPool | Refusal::Closed)) => return self.forget(),
            Err(error) => {
                tracing::debug!(node = %self.node, %error, "the history was not written, it is tried again");
                self.due = Some(now + AGAIN);
                return;
            }
            Ok(()) => {}
        }
        self.next += 1;
        self.before = 0;
        self.batch.clear();
        let oldest = self.waiting.front().map(|(at, _)| *at);
        let full = self.waiting.len() >= BATCH || self.bytes >= BATCH_BYTES;
        self.due = oldest.map(|at| if full { now } else { at + PATIENCE });
    }
}

/// Whether two news are told together.
fn alike(a: &News, b: &News) -> bool {
    let gathers = matches!(a.kind, EventKind::Moved | EventKind::Lost);
    gathers
        && (a.kind, a.worker, a.why) == (b.kind, b.worker, b.why)
        && (b.text.is_empty() || a.text == b.text)
}

#[cfg(test)]
mod tests;
