//! Calls are bounded in bytes.

use std::collections::BTreeSet;
use std::sync::Arc;

use tenure_jobs::{Ctx, Error, Jobs, MemoryStore, Outcome, Queue};
use tokio::sync::Barrier;

use super::world::{MINUTE, World};

const LARGE: usize = 400_000;
/// Three large ones fill a call.
const A_CALL: usize = 3;

stories! {
    many_large_jobs_come_in_several_calls,
    checkpoint_and_progress_share_one_bound,
}

async fn many_large_jobs_come_in_several_calls(world: World) {
    let jobs = world.node("n").queue(Queue::new("q")).join().await.unwrap();
    let added = jobs.add_many("q", (0..8).map(|_| "x".repeat(LARGE))).await.unwrap();
    let mut calls = BTreeSet::new();
    for added in &added {
        let birth = jobs.get(&added.id).await.unwrap().unwrap().record().birth.clone();
        // It begins with the call that has made the job.
        calls.insert(birth[..14].to_owned());
    }
    assert_eq!((added.len(), calls.len()), (8, 8usize.div_ceil(A_CALL)));
}

async fn checkpoint_and_progress_share_one_bound(world: World) {
    let jobs = world.node("n").queue(Queue::new("q").attempts(1)).join().await.unwrap();
    let worker = jobs.worker("q", async |ctx: Ctx, (): ()| {
        let large = "x".repeat(LARGE);
        ctx.checkpoint(&large).await?;
        let refused = ctx.progress(&large).await;
        assert!(matches!(refused, Err(Error::TooLarge { max: 524_288, .. })), "{refused:?}");
        ctx.progress("half").await?;
        let refused = ctx.checkpoint(&"x".repeat(524_280)).await;
        assert!(matches!(refused, Err(Error::TooLarge { .. })), "{refused:?}");
        assert_eq!(ctx.checkpointed::<String>()?, Some(large), "a refusal changes nothing");
        assert_eq!(ctx.progressed::<String>()?.as_deref(), Some("half"));
        Ok(())
    });
    let _worker = worker.start().unwrap();
    let id = jobs.add("q", &()).keep(MINUTE).await.unwrap().id;
    let end = jobs.wait(&id).await.unwrap();
    assert!(end.is_done(), "{end:?}");
    let view = jobs.get(&id).await.unwrap().unwrap();
    assert_eq!(view.checkpoint::<String>().unwrap().map(|text| text.len()), Some(LARGE));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_large_results_are_said_in_several_calls() {
    let store = MemoryStore::new();
    let jobs = Jobs::in_memory(store.clone()).queue(Queue::new("q").keep(MINUTE)).join().await.unwrap();
    let together = Arc::new(Barrier::new(12));
    let worker = jobs.worker("q", move |_: Ctx, (): ()| {
        let together = together.clone();
        async move {
            together.wait().await;
            Ok(Outcome::result(&"x".repeat(LARGE))?)
        }
    });
    let _worker = worker.slots(12).start().unwrap();
    let added = jobs.add_many("q", [(); 12]).await.unwrap();
    for added in added {
        assert!(jobs.wait(&added.id).await.unwrap().is_done());
    }
    let dump = store.dump();
    // The answer of the last call has a letter for each of its ends.
    let lanes = dump.names().filter(|name| name.contains("settle")).map(|name| dump.value(name, "").unwrap());
    let last: Vec<_> = lanes.map(|answer| answer.split('|').nth(1).unwrap().len()).collect();
    assert!(last.iter().all(|count| *count <= A_CALL) && !last.is_empty(), "{last:?}");
}
