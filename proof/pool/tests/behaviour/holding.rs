//! A pool on hold: it accepts jobs and starts none, and what runs runs on.

use std::time::Duration;

use tenure_pool::error::Obstacle;
use tenure_pool::{DispatchError, JobState};

use crate::world::{SHORT, World, on_both_stores, until};

on_both_stores!(
    a_held_pool_starts_nothing_and_what_runs_runs_on,
    a_client_holds_a_pool_and_every_node_shows_it
);

async fn a_held_pool_starts_nothing_and_what_runs_runs_on(world: World) {
    let (a, b) = (world.node_with("a", 1).await, world.node("b").await);
    let (before, held) = world.dispatch_placed(&a, 20).await;
    let guess = b.guess("job-0").unwrap();
    a.operate().hold(true).await.unwrap();
    until("the other node to hear of it", async || b.health().on_hold).await;
    assert!(guess.is_some() && b.guess("job-0").unwrap() == guess, "what runs can be found");
    world.history().submitted("later");
    b.submit(("later", "")).await.unwrap();
    world.history().accepted("later");
    let waits = Duration::from_secs(10);
    until("a router to leave the job waiting", async || {
        let job = a.inspect().job("later").await.unwrap().unwrap();
        assert_eq!(job.state, JobState::Queued);
        job.next_try.is_some_and(|at| at > world.now() + waits)
    })
    .await;
    world.history().submitted("late");
    let late = a.dispatch(("late", "")).deadline(SHORT).await.unwrap_err();
    assert!(matches!(late, DispatchError::Deadline { obstacle: Some(Obstacle::OnHold), .. }), "{late}");
    // A second worker would get its share of the jobs.
    world.add_worker(&b).await;
    a.notify("job-0", "hello").await.unwrap();
    until("the notification", async || world.recorder.notes("job-0") == ["hello"]).await;
    assert_eq!(world.recorder.starts_of("later"), 0);
    assert_eq!(world.holders(&a).await, held);
    b.operate().hold(false).await.unwrap();
    let all: Vec<_> = before.into_iter().chain(["later".to_owned()]).collect();
    world.placed(&a, &all).await;
    world.assert_clean();
}

async fn a_client_holds_a_pool_and_every_node_shows_it(world: World) {
    let a = world.node_with("a", 1).await;
    let client = world.builder("client").client_only().join().await.unwrap();
    for on in [true, true, false] {
        client.operate().hold(on).await.unwrap();
        assert_eq!((client.health().on_hold, client.settings().hold), (on, on));
        until("the node to hear of it", async || a.health().on_hold == on).await;
        assert!(a.health().is_healthy());
    }
    world.dispatch_one(&a, "key").await;
}
