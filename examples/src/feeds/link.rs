//! A TCP connection with one JSON value per line. Each send and each receive has a deadline.

use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use futures::{SinkExt, StreamExt};
use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_util::codec::{Framed, LinesCodec};

const CONNECT_TIMEOUT: Duration = Duration::from_secs(2);
const SEND_TIMEOUT: Duration = Duration::from_secs(2);

/// The longest line; a line of statistics has about 200 bytes for each tenant.
const LINE_MAX: usize = 64 << 20;

/// One side of a connection.
#[derive(Debug)]
pub struct Link {
    lines: Framed<TcpStream, LinesCodec>,
}

impl Link {
    /// Connects.
    ///
    /// # Errors
    /// A network error, or one of time after 2 s.
    ///
    /// # Cancel safety
    /// Safe: a half-open connection is closed.
    pub async fn connect(address: SocketAddr) -> io::Result<Self> {
        Self::new(within(CONNECT_TIMEOUT, "connecting", TcpStream::connect(address)).await??)
    }

    /// Takes an accepted connection over.
    ///
    /// # Errors
    /// A network error.
    pub fn new(stream: TcpStream) -> io::Result<Self> {
        stream.set_nodelay(true)?;
        Ok(Self { lines: Framed::new(stream, LinesCodec::new_with_max_length(LINE_MAX)) })
    }

    /// Sends one message.
    ///
    /// # Errors
    /// A network error, or one of time after 2 s.
    ///
    /// # Cancel safety
    /// Not safe: a part of the message may have been sent, so drop the link.
    pub async fn send(&mut self, message: &impl Serialize) -> io::Result<()> {
        let line = serde_json::to_string(message)?;
        within(SEND_TIMEOUT, "sending", self.lines.send(line)).await?.map_err(io::Error::other)
    }

    /// Receives one message; `None` when the other side has closed.
    ///
    /// # Errors
    /// A network error, a line that is no message, or one of time after `patience`.
    ///
    /// # Cancel safety
    /// Safe: no message is lost.
    pub async fn receive<T: DeserializeOwned>(&mut self, patience: Duration) -> io::Result<Option<T>> {
        match within(patience, "receiving", self.lines.next()).await? {
            Some(line) => Ok(Some(serde_json::from_str(&line.map_err(io::Error::other)?)?)),
            None => Ok(None),
        }
    }
}

async fn within<T>(time: Duration, doing: &str, done: impl Future<Output = T>) -> io::Result<T> {
    let silent = || format!("nothing for {} s while {doing}", time.as_secs());
    timeout(time, done).await.map_err(|_| io::Error::new(io::ErrorKind::TimedOut, silent()))
}
