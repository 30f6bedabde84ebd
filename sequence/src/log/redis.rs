//! Logs in Redis: one stream per log, whose ids are the indexes.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use redis::Value;
use tenure_connection::{Client, Connection};
use tokio::sync::watch;
use tokio::time::timeout;

use crate::consumer::delivery::Delivery;
use crate::error::{Error, SourceError, stays};
use crate::log::bell::{Belfry, Heard};
use crate::log::{Appended, Below, LogError};
use crate::progress::redis::RedisProgress;
use crate::source::Source;
use crate::{keys, lua};

/// The most bodies of one append.
const BODIES_MAX: usize = 1_000;
/// The most bytes of one append.
const BYTES_MAX: usize = 4 << 20;
/// The highest input. Lua's numbers and the scores of sorted sets are exact up to here.
const INPUT_MAX: u64 = 1 << 53;
/// How long a log relies on being told. A message may be lost together with every sign of it.
const LISTEN_MAX: Duration = Duration::from_secs(30);

/// A set of logs in one hash slot of Redis, with one subscription for all that listen. Cheap to clone.
#[derive(Clone, Debug)]
pub struct RedisLogs {
    client: Client,
    redis: Connection,
    set: Arc<str>,
    belfry: Arc<Belfry>,
}

impl RedisLogs {
    /// The set with this name. Nothing is sent.
    ///
    /// # Errors
    /// [`Error::Setting`]: a name has 1 to 256 bytes, without control characters and braces.
    pub fn open(client: &Client, set: impl Into<Arc<str>>) -> Result<Self, Error> {
        let set = set.into();
        keys::check("set", &set)?;
        let belfry = Arc::new(Belfry::new(client, keys::appended(&set).into()));
        Ok(Self { client: client.clone(), redis: client.commands(), set, belfry })
    }

    /// A log of the set. It begins with its first body.
    ///
    /// # Errors
    /// [`Error::Setting`] for its name.
    pub fn log(&self, name: impl Into<Arc<str>>) -> Result<RedisLog, Error> {
        let (name, set) = (name.into(), &*self.set);
        keys::check("log", &name)?;
        let stream = keys::log(set, &name);
        let (heads, inputs, floors) = (keys::heads(set), keys::inputs(set, &name), keys::floors(set));
        Ok(RedisLog {
            redis: self.redis.clone(),
            keys: Arc::new([stream, heads, inputs, floors]),
            channel: keys::appended(set).into(),
            name,
            belfry: self.belfry.clone(),
            listening: Listening::default(),
            last: Last::default(),
        })
    }

    /// The progress of a consumer, beside the logs.
    ///
    /// # Errors
    /// [`Error::Setting`] for its name.
    pub fn progress(&self, consumer: impl Into<Arc<str>>) -> Result<RedisProgress, Error> {
        RedisProgress::new(&self.client, &self.set, consumer)
    }
}

/// A log in Redis: a stream whose entry `0-5` is the body of index 5. Cheap to clone.
///
/// An append wakes the consumers of the log. A consumer looks once in 30 s in any case.
///
/// A log that has lost its last bodies gives their indexes again. It knows the last one that its consumer has read, and fails
/// with [`SourceError::Broken`] when that is another one by now. So give each consumer a clone of its own.
#[derive(Clone, Debug)]
pub struct RedisLog {
    redis: Connection,
    /// Stream, heads, inputs, floors.
    keys: Arc<[String; 4]>,
    channel: Arc<str>,
    name: Arc<str>,
    belfry: Arc<Belfry>,
    listening: Listening,
    last: Last,
}

/// The last entry that one consumer of a log has seen. Its number may be given again after a loss of data, and its mark is
/// not. A clone of the log is for another consumer, and has seen nothing.
#[derive(Debug, Default)]
struct Last(Mutex<Option<(u64, Vec<u8>)>>);

impl Clone for Last {
    fn clone(&self) -> Self {
        Self::default()
    }
}

impl Last {
    /// The mark of the entry with this index; empty if another one was seen, or it had none.
    fn mark(&self, index: u64) -> Vec<u8> {
        let last = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        last.as_ref().filter(|last| last.0 == index).map(|last| last.1.clone()).unwrap_or_default()
    }

    fn see(&self, index: u64, mark: Vec<u8>) {
        let mut last = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        // An entry that is trimmed has no mark any more: the one that is known tells it from a later one.
        if !mark.is_empty() || last.as_ref().is_none_or(|last| last.0 != index) {
            *last = Some((index, mark));
        }
    }
}

