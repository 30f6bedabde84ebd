//! Handlers that take several jobs at once.

use std::time::Duration;

use tenure_jobs::{Backoff, BoxError, Ctx, Outcome, Queue, State};

use super::world::{MINUTE, SECOND, Said, World};

stories! {
    a_batch_is_full_or_has_lingered,
    each_job_of_a_batch_has_its_own_outcome,
    a_batch_that_panics_has_failed_for_all,
    a_batch_is_aborted_with_its_job,
}

async fn a_batch_is_full_or_has_lingered(world: World) {
    let jobs = world.node("n").queue(Queue::new("q").keep(MINUTE)).join().await.unwrap();
    let said = Said::default();
    let heard = said.clone();
    let added = jobs.add_many("q", 0..7u32).await.unwrap();
    let worker = jobs.batches("q", 3, Duration::from_millis(100), move |batch: Vec<(Ctx, u32)>| {
        heard.say(batch.len().to_string());
        async move { batch.iter().map(|(_, n)| Outcome::result(&(n * 2)).map_err(BoxError::from)).collect() }
    });
    let _worker = worker.start().unwrap();
    for (n, job) in added.iter().enumerate() {
        assert_eq!(jobs.wait(&job.id).await.unwrap().result::<usize>().unwrap(), 2 * n);
    }
    assert_eq!(said.all(), ["3", "3", "1"]);
}

async fn each_job_of_a_batch_has_its_own_outcome(world: World) {
    let queue = |name: &str| Queue::new(name).keep(MINUTE).attempts(2).backoff(Backoff::none());
    let jobs = world.node("n").queue(queue("q")).queue(queue("none")).join().await.unwrap();
    let added = jobs.add_many("q", 0..3u32).await.unwrap();
    let worker = jobs.batches("q", 3, Duration::from_millis(50), async |batch: Vec<(Ctx, u32)>| {
        let made =
            |(ctx, n): &(Ctx, u32)| if *n == 1 && ctx.attempt() == 1 { Err("no".into()) } else { Ok(()) };
        batch.iter().map(made).collect::<Vec<Result<(), BoxError>>>()
    });
    let _worker = worker.start().unwrap();
    for (n, job) in added.iter().enumerate() {
        assert!(jobs.wait(&job.id).await.unwrap().is_done());
        let attempts = jobs.get(&job.id).await.unwrap().unwrap().attempts();
        assert_eq!(attempts, if n == 1 { 2 } else { 1 });
    }
    let worker =
        jobs.batches("none", 1, SECOND, async |_: Vec<(Ctx, u32)>| Vec::<Result<(), BoxError>>::new());
    let _worker = worker.start().unwrap();
    let id = jobs.add("none", &0u32).await.unwrap().id;
    let ended = jobs.wait(&id).await.unwrap();
    assert_eq!(ended.error().as_deref(), Some("the handler gave no outcome for it"));
}

async fn a_batch_that_panics_has_failed_for_all(world: World) {
    let jobs = world.node("n").queue(Queue::new("q").attempts(1)).join().await.unwrap();
    let added = jobs.add_many("q", 0..2u32).await.unwrap();
    let worker = jobs.batches("q", 2, MINUTE, async |batch: Vec<(Ctx, u32)>| {
        assert!(batch.is_empty(), "no");
        Vec::<Result<(), BoxError>>::new()
    });
    let _worker = worker.start().unwrap();
    for job in added {
        let ended = jobs.wait(&job.id).await.unwrap();
        assert_eq!(
            (ended.state(), ended.error().as_deref()),
            (State::Failed, Some("the handler panicked: no"))
        );
    }
}

async fn a_batch_is_aborted_with_its_job(world: World) {
    struct Gone(Said);
    impl Drop for Gone {
        fn drop(&mut self) {
            self.0.say("gone");
        }
    }
    let queue = Queue::new("q").keep(MINUTE).attempts(1);
    let jobs = world.node("n").queue(queue).join().await.unwrap();
    let added = jobs.add_many("q", 0..2u32).await.unwrap();
    let said = Said::default();
    let heard = said.clone();
    let worker = jobs.batches("q", 2, SECOND, move |batch: Vec<(Ctx, u32)>| {
        let heard = heard.clone();
        async move {
            heard.say(batch.len().to_string());
            if batch.len() == 2 {
                let _gone = Gone(heard);
                std::future::pending::<()>().await;
            }
            batch.iter().map(|_| Ok::<_, BoxError>(())).collect()
        }
    });
    let _worker = worker.start().unwrap();
    said.until(1).await;
    jobs.remove(&added[0].id).await.unwrap();
    // The other one runs again, with its only attempt.
    assert!(jobs.wait(&added[1].id).await.unwrap().is_done());
    assert_eq!(said.all(), ["2", "gone", "1"]);
}
