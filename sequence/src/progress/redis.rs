//! Progress in Redis, fenced by a token.

use std::sync::Arc;

use redis::Value;
use tenure_connection::{Client, Connection, Script};

use crate::error::{Error, ProgressError, stays};
use crate::progress::Progress;
use crate::{keys, lua};

/// The progress of one consumer in Redis. Cheap to clone.
///
/// With a token ([`fenced`](Self::fenced)) the consumer owns the progress: its first step claims it. From then on a former
/// owner with a lower token can neither claim nor save. Without one the token is 0.
#[derive(Clone, Debug)]
pub struct RedisProgress {
    redis: Connection,
    key: Arc<str>,
    name: Arc<str>,
    token: u64,
}

impl RedisProgress {
    /// The progress of the consumer with this name. The progresses of one set lie in one hash. Nothing is sent.
    ///
    /// # Errors
    /// [`Error::Setting`]: a name has 1 to 256 bytes, without control characters and braces.
    pub fn new(client: &Client, set: &str, name: impl Into<Arc<str>>) -> Result<Self, Error> {
        let name = name.into();
        keys::check("set", set)?;
        keys::check("consumer", &name)?;
        Ok(Self { redis: client.commands(), key: keys::progress(set).into(), name, token: 0 })
    }

    /// The same progress, owned with this token, such as that of a pool's job.
    #[must_use]
    pub fn fenced(self, token: u64) -> Self {
        Self { token, ..self }
    }

    /// Deletes the progress, whoever owns it. The next start begins at the consumer's default index.
    ///
    /// # Errors
    /// [`ProgressError`]: it may be there still.
    ///
    /// # Cancel safety
    /// It may be deleted all the same.
    pub async fn forget(&self) -> Result<(), ProgressError> {
        let mut command = redis::cmd("HDEL");
        self.redis.command(command.arg(&*self.key).arg(&*self.name)).await.map_err(failure)?;
        Ok(())
    }

    async fn call(&self, script: &Script, index: u64) -> Result<u64, ProgressError> {
        let mut call = script.call(&[&*self.key]);
        call.arg(&*self.name).arg(self.token).arg(index);
        let reply = self.redis.call(&call).await.map_err(failure)?;
        let words: Option<Vec<String>> = match &reply {
            Value::Array(items) => items.iter().map(word).collect(),
            _ => None,
        };
        let words: Vec<_> = words.iter().flatten().map(String::as_str).collect();
        match words[..] {
            ["OK", index] => number(index),
            ["FENCED", by] => Err(ProgressError::Fenced { by: Some(number(by)?) }),
            ["DAMAGED"] => Err(damaged()),
            _ => Err(ProgressError::broken("the script gave another answer than it can")),
        }
    }
}

impl Progress for RedisProgress {
    async fn load(&self) -> Result<Option<u64>, ProgressError> {
        let mut command = redis::cmd("HGET");
        match self.redis.command(command.arg(&*self.key).arg(&*self.name)).await.map_err(failure)? {
            Value::Nil => Ok(None),
            kept => {
                let kept = word(&kept).ok_or_else(damaged)?;
                match kept.split('|').collect::<Vec<_>>()[..] {
                    ["1", token, index] => number(token).and(number(index)).map(Some),
                    _ => Err(damaged()),
                }
            }
        }
    }

    async fn init(&self, default: u64) -> Result<u64, ProgressError> {
        self.call(&lua::CLAIM, default).await
    }

    async fn save(&self, index: u64) -> Result<(), ProgressError> {
        self.call(&lua::SAVE, index).await.map(drop)
    }
}

fn word(value: &Value) -> Option<String> {
    match value {
        Value::BulkString(bytes) => String::from_utf8(bytes.clone()).ok(),
        Value::SimpleString(text) => Some(text.clone()),
        _ => None,
    }
}

fn number(text: &str) -> Result<u64, ProgressError> {
    text.parse().map_err(|_| damaged())
}

fn damaged() -> ProgressError {
    ProgressError::broken("what is stored is no progress")
}

fn failure(error: tenure_connection::Error) -> ProgressError {
    if stays(&error) { ProgressError::broken(error) } else { ProgressError::unavailable(error) }
}
