//! A subscription that reconnects and says when it did.
//!
//! It is of the sharded kind (`SSUBSCRIBE`), which a cluster delivers to the nodes of the channel's slot, and which
//! every other server from Redis 7 on knows as well. It has no task. If nobody polls for events, the sockets fill until
//! the server closes the connection by its `client-output-buffer-limit`. So a slow reader costs bounded memory, and
//! learns of the gap.

use std::fmt;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures::FutureExt;
use futures::future::BoxFuture;
use redis::{PushKind, RedisError, Value};
use tokio::task::yield_now;
use tokio::time::{Instant, timeout, timeout_at};

use crate::deadline::later;
use crate::link::Target;
use crate::origin::Origin;
use crate::role::{Protocol, Role, hello};
use crate::topology::{AT_ONCE, REDIRECTS, Redirect};
use crate::wire::Wire;
use crate::{Backoff, Error, slot};

const FIRST_PAUSE: Duration = Duration::from_millis(20);
const LONGEST_PAUSE: Duration = Duration::from_secs(1);
/// The interval at which the server is asked for its role. It reveals a dead link, and a master that became a replica:
/// a replica passes on its master's messages, and is silent about those it missed.
const ASK_EVERY: Duration = Duration::from_secs(5);

/// A message of a channel.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Message {
    /// The channel's name.
    pub channel: Box<str>,
    /// The published bytes.
    pub payload: Bytes,
}

/// An event of a [`Subscriber`].
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Event {
    /// All channels are subscribed, for the first time or again. Earlier messages may be lost: read the state that the
    /// messages are about.
    Subscribed,
    /// A message.
    Message(Message),
    /// The subscription was lost or could not be made. This comes once for each outage; attempts go on.
    ///
    /// It comes again when the reason becomes one that somebody must mend (not [`Error::is_transient`]).
    Disconnected(Error),
}

/// A subscription to some channels, whose publishers use `SPUBLISH`. It ends when it is dropped.
pub struct Subscriber {
    origin: Origin,
    channels: Arc<[String]>,
    backoff: Backoff,
    outage: Outage,
    state: State,
}

/// The last report about the present outage.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Outage {
    None,
    Passing,
    /// Somebody must mend it.
    Lasting,
}

enum State {
    Idle,
    /// Kept across calls, so that a caller that often looks elsewhere does not prevent it.
    Subscribing(BoxFuture<'static, Result<Open, Error>>),
    Open(Open),
}

struct Open {
    wire: Wire,
    role: Role,
    patience: Duration,
    heard: Instant,
    /// Since when the server has owed an answer.
    asked: Option<Instant>,
    ask_at: Instant,
}

enum Heard {
    Message(Message),
    Life,
}

impl Subscriber {
    pub(crate) fn new(origin: Origin, channels: Arc<[String]>) -> Self {
        let backoff = Backoff::new(FIRST_PAUSE, LONGEST_PAUSE);
        Self { origin, channels, backoff, outage: Outage::None, state: State::Idle }
    }

    /// Waits for the next event, for as long as it takes. Reconnects as needed, with growing pauses.
    ///
    /// # Cancel safety
    /// Safe: an event that was not returned comes with the next call.
    pub async fn next(&mut self) -> Event {
        loop {
            let error = match &mut self.state {
                State::Idle => {
                    self.state = State::Subscribing(self.subscribe().boxed());
                    // The first message or answer resets this.
                    self.backoff.fail();
                    continue;
                }
                State::Subscribing(attempt) => match attempt.await {
                    Ok(open) => {
                        self.state = State::Open(open);
                        self.outage = Outage::None;
                        return Event::Subscribed;
                    }
                    Err(error) => error,
                },
                State::Open(open) => match open.next().await {
                    Ok(heard) => {
                        self.backoff.reset();
                        match heard {
                            Heard::Message(message) => return Event::Message(message),
                            Heard::Life => continue,
                        }
                    }
                    Err(error) => error,
                },
            };
            self.state = State::Idle;
            let outage = if error.is_transient() { Outage::Passing } else { Outage::Lasting };
            let news =
                self.outage == Outage::None || (self.outage, outage) == (Outage::Passing, Outage::Lasting);
            if news {
                self.outage = outage;
                return Event::Disconnected(error);
            }
        }
    }

