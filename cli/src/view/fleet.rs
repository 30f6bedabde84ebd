//! Workers, nodes and the ring, as they are shown.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::Serialize;
use tenure_pool::inspect::{MemberState, NodeStatus, Overview, RingView, WorkerInfo};
use tenure_pool::{Error, Inspector, JobKey, WorkerId};

use crate::out::when::{brief, millis};
use crate::out::{Cell, Column, Row, Tone, shown};

/// A pool at a glance: its workers, and what their nodes say.
#[derive(Clone, Debug)]
pub(crate) struct Fleet {
    pub(crate) seen: Overview,
}

impl Fleet {
    /// Reads it.
    ///
    /// # Errors
    /// The pool cannot be read.
    pub(crate) async fn read(pool: &Inspector) -> Result<Self, Error> {
        Ok(Self { seen: pool.overview().await? })
    }

    /// All workers, with their jobs.
    pub(crate) fn workers(&self) -> Vec<WorkerRow> {
        let Overview { workers, figures, statuses, .. } = &self.seen;
        let said: BTreeMap<_, _> = statuses.iter().map(|of| ((of.shard, &*of.node), of)).collect();
        let counted: BTreeMap<_, _> = figures.workers.iter().map(|of| ((of.shard, of.worker), of)).collect();
        let all: u64 = figures.workers.iter().map(|of| of.jobs).sum();
        let row = |worker: &WorkerInfo| {
            let figures = counted.get(&(worker.shard, worker.id));
            let (jobs, renewed) = (figures.map(|of| of.jobs), figures.and_then(|of| of.renewed));
            let of = said.get(&(worker.shard, &*worker.node));
            let counts = of.and_then(|of| of.workers.iter().find(|counts| counts.worker == worker.id));
            let (host, version) = (of.map(|of| of.host.clone()), of.map(|of| of.version.clone()));
            let (held, stuck) = (counts.map(|counts| counts.held), counts.map(|counts| counts.stuck));
            WorkerRow {
                shard: worker.shard,
                worker: worker.id.0,
                node: worker.node.clone(),
                state: worker.state,
                cordoned: worker.cordoned,
                slot: worker.slot,
                jobs,
                capacity: figures.and_then(|of| of.capacity),
                alone: self.seen.shards.len() == 1,
                share_percent: jobs.filter(|_| all > 0).map(|own| percent(own, all)),
                host,
                version,
                held,
                stuck,
                meta: worker.meta.clone(),
                level: worker.level,
                address: worker.address.clone(),
                renewed_ms: renewed.map(millis),
                trouble: self.trouble(renewed, stuck.unwrap_or_default()),
            }
        };
        workers.iter().map(row).collect()
    }

    /// The trouble of a worker, in words. Empty if it has none.
    fn trouble(&self, renewed: Option<Duration>, stuck: u64) -> String {
        let mut trouble = Vec::new();
        // After this part of its time a lease is given up.
        if let Some(silence) = renewed.filter(|silence| *silence > self.seen.settings.worker_ttl / 5 * 3) {
            trouble.push(format!("has not renewed its lease for {}", brief(silence)));
        }
        match stuck {
            0 => {}
            1 => trouble.push("1 job does not end".to_owned()),
            stuck => trouble.push(format!("{stuck} jobs do not end")),
        }
        trouble.join("; ")
    }

    /// The nodes of the workers.
    pub(crate) fn nodes(&self) -> Vec<NodeRow> {
        let rows = self.workers();
        let all: u64 = rows.iter().filter_map(|row| row.jobs).sum();
        let mut nodes: BTreeMap<String, NodeRow> = BTreeMap::new();
        for row in rows {
            let node = nodes.entry(row.node.clone()).or_insert_with(|| NodeRow {
                node: row.node.clone(),
                cordoned: row.cordoned,
                level: row.level,
                address: row.address.clone(),
                ..NodeRow::default()
            });
            // A worker has an entry in every shard.
            if row.shard == 0 {
                node.workers += 1;
                node.up += usize::from(row.state == MemberState::Up);
                node.draining += usize::from(row.state == MemberState::Draining);
            }
            node.jobs += row.jobs.unwrap_or_default();
        }
        for status in &self.seen.statuses {
            if let Some(node) = nodes.get_mut(&status.node) {
                node.hear(status);
            }
        }
        nodes.into_values().map(|node| NodeRow { share_percent: percent(node.jobs, all), ..node }).collect()
    }
}

