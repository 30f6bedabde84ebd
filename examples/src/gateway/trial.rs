//! The self-test: three nodes and a front under load. One node leaves, one is killed, and the third is left.

use std::error::Error;
use std::ffi::OsString;
use std::time::{Duration, Instant};

use futures::future::try_join_all;
use tenure_connection::Client;
use tenure_testing::{ChildProcess, RedisServer, within};
use tokio::net::TcpListener;
use tokio::task::JoinSet;
use tokio::time::sleep;

use super::front::Front;
use super::load::{Load, Seen};
use super::resource::Resource;
use super::verdict::Verdict;
use crate::PATIENCE;

/// A lost worker is noticed after about this time. Until then its tenants have no owner.
const TTL: Duration = Duration::from_secs(2);
/// The load before, between and after the two events.
const STRETCH: Duration = Duration::from_secs(3);
/// Conversations with tenants of each of the two nodes that go.
const TALKS: usize = 4;
const LEAVES: &str = "anna";
const IS_KILLED: &str = "bert";
const STAYS: &str = "cleo";

/// The size of the self-test.
#[derive(Clone, Copy, Debug)]
pub struct Plan {
    /// Tenants, a job each.
    pub tenants: usize,
    /// Clients, each with one request at a time.
    pub clients: usize,
}

/// Runs the self-test on a private Redis, and reports its progress.
///
/// # Errors
/// There is nothing to judge: Redis or a process did not start, or a node did not leave in order.
///
/// # Cancel safety
/// All processes end when the future is dropped.
pub async fn run(plan: Plan, say: impl Fn(&str)) -> Result<Verdict, Box<dyn Error>> {
    let redis = RedisServer::start()?;
    let mut nodes = try_join_all([LEAVES, IS_KILLED, STAYS].map(|name| start(&redis, name))).await?;
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let address = listener.local_addr()?.to_string();
    // A request waits for as long as it takes: the trial shows that each gets its owner, and how long it took.
    let front = Front::join(&redis.url(), PATIENCE, false).await?;
    let serving = tokio::spawn(front.clone().serve(listener));
    let pool = front.node().inspect();
    within(PATIENCE, "all workers to be up", async || pool.workers().await.is_ok_and(|all| all.len() == 6))
        .await?;
    let tenants: Vec<_> = (0..plan.tenants).map(|number| format!("tenant-{number}")).collect();
    try_join_all(tenants.iter().map(|tenant| front.node().dispatch((&**tenant, "")).into_future())).await?;
    say(&format!("{} tenants run on 3 nodes behind http://{address}", plan.tenants));

    let load = Load::on(address);
    let mut clients = JoinSet::new();
    for _ in 0..plan.clients {
        clients.spawn(load.clone().ask(tenants.clone()));
    }
    let talks = of_each(&front, &tenants).await?;
    for tenant in &talks {
        clients.spawn(load.clone().talk(tenant.clone()));
    }
    sleep(STRETCH).await;
    let began = Instant::now();
    nodes[0].leave_well(PATIENCE).await?;
    say(&format!("{LEAVES} has left, after {} ms", began.elapsed().as_millis()));
    sleep(STRETCH).await;
    nodes[1].kill().await?;
    say(&format!("{IS_KILLED} is killed"));
    sleep(STRETCH).await;
    let silent = talks_without(&front, &load, &talks).await;
    load.end();
    while let Some(ended) = clients.join_next().await {
        ended?;
    }
    serving.abort();

    let written = Resource::on(&Client::open(&redis.url())?).orders().await?;
    let Seen { mut verdict, orders, .. } = std::mem::take(&mut *load.seen());
    for (order, answered) in orders.into_iter().enumerate() {
        let times = written.get(&order.to_string()).copied().unwrap_or(0);
        verdict.lost += u64::from(answered && times == 0);
        verdict.doubled += u64::from(times > 1);
    }
    (verdict.clients, verdict.silent) = (plan.clients, silent);
    nodes[2].leave_well(PATIENCE).await?;
    Ok(verdict)
}

async fn start(redis: &RedisServer, name: &str) -> Result<ChildProcess, Box<dyn Error>> {
    let ttl = TTL.as_millis().to_string();
    let args = ["node", name, "--ttl", &ttl, "--child"].map(OsString::from);
    let mut child = ChildProcess::of_this_program(name, args, &[("REDIS_URL", &redis.url())])?;
    child.line(PATIENCE).await?;
    Ok(child)
}

/// Some tenants of each of the two nodes that go.
async fn of_each(front: &Front, tenants: &[String]) -> Result<Vec<String>, Box<dyn Error>> {
    let mut chosen = Vec::new();
    for node in [LEAVES, IS_KILLED] {
        let before = chosen.len();
        for tenant in tenants {
            let owner = front.node().inspect().owner(tenant.as_str()).await?;
            if owner.and_then(|owner| owner.node).as_deref() == Some(node) {
                chosen.push(tenant.clone());
            }
            if chosen.len() - before == TALKS {
                break;
            }
        }
        if chosen.len() == before {
            return Err(format!("{node} runs no tenant").into());
        }
    }
    Ok(chosen)
}

/// The number of conversations that the owner of their tenant does not answer, after some patience.
async fn talks_without(front: &Front, load: &Load, talks: &[String]) -> usize {
    let began = Instant::now();
    loop {
        let mut without = 0;
        for tenant in talks {
            let owner = front.node().inspect().owner(tenant.as_str()).await.ok().flatten();
            let token = owner.filter(|owner| owner.node.as_deref() == Some(STAYS)).map(|owner| owner.token.0);
            let answered = load.seen().talks.get(tenant).copied();
            without += usize::from(token.is_none() || answered != token);
        }
        if without == 0 || began.elapsed() > PATIENCE {
            return without;
        }
        sleep(STRETCH / 30).await;
    }
}
