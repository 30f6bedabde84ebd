//! The talk with a host: what it says is heard, what it is told is written, and its silence is noticed.

use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use tenure_pool::Node;
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt};
use tokio::sync::{OwnedSemaphorePermit, mpsc};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, timeout};

use super::calls;
use super::figures::Figures;
use super::link::{Link, Wish};
use super::table::{End, Heard};
use super::wire::codec::Lines;
use super::wire::down::Down;
use super::wire::up::Up;

/// How often a host is pinged, at the least and at the most.
const PINGS: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(5));
/// How much is written at a time.
const CHUNK: usize = 64 << 10;
/// How long it is read on after a host hears nothing more.
const LAST_WORDS: Duration = Duration::from_secs(1);
/// The longest status that is kept.
const STATUS_MAX: usize = 256;

/// A talk.
pub(super) struct Talk {
    pub(super) link: Arc<Link>,
    pub(super) node: Node,
    pub(super) ttl: Duration,
    pub(super) deadline: Duration,
    /// The longest state, as the host was told in its welcome.
    pub(super) checkpoint_max: u64,
    pub(super) figures: Figures,
}

/// Why a talk is over.
#[derive(Debug, thiserror::Error)]
pub(super) enum Over {
    /// The host has closed its connection.
    #[error("it closed its connection")]
    Closed,
    /// The host has been silent for so long.
    #[error("no sign of life for {}", humantime::format_duration(*.0))]
    Silent(Duration),
    /// The host breaks the protocol.
    #[error("{0}")]
    Breach(String),
    /// The host had to end, for this reason.
    #[error("{0}")]
    Because(String),
}

impl Over {
    /// The word in metrics.
    pub(super) fn word(&self) -> &'static str {
        match self {
            Self::Closed => "closed",
            Self::Silent(_) => "silent",
            Self::Breach(_) => "breach",
            Self::Because(_) => "killed",
        }
    }
}

impl Talk {
    /// Talks until there is a reason to stop. The host must be killed then.
    pub(super) async fn run(
        &self,
        lines: Lines<impl AsyncRead + Unpin>,
        to: impl AsyncWrite + Unpin,
        from: mpsc::UnboundedReceiver<Vec<u8>>,
    ) -> Over {
        let mut heard = std::pin::pin!(self.listen(lines));
        tokio::select! {
            biased;
            () = self.link.doom.notified() => Over::Because(self.link.doomed().unwrap_or_default()),
            over = self.pulse() => over,
            error = speak(&self.link, to, from) => match error.kind() {
                // The reason is on the other half, with the last words on its jobs.
                std::io::ErrorKind::BrokenPipe | std::io::ErrorKind::ConnectionReset => {
                    timeout(LAST_WORDS, heard).await.unwrap_or(Over::Closed)
                }
                _ => Over::Because(format!("its socket failed: {error}")),
            },
            // A host that never stops talking starves none of the others.
            over = &mut heard => over,
        }
    }

