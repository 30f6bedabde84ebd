//! The rows of the lists, filtered and in order.

use std::collections::BTreeMap;
use std::time::Duration;

use tenure_pool::inspect::MemberState;

use super::{Id, Model, Screen};
use crate::top::filter::Filter;
use crate::top::picture::{Happening, Job, Simulated, Worker};

/// A node: its workers, added up.
#[derive(Clone, Debug, Default)]
pub(in crate::top) struct NodeRow {
    pub(in crate::top) name: String,
    pub(in crate::top) workers: usize,
    pub(in crate::top) up: usize,
    pub(in crate::top) draining: usize,
    pub(in crate::top) cordoned: bool,
    pub(in crate::top) jobs: u64,
    pub(in crate::top) stuck: u64,
    pub(in crate::top) silent: Option<Duration>,
    pub(in crate::top) host: String,
    pub(in crate::top) pid: Option<u32>,
    pub(in crate::top) version: String,
    pub(in crate::top) age: Option<Duration>,
}

/// The part of a worker in a supposition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::top) enum If {
    Stays,
    Goes,
    /// It goes whatever is supposed.
    Drains,
    Joins,
}

/// A worker in a supposition.
#[derive(Clone, Debug)]
pub(in crate::top) struct SupposedRow {
    pub(in crate::top) shard: usize,
    /// `None` for one that is only supposed.
    pub(in crate::top) worker: Option<u64>,
    pub(in crate::top) node: Option<String>,
    pub(in crate::top) what: If,
    /// Its jobs before and after, where they are known.
    pub(in crate::top) figures: Option<(u64, u64)>,
}

impl Screen {
    /// The names of the orders of its list, the usual one first.
    pub(in crate::top) fn orders(self) -> &'static [&'static str] {
        match self {
            Self::Pool => &["name", "jobs", "stuck"],
            Self::Jobs | Self::Parked => &["key", "age", "attempts"],
            Self::Events | Self::Ring => &["time"],
            Self::Simulate => &["name"],
        }
    }
}

