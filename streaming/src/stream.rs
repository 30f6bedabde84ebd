//! A stream: adding, removing, looking.

use std::sync::{Arc, LazyLock};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use redis::{ToRedisArgs, Value};
use tenure_connection::{Client, Connection, Script};

use crate::{Entry, EntryId, Error, reply};

static ADD: LazyLock<Script> = LazyLock::new(|| Script::new("streaming.add", include_str!("lua/add.lua")));

/// Where reading begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Start {
    /// At the oldest entry that there is.
    Oldest,
    /// Behind the newest one: only what comes from now on.
    Newest,
    /// Behind this entry.
    After(EntryId),
    /// At the first entry added at or after this time, by the server's clock.
    At(SystemTime),
}

/// How an entry is added.
#[derive(Clone, Copy, Debug, Default)]
#[must_use]
pub struct AddOptions {
    only_if_exists: bool,
    max_len: Option<u64>,
    ttl: Option<Duration>,
}

impl AddOptions {
    /// An ordinary entry.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds nothing when there is no stream.
    pub fn only_if_exists(mut self) -> Self {
        self.only_if_exists = true;
        self
    }

    /// Trims the stream to about this many of its newest entries; never to fewer.
    pub fn max_len(mut self, entries: u64) -> Self {
        self.max_len = Some(entries);
        self
    }

    /// Lets the whole stream expire when nothing was added for this long.
    pub fn ttl(mut self, ttl: Duration) -> Self {
        self.ttl = Some(ttl);
        self
    }

    /// What stands between the key and the fields.
    fn words(self) -> Vec<String> {
        let mut words = Vec::with_capacity(5);
        if self.only_if_exists {
            words.push("NOMKSTREAM".to_owned());
        }
        if let Some(entries) = self.max_len {
            words.extend(["MAXLEN".to_owned(), "~".to_owned(), entries.to_string()]);
        }
        words.push("*".to_owned());
        words
    }
}

/// A stream of entries. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Stream {
    redis: Connection,
    name: Arc<str>,
}

impl Stream {
    /// The stream under this key. Nothing is sent: a stream begins with its first entry.
    pub fn new(client: &Client, name: impl Into<Arc<str>>) -> Self {
        Self { redis: client.commands(), name: name.into() }
    }

    /// Its key.
    pub fn name(&self) -> &Arc<str> {
        &self.name
    }

    /// Adds an entry and returns its id.
    ///
    /// # Errors
    /// [`Error::NoFields`] before anything is sent; [`Error::Redis`].
    ///
    /// # Cancel safety
    /// The entry may be added all the same.
    pub async fn add<N: ToRedisArgs, V: ToRedisArgs>(&self, fields: &[(N, V)]) -> Result<EntryId, Error> {
        let id = self.add_with(AddOptions::new(), fields).await?;
        id.ok_or(Error::Malformed { expected: "entry id" })
    }

    /// Adds an entry with options; `None` when it was to be added to an existing stream only, and there is none.
    ///
    /// # Errors
    /// As [`Stream::add`].
    ///
    /// # Cancel safety
    /// As [`Stream::add`].
    pub async fn add_with<N: ToRedisArgs, V: ToRedisArgs>(
        &self,
        options: AddOptions,
        fields: &[(N, V)],
    ) -> Result<Option<EntryId>, Error> {
        if fields.is_empty() {
            return Err(Error::NoFields);
        }
        let words = options.words();
        let reply = match options.ttl {
            None => self.redis.command(redis::cmd("XADD").arg(&*self.name).arg(words).arg(fields)).await?,
            Some(ttl) => {
                let mut call = ADD.call(&[&*self.name]);
                call.arg(milliseconds(ttl)).arg(words).arg(fields);
                self.redis.call(&call).await?
            }
        };
        reply::optional_id(&reply)
    }

    /// Deletes entries and returns how many there were.
    ///
    /// # Errors
    /// [`Error::Redis`].
    ///
    /// # Cancel safety
    /// They may be deleted all the same.
    pub async fn remove(&self, ids: &[EntryId]) -> Result<u64, Error> {
        if ids.is_empty() {
            return Ok(0);
        }
        let mut command = redis::cmd("XDEL");
        command.arg(&*self.name);
        for id in ids {
            command.arg(id.to_string());
        }
        reply::count(&self.redis.command(&command).await?)
    }

    /// How many entries there are.
    ///
    /// # Errors
    /// [`Error::Redis`].
    ///
    /// # Cancel safety
    /// Safe: it only reads.
    pub async fn len(&self) -> Result<u64, Error> {
        reply::count(&self.redis.command(redis::cmd("XLEN").arg(&*self.name)).await?)
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
        let mut command = redis::cmd("XRANGE");
        command.arg(&*self.name).arg("-").arg("+").arg("COUNT").arg(1);
        Ok(reply::entries(self.redis.command(&command).await?)?.into_iter().next())
    }

    /// The cursor with which a reader begins there.
    ///
    /// # Errors
    /// [`Error::Redis`]; only [`Start::Newest`] asks Redis.
    ///
    /// # Cancel safety
    /// Safe: it only reads.
    pub async fn position(&self, start: Start) -> Result<EntryId, Error> {
        match start {
            Start::Oldest => Ok(EntryId::MIN),
            Start::After(id) => Ok(id),
            Start::At(time) => {
                let since_1970 = time.duration_since(UNIX_EPOCH).unwrap_or_default();
                Ok(EntryId::new(milliseconds(since_1970), 0).previous())
            }
            Start::Newest => {
                match self.redis.command(redis::cmd("XINFO").arg("STREAM").arg(&*self.name)).await {
                    Ok(info) => {
                        // Not the newest entry's id: that one may have been deleted.
                        let last = reply::field(&info, "last-generated-id").unwrap_or(&Value::Nil);
                        Ok(reply::optional_id(last)?.unwrap_or_default())
                    }
                    // There is no such key.
                    Err(error) if error.code() == Some("ERR") => Ok(EntryId::MIN),
                    Err(error) => Err(error.into()),
                }
            }
        }
    }

    /// Deletes the stream with its groups. Returns whether there was one.
    ///
    /// # Errors
    /// [`Error::Redis`].
    ///
    /// # Cancel safety
    /// It may be deleted all the same.
    pub async fn destroy(&self) -> Result<bool, Error> {
        Ok(reply::count(&self.redis.command(redis::cmd("UNLINK").arg(&*self.name)).await?)? == 1)
    }
}

/// Whole milliseconds, at least one unless there are none.
pub(crate) fn milliseconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos().div_ceil(1_000_000)).unwrap_or(u64::MAX)
}