/// The news that one consumer of a log has heard. A clone of the log is for another consumer, and has heard nothing.
#[derive(Debug, Default)]
struct Listening {
    /// Kept between two calls, so that nothing is missed.
    bell: OnceLock<watch::Receiver<Heard>>,
    /// The subscription that was last seen.
    subscribed: AtomicU64,
}

impl Clone for Listening {
    fn clone(&self) -> Self {
        Self::default()
    }
}

impl RedisLog {
    /// Appends bodies, in one step, and returns their indexes. At most 1,000 of together 4 MiB.
    ///
    /// # Errors
    /// [`LogError`]. After an error of Redis that `may_have_executed`, they may have been appended: only
    /// [`append_for`](Self::append_for) may simply be sent again.
    ///
    /// # Cancel safety
    /// They may be appended all the same.
    pub async fn append<B: AsRef<[u8]>>(
        &self,
        bodies: impl IntoIterator<Item = B>,
    ) -> Result<Appended, LogError> {
        self.send(None, bodies).await
    }

    /// Appends the output of a job, once for its index, in one step. However often the job runs, the first attempt that
    /// got here counts, and the others are given the same indexes. One consumer at most may feed a log so.
    ///
    /// # Errors
    /// [`LogError`]. It may be sent again after any of them.
    ///
    /// # Cancel safety
    /// They may be appended all the same. Call it again.
    pub async fn append_for<I, B: AsRef<[u8]>>(
        &self,
        input: &Delivery<I>,
        bodies: impl IntoIterator<Item = B>,
    ) -> Result<Appended, LogError> {
        self.send(Some((input.index(), input.stored())), bodies).await
    }

    async fn send<B: AsRef<[u8]>>(
        &self,
        input: Option<(u64, u64)>,
        bodies: impl IntoIterator<Item = B>,
    ) -> Result<Appended, LogError> {
        if let Some((input, _)) = input
            && input > INPUT_MAX
        {
            return Err(LogError::InputTooHigh { input });
        }
        let mut call = lua::APPEND.call(&self.keys[..]);
        call.arg(&*self.channel).arg(&*self.name);
        match input {
            Some((input, done)) => call.arg(input).arg(done),
            None => call.arg("").arg(0),
        };
        call.arg(&rand::random::<[u8; 8]>()[..]);
        let (mut count, mut bytes) = (0, 0);
        for body in bodies {
            let body = body.as_ref();
            (count, bytes) = (count + 1, bytes + body.len());
            call.arg(body);
        }
        for (what, is, limit) in [("bodies", count, BODIES_MAX), ("bytes", bytes, BYTES_MAX)] {
            if is > limit {
                return Err(LogError::TooLarge { what, is, limit });
            }
        }
        if input.is_none() && count == 0 {
            return Ok(Appended { indexes: 0..0, repeated: false });
        }
        let Value::Array(reply) = self.redis.call(&call).await? else { return Err(LogError::Damaged) };
        let late = matches!(reply.first(), Some(Value::BulkString(word)) if word == b"LATE");
        match (&reply[..], input) {
            ([_, floor], Some((input, _))) if late => {
                Err(LogError::Late { input, floor: number(floor).ok_or(LogError::Damaged)? })
            }
            ([first, count, repeated], _) => match (number(first), number(count)) {
                (Some(first), Some(count)) => Ok(Appended {
                    indexes: first..first.saturating_add(count),
                    repeated: *repeated == Value::Int(1),
                }),
                _ => Err(LogError::Damaged),
            },
            _ => Err(LogError::Damaged),
        }
    }

    /// Deletes the bodies up to this index. Call it with an index below what all consumers of the log have stored. One that
    /// still needs a deleted body ends with [`SourceError::Gone`]. The last one that a consumer has done lets it notice a loss
    /// of data.
    ///
    /// # Errors
    /// [`LogError::Redis`].
    ///
    /// # Cancel safety
    /// They may be deleted all the same.
    pub async fn trim(&self, up_to: u64) -> Result<(), LogError> {
        let mut command = redis::cmd("XTRIM");
        command.arg(&self.keys[0]).arg("MINID").arg("=").arg(format!("0-{}", up_to.saturating_add(1)));
        self.redis.command(&command).await?;
        Ok(())
    }

    /// Deletes the log, and what is known of its inputs. The next body has index 1 again. Forget the progress of its
    /// consumers, too. Otherwise those that run end, and later ones end or skip the new bodies up to it.
    ///
    /// # Errors
    /// [`LogError::Redis`].
    ///
    /// # Cancel safety
    /// It may be deleted in part: call it again.
    pub async fn destroy(&self) -> Result<(), LogError> {
        let [stream, heads, inputs, floors] = &*self.keys;
        let mut pipeline = self.redis.pipeline();
        for key in [heads, floors] {
            pipeline.command(redis::cmd("HDEL").arg(key).arg(&*self.name).take());
        }
        pipeline.command(redis::cmd("UNLINK").arg(inputs).arg(stream).take());
        for result in pipeline.send().await {
            result?;
        }
        Ok(())
    }
}

