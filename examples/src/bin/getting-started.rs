//! `getting-started`: the program of docs/getting-started.md, word for word. A test runs it as that page does.

use std::time::Duration;

use tenure_pool::{Client, Job, Node, RestartPolicy};

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    tracing_subscriber::fmt().log_internal_errors(false).init();
    let name = std::env::args().nth(1).unwrap_or_else(|| "n1".into());

    let url = std::env::var("REDIS_URL").unwrap_or_else(|_| "redis://127.0.0.1:6379".into());
    let node = Node::builder("feeds", Client::open(&url)?).name(name).join().await?;
    let serving = node.close_on_signal(Duration::from_secs(25));

    node.add_worker(tenure_pool::run(|job: Job| async move {
        tracing::info!("this job runs here");
        job.cancelled().await;
        tracing::info!("this job leaves");
        Ok(())
    }))
    .await?;

    for tenant in ["acme", "globex", "initech", "umbrella"] {
        node.ensure((tenant, "payload")).restart(RestartPolicy::OnFailure).await?;
    }
    serving.await?.exit()
}
