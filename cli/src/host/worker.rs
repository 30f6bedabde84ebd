//! A worker of the node: it is a member of the pool while it has a host.
//!
//! A host that goes is made anew, after pauses that grow while hosts go soon. The first new one is waited for: the worker
//! keeps its place, and its jobs start again where they were. After that the worker leaves the pool until a host is ready,
//! so that a host that cannot live fails no jobs.
//!
//! A host that somebody else runs is waited for in the same way. Its worker is free for the next one as soon as the connection
//! has ended, or after the pause. The jobs of the former one wait for the end of the lease that it was told.

use std::sync::Arc;
use std::time::Duration;

use tenure_pool::{Error, Node, Worker};
use tokio::sync::watch;
use tokio::time::{Instant, sleep, timeout};

use super::figures::Figures;
use super::handler::{Gate, Handler, Shared};
use super::hosts::{Hosts, NoHost};
use super::link::{Gone, Link, Wish};
use super::members::Members;
use super::wire::down::Down;
use crate::exit::{Code, Failure};

/// A host that lived so long was a good one.
const GOOD: Duration = Duration::from_secs(60);
/// The first pause before another host, and the longest one.
const PAUSES: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(60));
/// The largest capacity of a worker of the pool.
const CAPACITY_MAX: u32 = 1_000_000;
/// How long a worker keeps its place without a host.
const RETURN: Duration = Duration::from_secs(5);
/// How long a host may take to end when there is nothing more to do.
const BYE: Duration = Duration::from_secs(5);
/// How often it is seen whether a worker was drained, or a host has only stuck jobs.
const LOOK: Duration = Duration::from_millis(100);
/// How long a worker without jobs may take to leave.
const LEAVING: Duration = Duration::from_secs(30);

/// A worker of the node.
pub(super) struct Serves {
    pub(super) number: u16,
    pub(super) hosts: Arc<Hosts>,
    pub(super) node: Node,
    pub(super) gate: watch::Sender<Gate>,
    pub(super) handler: Arc<Handler>,
    pub(super) members: Members,
    pub(super) max_jobs: Option<u32>,
    /// How long jobs may take to move away from a host that is to end.
    pub(super) handoff: Duration,
    pub(super) figures: Figures,
}

/// The state between hosts.
struct Between {
    member: Option<Worker>,
    /// The capacity of the member. None: no bound.
    capacity: Option<u32>,
    /// How many hosts in a row went soon.
    failures: u32,
    had_one: bool,
}

/// Why the worker has no use for its host any more.
enum Over {
    Gone(Gone),
    Wishes(Wish),
    /// Another node has drained the worker.
    Left,
}

impl Serves {
    /// Serves until another node has drained the worker.
    ///
    /// # Errors
    /// No host can be had, and another attempt would come out the same; or the pool does not let the worker join.
    pub(super) async fn run(&self) -> Result<(), Failure> {
        // A pool that cannot be reached when the first peer comes was reached when the node joined.
        let had_one = self.hosts.are_peers();
        let mut between = Between { member: None, capacity: None, failures: 0, had_one };
        loop {
            let Some(link) = self.next_host(&mut between).await? else { continue };
            let is_first = !std::mem::replace(&mut between.had_one, true);
            // A full host makes a full worker: the pool counts and waits by the capacity of the worker.
            let said = link.hello.max_jobs.map(|jobs| jobs.min(CAPACITY_MAX));
            let capacity = self.max_jobs.into_iter().chain(said).min();
            if between.capacity != capacity {
                self.leave(&mut between).await;
                between.capacity = capacity;
            }
            self.figures.has_host(true);
            self.gate.send_replace(Gate::Ready(link.clone()));
            if between.member.is_none() {
                between.member = self.joined(&link, capacity, is_first).await?;
                self.members.set(self.number, between.member.is_some());
            }
            let since = Instant::now();
            let over = over(&link, between.member.as_ref()).await;
            self.figures.has_host(false);
            self.figures.silent_for(0.0);
            match over {
                Over::Gone(Gone { word, why }) => {
                    self.figures.restart(word);
                    self.gate.send_replace(Gate::Coming);
                    between.failures = if since.elapsed() < GOOD { between.failures + 1 } else { 1 };
                    if self.hosts.are_peers() {
                        let left = humantime::format_duration(link.left()).to_string();
                        tracing::warn!(
                            worker = self.number,
                            why,
                            left,
                            "a host has detached, its jobs run again when the lease that it was told is over"
                        );
                    } else {
                        tracing::error!(worker = self.number, why, "a host has gone, its jobs run again");
                    }
                }
                Over::Wishes(wish) => {
                    self.figures.restart(if wish == Wish::Bye { "bye" } else { "stuck" });
                    self.gate.send_replace(Gate::Away);
                    tracing::info!(
                        worker = self.number,
                        ?wish,
                        "a host gives its jobs away, and is made anew"
                    );
                    self.hand_on(&link, &mut between).await;
                    between.failures = 0;
                }
                Over::Left => {
                    self.gate.send_replace(Gate::Away);
                    self.members.set(self.number, false);
                    self.hosts.drained();
                    farewell(&link).await;
                    return Ok(());
                }
            }
        }
    }

