//! A pub/sub connection that subscribes again by itself and says when it did.

use std::fmt;
use std::time::Duration;

use bytes::Bytes;
use futures::StreamExt;
use redis::aio::{PubSubSink, PubSubStream};
use redis::{Msg, RedisError};
use tokio::time::{Instant, sleep, sleep_until, timeout};

use crate::link::Connector;
use crate::{Backoff, Error};

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

/// A subscription to some channels. It ends when it is dropped.
pub struct Subscriber {
    connector: Connector,
    channels: Vec<String>,
    backoff: Backoff,
    outage_said: bool,
    open: Option<Open>,
}

struct Open {
    sink: PubSubSink,
    messages: PubSubStream,
    heard: Instant,
}

enum Heard {
    Message(Msg),
    Pong,
}

impl Subscriber {
    pub(crate) fn new(connector: Connector, channels: Vec<String>) -> Self {
        let backoff = Backoff::new(FIRST_PAUSE, LONGEST_PAUSE);
        Self { connector, channels, backoff, outage_said: false, open: None }
    }

    /// Waits for the next event, for as long as it takes. Reconnects as needed, with growing pauses.
    ///
    /// # Cancel safety
    /// Safe: an event that was not returned comes with the next call.
    pub async fn next(&mut self) -> Event {
        loop {
            let error = match &mut self.open {
                Some(open) => match open.next(self.connector.response_timeout).await {
                    Ok(Heard::Message(message)) => {
                        self.backoff.reset();
                        return Event::Message(Message {
                            channel: message.get_channel_name().into(),
                            payload: Bytes::copy_from_slice(message.get_payload_bytes()),
                        });
                    }
                    Ok(Heard::Pong) => {
                        self.backoff.reset();
                        continue;
                    }
                    Err(error) => error,
                },
                None => match self.subscribe().await {
                    Ok(open) => {
                        self.open = Some(open);
                        self.outage_said = false;
                        return Event::Subscribed;
                    }
                    Err(error) => error,
                },
            };
            self.open = None;
            if !self.outage_said {
                self.outage_said = true;
                return Event::Disconnected(error);
            }
        }
    }

    async fn subscribe(&mut self) -> Result<Open, Error> {
        let pause = self.backoff.pause();
        if !pause.is_zero() {
            sleep(pause).await;
        }
        // Taken back by the first message or pong.
        self.backoff.fail();
        let (mut sink, messages) = self.connector.connect_pubsub().await?.split();
        match timeout(self.connector.response_timeout, sink.subscribe(&self.channels)).await {
            Ok(Ok(())) => Ok(Open { sink, messages, heard: Instant::now() }),
            Ok(Err(error)) => Err(Error::connecting(error)),
            Err(_) => Err(Error::connect_timed_out()),
        }
    }
}

impl Open {
    async fn next(&mut self, ping_timeout: Duration) -> Result<Heard, Error> {
        let heard = tokio::select! {
            biased;
            message = self.messages.next() => Heard::Message(message.ok_or_else(|| {
                Error::Lost(RedisError::from(std::io::Error::from(std::io::ErrorKind::BrokenPipe)))
            })?),
            () = sleep_until(self.heard + PING_AFTER) => {
                match timeout(ping_timeout, self.sink.ping::<redis::Value>()).await {
                    Ok(Ok(_)) => Heard::Pong,
                    Ok(Err(error)) => return Err(Error::in_flight(error)),
                    Err(_) => return Err(Error::TimedOut(ping_timeout)),
                }
            }
        };
        self.heard = Instant::now();
        Ok(heard)
    }
}

impl fmt::Debug for Subscriber {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Subscriber")
            .field("channels", &self.channels)
            .field("subscribed", &self.open.is_some())
            .finish_non_exhaustive()
    }
}
