//! `jobs-on-pool`: the orders of a tenant, in order, on the process that has the tenant's book in memory. One process leaves,
//! and another one is killed.

use std::env;
use std::sync::Arc;
use std::time::Duration;

use tenure_connection::Connection;
use tenure_examples::PATIENCE;
use tenure_jobs::{Backoff, BoxError, Client, Ctx, Groups, Jobs, Queue, on_pool};
use tenure_pool::{Job, Node, NodeBuilder};
use tenure_testing::{ChildProcess, Endpoint, Failure, end_with_parent, within};
use tokio::process::Command;
use tokio::sync::Mutex;

const POOL: &str = "example-shops";
const SET: &str = "example-orders";
const TENANTS: [&str; 4] = ["acme", "globex", "initech", "umbrella"];
/// A process that is silent for this long is taken for dead.
const TTL: Duration = Duration::from_secs(2);

/// Writes a line behind the others, unless the book knows a later owner.
const WRITE: &str = "
    if tonumber(redis.call('GET', KEYS[2]) or 0) > tonumber(ARGV[1]) then return 0 end
    redis.call('SET', KEYS[2], ARGV[1])
    return redis.call('RPUSH', KEYS[1], ARGV[2])";

/// The orders of a tenant, as they were done. The one who has the tenant keeps it in memory.
struct Book {
    redis: Connection,
    tenant: String,
    /// The owner's fencing token: the world outside refuses a lower one.
    token: u64,
    orders: Vec<u32>,
}

impl Book {
    async fn open(redis: Connection, job: &Job) -> Result<Self, BoxError> {
        let (tenant, token) = (job.key().to_string(), job.token().0);
        let orders = lines(&redis, &tenant).await?.into_iter().map(|(order, _)| order).collect();
        Ok(Self { redis, tenant, token, orders })
    }

    async fn write(&mut self, order: u32, by: &str) -> Result<(), BoxError> {
        // A run that was cut off after its line was written: the memory knows.
        if self.orders.contains(&order) {
            return Ok(());
        }
        let mut write = redis::cmd("EVAL");
        write.arg(WRITE).arg(2).arg(book(&self.tenant)).arg(book(&self.tenant) + ":token");
        write.arg(self.token).arg(format!("{order} {by}"));
        if self.redis.command(&write).await? == redis::Value::Int(0) {
            return Err("another process has this tenant by now".into());
        }
        self.orders.push(order);
        Ok(())
    }
}

fn book(tenant: &str) -> String {
    format!("example:book:{{{tenant}}}")
}

/// The orders of a tenant's book, and by whom they were done.
async fn lines(redis: &Connection, tenant: &str) -> Result<Vec<(u32, String)>, BoxError> {
    let mut range = redis::cmd("LRANGE");
    let found = redis.command(range.arg(book(tenant)).arg(0).arg(-1)).await?;
    let lines: Vec<String> = redis::from_redis_value(found)?;
    let read =
        |line: &String| Some((line.split_once(' ')?.0.parse().ok()?, line.split_once(' ')?.1.to_owned()));
    lines
        .iter()
        .map(|line| read(line).ok_or_else(|| format!("{line:?} is no line of a book").into()))
        .collect()
}

async fn join(client: &Client, name: &str) -> Result<Jobs, tenure_jobs::Error> {
    let orders = Queue::new("orders")
        .pinned(Groups::new())
        .lease(Duration::from_secs(3))
        .backoff(Backoff::none())
        .attempts(0);
    Jobs::builder(SET, client.clone()).name(name).queue(orders).join().await
}

/// A node of the pool: all of them have the same settings.
fn member(client: &Client, name: &str) -> NodeBuilder {
    let builder = Node::builder(POOL, client.clone()).name(name).worker_ttl(TTL);
    builder.join_settle(Duration::from_millis(100))
}

