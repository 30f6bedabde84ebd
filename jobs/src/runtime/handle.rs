//! A handler's part of an execution: its cancellation, and a place for its words.

use std::collections::BTreeMap;
use std::ops::Deref;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use tenure_connection::since_boot;
use tokio::sync::mpsc;
use tokio::task::AbortHandle;
use tokio_util::sync::CancellationToken;

use super::driver::Message;
use crate::core::Time;
use crate::core::execution::{Execution, Key};
use crate::core::input::{Input, Kept};
use crate::model::id::Incarnation;
use crate::store::{Data, Hint, Settle};

/// A handler's part of an execution.
#[derive(Debug)]
pub(crate) struct Handle {
    execution: Arc<Execution>,
    pub(crate) cancel: CancellationToken,
    slot: Mutex<Slot>,
    messages: mpsc::UnboundedSender<Message>,
}

/// The words of a handler for the store and for the engine.
#[derive(Debug)]
struct Slot {
    kept: Kept,
    /// The time of the last progress.
    beat: Time,
    /// Its end was said, or the job has a new owner by now.
    is_over: bool,
    abort: Option<AbortHandle>,
    /// When the lease aborts the handler.
    #[cfg(feature = "sim")]
    aborted_at: Option<Time>,
}

impl Handle {
    pub(super) fn new(
        execution: Arc<Execution>,
        kept: Kept,
        messages: mpsc::UnboundedSender<Message>,
    ) -> Self {
        let slot = Slot {
            kept,
            beat: since_boot(),
            is_over: false,
            abort: None,
            #[cfg(feature = "sim")]
            aborted_at: None,
        };
        Self { execution, cancel: CancellationToken::new(), slot: Mutex::new(slot), messages }
    }

    fn slot(&self) -> MutexGuard<'_, Slot> {
        self.slot.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The job's data as this execution has left them.
    pub(crate) fn body(&self) -> Bytes {
        self.slot().kept.body.clone()
    }

    /// The notes of the job as the execution has left them.
    pub(crate) fn notes(&self) -> Bytes {
        self.slot().kept.notes.clone()
    }

    /// Remembers the notes or the data for the store to keep.
    pub(crate) fn keep(&self, settle: &Settle) {
        let mut slot = self.slot();
        match settle {
            Settle::Note(notes) => slot.kept.notes.clone_from(notes),
            Settle::GoOn(Data::Replace(body)) => slot.kept.body.clone_from(body),
            _ => {}
        }
    }

    pub(super) fn is_known_in(&self, inc: Incarnation) -> bool {
        self.slot().kept.known_in == inc
    }

    pub(super) fn know(&self, inc: Incarnation) {
        self.slot().kept.known_in = inc;
    }

    /// Says that the handler makes progress.
    pub(crate) fn beat(&self) {
        self.slot().beat = since_boot();
    }

    pub(super) fn last_beat(&self) -> Time {
        self.slot().beat
    }

    /// Whether its end was said, or the job has a new owner by now.
    pub(crate) fn is_over(&self) -> bool {
        self.slot().is_over
    }

    /// The handler is gone, with this end unless somebody has aborted the handler.
    fn left(&self, settle: Option<Settle>, with_its_runtime: bool) {
        self.slot().is_over = true;
        // A driver that is gone has given all executions up.
        let _ = self.messages.send((Input::Left(self.key(), settle, with_its_runtime), None));
    }

    /// The handler is gone, and this is the end of the execution unless somebody has ended the execution before.
    pub(crate) fn leave(&self, settle: Settle) {
        self.left(Some(settle), false);
    }

    /// The handler was dropped before its end, maybe with its runtime.
    pub(crate) fn vanish(&self, with_its_runtime: impl FnOnce() -> bool) {
        if self.is_over() {
            self.left(None, false);
        } else if with_its_runtime() {
            self.left(Some(Settle::GiveBack), true);
        } else {
            self.leave(self.retry("its task was aborted"));
        }
    }

    /// The store says that the execution is another's by now.
    pub(crate) fn halted(&self) {
        let halted = Hint::Halted(self.id.clone(), self.token);
        let _ = self.messages.send((Input::Hint(halted), None));
    }

    /// Names the task of the handler.
    pub(crate) fn runs_as(&self, task: AbortHandle) {
        let mut slot = self.slot();
        if slot.is_over {
            task.abort();
        }
        slot.abort = Some(task);
    }

    /// Ends the handler: the job has a new owner, or may soon have a new owner.
    pub(super) fn abort(&self) {
        self.cancel.cancel();
        let mut slot = self.slot();
        slot.is_over = true;
        if let Some(task) = &slot.abort {
            task.abort();
        }
    }
}

impl Deref for Handle {
    type Target = Execution;

    fn deref(&self) -> &Execution {
        &self.execution
    }
}

/// The handles of the executions that a node keeps.
#[derive(Clone, Default)]
pub(crate) struct Handles(Arc<Mutex<BTreeMap<Key, Arc<Handle>>>>);

impl Handles {
    pub(super) fn all(&self) -> MutexGuard<'_, BTreeMap<Key, Arc<Handle>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn get(&self, key: &Key) -> Option<Arc<Handle>> {
        self.all().get(key).cloned()
    }

    /// Ends all handlers, as a crash does.
    #[cfg(feature = "test-util")]
    pub(crate) fn abort_all(&self) {
        self.all().values().for_each(|handle| handle.abort());
    }

    /// Notes when each handler is aborted for its lease.
    #[cfg(feature = "sim")]
    pub(super) fn note<'a>(&self, aborts: impl Iterator<Item = (&'a Key, Time)>) {
        let all = self.all();
        for (key, at) in aborts {
            if let Some(handle) = all.get(key) {
                handle.slot().aborted_at = Some(at);
            }
        }
    }

    /// Whether an execution has so much time until its handler is aborted for its lease.
    #[cfg(feature = "sim")]
    pub(crate) fn has_time(&self, key: &Key, time: Time) -> bool {
        self.get(key).is_some_and(|handle| {
            let slot = handle.slot();
            !slot.is_over && slot.aborted_at.is_some_and(|at| since_boot() + time < at)
        })
    }
}
