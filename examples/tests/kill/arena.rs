//! The nodes, their faults, and the judges' findings.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::path::PathBuf;
use std::thread;
use std::time::Duration;

use futures::future::try_join_all;
use rand::Rng;
use tempfile::TempDir;
use tenure_connection::Client;
use tenure_examples::feeds::judge::Fencing;
use tenure_examples::feeds::node::{Timings, WORKERS, join};
use tenure_examples::feeds::server::FeedServer;
use tenure_examples::feeds::session::{Control, Session, SessionError};
use tenure_examples::feeds::stats::{Move, Stats};
use tenure_examples::feeds::tenants::Tenant;
use tenure_examples::feeds::view::View;
use tenure_examples::feeds::wire::Hello;
use tenure_pool::Node;
use tenure_testing::history::{Event, Expect, History, Report, boottime_ns, check};
use tenure_testing::{ChildProcess, RedisServer, eventually};
use tokio::time::{Instant, sleep_until};

use crate::fault::{Fault, LONG_PAUSE, SHORT_PAUSE, TTL_MS};
use crate::process::{self, PATIENCE, workers};

const POOL: &str = "feeds";
const TENANTS: usize = 40;
const NODES: usize = 3;
const TIMINGS: Timings = Timings { ttl_ms: TTL_MS, join_settle_ms: 100, stable_after_ms: 50 };
/// Longer than the feed server takes to hear of a connection's end.
const QUIET: Duration = Duration::from_millis(10 * TIMINGS.stable_after_ms);

/// Everything that runs. The nodes end before the servers.
pub(crate) struct Arena {
    nodes: Vec<ChildProcess>,
    started: usize,
    node: Node,
    tenants: BTreeSet<String>,
    control: Control,
    feed: FeedServer,
    redis: RedisServer,
    history: History,
    late_messages: u64,
    dir: TempDir,
}

impl Arena {
    /// Starts everything, and returns when every tenant is connected.
    pub(crate) async fn open() -> Self {
        let redis = RedisServer::start().unwrap();
        let feed = FeedServer::start(Fencing::Enforced).await.unwrap();
        let dir = tempfile::tempdir().unwrap();
        let client = Client::open(&redis.url()).unwrap();
        let mut arena = Self {
            nodes: Vec::new(),
            started: 0,
            node: join(client.into(), POOL, "conductor", &TIMINGS).await.unwrap(),
            tenants: (1..=TENANTS).map(|number| format!("tenant-{number}")).collect(),
            control: Control::new(feed.address()),
            feed,
            redis,
            history: History::append_to(dir.path().join("history")).unwrap(),
            late_messages: 0,
            dir,
        };
        for _ in 0..NODES {
            arena.join().await;
        }
        for tenant in &arena.tenants {
            arena.history.submitted(tenant);
            arena.node.submit((tenant, payload(tenant))).await.unwrap();
            arena.history.accepted(tenant);
        }
        arena.settle("the beginning").await;
        arena
    }

    /// The number of nodes.
    pub(crate) fn size(&self) -> usize {
        self.nodes.len()
    }

    /// Inflicts a fault on random nodes. Returns when every tenant is connected again, with the moves.
    pub(crate) async fn suffer(&mut self, round: &str, fault: Fault, random: &mut impl Rng) -> Vec<Move> {
        self.control.mark().await.unwrap();
        match fault {
            Fault::Kill => self.kill(1, random).await,
            Fault::KillTwo => self.kill(2, random).await,
            Fault::Drain => self.drain(random).await,
            Fault::Join => self.join().await,
            Fault::ShortPause => {
                let index = random.random_range(0..self.nodes.len());
                self.pause(index, SHORT_PAUSE).await;
            }
            Fault::LongPause => {
                let index = random.random_range(0..self.nodes.len());
                let held = self.pause(index, LONG_PAUSE).await;
                self.settle(round).await;
                self.assert_fenced(&held).await;
            }
        }
        self.settle(round).await.moves
    }

    async fn join(&mut self) {
        self.started += 1;
        // A new name each time: another life of a node is another worker in the history.
        let name = format!("node-{}", self.started);
        let args = [
            format!("--pool={POOL}"),
            format!("--feed={}", self.feed.address()),
            format!("--history={}", self.history_path().display()),
            format!("--ttl-ms={}", TIMINGS.ttl_ms),
            format!("--join-settle-ms={}", TIMINGS.join_settle_ms),
            format!("--stable-after-ms={}", TIMINGS.stable_after_ms),
        ];
        let log = self.dir.path().join(format!("{name}.log"));
        self.nodes.push(process::start(&name, &args, &self.redis.url(), &log).await);
    }

    async fn kill(&mut self, count: usize, random: &mut impl Rng) {
        let mut victims: Vec<_> = (0..count).map(|_| self.take(random)).collect();
        try_join_all(victims.iter_mut().map(ChildProcess::kill)).await.unwrap();
        for victim in &victims {
            workers(victim).for_each(|worker| self.history.worker_dead(&worker));
        }
    }

    async fn drain(&mut self, random: &mut impl Rng) {
        let mut node = self.take(random);
        node.leave_well(PATIENCE).await.unwrap();
        workers(&node).for_each(|worker| self.history.worker_dead(&worker));
    }

