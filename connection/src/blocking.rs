//! A connection for reads that block on the server. Never shared: whatever is sent behind a blocked read waits for
//! it.

use std::fmt;
use std::time::Duration;

use redis::{Cmd, Value};
use tokio::time::{Instant, sleep_until, timeout_at};

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
    /// When the pause after the last attempt to connect is over.
    next_attempt: Option<Instant>,
}

impl Blocking {
    pub(crate) fn new(connector: Connector) -> Self {
        let backoff = Backoff::new(FIRST_PAUSE, LONGEST_PAUSE);
        Self { connector, link: None, backoff, next_attempt: None }
    }

    /// Sends a command that the server may hold for `block`, and returns its reply. The deadline is the client's
    /// response timeout, connecting included, and `block` on top of it.
    ///
    /// # Errors
    /// Every class of [`Error`]. At most one attempt to connect is made; the pause that a failed one costs is waited
    /// for by the next calls, so a caller may simply loop. [`Error::OtherServer`] alone comes without a pause: the
    /// connection is kept, and asked about again by the next call.
    ///
    /// # Cancel safety
    /// Safe for the connection, which is closed. A command with an effect (`XREADGROUP`) may have had it.
    pub async fn command(&mut self, command: &Cmd, block: Duration) -> Result<Value, Error> {
        let connected_by = Instant::now() + self.connector.settings.response_timeout;
        let link = match self.link.take() {
            Some(link) if !link.is_closed() => link,
            _ => self.connect(connected_by).await?,
        };
        if let Err(error) = self.connector.admit(&link) {
            self.link = Some(link);
            return Err(error);
        }
        let allowed = self.connector.settings.response_timeout + block;
        let result = link.send_by(command, connected_by + block, allowed).await;
        match &result {
            Err(error) if error.ends_connection() => {}
            _ => {
                self.backoff.reset();
                self.next_attempt = None;
                self.link = Some(link);
            }
        }
        result
    }

    /// Closes the connection; the next read opens another.
    pub fn close(&mut self) {
        self.link = None;
    }

    async fn connect(&mut self, by: Instant) -> Result<Link, Error> {
        let made = async {
            if let Some(at) = self.next_attempt {
                sleep_until(at).await;
            }
            // Taken back by the first reply.
            self.backoff.fail();
            self.next_attempt = Some(Instant::now() + self.backoff.pause());
            self.connector.connect().await
        };
        timeout_at(by, made).await.unwrap_or_else(|_| Err(Error::connect_timed_out()))
    }
}

impl fmt::Debug for Blocking {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Blocking").field("connected", &self.link.is_some()).finish_non_exhaustive()
    }
}