    /// Joins the pool. A worker that was in it before tries again while the pool cannot be reached. None: the host has gone.
    /// It does not return while the node leaves: no worker can join then, and the others are still cared for.
    async fn joined(
        &self,
        link: &Link,
        capacity: Option<u32>,
        is_first: bool,
    ) -> Result<Option<Worker>, Failure> {
        let mut failures = 1;
        loop {
            if link.has_parted() {
                return Ok(None);
            }
            let failure = match self.join(capacity).await {
                Ok(member) => return Ok(Some(member)),
                // Its health may not say so yet.
                Err(error) if matches!(error, Error::NodeClosed) || self.node.health().leaving => {
                    self.hosts.close();
                    return std::future::pending().await;
                }
                Err(error) => Failure::from(error),
            };
            if is_first || !matches!(failure.code, Code::Redis | Code::Late) {
                return Err(failure);
            }
            failures += 1;
            tracing::warn!(worker = self.number, %failure, "a worker has not joined its pool, it tries again");
            tokio::select! {
                () = sleep(pause(failures)) => {}
                _ = link.parted() => return Ok(None),
            }
        }
    }

    async fn join(&self, capacity: Option<u32>) -> Result<Worker, Error> {
        let adding = self.node.add_worker(Shared(self.handler.clone())).meta("tenure-host");
        let adding = match capacity {
            Some(jobs) => adding.capacity(jobs),
            None => adding,
        };
        adding.await
    }

    /// The next host, if it gets as far as its hello.
    async fn next_host(&self, between: &mut Between) -> Result<Option<Arc<Link>>, Failure> {
        let pause = pause(between.failures);
        if !pause.is_zero() {
            // A peer that comes meanwhile is refused.
            self.hosts.pauses(true);
            self.leave(between).await;
            sleep(pause).await;
            self.hosts.pauses(false);
        }
        let mut coming = std::pin::pin!(self.coming());
        let come = if let Ok(come) = timeout(RETURN, &mut coming).await {
            come
        } else {
            // One that comes while the worker leaves is talked to meanwhile.
            tokio::join!(self.leave(between), coming).1
        };
        match come {
            Ok(link) => Ok(Some(link)),
            Err(NoHost::Unfit(why)) => {
                Err(Failure::new(Code::Unfit, format!("the host cannot serve: {why}")))
            }
            Err(NoHost::NotRun(why)) if !between.had_one => {
                Err(Failure::new(Code::Unfit, format!("the host cannot be started: {why}")))
            }
            Err(NoHost::NotRun(why) | NoHost::Failed(why)) => {
                between.failures += 1;
                self.figures.restart("no_host");
                tracing::error!(worker = self.number, why, "there is no host, it is tried again");
                Ok(None)
            }
        }
    }

    /// Gets a host that has answered a ping: one that says hello and hangs gets no jobs.
    async fn coming(&self) -> Result<Arc<Link>, NoHost> {
        let link = self.hosts.start(self.number, &self.figures).await?;
        tokio::select! {
            biased;
            gone = link.parted() => Err(NoHost::Failed(gone.why)),
            () = link.answered() => Ok(link),
        }
    }

    /// Leaves the pool until there is a host again. The worker has no jobs but those of a peer that has detached.
    async fn leave(&self, between: &mut Between) {
        self.gate.send_replace(Gate::Away);
        self.members.set(self.number, false);
        let Some(member) = between.member.take() else { return };
        if let Err(error) = member.drain_within(LEAVING.max(self.hosts.ttl)).await {
            tracing::warn!(worker = self.number, %error, "a worker without a host has not left its pool in time");
        }
    }

    /// Hands the jobs on to other workers, and ends the host: in order, or by force if a job does not end.
    async fn hand_on(&self, link: &Link, between: &mut Between) {
        let drained = async {
            let Some(member) = between.member.take() else { return };
            self.members.set(self.number, false);
            // A worker that has not left in time goes on leaving.
            let _ = member.drain_within(self.handoff).await;
        };
        let only_stuck = async {
            loop {
                sleep(LOOK).await;
                let table = link.table();
                if table.len() > 0 && table.has_only_stuck() {
                    return;
                }
            }
        };
        let mut drained = std::pin::pin!(drained);
        let (is_over, is_drained) = tokio::select! {
            // Its time may be up while jobs remain.
            () = &mut drained => (link.table().len() == 0, true),
            () = only_stuck => (false, false),
            _ = link.gone() => (true, false),
        };
        if is_over {
            return farewell(link).await;
        }
        link.kill("a job of it did not end, though it was told to");
        link.gone().await;
        if !is_drained {
            drained.await;
        }
    }
}

/// Waits until the worker has no use for its host any more.
async fn over(link: &Link, member: Option<&Worker>) -> Over {
    let mut wish = link.wish.subscribe();
    let has_left = async {
        while member.is_some_and(|member| member.ids().iter().any(Option::is_some)) {
            sleep(LOOK).await;
        }
    };
    tokio::select! {
        biased;
        gone = link.parted() => Over::Gone(gone),
        Ok(wish) = wish.wait_for(Option::is_some) => {
            wish.clone().map_or_else(|| Over::Wishes(Wish::Bye), Over::Wishes)
        }
        () = has_left => Over::Left,
    }
}

/// The pause before the next host: none after the first that went soon.
fn pause(failures: u32) -> Duration {
    match failures {
        0 | 1 => Duration::ZERO,
        more => PAUSES.0.saturating_mul(1 << (more - 2).min(6)).min(PAUSES.1),
    }
}

/// Ends a host that has nothing more to do.
pub(super) async fn farewell(link: &Link) {
    link.send(&Down::Bye {});
    if timeout(BYE, link.gone()).await.is_err() {
        link.kill("it did not end when there was nothing more to do");
        link.gone().await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_between_hosts_grow_to_a_minute() {
        let seconds: Vec<_> = (0..10).map(|failures| pause(failures).as_secs()).collect();
        assert_eq!(seconds, [0, 0, 1, 2, 4, 8, 16, 32, 60, 60]);
        assert_eq!(pause(u32::MAX), PAUSES.1);
    }
}
