//! Tells the logs of a set that something was appended: one subscription for all logs of one `RedisLogs`.
//!
//! Messages may be lost. When the subscription is made, for the first time or again, every log looks.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tenure_connection::{Client, Event, Subscriber};
use tokio::sync::watch;
use tokio_util::task::AbortOnDropHandle;

/// The news that a log has heard.
#[derive(Clone, Copy, Debug)]
pub(super) struct Heard {
    /// The highest index that was told.
    pub(super) head: u64,
    /// How often the subscription was made.
    pub(super) subscribed: u64,
}

type Bells = Arc<Mutex<HashMap<Arc<str>, watch::Sender<Heard>>>>;

/// The bells of a set's logs.
#[derive(Debug)]
pub(super) struct Belfry {
    client: Client,
    channel: Arc<str>,
    bells: Bells,
    /// Begun with the first log that listens.
    task: Mutex<Option<AbortOnDropHandle<()>>>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Belfry {
    pub(super) fn new(client: &Client, channel: Arc<str>) -> Self {
        Self { client: client.clone(), channel, bells: Bells::default(), task: Mutex::new(None) }
    }

    /// The bell of a log. It rings once at first: what came before is not known.
    pub(super) fn bell(&self, log: &Arc<str>) -> watch::Receiver<Heard> {
        let mut bells = lock(&self.bells);
        if bells.len() == bells.capacity() {
            // Before it grows: nobody listens to these any more.
            bells.retain(|_, bell| bell.receiver_count() > 0);
        }
        bells
            .entry(log.clone())
            .or_insert_with(|| watch::Sender::new(Heard { head: 0, subscribed: 1 }))
            .subscribe()
    }

    /// Makes the subscription, if there is none, on the runtime of the call.
    pub(super) fn listen(&self) {
        let mut task = lock(&self.task);
        if task.as_ref().is_none_or(AbortOnDropHandle::is_finished) {
            let subscriber = self.client.subscriber([&*self.channel]);
            *task = Some(AbortOnDropHandle::new(tokio::spawn(ring(subscriber, self.bells.clone()))));
        }
    }
}

async fn ring(mut subscriber: Subscriber, bells: Bells) {
    loop {
        match subscriber.next().await {
            Event::Subscribed => {
                lock(&bells).values().for_each(|bell| bell.send_modify(|heard| heard.subscribed += 1));
            }
            Event::Message(message) => {
                let text = std::str::from_utf8(&message.payload).ok();
                let Some((head, log)) = text.and_then(|text| text.split_once(' ')) else { continue };
                let Ok(head) = head.parse::<u64>() else { continue };
                if let Some(bell) = lock(&bells).get(log) {
                    bell.send_modify(|heard| heard.head = heard.head.max(head));
                }
            }
            // Subscribed says when it is over.
            _ => {}
        }
    }
}
