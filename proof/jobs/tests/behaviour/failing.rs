//! Handlers that fail, hang, panic, and lose their leases.

use std::time::Duration;

use tenure_jobs::{Backoff, Ctx, Error, Fatal, Outcome, Queue, State};

use super::world::{MINUTE, SECOND, Said, World};

stories! {
    an_error_is_tried_again_until_it_is_a_dead_letter,
    a_fatal_error_is_not_tried_again,
    a_panic_hurts_its_own_job_only,
    an_execution_whose_task_is_gone_has_failed,
    data_of_another_type_are_a_dead_letter,
    an_execution_that_takes_too_long_has_failed,
    a_handler_without_a_heartbeat_has_failed,
    an_execution_whose_time_is_over_has_its_queues_pause,
    a_handler_that_blocks_its_runtime_keeps_its_lease,
    a_delay_by_the_handler_counts_no_attempt,
    a_dead_letter_is_replayed,
}

fn queue(attempts: u32) -> Queue {
    Queue::new("q").attempts(attempts).backoff(Backoff::new(Duration::from_millis(10), SECOND)).keep(MINUTE)
}

async fn an_error_is_tried_again_until_it_is_a_dead_letter(world: World) {
    let jobs = world.node("n").queue(queue(3)).join().await.unwrap();
    let said = Said::default();
    let worker = said.worker(&jobs, "q", async |heard: Said, ctx: Ctx, (): ()| {
        heard.say(ctx.attempt().to_string());
        let cause = std::io::Error::other("the disk is full");
        Err::<(), _>(
            Box::new(Error::from(tenure_jobs::StoreError::NotExecuted(std::sync::Arc::new(cause)))) as _
        )
    });
    let _worker = worker.start().unwrap();
    let id = jobs.add("q", &()).await.unwrap().id;
    let ended = jobs.wait(&id).await.unwrap();
    assert_eq!((ended.state(), said.all()), (State::Failed, ["1", "2", "3"].map(str::to_owned).to_vec()));
    let error = ended.error().unwrap();
    assert!(error.ends_with("the disk is full"), "the whole chain is kept: {error}");
    assert_eq!(jobs.queue("q").unwrap().dead().await.unwrap(), std::slice::from_ref(&id));
    assert_eq!(jobs.get(&id).await.unwrap().unwrap().queue(), &"q");
}

async fn a_fatal_error_is_not_tried_again(world: World) {
    let jobs = world.node("n").queue(queue(9)).join().await.unwrap();
    let worker = jobs.worker("q", async |_: Ctx, (): ()| Err::<(), _>(Fatal::new("no such address").into()));
    let _worker = worker.start().unwrap();
    let id = jobs.add("q", &()).await.unwrap().id;
    let ended = jobs.wait(&id).await.unwrap();
    assert_eq!((ended.state(), ended.error().as_deref()), (State::Failed, Some("no such address")));
    assert_eq!(jobs.get(&id).await.unwrap().unwrap().attempts(), 1);
}

async fn a_panic_hurts_its_own_job_only(world: World) {
    let jobs = world.node("n").queue(queue(2)).join().await.unwrap();
    let worker = jobs.worker("q", async |_: Ctx, bad: bool| {
        assert!(!bad, "it is bad");
        Ok(())
    });
    let _worker = worker.slots(1).start().unwrap();
    let bad = jobs.add("q", &true).await.unwrap().id;
    let good = jobs.add("q", &false).await.unwrap().id;
    assert!(jobs.wait(&good).await.unwrap().is_done());
    let ended = jobs.wait(&bad).await.unwrap();
    assert_eq!(ended.error().as_deref(), Some("the handler panicked: it is bad"));
}

/// An error that nobody can read: the task of its execution ends with a panic, beyond the handler.
#[derive(Debug)]
struct Unreadable;

impl std::fmt::Display for Unreadable {
    fn fmt(&self, _: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        panic!("nobody can read this")
    }
}

