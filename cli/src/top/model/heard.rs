//! When each node was last heard of. Its time in the pool, as it says it with each renewal, has grown then.

use std::collections::BTreeMap;
use std::time::{Duration, SystemTime};

use crate::top::picture::Worker;

#[derive(Debug, Default)]
pub(super) struct Heard {
    of: BTreeMap<(usize, String), Last>,
}

#[derive(Clone, Copy, Debug)]
struct Last {
    up: Duration,
    at: SystemTime,
    /// It was seen to grow.
    grew: bool,
}

impl Heard {
    /// Takes what the nodes say now. Those without workers are forgotten.
    pub(super) fn hear(&mut self, workers: &[Worker], now: SystemTime) {
        let mut of = BTreeMap::new();
        for worker in workers {
            let Some(said) = &worker.said else { continue };
            let name = (worker.shard, worker.node.clone());
            let last = match self.of.get(&name) {
                Some(last) if last.up == said.up => *last,
                before => Last { up: said.up, at: now, grew: before.is_some() },
            };
            of.insert(name, last);
        }
        self.of = of;
    }

    pub(super) fn silent(&self, shard: usize, node: &str, now: SystemTime) -> Option<Duration> {
        let last = self.of.get(&(shard, node.to_owned())).filter(|last| last.grew)?;
        Some(now.duration_since(last.at).unwrap_or_default())
    }
}
