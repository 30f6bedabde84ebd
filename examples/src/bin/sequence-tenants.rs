//! `sequence-tenants`: an event log per tenant in a Redis stream, and a consumer per tenant, pinned by a pool. A deploy moves
//! the consumers while events come.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use tenure_examples::PATIENCE;
use tenure_pool::{Client, Job, Node, RestartPolicy};
use tenure_sequence::{BoxError, Consumer, Delivery, Progress, RedisLogs, RedisProgress, on_pool};
use tenure_testing::{Endpoint, Failure, within};

const POOL: &str = "example-projections";
const TENANTS: [&str; 4] = ["acme", "globex", "initech", "umbrella"];
const EVENTS: usize = 20;

/// The tenant, the index and the node of each event, in the order of handling.
type Lines = Vec<(String, u64, &'static str)>;

/// The world outside: which node has handled which event of which tenant.
#[derive(Clone, Default)]
struct Ledger(Arc<Mutex<Lines>>);

impl Ledger {
    fn add(&self, tenant: &str, index: u64, node: &'static str) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push((tenant.to_owned(), index, node));
    }

    fn lines(&self) -> Lines {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// How many of these events this node has handled.
    fn of(&self, node: &str, events: impl Fn(u64) -> bool) -> usize {
        self.lines().iter().filter(|(_, index, by)| *by == node && events(*index)).count()
    }
}

/// A node whose worker runs a consumer for each tenant that the pool gives it.
async fn serve(
    redis: &Endpoint,
    name: &'static str,
    logs: &RedisLogs,
    ledger: &Ledger,
) -> Result<Node, Failure> {
    let settle = Duration::from_millis(100);
    let builder = Node::builder(POOL, Client::open(redis.url())?).name(name).join_settle(settle);
    let node = builder.assume_fresh(redis.private().is_some()).join().await?;
    let (logs, ledger) = (logs.clone(), ledger.clone());
    let handler = on_pool(move |job: Job| {
        let (logs, ledger) = (logs.clone(), ledger.clone());
        async move {
            let tenant = job.key().to_string();
            // With the token a former owner of the tenant can no longer move its progress.
            let progress = logs.progress(&*tenant)?.fenced(job.token().0);
            let builder = Consumer::builder(logs.log(&*tenant)?, progress).name(&*tenant).concurrency(4);
            // Events that are being handled when the tenant moves may end, and count.
            let builder = builder.grace(Duration::from_secs(10));
            let handle = move |event: Delivery<Bytes>| {
                let (tenant, ledger) = (tenant.clone(), ledger.clone());
                async move {
                    tokio::time::sleep(Duration::from_millis(event.index() % 3)).await;
                    ledger.add(&tenant, event.index(), name);
                    Ok::<_, BoxError>(())
                }
            };
            Ok(builder.build(handle)?)
        }
    });
    node.add_worker(handler).await?;
    Ok(node)
}

async fn append(logs: &RedisLogs, many: usize) -> Result<(), Failure> {
    for tenant in TENANTS {
        logs.log(tenant)?.append((0..many).map(|number| format!("event {number}"))).await?;
    }
    Ok(())
}

/// Waits until the progress of each tenant is this.
async fn stored(progress: &[RedisProgress], wanted: u64) -> Result<(), Failure> {
    for progress in progress {
        within(PATIENCE, "the events to be done", async || {
            progress.load().await.is_ok_and(|stored| stored == Some(wanted))
        })
        .await?;
    }
    Ok(())
}

/// Looks at the stored progress all the time, and counts how often one goes back.
async fn watch(progress: Vec<RedisProgress>, back: Arc<Mutex<u32>>) {
    let mut highest = BTreeMap::new();
    loop {
        for (at, progress) in progress.iter().enumerate() {
            if let Ok(stored) = progress.load().await {
                let before = highest.insert(at, stored);
                if before.is_some_and(|before| before > stored) {
                    *back.lock().unwrap_or_else(PoisonError::into_inner) += 1;
                }
            }
        }
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
}

/// Deletes all logs and progresses.
async fn clear(logs: &RedisLogs) -> Result<(), Failure> {
    for tenant in TENANTS {
        logs.log(tenant)?.destroy().await?;
        logs.progress(tenant)?.forget().await?;
    }
    Ok(())
}

#[tokio::main]
async fn main() -> Result<(), Failure> {
    let redis = Endpoint::from_env()?;
    let logs = RedisLogs::open(&Client::open(redis.url())?, POOL)?;
    clear(&logs).await?;
    let ledger = Ledger::default();
    let progress = TENANTS.map(|tenant| logs.progress(tenant));
    let progress = progress.into_iter().collect::<Result<Vec<_>, _>>()?;
    let back = Arc::new(Mutex::new(0));
    let watching = tokio::spawn(watch(progress.clone(), back.clone()));

    let old = serve(&redis, "old", &logs, &ledger).await?;
    append(&logs, EVENTS).await?;
    println!("acme, globex, initech and umbrella have {EVENTS} events each");
    for tenant in TENANTS {
        old.ensure((tenant, "")).restart(RestartPolicy::OnFailure).await?;
    }
    stored(&progress, 20).await?;
    println!("the old node has done {} events", ledger.of("old", |_| true));

    println!("the new node joins, the old one leaves, and {EVENTS} more events come to each");
    let new = serve(&redis, "new", &logs, &ledger).await?;
    let (closed, appended) = tokio::join!(old.close(), async {
        for _ in 0..EVENTS {
            append(&logs, 1).await?;
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
        Ok::<_, Failure>(())
    });
    closed?;
    appended?;
    stored(&progress, 40).await?;
    println!("the old node has left, and {EVENTS} more events come to each");
    append(&logs, EVENTS).await?;
    stored(&progress, 60).await?;

    let lines = ledger.lines();
    for tenant in TENANTS {
        let of_tenant = lines.iter().filter(|(of, ..)| of == tenant);
        let mut indexes: Vec<_> = of_tenant.map(|(_, index, _)| *index).collect();
        let runs = indexes.len();
        indexes.sort_unstable();
        indexes.dedup();
        let skipped = (1..=60).filter(|index| !indexes.contains(index)).count();
        println!("{tenant}: {} events, {skipped} skipped, {} twice", indexes.len(), runs - indexes.len());
    }
    watching.abort();
    let back = *back.lock().unwrap_or_else(PoisonError::into_inner);
    println!("the stored progress went back {back} times, and is 60 60 60 60");
    println!("the new node has done the last {} events", ledger.of("new", |index| index > 40));
    new.operate().shutdown().await?;
    clear(&logs).await
}
