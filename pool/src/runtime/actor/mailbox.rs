//! The messages to an actor, in the order in which they came.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;

use crate::error::BoxError;
use crate::job::asking::Ask;
use crate::job::payload::NewPayload;
use crate::model::stop::StopReason;
use crate::store::Taken;

/// A message to an actor.
#[derive(Debug)]
pub(crate) enum Mail {
    Deliver(Taken),
    Update(NewPayload),
    Asks(Vec<Ask>),
    /// It ends by its own word.
    End(Result<(), BoxError>),
    Stop(StopReason),
}

/// A task's inbox. It is much smaller than a channel, because every job that runs as a future has one.
#[derive(Debug, Default)]
pub(crate) struct Mailbox {
    mail: Mutex<Vec<Mail>>,
    wake: Notify,
    /// A task has read a stop.
    gave_stop: AtomicBool,
}

impl Mailbox {
    fn mail(&self) -> MutexGuard<'_, Vec<Mail>> {
        self.mail.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn put(&self, mail: Mail) {
        self.mail().push(mail);
        self.wake.notify_one();
    }

    /// Sends the asks in it back: the job has ended by itself.
    pub(super) fn send_asks_back(&self) {
        self.mail().retain(|mail| !matches!(mail, Mail::Asks(_)));
    }

    /// Takes a stop out that nobody has read.
    pub(crate) fn take_stop(&self) -> Option<StopReason> {
        let mut mail = self.mail();
        let at = mail.iter().position(|mail| matches!(mail, Mail::Stop(_)))?;
        match mail.remove(at) {
            Mail::Stop(why) => Some(why),
            _ => None,
        }
    }

    /// Whether a task has read a stop, and so the handler has heard of it.
    pub(crate) fn gave_stop(&self) -> bool {
        self.gave_stop.load(Ordering::Relaxed)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.mail().is_empty()
    }

    pub(super) async fn next(&self) -> Mail {
        loop {
            let woken = self.wake.notified();
            {
                let mut mail = self.mail();
                if !mail.is_empty() {
                    let next = mail.remove(0);
                    if matches!(next, Mail::Stop(_)) {
                        self.gave_stop.store(true, Ordering::Relaxed);
                    }
                    return next;
                }
            }
            woken.await;
        }
    }
}