    async fn listen(&self, mut lines: Lines<impl AsyncRead + Unpin>) -> Over {
        let link = &self.link;
        // They end with the host.
        let mut tasks = JoinSet::new();
        loop {
            let up = match lines.next::<Up>().await {
                Ok(Some(up)) => up,
                Ok(None) => return Over::Closed,
                Err(bad) => return Over::Breach(format!("it does not speak the protocol: {bad}")),
            };
            while tasks.try_join_next().is_some() {}
            let heard = link.table().hear(up);
            let heard = match heard {
                Ok(heard) => heard,
                Err(breach) => return Over::Breach(format!("it breaks the protocol: {breach}")),
            };
            match heard {
                Heard::Nothing => {}
                Heard::Pong(n) if n > link.pinged.load(Ordering::Relaxed) => {
                    return Over::Breach(format!("it breaks the protocol: pong {n}, which answers no ping"));
                }
                Heard::Pong(n) => {
                    link.ponged.send_if_modified(|last| n > std::mem::replace(last, n.max(*last)));
                }
                Heard::Bye => link.wish(Wish::Bye),
                Heard::Progress(job) => job.progress(),
                Heard::Status(job, text) => {
                    job.progress();
                    let status: String = text.chars().take(STATUS_MAX).collect();
                    tracing::debug!(key = %job.key(), status, "a job's status");
                }
                Heard::Last { job, of, state } => {
                    // The pool hands the job on when it is kept.
                    let saving = of.checkpoint(state);
                    link.table().end(job, End::Stopped);
                    let link = link.clone();
                    tasks.spawn(async move {
                        if let Err(why) = saving.await {
                            link.send(&calls::unsaved(job, of.key(), &why));
                        }
                    });
                }
                Heard::Answer(ask, Ok(answer)) => ask.answer(answer),
                Heard::Answer(ask, Err(why)) => ask.refuse(why),
                Heard::Moved(ask) => ask.moved(),
                Heard::Checkpoint { rid, of, state } => {
                    let Ok(permit) = link.calls.clone().try_acquire_owned() else {
                        link.send(&calls::busy(rid));
                        continue;
                    };
                    let saving = of.map(|job| job.checkpoint(state));
                    tasks.spawn(answered(link.clone(), permit, async move {
                        match saving {
                            None => calls::error(rid, "fenced", "the job has ended"),
                            Some(saving) => calls::saved(rid, saving.await),
                        }
                    }));
                }
                Heard::Request(request) => {
                    let Ok(permit) = link.calls.clone().try_acquire_owned() else {
                        link.send(&calls::busy(calls::rid_of(&request)));
                        continue;
                    };
                    let node = self.node.clone();
                    let call = async move { calls::perform(&node, request).await };
                    tasks.spawn(answered(link.clone(), permit, call));
                }
            }
        }
    }

    /// Pings the host, and tells it of renewals and of another longest state. Returns when it does not answer.
    async fn pulse(&self) -> Over {
        let Self { link, ttl, deadline, .. } = self;
        let every = (*ttl / 5).clamp(PINGS.0, PINGS.1).min(*deadline);
        // The first one is sent at once.
        let (mut n, mut sent): (_, Option<Instant>) = (0, None);
        let mut told = self.checkpoint_max;
        loop {
            link.tell_leases();
            let checkpoint_max = self.node.settings().checkpoint_max;
            if checkpoint_max != told {
                told = checkpoint_max;
                link.send(&Down::Bounds { checkpoint_max });
            }
            let is_answered = *link.ponged.borrow() >= n;
            let elapsed = sent.map(|sent| sent.elapsed());
            if !is_answered && elapsed.is_some_and(|elapsed| elapsed > *deadline) {
                return Over::Silent(*deadline);
            }
            let silence = elapsed.filter(|_| !is_answered).unwrap_or_default();
            self.figures.silent_for(silence.as_secs_f64());
            if is_answered && elapsed.is_none_or(|elapsed| elapsed >= every) {
                n += 1;
                sent = Some(Instant::now());
                link.pinged.store(n, Ordering::Relaxed);
                link.send(&Down::Ping { n });
            }
            sleep((*ttl / 20).min(every)).await;
        }
    }
}

/// Sends the answer of a request, when there is one.
async fn answered(link: Arc<Link>, permit: OwnedSemaphorePermit, call: impl Future<Output = Down>) {
    let answer = call.await;
    // A host that has its answer may make another request at once.
    drop(permit);
    if let (false, Down::Ok { rid, .. }) = (link.send(&answer), &answer) {
        link.send(&calls::error(*rid, "too_long", "the answer does not fit into a line"));
    }
}

async fn speak(
    link: &Link,
    mut to: impl AsyncWrite + Unpin,
    mut from: mpsc::UnboundedReceiver<Vec<u8>>,
) -> std::io::Error {
    let mut bytes = Vec::new();
    while let Some(first) = from.recv().await {
        bytes.extend_from_slice(&first);
        while bytes.len() < CHUNK
            && let Ok(next) = from.try_recv()
        {
            bytes.extend_from_slice(&next);
        }
        if let Err(error) = to.write_all(&bytes).await {
            return error;
        }
        link.waiting.fetch_sub(bytes.len(), Ordering::Relaxed);
        bytes.clear();
        bytes.shrink_to(CHUNK);
    }
    std::future::pending().await
}
