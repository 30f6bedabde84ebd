//! Jobs in a Python host, by way of its SDK.

use std::time::Duration;

use tenure_pool::error::NotHandled;
use tenure_pool::{AskError, JobSpec, JobState, RestartPolicy};
use tenure_testing::eventually;

use super::world::{PATIENCE, World, python, raw};

async fn world() -> (World, super::world::Host) {
    let world = World::new().await;
    let host = world.host("h", 1, &["--logs", "null", "--drain", "300s"], &python()).await;
    (world, host)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_starts_answers_and_stops() {
    let (world, host) = world().await;
    world.node.dispatch(("acme", r#"{"do":"run"}"#)).await.unwrap();
    assert_eq!(world.ask("acme", "hi").await.unwrap(), "acme:hi");
    let refused = world.ask("acme", "no").await.unwrap_err();
    assert!(matches!(&refused, AskError::Refused(why) if why == "no"), "{refused}");
    // The job stays where it is, so the ask comes back until its time is over.
    let moved = world.node.ask("acme", "moved").deadline(Duration::from_millis(500)).await.unwrap_err();
    // It may be in the host's hands at that moment.
    assert!(matches!(&moved, AskError::NotHandled(NotHandled::Late) | AskError::Unknown { .. }), "{moved}");
    world.node.notify("acme", "refuse").await.unwrap();
    world.node.notify("acme", "x").await.unwrap();
    let taken = || async { world.node.inspect().notifications("acme").await.unwrap().is_empty() };
    eventually(PATIENCE, "both are taken", taken).await;
    world.node.stop_job("acme").until_stopped().await.unwrap();
    assert!(world.node.inspect().job("acme").await.unwrap().is_none());
    host.leave().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_failed_start_tells_its_dispatcher_why() {
    let (world, host) = world().await;
    let job = ("acme", r#"{"do":"start_fail","text":"no route"}"#);
    let error = world.node.dispatch(job).await.unwrap_err();
    assert!(error.to_string().contains("no route"), "{error}");
    let job = JobSpec::new("other", r#"{"do":"park","text":"no plan"}"#).restart(RestartPolicy::Always);
    world.node.submit(job).await.unwrap();
    let parked = || async { world.node.inspect().parked().await.unwrap().pop() };
    let parked = eventually(PATIENCE, "it is parked", parked).await;
    assert!(format!("{parked:?}").contains("no plan"), "{parked:?}");
    host.leave().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_last_state_that_is_too_long_is_told_to_its_host() {
    let world = World::new().await;
    let host = world.host("h", 1, &["--logs", "null"], &raw("good")).await;
    world.node.dispatch(("hoards", "")).await.unwrap();
    world.node.operate().bounce("hoards").await.unwrap();
    let told = world.line("unsaved", "hoards").await;
    assert!(told.starts_with("hoards 1 too_long: ") && told.contains("70000 bytes"), "{told}");
    // By then the pool keeps the state of the next run.
    world.node.operate().change_settings(|settings| settings.checkpoint_max = 80_000).await.unwrap();
    world.line("bounds", "80000").await;
    world.running("hoards").await;
    world.node.operate().bounce("hoards").await.unwrap();
    let kept = || async { world.node.inspect().checkpoint_of("hoards").await.unwrap() };
    assert_eq!(eventually(PATIENCE, "its state", kept).await.bytes().len(), 70_000);
    assert_eq!(world.lines("unsaved").len(), 1);
    host.leave().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_state_goes_to_the_next_run() {
    let (world, host) = world().await;
    world.node.dispatch(("saves", r#"{"do":"save","text":"41"}"#)).await.unwrap();
    world.node.dispatch(("leaves", r#"{"do":"leave","text":"42"}"#)).await.unwrap();
    for (key, text) in [("saves", "41"), ("leaves", "42")] {
        let before = world.running(key).await;
        world.node.operate().bounce(key).await.unwrap();
        let again = || async {
            world.node.inspect().job(key).await.unwrap().is_some_and(|job| job.token > before.token)
        };
        eventually(PATIENCE, "it runs again", again).await;
        let kept = world.node.inspect().checkpoint_of(key).await.unwrap().unwrap();
        assert_eq!(kept.bytes(), text, "{key}");
    }
    host.leave().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_takes_a_payload_or_starts_again_with_it() {
    let (world, host) = world().await;
    world.node.dispatch(("acme", r#"{"do":"run"}"#)).await.unwrap();
    let token = world.running("acme").await.token;
    world.node.update(("acme", "silver")).await.unwrap();
    assert_eq!(world.ask("acme", "?").await.unwrap(), "acme:?");
    assert_eq!(world.running("acme").await.token, token, "it runs on");
    world.node.update(("acme", "restart")).await.unwrap();
    let again =
        || async { world.node.inspect().job("acme").await.unwrap().is_some_and(|job| job.token > token) };
    eventually(PATIENCE, "it starts again", again).await;
    host.leave().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_host_dispatches_by_itself() {
    let (world, host) = world().await;
    let call = r#"{"do":"call","op":"dispatch","key":"globex","body":"{\"do\":\"run\"}"}"#;
    world.node.dispatch(("acme", call)).await.unwrap();
    assert_eq!(world.running("globex").await.state, JobState::Running);
    assert_eq!(world.ask("globex", "hi").await.unwrap(), "globex:hi");
    host.leave().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_that_others_drain_ends_its_hosts_and_itself() {
    let (world, mut host) = world().await;
    world.node.dispatch(("acme", r#"{"do":"leave","text":"42"}"#)).await.unwrap();
    world.node.operate().drain_node("h").await.unwrap();
    assert_eq!(host.ended().await.code(), Some(0));
    assert_eq!(world.node.inspect().job("acme").await.unwrap().unwrap().state, JobState::Queued);
    let kept = world.node.inspect().checkpoint_of("acme").await.unwrap().unwrap();
    assert_eq!(kept.bytes(), "42");
}

#[tokio::test(flavor = "multi_thread")]
async fn ten_thousand_keys_live_in_one_python_process() {
    const KEYS: usize = 10_000;
    let (world, host) = world().await;
    let jobs = (0..KEYS).map(|number| JobSpec::new(format!("key-{number}"), r#"{"do":"run"}"#));
    let started = world.node.dispatch_many(jobs).deadline(Duration::from_secs(600)).await;
    assert!(started.iter().all(Result::is_ok), "{:?}", started.iter().find(|it| it.is_err()));
    assert_eq!(host.keepers().len(), 1);
    for number in [0, KEYS / 2, KEYS - 1] {
        let key = format!("key-{number}");
        let answer = world.ask(&key, "hi").await.unwrap();
        assert_eq!(answer, format!("{key}:hi"));
    }
    host.leave().await;
}
