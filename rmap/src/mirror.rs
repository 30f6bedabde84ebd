//! The task that keeps the copies of some maps up to date. It alone changes them; it ends when nobody holds a view
//! of them any more.
//!
//! Snapshots are read in the task's own turn, so no message is applied while one is on its way, and a message that
//! waits behind it is either contained in it (stale) or follows it.

use std::future::pending;
use std::sync::Arc;
use std::time::Duration;

use tenure_connection::{Backoff, Client, Connection, Event, Message, Subscriber};
use tokio::sync::{mpsc, oneshot, watch};
use tokio::time::{Instant, sleep_until, timeout};
use tokio_util::sync::CancellationToken;

use crate::replica::{Applied, Replica};
use crate::wire::{Announcement, Read};
use crate::{Error, Layout, Snapshot, lua};

/// How often a copy is compared with its original when nothing else says that it should be: finds the loss of a
/// message that was not followed by another.
const CHECK_EVERY: Duration = Duration::from_secs(5);
const FIRST_PAUSE: Duration = Duration::from_millis(50);
const LONGEST_PAUSE: Duration = Duration::from_secs(2);

/// A wish of a view to have a map read again.
pub(crate) struct Request {
    /// Which of the task's maps.
    pub(crate) map: usize,
    /// Who wants to know when it is done.
    pub(crate) done: Option<oneshot::Sender<Result<(), Error>>>,
}

/// What a copy needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Need {
    Nothing,
    /// To be compared by revision, and read when it differs.
    Check,
    /// To be read.
    Read,
}

struct Copy {
    layout: Layout,
    replica: Replica,
    published: watch::Sender<Arc<Snapshot>>,
    need: Need,
    waiting: Vec<oneshot::Sender<Result<(), Error>>>,
}

pub(crate) struct Mirror {
    redis: Connection,
    subscriber: Subscriber,
    copies: Vec<Copy>,
    backoff: Backoff,
    /// When what is needed is read, or else when the copies are checked.
    next_read: Instant,
}

impl Mirror {
    /// Subscribes and reads every map once.
    pub(crate) async fn start(client: &Client, layouts: Vec<Layout>) -> Result<Self, Error> {
        let mut channels: Vec<_> = layouts.iter().map(|layout| layout.channel.clone()).collect();
        channels.sort_unstable();
        channels.dedup();
        let copies = layouts.into_iter().map(|layout| Copy {
            layout,
            replica: Replica::default(),
            published: watch::Sender::default(),
            need: Need::Read,
            waiting: Vec::new(),
        });
        let mut mirror = Self {
            redis: client.commands(),
            subscriber: client.subscriber(channels),
            copies: copies.collect(),
            backoff: Backoff::new(FIRST_PAUSE, LONGEST_PAUSE),
            next_read: Instant::now(),
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

    pub(crate) fn watch(&self) -> Vec<watch::Receiver<Arc<Snapshot>>> {
        self.copies.iter().map(|copy| copy.published.subscribe()).collect()
    }

    /// Follows the maps until `stop`.
    pub(crate) async fn run(
        mut self,
        mut requests: mpsc::UnboundedReceiver<Request>,
        stop: CancellationToken,
    ) {
        stop.run_until_cancelled(async {
            loop {
                tokio::select! {
                    biased;
                    request = requests.recv() => match request {
                        Some(request) => self.on_request(request),
                        None => pending().await,
                    },
                    event = self.subscriber.next() => self.on_event(event),
                    () = sleep_until(self.next_read) => self.on_time().await,
                }
            }
        })
        .await;
    }

    fn on_request(&mut self, Request { map, done }: Request) {
        let Some(copy) = self.copies.get_mut(map) else { return };
        copy.need = Need::Read;
        let asked = done.is_some();
        copy.waiting.extend(done);
        // A hint waits for its turn after a failure; who awaits the answer does not.
        if asked || self.backoff.failures() == 0 {
            self.next_read = Instant::now();
        }
    }

    fn on_event(&mut self, event: Event) {
        match event {
            Event::Message(message) => self.on_message(&message),
            Event::Subscribed => {
                tracing::info!("subscribed to the maps again");
                self.need_all(None);
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
            Some(Announcement::Change { map, change }) => {
                let addressed = self.copies.iter_mut().filter(|copy| {
                    *copy.layout.channel == *message.channel && *copy.layout.name.as_bytes() == *map
                });
                let mut gap = false;
                for copy in addressed {
                    match copy.replica.apply(&change) {
                        Applied::Applied => {
                            copy.published.send_replace(copy.replica.snapshot().clone());
                        }
                        Applied::Stale => {}
                        Applied::Gap => {
                            copy.need = Need::Read;
                            gap = true;
                        }
                    }
                }
                if gap && self.backoff.failures() == 0 {
                    self.next_read = Instant::now();
                }
            }
            Some(Announcement::ReadAgain) => self.need_all(Some(&message.channel)),
            None => {
                tracing::warn!(channel = &*message.channel, "a message that no map sends, reading again");
                self.need_all(Some(&message.channel));
            }
        }
    }

    fn need_all(&mut self, channel: Option<&str>) {
        for copy in &mut self.copies {
            if channel.is_none_or(|channel| channel == copy.layout.channel) {
                copy.need = Need::Read;
            }
        }
        if self.backoff.failures() == 0 {
            self.next_read = Instant::now();
        }
    }

    async fn on_time(&mut self) {
        for copy in &mut self.copies {
            copy.need = copy.need.max(Need::Check);
        }
        if let Err(error) = self.read().await {
            let error = &error as &dyn std::error::Error;
            tracing::debug!(error, "cannot read the maps, trying again");
        }
    }

    /// Reads what needs it, and answers those who wait for it.
    async fn read(&mut self) -> Result<(), Error> {
        for copy in &mut self.copies {
            if copy.need == Need::Nothing {
                continue;
            }
            if let Err(error) = copy.read(&self.redis).await {
                self.backoff.fail();
                self.next_read = Instant::now() + self.backoff.pause();
                self.copies.iter_mut().for_each(|copy| copy.answer(&Err(error.clone())));
                return Err(error);
            }
            copy.answer(&Ok(()));
        }
        self.backoff.reset();
        self.next_read = Instant::now() + CHECK_EVERY;
        Ok(())
    }
}

impl Copy {
    fn answer(&mut self, result: &Result<(), Error>) {
        for waiting in self.waiting.drain(..) {
            // Who does not wait any more needs no answer.
            let _ = waiting.send(result.clone());
        }
    }

    async fn read(&mut self, redis: &Connection) -> Result<(), Error> {
        let Layout { meta, hash, inc_field, rev_field, .. } = &self.layout;
        let mut call = lua::READ.call(&[meta, hash]);
        call.arg(inc_field).arg(rev_field);
        let known = self.replica.snapshot();
        if let (Need::Check, Some(incarnation)) = (self.need, known.incarnation) {
            call.arg(incarnation).arg(known.revision);
        }
        if let Read::Content(snapshot) = Read::decode(redis.call(&call).await?)?
            && self.replica.install(snapshot)
        {
            self.published.send_replace(self.replica.snapshot().clone());
        }
        self.need = Need::Nothing;
        Ok(())
    }
}
