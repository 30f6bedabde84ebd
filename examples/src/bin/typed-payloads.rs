//! `typed-payloads`: jobs carry values, and a worker refuses a value that it cannot read.

use serde::{Deserialize, Serialize};
use tenure_pool::{BoxError, Client, Job, JobHandler, JobSpec, Node, Payload, Start};
use tenure_testing::{Endpoint, Failure};

const POOL: &str = "example-payloads";

/// The worker's type of payload.
#[derive(Serialize, Deserialize)]
struct Feed {
    url: String,
    /// Added in the second version.
    #[serde(default = "once_an_hour")]
    minutes: u32,
}

fn once_an_hour() -> u32 {
    60
}

impl Payload for Feed {
    const TYPE: &'static str = "feed";
}

/// The first version of that type, which some producer still uses.
#[derive(Serialize, Deserialize)]
struct OldFeed {
    url: String,
}

impl Payload for OldFeed {
    const TYPE: &'static str = "feed";
}

/// Another type.
#[derive(Serialize, Deserialize)]
struct Invoice {
    number: u64,
}

impl Payload for Invoice {
    const TYPE: &'static str = "invoice";
}

struct Reader;

impl JobHandler for Reader {
    async fn start(&self, job: Job) -> Start {
        match job.decode::<Feed>() {
            Ok(Feed { url, minutes }) => {
                println!("{} reads {url} every {minutes} minutes", job.key());
                Start::Started
            }
            // The dispatcher learns of the error.
            Err(error) => Start::Failed(BoxError::from(error)),
        }
    }
}

#[tokio::main]
async fn main() -> Result<(), Failure> {
    let redis = Endpoint::from_env()?;
    let private = redis.private().is_some();
    let node = Node::builder(POOL, Client::open(redis.url())?).assume_fresh(private).join().await?;
    node.add_worker(Reader).await?;

    node.dispatch(JobSpec::typed("acme", &Feed { url: "acme.example/news".into(), minutes: 5 })).await?;
    node.dispatch(JobSpec::typed("globex", &OldFeed { url: "globex.example/all".into() })).await?;
    for refused in [
        node.dispatch(JobSpec::typed("initech", &Invoice { number: 17 })).await,
        node.dispatch(("umbrella", "umbrella.example")).await,
    ] {
        if let Err(error) = refused {
            println!("{error}");
        }
    }
    node.operate().shutdown().await?;
    Ok(())
}
