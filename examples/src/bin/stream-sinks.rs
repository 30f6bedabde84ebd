//! `stream-sinks`: two workers share a cursor; one dies, and the other gets its unfinished entries.

use std::time::Duration;

use tenure_connection::Client;
use tenure_examples::text;
use tenure_streaming::{Entry, Sink, Start, Stream};
use tenure_testing::{Endpoint, Failure};

const NAME: &str = "example:invoices";

#[tokio::main]
async fn main() -> Result<(), Failure> {
    let redis = Endpoint::from_env()?;
    let client = Client::open(redis.url())?;
    let invoices = Stream::new(&client, NAME)?;
    invoices.destroy().await?;
    for number in 1..=6 {
        invoices.add(&[("number", number.to_string())]).await?;
    }

    // The same group name shares the cursor; another one gets copies.
    let mut ada = open(&client, "billing", "ada").await?;
    let mut bob = open(&client, "billing", "bob").await?;
    let mut audit = open(&client, "audit", "carl").await?;

    let mine = ada.next_batch(3).await?;
    println!("ada gets {}", numbers(&mine));
    println!("ada acknowledges {}", ada.ack(&mine).await?);
    let mine = bob.next_batch(3).await?;
    println!("bob gets {}", numbers(&mine));
    println!("bob acknowledges {} and dies", bob.ack(&mine[..1]).await?);
    drop(bob);

    // Nobody tells ada: after the grace, unacknowledged entries come to any consumer that is there.
    let mut rest = Vec::new();
    while rest.len() < 2 {
        rest.extend(ada.next_batch(3).await?);
    }
    println!("ada gets {} of bob's", numbers(&rest));
    println!("ada acknowledges {}", ada.ack(&rest).await?);

    let all = audit.next_batch(10).await?;
    println!("audit gets {}", numbers(&all));
    audit.ack(&all).await?;

    ada.close().await?;
    audit.close().await?;
    invoices.destroy().await?;
    Ok(())
}

async fn open(
    client: &Client,
    group: &'static str,
    worker: &'static str,
) -> Result<Sink, tenure_streaming::Error> {
    let sink = Sink::builder(client, group).stream(NAME).consumer(worker).start(Start::Oldest);
    sink.ack_grace(Duration::from_secs(1)).block(Duration::from_millis(500)).open().await
}

fn numbers(entries: &[Entry]) -> String {
    let numbers: Vec<_> = entries.iter().map(|entry| text(entry.get("number"))).collect();
    numbers.join(" ")
}
