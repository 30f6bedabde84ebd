//! The most jobs that a step takes.

use tenure_pool::store::{
    Ask, Attend, Attest, AttestItem, AttestJobs, AttestReply, BATCH_MAX, Begin, Dispatch, Notify, NotifyItem,
    NotifyReply, Placing, Purge, Reap, Refusal, Release, ReleaseMode, ReleaseReply, Reply, Route, Said, Save,
    SaveItem, ShutDown, ShutdownMode, Started, StartedItem, Steer, Stop, StopReply, Take, TakeItem, Turn,
    Unpark, Update, Way, WorkerBegins, WorkerStarts,
};
use tenure_protocol::model::id::{ScheduleId, ScheduleName, Term, Token};
use tenure_protocol::model::settings::Settings;

use super::asking::{ask, reply};
use super::attesting::{MEMBER, member};
use super::lab::{Kind, Lab, id, key, node, release, stop, stopping};
use super::single::Single as _;
use super::steering::steer;
use super::updating::update;

scenarios! {
    a_step_takes_a_batch,
    a_step_of_more_is_refused,
    a_stop_deletes_a_page_of_notifications,
    a_release_deletes_a_page_of_notifications,
    a_reap_deletes_a_page_of_notifications,
    a_purge_deletes_a_page_of_notifications,
    a_last_word_deletes_a_page_of_notifications,
    an_attestation_deletes_a_page_of_notifications,
}

async fn a_step_takes_a_batch(lab: Lab) {
    let (names, ids): (Vec<_>, Vec<_>) =
        (0..BATCH_MAX).map(|i| (format!("k{i}"), format!("node1.{i}"))).unzip();
    let items: Vec<_> = names.iter().zip(&ids).map(|(name, id)| lab.item(name, id)).collect();
    lab.dispatch_all(&items).await;
    let stops: Vec<_> = names.iter().zip(&ids).map(|(name, id)| stop(name, id, None)).collect();
    assert_eq!(lab.stop_all(&stops).await, [StopReply::Deleted; BATCH_MAX]);
}

async fn a_step_of_more_is_refused(kind: Kind) {
    const MANY: usize = BATCH_MAX + 1;
    let lab = Lab::new(kind).await;
    let (worker, other) = (lab.worker().await, lab.worker().await);
    let token = lab.run("k", "node1.g", worker).await;
    let (inc, ring) = (lab.inc, lab.revision().await);
    let turn = Turn { plan: ScheduleName::new("p").unwrap(), id: ScheduleId(1), term: Term(1) };
    let before = lab.backend.dump().await;
    let items = vec![lab.item("k", "node1.g"); MANY];
    let stops = vec![stop("k", "node1.g", Some(worker)); MANY];
    let steers = vec![steer("k", &lab.record("k").await.unwrap(), Way::Park); MANY];
    let notes = vec![NotifyItem { key: key("k"), guess: Some(worker), body: "x".into() }; MANY];
    let save = SaveItem { key: key("k"), token, given: token, number: 1, bytes: "x".into() };
    let saves = vec![save; MANY];
    let asks = vec![ask("k", Some(worker), token, u64::MAX, "x"); MANY];
    let replies = vec![reply("k", token, Said::Moved); MANY];
    let updates = vec![update("k", "node1.g", 0, Some(worker), "x"); MANY];
    let takes = vec![TakeItem { key: key("k"), token, ack: 0 }; MANY];
    let releases = vec![release("k", token, ReleaseMode::Delete); MANY];
    // Workers that have no more than a batch each.
    let half =
        |worker, jobs| WorkerBegins { worker, finished: vec![], jobs: vec![(key("k"), Token(1)); jobs] };
    let begins = vec![half(worker, BATCH_MAX), half(other, 1)];
    let noted = |worker, jobs| {
        let items = vec![StartedItem { key: key("k"), token, tell: None }; jobs];
        WorkerStarts { worker, finished: vec![], items }
    };
    let starts = vec![noted(worker, BATCH_MAX), noted(other, 1)];
    let refusals = refusals![lab, inc;
        Dispatch { by: Placing::Ring(ring), items: items.clone() },
        Dispatch { by: Placing::Turn(turn.clone()), items },
        Route { ring, entries: vec![], jobs: vec![(key("k"), Some(worker)); MANY] },
        Begin { begins },
        Started { starts },
        Release { worker, finished: vec![], items: releases },
        stopping(stops.clone()),
        Stop { turn: Some(turn.clone()), repeat: false, waiting: None, items: stops },
        Update { turn: None, items: updates.clone() },
        Update { turn: Some(turn), items: updates },
        Notify { items: notes },
        Take { worker, finished: vec![], items: takes },
        Save { worker, items: saves },
        Ask { asker: node("node1"), items: asks },
        Reply { worker, finished: vec![], items: replies },
        Steer { items: steers },
        Unpark { jobs: vec![(key("k"), id("node1.g")); MANY] },
    ];
    assert!(refusals.iter().all(|refusal| *refusal == Refusal::BadArgument), "{refusals:?}");
    assert_eq!(lab.backend.dump().await, before);
}

/// Jobs of which the first five have a page of notifications, and the keys of all.
const FULL: [&str; 7] = ["a", "b", "c", "d", "e", "f", "g"];
/// The most that may wait for one job.
const NOTES: usize = 1_000;
/// How many of those jobs one call deletes.
const PAGE: usize = 5;

