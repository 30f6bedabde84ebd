//! Checkpoints: the owner's to write, and the next owner's to read.

use bytes::Bytes;
use tenure_pool::store::{
    Attest, AttestReply, BATCH_BYTES, BATCH_MAX, BeginReply, BegunJob, ChangeSettings, Checkpoint,
    DispatchReply, Purge, ReadCheckpoint, ReleaseMode, ReleaseReply, Save, SaveItem, SaveReply,
    SettingChange, ShutDown, ShutdownMode, StopReply, Unpark,
};
use tenure_protocol::model::id::{Token, WorkerId};
use tenure_protocol::model::settings::Settings;

use super::attesting::{item, with_payload};
use super::lab::{Kind, Lab, id, key, node};
use super::single::Single as _;

scenarios! {
    a_checkpoint_is_the_owners_to_write,
    a_stopping_job_may_still_save,
    a_late_copy_of_a_save_undoes_nothing,
    one_that_was_inherited_gives_way_to_a_newer_one,
    a_new_owner_begins_to_count_again,
    a_job_that_has_run_elsewhere_is_not_taken_back,
    saves_of_one_call_see_each_other,
    a_checkpoint_that_is_too_long_is_refused,
    a_lower_limit_refuses_no_checkpoint_that_is_kept,
    begin_brings_the_checkpoint,
    checkpoints_count_for_the_size_of_an_answer,
    what_deletes_a_job_deletes_its_checkpoint,
    what_takes_a_jobs_place_gets_no_checkpoint,
    a_save_that_comes_before_the_record_is_made_again,
    what_is_handed_on_keeps_its_checkpoint,
    a_batch_of_saves_names_any_tokens,
    a_job_that_nobody_has_begun_is_given_none,
}

fn save(name: &str, token: Token, number: u64, bytes: &str) -> SaveItem {
    let bytes = Bytes::copy_from_slice(bytes.as_bytes());
    SaveItem { key: key(name), token, given: token, number, bytes }
}

impl Lab {
    async fn save_all(&self, worker: WorkerId, items: &[SaveItem]) -> Vec<SaveReply> {
        self.step(&Save { worker, items: items.to_vec() }).await.unwrap()
    }

    async fn save(&self, worker: WorkerId, item: SaveItem) -> SaveReply {
        self.save_all(worker, &[item]).await.remove(0)
    }

    async fn checkpoint(&self, name: &str) -> Option<Checkpoint> {
        self.read(&ReadCheckpoint { key: key(name) }).await.unwrap()
    }

    /// The bytes of a job's checkpoint.
    async fn kept(&self, name: &str) -> Option<Bytes> {
        self.checkpoint(name).await.map(|kept| kept.bytes)
    }

    /// No checkpoint is left, of any job.
    async fn has_none(&self) -> bool {
        self.backend.dump().await.get("checkpoints").is_none()
    }
}

async fn a_checkpoint_is_the_owners_to_write(lab: Lab, worker: WorkerId, other: WorkerId) {
    let token = lab.run("k", "node1.g", worker).await;
    lab.dispatch("queued", "node1.q").await;
    lab.assign("assigned", "node1.a", worker).await;
    let assigned = lab.token("assigned").await;
    lab.backend.advance(10).await;
    assert_eq!(lab.save(worker, save("k", token, 1, "one")).await, SaveReply::Kept);
    let at = lab.backend.now();
    let kept = Checkpoint { token, number: 1, at, bytes: "one".into() };
    assert_eq!(lab.checkpoint("k").await, Some(kept));
    let before = lab.backend.dump().await;
    let (later, longer, shorter) = (Token(token.0 + 1), Token(token.0 * 10), Token(token.0 / 10));
    assert_eq!(lab.save(other, save("k", token, 2, "two")).await, SaveReply::Stale);
    let others = [
        save("k", later, 2, "two"),
        save("k", longer, 2, "two"),
        save("k", shorter, 2, "two"),
        save("queued", Token(0), 1, "x"),
        save("assigned", assigned, 1, "x"),
        save("absent", token, 1, "x"),
    ];
    assert_eq!(lab.save_all(worker, &others).await, [SaveReply::Stale; 6]);
    assert_eq!(lab.backend.dump().await, before);
    assert_eq!(lab.checkpoint("absent").await, None);
}

async fn a_stopping_job_may_still_save(lab: Lab, worker: WorkerId) {
    let token = lab.run("k", "node1.g", worker).await;
    assert_eq!(lab.stop("k", "node1.g", Some(worker)).await, StopReply::Stopping);
    assert_eq!(lab.save(worker, save("k", Token(token.0 / 10), 1, "zero")).await, SaveReply::Stale);
    assert_eq!(lab.save(worker, save("k", token, 1, "one")).await, SaveReply::Kept);
    assert_eq!(lab.kept("k").await.unwrap(), "one");
}

