//! A consumer group: several consumers share one cursor, and each entry stays with one of them until it is
//! acknowledged.

use std::fmt;
use std::sync::{Arc, LazyLock};
use std::time::Duration;

use redis::Cmd;
use tenure_connection::{Backoff, Blocking, Client, Connection, Script};
use tokio::time::{Instant, sleep};

use crate::stream::milliseconds;
use crate::{Entry, EntryId, Error, reply};

static ACK_AND_REMOVE: LazyLock<Script> =
    LazyLock::new(|| Script::new("streaming.ack_and_remove", include_str!("lua/ack_and_remove.lua")));
static PRUNE: LazyLock<Script> =
    LazyLock::new(|| Script::new("streaming.prune", include_str!("lua/prune.lua")));

const FIRST_PAUSE: Duration = Duration::from_millis(50);
const LONGEST_PAUSE: Duration = Duration::from_secs(2);

/// How a [`Sink`] is opened.
#[derive(Clone, Copy, Debug, Default)]
#[must_use]
pub struct SinkOptions {
    create_group: Option<EntryId>,
}

impl SinkOptions {
    /// The group must exist; when it is lost, that is an error.
    pub fn new() -> Self {
        Self::default()
    }

    /// Creates the group, and the stream, when they are missing: it begins behind `after`. When the group is lost
    /// later it is created anew at the oldest entry, because what it had delivered is no longer known: entries that
    /// were handled but not removed come again.
    pub fn create_group(mut self, after: EntryId) -> Self {
        self.create_group = Some(after);
        self
    }
}

/// One consumer of a group, reading on a connection of its own.
///
/// Sinks with the same group share the cursor; other groups get copies. An entry that is not acknowledged stays
/// pending, and may be claimed by another consumer once it has been idle for long.
pub struct Sink {
    redis: Connection,
    blocking: Blocking,
    stream: Arc<str>,
    group: Arc<str>,
    consumer: Arc<str>,
    create_group: bool,
    claim_from: EntryId,
    lost_group: Backoff,
}

impl Sink {
    /// Opens a consumer of a group.
    ///
    /// # Errors
    /// [`Error::Redis`] when the group was to be created and could not be. Without that option nothing is sent.
    ///
    /// # Cancel safety
    /// The group may be created all the same.
    pub async fn open(
        client: &Client,
        stream: impl Into<Arc<str>>,
        group: impl Into<Arc<str>>,
        consumer: impl Into<Arc<str>>,
        options: SinkOptions,
    ) -> Result<Self, Error> {
        let sink = Self {
            redis: client.commands(),
            blocking: client.blocking(),
            stream: stream.into(),
            group: group.into(),
            consumer: consumer.into(),
            create_group: options.create_group.is_some(),
            claim_from: EntryId::MIN,
            lost_group: Backoff::new(FIRST_PAUSE, LONGEST_PAUSE),
        };
        if let Some(after) = options.create_group {
            sink.create(after).await?;
        }
        Ok(sink)
    }

    /// Up to `count` entries that no consumer of the group has got yet; none when there were none for `block`. They
    /// are pending until they are acknowledged. A `block` of zero does not wait.
    ///
    /// # Errors
    /// [`Error::NoGroup`] when the group is gone and is not to be created; [`Error::Redis`].
    ///
    /// # Cancel safety
    /// Nothing is lost, but entries that had been delivered and were not returned stay pending with this consumer
    /// until they are claimed.
    pub async fn next_batch(&mut self, count: u64, block: Duration) -> Result<Vec<Entry>, Error> {
        let mut command = redis::cmd("XREADGROUP");
        command.arg("GROUP").arg(&*self.group).arg(&*self.consumer).arg("COUNT").arg(count.max(1));
        if !block.is_zero() {
            // Zero would mean for ever.
            command.arg("BLOCK").arg(milliseconds(block));
        }
        command.arg("STREAMS").arg(&*self.stream).arg(">");

        let give_up = Instant::now() + block;
        loop {
            match self.blocking.command(&command, block).await.map_err(|error| self.typed(error)) {
                Ok(reply) => {
                    self.lost_group.reset();
                    return Ok(reply::streams(reply)?.into_iter().flat_map(|(_, entries)| entries).collect());
                }
                Err(Error::NoGroup { .. }) if self.create_group => {
                    let pause = self.lost_group.pause();
                    self.lost_group.fail();
                    sleep(pause).await;
                    self.create(EntryId::MIN).await?;
                    tracing::warn!(stream = &*self.stream, group = &*self.group, "created a lost group anew");
                    if Instant::now() > give_up && self.lost_group.failures() > 1 {
                        return Ok(Vec::new());
                    }
                }
                Err(error) => return Err(error),
            }
        }
    }

