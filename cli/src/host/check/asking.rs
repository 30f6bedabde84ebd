//! Notifications, asks, updates, checkpoints and requests.

use std::time::Duration;

use serde_json::{Value, json};

use super::player::{CHECKPOINT_MAX, Job, Player};
use crate::host::table::Noted;
use crate::host::wire::down::{Done, Info};
use crate::host::wire::up::{Request, Up};

super::scenarios! {
    "acknowledges a notification after its work" => note,
    "takes notifications in order" => in_order,
    "refuses a notification for a time" => refuse,
    "takes a notification beside a slow one" => beside,
    "answers an ask" => answer if "ask",
    "refuses an ask" => refuse_ask if "ask",
    "sends an ask to the job's next owner" => moved_ask if "ask",
    "answers asks of a job in any order" => any_order if "ask",
    "answers for a job before its last word, or not at all" => before_last_word if "ask",
    "takes another payload" => update if "update",
    "starts again for another payload" => restart if "update",
    "keeps a checkpoint" => checkpoint,
    "learns that a checkpoint was not kept" => fenced,
    "learns that a checkpoint is longer than the pool keeps" => too_long,
    "says that a job makes progress" => progress,
    "gets the answer of a request" => request,
    "learns why a request failed" => failed_request,
    "tells the answers of requests apart" => requests,
}

type Played = Result<(), String>;

async fn note(host: &mut Player) -> Played {
    let job = host.run(Player::runs()).await?;
    host.noted(job, "reload").await?;
    // It was said before the ack.
    let done = host.said.iter().any(|(of, word)| *of == job && word == "status note reload");
    if done { Ok(()) } else { Err("it acknowledged before its work was done".to_owned()) }
}

async fn in_order(host: &mut Player) -> Played {
    let job = host.run(Player::runs()).await?;
    for number in 0..20 {
        host.noted(job, &number.to_string()).await?;
        host.says(job, &format!("note {number}")).await?;
    }
    Ok(())
}

async fn refuse(host: &mut Player) -> Played {
    let job = host.run(Player::runs()).await?;
    let mut noted = host.note(job, 0, "refuse").await?;
    let first = host.until("an ack", |_| noted.try_recv().ok()).await?;
    if !matches!(first, Noted { retry: Some(after), .. } if after == Duration::from_millis(20)) {
        return Err(format!("it was to refuse for 20 ms, and said {first:?}"));
    }
    let mut noted = host.note(job, 1, "refuse").await?;
    match host.until("an ack", |_| noted.try_recv().ok()).await? {
        Noted { retry: None, error: None } => Ok(()),
        other => Err(format!("it was to take the notification, and said {other:?}")),
    }
}

async fn beside(host: &mut Player) -> Played {
    let slow = host.run(Player::runs()).await?;
    let quick = host.run(Player::runs().key("b")).await?;
    let mut late = host.note(slow, 0, "slow").await?;
    host.noted(quick, "x").await?;
    if late.try_recv().is_ok() {
        return Err("the slow notification was done first".to_owned());
    }
    host.until("an ack", |_| late.try_recv().ok()).await.map(drop)
}

/// Asks that a host without the feature is not asked.
async fn answer(host: &mut Player) -> Played {
    let job = host.run(Player::runs()).await?;
    host.ask(job, "who?").await?;
    match host.until("an answer", |host| host.answers.pop()).await? {
        (_, Ok(answer)) if answer == "acme:who?" => Ok(()),
        other => Err(format!("its answer is {other:?}")),
    }
}

async fn refuse_ask(host: &mut Player) -> Played {
    let job = host.run(Player::runs()).await?;
    host.ask(job, "no").await?;
    match host.until("an answer", |host| host.answers.pop()).await? {
        (_, Err(why)) if why.contains("no") => Ok(()),
        other => Err(format!("its answer is {other:?}")),
    }
}

async fn moved_ask(host: &mut Player) -> Played {
    let job = host.run(Player::runs()).await?;
    host.ask(job, "moved").await?;
    let said = |host: &mut Player| (!host.moved.is_empty() || !host.answers.is_empty()).then_some(());
    host.until("an answer", said).await?;
    match host.answers.pop() {
        None => Ok(()),
        Some((_, other)) => Err(format!("its answer is {other:?}")),
    }
}

async fn any_order(host: &mut Player) -> Played {
    let job = host.run(Player::runs()).await?;
    host.ask(job, "slow").await?;
    host.ask(job, "quick").await?;
    host.until("two answers", |host| (host.answers.len() == 2).then_some(())).await?;
    let answers: Vec<_> = host.answers.iter().map(|(_, answer)| answer.clone().unwrap_or_default()).collect();
    if answers == ["acme:quick", "acme:slow"] { Ok(()) } else { Err(format!("its answers are {answers:?}")) }
}

async fn before_last_word(host: &mut Player) -> Played {
    let job = host.run(Player::runs()).await?;
    host.ask(job, "slow").await?;
    host.stopped(job).await?;
    host.answers.clear();
    // A late answer to the first ask would come before that to the second one.
    let other = host.run(Player::runs().key("b")).await?;
    host.ask(other, "slow").await?;
    host.until("an answer", |host| host.answers.pop()).await.map(drop)?;
    host.stopped(other).await
}

