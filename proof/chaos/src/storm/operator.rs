//! Faults by an operator at another node: a hold, a cordon, a drain. And jobs that are made to hang.

use std::time::Duration;

use rand::Rng;
use rand::rngs::StdRng;
use tenure_pool::error::NotHandled;
use tenure_pool::inspect::WorkerInfo;
use tenure_pool::{AskError, Error, Node, Settings};
use tenure_testing::history::Event;
use tenure_testing::{describe, within};
use tokio::time::sleep;

use super::arena::{Arena, kill};
use super::key::HANGS_EACH;
use super::steered::{HEARD, PROGRESS, STOPS};
use crate::Result;
use crate::manner::Manner;
use crate::node::worker_meta;

/// The longest time for what an operator wants.
const PATIENCE: Duration = Duration::from_secs(60);
/// How long a hold lasts once every node goes by it.
const HOLDS: Duration = Duration::from_secs(2);
/// The longest time for a job to run again once its handler has hung. Its restart has a pause.
const REPLACED: Duration = PROGRESS.saturating_add(STOPS).saturating_add(Duration::from_secs(12));
/// How many keys are tried until one has a job that can hang.
const TRIES: usize = 20;

/// Repeats a call until it has succeeded. Every one of an operator's calls may be made again.
async fn insist(
    arena: &mut Arena,
    what: &str,
    mut call: impl AsyncFnMut() -> std::result::Result<(), Error>,
) -> bool {
    let done = within(PATIENCE, what, async || call().await.map_err(|error| describe(&error))).await;
    let done = done.map_err(|late| arena.strange.push(late.to_string()));
    done.is_ok()
}

/// Holds the pool for a while, and kills nobody: jobs wait, and what runs runs on.
pub(super) async fn hold(arena: &mut Arena, operator: &Node) -> Result<bool> {
    let held = insist(arena, "a hold", async || operator.operate().hold(true).await).await;
    if held {
        arena.history.record(Event::Held);
        sleep(HEARD + HOLDS).await;
        arena.history.record(Event::HoldLifted);
    }
    // Even without an answer the pool may be on hold.
    Ok(insist(arena, "the end of a hold", async || operator.operate().hold(false).await).await && held)
}

/// Turns grants off for a while.
pub(super) async fn grant_nothing(arena: &mut Arena, operator: &Node, length: Duration) -> bool {
    let usual = Settings::default().grant_max;
    let set = async |grant_max| {
        let changed = operator.operate().change_settings(|settings| settings.grant_max = grant_max).await;
        changed.map(drop)
    };
    let off = insist(arena, "the end of grants", async || set(0).await).await;
    sleep(length).await;
    insist(arena, "grants", async || set(usual).await).await && off
}

/// Cordons a node, and kills another one. The jobs of that one go elsewhere.
pub(super) async fn cordon(arena: &mut Arena, operator: &Node, first: usize, ttl: Duration) -> Result<bool> {
    let Some(&place) = arena.ready_from(first).first() else { return Ok(false) };
    let Some(cordoned) = arena.take(place) else { return Ok(false) };
    let node = cordoned.name().to_owned();
    let mut killed = false;
    if insist(arena, "a cordon", async || operator.operate().cordon(&node).await).await {
        arena.history.record(Event::Cordoned { node: node.clone() });
        sleep(HEARD).await;
        killed = kill(arena, first, 1).await?;
        // The jobs of the killed node run again by then.
        sleep(ttl * 2).await;
        arena.history.record(Event::CordonLifted { node: node.clone() });
    }
    let lifted =
        insist(arena, "the end of a cordon", async || operator.operate().uncordon(&node).await).await;
    arena.put(place, cordoned);
    Ok(lifted && killed)
}

/// Drains a worker of a node, and lets the node leave when the worker is no member any more.
pub(super) async fn drain(
    arena: &mut Arena,
    operator: &Node,
    first: usize,
    random: &mut StdRng,
) -> Result<bool> {
    let ready = arena.ready_from(first);
    let Some(node) = ready.first().filter(|_| ready.len() > 2).and_then(|&place| arena.take(place)) else {
        return Ok(false);
    };
    let names: Vec<String> = node.plan().worker_names().collect();
    let worker = names[random.random_range(0..names.len())].clone();
    let (name, meta) = (node.name().to_owned(), worker_meta(&worker));
    let is_it = |info: &WorkerInfo| info.node == name && info.meta == meta;
    let known = async || operator.inspect().workers().await.unwrap_or_default();
    let Some(info) = known().await.into_iter().find(is_it) else {
        arena.leave(node).await?;
        return Ok(false);
    };
    // It may have lost its lease, and have joined again under another id. That one is not drained.
    let mut taken = false;
    let drained =
        insist(arena, "a drain of a worker", async || match operator.operate().drain(&info).await {
            Err(Error::WorkerNotFound(_)) => Ok(()),
            answer => answer.map(|()| taken = true),
        });
    let mut happened = drained.await && taken;
    let is_gone = async || known().await.iter().all(|member| member.id != info.id);
    match within(PATIENCE, "a worker that was drained from elsewhere to be gone", is_gone).await {
        Ok(()) => {
            happened &= !known().await.iter().any(is_it);
            if happened {
                arena.history.record(Event::Drained { worker });
            }
        }
        Err(late) => {
            arena.strange.push(format!("{worker}: {late}"));
            happened = false;
        }
    }
    arena.leave(node).await?;
    Ok(happened)
}

/// Makes a job hang that has a progress timeout, and waits until another run of it answers.
pub(super) async fn hang(
    arena: &mut Arena,
    operator: &Node,
    keys: usize,
    random: &mut StdRng,
) -> Result<bool> {
    for _ in 0..TRIES {
        let number = random.random_range(0..keys.div_ceil(HANGS_EACH)) * HANGS_EACH;
        let key = format!("key-{number}");
        let Some(token) = asked(operator, &key, Manner::HANG).await.ok().flatten() else { continue };
        let replaced = within(REPLACED, "a hung job to be run again", async || {
            // A job that is gone was stopped meanwhile.
            match asked(operator, &key, Manner::WHO).await {
                Ok(Some(now)) => now > token,
                Ok(None) => false,
                Err(()) => true,
            }
        });
        if let Err(late) = replaced.await {
            arena.strange.push(format!("{key}: {late}"));
        }
        return Ok(true);
    }
    Ok(false)
}

/// The token of the job's owner, if it answers. An error says that there is no job.
async fn asked(operator: &Node, key: &str, body: &'static str) -> std::result::Result<Option<u64>, ()> {
    match operator.ask(key, body).deadline(Duration::from_secs(1)).idempotent().await {
        Ok(token) => Ok(std::str::from_utf8(&token).ok().and_then(|token| token.parse().ok())),
        Err(AskError::NotHandled(NotHandled::NoJob | NotHandled::Stopping)) => Err(()),
        Err(_) => Ok(None),
    }
}
