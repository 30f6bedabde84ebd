//! `tenure workers`, `nodes` and `ring`.

use std::collections::BTreeMap;
use std::time::Duration;

use clap::Args;
use serde::Serialize;
use tenure_pool::{Inspector, JobKey, MemberState, NodeStatus, WorkerId};

use super::Session;
use super::watch::Watch;
use crate::args::KeyArg;
use crate::exit::{Code, Failure};
use crate::out::when::brief;
use crate::out::{Cell, Column, List, Row, Tone, shown};

/// List the workers: each has an entry in every shard
#[derive(Args, Debug)]
pub(crate) struct Workers {
    /// Workers of this node
    #[arg(long, value_name = "NAME")]
    node: Option<String>,
    #[command(flatten)]
    watch: Watch,
}

#[derive(Serialize)]
struct WorkerRow {
    shard: usize,
    worker: u64,
    node: String,
    state: MemberState,
    cordoned: bool,
    slot: Option<u32>,
    jobs: Option<u64>,
    share_percent: Option<f64>,
    host: Option<String>,
    version: Option<String>,
    held: Option<u64>,
    stuck: Option<u64>,
    meta: String,
    level: u32,
    address: String,
}

/// The word for a state, and how it looks.
fn state(state: MemberState, cordoned: bool) -> Cell {
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
    ];

    fn cells(&self, _: bool) -> Vec<Cell> {
        let text = |text: &str| Cell::maybe(Some(shown::plain(text)).filter(|text| !text.is_empty()));
        vec![
            Cell::of(self.shard),
            Cell::of(self.worker),
            Cell::new(&self.node),
            state(self.state, self.cordoned),
            Cell::maybe(self.slot),
            Cell::maybe(self.jobs),
            Cell::maybe(self.share_percent.map(|share| format!("{share:.1} %"))),
            Cell::maybe(self.host.as_deref().map(shown::plain)),
            Cell::maybe(self.version.as_deref().map(shown::plain)),
            Cell::maybe(self.held),
            Cell::maybe(self.stuck),
            text(&self.meta),
            Cell::of(self.level),
            text(&self.address),
        ]
    }

    fn name(&self) -> String {
        if self.shard == 0 { self.worker.to_string() } else { format!("{}:{}", self.shard, self.worker) }
    }
}

/// All workers, with their jobs.
async fn workers(pool: &Inspector) -> Result<Vec<WorkerRow>, Failure> {
    let (workers, figures, said) = (pool.workers().await?, pool.figures().await?, pool.statuses().await?);
    let said: BTreeMap<_, _> = said.iter().map(|of| ((of.shard, &*of.node), of)).collect();
    let jobs: BTreeMap<_, _> = figures.workers.iter().map(|of| ((of.shard, of.worker), of.jobs)).collect();
    let all: u64 = jobs.values().sum();
    let row = |worker: tenure_pool::WorkerInfo| {
        let own = jobs.get(&(worker.shard, worker.id)).copied();
        let of = said.get(&(worker.shard, &*worker.node));
        let counts = of.and_then(|of| of.workers.iter().find(|counts| counts.worker == worker.id));
        let (host, version) = (of.map(|of| of.host.clone()), of.map(|of| of.version.clone()));
        let (held, stuck) = (counts.map(|counts| counts.held), counts.map(|counts| counts.stuck));
        WorkerRow {
            shard: worker.shard,
            worker: worker.id.0,
            node: worker.node,
            state: worker.state,
            cordoned: worker.cordoned,
            slot: worker.slot,
            jobs: own,
            share_percent: own.filter(|_| all > 0).map(|own| percent(own, all)),
            host,
            version,
            held,
            stuck,
            meta: worker.meta,
            level: worker.level,
            address: worker.address,
        }
    };
    Ok(workers.into_iter().map(row).collect())
}

/// A part in percent, with one digit behind the point.
#[allow(clippy::cast_precision_loss, reason = "it is shown with one digit")]
pub(crate) fn percent(part: u64, whole: u64) -> f64 {
    (1_000.0 * part as f64 / whole.max(1) as f64).round() / 10.0
}

