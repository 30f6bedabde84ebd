//! A stream: its settings, its entries and their removal. `adding` adds entries.

use std::sync::Arc;
use std::time::Duration;

use redis::Cmd;
use tenure_connection::{Client, Connection};

use crate::adding::Bounds;
use crate::keys::{self, OnceKeys};
use crate::start::countable;
use crate::{Entry, EntryId, Error, Start, lua, reply};

const ONCE_WINDOW: Duration = Duration::from_secs(3600);
/// The most ids in one command.
pub(crate) const IDS_PER_CALL: usize = 1000;

/// A stream of entries. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Stream {
    pub(crate) redis: Connection,
    pub(crate) name: Arc<str>,
    pub(crate) bounds: Arc<Bounds>,
}

/// Settings of a [`Stream`]. They belong to this handle, not to the stream: all publishers should use the same ones.
#[derive(Clone, Debug)]
#[must_use]
pub struct StreamBuilder {
    redis: Connection,
    name: Arc<str>,
    bounds: Bounds,
}

impl StreamBuilder {
    /// Trims the stream to about this many of its newest entries with each entry added: never to fewer, and rarely to
    /// many more than a hundred above. Trimmed entries are gone, even for readers that have not read them yet.
    pub fn max_len(mut self, entries: u64) -> Self {
        self.bounds.max_len = Some((countable(entries), "~"));
        self
    }

    /// Trims the stream to exactly this many of its newest entries with each entry added. This costs more than
    /// [`StreamBuilder::max_len`].
    pub fn max_len_exact(mut self, entries: u64) -> Self {
        self.bounds.max_len = Some((countable(entries), "="));
        self
    }

    /// Lets the whole stream and its groups expire when nothing was added for this long.
    pub fn sliding_ttl(mut self, ttl: Duration) -> Self {
        self.bounds.ttl = Some((ttl, ""));
        self
    }

    /// Lets the whole stream and its groups expire this long after its first entry was added, whatever is added
    /// meanwhile. An entry added later begins the stream anew.
    pub fn absolute_ttl(mut self, ttl: Duration) -> Self {
        self.bounds.ttl = Some((ttl, "NX"));
        self
    }

    /// Sets for how long [`Stream::add_once`] knows an id. 1 hour by default.
    pub fn once_window(mut self, window: Duration) -> Self {
        self.bounds.once_window = window;
        self
    }

    /// Checks the settings. Nothing is sent.
    ///
    /// # Errors
    /// [`Error::Name`]; [`Error::Config`] for a length, a time to live or a window of zero.
    pub fn build(self) -> Result<Stream, Error> {
        let Self { redis, name, bounds } = self;
        keys::check("stream name", &*name)?;
        if matches!(bounds.max_len, Some((0, _))) {
            return Err(Error::Config { what: "a stream of no entries cannot be added to" });
        }
        if matches!(bounds.ttl, Some((Duration::ZERO, _))) || bounds.once_window.is_zero() {
            return Err(Error::Config { what: "a time of zero is over at once" });
        }
        Ok(Stream { redis, name, bounds: Arc::new(bounds) })
    }
}

impl Stream {
    /// The stream under this key, without bounds. Nothing is sent: a stream begins with its first entry.
    ///
    /// # Errors
    /// [`Error::Name`] for an empty name or one of more than 512 bytes.
    pub fn new(client: &Client, name: impl Into<Arc<str>>) -> Result<Self, Error> {
        Self::builder(client, name).build()
    }

    /// The stream under this key, with settings.
    pub fn builder(client: &Client, name: impl Into<Arc<str>>) -> StreamBuilder {
        let bounds = Bounds { max_len: None, ttl: None, once_window: ONCE_WINDOW };
        StreamBuilder { redis: client.commands(), name: name.into(), bounds }
    }

    /// The stream's key.
    pub fn name(&self) -> &Arc<str> {
        &self.name
    }

    /// Deletes entries, and returns how many of them existed. A group that has one of them pending forgets it when it
    /// next looks at it.
    ///
    /// # Errors
    /// [`Error::Redis`].
    ///
    /// # Cancel safety
    /// They may be deleted all the same.
    pub async fn remove(&self, ids: &[EntryId]) -> Result<u64, Error> {
        let mut removed = 0;
        for ids in ids.chunks(IDS_PER_CALL) {
            let mut command = self.command("XDEL");
            for id in ids {
                command.arg(id.to_string());
            }
            removed += reply::count(&self.redis.command(&command).await?)?;
        }
        Ok(removed)
    }

