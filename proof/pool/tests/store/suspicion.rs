//! The jobs of a lost worker that are blamed for the loss, and the length of their pauses.

use tenure_pool::inspect::Cause;
use tenure_pool::store::{ReadHeartbeats, Reap, ReleaseMode, Sweep};
use tenure_protocol::model::id::WorkerId;
use tenure_protocol::model::record::JobState;
use tenure_protocol::model::settings::Settings;

use super::lab::{Kind, Lab, key, ms, renew};
use super::single::Single as _;

scenarios! {
    a_first_loss_costs_no_pause,
    a_loss_soon_after_another_one_costs_a_pause,
    pauses_grow_with_the_losses_and_end_at_three_minutes,
    suspects_of_one_loss_wait_for_different_times,
    a_job_that_has_proven_itself_is_not_blamed,
    time_that_nobody_heard_of_proves_nothing,
    what_ran_for_a_while_waits_from_the_fifth_loss_on,
    a_short_stable_run_makes_pauses_short,
    jobs_not_begun_by_a_lost_worker_do_not_wait,
    a_kick_leaves_suspects_waiting,
    a_kick_takes_failed_jobs_that_found_no_worker,
}

/// Loses the worker as others see it: it was heard of, and is silent.
async fn lose(lab: &Lab, worker: WorkerId) {
    let counter = lab.read(&ReadHeartbeats { workers: None }).await.unwrap()[&worker];
    lab.backend.advance(lab.settings.worker_ttl.as_millis() as u64 + 1_000).await;
    lab.store().expire_one(lab.inc, worker, Some(counter)).await.unwrap();
    assert!(lab.step(&Reap { worker, limit: 1_000 }).await.unwrap().done);
}

async fn heard(lab: &Lab, worker: WorkerId) {
    lab.step(&renew(&[worker])).await.unwrap();
}

/// Begins the job and loses its worker after this long, ms; returns its attempts and its pause, if it has one.
async fn run_and_lose(lab: &Lab, name: &str, ran: u64) -> (u32, Option<u64>) {
    let worker = lab.worker().await;
    lab.run_again(name, worker).await;
    lab.backend.advance(ran).await;
    heard(lab, worker).await;
    lose(lab, worker).await;
    let record = lab.record(name).await.unwrap();
    assert_eq!(record.state, JobState::Queued);
    let announced = lab.starts().await.iter().any(|(_, jobs)| jobs.contains(&(key(name), 0)));
    let wait = lab.score("queue", name).await.unwrap() - lab.backend.now();
    assert!(!announced || wait == 2_000, "announced, and due in {wait} ms");
    (record.attempts, (!announced).then_some(wait))
}

async fn a_first_loss_costs_no_pause(lab: Lab) {
    lab.dispatch("k", "node1.k").await;
    assert_eq!(run_and_lose(&lab, "k", 0).await, (1, None));
}

async fn a_loss_soon_after_another_one_costs_a_pause(lab: Lab) {
    lab.dispatch("k", "node1.k").await;
    run_and_lose(&lab, "k", 0).await;
    let (attempts, pause) = run_and_lose(&lab, "k", 9_999).await;
    assert_eq!(attempts, 2);
    assert!(pause.is_some_and(|pause| (2_000..=20_000).contains(&pause)), "{pause:?}");
}

async fn pauses_grow_with_the_losses_and_end_at_three_minutes(kind: Kind) {
    let lab = Lab::with(kind, Settings { worker_ttl: ms(2_000), ..Settings::default() }).await;
    lab.dispatch("k", "node1.k").await;
    run_and_lose(&lab, "k", 0).await;
    for (losses, widest) in (2..).zip([4_000, 16_000, 64_000, 180_000, 180_000, 180_000]) {
        let (attempts, pause) = run_and_lose(&lab, "k", 300).await;
        assert_eq!(attempts, losses);
        assert!(pause.is_some_and(|pause| (widest / 10..=widest).contains(&pause)), "{losses}: {pause:?}");
    }
}

async fn suspects_of_one_loss_wait_for_different_times(lab: Lab) {
    let names: Vec<_> = (0..20).map(|n| format!("tenant-{n}")).collect();
    let worker = lab.worker().await;
    for name in &names {
        lab.run(name, &format!("node1.{name}"), worker).await;
    }
    lose(&lab, worker).await;
    let mut order = Vec::new();
    for widest in [20_000, 80_000] {
        let worker = lab.worker().await;
        for name in &names {
            lab.run_again(name, worker).await;
        }
        lose(&lab, worker).await;
        let mut waits = Vec::new();
        for name in &names {
            waits.push((lab.score("queue", name).await.unwrap() - lab.backend.now(), name.clone()));
        }
        waits.sort();
        for quarter in 0..4 {
            let within =
                waits.iter().filter(|(wait, _)| (wait - widest / 10) * 40 / (widest * 9) == quarter).count();
            assert!(within >= 2, "{waits:?}");
        }
        order.push(waits.into_iter().map(|(_, name)| name).collect::<Vec<_>>());
    }
    assert_ne!(order[0], order[1], "who comes first changes");
}

