//! A tenant's subscription to the feed for as long as its job runs. It keeps one session open and sends the heartbeats.
//! When the connection breaks, it opens a new session under the same token.

use std::net::SocketAddr;
use std::time::Duration;

use tenure_pool::Job;
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinHandle;
use tokio::time::{MissedTickBehavior, interval, sleep, timeout};
use tokio_util::sync::CancellationToken;
use tracing::{debug, warn};

use super::attendance::Attendance;
use super::session::{Session, SessionError};
use super::wire::Hello;

const BEAT_EVERY: Duration = Duration::from_millis(200);
const RECONNECT_PAUSE: Duration = Duration::from_millis(100);
/// The longest time for the server to confirm the end; after it, the connection just closes.
const FAREWELL: Duration = Duration::from_secs(2);
/// Notifications that wait for the session; the pool delivers one at a time.
const NOTES: usize = 1;

/// A running subscription. It ends with its job: on a stop, a move, and the loss of the worker's lease.
#[derive(Debug)]
pub struct Subscription {
    end: CancellationToken,
    notes: mpsc::Sender<Note>,
    task: JoinHandle<()>,
}

#[derive(Debug)]
struct Note {
    number: u64,
    sent: oneshot::Sender<()>,
}

impl Subscription {
    /// Connects as the tenant and keeps the connection. The first heartbeat has been sent when this returns. The
    /// attendance ends with the subscription.
    ///
    /// # Errors
    /// The reason why the server did not accept the tenant. Nothing runs then.
    ///
    /// # Cancel safety
    /// The connection is closed when the future is dropped.
    pub async fn open(
        attendance: Option<Attendance>,
        feed: SocketAddr,
        hello: Hello,
        job: &Job,
    ) -> Result<Self, SessionError> {
        let mut session = Session::open(feed, hello.clone()).await?;
        session.beat().await?;
        let end = job.cancellation().child_token();
        let (notes, waiting) = mpsc::channel(NOTES);
        let job = job.clone();
        let keeper = Keeper { feed, hello, job, end: end.clone(), waiting, _attendance: attendance };
        Ok(Self { end, notes, task: tokio::spawn(keeper.run(session)) })
    }

    /// A sender of notifications.
    pub fn notifier(&self) -> Notifier {
        Notifier(self.notes.clone())
    }

    /// Ends the subscription. The server has seen the end when this returns.
    ///
    /// # Cancel safety
    /// The subscription ends all the same when the future is dropped.
    pub async fn end(self) {
        self.end.cancel();
        if let Err(error) = self.task.await {
            warn!(%error, "a subscription did not end properly");
        }
    }

    /// Breaks the connection off, as a dying process does.
    pub fn cut(&self) {
        self.task.abort();
    }
}

/// Tells the server of notifications, through the subscription's session.
#[derive(Clone, Debug)]
pub struct Notifier(mpsc::Sender<Note>);

impl Notifier {
    /// Tells the server that a notification has arrived, and returns when the message has been sent.
    ///
    /// # Errors
    /// The subscription has ended; the server may not know of the notification.
    ///
    /// # Cancel safety
    /// The server may or may not be told when the future is dropped.
    pub async fn note(&self, number: u64) -> Result<(), SubscriptionEnded> {
        let (sent, told) = oneshot::channel();
        self.0.send(Note { number, sent }).await.map_err(|_| SubscriptionEnded)?;
        told.await.map_err(|_| SubscriptionEnded)
    }
}

/// The subscription has ended; the notification may not have been sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the subscription has ended, the feed server may not know")]
pub struct SubscriptionEnded;

/// The task behind a subscription.
struct Keeper {
    feed: SocketAddr,
    hello: Hello,
    job: Job,
    end: CancellationToken,
    waiting: mpsc::Receiver<Note>,
    /// Dropped after the session, which is not part of this.
    _attendance: Option<Attendance>,
}

impl Keeper {
    async fn run(mut self, session: Session) {
        let mut next = Some(session);
        while let Some(mut session) = next.take() {
            match self.keep(&mut session).await {
                Ok(()) => return self.leave(session).await,
                Err(error @ (SessionError::Link(_) | SessionError::Closed)) => {
                    debug!(tenant = %self.hello.tenant, %error, "connecting again");
                    drop(session);
                    next = self.reopen().await;
                }
                Err(error) => {
                    warn!(tenant = %self.hello.tenant, %error, "the feed belongs to somebody else");
                    return;
                }
            }
        }
    }

    /// Serves the session until the job ends or the session breaks.
    async fn keep(&mut self, session: &mut Session) -> Result<(), SessionError> {
        let mut beats = interval(BEAT_EVERY);
        beats.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            tokio::select! {
                biased;
                () = self.end.cancelled() => return Ok(()),
                Some(note) = self.waiting.recv() => {
                    session.note(note.number).await?;
                    // Nobody waits any more if the handler was cut short.
                    let _ = note.sent.send(());
                }
                _ = beats.tick() => self.beat(session).await?,
                line = session.next_line() => {
                    line?;
                }
            }
        }
    }

    /// Sends a heartbeat, the one act that must never come from two workers: so it checks the lease right before.
    async fn beat(&self, session: &mut Session) -> Result<(), SessionError> {
        if self.job.lease().check() { session.beat().await } else { Ok(()) }
    }

    async fn reopen(&self) -> Option<Session> {
        loop {
            tokio::select! {
                () = self.end.cancelled() => return None,
                () = sleep(RECONNECT_PAUSE) => {}
            }
            match Session::open(self.feed, self.hello.clone()).await {
                Ok(session) => return Some(session),
                Err(error @ (SessionError::Stale { .. } | SessionError::Replaced { .. })) => {
                    warn!(tenant = %self.hello.tenant, %error, "the feed belongs to somebody else");
                    return None;
                }
                Err(error) => debug!(tenant = %self.hello.tenant, %error, "not connected yet"),
            }
        }
    }

    /// Sends a last heartbeat, so that the judge sees an owner that acts to the very end. Then it ends the session and
    /// awaits the confirmation.
    async fn leave(&self, mut session: Session) {
        let farewell = async {
            self.beat(&mut session).await?;
            session.close().await
        };
        match timeout(FAREWELL, farewell).await {
            Ok(Ok(())) => {}
            Ok(Err(error)) => debug!(tenant = %self.hello.tenant, %error, "left without an answer"),
            Err(_) => debug!(tenant = %self.hello.tenant, "left without an answer in time"),
        }
    }
}
