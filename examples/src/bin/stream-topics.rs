//! `stream-topics`: readers that want only some of the entries.

use futures::StreamExt;
use tenure_connection::Client;
use tenure_examples::text;
use tenure_streaming::{AddOptions, Filter, Reader, Start, Stream};
use tenure_testing::{Endpoint, Failure};

const NAME: &str = "example:events";

#[tokio::main]
async fn main() -> Result<(), Failure> {
    let redis = Endpoint::from_env()?;
    let client = Client::open(redis.url())?;
    let events = Stream::new(&client, NAME)?;
    events.destroy().await?;
    for (topic, what) in [
        ("orders.eu", "order 1"),
        ("orders.us", "order 2"),
        ("payments.eu", "payment 1"),
        ("orders.eu", "order 3"),
        ("payments.us", "payment 2"),
    ] {
        events.add_with(AddOptions::new().topic(topic), &[("what", what)]).await?;
    }
    events.add(&[("what", "the end")]).await?;

    let wishes = [
        ("orders.eu", Filter::topic("orders.eu"), 2),
        ("orders.*", Filter::pattern("orders.*"), 3),
        ("*.us", Filter::pattern("*.us"), 2),
    ];
    for (name, filter, count) in wishes {
        let reader = Reader::builder(&client).stream(NAME, Start::Oldest).filter(filter).open().await?;
        println!("{name}:");
        show(reader, count).await?;
    }
    println!("everything:");
    show(Reader::builder(&client).stream(NAME, Start::Oldest).open().await?, 6).await?;

    events.destroy().await?;
    Ok(())
}

/// Prints the next `count` entries.
async fn show(reader: Reader, count: usize) -> Result<(), Failure> {
    let mut entries = reader.take(count);
    while let Some(entry) = entries.next().await {
        let entry = entry?;
        println!("  {} ({})", text(entry.get("what")), entry.topic().unwrap_or("no topic"));
    }
    Ok(())
}