impl Workers {
    pub(crate) async fn run(self, session: &mut Session) -> Result<Code, Failure> {
        let pool = session.place()?.inspector().await?;
        let Self { node, watch } = self;
        watch
            .run(session, async |session| {
                let rows = workers(&pool).await?;
                let wanted =
                    rows.into_iter().filter(|row| node.as_ref().is_none_or(|node| row.node == *node));
                List::print(&mut session.out, wanted)?;
                Ok(Code::Done)
            })
            .await
    }
}

/// List the nodes that have workers
#[derive(Args, Debug)]
pub(crate) struct Nodes {
    #[command(flatten)]
    watch: Watch,
}

#[derive(Serialize)]
struct NodeRow {
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
    fn hear(&mut self, status: NodeStatus) {
        let NodeStatus { host, pid, version, up, workers, .. } = status;
        (self.host, self.pid, self.version) = (Some(host), Some(pid), Some(version));
        self.up_ms = Some(u64::try_from(up.as_millis()).unwrap_or(u64::MAX));
        self.starting += workers.iter().map(|worker| worker.to_start).sum::<u64>();
        self.stuck += workers.iter().map(|worker| worker.stuck).sum::<u64>();
    }
}

impl Nodes {
    pub(crate) async fn run(self, session: &mut Session) -> Result<Code, Failure> {
        let pool = session.place()?.inspector().await?;
        self.watch
            .run(session, async |session| {
                let rows = workers(&pool).await?;
                let all: u64 = rows.iter().filter_map(|row| row.jobs).sum();
                let mut nodes: BTreeMap<String, NodeRow> = BTreeMap::new();
                for row in rows {
                    let node = nodes.entry(row.node.clone()).or_insert_with(|| NodeRow {
                        node: row.node.clone(),
                        workers: 0,
                        up: 0,
                        draining: 0,
                        cordoned: row.cordoned,
                        jobs: 0,
                        share_percent: 0.0,
                        host: None,
                        pid: None,
                        version: None,
                        up_ms: None,
                        starting: 0,
                        stuck: 0,
                        level: row.level,
                        address: row.address.clone(),
                    });
                    node.workers += 1;
                    node.up += usize::from(row.state == MemberState::Up);
                    node.draining += usize::from(row.state == MemberState::Draining);
                    node.jobs += row.jobs.unwrap_or_default();
                }
                for status in pool.statuses().await? {
                    if let Some(node) = nodes.get_mut(&status.node) {
                        node.hear(status);
                    }
                }
                let rows = nodes
                    .into_values()
                    .map(|node| NodeRow { share_percent: percent(node.jobs, all), ..node });
                List::print(&mut session.out, rows)?;
                Ok(Code::Done)
            })
            .await
    }
}

/// Show the slots of the ring, or where a key belongs
#[derive(Args, Debug)]
pub(crate) struct Ring {
    /// The workers that are asked for this key in turn, the home first
    #[arg(long, value_parser = KeyArg)]
    key: Option<JobKey>,
    #[command(flatten)]
    watch: Watch,
}

#[derive(Serialize)]
struct Seat {
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

impl Ring {
    pub(crate) async fn run(self, session: &mut Session) -> Result<Code, Failure> {
        let pool = session.place()?.inspector().await?;
        let Self { key, watch } = self;
        watch
            .run(session, async |session| {
                let (rings, workers) = (pool.rings().await?, pool.workers().await?);
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
                let mut rows = Vec::new();
                if let Some(key) = &key {
                    let shard = pool.shard_of(key)?;
                    let chain = rings.get(shard).map(|ring| ring.chain(key)).unwrap_or_default();
                    rows.extend(
                        chain.into_iter().enumerate().map(|(at, worker)| place(shard, at + 1, Some(worker))),
                    );
                } else {
                    for ring in &rings {
                        let slots = ring.slots().into_iter().enumerate();
                        rows.extend(slots.map(|(slot, worker)| place(ring.shard(), slot, worker)));
                    }
                }
                List::print(&mut session.out, rows)?;
                Ok(Code::Done)
            })
            .await
    }
}
