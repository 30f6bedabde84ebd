//! The calls of the pool's users: they stop jobs, dispatch others in their place, and notify some.

use std::convert::Infallible;
use std::time::Duration;

use futures::future::join_all;
use rand::Rng;
use rand::rngs::StdRng;
use tenure_pool::{Error, JobSpec, Node};
use tokio::time::{MissedTickBehavior, interval, sleep};

use crate::Result;

/// The interval at which a job is replaced and two are notified.
const EVERY: Duration = Duration::from_millis(100);
/// The number of calls under way at once at the beginning.
const BATCH: usize = 1_000;
/// The pause after a failed call.
const AGAIN: Duration = Duration::from_secs(1);

/// The running jobs, and the calls about them.
pub(super) struct Load {
    node: Node,
    random: StdRng,
    keys: Vec<String>,
    made: usize,
    /// The place of a job that is being replaced.
    replacing: Option<usize>,
    done: u64,
    failed: u64,
}

impl Load {
    /// Dispatches this many jobs.
    pub(super) async fn start(node: &Node, jobs: usize, random: StdRng) -> Result<Self> {
        let keys: Vec<_> = (0..jobs).map(key).collect();
        for part in keys.chunks(BATCH) {
            let started =
                part.iter().map(|key| async move { node.ensure(JobSpec::new(key, payload(key))).await });
            join_all(started).await.into_iter().collect::<std::result::Result<Vec<_>, _>>()?;
        }
        let node = node.clone();
        Ok(Self { node, random, made: jobs, keys, replacing: None, done: 0, failed: 0 })
    }

    /// Makes calls for as long as it is polled.
    pub(super) async fn go_on(&mut self) -> Infallible {
        let mut ticks = interval(EVERY);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            ticks.tick().await;
            for _ in 0..2 {
                let place = self.random.random_range(0..self.keys.len());
                let told = self.node.notify(&*self.keys[place], &b"something has changed"[..]).await;
                self.count(told.is_ok());
            }
            self.replacing = Some(self.random.random_range(0..self.keys.len()));
            self.settle().await;
        }
    }

    /// Completes a replacement that is under way.
    pub(super) async fn settle(&mut self) {
        let Some(place) = self.replacing else { return };
        loop {
            match self.node.stop_job(&*self.keys[place]).until_stopped().await {
                Ok(()) | Err(Error::JobNotFound(_)) => break,
                Err(_) => self.again().await,
            }
        }
        self.count(true);
        self.keys[place] = key(self.made);
        self.made += 1;
        while self.node.ensure((&*self.keys[place], payload(&self.keys[place]))).await.is_err() {
            self.again().await;
        }
        self.count(true);
        self.replacing = None;
    }

    /// The numbers of successful and of failed calls.
    pub(super) fn counts(&self) -> (u64, u64) {
        (self.done, self.failed)
    }

    async fn again(&mut self) {
        self.count(false);
        sleep(AGAIN).await;
    }

    fn count(&mut self, well: bool) {
        *if well { &mut self.done } else { &mut self.failed } += 1;
    }
}

fn key(number: usize) -> String {
    format!("job-{number}")
}

/// A hundred bytes.
fn payload(key: &str) -> String {
    format!("{key:.<100}")
}
