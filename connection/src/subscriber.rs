//! A subscription that makes itself anew and says when it did.
//!
//! It is of the sharded kind (`SSUBSCRIBE`), which a cluster delivers to the nodes that own the channel's slot and
//! which every other server from Redis 7 on knows as well. It has no task: who does not ask for events lets the
//! sockets fill, until the server closes the connection by its `client-output-buffer-limit`. So the memory that a
//! slow reader costs is bounded, and it is told about the gap.

use std::collections::VecDeque;
use std::fmt;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures::FutureExt;
use futures::future::BoxFuture;
use redis::{RedisError, Value};
use tokio::task::yield_now;
use tokio::time::{Instant, sleep, timeout, timeout_at};

use crate::link::Target;
use crate::origin::Origin;
use crate::topology::{REDIRECTS, Redirect};
use crate::wire::Wire;
use crate::{Backoff, Error, slot};

const FIRST_PAUSE: Duration = Duration::from_millis(20);
const LONGEST_PAUSE: Duration = Duration::from_secs(1);
/// A connection that was silent for this long is asked whether it still lives.
const PING_AFTER: Duration = Duration::from_secs(5);

/// A message of a channel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Message {
    /// The channel's name.
    pub channel: Box<str>,
    /// What was published.
    pub payload: Bytes,
}

/// What a [`Subscriber`] has to say.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Event {
    /// All channels are subscribed, for the first time or again. What was published before it is lost: read the
    /// state that the messages are about.
    Subscribed,
    /// A message.
    Message(Message),
    /// The subscription was lost or could not be made; said once for each outage. Attempts go on.
    Disconnected(Error),
}

/// A subscription to some channels, to which others publish with `SPUBLISH`. It ends when it is dropped.
pub struct Subscriber {
    origin: Origin,
    channels: Arc<[String]>,
    backoff: Backoff,
    outage_said: bool,
    state: State,
}

enum State {
    Idle,
    /// Kept over calls, so that a caller that often looks elsewhere does not keep it from being made.
    Subscribing(BoxFuture<'static, Result<Open, Error>>),
    Open(Open),
}

struct Open {
    wire: Wire,
    ping_timeout: Duration,
    heard: Instant,
    pinged: Option<Instant>,
}

enum Heard {
    Message(Message),
    Life,
}

impl Subscriber {
    pub(crate) fn new(origin: Origin, channels: Arc<[String]>) -> Self {
        let backoff = Backoff::new(FIRST_PAUSE, LONGEST_PAUSE);
        Self { origin, channels, backoff, outage_said: false, state: State::Idle }
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
                    // Taken back by the first message or answer to a ping.
                    self.backoff.fail();
                    continue;
                }
                State::Subscribing(attempt) => match attempt.await {
                    Ok(open) => {
                        self.state = State::Open(open);
                        self.outage_said = false;
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
            if !self.outage_said {
                self.outage_said = true;
                return Event::Disconnected(error);
            }
        }
    }

    /// One attempt, after its pause.
    fn subscribe(&self) -> impl Future<Output = Result<Open, Error>> + Send + use<> {
        let (origin, channels, pause) = (self.origin.clone(), self.channels.clone(), self.backoff.pause());
        async move {
            if !pause.is_zero() {
                sleep(pause).await;
            }
            let slot = common_slot(&channels)?;
            let mut redirects = 0;
            loop {
                let started = Instant::now();
                let target = origin.target(slot).await?;
                let error = match open(&origin, target.clone(), &channels).await {
                    Ok(open) => return Ok(open),
                    Err(error) => error,
                };
                match origin.redirect(&target, &error) {
                    Some(Redirect::Moved { .. }) if redirects < REDIRECTS => redirects += 1,
                    _ => {
                        origin.learn(started).await;
                        return Err(error);
                    }
                }
            }
        }
    }
}

/// The slot of all channels; the same rule for one server, so that a program also works in a cluster.
fn common_slot(channels: &[String]) -> Result<Option<u16>, Error> {
    let first = channels.first().map(slot);
    if channels.iter().any(|channel| Some(slot(channel)) != first) {
        return Err(Error::Config {
            what: "the channels of one subscription have to be in one slot of a cluster (the same {hash tag})",
            source: None,
        });
    }
    Ok(first)
}

async fn open(origin: &Origin, target: Target, channels: &[String]) -> Result<Open, Error> {
    let ping_timeout = origin.access.settings.response_timeout;
    let mut wire = origin.connector(target).connect_wire().await?;
    match timeout(ping_timeout, confirm(&mut wire, channels)).await {
        Ok(Ok(())) => Ok(Open { wire, ping_timeout, heard: Instant::now(), pinged: None }),
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
    async fn next(&mut self) -> Result<Heard, Error> {
        loop {
            let until = match self.pinged {
                Some(pinged) => pinged + self.ping_timeout,
                None => self.heard + PING_AFTER,
            };
            let value = match timeout_at(until, self.wire.next()).await {
                Ok(value) => value,
                Err(_) if self.pinged.is_none() => {
                    self.pinged = Some(Instant::now());
                    self.wire.queue(&redis::cmd("PING"));
                    continue;
                }
                // Who comes back late may find the answer in the socket, of which the runtime has to hear first.
                Err(_) => {
                    yield_now().await;
                    self.wire.next().now_or_never().ok_or(Error::TimedOut(self.ping_timeout))?
                }
            };
            let push = Push::read(Error::checked(value?)?);
            (self.heard, self.pinged) = (Instant::now(), None);
            return match push {
                Push::Message(message) => Ok(Heard::Message(message)),
                Push::Confirmation | Push::Other => Ok(Heard::Life),
                Push::Moved => {
                    let gone = io::Error::new(
                        io::ErrorKind::ConnectionReset,
                        "the slot of the channels moved to another node",
                    );
                    Err(Error::Lost(RedisError::from(gone)))
                }
            };
        }
    }
}

/// What a server sends to a subscriber.
#[derive(Debug, PartialEq)]
enum Push {
    Message(Message),
    Confirmation,
    /// The server ended the subscription: the channels are another node's.
    Moved,
    /// An answer to a ping.
    Other,
}

impl Push {
    fn read(value: Value) -> Self {
        let Value::Array(values) = value else { return Self::Other };
        let mut values = VecDeque::from(values);
        let mut word = || match values.pop_front() {
            Some(Value::BulkString(bytes)) => Some(bytes),
            _ => None,
        };
        match (word().as_deref(), word(), word()) {
            (Some(b"smessage"), Some(channel), Some(payload)) => Self::Message(Message {
                channel: String::from_utf8_lossy(&channel).into(),
                payload: Bytes::from(payload),
            }),
            (Some(b"ssubscribe"), Some(_), _) => Self::Confirmation,
            (Some(b"sunsubscribe"), ..) => Self::Moved,
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
