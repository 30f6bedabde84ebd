//! Settings of a sink.

use std::sync::Arc;
use std::time::Duration;

use futures::future::try_join_all;
use tenure_connection::Client;
use ulid::Ulid;

use super::calls::{Consumer, Entrance, SILENCE};
use super::handle::Shared;
use super::plan::Pace;
use super::terms::{RESERVED, Terms};
use super::{Settings, Sink};
use crate::lanes::Placement;
use crate::{Error, Filter, Start, keys};

const COUNT: u64 = 64;
pub(super) const MOST: u64 = 10_000;
const BLOCK: Duration = Duration::from_secs(5);
const LONGEST_BLOCK: Duration = Duration::from_secs(3600);
const GRACE: Duration = Duration::from_secs(30);
const LONGEST_GRACE: Duration = Duration::from_secs(30 * 86_400);
/// A consumer is dead after this many graces without a call, and at least ten minutes.
const GRACES_TO_DEATH: u32 = 10;
/// The shortest interval between looks for unacknowledged entries.
const OFTENEST: Duration = Duration::from_millis(20);
const RAREST_CLAIM: Duration = Duration::from_secs(1);
const RAREST_BURIAL: Duration = Duration::from_secs(300);

/// Settings of a [`Sink`].
#[derive(Clone, Debug)]
#[must_use]
pub struct SinkBuilder {
    client: Client,
    group: Arc<str>,
    consumer: Option<Arc<str>>,
    streams: Vec<Arc<str>>,
    filters: Vec<Filter>,
    start: Start,
    recreate_at: Start,
    grace: Duration,
    dead_after: Option<Duration>,
    no_ack: bool,
    count: u64,
    block: Duration,
}

impl SinkBuilder {
    pub(super) fn new(client: &Client, group: Arc<str>) -> Self {
        Self {
            client: client.clone(),
            group,
            consumer: None,
            streams: Vec::new(),
            filters: Vec::new(),
            start: Start::Oldest,
            recreate_at: Start::Oldest,
            grace: GRACE,
            dead_after: None,
            no_ack: false,
            count: COUNT,
            block: BLOCK,
        }
    }

    /// Reads this stream. Call it once for each stream; [`SinkHandle::add_stream`](crate::SinkHandle::add_stream) adds
    /// more later.
    pub fn stream(mut self, name: impl Into<Arc<str>>) -> Self {
        self.streams.push(name.into());
        self
    }

    /// Sets the consumer's name, which no other consumer may have at the same time. A consumer that returns under its
    /// name gets its unacknowledged entries at once. By default each sink has a new name. Names that begin with
    /// `tenure:` are reserved.
    pub fn consumer(mut self, name: impl Into<Arc<str>>) -> Self {
        self.consumer = Some(name.into());
        self
    }

    /// Sets where the group begins in a stream that is new to it. [`Start::Oldest`] by default. All sinks of a group
    /// must use the same kind of start; of ids and times, those of the first sink count.
    pub fn start(mut self, start: Start) -> Self {
        self.start = start;
        self
    }

    /// Sets where a lost group begins when it is created anew. [`Start::Oldest`] by default: the group's progress is
    /// lost, so all remaining entries come again, and nothing is missed. Any other start misses the entries before it.
    /// All sinks of a group must use the same kind.
    pub fn recreate_at(mut self, start: Start) -> Self {
        self.recreate_at = start;
        self
    }

    /// Sets how long an entry may stay unacknowledged before it is delivered again. 30 s by default, at least 1 ms, at
    /// most 30 days. The time counts from the entry's read from Redis, or from the last keep. All sinks of a group must
    /// use the same grace.
    pub fn ack_grace(mut self, grace: Duration) -> Self {
        self.grace = grace.clamp(Duration::from_millis(1), LONGEST_GRACE);
        self
    }

    /// Sets the time without a sign of life after which a consumer is deleted, once others have its pending entries. At
    /// least the grace; ten graces by default, and no less than ten minutes. A consumer that is deleted while it lives
    /// is back with its next read, and its acknowledgements count.
    pub fn dead_after(mut self, idle: Duration) -> Self {
        self.dead_after = Some(idle);
        self
    }

    /// Delivers each entry at most once: nothing needs to be acknowledged, and entries that a dying consumer has read
    /// are lost. All sinks of a group must use this, or none.
    pub fn no_ack(mut self) -> Self {
        self.no_ack = true;
        self
    }

    /// Hands out only entries that the filter wants; with several filters, entries that one of them wants. The others
    /// are acknowledged at once. All sinks of a group must have the same filters, of at most 16 KiB together.
    pub fn filter(mut self, filter: Filter) -> Self {
        self.filters.push(filter);
        self
    }

    /// The most entries of each stream in one read, when the sink is used as a stream. They are this consumer's from
    /// then on. 64 by default, at least 1, at most 10,000.
    pub fn count(mut self, entries: u64) -> Self {
        self.count = entries.clamp(1, MOST);
        self
    }

    /// The longest wait of [`Sink::next_batch`] when there is nothing. 5 s by default, an hour at most; zero does not
    /// wait.
    pub fn block(mut self, block: Duration) -> Self {
        self.block = block.min(LONGEST_BLOCK);
        self
    }

    /// Opens the sink. Creates the group in each stream where it is missing, and the stream too.
    ///
    /// A group keeps its shared settings from its first sink on, while any other sink of it lives: until that one is
    /// closed, or silent for ten minutes. After that the next sink brings its own.
    ///
    /// # Errors
    /// Before anything is sent: [`Error::Name`], [`Error::Config`] for a reserved consumer name, and
    /// [`Error::TooLarge`] for filters of more than 16 KiB. Before anything is written: [`Error::SettingMismatch`] when
    /// one of the groups has other settings. [`Error::Redis`].
    ///
    /// # Cancel safety
    /// The groups may be created all the same.
    pub async fn open(self) -> Result<Sink, Error> {
        let returning = self.consumer.is_some();
        let name = self.consumer.unwrap_or_else(|| Ulid::generate().to_string().into());
        keys::check("group name", &*self.group)?;
        keys::check("consumer name", &*name)?;
        if name.starts_with(RESERVED) {
            return Err(Error::Config { what: "names of consumers that begin with tenure: are reserved" });
        }
        for stream in &self.streams {
            keys::check("stream name", &**stream)?;
        }
        let terms = Terms::new(&self.filters, self.no_ack, self.grace, self.start, self.recreate_at)?;
        let dead_after = self.dead_after.unwrap_or((self.grace * GRACES_TO_DEATH).max(SILENCE));
        let dead_after = dead_after.max(self.grace);
        let settings = Settings {
            filters: self.filters.into(),
            count: self.count,
            block: self.block,
            grace: self.grace,
            dead_after,
            recreate_at: self.recreate_at,
            pace: Pace {
                claim_every: (self.grace / 4).clamp(OFTENEST, RAREST_CLAIM),
                bury_every: (dead_after / 4).clamp(OFTENEST, RAREST_BURIAL),
                acks: !self.no_ack,
                returning,
            },
        };
        let consumer = Consumer { redis: self.client.commands(), group: self.group, name, terms };
        // A group that refuses leaves the others unchanged.
        let look = |stream| consumer.agree(stream, self.start, SILENCE, Entrance::Look);
        try_join_all(self.streams.iter().map(|stream| look(stream))).await?;
        let shared = Arc::new(Shared::new(consumer, Placement::of(&self.client), self.start, self.no_ack));
        try_join_all(self.streams.iter().map(|stream| shared.add_stream(stream))).await?;
        Ok(Sink::new(self.client, shared, settings))
    }
}
