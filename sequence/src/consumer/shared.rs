//! The state that the tasks and the handles of a consumer share.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tenure_connection::Backoff;
use tokio::sync::{Notify, watch};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::consumer::manual::Word;
use crate::consumer::retry::Retry;
use crate::consumer::scout::FAILED;
use crate::core::{Core, Look};
use crate::error::{Error, ProgressError, SourceError};

/// The settings of a consumer.
#[derive(Clone, Debug)]
pub(crate) struct Settings {
    pub(crate) name: Arc<str>,
    pub(crate) default_index: u64,
    pub(crate) concurrency: usize,
    /// 0 is unlimited.
    pub(crate) look_ahead: u64,
    pub(crate) deadline: Option<Duration>,
    pub(crate) retry: Retry,
    pub(crate) grace: Duration,
    pub(crate) call_deadline: Duration,
    pub(crate) stuck_after: Duration,
}

/// Where a consumer is in its life. It only goes on, but for a start that fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Life {
    New,
    Starting,
    Ready,
    Stopping,
    Ended,
}

/// The things that are known of a running job.
#[derive(Debug)]
pub(crate) struct Run {
    pub(crate) begun: Instant,
    pub(crate) attempts: u32,
    pub(crate) last_error: Option<Arc<str>>,
    /// Of a consumer without a handler: the word that it is done, once somebody waits for it or has said it.
    pub(crate) word: Option<Word>,
}

#[derive(Debug)]
pub(crate) struct State {
    pub(crate) core: Core<Run>,
    /// Why it ends, if it does not end as told.
    pub(crate) error: Option<Error>,
    /// Why the last look failed, until one succeeds.
    pub(crate) source_trouble: Option<SourceError>,
    /// When the last look failed, until one succeeds.
    pub(crate) failed_at: Option<Instant>,
    /// The pauses after looks that fail one after the other.
    pub(crate) look_pauses: Backoff,
    /// Why the last save failed, until one succeeds.
    pub(crate) progress_trouble: Option<ProgressError>,
    /// The keeper knows that it must save.
    keeper_is_told: bool,
    /// The scout waits for the source.
    pub(crate) scout_watches: bool,
}

#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) settings: Settings,
    state: Mutex<State>,
    pub(crate) life: watch::Sender<Life>,
    /// Wakes the scout.
    pub(crate) scout: Notify,
    /// Wakes the keeper.
    pub(crate) keeper: Notify,
    /// Something has changed that somebody may wait for.
    pub(crate) changed: Notify,
    /// Nothing begins any more.
    pub(crate) stopping: CancellationToken,
    /// Jobs are asked to end.
    pub(crate) asked: CancellationToken,
    /// Jobs are dropped.
    pub(crate) kill: CancellationToken,
    /// All jobs have ended: what is left to save is the last.
    pub(crate) closing: CancellationToken,
    /// Somebody else runs the jobs by now: nothing is saved any more.
    pub(crate) lost: CancellationToken,
    /// The life has come to its end.
    pub(crate) ended: CancellationToken,
    /// The workers and the scout.
    pub(crate) tasks: TaskTracker,
}

impl Shared {
    pub(crate) fn new(settings: Settings) -> Self {
        let core = Core::new(settings.concurrency, settings.look_ahead);
        Self {
            settings,
            state: Mutex::new(State {
                core,
                error: None,
                source_trouble: None,
                failed_at: None,
                look_pauses: Backoff::new(FAILED.0, FAILED.1),
                progress_trouble: None,
                keeper_is_told: false,
                scout_watches: false,
            }),
            life: watch::Sender::new(Life::New),
            scout: Notify::new(),
            keeper: Notify::new(),
            changed: Notify::new(),
            stopping: CancellationToken::new(),
            asked: CancellationToken::new(),
            kill: CancellationToken::new(),
            closing: CancellationToken::new(),
            lost: CancellationToken::new(),
            ended: CancellationToken::new(),
            tasks: TaskTracker::new(),
        }
    }

    /// Held for some lines, never across an await.
    pub(crate) fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Asks for a look.
    pub(crate) fn check(&self) {
        let is_due = {
            let mut state = self.lock();
            state.core.want();
            state.core.is_due()
        };
        if is_due {
            self.scout.notify_one();
        }
    }

    /// A job is done. Returns a look that its worker has to take.
    pub(crate) fn finish(&self, index: u64) -> Option<Look> {
        let (look, tells_keeper) = {
            let mut state = self.lock();
            let moved = state.core.finish(index).is_some_and(|finished| finished.moved);
            let tells_keeper = moved && !state.keeper_is_told;
            state.keeper_is_told |= moved;
            (state.core.look(), tells_keeper)
        };
        if tells_keeper {
            self.keeper.notify_one();
        }
        self.changed.notify_waiters();
        look
    }

    /// Where the word meets the job, if it runs: the consumer has no handler.
    pub(crate) fn word(&self, index: u64) -> Option<watch::Receiver<bool>> {
        let mut state = self.lock();
        let run = state.core.running_mut(index)?;
        Some(run.word.get_or_insert_with(|| Word::new(false)).subscribe())
    }

    /// Says that the job is done. Returns what tells when that has counted; `None` if the job does not run.
    pub(crate) fn say(&self, index: u64) -> Option<watch::Receiver<bool>> {
        let mut state = self.lock();
        let word = state.core.running_mut(index)?.word.get_or_insert_with(|| Word::new(false));
        word.send_replace(true);
        Some(word.subscribe())
    }

    /// The progress to save next, for the keeper.
    pub(crate) fn to_save(&self) -> Option<u64> {
        let mut state = self.lock();
        state.keeper_is_told = false;
        state.core.save()
    }

    /// Begins nothing any more. A consumer that has not started ends at once.
    pub(crate) fn stop(&self) {
        let mut state = self.lock();
        state.core.stop();
        self.life.send_if_modified(|life| {
            let before = *life;
            *life = match before {
                Life::New | Life::Starting => Life::Ended,
                Life::Ready => Life::Stopping,
                Life::Stopping | Life::Ended => before,
            };
            *life != before
        });
        drop(state);
        self.stopping.cancel();
        if *self.life.borrow() == Life::Ended {
            self.ended.cancel();
        }
        self.changed.notify_waiters();
    }

    /// All its tasks but the one that says so have ended.
    pub(crate) fn end(&self) {
        self.life.send_replace(Life::Ended);
        self.ended.cancel();
        self.changed.notify_waiters();
    }

    /// Stops, and asks the jobs that run to end.
    pub(crate) fn shut_down(&self) {
        self.stop();
        self.asked.cancel();
    }

    /// Shuts down without grace.
    pub(crate) fn kill(&self) {
        self.shut_down();
        self.kill.cancel();
    }

    /// Ends for this reason. The first one counts.
    pub(crate) fn fail(&self, error: Error) {
        let is_fenced = matches!(error, Error::Progress(ProgressError::Fenced { .. }));
        self.lock().error.get_or_insert(error);
        if is_fenced {
            self.lost.cancel();
            self.kill();
        } else {
            self.shut_down();
        }
    }

    /// Waits until a condition holds, or the consumer has ended.
    pub(crate) async fn until(&self, mut holds: impl FnMut(&State) -> bool) {
        loop {
            let mut changed = std::pin::pin!(self.changed.notified());
            changed.as_mut().enable();
            if *self.life.borrow() == Life::Ended || holds(&self.lock()) {
                return;
            }
            changed.await;
        }
    }
}
