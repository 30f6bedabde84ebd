//! The task that saves the progress, and tells of it in order. One save is under way at a time, and the newest progress is
//! the next one.

use std::sync::Arc;
use std::time::Duration;

use tenure_connection::Backoff;
use tokio::time::{Instant, sleep, timeout};

use crate::consumer::engine::{Called, Engine, Notification, called};
use crate::consumer::handler::Handler;
use crate::error::{Error, NoAnswer, ProgressError, whole};
use crate::progress::Progress;
use crate::source::Source;

const FIRST_PAUSE: Duration = Duration::from_millis(50);
const LONGEST_PAUSE: Duration = Duration::from_secs(2);

impl<S, P, H> Engine<S, P, H>
where
    S: Source,
    P: Progress,
    H: Handler<S::Job>,
{
    /// Saves until the last job has ended, and what it left is saved. Nothing more once somebody else runs the jobs.
    pub(crate) async fn keep(self: Arc<Self>) {
        let kept = tokio::select! {
            biased;
            () = self.shared.lost.cancelled() => return,
            kept = called(self.keep_on()) => kept,
        };
        if let Called::Panicked(text) = kept {
            self.shared.fail(Error::Panicked { who: "a notification", text });
        }
    }

    async fn keep_on(&self) {
        let shared = &self.shared;
        let mut told = shared.lock().core.stored();
        let mut pauses = Backoff::new(FIRST_PAUSE, LONGEST_PAUSE);
        // The end of the last attempts.
        let mut until = None;
        loop {
            // A store that answers at once must leave time to others.
            tokio::task::consume_budget().await;
            let Some(to) = shared.to_save() else {
                if shared.closing.is_cancelled() {
                    return;
                }
                tokio::select! {
                    () = shared.keeper.notified() => {}
                    () = shared.closing.cancelled() => {}
                }
                continue;
            };
            tell(self.notifications.in_order.as_ref(), told, to).await;
            told = to;
            if shared.closing.is_cancelled() {
                until.get_or_insert_with(|| Instant::now() + shared.settings.call_deadline);
            }
            match self.save(to, until).await {
                Ok(before) => {
                    pauses.reset();
                    tell(self.notifications.after.as_ref(), before, to).await;
                    continue;
                }
                Err(error) if error.is_transient() => {
                    if let Some(unsaid) = self.complaints.saves.say() {
                        let (consumer, error) = (&*shared.settings.name, whole(&error));
                        tracing::warn!(consumer, unsaid, "the progress is not stored yet: {error}");
                    }
                }
                Err(error) => {
                    shared.fail(Error::Progress(error));
                    return;
                }
            }
            if until.is_some_and(|until| Instant::now() >= until) {
                return self.give_up();
            }
            pauses.fail();
            tokio::select! {
                () = sleep(pauses.pause()) => {}
                () = shared.closing.cancelled(), if until.is_none() => {}
            }
        }
    }

    /// Returns what was stored before.
    async fn save(&self, to: u64, until: Option<Instant>) -> Result<u64, ProgressError> {
        let left = until.map(|until| until.saturating_duration_since(Instant::now()));
        let patience = left.unwrap_or(self.shared.settings.call_deadline);
        let saved = match called(timeout(patience, self.progress.save(to))).await {
            Called::Returned(Ok(saved)) => saved,
            Called::Returned(Err(_)) => Err(ProgressError::unavailable(NoAnswer(patience))),
            Called::Panicked(text) => Err(ProgressError::broken(format!("it panicked: {text}"))),
        };
        self.count(|metrics| &metrics.saves[usize::from(saved.is_err())]);
        let before = {
            let mut state = self.shared.lock();
            let before = state.core.stored();
            match &saved {
                Ok(()) => state.core.saved(to),
                Err(_) => state.core.not_saved(),
            }
            state.progress_trouble = saved.as_ref().err().cloned();
            before
        };
        self.shared.changed.notify_waiters();
        saved.map(|()| before)
    }

    /// The last progress stays unsaved.
    fn give_up(&self) {
        let error = {
            let state = self.shared.lock();
            let (done, stored) = (state.core.progress(), state.core.stored());
            Error::NotSaved { done, stored, source: state.progress_trouble.clone() }
        };
        self.shared.fail(error);
    }
}

/// Tells of each index above one, up to another one, and leaves time to others in between.
async fn tell(whom: Option<&Notification>, above: u64, to: u64) {
    let Some(whom) = whom else { return };
    for index in (above..=to).skip(1) {
        whom(index);
        tokio::task::consume_budget().await;
    }
}
