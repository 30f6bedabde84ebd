//! A connection without a task: it sends and receives when its owner polls. Logins use it, and subscriptions live on
//! it, because a reader that does not read gets no more than the sockets hold.

use std::collections::VecDeque;
use std::io;

use bytes::{Buf, BytesMut};
use futures::FutureExt;
use redis::{Cmd, RedisError, Value};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use crate::Error;
use crate::frame;
use crate::transport::Stream;

/// Room for one read.
const READ: usize = 16 * 1024;

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
        if let Err(error) = self.flush().await {
            return Err(self.last_word().unwrap_or(Error::Lost(error.into())));
        }
        loop {
            match frame::length(&self.read) {
                Ok(Some(length)) => {
                    let frame = self.read.split_to(length);
                    return redis::parse_redis_value(&frame).map_err(Error::Lost);
                }
                Ok(None) => {}
                Err(frame::Malformed) => return Err(lost(io::ErrorKind::InvalidData)),
            }
            self.read.reserve(READ);
            match self.stream.read_buf(&mut self.read).await {
                Ok(0) => return Err(lost(io::ErrorKind::UnexpectedEof)),
                Ok(_) => {}
                Err(error) => return Err(Error::reading(error)),
            }
        }
    }

    /// The reason that the server gave before the connection broke. The bytes are here already.
    fn last_word(&mut self) -> Option<Error> {
        let read = self.stream.read_buf(&mut self.read).now_or_never()?;
        read.err().map(Error::reading).filter(|error| !matches!(error, Error::Lost(_)))
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