async fn a_late_copy_of_a_save_undoes_nothing(lab: Lab, worker: WorkerId) {
    let token = lab.run("k", "node1.g", worker).await;
    for (number, bytes) in [(1, "one"), (10, "ten"), (9, "nine"), (10, "ten again")] {
        lab.backend.advance(10).await;
        assert_eq!(lab.save(worker, save("k", token, number, bytes)).await, SaveReply::Kept);
    }
    let kept = lab.checkpoint("k").await.unwrap();
    assert_eq!((kept.number, &*kept.bytes, kept.at), (10, &b"ten"[..], lab.backend.now() - 20));
}

async fn one_that_was_inherited_gives_way_to_a_newer_one(lab: Lab, worker: WorkerId) {
    let first = lab.run("k", "node1.g", worker).await;
    assert_eq!(lab.save(worker, save("k", first, 5, "five")).await, SaveReply::Kept);
    lab.release("k", worker, ReleaseMode::HandOff).await;
    let second = lab.run_again("k", worker).await;
    let inherited = |number, bytes: &str| SaveItem { given: first, ..save("k", second, number, bytes) };
    assert_eq!(lab.save(worker, inherited(4, "four")).await, SaveReply::Kept);
    assert_eq!(lab.kept("k").await.unwrap(), "five");
    assert_eq!(lab.save(worker, inherited(6, "six")).await, SaveReply::Kept);
    assert_eq!(lab.checkpoint("k").await.map(|kept| (kept.token, kept.number)), Some((first, 6)));
    assert_eq!(lab.save(worker, save("k", second, 1, "own")).await, SaveReply::Kept);
    assert_eq!(lab.save(worker, inherited(9, "nine")).await, SaveReply::Kept);
    assert_eq!(lab.kept("k").await.unwrap(), "own");
}

async fn a_new_owner_begins_to_count_again(lab: Lab, worker: WorkerId, other: WorkerId) {
    let first = lab.run("k", "node1.g", worker).await;
    assert_eq!(lab.save(worker, save("k", first, 7, "seven")).await, SaveReply::Kept);
    lab.release("k", worker, ReleaseMode::HandOff).await;
    let second = lab.run_again("k", other).await;
    assert_eq!(lab.save(other, save("k", second, 1, "one")).await, SaveReply::Kept);
    assert_eq!(lab.save(worker, save("k", first, 8, "eight")).await, SaveReply::Stale);
    assert_eq!(lab.checkpoint("k").await.map(|kept| (kept.token, kept.number)), Some((second, 1)));
}

/// A worker has no answer to its release, and the server restarts. The next worker has given the job up, too.
async fn a_job_that_has_run_elsewhere_is_not_taken_back(kind: Kind) {
    let back = |token, is_back| {
        let mut said = item("k", token, "node1.k", with_payload());
        if let Attest::Runs { back, .. } = &mut said.what {
            *back = is_back;
        }
        said
    };
    for mode in [ReleaseMode::HandOff, ReleaseMode::Park] {
        let mut lab = Lab::new(kind).await;
        let (first, second) = (lab.worker().await, lab.worker().await);
        let earlier = lab.run("k", "node1.k", first).await;
        assert_eq!(lab.save(first, save("k", earlier, 1, "one")).await, SaveReply::Kept);
        lab.release("k", first, ReleaseMode::HandOff).await;
        let later = lab.run_again("k", second).await;
        assert_eq!(lab.save(second, save("k", later, 1, "two")).await, SaveReply::Kept);
        lab.release("k", second, mode).await;
        lab.recover().await;
        let before = lab.record("k").await.unwrap().to_string();
        assert_eq!(lab.attest(first, back(earlier, true)).await, AttestReply::Nothing);
        assert_eq!(lab.record("k").await.unwrap().to_string(), before);
        assert_eq!(lab.kept("k").await.unwrap(), "two");
        assert_eq!(
            lab.attest(second, back(later, true)).await,
            AttestReply::Kept,
            "its own release may be lost"
        );
    }
    let mut lab = Lab::new(kind).await;
    let (first, second) = (lab.worker().await, lab.worker().await);
    let earlier = lab.run("k", "node1.k", first).await;
    lab.release("k", first, ReleaseMode::HandOff).await;
    lab.run_again("k", second).await;
    lab.release("k", second, ReleaseMode::HandOff).await;
    lab.recover().await;
    assert_eq!(lab.attest(first, back(earlier, false)).await, AttestReply::Kept, "what runs runs on");
}