    /// Takes over up to `count` entries that have been pending, with whichever consumer, for at least `min_idle`.
    /// Goes on where the last call ended; none when nothing was found up to the end.
    ///
    /// # Errors
    /// [`Error::NoGroup`], [`Error::Redis`].
    ///
    /// # Cancel safety
    /// As [`Sink::next_batch`].
    pub async fn claim(&mut self, min_idle: Duration, count: u64) -> Result<Vec<Entry>, Error> {
        loop {
            let mut command = redis::cmd("XAUTOCLAIM");
            command.arg(&*self.stream).arg(&*self.group).arg(&*self.consumer);
            command.arg(milliseconds(min_idle)).arg(self.claim_from.to_string());
            command.arg("COUNT").arg(count.max(1));
            let (next, claimed) = reply::claimed(self.send(&command).await?)?;
            self.claim_from = next;
            if !claimed.is_empty() || next == EntryId::MIN {
                return Ok(claimed);
            }
        }
    }

    /// Acknowledges entries: they are no longer pending. Returns how many were.
    ///
    /// # Errors
    /// [`Error::Redis`]. Of a lost group nothing is pending.
    ///
    /// # Cancel safety
    /// They may be acknowledged all the same.
    pub async fn ack(&self, ids: &[EntryId]) -> Result<u64, Error> {
        if ids.is_empty() {
            return Ok(0);
        }
        let mut command = redis::cmd("XACK");
        command.arg(&*self.stream).arg(&*self.group);
        for id in ids {
            command.arg(id.to_string());
        }
        reply::count(&self.send(&command).await?)
    }

    /// Acknowledges entries and deletes them from the stream, in one step. Returns how many were pending.
    ///
    /// # Errors
    /// As [`Sink::ack`].
    ///
    /// # Cancel safety
    /// It may be done all the same.
    pub async fn ack_and_remove(&self, ids: &[EntryId]) -> Result<u64, Error> {
        if ids.is_empty() {
            return Ok(0);
        }
        let mut call = ACK_AND_REMOVE.call(&[&*self.stream]);
        call.arg(&*self.group);
        for id in ids {
            call.arg(id.to_string());
        }
        reply::count(&self.redis.call(&call).await.map_err(|error| self.typed(error))?)
    }

    /// Deletes the other consumers of the group that have been idle for at least `idle` and have nothing pending, in
    /// one step. Returns how many.
    ///
    /// # Errors
    /// [`Error::NoGroup`], [`Error::Redis`].
    ///
    /// # Cancel safety
    /// They may be deleted all the same.
    pub async fn prune(&self, idle: Duration) -> Result<u64, Error> {
        let mut call = PRUNE.call(&[&*self.stream]);
        call.arg(&*self.group).arg(&*self.consumer).arg(milliseconds(idle));
        reply::count(&self.redis.call(&call).await.map_err(|error| self.typed(error))?)
    }

    /// The name of this consumer.
    pub fn consumer(&self) -> &str {
        &self.consumer
    }

    async fn create(&self, after: EntryId) -> Result<(), Error> {
        let mut command = redis::cmd("XGROUP");
        command.arg("CREATE").arg(&*self.stream).arg(&*self.group).arg(after.to_string()).arg("MKSTREAM");
        match self.redis.command(&command).await {
            Err(error) if error.code() != Some("BUSYGROUP") => Err(error.into()),
            _ => Ok(()),
        }
    }

    async fn send(&self, command: &Cmd) -> Result<redis::Value, Error> {
        self.redis.command(command).await.map_err(|error| self.typed(error))
    }

    fn typed(&self, error: tenure_connection::Error) -> Error {
        // UNBLOCKED is said to a read that waited when the stream went.
        match error.code() {
            Some("NOGROUP" | "UNBLOCKED") => {
                Error::NoGroup { stream: self.stream.to_string(), group: self.group.to_string() }
            }
            _ => error.into(),
        }
    }
}

impl fmt::Debug for Sink {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sink")
            .field("stream", &self.stream)
            .field("group", &self.group)
            .field("consumer", &self.consumer)
            .finish_non_exhaustive()
    }
}