impl std::error::Error for Unreadable {}

async fn an_execution_whose_task_is_gone_has_failed(world: World) {
    let jobs = world.node("n").queue(queue(2)).join().await.unwrap();
    let said = Said::default();
    let worker = said.worker(&jobs, "q", async |heard: Said, ctx: Ctx, bad: bool| {
        if bad {
            heard.say(ctx.attempt().to_string());
            return Err(Unreadable.into());
        }
        Ok(())
    });
    let _worker = worker.slots(1).start().unwrap();
    let ended = async |bad: bool| {
        let id = jobs.add("q", &bad).await.unwrap().id;
        tokio::time::timeout(MINUTE / 2, jobs.wait(&id)).await.expect("it has ended").unwrap()
    };
    let bad = ended(true).await;
    assert_eq!((bad.state(), bad.error().as_deref()), (State::Failed, Some("its task was aborted")));
    assert_eq!(said.all(), ["1", "2"], "it was tried again");
    assert!(ended(false).await.is_done(), "its slot is free");
}

async fn data_of_another_type_are_a_dead_letter(world: World) {
    let jobs = world.node("n").queue(queue(9)).join().await.unwrap();
    let _worker = jobs.worker("q", async |_: Ctx, _: u32| Ok(())).start().unwrap();
    let id = jobs.add("q", "a text").await.unwrap().id;
    let ended = jobs.wait(&id).await.unwrap();
    assert_eq!(ended.state(), State::Failed);
    assert!(ended.error().unwrap().contains("another type"), "{ended:?}");
}

async fn an_execution_that_takes_too_long_has_failed(world: World) {
    let queue = queue(2).timeout(Duration::from_millis(200));
    let jobs = world.node("n").queue(queue).join().await.unwrap();
    let said = Said::default();
    let worker = said.worker(&jobs, "q", async |heard: Said, ctx: Ctx, (): ()| {
        ctx.cancelled().await;
        heard.say("told");
        std::future::pending::<()>().await;
        Ok(())
    });
    let worker = worker.slots(1).start().unwrap();
    let id = jobs.add("q", &()).await.unwrap().id;
    let ended = jobs.wait(&id).await.unwrap();
    assert_eq!((ended.state(), said.all().len()), (State::Failed, 2));
    assert_eq!(ended.error().as_deref(), Some("it took longer than 200ms"));
    assert_eq!(worker.close(MINUTE).await.unwrap().given_back, 0, "the slot is free again");
}

async fn a_handler_without_a_heartbeat_has_failed(world: World) {
    let queue = queue(1).heartbeat(2 * SECOND);
    let jobs = world.node("n").queue(queue).join().await.unwrap();
    let worker = jobs.worker("q", async |ctx: Ctx, beats: u32| {
        for _ in 0..beats {
            tokio::time::sleep(Duration::from_millis(100)).await;
            ctx.heartbeat();
        }
        if beats == 0 {
            std::future::pending::<()>().await;
        }
        Ok(())
    });
    let _worker = worker.start().unwrap();
    let (lively, hung) = (jobs.add("q", &25u32).await.unwrap().id, jobs.add("q", &0u32).await.unwrap().id);
    assert!(jobs.wait(&lively).await.unwrap().is_done());
    assert_eq!(jobs.wait(&hung).await.unwrap().error().as_deref(), Some("no heartbeat within 2s"));
}