/// The slots of all rings, or the chain of a key: the workers that are asked for it in turn.
///
/// # Errors
/// The key is not valid.
pub(crate) fn places(
    pool: &Inspector,
    rings: &[RingView],
    workers: &[WorkerInfo],
    key: Option<&JobKey>,
) -> Result<Vec<Seat>, tenure_pool::error::IdError> {
    let node = |shard: usize, id: WorkerId| {
        let found = workers.iter().find(|worker| worker.shard == shard && worker.id == id);
        found.map(|worker| worker.node.clone())
    };
    let place = |shard, place, worker: Option<WorkerId>| Seat {
        shard,
        place,
        worker: worker.map(|worker| worker.0),
        node: worker.and_then(|worker| node(shard, worker)),
    };
    if let Some(key) = key {
        let shard = pool.shard_of(key)?;
        let chain = rings.get(shard).map(|ring| ring.chain(key)).unwrap_or_default();
        return Ok(chain
            .into_iter()
            .enumerate()
            .map(|(at, worker)| place(shard, at + 1, Some(worker)))
            .collect());
    }
    let slots = rings.iter().flat_map(|ring| {
        let slots = ring.slots().into_iter().enumerate();
        slots.map(|(slot, worker)| (ring.shard(), slot, worker)).collect::<Vec<_>>()
    });
    Ok(slots.map(|(shard, slot, worker)| place(shard, slot, worker)).collect())
}

/// A worker.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct WorkerRow {
    pub(crate) shard: usize,
    pub(crate) worker: u64,
    pub(crate) node: String,
    pub(crate) state: MemberState,
    pub(crate) cordoned: bool,
    slot: Option<u32>,
    pub(crate) jobs: Option<u64>,
    /// For the jobs of its node's shards together.
    capacity: Option<u32>,
    /// Whether its jobs are all that its capacity is for: the pool has one shard.
    #[serde(skip)]
    alone: bool,
    share_percent: Option<f64>,
    host: Option<String>,
    version: Option<String>,
    held: Option<u64>,
    pub(crate) stuck: Option<u64>,
    meta: String,
    level: u32,
    address: String,
    renewed_ms: Option<u64>,
    pub(crate) trouble: String,
}

/// The word for a state, and how it looks.
pub(crate) fn state(state: MemberState, cordoned: bool) -> Cell {
    let (word, tone) = match state {
        MemberState::Up => ("up", Tone::Good),
        MemberState::Standby => ("standby", Tone::Warn),
        MemberState::Draining => ("draining", Tone::Warn),
        _ => ("unknown", Tone::Warn),
    };
    if cordoned {
        Cell::new(format!("{word}, cordoned")).tone(Tone::Warn)
    } else {
        Cell::new(word).tone(tone)
    }
}

impl Row for WorkerRow {
    const KIND: &'static str = "workers";
    const COLUMNS: &'static [Column] = &[
        Column::new("SHARD").right().wide(),
        Column::new("WORKER").right(),
        Column::new("NODE"),
        Column::new("STATE"),
        Column::new("SLOT").right(),
        Column::new("JOBS").right(),
        Column::new("SHARE").right(),
        Column::new("HOST"),
        Column::new("VERSION"),
        Column::new("HELD").right().wide(),
        Column::new("STUCK").right().wide(),
        Column::new("META").wide(),
        Column::new("LEVEL").right().wide(),
        Column::new("ADDRESS").wide(),
        Column::new("RENEWED").right().wide(),
        Column::new("TROUBLE").wide(),
    ];

    fn cells(&self, _: bool) -> Vec<Cell> {
        let text = |text: &str| Cell::maybe(Some(shown::plain(text)).filter(|text| !text.is_empty()));
        vec![
            Cell::of(self.shard),
            Cell::of(self.worker),
            Cell::new(&self.node),
            state(self.state, self.cordoned),
            Cell::maybe(self.slot),
            Cell::maybe(self.jobs.map(|jobs| match self.capacity.filter(|_| self.alone) {
                Some(most) => format!("{jobs} of {most}"),
                None => jobs.to_string(),
            })),
            Cell::maybe(self.share_percent.map(|share| format!("{share:.1} %"))),
            Cell::maybe(self.host.as_deref().map(shown::plain)),
            Cell::maybe(self.version.as_deref().map(shown::plain)),
            Cell::maybe(self.held),
            Cell::maybe(self.stuck),
            text(&self.meta),
            Cell::of(self.level),
            text(&self.address),
            Cell::maybe(self.renewed_ms.map(|ms| format!("{} ago", brief(Duration::from_millis(ms))))),
            text(&self.trouble).tone(if self.trouble.is_empty() { Tone::Dim } else { Tone::Bad }),
        ]
    }

    fn name(&self) -> String {
        if self.shard == 0 { self.worker.to_string() } else { format!("{}:{}", self.shard, self.worker) }
    }
}

