//! A connection for reads that block on the server. It is never shared: any command behind a blocked read would wait
//! for it.

use std::fmt;
use std::time::Duration;

use redis::{Cmd, Value};
use tokio::time::{Instant, sleep_until, timeout_at};

use crate::deadline::later;
use crate::link::{Link, Target};
use crate::origin::Origin;
use crate::topology::{AT_ONCE, REDIRECTS, Redirect};
use crate::{Backoff, Error, routing};

const FIRST_PAUSE: Duration = Duration::from_millis(20);
const LONGEST_PAUSE: Duration = Duration::from_millis(500);

/// A connection for one blocking read at a time.
///
/// A read that is dropped, fails or is late closes its connection. So the next read never waits behind it, and the
/// server frees what it held. In a cluster the connection leads to the owner of the read's keys, and is made anew for a
/// read with another owner.
pub struct Blocking {
    origin: Origin,
    link: Option<(Target, Link)>,
    backoff: Backoff,
    /// When the pause after the last attempt to connect ends.
    next_attempt: Option<Instant>,
    /// When a read got no answer from its server, which may no longer be the owner.
    unanswered: Option<Instant>,
}

impl Blocking {
    pub(crate) fn new(origin: Origin) -> Self {
        let backoff = Backoff::new(FIRST_PAUSE, LONGEST_PAUSE);
        Self { origin, link: None, backoff, next_attempt: None, unanswered: None }
    }

    /// Sends a command that the server may hold for `block`, and returns its reply. The deadline is the client's
    /// response timeout, connecting included, plus `block`. If the keys move to another cluster node meanwhile, the
    /// read begins anew there, and so does `block`.
    ///
    /// # Errors
    /// Every class of [`Error`]. A call makes at most one attempt to connect to a server. The next calls wait for the
    /// pause after a failed attempt, so a caller may simply loop. Outside of a cluster, [`Error::OtherServer`] comes
    /// without a pause: the connection is kept, and the next call asks about it again.
    ///
    /// # Cancel safety
    /// Safe for the connection, which is closed. A command with an effect (`XREADGROUP`) may have had it.
    pub async fn command(&mut self, command: &Cmd, block: Duration) -> Result<Value, Error> {
        let allowed = self.origin.access.settings.response_timeout;
        let slot = if self.origin.is_cluster() { routing::slot_of(command)? } else { None };
        let mut by = later(Instant::now(), allowed);
        let (mut redirects, mut pauses) = (0, Backoff::new(FIRST_PAUSE, LONGEST_PAUSE));
        let mut ask = None;
        loop {
            let asking = ask.is_some();
            let (target, link) = self.link(slot, ask.take(), by).await?;
            if let Err(error) = self.origin.connector(target.clone()).admit(&link, by, allowed).await {
                if matches!(error, Error::OtherServer { .. }) && !self.origin.is_cluster() {
                    self.link = Some((target, link));
                } else {
                    // Nothing is sent, so a former owner cannot answer with a redirect.
                    self.unanswered = Some(Instant::now());
                }
                return Err(error);
            }
            let sent = Instant::now();
            let result = async {
                if asking {
                    link.send_by(&redis::cmd("ASKING"), by, allowed).await?;
                }
                link.send_by(command, later(by, block), allowed.saturating_add(block)).await
            };
            let error = match result.await {
                Err(error) => error,
                Ok(value) => {
                    self.keep(target, link);
                    return Ok(value);
                }
            };
            match self.origin.redirect(&target, &error) {
                Some(Redirect::Moved { .. }) if redirects < REDIRECTS => {}
                Some(Redirect::Ask(owner)) if redirects < REDIRECTS => ask = Some(Target::Server(owner)),
                Some(_) => {
                    drop(link);
                    let _ = timeout_at(by, self.origin.learn(sent)).await;
                    return Err(error);
                }
                None if error.ends_connection() => {
                    self.unanswered = Some(sent);
                    return Err(error);
                }
                None => {
                    self.keep(target, link);
                    return Err(error);
                }
            }
            redirects += 1;
            if redirects > AT_ONCE {
                pauses.fail();
                if timeout_at(by, pauses.wait()).await.is_err() {
                    return Err(error);
                }
            }
            // The time that the read has waited at the former owner does not count at the new one.
            by += sent.elapsed();
        }
    }

    /// Closes the connection; the next read opens another.
    pub fn close(&mut self) {
        self.link = None;
    }

    fn keep(&mut self, target: Target, link: Link) {
        self.backoff.reset();
        self.next_attempt = None;
        self.link = Some((target, link));
    }

    /// The link to the named server, or to the owner of the slot, with at most one attempt to connect.
    async fn link(
        &mut self,
        slot: Option<u16>,
        named: Option<Target>,
        by: Instant,
    ) -> Result<(Target, Link), Error> {
        let mut known = named.or_else(|| self.origin.known(slot));
        match (self.link.take(), &known) {
            (Some((at, link)), Some(target)) if at == *target && !link.is_closed() => return Ok((at, link)),
            // A change of the server is no failure, and needs no pause.
            (Some((at, _)), Some(target)) if at != *target => self.next_attempt = None,
            _ => {}
        }
        let made = async {
            if let Some(at) = self.next_attempt {
                sleep_until(at).await;
            }
            // The first reply resets this.
            self.backoff.fail();
            self.next_attempt = Some(Instant::now() + self.backoff.pause());
            if let Some(since) = self.unanswered.take() {
                self.origin.learn(since).await;
                known = self.origin.known(slot);
            }
            let target = match known {
                Some(target) => target,
                None => self.origin.target(slot).await?,
            };
            let started = Instant::now();
            match self.origin.connector(target.clone()).connect().await {
                Ok(link) => Ok((target, link)),
                Err(error) => {
                    self.origin.learn(started).await;
                    Err(error)
                }
            }
        };
        timeout_at(by, made).await.unwrap_or_else(|_| Err(Error::connect_timed_out()))
    }
}

impl fmt::Debug for Blocking {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Blocking").field("connected", &self.link.is_some()).finish_non_exhaustive()
    }
}
