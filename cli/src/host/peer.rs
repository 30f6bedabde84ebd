//! A host that somebody else runs: it connects to the node's socket, and takes a worker that has no host.
//!
//! Nothing here can end it. When its connection has ended, its jobs are taken to run until the lease that it was told is over,
//! and for a margin. Only then are they the pool's again.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::io::AsyncWriteExt;
use tokio::net::unix::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::{mpsc, oneshot};
use tokio::task::{AbortHandle, JoinSet};
use tokio::time::{sleep, timeout};

use super::hosts::{Greeted, greeting, refusal};
use super::lately::Lately;
use super::talk::Talk;
use super::wire::codec::{Lines, line};
use super::wire::down::Down;
use crate::socket::Socket;

/// How many connections may be without their hello. For one more the oldest of them is closed.
const GREETING: usize = 64;
/// How long a refusal may take to be written.
const REFUSING: Duration = Duration::from_secs(5);
/// The pause after a connection that could not be taken, for this process has too many files.
const AGAIN: Duration = Duration::from_millis(200);
/// How often it is seen whether the socket still has its name.
const LOOK: Duration = Duration::from_secs(1);

/// Where peers come in.
pub(super) struct Door {
    free: Free,
    /// The places of workers that have not asked yet. A peer that is early is not refused.
    first: Mutex<Vec<oneshot::Receiver<Greeted>>>,
    /// They end with the door.
    _accepting: JoinSet<()>,
    /// The file goes last.
    socket: Socket,
}

/// The workers without a host.
#[derive(Clone)]
struct Free(Arc<Mutex<Workers>>);

#[derive(Default)]
struct Workers {
    /// How many there are.
    all: usize,
    /// Those that wait for a host, in the order in which they came.
    waiting: VecDeque<oneshot::Sender<Greeted>>,
    pausing: usize,
    drained: usize,
    /// The node leaves.
    is_closed: bool,
}

impl Workers {
    /// Why none of them takes a peer now.
    fn refusal(&self) -> &'static str {
        match self {
            Self { is_closed: true, .. } => "the node is leaving",
            Self { drained, all, .. } if drained >= all => "each worker of this node was drained",
            Self { pausing: 1.., .. } => "a worker of this node pauses, for its last hosts ended soon",
            Self { drained: 1.., .. } => "each worker of this node has a host, or was drained",
            _ => "each worker of this node has a host",
        }
    }
}

impl Free {
    fn of(workers: u16) -> Self {
        Self(Arc::new(Mutex::new(Workers { all: workers.into(), ..Workers::default() })))
    }

    fn lock(&self) -> MutexGuard<'_, Workers> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a worker, which waits for its peer here.
    fn add(&self) -> oneshot::Receiver<Greeted> {
        let (to, peer) = oneshot::channel();
        let mut workers = self.lock();
        if !workers.is_closed {
            workers.waiting.push_back(to);
        }
        peer
    }

    /// Gives the peer to the first worker that waits. Gives it back if there is none, and says why.
    fn give(&self, mut peer: Greeted) -> Option<(Greeted, &'static str)> {
        loop {
            let mut workers = self.lock();
            let Some(to) = workers.waiting.pop_front() else { return Some((peer, workers.refusal())) };
            match to.send(peer) {
                Ok(()) => return None,
                // This one waits no longer.
                Err(back) => peer = back,
            }
        }
    }
}

impl Door {
    /// Takes the connections of peers, for this number of workers. Call it within the node's runtime.
    pub(super) fn open(
        (socket, listener): (Socket, UnixListener),
        workers: u16,
        hello_timeout: Duration,
    ) -> Self {
        let free = Free::of(workers);
        let first = Mutex::new((0..workers).map(|_| free.add()).collect());
        let mut accepting = JoinSet::new();
        let greets = Greets { free: free.clone(), within: hello_timeout, lately: Arc::default() };
        accepting.spawn(accept(listener, greets));
        Self { free, first, _accepting: accepting, socket }
    }

    /// The next peer that has said hello. None comes any more once this is closed.
    ///
    /// # Cancel safety
    /// The connection of a peer that came in the moment of a drop is closed. It has no job, and may come again.
    pub(super) async fn next(&self) -> Greeted {
        let first = self.first.lock().unwrap_or_else(PoisonError::into_inner).pop();
        match first.unwrap_or_else(|| self.free.add()).await {
            Ok(peer) => peer,
            Err(_) => std::future::pending().await,
        }
    }