    /// Pauses a node for this long. Returns the tokens that it held while it was paused.
    async fn pause(&self, index: usize, length: Duration) -> BTreeMap<String, u64> {
        let node = &self.nodes[index];
        node.pause().unwrap();
        let end = Instant::now() + length;
        workers(node).for_each(|worker| self.history.paused(&worker));
        let held = self.look(Stats::default()).await;
        let held = held.jobs.into_iter().filter(|(_, job)| job.node.as_deref() == Some(node.name()));
        let held = held.map(|(tenant, job)| (tenant, job.token)).collect();
        sleep_until(end).await;
        workers(node).for_each(|worker| self.history.resumed(&worker));
        node.resume().unwrap();
        held
    }

    /// Asserts that tenants under these tokens have passed to higher ones, and that late messages under the old ones
    /// are refused.
    async fn assert_fenced(&mut self, held: &BTreeMap<String, u64>) {
        let view = self.look(Stats::default()).await;
        for (tenant, &token) in held {
            let now = view.jobs[tenant].token;
            assert!(now > token, "{tenant} has token {now}, and the paused node had {token}");
            let hello = Hello {
                tenant: tenant.clone(),
                token,
                node: "late".into(),
                worker: "late/0".into(),
                symbol: "LATE".into(),
            };
            let late = Session::open(self.feed.address(), hello).await;
            assert!(matches!(late, Err(SessionError::Stale { .. })), "{tenant}, token {token}: {late:?}");
            self.late_messages += 1;
        }
    }

    async fn look(&self, stats: Stats) -> View {
        View::new(
            stats,
            &self.node.inspect().workers().await.unwrap(),
            &self.node.inspect().jobs().await.unwrap(),
        )
    }

    /// Waits until every tenant is connected, under the token and from the node that the pool names. Every node must be
    /// complete, and no dead one may be left.
    async fn settle(&mut self, when: &str) -> Stats {
        eventually(PATIENCE, when, async || self.settled().await).await
    }

    async fn settled(&mut self) -> Result<Stats, String> {
        let nodes: Vec<_> = self.nodes.iter().map(|node| node.name().to_owned()).collect();
        let stats = self.control.stats().await.map_err(|error| error.to_string())?;
        let view = self.look(stats).await;
        view.unsettled(&self.tenants, &nodes, WORKERS).map_or(Ok(view.stats), Err)
    }

    /// A moment at which every tenant was connected, and the judge's figures of some time later. No connection was made
    /// or ended from [`QUIET`] before the moment until [`QUIET`] after the moment: no job was about to move.
    async fn rest(&mut self) -> (u64, Stats) {
        eventually(PATIENCE, "the end", async || {
            let began = Instant::now();
            sleep_until(began + QUIET).await;
            let at = boottime_ns();
            sleep_until(began + 2 * QUIET).await;
            let stats = self.settled().await?;
            // From before the first moment to after the answer: no change can hide between them.
            if u128::from(stats.quiet_ms) < began.elapsed().as_millis() {
                return Err("a connection was made or ended".to_owned());
            }
            Ok((at, stats))
        })
        .await
    }

    /// Lets the pool come to rest, and asks the judges.
    pub(crate) async fn judge(&mut self) -> Verdict {
        let (at, stats) = self.rest().await;
        self.history.record_at(at, Event::Settled);
        // A pause shortens a lease by the time that had passed of it: up to one renewal interval.
        let lease = Some(TIMINGS.ttl() * 4 / 5);
        let history = History::load(self.history_path()).unwrap();
        // The nodes go on while the history is read. So its last entry may be of a job that moves.
        let expect = Expect { lease, grace: TIMINGS.ttl() / 5, running_at_end: false, ..Expect::default() };
        let report = check(&history, &expect);
        assert_eq!(report.keys, TENANTS, "every tenant stands in the history");
        Verdict { report, stats, late_messages: self.late_messages }
    }

    fn take(&mut self, random: &mut impl Rng) -> ChildProcess {
        self.nodes.swap_remove(random.random_range(0..self.nodes.len()))
    }

    fn history_path(&self) -> PathBuf {
        self.dir.path().join("history")
    }
}

impl Drop for Arena {
    fn drop(&mut self) {
        if thread::panicking() {
            self.dir.disable_cleanup(true);
            println!("the history and the logs of the nodes are in {}", self.dir.path().display());
        }
    }
}

fn payload(tenant: &str) -> Vec<u8> {
    let tenant = Tenant {
        id: tenant.to_owned(),
        name: tenant.to_owned(),
        region: "eu".to_owned(),
        symbol: "TEN".to_owned(),
    };
    serde_json::to_vec(&tenant).unwrap()
}

/// The judges' findings.
pub(crate) struct Verdict {
    report: Report,
    stats: Stats,
    late_messages: u64,
}

impl Verdict {
    /// Ends the test after any fault.
    pub(crate) fn assert_clean(&self) {
        assert_eq!(self.stats.duplicates, [], "two connections of one tenant acted");
        assert_eq!(self.stats.stale_accepted, 0, "a message with an old token had an effect");
        assert!(self.stats.refused >= self.late_messages, "late messages were refused");
        self.report.assert_clean();
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Stats { duplicates, refused, stale_accepted, .. } = &self.stats;
        let own = refused.saturating_sub(self.late_messages);
        writeln!(f, "history: {}", self.report)?;
        writeln!(f, "feed server: {} duplicates, {stale_accepted} stale tokens accepted", duplicates.len())?;
        write!(f, "refused: {own} messages of the nodes, {} sent late in their name", self.late_messages)
    }
}
