//! A panic inside the library: the node fences itself, as if its process had ended.

use std::time::Duration;

use tenure_pool::health::Unhealthy;
use tenure_pool::job::TraceContext;
use tenure_pool::{DispatchError, Error};
use tenure_testing::history::{Event, boottime_ns};

use crate::metering::panics;
use crate::recorder::Act;
use crate::world::{World, beside, held_by, on_both_stores, until, workers_on};

on_both_stores!(
    a_node_that_panics_ends_its_handlers_and_its_jobs_move,
    a_span_hook_that_panics_fails_its_job_alone
);

/// A busy machine that pauses for half of it costs no lease.
const TTL: Duration = Duration::from_secs(4);

/// The node has no task for this job, and the job still learns of its end.
fn has_no_task(key: &[u8]) -> bool {
    key.last().is_some_and(|digit| digit.is_multiple_of(2))
}

async fn a_node_that_panics_ends_its_handlers_and_its_jobs_move(world: World) {
    let world = world.with_ttl(TTL);
    let panics = panics();
    let armed = metrics::set_default_local_recorder(&panics);
    let a = world.node("a").await;
    drop(armed);
    let acts = |job: &tenure_pool::Job| match job.key().as_bytes() {
        b"open" => Act::HangStart,
        key if has_no_task(key) => Act::HoldApart,
        _ => Act::Run,
    };
    a.add_worker(world.recorder.acting(acts)).await.unwrap();
    world.history().submitted("open");
    let open = beside(&a, |a| async move { a.dispatch(("open", "")).await });
    until("its start", async || world.recorder.is_running("open")).await;
    let b = world.node_with("b", 1).await;
    let (keys, before) = world.dispatch_placed(&b, 20).await;
    let orphans = held_by(&before, &workers_on(&a).await);
    assert!(orphans.len() < keys.len());
    for without in [true, false] {
        assert!(orphans.iter().any(|key| has_no_task(key.as_bytes()) == without), "{orphans:?}");
    }

    let since = boottime_ns();
    b.notify(orphans[0].as_str(), "hello").await.unwrap();
    a.closed().await;
    let opened = open.await.unwrap();
    let why = "panicked: as it was told";
    assert!(matches!(&opened, Err(DispatchError::NodeFailed(text)) if **text == *why), "{opened:?}");
    let told = a.notify(orphans[0].as_str(), "").await;
    assert!(matches!(&told, Err(Error::NodeFailed(text)) if **text == *why), "{told:?}");
    let health = a.health();
    assert_eq!(health.reasons, [Unhealthy::Failed(why.into())]);
    assert!(health.needs_restart());
    let ended = || {
        let entries = world.history().entries().into_iter();
        let ends = entries.filter_map(|entry| match entry.event {
            Event::Stopped { key, token, .. } => Some((key, token, entry.at)),
            _ => None,
        });
        ends.filter(|(key, token, _)| before.get(key).is_some_and(|held| held.token == *token))
            .collect::<Vec<_>>()
    };
    until("its handlers to end", async || ended().len() == orphans.len()).await;
    let lease_over = since + u64::try_from(TTL.as_nanos()).unwrap();
    for (key, _, at) in ended() {
        assert!(orphans.contains(&key), "{key} was not its own");
        assert!(at < lease_over, "{key} ran on when others could have begun it");
    }

    until("its worker to be expired", async || b.inspect().workers().await.unwrap().len() == 1).await;
    let after = world.placed(&b, &keys).await;
    for (key, held) in &after {
        assert!(before.get(key).is_none_or(|old| orphans.contains(key) == (old != held)), "{key}");
    }
    until("what it had accepted to run", async || world.recorder.is_running("open")).await;
    until("the notification", async || world.recorder.notes(&orphans[0]) == ["hello"]).await;
    world.assert_clean();
}

async fn a_span_hook_that_panics_fails_its_job_alone(world: World) {
    let node = world.builder("a").on_job_span(|_, _| panic!("as it was told")).join().await.unwrap();
    world.add_worker(&node).await;
    let trace = TraceContext::new("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01", "");
    let failed = node.dispatch(("traced", "")).trace(trace.unwrap()).await;
    assert!(
        matches!(&failed, Err(DispatchError::StartFailed(text)) if text.contains("as it was told")),
        "{failed:?}"
    );
    world.dispatch_one(&node, "other").await;
    assert!(world.recorder.is_running("other") && node.health().is_healthy());
}
