//! The task that keeps the copies of some maps up to date. Only this task changes them. It ends when no view of them is
//! left.
//!
//! The task reads a map in its own turn, so it applies no message during a read. A message that waits meanwhile is
//! either contained in the read (stale) or follows it.
//!
//! Only the places of the maps are polled, every few seconds. Entries and maps end at known moments.

use std::future::pending;
use std::sync::Arc;
use std::time::Duration;

use tenure_connection::{Backoff, Client, Event, Message, Subscriber};
use tokio::sync::{mpsc, oneshot, watch};
use tokio::time::{Instant, sleep_until, timeout};
use tokio_util::sync::CancellationToken;

use crate::copy::Copy;
use crate::followed::Followed;
use crate::mutation::{Mutation, Mutations};
use crate::replica::{Applied, Change};
use crate::wire::Announcement;
use crate::{Error, Layout};

const FIRST_PAUSE: Duration = Duration::from_millis(50);
const LONGEST_PAUSE: Duration = Duration::from_secs(2);
/// A view's request to read a map again.
pub(crate) struct Request {
    /// Which of the task's maps.
    pub(crate) map: usize,
    /// Whether the entries are read even where the copy is at the map's place.
    pub(crate) whole: bool,
    /// The caller that waits for the read.
    pub(crate) done: Option<oneshot::Sender<Result<(), Error>>>,
}

pub(crate) struct Mirror {
    client: Client,
    subscriber: Subscriber,
    maps: Vec<Followed>,
    backoff: Backoff,
    expiry_backoff: Backoff,
    /// Nothing is read before this: a moment in the past, except after a failure.
    read_after: Instant,
    /// Whether the present outage has been logged.
    is_outage_said: bool,
    /// Whether it has been logged that somebody else uses a channel.
    is_rubbish_said: bool,
    broken: Mutations,
}

impl Mirror {
    /// Subscribes and reads every map once.
    pub(crate) async fn start(
        client: &Client,
        layouts: Vec<Layout>,
        broken: Mutations,
    ) -> Result<Self, Error> {
        let mut channels: Vec<_> = layouts.iter().map(|layout| layout.channel.clone()).collect();
        channels.sort_unstable();
        channels.dedup();
        let now = Instant::now();
        let maps = layouts.into_iter().map(|layout| Followed::new(layout, now, broken.clone()));
        let mut mirror = Self {
            client: client.clone(),
            subscriber: client.subscriber(channels),
            maps: maps.collect(),
            backoff: Backoff::new(FIRST_PAUSE, LONGEST_PAUSE),
            expiry_backoff: Backoff::new(FIRST_PAUSE, LONGEST_PAUSE),
            read_after: now,
            is_outage_said: false,
            is_rubbish_said: false,
            broken: broken.clone(),
        };
        let allowed = client.response_timeout();
        match timeout(allowed, mirror.subscriber.next()).await {
            Ok(Event::Disconnected(error)) => return Err(error.into()),
            Ok(_) => {}
            Err(_) => return Err(tenure_connection::Error::TimedOut(allowed).into()),
        }
        mirror.read().await?;
        Ok(mirror)
    }

    /// The readers' part: the copies, and the notices that they have changed.
    pub(crate) fn copies(&self) -> Vec<(Arc<Copy>, watch::Receiver<()>)> {
        self.maps.iter().map(|map| (map.copy.clone(), map.changed.subscribe())).collect()
    }

    /// Follows the maps until `stop`.
    pub(crate) async fn run(
        mut self,
        mut requests: mpsc::UnboundedReceiver<Request>,
        stop: CancellationToken,
    ) {
        stop.run_until_cancelled(async {
            loop {
                let wake = self.wake();
                tokio::select! {
                    request = requests.recv() => match request {
                        Some(request) => self.on_request(request),
                        None => pending().await,
                    },
                    () = sleep_until(wake) => self.on_time().await,
                    event = self.subscriber.next() => self.on_event(event),
                }
            }
        })
        .await;
    }

    /// When this task must act if it hears nothing before.
    fn wake(&self) -> Instant {
        let reads = self.maps.iter().map(|map| map.read_at().max(self.read_after));
        let ends = self.maps.iter().flat_map(|map| [map.expire_at(), map.end_at(), map.tell_at()]).flatten();
        reads.chain(ends).min().unwrap_or(self.read_after)
    }

    fn on_request(&mut self, Request { map, whole, done }: Request) {
        let Some(map) = self.maps.get_mut(map) else { return };
        if whole {
            map.need_whole();
        } else {
            map.need();
        }
        // After a failure a hint waits for its turn; a caller that awaits the answer does not.
        if let Some(done) = done {
            self.read_after = Instant::now();
            map.answer_soon(done);
        }
    }