async fn with_notifications(kind: Kind) -> Lab {
    let lab = Lab::with(kind, Settings { notify_cap: NOTES as u32, ..Settings::default() }).await;
    for name in FULL {
        lab.dispatch(name, &format!("node1.{name}")).await;
        let note = NotifyItem { key: key(name), guess: None, body: "x".into() };
        // The last one has none.
        for at in (0..NOTES).step_by(BATCH_MAX).filter(|_| name != FULL[6]) {
            let notes = vec![note.clone(); BATCH_MAX.min(NOTES - at)];
            let replies = lab.step(&Notify { items: notes }).await.unwrap();
            assert!(replies.iter().all(|reply| *reply == NotifyReply::Kept));
        }
    }
    lab
}

async fn left(lab: &Lab) -> Vec<&'static str> {
    let mut left = Vec::new();
    for name in FULL {
        left.extend(lab.record(name).await.map(|_| name));
    }
    left
}

async fn a_stop_deletes_a_page_of_notifications(kind: Kind) {
    let lab = with_notifications(kind).await;
    let stops = FULL.map(|name| stop(name, &format!("node1.{name}"), None));
    let (page, rest) = ([StopReply::Deleted; PAGE], [StopReply::Later; 2]);
    assert_eq!(lab.stop_all(&stops).await, [&page[..], &rest].concat());
    assert_eq!(left(&lab).await, FULL[PAGE..]);
    assert_eq!(lab.stop_all(&stops[PAGE..]).await, [StopReply::Deleted; 2]);
    assert!(lab.backend.dump().await.get("notifications").is_none());
}

async fn a_release_deletes_a_page_of_notifications(kind: Kind) {
    let lab = with_notifications(kind).await;
    let worker = lab.worker().await;
    let mut items = Vec::new();
    for name in FULL {
        items.push(release(name, lab.run_again(name, worker).await, ReleaseMode::Delete));
    }
    let kept = items.len() - 1;
    items[kept].mode = ReleaseMode::HandOff;
    let replies = lab.step(&Release { worker, finished: Vec::new(), items: items.clone() }).await.unwrap();
    let rest = [ReleaseReply::Later, ReleaseReply::Queued];
    assert_eq!(
        replies,
        [&[ReleaseReply::Deleted; PAGE][..], &rest].concat(),
        "who does not end costs nothing"
    );
    let replies =
        lab.step(&Release { worker, finished: Vec::new(), items: items[PAGE..kept].to_vec() }).await.unwrap();
    assert_eq!((replies, left(&lab).await), (vec![ReleaseReply::Deleted], vec![FULL[6]]));
}

async fn a_reap_deletes_a_page_of_notifications(kind: Kind) {
    let lab = with_notifications(kind).await;
    let worker = lab.worker().await;
    for name in FULL {
        lab.run_again(name, worker).await;
        assert_eq!(lab.stop(name, &format!("node1.{name}"), Some(worker)).await, StopReply::Stopping);
    }
    lab.store().expire_one(lab.inc, worker, None).await.unwrap();
    let page = lab.step(&Reap { worker, limit: 100 }).await.unwrap();
    assert_eq!((page.done, page.count, page.outcomes.len()), (false, PAGE, PAGE));
    let page = lab.step(&Reap { worker, limit: 100 }).await.unwrap();
    assert_eq!((page.done, page.count, left(&lab).await.len()), (true, 2, 0));
}

async fn a_purge_deletes_a_page_of_notifications(kind: Kind) {
    let lab = with_notifications(kind).await;
    lab.step(&ShutDown { by: node("node1"), mode: ShutdownMode::DropQueued }).await.unwrap();
    for count in [PAGE, 2, 0] {
        assert_eq!(lab.step(&Purge { limit: 100 }).await.unwrap().len(), count);
    }
}

async fn a_last_word_deletes_a_page_of_notifications(kind: Kind) {
    let mut lab = with_notifications(kind).await;
    let worker = lab.worker().await;
    for name in FULL {
        lab.run_again(name, worker).await;
        assert_eq!(lab.stop(name, &format!("node1.{name}"), Some(worker)).await, StopReply::Stopping);
    }
    lab.recover().await;
    let next = lab.step(&Attend { worker, after: None, limit: 100 }).await.unwrap();
    assert_eq!((next.as_ref(), left(&lab).await), (Some(&key(FULL[PAGE - 1])), FULL[PAGE..].to_vec()));
    assert_eq!(lab.step(&Attend { worker, after: next, limit: 100 }).await.unwrap(), None);
    assert!(left(&lab).await.is_empty());
}

async fn an_attestation_deletes_a_page_of_notifications(kind: Kind) {
    let mut lab = with_notifications(kind).await;
    let worker = lab.worker().await;
    let mut items = Vec::new();
    for name in FULL {
        let token = lab.run_again(name, worker).await;
        let what = Attest::Ended { outcome: String::new(), unless: None };
        items.push(AttestItem { key: key(name), token, id: id(&format!("node1.{name}")), what });
    }
    lab.recover().await;
    let entry = member(MEMBER);
    let replies =
        lab.step(&AttestJobs { worker, member: entry.clone(), items: items.clone() }).await.unwrap();
    let rest = [AttestReply::Later; 2];
    assert_eq!(replies, [&[AttestReply::Ended; PAGE][..], &rest].concat());
    assert_eq!(left(&lab).await, FULL[PAGE..]);
    let replies =
        lab.step(&AttestJobs { worker, member: entry, items: items[PAGE..].to_vec() }).await.unwrap();
    assert_eq!(replies, [AttestReply::Ended; 2]);
    assert!(left(&lab).await.is_empty());
}