    /// One attempt, after its pause.
    fn subscribe(&self) -> impl Future<Output = Result<Open, Error>> + Send + use<> {
        let (origin, channels, backoff) = (self.origin.clone(), self.channels.clone(), self.backoff.clone());
        async move {
            backoff.wait().await;
            let slot = common_slot(&channels)?;
            let (mut redirects, mut pauses) = (0, Backoff::new(FIRST_PAUSE, LONGEST_PAUSE));
            loop {
                let started = Instant::now();
                let target = origin.target(slot).await?;
                let error = match open(&origin, target.clone(), &channels).await {
                    Ok(open) => return Ok(open),
                    Err(error) => error,
                };
                match origin.redirect(&target, &error) {
                    Some(Redirect::Moved { .. }) if redirects < REDIRECTS => {
                        redirects += 1;
                        if redirects > AT_ONCE {
                            pauses.fail();
                            pauses.wait().await;
                        }
                    }
                    _ => {
                        origin.learn(started).await;
                        return Err(error);
                    }
                }
            }
        }
    }
}

/// The slot of all channels. The rule holds for a single server too, so that a program also works in a cluster.
fn common_slot(channels: &[String]) -> Result<Option<u16>, Error> {
    if channels.is_empty() {
        return Err(Error::Config { what: "a subscription needs a channel", source: None });
    }
    let first = channels.first().map(slot);
    if channels.iter().any(|channel| Some(slot(channel)) != first) {
        return Err(Error::Config {
            what: "the channels of one subscription must be in one slot of a cluster (the same {hash tag})",
            source: None,
        });
    }
    Ok(first)
}

async fn open(origin: &Origin, target: Target, channels: &[String]) -> Result<Open, Error> {
    let patience = origin.access.settings.response_timeout;
    let (mut wire, role) = origin.connector(target).connect_wire().await?;
    if origin.is_cluster() && role != Role::Master {
        return Err(Error::unreachable("the node is not a master (any more)"));
    }
    match timeout(patience, confirm(&mut wire, channels)).await {
        Ok(Ok(())) => Ok(Open::new(wire, role, patience)),
        Ok(Err(error)) => Err(error.during_setup()),
        Err(_) => Err(Error::connect_timed_out()),
    }
}

/// Subscribes to the channels and waits until the server has confirmed each.
async fn confirm(wire: &mut Wire, channels: &[String]) -> Result<(), Error> {
    wire.queue(redis::cmd("SSUBSCRIBE").arg(channels));
    for _ in channels {
        match Push::read(Error::checked(wire.next().await?)?) {
            Push::Confirmation => {}
            _ => return Err(Error::Reply { expected: "the confirmation of a subscription" }),
        }
    }
    Ok(())
}

impl Open {
    fn new(wire: Wire, role: Role, patience: Duration) -> Self {
        let now = Instant::now();
        Self { wire, role, patience, heard: now, asked: None, ask_at: now + ASK_EVERY }
    }

    async fn next(&mut self) -> Result<Heard, Error> {
        loop {
            let now = Instant::now();
            if self.asked.is_none() && now >= self.ask_at {
                self.asked = Some(now);
                self.wire.queue(&hello(Protocol::Three));
            }
            let until = match self.asked {
                Some(asked) => later(asked.max(self.heard), self.patience),
                None => self.ask_at,
            };
            let value = match timeout_at(until, self.wire.next()).await {
                Ok(value) => value,
                Err(_) if self.asked.is_none() => continue,
                // A caller that returns late may find the answer in the socket, of which the runtime must hear first.
                Err(_) => {
                    yield_now().await;
                    self.wire.next().now_or_never().ok_or(Error::TimedOut(self.patience))?
                }
            };
            let push = Push::read(Error::checked(value?)?);
            self.heard = Instant::now();
            return match push {
                Push::Message(message) => Ok(Heard::Message(message)),
                Push::Role(role) if role == self.role => {
                    self.asked = None;
                    self.ask_at = self.heard + ASK_EVERY;
                    Ok(Heard::Life)
                }
                Push::Role(_) => Err(ended("the server was promoted or demoted")),
                Push::Moved => Err(ended("the slot of the channels moved to another node")),
                Push::Confirmation | Push::Other => Ok(Heard::Life),
            };
        }
    }
}

fn ended(why: &'static str) -> Error {
    Error::Lost(RedisError::from(io::Error::new(io::ErrorKind::ConnectionReset, why)))
}

/// A message from the server to a subscriber.
#[derive(Debug, PartialEq)]
enum Push {
    Message(Message),
    Confirmation,
    /// The server ended the subscription: another node owns the channels.
    Moved,
    /// The answer to the question for the role.
    Role(Role),
    Other,
}

impl Push {
    fn read(value: Value) -> Self {
        let (kind, data) = match value {
            Value::Push { kind, data } => (kind, data),
            answer => return Role::read(&answer).map_or(Self::Other, Self::Role),
        };
        let mut words = data.into_iter().map(|value| match value {
            Value::BulkString(bytes) => Some(bytes),
            _ => None,
        });
        match (kind, words.next().flatten(), words.next().flatten()) {
            (PushKind::SMessage, Some(channel), Some(payload)) => Self::Message(Message {
                channel: String::from_utf8_lossy(&channel).into(),
                payload: Bytes::from(payload),
            }),
            (PushKind::SSubscribe, Some(_), _) => Self::Confirmation,
            (PushKind::SUnsubscribe, ..) => Self::Moved,
            _ => Self::Other,
        }
    }
}

impl fmt::Debug for Subscriber {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Subscriber")
            .field("channels", &self.channels)
            .field("subscribed", &matches!(self.state, State::Open(_)))
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream, duplex};
    use tokio::time::sleep;