    /// From now on all peers are refused: the node leaves.
    pub(super) fn close(&self) {
        let mut workers = self.free.lock();
        workers.is_closed = true;
        workers.waiting.clear();
    }

    /// One more worker pauses, or one less.
    pub(super) fn pauses(&self, pauses: bool) {
        let mut workers = self.free.lock();
        workers.pausing = if pauses { workers.pausing + 1 } else { workers.pausing.saturating_sub(1) };
    }

    /// A worker was drained.
    pub(super) fn drained(&self) {
        self.free.lock().drained += 1;
    }

    /// Waits until the socket has lost its name, so that nobody finds it. Returns how.
    ///
    /// # Cancel safety
    /// Safe.
    pub(super) async fn lost(&self) -> String {
        loop {
            sleep(LOOK).await;
            if let Err(why) = self.socket.is_there() {
                return why;
            }
        }
    }
}

/// The greeting of all that connect.
#[derive(Clone)]
struct Greets {
    free: Free,
    /// How long a hello may take.
    within: Duration,
    lately: Arc<Lately>,
}

async fn accept(listener: UnixListener, greets: Greets) {
    let mut greetings = JoinSet::new();
    // In the order in which they came.
    let mut silent: VecDeque<AbortHandle> = VecDeque::new();
    loop {
        tokio::select! {
            Some(_) = greetings.join_next() => silent.retain(|greeting| !greeting.is_finished()),
            accepted = listener.accept() => match accepted {
                Ok((stream, _)) => {
                    if silent.len() >= GREETING && let Some(oldest) = silent.pop_front() {
                        oldest.abort();
                        if let Some(count) = greets.lately.say("many are silent") {
                            tracing::warn!(count, "many at the socket of hosts say no hello, the oldest is closed");
                        }
                    }
                    silent.push_back(greetings.spawn(greet(stream, greets.clone())));
                }
                Err(error) => {
                    if let Some(count) = greets.lately.say("accept") {
                        tracing::warn!(%error, count, "a host cannot be let in");
                    }
                    sleep(AGAIN).await;
                }
            },
        }
    }
}

/// The user and the process of one that has connected, as the system knows them.
pub(super) fn who(stream: &UnixStream) -> (Option<u32>, Option<i32>) {
    let who = stream.peer_cred().ok();
    (who.map(|who| who.uid()), who.and_then(|who| who.pid()))
}

/// Hears the hello of one that has connected, and gives it a worker.
async fn greet(stream: UnixStream, Greets { free, within, lately }: Greets) {
    let (uid, pid) = who(&stream);
    let peer = match timeout(within, greeting(stream)).await {
        Ok(Ok(peer)) => peer,
        Ok(Err(why)) => {
            if let Some(count) = lately.say("no host") {
                tracing::warn!(uid, pid, why, count, "one at the socket of hosts is none");
            }
            return;
        }
        Err(_) => {
            if let Some(count) = lately.say("late") {
                tracing::warn!(uid, pid, count, "one at the socket of hosts has not said hello in time");
            }
            return;
        }
    };
    let (refused, to) = match refusal(&peer.0) {
        Some((why, refused)) => {
            if let Some(count) = lately.say("version") {
                tracing::error!(uid, pid, why, count, "a host is refused");
            }
            (refused, peer.2)
        }
        None => match free.give(peer) {
            None => return,
            Some(((_, _, to), why)) => {
                // It comes again and again.
                tracing::debug!(uid, pid, why, "a host is refused for now");
                (Down::Refused { why: why.to_owned(), ours: Vec::new(), theirs: Vec::new() }, to)
            }
        },
    };
    refuse(to, &refused).await;
}

async fn refuse(mut to: OwnedWriteHalf, refused: &Down) {
    let _ = timeout(REFUSING, to.write_all(&line(refused).unwrap_or_default())).await;
}

/// Talks to it, until its jobs cannot run any more.
pub(super) async fn live(
    talk: Talk,
    lines: Lines<OwnedReadHalf>,
    to: OwnedWriteHalf,
    from: mpsc::UnboundedReceiver<Vec<u8>>,
) {
    // The connection is closed when this returns.
    let gone = talk.run(lines, to, from).await.into();
    talk.link.is_parted(&gone);
    sleep(talk.link.left()).await;
    talk.link.is_over(&gone);
}
