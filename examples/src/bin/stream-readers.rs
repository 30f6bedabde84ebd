//! `stream-readers`: independent readers each see all entries, from any start.

use futures::StreamExt;
use tenure_connection::Client;
use tenure_examples::text;
use tenure_streaming::{Reader, Start, Stream};
use tenure_testing::{Endpoint, Failure};

const NAME: &str = "example:orders";

#[tokio::main]
async fn main() -> Result<(), Failure> {
    let redis = Endpoint::from_env()?;
    let client = Client::open(redis.url())?;
    let orders = Stream::new(&client, NAME)?;
    orders.destroy().await?;

    for item in ["anvil", "rope"] {
        orders.add(&[("item", item)]).await?;
    }
    let mut archive = Reader::builder(&client).stream(NAME, Start::Oldest).open().await?;
    let mut dashboard = Reader::builder(&client).stream(NAME, Start::Newest).open().await?;
    for item in ["magnet", "rocket"] {
        orders.add(&[("item", item)]).await?;
    }
    println!("the archive begins at the oldest: {}", take(&mut archive, 4).await?);
    println!("the dashboard begins now: {}", take(&mut dashboard, 2).await?);

    // A reader that saves its position can continue there, later and elsewhere.
    let mut first = Reader::builder(&client).stream(NAME, Start::Oldest).open().await?;
    println!("a reader that is closed after one: {}", take(&mut first, 1).await?);
    let cursors = first.close();
    let after = cursors.get(NAME).ok_or("the reader has no such stream")?;
    let mut second = Reader::builder(&client).stream(NAME, Start::After(after)).open().await?;
    println!("another that goes on behind it: {}", take(&mut second, 3).await?);

    // A publisher that lost the reply tries again: the entry is there once.
    let once = [("item", "portable hole")];
    let added = orders.add_once("order-5", &once).await?;
    let again = orders.add_once("order-5", &once).await?;
    println!("added twice with one id: {}", if added.id == again.id { "one entry" } else { "two entries" });
    println!("the dashboard sees: {}", take(&mut dashboard, 1).await?);

    orders.destroy().await?;
    Ok(())
}

/// The items of the next `count` entries.
async fn take(reader: &mut Reader, count: usize) -> Result<String, Failure> {
    let mut items = Vec::new();
    while items.len() < count {
        let entry = reader.next().await.ok_or("the reader has ended")??;
        items.push(text(entry.get("item")));
    }
    Ok(items.join(", "))
}