/// A part in percent, with one digit behind the point.
#[allow(clippy::cast_precision_loss, reason = "it is shown with one digit")]
pub(crate) fn percent(part: u64, whole: u64) -> f64 {
    (1_000.0 * part as f64 / whole.max(1) as f64).round() / 10.0
}

/// A node with workers.
#[derive(Clone, Debug, Default, Serialize)]
pub(crate) struct NodeRow {
    node: String,
    workers: usize,
    up: usize,
    draining: usize,
    cordoned: bool,
    jobs: u64,
    share_percent: f64,
    host: Option<String>,
    pid: Option<u32>,
    version: Option<String>,
    up_ms: Option<u64>,
    starting: u64,
    stuck: u64,
    level: u32,
    address: String,
}

impl Row for NodeRow {
    const KIND: &'static str = "nodes";
    const COLUMNS: &'static [Column] = &[
        Column::new("NODE"),
        Column::new("WORKERS").right(),
        Column::new("UP").right(),
        Column::new("DRAINING").right(),
        Column::new("CORDONED"),
        Column::new("JOBS").right(),
        Column::new("SHARE").right(),
        Column::new("STARTING").right().wide(),
        Column::new("STUCK").right(),
        Column::new("HOST"),
        Column::new("PID").right(),
        Column::new("VERSION"),
        Column::new("AGE").right(),
        Column::new("LEVEL").right().wide(),
        Column::new("ADDRESS").wide(),
    ];

    fn cells(&self, _: bool) -> Vec<Cell> {
        let stuck = Cell::of(self.stuck).tone(if self.stuck > 0 { Tone::Bad } else { Tone::Plain });
        let cordoned =
            if self.cordoned { Cell::new("yes").tone(Tone::Warn) } else { Cell::maybe(None::<String>) };
        let address = Some(shown::plain(&self.address)).filter(|text| !text.is_empty());
        vec![
            Cell::new(&self.node),
            Cell::of(self.workers),
            Cell::of(self.up),
            Cell::of(self.draining),
            cordoned,
            Cell::of(self.jobs),
            Cell::new(format!("{:.1} %", self.share_percent)),
            Cell::of(self.starting),
            stuck,
            Cell::maybe(self.host.as_deref().map(shown::plain)),
            Cell::maybe(self.pid),
            Cell::maybe(self.version.as_deref().map(shown::plain)),
            Cell::maybe(self.up_ms.map(|up| brief(Duration::from_millis(up)))),
            Cell::of(self.level),
            Cell::maybe(address),
        ]
    }

    fn name(&self) -> String {
        self.node.clone()
    }
}

impl NodeRow {
    /// Adds what the node says of itself in one shard.
    fn hear(&mut self, status: &NodeStatus) {
        let NodeStatus { host, pid, version, up, workers, .. } = status;
        (self.host, self.pid, self.version) = (Some(host.clone()), Some(*pid), Some(version.clone()));
        self.up_ms = Some(millis(*up));
        self.starting += workers.iter().map(|worker| worker.to_start).sum::<u64>();
        self.stuck += workers.iter().map(|worker| worker.stuck).sum::<u64>();
    }
}

/// A place of a ring, or in the chain of a key.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Seat {
    shard: usize,
    /// The number of the slot, or the turn of the worker in a key's chain.
    place: usize,
    worker: Option<u64>,
    node: Option<String>,
}

impl Row for Seat {
    const KIND: &'static str = "places";
    const COLUMNS: &'static [Column] = &[
        Column::new("SHARD").right().wide(),
        Column::new("PLACE").right(),
        Column::new("WORKER").right(),
        Column::new("NODE"),
    ];

    fn cells(&self, _: bool) -> Vec<Cell> {
        vec![
            Cell::of(self.shard),
            Cell::of(self.place),
            Cell::maybe(self.worker),
            self.node.as_ref().map_or_else(|| Cell::new("(hole)").tone(Tone::Dim), Cell::new),
        ]
    }

    fn name(&self) -> String {
        self.worker.map(|worker| worker.to_string()).unwrap_or_default()
    }
}