async fn saves_of_one_call_see_each_other(lab: Lab, worker: WorkerId) {
    let (k, l) = (lab.run("k", "node1.k", worker).await, lab.run("l", "node1.l", worker).await);
    let items = [save("k", k, 2, "two"), save("l", l, 1, ""), save("k", k, 1, "one"), save("k", l, 3, "l")];
    let stale = if k == l { SaveReply::Kept } else { SaveReply::Stale };
    let kept = SaveReply::Kept;
    assert_eq!(lab.save_all(worker, &items).await, [kept, kept, kept, stale]);
    assert_eq!(lab.kept("k").await.unwrap(), "two");
    assert_eq!(lab.kept("l").await.unwrap(), "");
}

async fn a_checkpoint_that_is_too_long_is_refused(kind: Kind) {
    let (lab, worker) = Lab::with_worker(kind, Settings { checkpoint_max: 4, ..Settings::default() }).await;
    let token = lab.run("k", "node1.g", worker).await;
    assert_eq!(lab.save(worker, save("k", token, 1, "four")).await, SaveReply::Kept);
    assert_eq!(lab.save(worker, save("k", token, 2, "fives")).await, SaveReply::TooLong);
    assert_eq!(lab.kept("k").await.unwrap(), "four");
}

async fn a_lower_limit_refuses_no_checkpoint_that_is_kept(kind: Kind) {
    let (lab, worker) = Lab::with_worker(kind, Settings { checkpoint_max: 5, ..Settings::default() }).await;
    let token = lab.run("k", "node1.g", worker).await;
    assert_eq!(lab.save(worker, save("k", token, 1, "fives")).await, SaveReply::Kept);
    let lower = vec![SettingChange { name: "checkpoint_max".into(), from: "5".into(), to: "4".into() }];
    lab.step(&ChangeSettings { changes: lower }).await.unwrap();
    assert_eq!(lab.save(worker, save("k", token, 1, "fives")).await, SaveReply::Kept);
    assert_eq!(lab.save(worker, save("k", token, 2, "again")).await, SaveReply::TooLong);
    assert_eq!(lab.kept("k").await.unwrap(), "fives");
}

async fn begin_brings_the_checkpoint(lab: Lab, worker: WorkerId, other: WorkerId) {
    for name in ["a", "b", "c"] {
        let token = lab.run(name, &format!("node1.{name}"), worker).await;
        if name != "b" {
            assert_eq!(lab.save(worker, save(name, token, 3, name)).await, SaveReply::Kept);
        }
        lab.release(name, worker, ReleaseMode::HandOff).await;
    }
    lab.notify("c", None, "body").await;
    lab.route_all(&["a", "b", "c"], Some(other)).await;
    let mut jobs = Vec::new();
    for name in ["a", "b", "c"] {
        jobs.push((key(name), lab.token(name).await));
    }
    let replies = lab.store().begin_one(lab.inc, other, &[], &jobs).await.unwrap();
    let brought = |reply: &BeginReply| match reply {
        BeginReply::Begun(BegunJob { waiting, checkpoint, .. }) => {
            (*waiting, checkpoint.as_ref().map(|kept| (kept.number, kept.bytes.clone())))
        }
        reply => panic!("{reply:?}"),
    };
    let replied: Vec<_> = replies.iter().map(brought).collect();
    assert_eq!(replied, [(false, Some((3, "a".into()))), (false, None), (true, Some((3, "c".into())))]);
    assert_eq!(lab.store().begin_one(lab.inc, other, &[], &jobs).await.unwrap(), replies, "again, the same");
}

async fn checkpoints_count_for_the_size_of_an_answer(kind: Kind) {
    let max = 512 << 10;
    let (lab, worker) = Lab::with_worker(kind, Settings { checkpoint_max: max, ..Settings::default() }).await;
    let names = ["a", "b", "c", "d"];
    let big = "x".repeat(BATCH_BYTES / 2);
    for name in names {
        let token = lab.run(name, &format!("node1.{name}"), worker).await;
        assert_eq!(lab.save(worker, save(name, token, 1, &big)).await, SaveReply::Kept);
        lab.release(name, worker, ReleaseMode::HandOff).await;
    }
    lab.route_all(&names, Some(worker)).await;
    let mut jobs = Vec::new();
    for name in names {
        jobs.push((key(name), lab.token(name).await));
    }
    let replies = lab.store().begin_one(lab.inc, worker, &[], &jobs).await.unwrap();
    let full: Vec<_> = replies.iter().map(|reply| *reply == BeginReply::Full).collect();
    assert_eq!(full, [false, false, true, true]);
}

