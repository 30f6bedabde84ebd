//! Checkpoints: the state that a job's handler leaves for the next owner.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use serde::{Deserialize, Serialize};
use tenure_pool::error::NotSaved;
use tenure_pool::{BoxError, Job, JobHandler, Payload, RestartPolicy, Settings, Start, StopReason};

use crate::world::{PATIENCE, World, handler_with, on_both_stores, until};

on_both_stores!(
    what_stop_leaves_the_next_owner_gets,
    a_job_that_runs_again_here_gets_its_checkpoint,
    an_awaited_checkpoint_is_kept_and_readable,
    a_checkpoint_that_is_too_long_is_refused_at_once,
    the_next_job_of_a_key_gets_none,
    a_value_survives_a_move,
);

/// The checkpoints that the starts were given, in order.
type Given = Arc<Mutex<Vec<Option<Bytes>>>>;

/// Saves in `stop`, and does not wait.
struct LeavesInStop {
    given: Given,
}

impl JobHandler for LeavesInStop {
    async fn start(&self, job: Job) -> Start {
        self.given.lock().unwrap().push(job.checkpointed().map(|kept| kept.bytes().clone()));
        job.checkpoint("at the start");
        Start::Started
    }

    async fn stop(&self, job: &Job, _: StopReason) -> Result<(), BoxError> {
        for step in 0..10 {
            job.checkpoint(format!("step {step}"));
        }
        Ok(())
    }
}

async fn what_stop_leaves_the_next_owner_gets(world: World) {
    let given = Given::default();
    let (a, b) = (world.builder("a").join().await.unwrap(), world.builder("b").join().await.unwrap());
    a.add_worker(LeavesInStop { given: given.clone() }).await.unwrap();
    a.dispatch(("key", "")).await.unwrap();
    b.add_worker(LeavesInStop { given: given.clone() }).await.unwrap();
    assert!(a.close().await.unwrap().complete);
    until("its second start", async || given.lock().unwrap().len() == 2).await;
    assert_eq!(*given.lock().unwrap(), [None, Some("step 9".into())]);
    world.assert_clean_at_end();
}

async fn a_job_that_runs_again_here_gets_its_checkpoint(world: World) {
    let node = world.builder("a").join().await.unwrap();
    let given = Given::default();
    let handler = handler_with(given.clone(), |given, job| async move {
        let kept = job.checkpointed().map(|kept| kept.bytes().clone());
        let runs = {
            let mut given = given.lock().unwrap();
            given.push(kept);
            given.len()
        };
        job.checkpoint(runs.to_string());
        if runs < 3 { Ok(()) } else { std::future::pending().await }
    });
    node.add_worker(handler).await.unwrap();
    node.dispatch(("key", "")).restart(RestartPolicy::Always).await.unwrap();
    until("its third start", async || given.lock().unwrap().len() == 3).await;
    assert_eq!(*given.lock().unwrap(), [None, Some("1".into()), Some("2".into())]);
}

async fn an_awaited_checkpoint_is_kept_and_readable(world: World) {
    let node = world.builder("a").join().await.unwrap();
    let saved = Arc::new(tokio::sync::Notify::new());
    let handler = handler_with(saved.clone(), |saved, job| async move {
        job.checkpoint("kept").await?;
        saved.notify_one();
        job.cancelled().await;
        Ok(())
    });
    node.add_worker(handler).await.unwrap();
    assert!(node.inspect().checkpoint_of("key").await.unwrap().is_none());
    node.dispatch(("key", "")).await.unwrap();
    tokio::time::timeout(PATIENCE, saved.notified()).await.unwrap();
    let kept = node.inspect().checkpoint_of("key").await.unwrap().unwrap();
    assert_eq!(kept.bytes(), "kept");
    assert!(
        kept.token().0 > 0
            && world.now().duration_since(kept.at()).unwrap_or_default() < Duration::from_secs(600)
    );
    world.stop(&node, "key").await;
    until("it to go", async || node.inspect().checkpoint_of("key").await.unwrap().is_none()).await;
}

async fn a_checkpoint_that_is_too_long_is_refused_at_once(world: World) {
    let settings = Settings { checkpoint_max: 4, worker_ttl: world.ttl(), ..Settings::default() };
    let node = world.builder("a").settings(settings).join().await.unwrap();
    let refused = Arc::new(Mutex::new(None));
    let handler = handler_with(refused.clone(), |refused, job| async move {
        let error = job.checkpoint("fives").await;
        *refused.lock().unwrap() = Some(error);
        job.cancelled().await;
        Ok(())
    });
    node.add_worker(handler).await.unwrap();
    node.dispatch(("key", "")).await.unwrap();
    until("its answer", async || refused.lock().unwrap().is_some()).await;
    let error = Err(NotSaved::TooLong { len: 5, max: 4 });
    assert_eq!(*refused.lock().unwrap(), Some(error));
}

async fn the_next_job_of_a_key_gets_none(world: World) {
    let given = Given::default();
    let node = world.builder("a").join().await.unwrap();
    node.add_worker(LeavesInStop { given: given.clone() }).await.unwrap();
    for _ in 0..2 {
        node.dispatch(("key", "")).await.unwrap();
        world.stop(&node, "key").await;
        until("it to go", async || node.inspect().job("key").await.unwrap().is_none()).await;
        assert!(node.inspect().checkpoint_of("key").await.unwrap().is_none());
    }
    assert_eq!(*given.lock().unwrap(), [None, None]);
}

#[derive(Debug, PartialEq, Serialize, Deserialize)]
struct Cursor {
    page: u64,
}

impl Payload for Cursor {
    const TYPE: &'static str = "cursor";
}

async fn a_value_survives_a_move(world: World) {
    let pages = Arc::new(Mutex::new(Vec::new()));
    let handler = || {
        let pages = pages.clone();
        tenure_pool::run(move |job: Job| {
            let pages = pages.clone();
            async move {
                let page = job.checkpointed_as::<Cursor>()?.map_or(0, |cursor| cursor.page);
                job.checkpoint_as(&Cursor { page: page + 1 }).await?;
                pages.lock().unwrap().push(page);
                job.cancelled().await;
                Ok(())
            }
        })
    };
    let (a, b) = (world.builder("a").join().await.unwrap(), world.builder("b").join().await.unwrap());
    a.add_worker(handler()).await.unwrap();
    a.dispatch(("key", "")).await.unwrap();
    until("its first page", async || pages.lock().unwrap().len() == 1).await;
    b.add_worker(handler()).await.unwrap();
    assert!(a.close().await.unwrap().complete);
    until("its second page", async || pages.lock().unwrap().len() == 2).await;
    assert_eq!(*pages.lock().unwrap(), [0, 1]);
}