    fn on_event(&mut self, event: Event) {
        match event {
            Event::Message(message) => self.on_message(&message),
            Event::Subscribed => {
                tracing::info!("subscribed to the maps again");
                if !self.broken.has(Mutation::NoResync) {
                    self.need_all(None);
                }
            }
            Event::Disconnected(error) => {
                let error = &error as &dyn std::error::Error;
                tracing::warn!(error, "lost the subscription to the maps, their copies may be outdated");
            }
            _ => {}
        }
    }

    fn on_message(&mut self, message: &Message) {
        match Announcement::decode(&message.payload) {
            Some(Announcement::Change { map, change }) => self.on_change(&message.channel, &map, change),
            Some(Announcement::ReadAgain) => self.need_all(Some(&message.channel)),
            None => {
                if !std::mem::replace(&mut self.is_rubbish_said, true) {
                    let channel = &*message.channel;
                    tracing::warn!(channel, "a message that no map sends, reading again; logged once");
                }
                self.need_all(Some(&message.channel));
            }
        }
    }

    fn on_change(&mut self, channel: &str, name: &[u8], change: Change) {
        let is_addressed =
            |map: &&mut Followed| map.layout.channel == channel && map.layout.name.as_bytes() == name;
        let mut addressed = self.maps.iter_mut().filter(is_addressed).peekable();
        let mut change = Some(change);
        while let Some(map) = addressed.next() {
            // Usually there is one, which takes the bytes as they are.
            let change = if addressed.peek().is_some() { change.clone() } else { change.take() };
            match change.map(|change| map.copy.apply(change)) {
                Some(Applied::Done) => map.changed.send_replace(()),
                Some(Applied::Gap) => map.need(),
                Some(Applied::Stale) | None => {}
            }
        }
    }

    fn need_all(&mut self, channel: Option<&str>) {
        let concerns = |map: &&mut Followed| channel.is_none_or(|channel| channel == map.layout.channel);
        self.maps.iter_mut().filter(concerns).for_each(Followed::need_with_all);
    }

    async fn on_time(&mut self) {
        let now = Instant::now();
        for map in &mut self.maps {
            map.tell_ends();
            map.look_at_the_end(now);
        }
        if self.read_after <= now {
            let result = self.read().await;
            self.say(result);
        }
        self.expire().await;
    }

    /// Logs the beginning and the end of an outage.
    fn say(&mut self, result: Result<(), Error>) {
        let was_said = std::mem::replace(&mut self.is_outage_said, result.is_err());
        match result {
            Ok(()) if was_said => tracing::info!("the maps are read again"),
            Ok(()) => {}
            Err(error) => {
                let error = &error as &dyn std::error::Error;
                if was_said {
                    tracing::debug!(error, "cannot read the maps, trying again");
                } else {
                    tracing::warn!(error, "cannot read the maps, their copies may be outdated");
                }
            }
        }
    }

    /// Reads the maps that need it, and answers the callers that wait. A damaged map does not hinder the others. When
    /// Redis cannot be reached, one map's attempt stands for all.
    async fn read(&mut self) -> Result<(), Error> {
        let (mut result, mut is_hopeless) = (Ok(()), false);
        let now = Instant::now();
        for map in self.maps.iter_mut().filter(|map| map.read_at() <= now) {
            let read = if is_hopeless { result.clone() } else { map.read(&self.client).await };
            let is_transient = matches!(&read, Err(Error::Redis(error)) if error.is_transient());
            is_hopeless |= is_transient && !map.is_slow();
            map.answer(&read);
            result = result.and(read);
        }
        if result.is_ok() {
            self.backoff.reset();
        } else {
            self.backoff.fail();
            self.read_after = Instant::now() + self.backoff.pause();
        }
        result
    }

    /// Deletes due entries. All copies do this; the first one succeeds.
    async fn expire(&mut self) {
        let now = Instant::now();
        for map in &mut self.maps {
            if map.expire_at().is_none_or(|due| due > now) {
                continue;
            }
            match map.expire(&self.client).await {
                Ok(()) => self.expiry_backoff.reset(),
                Err(error) => {
                    let error = &error as &dyn std::error::Error;
                    if self.expiry_backoff.failures() == 0 {
                        tracing::warn!(error, "cannot delete entries that are past their deadlines");
                    } else {
                        tracing::debug!(error, "cannot delete entries that are past their deadlines");
                    }
                    self.expiry_backoff.fail();
                    map.expire_later(self.expiry_backoff.pause());
                }
            }
        }
    }
}
