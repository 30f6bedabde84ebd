//! The slow look at the records, in spite of any loss beside them, and at the jobs that workers hold.

use tenure_pool::store::{
    BATCH_MAX, Content, Expired, HeldState, Inspect, Inspected, ListOwned, ReadHeartbeats, Reap, Refusal,
    ReleaseMode, Sweep,
};
use tenure_protocol::model::id::{Token, WorkerId};
use tenure_protocol::model::record::JobState;
use tenure_protocol::model::settings::Settings;

use super::lab::{Kind, Lab, NEVER, id, key};
use super::single::Single as _;

scenarios! {
    a_look_at_sound_records_changes_nothing,
    a_job_that_no_index_names_is_put_where_it_belongs,
    an_owner_that_nobody_knows_is_expired_and_reaped,
    an_owner_that_is_to_be_reaped_is_no_stranger,
    what_is_held_is_compared_with_the_records,
    what_a_stranger_holds_is_left_to_its_renewal,
    pages_show_every_record,
    a_score_that_hides_others_is_put_right,
    an_index_of_another_type_holds_up_no_other,
    counters_of_another_type_hold_up_no_look,
    a_recovery_is_not_inspected,
}

const PAGE: usize = 512;

impl Lab {
    async fn inspect(&self, held: &[(WorkerId, &str, Token)]) -> Inspected {
        let held: Vec<_> = held.iter().map(|(worker, name, token)| (*worker, key(name), *token)).collect();
        self.step(&Inspect { cursor: 0, limit: PAGE, held: held.clone() }).await.unwrap()
    }
}

/// The first failure of a job parks it.
async fn strict(kind: Kind) -> Lab {
    Lab::with(kind, Settings { max_attempts: 1, ..Settings::default() }).await
}

async fn a_look_at_sound_records_changes_nothing(kind: Kind) {
    let lab = strict(kind).await;
    let worker = lab.worker().await;
    lab.dispatch("queued", "node1.q").await;
    lab.assign("assigned", "node1.a", worker).await;
    let token = lab.run("runs", "node1.r", worker).await;
    lab.run_and_stop("stops", "node1.s", worker).await;
    lab.run("parks", "node1.p", worker).await;
    lab.release("parks", worker, ReleaseMode::Fail).await;
    lab.backend.advance(50).await;
    let before = lab.backend.dump().await;
    let seen = lab.inspect(&[(worker, "runs", token)]).await;
    assert_eq!(seen, Inspected { next: 0, strangers: 0, held: vec![HeldState::Kept] });
    assert_eq!(lab.backend.dump().await, before);
}

async fn a_job_that_no_index_names_is_put_where_it_belongs(kind: Kind) {
    let lab = strict(kind).await;
    let worker = lab.worker().await;
    lab.dispatch("queued", "node1.q").await;
    lab.run("runs", "node1.r", worker).await;
    lab.run_and_stop("stops", "node1.s", worker).await;
    lab.run("parks", "node1.p", worker).await;
    lab.release("parks", worker, ReleaseMode::Fail).await;
    for index in ["queue", "parked", "owners"] {
        lab.backend.lose(index).await;
    }
    lab.backend.advance(50).await;
    lab.inspect(&[]).await;
    let now = Some(lab.backend.now());
    for name in ["queued", "stops"] {
        assert_eq!((lab.score("queue", name).await, lab.score("parked", name).await), (now, None), "{name}");
    }
    assert_eq!((lab.score("queue", "parks").await, lab.score("parked", "parks").await), (None, Some(NEVER)));
    assert_eq!((lab.score("queue", "runs").await, lab.score("parked", "runs").await), (None, None));
    for name in ["runs", "stops"] {
        assert_eq!(lab.score("owners", &format!("{worker}:{name}")).await, Some(0), "{name}");
    }
    let swept = lab.step(&Sweep { limit: 100, kick: None }).await.unwrap();
    assert_eq!(swept.stops, [(key("stops"), id("node1.s"), worker)]);
}

async fn an_owner_that_nobody_knows_is_expired_and_reaped(kind: Kind) {
    for also in ["", "heartbeats"] {
        let (lab, gone) = Lab::with_worker(kind, Settings::default()).await;
        lab.run("a", "node1.a", gone).await;
        lab.run_and_stop("b", "node1.b", gone).await;
        lab.backend.lose("workers").await;
        lab.backend.lose(also).await;
        lab.backend.advance(50).await;
        assert_eq!(lab.inspect(&[]).await.strangers, 1, "two jobs, one owner");
        let counter = lab.read(&ReadHeartbeats { workers: None }).await.unwrap()[&gone];
        // A new counter is recent: its worker's jobs are not suspects.
        assert_eq!(counter, if also == "heartbeats" { lab.backend.now() } else { 1 });
        let expire = async |seq| lab.store().expire_one(lab.inc, gone, seq).await.unwrap();
        assert_eq!(expire(None).await, Expired::Gone, "it does not leave by itself any more");
        assert_eq!(expire(Some(counter + 1)).await, Expired::Renewed);
        assert_eq!(expire(Some(counter)).await, Expired::Done);
        assert_eq!(expire(Some(counter)).await, Expired::Done, "again");
        assert!(!lab.read(&ReadHeartbeats { workers: None }).await.unwrap().contains_key(&gone));
        assert_eq!(lab.inspect(&[]).await.strangers, 0, "it is to be reaped");
        assert!(lab.step(&Reap { worker: gone, limit: 100 }).await.unwrap().done);
        assert_eq!(lab.record("a").await.unwrap().state, JobState::Queued);
        assert_eq!(lab.record("b").await, None);
        assert_eq!(expire(Some(counter)).await, Expired::Gone);
    }
}

