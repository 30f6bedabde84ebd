//! `sequence-pipeline`: three consumers, and a log between each two. The second one crashes between its output and the word
//! that its job is done.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;
use tenure_connection::Client;
use tenure_examples::PATIENCE;
use tenure_sequence::{BoxError, Consumer, Delivery, RedisLog, RedisLogs};
use tenure_testing::{Endpoint, Failure, within};

const SET: &str = "example-orders";

fn text(body: &Bytes) -> Result<&str, BoxError> {
    Ok(std::str::from_utf8(body)?)
}

/// Splits an order into its items.
async fn split(order: Delivery<Bytes>, items: RedisLog) -> Result<(), BoxError> {
    let order_text = text(order.job())?;
    items.append_for(&order, order_text.split(", ")).await?;
    println!("split: order {} is {order_text}", order.index());
    Ok(())
}

/// Gives an item its price. `crashes`: it hangs after its output of the third item, until its process ends.
async fn price(item: Delivery<Bytes>, prices: RedisLog, crashes: bool) -> Result<(), BoxError> {
    let (count, name) = text(item.job())?.split_once(' ').ok_or("an item has a count")?;
    let each = match name.trim_end_matches('s') {
        "anvil" => 20,
        "rope" => 5,
        "magnet" => 9,
        _ => 900,
    };
    let cost = count.parse::<u64>()? * each;
    let repeated = prices.append_for(&item, [cost.to_string()]).await?.repeated;
    if crashes && item.index() == 3 {
        std::future::pending::<()>().await;
    }
    let before = if repeated { ", and was priced before" } else { "" };
    println!("price: item {} costs {cost}{before}", item.index());
    Ok(())
}

/// The consumer of the second stage, as its process makes it. Its progress is fenced: the token is the number of its life.
async fn pricing(logs: &RedisLogs, life: u64) -> Result<Consumer, Failure> {
    let prices = logs.log("prices")?;
    let builder = Consumer::builder(logs.log("items")?, logs.progress("price")?.fenced(life)).concurrency(1);
    let consumer = builder.build(move |item| price(item, prices.clone(), life == 1))?;
    consumer.start().await?;
    Ok(consumer)
}

/// Deletes all logs and progresses.
async fn clear(logs: &RedisLogs) -> Result<(), Failure> {
    for name in ["orders", "items", "prices"] {
        logs.log(name)?.destroy().await?;
    }
    for stage in ["split", "price", "total"] {
        logs.progress(stage)?.forget().await?;
    }
    Ok(())
}

#[tokio::main]
async fn main() -> Result<(), Failure> {
    let redis = Endpoint::from_env()?;
    let logs = RedisLogs::open(&Client::open(redis.url())?, SET)?;
    clear(&logs).await?;
    let orders = ["2 anvils, 1 rope", "3 magnets", "1 rocket, 4 ropes"];
    logs.log("orders")?.append(orders).await?;
    println!("{} orders come in", orders.len());

    let items = logs.log("items")?;
    let builder = Consumer::builder(logs.log("orders")?, logs.progress("split")?).concurrency(1);
    let splitting = builder.build(move |order| split(order, items.clone()))?;
    splitting.start().await?;
    within(PATIENCE, "all orders to be split", async || splitting.stored() == 3).await?;

    let first = pricing(&logs, 1).await?;
    let prices = logs.log("prices")?;
    within(PATIENCE, "the third item to be priced", async || {
        first.stored() == 2 && tenure_sequence::Source::head(&prices).await.is_ok_and(|head| head == 3)
    })
    .await?;
    println!("price crashes with item 3 priced and not done");
    drop(first);
    let second = pricing(&logs, 2).await?;
    within(PATIENCE, "all items to be priced", async || second.stored() == 5).await?;

    // A job may run twice: what it leaves is one price for each index.
    let sums = Arc::new(Mutex::new(BTreeMap::new()));
    let kept = sums.clone();
    let builder = Consumer::builder(logs.log("prices")?, logs.progress("total")?);
    let adding = builder.build(move |cost: Delivery<Bytes>| {
        let kept = kept.clone();
        async move {
            let cost_of = text(cost.job())?.parse::<u64>()?;
            kept.lock().unwrap_or_else(PoisonError::into_inner).insert(cost.index(), cost_of);
            Ok::<_, BoxError>(())
        }
    })?;
    adding.start().await?;
    within(PATIENCE, "all prices to be added", async || adding.stored() == 5).await?;
    let sums = sums.lock().unwrap_or_else(PoisonError::into_inner).clone();
    println!("total: {} for {} items", sums.values().sum::<u64>(), sums.len());

    for stage in [splitting, second, adding] {
        stage.stop().await?;
    }
    clear(&logs).await
}
