//! The way from a node to the store: words come late, get lost, or arrive twice.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use tenure_jobs::store::{
    AddReply, Adding, Attesting, Booted, Ends, Extended, Hint, Lane, Listing, Page, Peeked, Request, Result,
    Seen, SettleReply, Settling, SteerReply, Store, TakeReply, Taking, Ticked, Watching,
};
use tenure_jobs::{Figures, Incarnation, JobId, NodeName, QueueName, Record, Settings, StoreError, Token};
use tokio::sync::mpsc;

use super::judge::Word;
use super::world::World;

/// One node's way.
#[derive(Clone)]
pub(crate) struct Wire {
    pub(crate) world: Arc<World>,
    /// This life of the node.
    pub(crate) life: Arc<str>,
    pub(crate) cut: Arc<AtomicBool>,
}

fn reason() -> Arc<dyn std::error::Error + Send + Sync> {
    Arc::new(std::io::Error::other("the wire is cut"))
}

impl Wire {
    fn fails(&self) -> bool {
        let cut = self.cut.load(Ordering::SeqCst) || self.world.outage();
        cut || self.world.has_faults() && self.world.rng.one_in(40)
    }

    /// Sends a step there and its answer back. The judge sees it in between.
    async fn pass<T: Send>(
        &self,
        step: impl Future<Output = Result<T>> + Send,
        see: impl FnOnce(&Self, &T) + Send,
    ) -> Result<T> {
        tokio::time::sleep(self.world.rng.ms(0, 3)).await;
        if self.fails() {
            tokio::time::sleep(self.world.rng.ms(1, 50)).await;
            return Err(StoreError::NotExecuted(reason()));
        }
        let answer = step.await;
        if let Ok(answer) = &answer {
            see(self, answer);
        }
        tokio::time::sleep(self.world.rng.ms(0, 3)).await;
        if self.fails() { Err(StoreError::Unanswered(reason())) } else { answer }
    }

    fn saw(&self, word: &Word<'_>) {
        self.world.saw(&self.life, word);
    }

    /// Whether a copy of a call comes later.
    fn comes_twice(&self) -> bool {
        self.world.has_faults() && self.world.rng.one_in(15)
    }
}

#[async_trait]
impl Store for Wire {
    async fn boot(&self, seen: Token) -> Result<Booted> {
        self.pass(self.world.store.boot(seen), |own, _| own.saw(&Word::Other)).await
    }

    async fn recover(
        &self,
        inc: Incarnation,
        seen: Token,
        server: &str,
        hold: u64,
        grace: u64,
    ) -> Result<Incarnation> {
        self.pass(self.world.store.recover(inc, seen, server, hold, grace), |own, _| own.saw(&Word::Other))
            .await
    }

    async fn server(&self) -> Result<Box<str>> {
        self.pass(self.world.store.server(), |own, _| own.saw(&Word::Other)).await
    }

    fn bless(&self, server: &str) {
        self.world.store.bless(server);
    }

    async fn declare(&self, inc: Incarnation, queue: &QueueName, settings: &Settings) -> Result<bool> {
        self.pass(self.world.store.declare(inc, queue, settings), |own, _| own.saw(&Word::Other)).await
    }

    async fn name(&self, inc: Incarnation, queue: &QueueName) -> Result<()> {
        self.pass(self.world.store.name(inc, queue), |own, ()| own.saw(&Word::Other)).await
    }

    async fn add(&self, inc: Incarnation, lane: &Lane, adding: &Adding) -> Result<Vec<AddReply>> {
        if self.comes_twice() {
            let (own, lane, adding) = (self.clone(), lane.clone(), adding.clone());
            tokio::spawn(async move {
                tokio::time::sleep(own.world.rng.ms(1, 3_000)).await;
                if own.world.store.add(inc, &lane, &adding).await.is_ok() {
                    own.world.saw(&own.life, &Word::Add(&lane, &adding));
                }
            });
        }
        self.pass(self.world.store.add(inc, lane, adding), |own, _| own.saw(&Word::Add(lane, adding))).await
    }

    async fn take(&self, inc: Incarnation, lane: &Lane, taking: &Taking) -> Result<TakeReply> {
        if self.comes_twice() {
            let (own, lane, taking) = (self.clone(), lane.clone(), taking.clone());
            tokio::spawn(async move {
                tokio::time::sleep(own.world.rng.ms(1, 3_000)).await;
                if own.world.store.take(inc, &lane, &taking).await.is_ok() {
                    own.world.saw(&own.life, &Word::Take(&lane));
                }
            });
        }
        self.pass(self.world.store.take(inc, lane, taking), |own, _| own.saw(&Word::Take(lane))).await
    }

