//! `serve-demo`: 200 tenants on a private Redis, nodes that come and go, queues of background jobs, and the page of
//! `tenure serve` over all of it. It runs until Ctrl-C.

use std::collections::VecDeque;
use std::error::Error;
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::{Parser, Subcommand};
use tenure_connection::Client;
use tenure_examples::PATIENCE;
use tenure_examples::feeds::tenants;
use tenure_jobs::{Ctx, Fatal, Jobs, Queue};
use tenure_pool::{BoxError, Job, Node, RestartPolicy};
use tenure_testing::{ChildProcess, RedisServer, end_with_parent};
use tokio::process::Command;
use tokio::time::sleep;

const POOL: &str = "feeds";
const SET: &str = "shop";
/// How many nodes there are at a time, and how many workers each has.
const NODES: usize = 4;
const WORKERS: usize = 2;
/// From one replacement of a node to the next.
const TURN: Duration = Duration::from_secs(45);
/// How many jobs a node hands on at a time.
const HANDOFFS: usize = 3;
/// The time in which a node must leave.
const BUDGET: Duration = Duration::from_secs(40);

type Result<T> = std::result::Result<T, Box<dyn Error>>;

/// A pool to look at: 200 tenants, nodes that come and go, and the page of `tenure serve`.
#[derive(Debug, Parser)]
#[command(name = "serve-demo", args_conflicts_with_subcommands = true)]
struct Cli {
    #[command(subcommand)]
    part: Option<Part>,
    /// The command `tenure`.
    #[arg(long, default_value = "tenure")]
    tenure: PathBuf,
    /// Where the page is served.
    #[arg(long, default_value = "127.0.0.1:7450")]
    listen: String,
    /// The tenants, as CSV.
    #[arg(long, default_value = concat!(env!("CARGO_MANIFEST_DIR"), "/data/tenants.csv"))]
    tenants: PathBuf,
}

#[derive(Debug, Subcommand)]
enum Part {
    /// A node, which says in a line that it is ready, and ends with its parent.
    #[command(hide = true)]
    Node {
        name: String,
        #[arg(long, env = "REDIS_URL", hide_env_values = true)]
        redis: String,
    },
}

#[tokio::main]
async fn main() -> Result<()> {
    tenure_testing::logging::to_stderr();
    let cli = Cli::parse();
    match cli.part {
        Some(Part::Node { name, redis }) => node(&name, &redis).await,
        None => demo(&cli).await,
    }
}

async fn join(url: &str, name: &str) -> Result<Node> {
    // The demo has just started the server.
    let builder = Node::builder(POOL, Client::open(url)?).name(name).assume_fresh(true);
    // Slow enough to be seen.
    Ok(builder.handoff_parallel(HANDOFFS).join().await?)
}

/// A tenant's feed. Its payload says what becomes of it.
async fn feed(job: Job) -> std::result::Result<(), BoxError> {
    if job.payload().as_ref() == b"refused" {
        return Err("the exchange refuses the login".into());
    }
    job.cancelled().await;
    // A connection takes its time to close. Each tenant has its own, so that a drain is seen.
    let own: u64 = job.key().as_bytes().iter().map(|byte| u64::from(*byte)).sum();
    sleep(Duration::from_millis(500 + own * 37 % 8_000)).await;
    Ok(())
}

async fn node(name: &str, url: &str) -> Result<()> {
    end_with_parent();
    let node = join(url, name).await?;
    let told_to_end = node.close_on_signal(BUDGET);
    for _ in 0..WORKERS {
        node.add_worker(tenure_pool::run(feed)).await?;
    }
    println!("ready");
    told_to_end.await?.exit()
}

struct Fleet {
    url: String,
    started: usize,
    running: VecDeque<ChildProcess>,
}

impl Fleet {
    async fn add(&mut self) -> Result<()> {
        self.started += 1;
        let name = format!("feeds-{}", self.started);
        let mut child = ChildProcess::of_this_program(&name, ["node", &name], &[("REDIS_URL", &self.url)])?;
        child.line(PATIENCE).await?;
        self.running.push_back(child);
        Ok(())
    }
}

async fn demo(cli: &Cli) -> Result<()> {
    let redis = RedisServer::start()?;
    let client = join(&redis.url(), "conductor").await?;
    let mut fleet = Fleet { url: redis.url(), started: 0, running: VecDeque::new() };
    for _ in 0..NODES {
        fleet.add().await?;
    }
    dispatch(&client, &cli.tenants).await?;
    let _jobs = background(&redis.url()).await?;

    let mut command = Command::new(&cli.tenure);
    command.args(["serve", "--show-payloads", "--pool", POOL, "--queues", SET, "--listen", &cli.listen]);
    let mut page = ChildProcess::start("tenure serve", {
        command.env("REDIS_URL", redis.url());
        command
    })?;
    // Each turn a new node takes the place of the oldest one, so there is something to see.
    let turns = async {
        loop {
            sleep(TURN).await;
            fleet.add().await?;
            if let Some(mut oldest) = fleet.running.pop_front() {
                oldest.leave(PATIENCE).await?;
            }
        }
    };
    tokio::select! {
        ended = turns => ended,
        status = page.ended(Duration::MAX) => Err(format!("tenure serve has ended: {}", status?).into()),
        _ = tokio::signal::ctrl_c() => Ok(()),
    }
}

async fn dispatch(client: &Node, tenants: &Path) -> Result<()> {
    let tenants = tenants::load(tenants)?;
    for (at, tenant) in tenants.iter().enumerate() {
        let payload = if at % 67 == 5 { "refused".to_owned() } else { serde_json::to_string(tenant)? };
        let spec = tenure_pool::JobSpec::new(tenant.id.clone(), payload).restart(RestartPolicy::OnFailure);
        client.submit(spec).await?;
    }
    for (at, tenant) in tenants.iter().enumerate() {
        match at % 50 {
            7 => client.operate().park(tenant.id.clone(), "sends rubbish, ticket 1742").await?,
            30 => client.operate().park(tenant.id.clone(), "the contract has ended").await?,
            _ => {}
        }
    }
    Ok(())
}

/// Queues in which jobs wait, run and fail.
async fn background(url: &str) -> Result<(Jobs, Vec<tenure_jobs::Worker>)> {
    let queues = ["mail", "thumbnails", "invoices"].map(|name| Queue::new(name).attempts(1));
    let mut builder = Jobs::builder(SET, Client::open(url)?);
    for queue in queues {
        builder = builder.queue(queue);
    }
    let jobs = builder.join().await?;
    let hour = Duration::from_secs(3_600);
    jobs.add_many("mail", 0..250).await?;
    for n in 0..40 {
        jobs.add("mail", &n).delay(hour).await?;
    }
    jobs.add_many("thumbnails", 0..30).await?;
    jobs.add_many("invoices", 0..7).await?;
    let slow = async |ctx: Ctx, _: u32| {
        tokio::select! {
            () = ctx.cancelled() => {}
            () = sleep(Duration::from_secs(20)) => {}
        }
        Ok(())
    };
    let fails = async |_: Ctx, _: u32| Err::<(), BoxError>(Fatal::new("the customer is unknown").into());
    let workers = vec![
        jobs.worker("mail", slow).slots(8).start()?,
        jobs.worker("thumbnails", slow).slots(4).start()?,
        jobs.worker("invoices", fails).start()?,
    ];
    Ok((jobs, workers))
}