async fn update(host: &mut Player) -> Played {
    let job = host.run(Player::runs()).await?;
    let updated = host.update(job, "silver").await?;
    host.says(job, "update silver").await?;
    if updated.restart || updated.error.is_some() { Err(format!("it said {updated:?}")) } else { Ok(()) }
}

async fn restart(host: &mut Player) -> Played {
    let job = host.run(Player::runs()).await?;
    let updated = host.update(job, "restart").await?;
    if !updated.restart {
        return Err(format!("it said {updated:?}"));
    }
    host.stopped(job).await
}

async fn save(host: &mut Player) -> Result<(u64, u64), String> {
    let job = host.run(Job::does(&json!({"do": "save", "text": "offset 42"}))).await?;
    let (rid, state) = host.until("a checkpoint", |host| host.checkpoints.pop_front()).await?;
    if state != "offset 42" {
        return Err(format!("its checkpoint is {state:?}"));
    }
    host.ping().await?;
    if host.said.iter().any(|(_, word)| word == "status saved") {
        return Err("it took its checkpoint for kept before it was".to_owned());
    }
    Ok((job, rid))
}

async fn checkpoint(host: &mut Player) -> Played {
    let (job, rid) = save(host).await?;
    host.ok(rid, Done::default()).await?;
    host.says(job, "saved").await
}

async fn fenced(host: &mut Player) -> Played {
    let (job, rid) = save(host).await?;
    host.error(rid, "fenced").await?;
    host.says(job, "error fenced").await
}

/// The host refuses the checkpoint itself, or is told.
async fn too_long(host: &mut Player) -> Played {
    let job = host.run(Job::does(&json!({"do": "save", "text": "x".repeat(CHECKPOINT_MAX + 1)}))).await?;
    let said = |host: &mut Player| {
        let said = host.said.iter().any(|(of, word)| *of == job && word.starts_with("status "));
        (said || !host.checkpoints.is_empty()).then_some(())
    };
    host.until("a checkpoint, or its refusal", said).await?;
    if let Some((rid, _)) = host.checkpoints.pop_front() {
        host.error(rid, "too_long").await?;
    }
    host.says(job, "error too_long").await
}

async fn progress(host: &mut Player) -> Played {
    let job = host.run(Job::does(&json!({"do": "progress"}))).await?;
    let says = |host: &mut Player| host.said.contains(&(job, "progress".to_owned())).then_some(());
    host.until("progress", says).await
}

fn call(op: &str, key: &str) -> Value {
    json!({"do": "call", "op": op, "key": key, "body": "how many?"})
}

async fn next_request(host: &mut Player) -> Result<Up, String> {
    host.until("a request", |host| host.requests.pop_front()).await
}

async fn request(host: &mut Player) -> Played {
    let job = host.run(Job::does(&call("ask", "globex"))).await?;
    let request = match next_request(host).await? {
        Up::Ask(request) => request,
        other => return Err(format!("it was to ask, and said {other:?}")),
    };
    let Request { rid, key, body, .. } = request;
    let (key, body) = (key.job_key()?, body.bytes()?);
    if key.as_str() != Some("globex") || body != "how many?" {
        return Err(format!("it asks {key} for {body:?}"));
    }
    host.ok(rid, Done { body: crate::host::wire::body::Body::of(b"42"), ..Done::default() }).await?;
    host.says(job, "ok \"42\"").await
}

async fn failed_request(host: &mut Player) -> Played {
    let job = host.run(Job::does(&call("dispatch", "globex"))).await?;
    match next_request(host).await? {
        Up::Dispatch(request) => {
            if request.policy.as_deref() != Some("on-failure") {
                return Err(format!("its policy is {:?}", request.policy));
            }
            host.error(request.rid, "exists").await?;
            host.says(job, "error exists").await
        }
        other => Err(format!("it was to dispatch, and said {other:?}")),
    }
}

async fn requests(host: &mut Player) -> Played {
    let mut jobs = Vec::new();
    for key in ["a", "b"] {
        let job = host.run(Job::does(&call("get", key)).key(key)).await?;
        match next_request(host).await? {
            Up::Get(request) => jobs.push((job, key, request)),
            other => return Err(format!("it was to get, and said {other:?}")),
        }
    }
    // The second one is answered first.
    for (job, key, request) in jobs.into_iter().rev() {
        let info = Info {
            key: request.key.clone(),
            state: "running".to_owned(),
            token: 9,
            worker: Some(3),
            attempts: 1,
        };
        host.ok(request.rid, Done { job: Some(info), ..Done::default() }).await?;
        let status = host.status(job).await?;
        let told: Value =
            status.strip_prefix("ok ").and_then(|it| serde_json::from_str(it).ok()).unwrap_or_default();
        if told["key"] != key || told["token"] != 9 {
            return Err(format!("the answer for {key} is {status:?}"));
        }
    }
    Ok(())
}