async fn a_job_that_has_proven_itself_is_not_blamed(lab: Lab) {
    lab.dispatch("k", "node1.k").await;
    for _ in 0..3 {
        run_and_lose(&lab, "k", 0).await;
    }
    assert_eq!(run_and_lose(&lab, "k", 45_000).await, (1, None));
}

async fn time_that_nobody_heard_of_proves_nothing(lab: Lab) {
    lab.dispatch("k", "node1.k").await;
    run_and_lose(&lab, "k", 0).await;
    let worker = lab.worker().await;
    lab.run_again("k", worker).await;
    heard(&lab, worker).await;
    lab.backend.advance(500_000).await;
    lose(&lab, worker).await;
    assert_eq!(lab.record("k").await.unwrap().attempts, 2);
    assert!(lab.starts().await.is_empty());
}

async fn what_ran_for_a_while_waits_from_the_fifth_loss_on(lab: Lab) {
    lab.dispatch("k", "node1.k").await;
    for losses in 1..5 {
        assert_eq!(run_and_lose(&lab, "k", 44_999).await, (losses, None));
    }
    let (attempts, pause) = run_and_lose(&lab, "k", 44_999).await;
    assert_eq!(attempts, 5);
    assert!(pause.is_some_and(|pause| (18_000..=180_000).contains(&pause)), "{pause:?}");
}

async fn a_short_stable_run_makes_pauses_short(kind: Kind) {
    let lab = Lab::with(kind, Settings { stable_run: ms(1_000), ..Settings::default() }).await;
    lab.dispatch("k", "node1.k").await;
    run_and_lose(&lab, "k", 0).await;
    for _ in 0..4 {
        let (_, pause) = run_and_lose(&lab, "k", 999).await;
        assert!(pause.is_some_and(|pause| (400..=4_000).contains(&pause)), "{pause:?}");
    }
    assert_eq!(run_and_lose(&lab, "k", 1_000).await, (1, None));
}

async fn jobs_not_begun_by_a_lost_worker_do_not_wait(lab: Lab) {
    lab.dispatch("k", "node1.k").await;
    for _ in 0..3 {
        run_and_lose(&lab, "k", 0).await;
    }
    let worker = lab.worker().await;
    lab.route("k", worker).await;
    lose(&lab, worker).await;
    assert_eq!(lab.record("k").await.unwrap().attempts, 3);
    assert_eq!(lab.starts().await[0].1, [(key("k"), 0)]);
}

async fn a_kick_leaves_suspects_waiting(kind: Kind) {
    let lab = Lab::with(kind, Settings { worker_ttl: ms(2_000), ..Settings::default() }).await;
    for name in ["suspect", "waiting"] {
        lab.dispatch(name, &format!("node1.{name}")).await;
    }
    run_and_lose(&lab, "suspect", 0).await;
    loop {
        let (_, pause) = run_and_lose(&lab, "suspect", 0).await;
        if pause.is_some_and(|pause| (6_000..=29_000).contains(&pause)) {
            break;
        }
    }
    lab.route_all(&["waiting"], None).await;
    let swept = lab.step(&Sweep { limit: 1, kick: Some(0) }).await.unwrap();
    assert_eq!((swept.count, swept.passed), (1, 1), "the suspect is due first");
    assert_eq!(lab.starts().await, []);
    let swept = lab.step(&Sweep { limit: 1, kick: Some(1) }).await.unwrap();
    assert_eq!((swept.count, swept.passed), (1, 0), "the next page begins behind it");
    let jobs: Vec<_> = lab.starts().await.into_iter().flat_map(|(_, jobs)| jobs).collect();
    assert_eq!(jobs, [(key("waiting"), 0)]);
}

async fn a_kick_takes_failed_jobs_that_found_no_worker(lab: Lab, worker: WorkerId) {
    lab.dispatch("k", "node1.k").await;
    for _ in 0..2 {
        lab.run_again("k", worker).await;
        lab.release("k", worker, ReleaseMode::Fail).await;
    }
    lab.route_all(&["k"], None).await;
    assert_eq!(lab.record("k").await.unwrap().attempts, 2);
    assert_eq!(lab.why("k").await, Some((Cause::NoWorker, Some(worker))));
    lab.route_all(&["k"], None).await;
    assert_eq!(lab.why("k").await, Some((Cause::NoWorker, Some(worker))), "it looks in vain once more");
    let swept = lab.step(&Sweep { limit: 10, kick: Some(0) }).await.unwrap();
    assert_eq!((swept.count, swept.passed), (1, 0));
    let jobs: Vec<_> = lab.starts().await.into_iter().flat_map(|(_, jobs)| jobs).collect();
    assert_eq!(jobs, [(key("k"), 0)]);
}
