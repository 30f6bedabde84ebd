//! `map-config`: one service changes a setting; all see it, and read it without a round trip.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use tenure_connection::Client;
use tenure_rmap::{Exchange, Map};
use tenure_testing::{Endpoint, Failure};

const NAME: &str = "example:limits";

/// The allowance of one client of the API.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Limit {
    per_second: u32,
    burst: u32,
}

#[tokio::main]
async fn main() -> Result<(), Failure> {
    let redis = Endpoint::from_env()?;
    // Real services are separate processes: here each has its own client and its own copy of the map.
    let admin = Map::<Limit>::join(&Client::open(redis.url())?, NAME).await?;
    let checkout = Map::<Limit>::join(&Client::open(redis.url())?, NAME).await?;
    let search = Map::<Limit>::join(&Client::open(redis.url())?, NAME).await?;

    let mut at_checkout = checkout.watch_key("acme");
    let mut at_search = search.watch_key("acme");

    let limit = Limit { per_second: 100, burst: 20 };
    admin.set_and_wait("acme", &limit).await?;
    println!("admin reads what it wrote: {}", shown(admin.get("acme")?));
    println!("checkout sees: {}", shown(at_checkout.changed().await?));
    println!("search sees: {}", shown(at_search.changed().await?));

    // Two people change the same setting at the same moment: the second one learns of the value that he had not seen.
    let higher = Limit { per_second: 500, ..limit.clone() };
    let lower = Limit { per_second: 10, ..limit.clone() };
    for (who, wish) in [("the first", &higher), ("the second", &lower)] {
        match admin.test_and_set("acme", &limit, wish).await? {
            Exchange::Written => println!("{who} admin set {}", shown(Some(wish.clone()))),
            Exchange::Kept(found) => println!("{who} admin is refused, there is: {}", shown(found)),
        }
    }
    println!("checkout sees: {}", shown(at_checkout.changed().await?));
    println!("search sees: {}", shown(at_search.changed().await?));

    // A short-lived limit ends by itself, and everybody hears of it.
    let for_a_while = admin.with_entry_ttl(Duration::from_secs(2));
    for_a_while.set("acme", &lower).await?;
    println!("checkout sees, for two seconds: {}", shown(at_checkout.changed().await?));
    println!("checkout sees: {}", shown(at_checkout.changed().await?));

    // A late joiner gets everything at once.
    admin.set("globex", &higher).await?;
    let late = Map::<Limit>::join(&Client::open(redis.url())?, NAME).await?;
    println!("a late service has globex: {}", shown(late.get("globex")?));

    admin.raw().destroy().await?;
    for map in [admin, checkout, search, late] {
        map.close().await;
    }
    Ok(())
}

fn shown(limit: Option<Limit>) -> String {
    let shown = |Limit { per_second, burst }| format!("{per_second} per second, {burst} at once");
    limit.map_or_else(|| "no limit".to_owned(), shown)
}
