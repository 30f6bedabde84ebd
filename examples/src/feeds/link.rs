//! A TCP connection with one JSON value per line. Each send and each receive has a deadline.

use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use futures::{SinkExt, StreamExt};
use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_util::codec::{Framed, LinesCodec, LinesCodecError};

const CONNECT_TIMEOUT: Duration = Duration::from_secs(2);
const SEND_TIMEOUT: Duration = Duration::from_secs(2);

/// The longest line; a line of statistics has about 200 bytes for each tenant.
const LINE_MAX: usize = 64 << 20;

/// A connection broke. The last message sent may or may not have arrived.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LinkError {
    /// The network failed.
    #[error("the connection failed")]
    Io(#[from] io::Error),
    /// A line that is too long, or no text.
    #[error("the line cannot be read")]
    Line(#[source] LinesCodecError),
    /// A line that is no message.
    #[error("the line is not a message")]
    Message(#[from] serde_json::Error),
    /// The other side did not take or send anything in time.
    #[error("nothing for {} s while {doing}", after.as_secs())]
    Silent {
        /// The interrupted activity.
        doing: &'static str,
        /// The time waited.
        after: Duration,
    },
}

impl From<LinesCodecError> for LinkError {
    fn from(error: LinesCodecError) -> Self {
        match error {
            LinesCodecError::Io(error) => Self::Io(error),
            error @ LinesCodecError::MaxLineLengthExceeded => Self::Line(error),
        }
    }
}

/// One side of a connection.
#[derive(Debug)]
pub struct Link {
    lines: Framed<TcpStream, LinesCodec>,
}

impl Link {
    /// Connects.
    ///
    /// # Errors
    /// A network error, or [`LinkError::Silent`] after 2 s.
    ///
    /// # Cancel safety
    /// Safe: a half-open connection is closed.
    pub async fn connect(address: SocketAddr) -> Result<Self, LinkError> {
        let stream = timeout(CONNECT_TIMEOUT, TcpStream::connect(address))
            .await
            .map_err(|_| LinkError::Silent { doing: "connecting", after: CONNECT_TIMEOUT })??;
        Self::new(stream)
    }

    /// Takes an accepted connection over.
    ///
    /// # Errors
    /// A network error.
    pub fn new(stream: TcpStream) -> Result<Self, LinkError> {
        stream.set_nodelay(true)?;
        Ok(Self { lines: Framed::new(stream, LinesCodec::new_with_max_length(LINE_MAX)) })
    }

    /// Sends one message.
    ///
    /// # Errors
    /// A network error, or [`LinkError::Silent`] after 2 s.
    ///
    /// # Cancel safety
    /// Not safe: a part of the message may have been sent, so drop the link.
    pub async fn send(&mut self, message: &impl Serialize) -> Result<(), LinkError> {
        let line = serde_json::to_string(message)?;
        timeout(SEND_TIMEOUT, self.lines.send(line))
            .await
            .map_err(|_| LinkError::Silent { doing: "sending", after: SEND_TIMEOUT })?
            .map_err(LinkError::from)
    }

    /// Receives one message; `None` when the other side has closed.
    ///
    /// # Errors
    /// A network error, a line that is no message, or [`LinkError::Silent`] after `patience`.
    ///
    /// # Cancel safety
    /// Safe: no message is lost.
    pub async fn receive<T: DeserializeOwned>(&mut self, patience: Duration) -> Result<Option<T>, LinkError> {
        let line = timeout(patience, self.lines.next())
            .await
            .map_err(|_| LinkError::Silent { doing: "receiving", after: patience })?;
        match line {
            Some(line) => Ok(Some(serde_json::from_str(&line?)?)),
            None => Ok(None),
        }
    }
}
