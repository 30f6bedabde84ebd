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
/// A consumer that has not asked for anything for so many graces, and at least ten minutes, is dead.
const GRACES_TO_DEATH: u32 = 10;
/// Looks for what was not acknowledged are so far apart.
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

    /// Reads this stream. Call it for each stream; more may be added later, with
    /// [`SinkHandle::add_stream`](crate::SinkHandle::add_stream).
    pub fn stream(mut self, name: impl Into<Arc<str>>) -> Self {
        self.streams.push(name.into());
        self
    }

    /// The name of this consumer, which no other may have at the same time. A consumer that comes back under its name
    /// gets at once what it had not acknowledged. By default a new name each time. Names that begin with `tenure:` are
    /// reserved.
    pub fn consumer(mut self, name: impl Into<Arc<str>>) -> Self {
        self.consumer = Some(name.into());
        self
    }

    /// Where the group begins in a stream in which it is new. [`Start::Oldest`] by default. All sinks of a group must
    /// have the same kind of start; of ids and times those of the first one count.
    pub fn start(mut self, start: Start) -> Self {
        self.start = start;
        self
    }

    /// Where the group begins when it was lost and is created anew. [`Start::Oldest`] by default: what it had done is
    /// no longer known, so all that is still in the stream comes again, and nothing is missed. Another place misses
    /// what lies before it. All sinks of a group must have the same kind.
    pub fn recreate_at(mut self, start: Start) -> Self {
        self.recreate_at = start;
        self
    }

    /// How long an entry may stay unacknowledged before it is given to a consumer again. 30 s by default, at least
    /// 1 ms, at most 30 days. It counts from when the entry was read from Redis, or kept. All sinks of a group
    /// must have the same.
    pub fn ack_grace(mut self, grace: Duration) -> Self {
        self.grace = grace.clamp(Duration::from_millis(1), LONGEST_GRACE);
        self
    }

    /// After how long without a sign of life a consumer is deleted, with its pending entries moved to another one. At
    /// least the grace; ten graces by default, and no less than ten minutes. A consumer that is deleted while it lives
    /// is there again with its next read, and its acknowledgements count.
    pub fn dead_after(mut self, idle: Duration) -> Self {
        self.dead_after = Some(idle);
        self
    }

    /// Delivers each entry once at most: nothing needs to be acknowledged, and what a consumer has read when it dies is
    /// lost. All sinks of a group must have it, or none.
    pub fn no_ack(mut self) -> Self {
        self.no_ack = true;
        self
    }

    /// Hands out only entries with such a topic. With several filters, those that one of them wants. The others are
    /// acknowledged at once. All sinks of a group must have the same filters, of at most 16 KiB together.
    pub fn filter(mut self, filter: Filter) -> Self {
        self.filters.push(filter);
        self
    }

    /// How many entries of each stream one read may bring when the sink is used as a stream. They are with this
    /// consumer from then on. 64 by default, at least 1, at most 10,000.
    pub fn count(mut self, entries: u64) -> Self {
        self.count = entries.clamp(1, MOST);
        self
    }

    /// How long [`Sink::next_batch`] waits when there is nothing. 5 s by default, an hour at most; zero does not
    /// wait.
    pub fn block(mut self, block: Duration) -> Self {
        self.block = block.min(LONGEST_BLOCK);
        self
    }

    /// Creates the group in each of the streams where it is missing, with the stream if need be.
    ///
    /// A group keeps the settings that its sinks must share, from its first sink on and while any other sink of it is
    /// there: until that one is closed, or silent for ten minutes. After that the next sink brings its own.
    ///
    /// # Errors
    /// [`Error::Name`], [`Error::Config`] for a reserved name of a consumer, and [`Error::TooLarge`] for filters of more
    /// than 16 KiB, before anything is sent; [`Error::SettingMismatch`] when one of the groups runs with other
    /// settings, before anything is written; [`Error::Redis`].
    ///
    /// # Cancel safety
    /// The groups may be created all the same.
    pub async fn open(self) -> Result<Sink, Error> {
        let returning = self.consumer.is_some();
        let name = self.consumer.unwrap_or_else(|| Ulid::generate().to_string().into());
        keys::check("group name", &*self.group)?;
        keys::check("consumer name", &*name)?;
        if name.starts_with(RESERVED) {
            return Err(Error::Config { what: "consumers that begin with tenure: stand for no sink" });
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
        // One group that refuses leaves the others as they are.
        let look = |stream| consumer.agree(stream, self.start, SILENCE, Entrance::Look);
        try_join_all(self.streams.iter().map(|stream| look(stream))).await?;
        let shared = Arc::new(Shared::new(consumer, Placement::of(&self.client), self.start, self.no_ack));
        try_join_all(self.streams.iter().map(|stream| shared.add_stream(stream))).await?;
        Ok(Sink::new(self.client, shared, settings))
    }
}