async fn what_deletes_a_job_deletes_its_checkpoint(kind: Kind) {
    for end in ["release", "stop", "reap", "purge", "attend"] {
        let (mut lab, worker) = Lab::with_worker(kind, Settings::default()).await;
        let token = lab.run("k", "node1.g", worker).await;
        lab.run("stays", "node1.s", worker).await;
        assert_eq!(lab.save(worker, save("k", token, 1, "one")).await, SaveReply::Kept);
        match end {
            "release" => {
                assert_eq!(lab.release("k", worker, ReleaseMode::Delete).await, ReleaseReply::Deleted);
            }
            "stop" => {
                lab.release("k", worker, ReleaseMode::HandOff).await;
                assert_eq!(lab.stop("k", "node1.g", None).await, StopReply::Deleted);
            }
            "reap" => {
                lab.stop("k", "node1.g", Some(worker)).await;
                lab.leave(worker).await;
            }
            "purge" => {
                lab.release("k", worker, ReleaseMode::HandOff).await;
                lab.step(&ShutDown { by: node("node1"), mode: ShutdownMode::DropQueued }).await.unwrap();
                lab.step(&Purge { limit: 100 }).await.unwrap();
            }
            _ => {
                lab.stop("k", "node1.g", Some(worker)).await;
                lab.recover().await;
                lab.attend(worker).await;
            }
        }
        assert_eq!((lab.record("k").await, lab.has_none().await), (None, true), "{end}");
    }
}

async fn what_takes_a_jobs_place_gets_no_checkpoint(mut lab: Lab, worker: WorkerId) {
    let token = lab.run("k", "node1.g", worker).await;
    assert_eq!(lab.save(worker, save("k", token, 1, "one")).await, SaveReply::Kept);
    lab.recover().await;
    let later = item("k", Token(token.0 + 1), "node1.later", with_payload());
    assert_eq!(lab.attest(worker, later).await, AttestReply::Kept);
    assert!(lab.has_none().await);
}

async fn a_save_that_comes_before_the_record_is_made_again(mut lab: Lab, worker: WorkerId) {
    let token = lab.run("k", "node1.g", worker).await;
    lab.recover().await;
    assert_eq!(lab.save(worker, save("k", token, 1, "one")).await, SaveReply::Kept, "it has its record");
    assert_eq!(lab.save(worker, save("lost", token, 1, "one")).await, SaveReply::Recovering);
}

async fn what_is_handed_on_keeps_its_checkpoint(kind: Kind) {
    let (lab, worker) = Lab::with_worker(kind, Settings { max_attempts: 1, ..Settings::default() }).await;
    let token = lab.run("k", "node1.g", worker).await;
    assert_eq!(lab.save(worker, save("k", token, 1, "one")).await, SaveReply::Kept);
    assert_eq!(lab.release("k", worker, ReleaseMode::Fail).await, ReleaseReply::Parked);
    lab.backend.advance(10).await;
    assert_eq!(lab.kept("k").await.unwrap(), "one");
    lab.step(&Unpark { jobs: vec![(key("k"), id("node1.g"))] }).await.unwrap();
    assert_eq!(lab.kept("k").await.unwrap(), "one");
}

async fn a_batch_of_saves_names_any_tokens(lab: Lab, worker: WorkerId) {
    let names: Vec<String> = (0..BATCH_MAX).map(|n| format!("k{n}")).collect();
    let mut items = Vec::new();
    for name in &names {
        let given = lab.run(name, &format!("node1.{name}"), worker).await;
        lab.release(name, worker, ReleaseMode::HandOff).await;
        let token = lab.run_again(name, worker).await;
        items.push(SaveItem { given, ..save(name, token, 1, name) });
    }
    assert_eq!(lab.save_all(worker, &items).await, vec![SaveReply::Kept; BATCH_MAX]);
    for item in items {
        let kept = lab.checkpoint(&item.key.to_string()).await.unwrap();
        assert_eq!((kept.token, kept.bytes), (item.given, item.bytes), "{}", item.key);
    }
}

async fn a_job_that_nobody_has_begun_is_given_none(lab: Lab, worker: WorkerId) {
    let token = lab.run("k", "node1.g", worker).await;
    assert_eq!(lab.save(worker, save("k", token, 1, "one")).await, SaveReply::Kept);
    lab.backend.lose("jobs").await;
    lab.backend.lose("owners").await;
    assert_eq!(lab.dispatch("k", "node1.later").await, DispatchReply::Accepted);
    lab.route("k", worker).await;
    for _ in 0..2 {
        let begun = lab.begin("k", worker).await;
        assert!(matches!(begun, BeginReply::Begun(BegunJob { checkpoint: None, .. })), "{begun:?}");
    }
    assert!(lab.has_none().await);
}