/// A process that has the tenants that the pool gives it, until it is told to end.
async fn process(url: &str, name: &str) -> Result<(), Failure> {
    end_with_parent();
    let client = Client::open(url)?;
    let jobs = join(&client, name).await?;
    let node = member(&client, name).join().await?;
    let (own, redis, name) = (jobs.clone(), client.commands(), name.to_owned());
    node.add_worker(on_pool(move |job: Job| {
        let (jobs, redis, name) = (own.clone(), redis.clone(), name.clone());
        async move {
            let book = Arc::new(Mutex::new(Book::open(redis, &job).await?));
            Ok(jobs.worker("orders", move |_: Ctx, order: u32| {
                let (book, name) = (book.clone(), name.clone());
                async move {
                    tokio::time::sleep(Duration::from_millis(2)).await;
                    book.lock().await.write(order, &name).await
                }
            }))
        }
    }))
    .await?;
    // Its tenants move, each between two orders.
    node.close_on_signal(PATIENCE).await?;
    jobs.close();
    Ok(())
}

fn start(url: &str, name: &str) -> Result<ChildProcess, Failure> {
    let mut command = Command::new(env::current_exe()?);
    command.args([url, name]);
    Ok(ChildProcess::start(name, command)?)
}

/// Adds orders to each tenant.
async fn order(jobs: &Jobs, orders: std::ops::RangeInclusive<u32>) -> Result<(), Failure> {
    for order in orders {
        for tenant in TENANTS {
            jobs.add("orders", &order).group(tenant).await?;
        }
    }
    Ok(())
}

/// Waits until each book has this number of lines.
async fn written(redis: &Connection, count: usize) -> Result<(), Failure> {
    for tenant in TENANTS {
        within(PATIENCE, "the orders to be in the book", async || {
            lines(redis, tenant).await.is_ok_and(|lines| lines.len() >= count)
        })
        .await?;
    }
    println!("each book has {count} orders");
    Ok(())
}

async fn clear(redis: &Connection) -> Result<(), Failure> {
    for tenant in TENANTS {
        let mut del = redis::cmd("DEL");
        redis.command(del.arg(book(tenant)).arg(book(tenant) + ":token")).await?;
    }
    Ok(())
}

async fn story(redis: &Endpoint) -> Result<(), Failure> {
    let (url, private) = (redis.url(), redis.private().is_some());
    let client = Client::open(url)?;
    let redis = client.commands();
    clear(&redis).await?;
    let jobs = join(&client, "shop").await?;
    let node = member(&client, "shop").assume_fresh(private).join().await?;
    let mut anna = start(url, "anna")?;
    let mut bert = start(url, "bert")?;
    for tenant in TENANTS {
        node.ensure((tenant, "")).await?;
    }
    println!("anna and bert have the tenants, and 20 orders of each come");
    order(&jobs, 1..=20).await?;
    written(&redis, 20).await?;

    println!("anna leaves, cleo comes, and 20 more");
    let mut cleo = start(url, "cleo")?;
    let (left, ordered) = tokio::join!(anna.leave_well(PATIENCE), order(&jobs, 21..=40));
    left?;
    ordered?;
    written(&redis, 40).await?;

    println!("bert is killed while 20 more come");
    let (killed, ordered) = tokio::join!(bert.kill(), order(&jobs, 41..=60));
    killed?;
    ordered?;
    written(&redis, 60).await?;

    for tenant in TENANTS {
        let lines = lines(&redis, tenant).await.map_err(|error| error.to_string())?;
        let in_order = lines.iter().map(|(order, _)| *order).eq(1..=60);
        let by = lines.last().map_or("nobody", |(_, by)| by);
        println!(
            "{tenant}: {}, the last one by {by}",
            if in_order { "1 to 60 in order" } else { "out of order" }
        );
    }
    for tenant in TENANTS {
        node.stop_job(tenant).await?;
    }
    cleo.leave_well(PATIENCE).await?;
    node.operate().shutdown().await?;
    jobs.close();
    clear(&redis).await
}

#[tokio::main]
async fn main() -> Result<(), Failure> {
    let words: Vec<String> = env::args().skip(1).collect();
    match &words[..] {
        [url, name] => process(url, name).await,
        [] => story(&Endpoint::from_env()?).await,
        _ => Err("usage: jobs-on-pool".into()),
    }
}