    async fn settle(&self, inc: Incarnation, lane: &Lane, jobs: &[Settling]) -> Result<Vec<SettleReply>> {
        if self.comes_twice() {
            let (own, lane, jobs) = (self.clone(), lane.clone(), jobs.to_vec());
            tokio::spawn(async move {
                tokio::time::sleep(own.world.rng.ms(1, 3_000)).await;
                if let Ok(replies) = own.world.store.settle(inc, &lane, &jobs).await {
                    own.world.saw(&own.life, &Word::Settle(&lane, &jobs, &replies));
                }
            });
        }
        let step = self.world.store.settle(inc, lane, jobs);
        let replies = self.pass(step, |own, replies| own.saw(&Word::Settle(lane, jobs, replies))).await?;
        self.world.judge().heard(&self.life, self.world.now(), jobs, &replies);
        Ok(replies)
    }

    async fn extend(&self, inc: Incarnation, jobs: &[(JobId, Token)]) -> Result<Extended> {
        self.pass(self.world.store.extend(inc, jobs), |own, _| own.saw(&Word::Other)).await
    }

    async fn attest(&self, inc: Incarnation, jobs: &[Attesting]) -> Result<Extended> {
        // They are rare, and a copy that comes late may do harm.
        if self.world.rng.one_in(2) {
            let (own, jobs) = (self.clone(), jobs.to_vec());
            tokio::spawn(async move {
                tokio::time::sleep(own.world.rng.ms(1, 3_000)).await;
                if own.world.store.attest(inc, &jobs).await.is_ok() {
                    own.world.saw(&own.life, &Word::Attest(&jobs));
                }
            });
        }
        self.pass(self.world.store.attest(inc, jobs), |own, _| own.saw(&Word::Attest(jobs))).await
    }

    async fn tick(
        &self,
        inc: Incarnation,
        node: &NodeName,
        most: u32,
        pause: u64,
        grace: u64,
        off_duty: bool,
    ) -> Result<Ticked> {
        self.pass(self.world.store.tick(inc, node, most, pause, grace, off_duty), |own, _| {
            own.saw(&Word::Tick);
        })
        .await
    }

    async fn steer(&self, inc: Incarnation, requests: &[Request]) -> Result<Vec<SteerReply>> {
        self.pass(self.world.store.steer(inc, requests), |own, _| own.saw(&Word::Steer(requests))).await
    }

    async fn watch(
        &self,
        inc: Incarnation,
        node: &NodeName,
        watching: Watching,
        number: u64,
        ids: &[JobId],
    ) -> Result<Vec<Option<Seen>>> {
        self.pass(self.world.store.watch(inc, node, watching, number, ids), |own, _| own.saw(&Word::Other))
            .await
    }

    async fn peek(&self, inc: Incarnation, ends: &Ends, ids: &[JobId]) -> Result<Vec<Option<Peeked>>> {
        self.pass(self.world.store.peek(inc, ends, ids), |own, _| own.saw(&Word::Read)).await
    }

    async fn figures(&self, inc: Incarnation, queues: &[QueueName]) -> Result<Vec<Figures>> {
        self.pass(self.world.store.figures(inc, queues), |own, _| own.saw(&Word::Read)).await
    }

    async fn queues(&self) -> Result<Vec<QueueName>> {
        self.pass(self.world.store.queues(), |own, _| own.saw(&Word::Read)).await
    }

    async fn list(&self, listing: &Listing, after: Option<&str>, size: u32) -> Result<Page> {
        self.pass(self.world.store.list(listing, after, size), |own, _| own.saw(&Word::Read)).await
    }

    async fn scan(&self, cursor: u64, size: u32) -> Result<(u64, Vec<(JobId, Record)>)> {
        self.pass(self.world.store.scan(cursor, size), |own, _| own.saw(&Word::Read)).await
    }

    async fn time(&self) -> Result<u64> {
        self.pass(self.world.store.time(), |own, _| own.saw(&Word::Read)).await
    }

    fn listen(&self, node: &NodeName) -> mpsc::UnboundedReceiver<Hint> {
        let (sender, receiver) = mpsc::unbounded_channel();
        let (own, node) = (self.clone(), node.clone());
        let mut hints = Some(self.world.store.listen(&node));
        tokio::spawn(async move {
            loop {
                let heard = async {
                    match &mut hints {
                        Some(hints) => hints.recv().await,
                        None => std::future::pending().await,
                    }
                };
                tokio::select! {
                    biased;
                    hint = heard => match hint {
                        // The connection is gone: from now on the store finds nobody who hears.
                        Some(_) if own.fails() => hints = None,
                        Some(hint) => {
                            if sender.send(hint).is_err() {
                                return;
                            }
                        }
                        None => return,
                    },
                    // The subscription is made again, and whoever has gone is not heard any more.
                    () = tokio::time::sleep(Duration::from_millis(700)) => {
                        if sender.is_closed() {
                            return;
                        }
                        if hints.is_none() && !own.fails() {
                            hints = Some(own.world.store.listen(&node));
                        }
                    }
                }
            }
        });
        receiver
    }

    fn apart(&self) -> Arc<dyn Store> {
        Arc::new(self.clone())
    }
}