    /// Deletes the oldest entries until exactly this many are left, and returns how many were deleted.
    ///
    /// # Errors
    /// [`Error::Redis`].
    ///
    /// # Cancel safety
    /// They may be deleted all the same.
    pub async fn trim(&self, entries: u64) -> Result<u64, Error> {
        reply::count(
            &self.redis.command(self.command("XTRIM").arg("MAXLEN").arg("=").arg(countable(entries))).await?,
        )
    }

    /// Deletes all entries before this one, and returns how many.
    ///
    /// # Errors
    /// [`Error::Redis`].
    ///
    /// # Cancel safety
    /// They may be deleted all the same.
    pub async fn trim_before(&self, id: EntryId) -> Result<u64, Error> {
        let mut command = self.command("XTRIM");
        command.arg("MINID").arg("=").arg(id.to_string());
        reply::count(&self.redis.command(&command).await?)
    }

    /// The number of entries.
    ///
    /// # Errors
    /// [`Error::Redis`].
    ///
    /// # Cancel safety
    /// Safe: it only reads.
    pub async fn len(&self) -> Result<u64, Error> {
        reply::count(&self.redis.command(&self.command("XLEN")).await?)
    }

    /// Whether there are no entries.
    ///
    /// # Errors
    /// [`Error::Redis`].
    ///
    /// # Cancel safety
    /// Safe: it only reads.
    pub async fn is_empty(&self) -> Result<bool, Error> {
        Ok(self.len().await? == 0)
    }

    /// The oldest entry.
    ///
    /// # Errors
    /// [`Error::Redis`].
    ///
    /// # Cancel safety
    /// Safe: it only reads.
    pub async fn oldest(&self) -> Result<Option<Entry>, Error> {
        Ok(self.range(EntryId::MIN, EntryId::MAX, 1).await?.pop())
    }

    /// The newest entry.
    ///
    /// # Errors
    /// [`Error::Redis`].
    ///
    /// # Cancel safety
    /// Safe: it only reads.
    pub async fn newest(&self) -> Result<Option<Entry>, Error> {
        let mut command = self.command("XREVRANGE");
        command.arg("+").arg("-").arg("COUNT").arg(1);
        Ok(reply::entries(self.redis.command(&command).await?, &self.name)?.pop())
    }

    /// The first `count` entries from `first` to `last`, both included, in their order.
    ///
    /// # Errors
    /// [`Error::Redis`].
    ///
    /// # Cancel safety
    /// Safe: it only reads.
    pub async fn range(&self, first: EntryId, last: EntryId, count: u64) -> Result<Vec<Entry>, Error> {
        if count == 0 {
            return Ok(Vec::new());
        }
        let mut command = self.command("XRANGE");
        command.arg(first.to_string()).arg(last.to_string()).arg("COUNT").arg(countable(count));
        reply::entries(self.redis.command(&command).await?, &self.name)
    }

    /// The entry behind which a reader with this start begins; for [`Start::Newest`], the present end of the stream.
    ///
    /// # Errors
    /// [`Error::Redis`]; only [`Start::Newest`] asks Redis.
    ///
    /// # Cancel safety
    /// Safe: it only reads.
    pub async fn position(&self, start: Start) -> Result<EntryId, Error> {
        start.resolve(&self.redis, &self.name).await
    }

    /// Deletes the stream, its groups and the ids that [`Stream::add_once`] knows, in one step. Returns whether there
    /// was a stream. A [`Sink`](crate::Sink) that still reads it creates it anew, empty: close sinks first.
    ///
    /// # Errors
    /// [`Error::Redis`].
    ///
    /// # Cancel safety
    /// It may be deleted all the same.
    pub async fn destroy(&self) -> Result<bool, Error> {
        let reply = match OnceKeys::of(&self.name) {
            Some(OnceKeys { ids, due }) => {
                self.redis.call(&lua::DESTROY.call(&[&*self.name, &ids, &due])).await?
            }
            None => self.redis.command(&self.command("UNLINK")).await?,
        };
        Ok(reply::count(&reply)? == 1)
    }

    fn command(&self, name: &str) -> Cmd {
        let mut command = redis::cmd(name);
        command.arg(&*self.name);
        command
    }
}
