//! Ends: one last word on each job, by itself or because it was told to.

use bytes::Bytes;
use serde_json::json;
use tenure_pool::JobKey;

use super::player::{CHECKPOINT_MAX, Job, Player};
use crate::host::table::{Began, End};
use crate::host::wire::body::Key;
use crate::host::wire::down::Down;

super::scenarios! {
    "ends a job by itself" => by_itself,
    "says why a job has failed" => fail,
    "parks a job" => park,
    "stops a job" => stop,
    "stops a job that is starting" => while_starting,
    "stops a job beside a slow one" => beside,
    "leaves a state when a job is stopped" => leave,
    "leaves no state that is longer than the pool keeps" => leave_too_much,
    "hears that a state it has left is not kept" => unsaved,
    "passes over the stop of a job that has ended" => stop_of_ended,
    "says one last word when stop and end cross" => cross,
    "goes on beside a job that fails" => beside_failure,
}

type Played = Result<(), String>;

async fn by_itself(host: &mut Player) -> Played {
    let job = host.run(Job::does(&json!({"do": "end"}))).await?;
    let end = host.ended(job).await?;
    let well = End::Ended { error: None, park: false, lost: false };
    if end == well { Ok(()) } else { Err(format!("the job has {end:?}")) }
}

async fn fail(host: &mut Player) -> Played {
    let job = host.run(Job::does(&json!({"do": "fail", "text": "the feed broke off"}))).await?;
    match host.ended(job).await? {
        End::Ended { error: Some(error), park: false, lost: false }
            if error.contains("the feed broke off") =>
        {
            Ok(())
        }
        other => Err(format!("the job has {other:?}")),
    }
}

async fn park(host: &mut Player) -> Played {
    let job = host.run(Job::does(&json!({"do": "park", "text": "closed"}))).await?;
    match host.ended(job).await? {
        End::Ended { error: Some(error), park: true, .. } if error.contains("closed") => Ok(()),
        other => Err(format!("the job has {other:?}")),
    }
}

async fn stop(host: &mut Player) -> Played {
    let job = host.run(Player::runs()).await?;
    host.stopped(job).await?;
    host.ping().await
}

async fn while_starting(host: &mut Player) -> Played {
    let job = host.start(Job::does(&json!({"do": "slow_start", "ms": 60_000}))).await?;
    host.ping().await?;
    host.stop(job).await?;
    host.ended(job).await?;
    host.ping().await
}

async fn beside(host: &mut Player) -> Played {
    let slow = host.run(Job::does(&json!({"do": "slow_stop", "ms": 1_000}))).await?;
    let quick = host.run(Player::runs().key("b")).await?;
    host.stop(slow).await?;
    host.stopped(quick).await?;
    match host.ended(slow).await? {
        End::Stopped => Ok(()),
        other => Err(format!("the slow job has {other:?}")),
    }
}

async fn leave(host: &mut Player) -> Played {
    let job = host.run(Job::does(&json!({"do": "leave", "text": "offset 42"}))).await?;
    host.ping().await?;
    host.stopped(job).await?;
    match host.states.get(&job) {
        Some(state) if *state == "offset 42" => Ok(()),
        other => Err(format!("the state is {other:?}")),
    }
}

/// Goes by the last bound, wider or narrower than the bound before.
async fn leave_too_much(host: &mut Player) -> Played {
    for max in [CHECKPOINT_MAX, 2 * CHECKPOINT_MAX, 10] {
        host.tell(&Down::Bounds { checkpoint_max: max as u64 }).await?;
        let leaves = |len: usize| Job::does(&json!({"do": "leave", "text": "x".repeat(len)}));
        let job = host.run(leaves(max).key(format!("fits-{max}"))).await?;
        host.ping().await?;
        host.stopped(job).await?;
        if host.states.get(&job).map(Bytes::len) != Some(max) {
            return Err(format!("it did not leave a state of {max} bytes, the longest"));
        }
        let job = host.run(leaves(max + 1).key(format!("too-long-{max}"))).await?;
        host.says(job, "error too_long").await?;
        host.stopped(job).await?;
        if let Some(state) = host.states.get(&job) {
            return Err(format!("it left {} bytes, and the pool keeps {max}", state.len()));
        }
    }
    Ok(())
}

async fn unsaved(host: &mut Player) -> Played {
    leave(host).await?;
    let (job, key) = (1, Key::of(&JobKey::new(b"acme".to_vec()).map_err(|error| error.to_string())?));
    let (code, text) = ("refused".to_owned(), "the store is full".to_owned());
    host.tell(&Down::Unsaved { job, key, code, text }).await?;
    let job = host.run(Player::runs().key("b")).await?;
    host.noted(job, "x").await?;
    host.stopped(job).await
}

async fn stop_of_ended(host: &mut Player) -> Played {
    let job = host.run(Job::does(&json!({"do": "end"}))).await?;
    host.ended(job).await?;
    host.stop(job).await?;
    host.ping().await?;
    host.run(Player::runs().key("b")).await?;
    host.ping().await
}

async fn cross(host: &mut Player) -> Played {
    let mut jobs = Vec::new();
    for number in 0..50_u32 {
        let job = Job::does(&json!({"do": "end", "ms": number % 5})).key(format!("key-{number}"));
        let job = host.start(job).await?;
        if number % 3 > 0 {
            host.ping().await?;
        }
        host.stop(job).await?;
        jobs.push(job);
    }
    for job in jobs {
        host.ended(job).await?;
    }
    host.ping().await?;
    host.ping().await
}

async fn beside_failure(host: &mut Player) -> Played {
    let good = host.run(Player::runs()).await?;
    for number in 0..20 {
        let job = Job::does(&json!({"do": "start_fail", "text": "x"})).key(format!("key-{number}"));
        let bad = host.start(job).await?;
        let began = host.began(bad).await?;
        if !matches!(began, Began::Failed { .. }) {
            return Err(format!("its start came out as {began:?}"));
        }
    }
    host.noted(good, "x").await?;
    host.stopped(good).await
}