impl Model {
    /// The name of the order of the present screen.
    pub(in crate::top) fn order(&self) -> &'static str {
        let orders = self.screen.orders();
        orders.get(self.sorts[self.screen as usize]).copied().unwrap_or(orders[0])
    }

    pub(in crate::top) fn workers(&self) -> Vec<&Worker> {
        let mut workers: Vec<_> = self.picture.iter().flat_map(|picture| &picture.workers).collect();
        workers.sort_by_key(|worker| (worker.shard, worker.id));
        match self.order() {
            "jobs" => workers.sort_by_key(|worker| std::cmp::Reverse(worker.jobs)),
            "stuck" => workers
                .sort_by_key(|worker| std::cmp::Reverse(worker.said.as_ref().map_or(0, |said| said.stuck))),
            _ => {}
        }
        workers
    }

    pub(in crate::top) fn nodes(&self) -> Vec<NodeRow> {
        let mut nodes: BTreeMap<&str, NodeRow> = BTreeMap::new();
        for worker in self.picture.iter().flat_map(|picture| &picture.workers) {
            let node = nodes.entry(&worker.node).or_default();
            node.name.clone_from(&worker.node);
            node.workers += 1;
            node.up += usize::from(worker.state == MemberState::Up);
            node.draining += usize::from(worker.state == MemberState::Draining);
            node.cordoned |= worker.cordoned;
            node.jobs += worker.jobs;
            // Of several shards, the one that was heard of least counts.
            node.silent = node.silent.max(self.silent(worker.shard, &worker.node));
            if let Some(said) = &worker.said {
                node.stuck += said.stuck;
                node.host.clone_from(&said.host);
                node.version.clone_from(&said.version);
                (node.pid, node.age) = (Some(said.pid), Some(said.up));
            }
        }
        let mut nodes: Vec<_> = nodes.into_values().collect();
        match self.order() {
            "jobs" => nodes.sort_by_key(|node| std::cmp::Reverse(node.jobs)),
            "stuck" => nodes.sort_by_key(|node| std::cmp::Reverse(node.stuck)),
            _ => {}
        }
        nodes
    }

    /// The jobs of the screen of jobs or of parked ones. Those that another filter meant are not shown.
    pub(in crate::top) fn jobs(&self) -> Vec<&Job> {
        let found = self.picture.as_ref().and_then(|picture| match self.screen {
            Screen::Parked => picture.parked.as_ref(),
            _ => picture.jobs.as_ref(),
        });
        let Some(found) = found.filter(|found| found.filter == self.filter(self.screen)) else {
            return Vec::new();
        };
        let mut jobs: Vec<_> = found.jobs.iter().collect();
        match self.order() {
            "age" => jobs.sort_by_key(|job| job.since),
            "attempts" => jobs.sort_by_key(|job| std::cmp::Reverse(job.attempts)),
            _ => {}
        }
        jobs
    }

    /// The forecast of what is supposed now.
    pub(in crate::top) fn simulated(&self) -> Option<&Simulated> {
        let seen = self.picture.as_ref()?.simulated.as_ref()?;
        (seen.supposed == self.supposed).then_some(seen)
    }

    /// The workers, and behind them those that are only supposed.
    pub(in crate::top) fn supposed_rows(&self) -> Vec<SupposedRow> {
        let shares = self.simulated().map(|seen| &seen.forecast.workers[..]).unwrap_or_default();
        let mut workers: Vec<_> = self.picture.iter().flat_map(|picture| &picture.workers).collect();
        workers.sort_by_key(|worker| (worker.shard, worker.id));
        let row = |worker: &Worker| {
            let own =
                shares.iter().find(|share| (share.shard, share.worker) == (worker.shard, Some(worker.id)));
            SupposedRow {
                shard: worker.shard,
                worker: Some(worker.id),
                node: Some(worker.node.clone()),
                what: match worker.state {
                    _ if self.supposed.goes.contains(&(worker.shard, worker.id)) => If::Goes,
                    MemberState::Draining => If::Drains,
                    _ => If::Stays,
                },
                figures: own.map(|share| (share.before, share.after)),
            }
        };
        let mut rows: Vec<_> = workers.into_iter().map(row).collect();
        let new = shares.iter().filter(|share| share.worker.is_none());
        rows.extend(new.map(|share| SupposedRow {
            shard: share.shard,
            worker: None,
            node: None,
            what: If::Joins,
            figures: Some((share.before, share.after)),
        }));
        rows
    }

    /// The events that the filter means: its pattern, its workers and its node.
    pub(in crate::top) fn happenings(&self) -> Vec<(u64, &Happening)> {
        let words: Vec<_> = self.filter(Screen::Events).split_whitespace().map(str::to_lowercase).collect();
        let means = |event: &Happening| {
            let text = event.text().to_lowercase();
            words.iter().all(|word| text.contains(word))
        };
        let all = self.events.iter().map(|(number, event)| (*number, event));
        all.filter(|(_, event)| means(event)).collect()
    }

    /// The things that the rows of the present screen are about.
    pub(in crate::top) fn ids(&self) -> Vec<Id> {
        match self.screen {
            Screen::Pool if self.by_node => {
                self.nodes().into_iter().map(|node| Id::Node(node.name)).collect()
            }
            Screen::Pool => {
                self.workers().into_iter().map(|worker| Id::Worker(worker.shard, worker.id)).collect()
            }
            Screen::Jobs | Screen::Parked => {
                self.jobs().into_iter().map(|job| Id::Job(job.key.clone())).collect()
            }
            Screen::Events => self.happenings().into_iter().map(|(number, _)| Id::Event(number)).collect(),
            Screen::Ring => Vec::new(),
            Screen::Simulate => {
                let id = |(number, row): (usize, SupposedRow)| match row.worker {
                    Some(worker) => Id::Worker(row.shard, worker),
                    None => Id::Supposed(number),
                };
                self.supposed_rows().into_iter().enumerate().map(id).collect()
            }
        }
    }

    /// The number of the chosen row of the present screen.
    pub(in crate::top) fn chosen(&self) -> usize {
        self.choices[self.screen as usize].at()
    }

    /// The rows have changed.
    pub(super) fn settle(&mut self) {
        let ids = self.ids();
        self.choices[self.screen as usize].settle(&ids, self.screen == Screen::Events);
    }

    /// Goes up or down in the list of the present screen.
    pub(super) fn step(&mut self, by: isize) {
        let ids = self.ids();
        self.choices[self.screen as usize].step(by, &ids);
    }

    /// The mistake in a filter of the present screen.
    pub(super) fn check(&self, text: &str) -> Option<String> {
        matches!(self.screen, Screen::Jobs | Screen::Parked).then(|| Filter::parse(text).err()).flatten()
    }
}

impl Happening {
    /// The job, or how many jobs.
    pub(in crate::top) fn title(&self) -> String {
        match (&self.keys[..], self.count) {
            ([one], 0 | 1) => crate::out::shown::key(one),
            (_, 0) => "-".to_owned(),
            (_, 1) => "1 job".to_owned(),
            (_, count) => format!("{count} jobs"),
        }
    }

    /// All of its words, for a search.
    fn text(&self) -> String {
        let keys: Vec<_> = self.keys.iter().map(crate::out::shown::key).collect();
        let worker = self.worker.map(|worker| worker.to_string()).unwrap_or_default();
        format!("{} {} {} {} {}", self.kind.word(), keys.join(" "), worker, self.why, self.node)
    }
}