    const MASTER: &[u8] = b"%1\r\n$4\r\nrole\r\n$6\r\nmaster\r\n";
    const REPLICA: &[u8] = b"%1\r\n$4\r\nrole\r\n$7\r\nreplica\r\n";
    const MESSAGE: &[u8] = b">3\r\n$8\r\nsmessage\r\n$1\r\na\r\n$1\r\nm\r\n";

    fn open(patience: Duration) -> (Open, DuplexStream) {
        let (ours, theirs) = duplex(64 * 1024);
        (Open::new(Wire::new(Box::new(ours)), Role::Master, patience), theirs)
    }

    async fn question(server: &mut DuplexStream) {
        let mut question = vec![0; hello(Protocol::Three).get_packed_command().len()];
        server.read_exact(&mut question).await.unwrap();
        assert_eq!(question, hello(Protocol::Three).get_packed_command());
    }

    #[tokio::test(start_paused = true)]
    async fn the_longest_patience_does_not_panic() {
        let (mut open, mut server) = open(Duration::MAX);
        let answer = async {
            question(&mut server).await;
            server.write_all(MASTER).await.unwrap();
        };
        let (heard, ()) = tokio::join!(open.next(), answer);
        assert!(matches!(heard, Ok(Heard::Life)));
    }

    #[tokio::test(start_paused = true)]
    async fn a_busy_server_is_asked_too_and_left_when_it_is_demoted() {
        let (mut open, server) = open(Duration::from_secs(2));
        let (mut from, mut to) = tokio::io::split(server);
        let messages = async {
            loop {
                to.write_all(MESSAGE).await.unwrap();
                sleep(Duration::from_millis(100)).await;
                let mut question = [0; 1024];
                if matches!(from.read(&mut question).now_or_never(), Some(Ok(1..))) {
                    to.write_all(REPLICA).await.unwrap();
                    return std::future::pending::<()>().await;
                }
            }
        };
        let start = Instant::now();
        let reads = async {
            loop {
                match open.next().await {
                    Ok(Heard::Message(message)) => assert_eq!(&message.payload[..], b"m"),
                    Ok(Heard::Life) => {}
                    Err(error) => return error,
                }
            }
        };
        tokio::select! {
            error = reads => assert!(matches!(error, Error::Lost(_)), "{error:?}"),
            () = messages => {}
        }
        assert!(start.elapsed() <= 2 * ASK_EVERY, "{:?}", start.elapsed());
    }

    #[tokio::test(start_paused = true)]
    async fn a_server_that_owes_an_answer_and_says_nothing_is_left() {
        let (mut open, mut server) = open(Duration::from_secs(2));
        let start = Instant::now();
        let (heard, ()) = tokio::join!(open.next(), question(&mut server));
        assert!(matches!(heard, Err(Error::TimedOut(_))));
        assert_eq!(start.elapsed(), ASK_EVERY + Duration::from_secs(2));
    }
}
