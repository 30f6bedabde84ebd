//! A connection without a task: it sends and receives when its owner polls. Logins use it, and subscriptions live on
//! it, because a reader that does not read gets no more than the sockets hold.

use std::collections::VecDeque;
use std::io;
use std::time::Duration;

use bytes::{Buf, BytesMut};
use redis::{Cmd, RedisError, Value};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::time::timeout;

use crate::Error;
use crate::frame;
use crate::transport::Stream;

/// Room for one read.
const READ: usize = 16 * 1024;
/// The wait for the words of a server that has hung up: a refusal of the client, or a refusal by TLS. The words came before
/// the end of the connection, which the send has met.
const LAST_WORD: Duration = Duration::from_secs(1);

pub(crate) struct Wire {
    stream: Stream,
    read: BytesMut,
    unsent: VecDeque<u8>,
    flushed: bool,
}

impl Wire {
    pub(crate) fn new(stream: Stream) -> Self {
        Self { stream, read: BytesMut::new(), unsent: VecDeque::new(), flushed: true }
    }

    /// Queues a command for the next read, which sends it before it waits.
    pub(crate) fn queue(&mut self, command: &Cmd) {
        self.unsent.extend(command.get_packed_command());
        self.flushed = false;
    }

    /// Sends queued commands, and returns the next value. Nothing is lost when the future is dropped.
    pub(crate) async fn next(&mut self) -> Result<Value, Error> {
        let Err(error) = self.flush().await else { return self.read().await };
        match timeout(LAST_WORD, self.read()).await {
            Err(_) | Ok(Err(Error::Lost(_))) => Err(Error::Lost(error.into())),
            Ok(last_word) => last_word,
        }
    }

    async fn read(&mut self) -> Result<Value, Error> {
        loop {
            if let Some(value) = self.whole()? {
                return Ok(value);
            }
            self.read.reserve(READ);
            match self.stream.read_buf(&mut self.read).await {
                Ok(0) => return Err(lost(io::ErrorKind::UnexpectedEof)),
                Ok(_) => {}
                Err(error) => return Err(Error::reading(error)),
            }
        }
    }

    /// The next value, if all of its bytes have been read.
    fn whole(&mut self) -> Result<Option<Value>, Error> {
        let Ok(length) = frame::length(&self.read) else { return Err(lost(io::ErrorKind::InvalidData)) };
        let Some(length) = length else { return Ok(None) };
        redis::parse_redis_value(&self.read.split_to(length)).map(Some).map_err(Error::Lost)
    }

    async fn flush(&mut self) -> io::Result<()> {
        while self.unsent.has_remaining() {
            if self.stream.write_buf(&mut self.unsent).await? == 0 {
                return Err(io::ErrorKind::WriteZero.into());
            }
        }
        if !self.flushed {
            self.stream.flush().await?;
            self.flushed = true;
        }
        Ok(())
    }

    /// The stream, once every reply has been read.
    pub(crate) fn into_stream(self) -> Result<Stream, Error> {
        if self.read.is_empty() { Ok(self.stream) } else { Err(lost(io::ErrorKind::InvalidData)) }
    }
}

fn lost(kind: io::ErrorKind) -> Error {
    Error::Lost(RedisError::from(io::Error::from(kind)))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[tokio::test]
    async fn a_refusal_is_read_behind_a_send_that_fails() {
        let (ours, mut theirs) = tokio::net::UnixStream::pair().unwrap();
        theirs.write_all(b"-ERR max number of clients reached\r\n").await.unwrap();
        drop(theirs);
        let mut wire = Wire::new(Box::new(ours));
        wire.queue(&redis::cmd("PING"));
        let error = Error::checked(wire.next().await.unwrap()).unwrap_err();
        assert!(matches!(error, Error::Unreachable(_)), "{error:?}");
        assert!(matches!(wire.next().await, Err(Error::Lost(_))));
    }
}
