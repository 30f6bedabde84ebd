//! A connection for reads that block on the server. Never shared: whatever is sent behind a blocked read waits for
//! it.

use std::fmt;
use std::time::Duration;

use redis::{Cmd, Value};
use tokio::time::{Instant, sleep};

use crate::link::{Connector, Link};
use crate::{Backoff, Error};

const FIRST_PAUSE: Duration = Duration::from_millis(20);
const LONGEST_PAUSE: Duration = Duration::from_millis(500);

/// A connection for one blocking read at a time.
///
/// A read that is dropped, fails or is late closes its connection, so that the next one never waits behind it and
/// the server frees what it held for it.
pub struct Blocking {
    connector: Connector,
    link: Option<Link>,
    backoff: Backoff,
}

impl Blocking {
    pub(crate) fn new(connector: Connector) -> Self {
        Self { connector, link: None, backoff: Backoff::new(FIRST_PAUSE, LONGEST_PAUSE) }
    }

    /// Sends a command that the server may hold for `block`, and returns its reply. The deadline is `block` plus the
    /// client's response timeout; connecting is part of it.
    ///
    /// # Errors
    /// Every class of [`Error`]. One attempt to connect is made; the pause that a failed one costs is waited for by
    /// the next call, so a caller may simply loop.
    ///
    /// # Cancel safety
    /// Safe for the connection, which is closed. A command with an effect (`XREADGROUP`) may have had it.
    pub async fn command(&mut self, command: &Cmd, block: Duration) -> Result<Value, Error> {
        let link = match self.link.take() {
            Some(link) if !link.is_closed() => link,
            _ => self.connect().await?,
        };
        self.connector.admit(&link)?;
        let allowed = block + self.connector.response_timeout;
        let result = link.send_by(command, Instant::now() + allowed, allowed).await;
        match &result {
            Err(error) if error.ends_connection() => {}
            _ => {
                self.backoff.reset();
                self.link = Some(link);
            }
        }
        result
    }

    /// Closes the connection; the next read opens another.
    pub fn close(&mut self) {
        self.link = None;
    }

    async fn connect(&mut self) -> Result<Link, Error> {
        let pause = self.backoff.pause();
        if !pause.is_zero() {
            sleep(pause).await;
        }
        // Taken back by the first reply.
        self.backoff.fail();
        self.connector.connect().await
    }
}

impl fmt::Debug for Blocking {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Blocking").field("connected", &self.link.is_some()).finish_non_exhaustive()
    }
}
