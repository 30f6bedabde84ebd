//! Jobs that are taken by hand.

use tenure_jobs::{Accept, Accepted, Error, How, Jobs, Queue, State, Unique};

use super::world::{MINUTE, SECOND, World};

stories! {
    a_job_is_accepted_updated_and_finished,
    a_job_that_is_given_back_runs_at_once,
    a_resubmit_makes_no_job,
    a_scheduled_job_stays_at_the_same_time,
    every_job_is_on_a_page_of_a_scan,
}

async fn by_hand(world: &World) -> Jobs {
    let jobs = world.node("n").join().await.unwrap();
    jobs.declare(&Queue::new("q").by_hand().lease(MINUTE).keep(MINUTE)).await.unwrap();
    jobs
}

async fn taken(jobs: &Jobs) -> Accepted {
    jobs.queue("q").unwrap().accept(Accept::new().timeout(MINUTE)).await.unwrap().expect("a job")
}

const NONE: Option<&u8> = None;

async fn a_job_is_accepted_updated_and_finished(world: World) {
    let jobs = world.node("n").join().await.unwrap();
    let refused = jobs.queue("q").unwrap().accept(Accept::new()).await;
    assert!(matches!(refused, Err(Error::NoQueue(_))), "{refused:?}");
    let jobs = by_hand(&world).await;
    let id = jobs.add("q", &1u8).await.unwrap().id;
    let mut job = taken(&jobs).await;
    assert_eq!((job.id(), job.data::<u8>().unwrap()), (&id, 1));
    assert!(!job.update(Some(&2u8)).await.unwrap());
    job.finish(NONE).await.unwrap();
    let view = jobs.get(&id).await.unwrap().unwrap();
    assert_eq!((view.state(), view.data::<u8>().unwrap()), (State::Done, 2));
    assert!(matches!(job.update(NONE).await, Err(Error::Halted(_))));
}

async fn a_job_that_is_given_back_runs_at_once(world: World) {
    let jobs = by_hand(&world).await;
    jobs.add("q", &1u8).await.unwrap();
    let first = taken(&jobs).await;
    let (id, token) = (first.id().clone(), first.token());
    first.give_back().await.unwrap();
    assert_eq!(jobs.get(&id).await.unwrap().unwrap().attempts(), 0);
    assert!(taken(&jobs).await.token() > token);
}

async fn a_resubmit_makes_no_job(world: World) {
    let jobs = by_hand(&world).await;
    let missing = jobs.resubmit("q", NONE).id("j").await;
    assert!(matches!(missing, Err(Error::NotFound(_))), "{missing:?}");
    assert!(matches!(jobs.resubmit("q", NONE).await, Err(Error::Setting(_))));
    let other = jobs.resubmit("q", NONE).id("j").unique(Unique::Keep).await;
    assert!(matches!(other, Err(Error::Setting(_))), "{other:?}");
    jobs.add("q", &1u8).id("j").await.unwrap();
    let mut job = taken(&jobs).await;
    assert_eq!(jobs.resubmit("q", NONE).id("j").await.unwrap().how, How::RunsAgain);
    assert!(job.update(NONE).await.unwrap() && job.is_resubmitted());
    job.finish(NONE).await.unwrap();
    assert_eq!(taken(&jobs).await.data::<u8>().unwrap(), 1);
}

async fn a_scheduled_job_stays_at_the_same_time(world: World) {
    let jobs = by_hand(&world).await;
    let at = world.now() + MINUTE;
    let add =
        async |body: u8, at| jobs.add("q", &body).id("j").unique(Unique::Schedule).at(at).await.unwrap().how;
    assert_eq!(add(1, at).await, How::New);
    assert_eq!(add(2, at).await, How::Exists);
    assert_eq!(add(3, at + SECOND).await, How::Changed);
}

async fn every_job_is_on_a_page_of_a_scan(world: World) {
    let jobs = by_hand(&world).await;
    let ids = jobs.add_many("q", 0..700u32).await.unwrap().into_iter().map(|added| added.id);
    let (mut missing, mut cursor) = (ids.collect::<std::collections::BTreeSet<_>>(), 0);
    loop {
        let (next, page) = jobs.scan(cursor).await.unwrap();
        for (id, record) in page {
            assert_eq!(record.state, State::Ready);
            missing.remove(&id);
        }
        cursor = next;
        if cursor == 0 {
            break;
        }
    }
    assert!(missing.is_empty(), "{missing:?}");
}
