//! How many jobs there are, and where.

use tenure_pool::inspect::Cause;
use tenure_pool::store::{Counts, LOOK_MAX, ReadFigures, Refusal, ReleaseItem, ReleaseMode, StoreError};
use tenure_protocol::model::id::WorkerId;
use tenure_protocol::model::settings::Settings;

use super::lab::{Kind, Lab, key, release};

scenarios! {
    figures_count_the_jobs_of_each_state,
    figures_know_the_oldest_job_that_was_never_begun,
    a_job_that_comes_back_before_its_first_start_is_new,
    figures_look_at_no_more_jobs_than_they_are_told,
    figures_pass_over_what_cannot_be_read,
    figures_of_no_pool_are_refused,
}

impl Lab {
    async fn figures(&self, look: usize) -> Counts {
        self.read(&ReadFigures { look, workers: Vec::new() }).await.unwrap()
    }
}

async fn figures_count_the_jobs_of_each_state(kind: Kind) {
    let lab = Lab::with(kind, Settings { max_attempts: 1, ..Settings::default() }).await;
    let none = Counts { now: lab.backend.now(), ..Counts::default() };
    assert_eq!(lab.figures(LOOK_MAX).await, none);
    let (first, second) = (lab.worker().await, lab.worker().await);
    lab.dispatch("queued", "node1.q").await;
    lab.assign("assigned", "node1.a", second).await;
    for name in ["one", "two", "fails"] {
        lab.run(name, &format!("node1.{name}"), first).await;
    }
    let failed = release("fails", lab.token("fails").await, ReleaseMode::Fail);
    lab.release_item(first, ReleaseItem { result: "no route".to_owned(), ..failed }).await;
    let before = lab.backend.dump().await;
    let counts = lab.read(&ReadFigures { look: LOOK_MAX, workers: vec![first, second] }).await.unwrap();
    assert_eq!(lab.backend.dump().await, before, "it only reads");
    assert_eq!((counts.jobs, counts.queued, counts.owned, counts.parked), (5, 2, 3, 1));
    assert_eq!((counts.of_workers, counts.more), (vec![2, 1], false));
}

async fn figures_know_the_oldest_job_that_was_never_begun(lab: Lab, worker: WorkerId) {
    let begun = lab.backend.now();
    lab.run("begun", "node1.b", worker).await;
    lab.started("begun", worker).await;
    lab.release("begun", worker, ReleaseMode::HandOff).await;
    lab.backend.advance(1_000).await;
    let assigned = lab.backend.now();
    lab.dispatch("assigned", "node1.a").await;
    lab.backend.advance(1_000).await;
    lab.dispatch("queued", "node1.q").await;
    lab.route("assigned", worker).await;
    let counts = lab.figures(LOOK_MAX).await;
    assert_eq!((counts.oldest, counts.now), (Some(assigned), assigned + 1_000));
    assert!(begun < assigned, "a job that has started is none of them");
    lab.begin("assigned", worker).await;
    assert_eq!(lab.figures(LOOK_MAX).await.oldest, Some(assigned + 1_000));
}

async fn a_job_that_comes_back_before_its_first_start_is_new(lab: Lab, worker: WorkerId) {
    let refuse = async |name: &str, mode, cause| {
        let item = ReleaseItem { cause, ..release(name, lab.token(name).await, mode) };
        lab.release_item(worker, item).await;
    };
    let new = async || {
        let counts = lab.figures(LOOK_MAX).await;
        (counts.queued, counts.returned, counts.oldest)
    };
    let accepted = lab.backend.now();
    lab.run("k", "node1.k", worker).await;
    assert_eq!(new().await, (0, 0, None), "it runs");
    for mode in [ReleaseMode::Refuse, ReleaseMode::Elsewhere { workers: 1 }] {
        refuse("k", mode, Cause::Refused).await;
        assert_eq!(new().await, (0, 1, Some(accepted)), "{mode:?}");
        assert_eq!(lab.queued().await, 0, "begun for all that the pool does");
        lab.route("k", worker).await;
        assert_eq!(new().await, (0, 1, Some(accepted)), "assigned");
        lab.begin("k", worker).await;
        assert_eq!(new().await, (0, 0, None), "begun");
    }
    // A later cause starts no job.
    refuse("k", ReleaseMode::Refuse, Cause::Refused).await;
    lab.route("k", worker).await;
    lab.sweep_after(60_000).await;
    assert_eq!(lab.why("k").await, Some((Cause::NotBegun, Some(worker))));
    assert_eq!(new().await, (0, 1, Some(accepted)), "not begun in time");
    for (mode, cause) in [(ReleaseMode::HandOff, Cause::Moved), (ReleaseMode::GiveBack, Cause::Bounced)] {
        lab.run_again("k", worker).await;
        refuse("k", mode, cause).await;
        assert_eq!(new().await, (0, 1, Some(accepted)), "{mode:?}");
    }
    // A job that has failed, or has started, is not new.
    lab.run_again("k", worker).await;
    refuse("k", ReleaseMode::Fail, Cause::Failed).await;
    assert_eq!(new().await, (0, 0, None), "it has failed");
    lab.run_again("k", worker).await;
    lab.started("k", worker).await;
    for mode in [ReleaseMode::Refuse, ReleaseMode::HandOff] {
        refuse("k", mode, Cause::Refused).await;
        assert_eq!(new().await, (0, 0, None), "it had started: {mode:?}");
        lab.run_again("k", worker).await;
    }
    lab.backend.advance(10).await;
    let later = lab.backend.now();
    lab.dispatch("new", "node1.n").await;
    assert_eq!(new().await, (1, 0, Some(later)));
}

async fn figures_look_at_no_more_jobs_than_they_are_told(lab: Lab) {
    lab.dispatch("first", "node1.f").await;
    let first = lab.backend.now();
    lab.backend.advance(10).await;
    lab.dispatch("second", "node1.s").await;
    for (look, oldest, more) in [(1, Some(first), true), (2, Some(first), false), (3, Some(first), false)] {
        let counts = lab.figures(look).await;
        assert_eq!((counts.oldest, counts.more), (oldest, more), "{look}");
    }
    // An assignment is taken up later than an event, so the older job is behind the other now.
    let (worker, second) = (lab.worker().await, lab.backend.now());
    lab.route("first", worker).await;
    for (look, oldest) in [(0, second), (1, second), (2, first)] {
        assert_eq!(lab.figures(look).await.oldest, Some(oldest), "{look}");
    }
}

async fn figures_pass_over_what_cannot_be_read(lab: Lab) {
    lab.dispatch("bad", "node1.b").await;
    for bad in ["rubbish", "1|Q||0|0|0|1|node1|1||0|"] {
        lab.backend.write_record(&key("bad"), bad.as_bytes()).await;
        let counts = lab.figures(LOOK_MAX).await;
        assert_eq!((counts.jobs, counts.oldest), (1, None), "{bad}");
    }
}

async fn figures_of_no_pool_are_refused(kind: Kind) {
    let lab = Lab::blank(kind).await;
    let refused = lab.read(&ReadFigures { look: 1, workers: Vec::new() }).await;
    assert!(matches!(refused, Err(StoreError::Refused(Refusal::NoPool))), "{refused:?}");
}
