//! `pool-scheduler`: a table of tenants in a file changes while the program runs. Jobs follow it, whichever node plans.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde::{Deserialize, Serialize};
use tenure_examples::PATIENCE;
use tenure_pool::{BoxError, Client, Job, JobSpec, JobState, Node, Payload, Plan, Planner, Tick};
use tenure_testing::{Endpoint, Failure, within};

const POOL: &str = "example-scheduler";
/// The interval between looks at the table.
const EVERY: Duration = Duration::from_millis(50);

type Result<T> = std::result::Result<T, Failure>;

/// A row of the table.
#[derive(Debug, Serialize, Deserialize)]
struct Tenant {
    name: String,
    feed: String,
}

impl Payload for Tenant {
    const TYPE: &'static str = "example.tenant";
}

/// Plans a job for each tenant of the table, and no other.
struct Table {
    file: PathBuf,
    /// The node that planned last, and its error if it failed.
    last: Arc<Mutex<(String, Option<String>)>>,
    node: String,
}

impl Table {
    fn tenants(&self) -> std::result::Result<Vec<Tenant>, csv::Error> {
        csv::Reader::from_path(&self.file)?.deserialize().collect()
    }
}

impl Planner for Table {
    async fn plan(&self, _: Tick) -> std::result::Result<Plan, BoxError> {
        let tenants = self.tenants();
        let error = tenants.as_ref().err().map(ToString::to_string);
        if let Ok(mut last) = self.last.lock() {
            *last = (self.node.clone(), error);
        }
        Ok(Plan::exactly(tenants?.iter().map(|tenant| JobSpec::typed(&tenant.name, tenant))))
    }
}

#[tokio::main]
async fn main() -> Result<()> {
    let redis = Endpoint::from_env()?;
    let client = Client::open(redis.url())?;
    let private = redis.private().is_some();
    let dir = tempfile::tempdir()?;
    let file = dir.path().join("tenants.csv");
    let last = Arc::<Mutex<(String, Option<String>)>>::default();
    let planned = |wanted: fn(&(String, Option<String>)) -> bool| {
        let last = last.clone();
        move || last.lock().is_ok_and(|last| wanted(&last))
    };
    let write = |rows: &str| write(&file, &format!("name,feed\n{rows}"));

    write("acme,orders\nglobex,orders\n")?;
    let mut nodes = Vec::new();
    for name in ["anna", "bert"] {
        let node = Node::builder(POOL, &client).name(name).assume_fresh(private).join().await?;
        node.add_worker(tenure_pool::run(|job: Job| async move {
            job.cancelled().await;
            Ok(())
        }))
        .await?;
        let table = Table { file: file.clone(), last: last.clone(), node: name.to_owned() };
        node.schedule("tenants", table, EVERY).await?;
        let plans = planned(|last| !last.0.is_empty());
        within(PATIENCE, "a plan", async || plans()).await?;
        nodes.push(node);
    }
    let [anna, bert] = nodes.try_into().map_err(|_| "two nodes")?;
    println!("anna plans, bert stands by");
    running(&bert, &["acme", "globex"]).await?;

    bert.dispatch(("audit", "by hand")).await?;
    println!("somebody dispatches audit");

    write("acme,orders\ninitech,invoices\numbrella,orders\n")?;
    println!("the table loses globex, and gets initech and umbrella");
    running(&bert, &["acme", "audit", "initech", "umbrella"]).await?;

    std::fs::remove_file(&file)?;
    println!("the table is gone");
    let fails = planned(|last| last.1.is_some());
    within(PATIENCE, "a plan that fails", async || fails()).await?;
    println!("the plan fails, and nothing changes");
    running(&bert, &["acme", "audit", "initech", "umbrella"]).await?;

    anna.close().await?;
    println!("anna leaves");
    write("umbrella,orders\n")?;
    println!("the table is back, with umbrella only");
    running(&bert, &["audit", "umbrella"]).await?;
    let by_bert = planned(|last| last.0 == "bert" && last.1.is_none());
    within(PATIENCE, "a plan of bert", async || by_bert()).await?;
    println!("bert plans");

    bert.operate().shutdown().await?;
    Ok(())
}

/// Replaces the table at once, so that nobody reads half of it.
fn write(file: &Path, table: &str) -> std::io::Result<()> {
    let new = file.with_extension("new");
    std::fs::write(&new, table)?;
    std::fs::rename(new, file)
}

/// Waits until exactly these jobs run, and prints them.
async fn running(node: &Node, wanted: &[&str]) -> Result<()> {
    within(PATIENCE, "the jobs to be as they should", async || {
        let jobs = node.inspect().jobs().await.unwrap_or_default();
        let jobs: BTreeMap<_, _> = jobs.into_iter().map(|job| (job.key.to_string(), job.state)).collect();
        jobs.keys().eq(wanted) && jobs.values().all(|state| *state == JobState::Running)
    })
    .await?;
    println!("  running: {}", wanted.join(", "));
    Ok(())
}