async fn an_owner_that_is_to_be_reaped_is_no_stranger(lab: Lab, worker: WorkerId) {
    lab.run("a", "node1.a", worker).await;
    lab.store().expire_one(lab.inc, worker, Some(1)).await.unwrap();
    let before = lab.backend.dump().await;
    assert_eq!(lab.inspect(&[]).await.strangers, 0);
    assert_eq!(lab.backend.dump().await, before);
}

async fn what_is_held_is_compared_with_the_records(kind: Kind) {
    use HeldState::{Kept, Missing, Outranked};

    let (lab, worker) = Lab::with_worker(kind, Settings::default()).await;
    let token = lab.run("a", "node1.a", worker).await;
    let (before, after) = (Token(token.0 - 1), Token(token.0 + 1));
    lab.backend.write_record(&key("x"), b"garbage").await;
    let held = [
        (worker, "a", token),
        (worker, "a", before),
        (worker, "a", after),
        (worker, "none", token),
        (worker, "x", token),
    ];
    assert_eq!(lab.inspect(&held).await.held, [Kept, Outranked, Kept, Missing, Kept]);
}

async fn what_a_stranger_holds_is_left_to_its_renewal(lab: Lab, worker: WorkerId) {
    let token = lab.run("a", "node1.a", worker).await;
    let other = WorkerId(worker.0 + 1_000);
    let held = [(other, "none", token), (other, "a", Token(token.0 - 1))];
    assert_eq!(lab.inspect(&held).await.held, [HeldState::Kept, HeldState::Kept]);
}

async fn pages_show_every_record(lab: Lab) {
    let jobs: Vec<_> = (0..1_000).map(|n| lab.item(&format!("{n:03}"), &format!("node1.{n}"))).collect();
    for page in jobs.chunks(BATCH_MAX) {
        lab.dispatch_all(page).await;
    }
    lab.backend.lose("queue").await;
    let (mut cursor, mut pages) = (0, 0);
    while pages == 0 || cursor != 0 {
        cursor = lab.step(&Inspect { cursor, limit: 100, held: Vec::new() }).await.unwrap().next;
        pages += 1;
    }
    assert!(pages > 5, "{pages}");
    let dump = lab.backend.dump().await;
    let Some(Content::Scores(queued)) = dump.get("queue") else { panic!("nothing is queued") };
    assert_eq!(queued.len(), jobs.len());
}

async fn a_recovery_is_not_inspected(mut lab: Lab) {
    lab.recover().await;
    let refused = lab.refused(lab.step(&Inspect { cursor: 0, limit: PAGE, held: Vec::new() })).await;
    assert_eq!(refused, Refusal::Recovering);
}

/// Only the Redis store has scores there.
async fn a_score_that_hides_others_is_put_right(kind: Kind) {
    let Kind::Redis = kind else { return };
    let (lab, worker) = Lab::with_worker(kind, Settings::default()).await;
    lab.run("a", "node1.a", worker).await;
    let (listed, stray) = (format!("{worker}:a"), "0:stray");
    for score in ["-inf", "-1", "0.5", "inf"] {
        lab.backend.write("ZADD", "owners", &[score, &listed, "7", stray]).await;
        lab.backend.write("ZADD", "planned", &[score, "plan|a"]).await;
        lab.inspect(&[]).await;
        for (index, member) in [("owners", &*listed), ("owners", stray), ("planned", "plan|a")] {
            assert_eq!(lab.score(index, member).await, Some(0), "{score} {index} {member}");
        }
        assert_eq!(lab.step(&ListOwned { worker, after: None, limit: 10 }).await.unwrap().jobs.len(), 1);
    }
}

/// Only the Redis store has types there.
async fn an_index_of_another_type_holds_up_no_other(kind: Kind) {
    let Kind::Redis = kind else { return };
    for broken in ["owners", "planned", "queue", "parked"] {
        let lab = strict(kind).await;
        let worker = lab.worker().await;
        lab.dispatch("queued", "node1.q").await;
        lab.run("runs", "node1.r", worker).await;
        lab.run("parks", "node1.p", worker).await;
        lab.release("parks", worker, ReleaseMode::Fail).await;
        for index in ["queue", "parked", "owners"] {
            lab.backend.lose(index).await;
        }
        lab.backend.write("SET", broken, &["x"]).await;
        lab.inspect(&[]).await;
        let listed = format!("{worker}:runs");
        for (index, member) in [("owners", &*listed), ("queue", "queued"), ("parked", "parks")] {
            if index != broken {
                assert!(lab.score(index, member).await.is_some(), "{index} beside {broken}");
            }
        }
    }
}

/// Only the Redis store has types there.
async fn counters_of_another_type_hold_up_no_look(kind: Kind) {
    let Kind::Redis = kind else { return };
    let (lab, gone) = Lab::with_worker(kind, Settings::default()).await;
    lab.run("runs", "node1.r", gone).await;
    lab.dispatch("queued", "node1.q").await;
    for key in ["workers", "owners", "queue", "heartbeats"] {
        lab.backend.lose(key).await;
    }
    lab.backend.write("SET", "heartbeats", &["x"]).await;
    assert_eq!(lab.inspect(&[]).await.strangers, 1);
    assert!(lab.score("owners", &format!("{gone}:runs")).await.is_some());
    assert!(lab.score("queue", "queued").await.is_some());
}