async fn an_execution_whose_time_is_over_has_its_queues_pause(world: World) {
    let paused = |name: &str| Queue::new(name).attempts(2).backoff(Backoff::new(MINUTE, MINUTE));
    let late = paused("late").timeout(Duration::from_millis(100));
    let still = paused("still").heartbeat(Duration::from_millis(100));
    let jobs = world.node("n").queue(late).queue(still).join().await.unwrap();
    let worker = jobs.worker_of(["late", "still"], async |_: Ctx, (): ()| {
        std::future::pending::<()>().await;
        Ok(())
    });
    let _worker = worker.start().unwrap();
    for (queue, why) in [("late", "it took longer than 100ms"), ("still", "no heartbeat within 100ms")] {
        let id = jobs.add(queue, &()).await.unwrap().id;
        let view = tenure_testing::eventually(MINUTE, "its time is over", async || {
            let view = jobs.get(&id).await.unwrap().unwrap();
            if view.error().is_some() { Ok(view) } else { Err(view.state()) }
        })
        .await;
        assert_eq!((view.state(), view.attempts()), (State::Delayed, 1), "{queue}");
        assert_eq!(view.error().as_deref(), Some(why));
    }
}

async fn a_handler_that_blocks_its_runtime_keeps_its_lease(world: World) {
    let jobs = world.node("n").queue(queue(2).lease(3 * SECOND)).queues(["clock"]).join().await.unwrap();
    let said = Said::default();
    let heard = said.clone();
    // A runtime with one thread, which the handler blocks until its first lease is over by the store's clock.
    let (open, gate) = std::sync::mpsc::channel::<()>();
    let gate = std::sync::Arc::new(std::sync::Mutex::new(gate));
    let home = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let worker = {
        let _home = home.enter();
        let builder = jobs.worker("q", move |ctx: Ctx, (): ()| {
            let (heard, gate) = (heard.clone(), gate.clone());
            async move {
                heard.say(ctx.attempt().to_string());
                // A sender that is gone opens it, too.
                let _ = gate.lock().unwrap().recv();
                Ok(())
            }
        });
        builder.start().unwrap()
    };
    let id = jobs.add("q", &()).await.unwrap().id;
    said.until(1).await;
    let later = jobs.add("clock", &()).delay(Duration::from_millis(4_500)).keep(MINUTE).await.unwrap().id;
    let _clock = jobs.worker("clock", async |_: Ctx, (): ()| Ok(())).start().unwrap();
    assert!(jobs.wait(&later).await.unwrap().is_done());
    drop(open);
    assert!(jobs.wait(&id).await.unwrap().is_done());
    assert_eq!(said.all(), ["1"]);
    worker.close(MINUTE).await.unwrap();
    home.shutdown_background();
}

async fn a_delay_by_the_handler_counts_no_attempt(world: World) {
    let jobs = world.node("n").queue(queue(1)).join().await.unwrap();
    let said = Said::default();
    let worker = said.worker(&jobs, "q", async |heard: Said, ctx: Ctx, (): ()| {
        heard.say(ctx.attempt().to_string());
        Ok(if heard.count() < 4 {
            Outcome::later(Duration::from_millis(20), "busy")
        } else {
            Outcome::done()
        })
    });
    let _worker = worker.start().unwrap();
    let id = jobs.add("q", &()).await.unwrap().id;
    assert!(jobs.wait(&id).await.unwrap().is_done());
    assert_eq!(said.all(), ["1"; 4]);
}

async fn a_dead_letter_is_replayed(world: World) {
    let jobs = world.node("n").queue(queue(1)).join().await.unwrap();
    let said = Said::default();
    let worker = said.worker(&jobs, "q", async |heard: Said, _: Ctx, (): ()| {
        heard.say("run");
        if heard.count() <= 2 { Err("not yet".into()) } else { Ok(()) }
    });
    let _worker = worker.start().unwrap();
    let (first, second) = (jobs.add("q", &()).await.unwrap().id, jobs.add("q", &()).await.unwrap().id);
    assert!(!jobs.wait(&first).await.unwrap().is_done() && !jobs.wait(&second).await.unwrap().is_done());
    assert_eq!(jobs.queue("q").unwrap().replay_dead().await.unwrap(), 2);
    assert!(jobs.wait(&first).await.unwrap().is_done() && jobs.wait(&second).await.unwrap().is_done());
}