impl Source for RedisLog {
    type Job = Bytes;

    async fn at(&self, index: u64) -> Result<Option<Bytes>, SourceError> {
        match self.find(index, 1, &[]).await? {
            Found::Bodies { mut bodies, .. } => Ok(bodies.pop()),
            Found::Below(_) => Ok(None),
        }
    }

    async fn head(&self) -> Result<u64, SourceError> {
        let mut command = redis::cmd("HGET");
        command.arg(&self.keys[1]).arg(&*self.name);
        match self.redis.command(&command).await.map_err(failure)? {
            Value::Nil => Ok(0),
            head => number(&head).ok_or_else(damaged),
        }
    }

    async fn read(&self, first: u64, most: usize) -> Result<Vec<Bytes>, SourceError> {
        if most == 0 {
            return Ok(Vec::new());
        }
        let read = first.saturating_sub(1);
        match self.find(first, most, &self.last.mark(read)).await? {
            Found::Bodies { bodies, mark } => {
                self.last.see(read + bodies.len() as u64, mark);
                Ok(bodies)
            }
            Found::Below(head) => Err(SourceError::broken(Below { head, read })),
        }
    }

    async fn changed(&self, above: u64) {
        let Listening { bell, subscribed } = &self.listening;
        let mut heard = bell.get_or_init(|| self.belfry.bell(&self.name)).clone();
        self.belfry.listen();
        let seen = subscribed.load(Ordering::Relaxed);
        let news = heard.wait_for(|heard| heard.head > above || heard.subscribed > seen);
        // The next call tells of later news. Without any news, it is time to look.
        if let Ok(Ok(heard)) = timeout(LISTEN_MAX, news).await {
            subscribed.store(heard.subscribed, Ordering::Relaxed);
        }
    }
}

/// The part of a log that a read has found.
enum Found {
    Bodies {
        bodies: Vec<Bytes>,
        /// Of the last one; without any, of the entry ahead of the first one.
        mark: Vec<u8>,
    },
    /// Nothing, and the log ends here, before the index that comes ahead of the first one.
    Below(u64),
}

impl RedisLog {
    /// `mark` is that of the entry ahead of the first one when it was seen, or empty.
    async fn find(&self, first: u64, most: usize, mark: &[u8]) -> Result<Found, SourceError> {
        let mut call = lua::READ.call(&self.keys[..2]);
        call.arg(&*self.name).arg(first).arg(first.saturating_sub(1)).arg(mark).arg(most);
        let Value::Array(reply) = self.redis.call(&call).await.map_err(failure)? else {
            return Err(damaged());
        };
        let mut reply = reply.into_iter();
        match reply.next() {
            Some(Value::Int(0)) => {
                let Some(Value::BulkString(mark)) = reply.next() else { return Err(damaged()) };
                let body = |body| match body {
                    Value::BulkString(body) => Ok(Bytes::from(body)),
                    _ => Err(damaged()),
                };
                Ok(Found::Bodies { bodies: reply.map(body).collect::<Result<_, _>>()?, mark })
            }
            Some(Value::Int(1)) => {
                let left = reply.next().as_ref().and_then(number);
                Err(SourceError::Gone { index: first, left })
            }
            Some(Value::Int(2)) => {
                let head = reply.next().as_ref().and_then(number).ok_or_else(damaged)?;
                Ok(Found::Below(head))
            }
            Some(Value::Int(3)) => Err(SourceError::broken(GivenAgain { index: first.saturating_sub(1) })),
            _ => Err(damaged()),
        }
    }
}

/// A log whose last entry that was read is another one by now.
#[derive(Debug, thiserror::Error)]
#[error(
    "the index {index} was given again: the log has lost its last bodies; forget the progress and store the last index \
     that is known to be good, before its consumer starts again"
)]
struct GivenAgain {
    index: u64,
}

fn number(value: &Value) -> Option<u64> {
    match value {
        Value::BulkString(bytes) => std::str::from_utf8(bytes).ok()?.parse().ok(),
        Value::Int(number) => u64::try_from(*number).ok(),
        _ => None,
    }
}

fn damaged() -> SourceError {
    SourceError::broken("what is stored is no log")
}

fn failure(error: tenure_connection::Error) -> SourceError {
    match error {
        tenure_connection::Error::TimedOut(_) => SourceError::timed_out(error),
        _ if stays(&error) => SourceError::broken(error),
        _ => SourceError::unavailable(error),
    }
}
