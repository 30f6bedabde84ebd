//! Leases, pings, and the end of a host.

use std::time::Duration;

use serde_json::json;
use tokio::time::sleep;

use super::Scenario;
use super::player::{Job, Player};
use crate::host::leases::monotonic;
use crate::host::table::End;
use crate::host::wire::VERSION;
use crate::host::wire::down::Down;
use crate::work::launch;

super::scenarios! {
    "answers pings" => pings,
    "answers pings beside slow work" => pings_beside,
    "passes over words that it does not know" => unknown_word,
    "ends the jobs of a lease that is over, and no others" => lease_over,
    "keeps jobs while their lease is renewed" => renewed,
    "goes by the clock when a renewal comes late" => late,
    "stops a job whose lease is over" => stop_after_lease,
    "goes on while its node leaves" => drain,
    "says bye to be made anew" => bye,
    "ends with status 0 when there is nothing more to do" => end,
    "ends when its connection does" => hang_up,
}

/// A lease that ends within its scenario, in milliseconds.
const SHORT: u64 = 2_000;

type Played = Result<(), String>;

async fn pings(host: &mut Player) -> Played {
    for _ in 0..10 {
        host.ping().await?;
    }
    Ok(())
}

async fn pings_beside(host: &mut Player) -> Played {
    let job = host.run(Player::runs()).await?;
    let mut slow = host.note(job, 0, "slow").await?;
    host.ping().await?;
    if slow.try_recv().is_ok() {
        return Err("a ping waits for slow work".to_owned());
    }
    host.until("an ack", |_| slow.try_recv().ok()).await.map(drop)
}

async fn unknown_word(host: &mut Player) -> Played {
    host.tell_other(&json!({"op": "rejoice", "job": 1, "why": [true]})).await?;
    let job = host.run(Player::runs()).await?;
    host.stopped(job).await
}

/// The end of a job that nobody has told to end.
async fn lost(host: &mut Player, job: u64) -> Played {
    match host.ended(job).await? {
        End::Ended { lost: true, .. } => Ok(()),
        other => Err(format!("its lease was over, and the job has {other:?}")),
    }
}

async fn lease_over(host: &mut Player) -> Played {
    host.lease(2, SHORT).await?;
    // Its lease may be over before it has started.
    let short = host.start(Player::runs().key("b").lease(2)).await?;
    let long = host.run(Player::runs()).await?;
    lost(host, short).await?;
    host.noted(long, "lease").await?;
    host.says(long, "lease holds").await?;
    host.stopped(long).await
}

async fn renewed(host: &mut Player) -> Played {
    // A machine that stands still for as long as a lease lasts shows nothing. Then the lease is longer, and another one.
    for lease in 2..8 {
        let mut until = 0;
        let kept = renewed_in_time(host, lease, SHORT << (lease - 2), &mut until).await;
        if monotonic() < until {
            return kept;
        }
    }
    Err("no renewal was heard in time, the machine is too slow".to_owned())
}

/// Its result means nothing if it comes after `until`, the end of the lease that the host was told in time.
async fn renewed_in_time(host: &mut Player, lease: u64, lasts: u64, until: &mut u64) -> Played {
    *until = monotonic() + lasts;
    host.lease(lease, lasts).await?;
    let job = host.run(Player::runs().key(format!("key-{lease}")).lease(lease)).await?;
    // Longer than the first lease, by far less than each.
    for _ in 0..6 {
        sleep(Duration::from_millis(lasts / 5)).await;
        let next = monotonic() + lasts;
        host.lease(lease, lasts).await?;
        // The pong follows the renewal.
        host.ping().await?;
        if monotonic() >= *until {
            return Ok(());
        }
        *until = next;
    }
    host.noted(job, "lease").await?;
    host.says(job, "lease holds").await?;
    host.stopped(job).await
}

async fn late(host: &mut Player) -> Played {
    let until_ms = monotonic() + SHORT;
    host.tell(&Down::Lease { lease: 2, left_ms: 60_000, until_ms }).await?;
    let job = host.start(Player::runs().lease(2)).await?;
    lost(host, job).await
}

async fn stop_after_lease(host: &mut Player) -> Played {
    host.lease(2, SHORT).await?;
    let job = host.run(Job::does(&json!({"do": "slow_stop", "ms": 3_000})).lease(2)).await?;
    // By then it ends.
    sleep(Duration::from_millis(SHORT + 1_000)).await;
    host.stop(job).await?;
    match host.ended(job).await? {
        End::Stopped => host.ping().await,
        other => Err(format!("it was told to stop, and has {other:?}")),
    }
}

async fn drain(host: &mut Player) -> Played {
    let job = host.run(Player::runs()).await?;
    host.tell(&Down::Drain { within_ms: 10_000 }).await?;
    host.noted(job, "x").await?;
    host.stopped(job).await
}

async fn bye(host: &mut Player) -> Played {
    let job = host.run(Job::does(&json!({"do": "bye"}))).await?;
    host.until("bye", |host| host.wants_to_go.then_some(())).await?;
    host.noted(job, "x").await?;
    host.stopped(job).await?;
    end_of(host).await
}

async fn end(host: &mut Player) -> Played {
    host.ping().await?;
    end_of(host).await
}

async fn end_of(host: &mut Player) -> Played {
    host.tell(&Down::Bye {}).await?;
    exits(host, 0).await
}

async fn exits(host: &mut Player, status: i32) -> Played {
    let end = host.exited().await?;
    host.hang_up();
    if end == launch::End::Exit(status) { Ok(()) } else { Err(format!("it ended with {end}, not {status}")) }
}

/// The one scenario of a host that is not welcomed.
pub(super) const REFUSED: Scenario =
    Scenario { name: "ends with status 78 when it is refused", play: |host| Box::pin(refused(host)) };

async fn refused(host: &mut Player) -> Played {
    let theirs = host.hello.v.clone();
    host.tell(&Down::Refused { why: "this is a check".to_owned(), ours: vec![VERSION + 1], theirs }).await?;
    exits(host, 78).await
}

async fn hang_up(host: &mut Player) -> Played {
    host.run(Player::runs()).await?;
    host.hang_up();
    host.exited().await.map(drop)
}
