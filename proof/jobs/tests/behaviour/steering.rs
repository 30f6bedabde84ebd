//! Jobs and queues are steered from outside.

use std::time::Duration;

use tenure_jobs::{Ctx, Error, Queue, State};

use super::world::{MINUTE, Said, World};

stories! {
    a_running_job_is_cancelled_from_another_node,
    a_removed_job_ends_its_handler,
    a_paused_queue_begins_nothing,
    a_paused_job_waits,
    a_replay_into_a_full_queue_is_refused,
}

async fn a_running_job_is_cancelled_from_another_node(world: World) {
    let jobs = world.node("n").queue(Queue::new("q")).join().await.unwrap();
    let other = world.node("m").join().await.unwrap();
    let said = Said::default();
    let worker = said.worker(&jobs, "q", async |heard: Said, ctx: Ctx, (): ()| {
        heard.say("begun");
        ctx.cancelled().await;
        Err::<(), _>("cancelled half way".into())
    });
    let _worker = worker.start().unwrap();
    let id = jobs.add("q", &()).await.unwrap().id;
    said.until(1).await;
    let mut watch = other.watch(&id).await.unwrap();
    assert!(!other.cancel(&id, "no more").await.unwrap(), "its handler is asked");
    let ended = watch.ended().await.unwrap();
    assert_eq!(ended.state(), State::Cancelled);
    assert!(matches!(other.cancel(&id, "no more").await, Err(Error::NotFound(_))));
    let waiting = jobs.add("q", &()).delay(MINUTE).await.unwrap().id;
    assert!(other.cancel(&waiting, "no more").await.unwrap());
    assert_eq!(other.get(&waiting).await.unwrap().unwrap().error().as_deref(), Some("no more"));
}

/// Says when it is dropped.
struct Gone(Said);

impl Drop for Gone {
    fn drop(&mut self) {
        self.0.say("gone");
    }
}

async fn a_removed_job_ends_its_handler(world: World) {
    let jobs = world.node("n").queue(Queue::new("q")).join().await.unwrap();
    let said = Said::default();
    let heard = said.clone();
    let worker = jobs.worker("q", move |ctx: Ctx, (): ()| {
        let gone = Gone(heard.clone());
        async move {
            gone.0.say("begun");
            loop {
                tokio::time::sleep(Duration::from_millis(10)).await;
                if let Err(Error::Halted(_)) = ctx.checkpoint(&()).await {
                    gone.0.say("halted");
                    return Ok(());
                }
            }
        }
    });
    let _worker = worker.start().unwrap();
    let id = jobs.add("q", &()).await.unwrap().id;
    said.until(1).await;
    jobs.remove(&id).await.unwrap();
    tenure_testing::eventually(MINUTE, "the handler is gone", async || {
        said.all().contains(&"gone".to_owned())
    })
    .await;
    assert!(jobs.get(&id).await.unwrap().is_none());
}

async fn a_replay_into_a_full_queue_is_refused(world: World) {
    let jobs = world.node("n").queue(Queue::new("q").capacity(1)).join().await.unwrap();
    let dead = jobs.add("q", &()).await.unwrap().id;
    jobs.cancel(&dead, "no").await.unwrap();
    let first = jobs.add("q", &()).await.unwrap().id;
    assert!(matches!(jobs.replay(&dead).await, Err(Error::Full(queue)) if queue == "q"));
    jobs.remove(&first).await.unwrap();
    jobs.replay(&dead).await.unwrap();
    assert_eq!(jobs.get(&dead).await.unwrap().unwrap().state(), State::Ready);
}

async fn a_paused_queue_begins_nothing(world: World) {
    let jobs = world.node("n").queue(Queue::new("q").keep(MINUTE)).join().await.unwrap();
    let _worker = jobs.worker("q", async |_: Ctx, (): ()| Ok(())).start().unwrap();
    let queue = jobs.queue("q").unwrap();
    queue.pause().await.unwrap();
    let id = jobs.add("q", &()).await.unwrap().id;
    // A job of another queue shows that time has passed, and that the worker takes.
    let open = world.node("m").queue(Queue::new("other").keep(MINUTE)).join().await.unwrap();
    let _other = open.worker_of(["other", "q"], async |_: Ctx, (): ()| Ok(())).start().unwrap();
    let other = open.add("other", &()).await.unwrap().id;
    assert!(open.wait(&other).await.unwrap().is_done());
    assert_eq!(jobs.get(&id).await.unwrap().unwrap().state(), State::Ready);
    queue.resume().await.unwrap();
    assert!(jobs.wait(&id).await.unwrap().is_done());
    assert!(matches!(jobs.queue("no").unwrap().pause().await, Err(Error::NoQueue(_))));
}

async fn a_paused_job_waits(world: World) {
    let jobs = world.node("n").queue(Queue::new("q").keep(MINUTE)).join().await.unwrap();
    let id = jobs.add("q", &()).await.unwrap().id;
    jobs.pause(&id).await.unwrap();
    let _worker = jobs.worker("q", async |_: Ctx, (): ()| Ok(())).start().unwrap();
    let other = jobs.add("q", &()).await.unwrap().id;
    assert!(jobs.wait(&other).await.unwrap().is_done());
    assert_eq!(jobs.get(&id).await.unwrap().unwrap().state(), State::Paused);
    jobs.resume(&id).await.unwrap();
    assert!(jobs.wait(&id).await.unwrap().is_done());
    assert!(matches!(jobs.resume(&id).await, Err(Error::NotFound(_))));
}
