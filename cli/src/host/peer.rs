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
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

use super::hosts::{Greeted, greeting, refusal};
use super::socket::Socket;
use super::talk::Talk;
use super::wire::codec::{Lines, line};
use super::wire::down::Down;

/// How many connections may be without their hello. Others wait in the socket.
const GREETING: usize = 64;
/// How long a refusal may take to be written.
const REFUSING: Duration = Duration::from_secs(5);
/// The pause after a connection that could not be taken, for this process has too many files.
const AGAIN: Duration = Duration::from_millis(200);

/// Where peers come in.
pub(super) struct Door {
    free: Free,
    /// The places of workers that have not asked yet. A peer that is early is not refused.
    first: Mutex<Vec<oneshot::Receiver<Greeted>>>,
    /// They end with the door.
    _accepting: JoinSet<()>,
    /// The file goes last.
    _socket: Socket,
}

/// The workers without a host, in the order in which they came.
#[derive(Clone, Default)]
struct Free(Arc<Mutex<VecDeque<oneshot::Sender<Greeted>>>>);

impl Free {
    fn lock(&self) -> MutexGuard<'_, VecDeque<oneshot::Sender<Greeted>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a worker, which waits for its peer here.
    fn add(&self) -> oneshot::Receiver<Greeted> {
        let (to, peer) = oneshot::channel();
        self.lock().push_back(to);
        peer
    }

    /// Gives the peer to the first worker that waits. Gives it back if there is none.
    fn give(&self, mut peer: Greeted) -> Option<Greeted> {
        loop {
            let Some(to) = self.lock().pop_front() else { return Some(peer) };
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
        let free = Free::default();
        let first = Mutex::new((0..workers).map(|_| free.add()).collect());
        let mut accepting = JoinSet::new();
        accepting.spawn(accept(listener, free.clone(), hello_timeout));
        Self { free, first, _accepting: accepting, _socket: socket }
    }

    /// The next peer that has said hello.
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
}

async fn accept(listener: UnixListener, free: Free, hello_timeout: Duration) {
    let mut greetings = JoinSet::new();
    loop {
        tokio::select! {
            Some(_) = greetings.join_next() => {}
            accepted = listener.accept(), if greetings.len() < GREETING => match accepted {
                Ok((stream, _)) => {
                    greetings.spawn(greet(stream, free.clone(), hello_timeout));
                }
                Err(error) => {
                    tracing::warn!(%error, "a host cannot be let in");
                    sleep(AGAIN).await;
                }
            },
        }
    }
}

/// Hears the hello of one that has connected, and gives it a worker.
async fn greet(stream: UnixStream, free: Free, within: Duration) {
    let who = stream.peer_cred().ok().map(|who| (who.uid(), who.pid()));
    let (uid, pid) = (who.map(|(uid, _)| uid), who.and_then(|(_, pid)| pid));
    let peer = match timeout(within, greeting(stream)).await {
        Ok(Ok(peer)) => peer,
        Ok(Err(why)) => return tracing::warn!(uid, pid, why, "one at the socket of hosts is none"),
        Err(_) => return tracing::warn!(uid, pid, "one at the socket of hosts has not said hello in time"),
    };
    let (refused, (_, _, to)) = match refusal(&peer.0) {
        Some((_, refused)) => (refused, peer),
        None => match free.give(peer) {
            None => return,
            Some(peer) => {
                let why = "each worker of this node has a host".to_owned();
                (Down::Refused { why, ours: Vec::new(), theirs: Vec::new() }, peer)
            }
        },
    };
    refuse(to, &refused, (uid, pid)).await;
}

async fn refuse(mut to: OwnedWriteHalf, refused: &Down, (uid, pid): (Option<u32>, Option<i32>)) {
    if let Down::Refused { why, theirs, .. } = refused {
        // One without a worker comes again and again.
        if theirs.is_empty() {
            tracing::debug!(uid, pid, why, "a host is refused");
        } else {
            tracing::error!(uid, pid, why, "a host is refused");
        }
    }
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
    let why = talk.run(lines, to, from).await.to_string();
    talk.link.is_parted(&why);
    sleep(talk.link.left()).await;
    talk.link.is_over(&why);
}
