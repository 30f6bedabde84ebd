//! Starts: what a host is given, and how it answers.

use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::json;

use super::player::{Job, Player};
use crate::host::table::Began;

super::scenarios! {
    "says hello first, with the version" => hello,
    "starts a job" => start,
    "gets a payload of text" => text,
    "gets a payload of bytes" => bytes,
    "gets a payload of 512 KiB" => long,
    "gets a key of bytes" => key,
    "gets the token, the attempt and the id" => facts,
    "gets the state of the last run" => state,
    "fails a start" => fail,
    "parks a start" => park,
    "refuses a start for a time" => refuse,
    "refuses a start for another worker" => elsewhere,
    "starts a job beside a slow one" => beside,
    "starts a key again after its end" => again,
    "passes over fields that it does not know" => unknown_field,
    "hosts 10,000 jobs" => many,
}

type Played = Result<(), String>;

async fn hello(host: &mut Player) -> Played {
    host.ping().await?;
    if host.hello.sdk.is_empty() { Err("its hello does not name its sdk".to_owned()) } else { Ok(()) }
}

async fn start(host: &mut Player) -> Played {
    host.run(Player::runs()).await?;
    host.ping().await
}

async fn payload(host: &mut Player, payload: Vec<u8>) -> Played {
    let expected = format!("payload {}", STANDARD.encode(&payload));
    let job = host.run(Job::with(payload)).await?;
    let status = host.status(job).await?;
    if status == expected { Ok(()) } else { Err("its job has another payload".to_owned()) }
}

async fn text(host: &mut Player) -> Played {
    payload(host, "größer \"\\ \n\u{1F980}\u{0}".into()).await
}

async fn bytes(host: &mut Player) -> Played {
    payload(host, b"\xff\xfe\0text".to_vec()).await
}

async fn long(host: &mut Player) -> Played {
    payload(host, vec![b'x'; 512 << 10]).await
}

async fn key(host: &mut Player) -> Played {
    let key: &[u8] = b"\xff\0/\"";
    let job = host.run(Job::does(&json!({"do": "key"})).key(key)).await?;
    host.says(job, &format!("key {}", STANDARD.encode(key))).await
}

async fn facts(host: &mut Player) -> Played {
    let token = (1 << 53) - 1;
    let job = host.run(Job { token, ..Job::does(&json!({"do": "facts"})) }).await?;
    host.says(job, &format!("token {token} attempt 1 id check.{job}")).await
}

async fn state(host: &mut Player) -> Played {
    let does = || Job::does(&json!({"do": "state"}));
    let none = host.run(does()).await?;
    host.says(none, "none").await?;
    let some = host.run(does().key("b").state("offset 41")).await?;
    host.says(some, "state offset 41").await
}

async fn fail(host: &mut Player) -> Played {
    let job = host.start(Job::does(&json!({"do": "start_fail", "text": "no route"}))).await?;
    match host.began(job).await? {
        Began::Failed { error, park: false } if error.contains("no route") => Ok(()),
        other => Err(format!("its start came out as {other:?}")),
    }
}

async fn park(host: &mut Player) -> Played {
    let job = host.start(Job::does(&json!({"do": "start_park", "text": "no plan"}))).await?;
    match host.began(job).await? {
        Began::Failed { error, park: true } if error.contains("no plan") => Ok(()),
        other => Err(format!("its start came out as {other:?}")),
    }
}

async fn refuse(host: &mut Player) -> Played {
    let job = host.start(Job::does(&json!({"do": "refuse", "ms": 50}))).await?;
    let expected = Began::Refused { retry: Some(Duration::from_millis(50)), elsewhere: false };
    let began = host.began(job).await?;
    if began == expected { Ok(()) } else { Err(format!("its start came out as {began:?}")) }
}

async fn elsewhere(host: &mut Player) -> Played {
    let job = host.start(Job::does(&json!({"do": "elsewhere"}))).await?;
    match host.began(job).await? {
        Began::Refused { elsewhere: true, .. } => Ok(()),
        other => Err(format!("its start came out as {other:?}")),
    }
}

async fn beside(host: &mut Player) -> Played {
    let slow = host.start(Job::does(&json!({"do": "slow_start", "ms": 60_000}))).await?;
    host.run(Player::runs().key("b")).await?;
    // It has not been answered.
    host.stop(slow).await?;
    host.ended(slow).await.map(drop)
}

async fn again(host: &mut Player) -> Played {
    let first = host.run(Player::runs()).await?;
    host.stopped(first).await?;
    let second = host.run(Job { token: 8, ..Player::runs() }).await?;
    host.noted(second, "x").await?;
    host.stopped(second).await
}

async fn unknown_field(host: &mut Player) -> Played {
    let (job, message) = host.add(Player::runs())?;
    let mut message = serde_json::to_value(message).map_err(|error| error.to_string())?;
    message["mood"] = json!({"a": [1, null]});
    host.tell_other(&message).await?;
    match host.began(job).await? {
        Began::Started => Ok(()),
        other => Err(format!("its start came out as {other:?}")),
    }
}

async fn many(host: &mut Player) -> Played {
    const JOBS: usize = 10_000;
    let window = host.hello.max_starting.unwrap_or(64).clamp(1, 1_000) as usize;
    let mut jobs = Vec::new();
    for number in 0..JOBS {
        if number >= window {
            let before = jobs[number - window];
            match host.began(before).await? {
                Began::Started => {}
                other => return Err(format!("the start of job {before} came out as {other:?}")),
            }
        }
        jobs.push(host.start(Player::runs().key(format!("key-{number}"))).await?);
    }
    host.ping().await?;
    for job in &jobs {
        host.stop(*job).await?;
    }
    for job in jobs {
        host.ended(job).await?;
    }
    host.ping().await
}
