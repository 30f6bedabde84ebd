//! Notifications: kept with the job, in order, until its owner has them.

use bytes::Bytes;
use tenure_pool::store::{
    Cursors, DropNotifications, Notify, NotifyItem, NotifyReply, ReadNode, ReadNotifications, ReleaseMode,
    Take, TakeItem, Taken, Waiting, WorkerEvent,
};
use tenure_protocol::model::id::{Token, WorkerId};
use tenure_protocol::model::settings::Settings;

use super::lab::{Kind, Lab, key, ms, node};

scenarios! {
    a_queued_job_keeps_notifications_for_its_owner,
    the_first_of_a_running_job_wakes_its_owner,
    a_wrong_guess_keeps_nothing,
    nobody_is_notified_of_what_is_not_there,
    the_bounds_are_exact,
    they_are_taken_in_order_until_acknowledged,
    a_late_acknowledgement_swallows_nothing,
    only_the_owner_takes,
    a_take_brings_sixteen,
    big_ones_come_in_several_takes,
    every_job_in_a_batch_gets_one,
    unacknowledged_notifications_go_to_the_next_owner,
    they_end_with_their_job,
    those_that_wait_are_listed_in_pages,
    those_that_are_dropped_are_not_taken,
    a_drop_may_be_repeated,
}

async fn wake_ups(lab: &Lab, worker: WorkerId) -> usize {
    let cursors = Cursors { workers: [(worker, Cursors::default().node)].into(), ..Cursors::default() };
    let events =
        lab.read(&ReadNode { node: node("node1"), cursors, max: 100, block: ms(0) }).await.unwrap().workers;
    events.iter().filter(|(_, _, event)| matches!(event, WorkerEvent::Notify { .. })).count()
}

fn bodies(taken: Option<Taken>) -> Vec<String> {
    taken.unwrap().bodies.iter().map(|body| String::from_utf8(body.to_vec()).unwrap()).collect()
}

async fn a_queued_job_keeps_notifications_for_its_owner(lab: Lab, worker: WorkerId) {
    lab.dispatch("k", "node1.g").await;
    assert_eq!(lab.notify("k", None, "one").await, NotifyReply::Kept);
    lab.route("k", worker).await;
    assert_eq!(lab.notify("k", None, "two").await, NotifyReply::Kept);
    assert_eq!(wake_ups(&lab, worker).await, 0, "begin says it");
    let token = lab.run_assigned("k", worker).await;
    assert_eq!(bodies(lab.take("k", worker, token, 0).await), ["one", "two"]);
}

async fn the_first_of_a_running_job_wakes_its_owner(lab: Lab, worker: WorkerId) {
    let token = lab.run("k", "node1.g", worker).await;
    assert_eq!(lab.notify("k", Some(worker), "one").await, NotifyReply::Kept);
    assert_eq!(lab.notify("k", None, "two").await, NotifyReply::Kept, "it is awake: no guess is needed");
    assert_eq!(wake_ups(&lab, worker).await, 1);
    let taken = lab.take("k", worker, token, 0).await.unwrap();
    lab.take("k", worker, token, taken.first + 2).await.unwrap();
    assert_eq!(lab.notify("k", Some(worker), "three").await, NotifyReply::Kept);
    assert_eq!(wake_ups(&lab, worker).await, 2);
    let item = |body: &'static str| NotifyItem { key: key("k"), guess: Some(worker), body: body.into() };
    let token = lab.run("l", "node1.l", worker).await;
    let items = vec![
        item("four"),
        NotifyItem { key: key("l"), ..item("a") },
        NotifyItem { key: key("l"), ..item("b") },
    ];
    assert_eq!(lab.step(&Notify { items }).await.unwrap(), [NotifyReply::Kept; 3]);
    assert_eq!(wake_ups(&lab, worker).await, 3);
    assert_eq!(bodies(lab.take("l", worker, token, 0).await), ["a", "b"]);
}

async fn a_wrong_guess_keeps_nothing(lab: Lab, worker: WorkerId, other: WorkerId) {
    lab.run("k", "node1.g", worker).await;
    let before = lab.backend.dump().await;
    for guess in [None, Some(other)] {
        assert_eq!(lab.notify("k", guess, "body").await, NotifyReply::Owner(Some(worker)));
    }
    assert_eq!(lab.backend.dump().await, before);
}

async fn nobody_is_notified_of_what_is_not_there(lab: Lab) {
    let before = lab.backend.dump().await;
    assert_eq!(lab.notify("k", None, "body").await, NotifyReply::Absent);
    assert_eq!(lab.backend.dump().await, before);
}

async fn the_bounds_are_exact(kind: Kind) {
    let settings = Settings { notify_cap: 3, notify_bytes: 10, ..Settings::default() };
    let lab = Lab::with(kind, settings).await;
    lab.dispatch("few", "node1.f").await;
    lab.dispatch("big", "node1.b").await;
    let item = |name, body: &'static str| NotifyItem { key: key(name), guess: None, body: body.into() };
    let items = vec![item("few", "1"), item("few", "2"), item("few", "3"), item("few", "4")];
    let (kept, full) = (NotifyReply::Kept, NotifyReply::Full);
    assert_eq!(lab.step(&Notify { items }).await.unwrap(), [kept, kept, kept, full]);
    let items =
        vec![item("big", "12345678901"), item("big", "123456"), item("big", "12345"), item("big", "1234")];
    assert_eq!(lab.step(&Notify { items }).await.unwrap(), [full, kept, full, kept]);
    let worker = lab.worker().await;
    lab.route_all(&["few"], Some(worker)).await;
    let token = lab.run_assigned("few", worker).await;
    let taken = lab.take("few", worker, token, 0).await.unwrap();
    lab.take("few", worker, token, taken.first + 1).await.unwrap();
    assert_eq!(lab.notify("few", None, "5").await, kept, "one was acknowledged");
    assert_eq!(lab.notify("few", None, "6").await, full);
}

async fn they_are_taken_in_order_until_acknowledged(lab: Lab, worker: WorkerId) {
    let token = lab.run("k", "node1.g", worker).await;
    for body in ["a", "b", "c"] {
        lab.notify("k", Some(worker), body).await;
    }
    let taken = lab.take("k", worker, token, 0).await.unwrap();
    assert_eq!(lab.take("k", worker, token, 0).await.unwrap(), taken, "a take may be repeated");
    assert_eq!(bodies(Some(taken.clone())), ["a", "b", "c"]);
    let rest = lab.take("k", worker, token, taken.first + 1).await.unwrap();
    assert_eq!((rest.first, bodies(Some(rest))), (taken.first + 1, vec!["b".into(), "c".into()]));
    assert_eq!(bodies(lab.take("k", worker, token, taken.first).await), ["b", "c"], "an old acknowledgement");
    assert!(lab.take("k", worker, token, taken.first + 3).await.unwrap().bodies.is_empty());
    assert!(lab.take("k", worker, token, taken.first + 3).await.unwrap().bodies.is_empty());
    assert!(lab.backend.dump().await.get("notifications").is_none());
}

async fn a_late_acknowledgement_swallows_nothing(lab: Lab, worker: WorkerId) {
    let token = lab.run("k", "node1.g", worker).await;
    lab.notify("k", Some(worker), "a").await;
    lab.notify("k", Some(worker), "b").await;
    let taken = lab.take("k", worker, token, 0).await.unwrap();
    let acknowledgement = taken.first + 2;
    assert!(lab.take("k", worker, token, acknowledgement).await.unwrap().bodies.is_empty());
    lab.notify("k", Some(worker), "c").await;
    assert_eq!(bodies(lab.take("k", worker, token, acknowledgement).await), ["c"], "it came again");
}

async fn only_the_owner_takes(lab: Lab, worker: WorkerId, other: WorkerId) {
    let token = lab.run("k", "node1.g", worker).await;
    lab.notify("k", Some(worker), "body").await;
    let before = lab.backend.dump().await;
    assert_eq!(lab.take("k", worker, Token(token.0 + 1), u64::MAX >> 12).await, None);
    assert_eq!(lab.take("k", other, token, u64::MAX >> 12).await, None);
    assert_eq!(lab.take("absent", worker, token, 0).await, None);
    assert_eq!(lab.backend.dump().await, before);
    lab.stop("k", "node1.g", Some(worker)).await;
    assert_eq!(lab.take("k", worker, token, 0).await, None, "it is being stopped");
}

async fn a_take_brings_sixteen(lab: Lab, worker: WorkerId) {
    let token = lab.run("k", "node1.g", worker).await;
    for at in 0..20 {
        lab.notify("k", Some(worker), &at.to_string()).await;
    }
    let taken = lab.take("k", worker, token, 0).await.unwrap();
    assert_eq!(taken.bodies.len(), 16);
    let rest = lab.take("k", worker, token, taken.first + 16).await.unwrap();
    assert_eq!(bodies(Some(rest)), ["16", "17", "18", "19"]);
}

async fn big_ones_come_in_several_takes(lab: Lab, worker: WorkerId) {
    let token = lab.run("k", "node1.g", worker).await;
    let big = "x".repeat(200 << 10);
    for _ in 0..4 {
        assert_eq!(lab.notify("k", Some(worker), &big).await, NotifyReply::Kept);
    }
    let taken = lab.take("k", worker, token, 0).await.unwrap();
    assert_eq!(taken.bodies.len(), 2, "the second one passes 256 KiB");
    assert_eq!(lab.take("k", worker, token, taken.first + 2).await.unwrap().bodies.len(), 2);
}

async fn every_job_in_a_batch_gets_one(lab: Lab, worker: WorkerId) {
    let mut items = Vec::new();
    for name in ["a", "b", "c"] {
        let token = lab.run(name, &format!("node1.{name}"), worker).await;
        for _ in 0..2 {
            let body = Bytes::from(vec![b'x'; 300 << 10]);
            let item = NotifyItem { key: key(name), guess: Some(worker), body };
            assert_eq!(lab.step(&Notify { items: vec![item] }).await.unwrap(), [NotifyReply::Kept]);
        }
        items.push(TakeItem { key: key(name), token, ack: 0 });
    }
    let taken = lab.step(&Take { worker, finished: Vec::new(), items }).await.unwrap();
    let counts: Vec<_> = taken.into_iter().map(|taken| taken.unwrap().bodies.len()).collect();
    assert_eq!(counts, [1, 1, 1], "an empty answer would say that nothing waits");
}

async fn unacknowledged_notifications_go_to_the_next_owner(lab: Lab, worker: WorkerId, next: WorkerId) {
    let token = lab.run("k", "node1.g", worker).await;
    lab.notify("k", Some(worker), "a").await;
    lab.notify("k", Some(worker), "b").await;
    let taken = lab.take("k", worker, token, 0).await.unwrap();
    lab.take("k", worker, token, taken.first + 1).await.unwrap();
    lab.release("k", worker, ReleaseMode::HandOff).await;
    assert_eq!(lab.notify("k", None, "c").await, NotifyReply::Kept);
    let token = lab.run_again("k", next).await;
    assert_eq!(bodies(lab.take("k", next, token, 0).await), ["b", "c"]);
}

async fn they_end_with_their_job(lab: Lab, worker: WorkerId) {
    lab.run("k", "node1.g", worker).await;
    lab.notify("k", Some(worker), "a").await;
    lab.notify("k", Some(worker), "b").await;
    lab.release("k", worker, ReleaseMode::Delete).await;
    assert!(lab.backend.dump().await.get("notifications").is_none());
    let token = lab.run("k", "node1.h", worker).await;
    assert!(lab.take("k", worker, token, 0).await.unwrap().bodies.is_empty());
}

async fn waiting(lab: &Lab, name: &str, from: u64) -> Waiting {
    lab.read(&ReadNotifications { key: key(name), from }).await.unwrap()
}

async fn those_that_wait_are_listed_in_pages(lab: Lab) {
    assert_eq!(waiting(&lab, "k", 0).await, Waiting::Absent);
    lab.dispatch("k", "node1.g").await;
    assert_eq!(waiting(&lab, "k", 0).await, Waiting::Page { first: 0, bodies: vec![], more: false });
    lab.dispatch("other", "node1.o").await;
    lab.notify("other", None, "counts on").await;
    let all: Vec<_> = (0..18).map(|i| Bytes::from(i.to_string())).collect();
    for body in &all {
        lab.notify("k", None, std::str::from_utf8(body).unwrap()).await;
    }
    let page = |first: u64, bodies: &[Bytes], more| Waiting::Page { first, bodies: bodies.to_vec(), more };
    assert_eq!(waiting(&lab, "k", 0).await, page(1, &all[..16], true));
    assert_eq!(waiting(&lab, "k", 17).await, page(17, &all[16..], false));
    for beyond in [19, 20, u64::MAX] {
        assert_eq!(waiting(&lab, "k", beyond).await, page(19, &[], false));
    }
    lab.notify("other", None, &"x".repeat(300_000)).await;
    lab.notify("other", None, "behind a long one").await;
    let Waiting::Page { first, bodies, more } = waiting(&lab, "other", 1).await else { panic!() };
    assert_eq!((first, bodies.len(), more), (1, 1, true), "a page ends behind what is long");
}

async fn those_that_are_dropped_are_not_taken(lab: Lab, worker: WorkerId) {
    let token = lab.run("k", "node1.g", worker).await;
    for body in ["one", "two", "three"] {
        lab.notify("k", Some(worker), body).await;
    }
    let first = lab.take("k", worker, token, 0).await.unwrap().first;
    let drop = async |through| lab.step(&DropNotifications { key: key("k"), through }).await.unwrap();
    assert_eq!(drop(first).await, Some(2));
    assert_eq!(bodies(lab.take("k", worker, token, 0).await), ["two", "three"]);
    assert_eq!(lab.take("k", worker, token, first + 1).await.unwrap().first, first + 1, "that was dropped");
    let cap = lab.settings.notify_bytes as usize;
    assert_eq!(lab.notify("k", None, &"x".repeat(cap - 8)).await, NotifyReply::Kept, "8 bytes are left");
    assert_eq!(drop(u64::from(u32::MAX)).await, Some(0));
    assert_eq!(bodies(lab.take("k", worker, token, 0).await), [""; 0]);
    assert_eq!(lab.notify("k", Some(worker), "four").await, NotifyReply::Kept);
    assert_eq!(bodies(lab.take("k", worker, token, 0).await), ["four"]);
}

async fn a_drop_may_be_repeated(lab: Lab) {
    let drop =
        async |name: &str, through| lab.step(&DropNotifications { key: key(name), through }).await.unwrap();
    assert_eq!(drop("k", 9).await, None);
    lab.dispatch("k", "node1.g").await;
    assert_eq!(drop("k", 9).await, Some(0));
    for body in ["one", "two"] {
        lab.notify("k", None, body).await;
    }
    let Waiting::Page { first, .. } = waiting(&lab, "k", 0).await else { panic!() };
    assert_eq!(drop("k", first).await, Some(1));
    assert_eq!(drop("k", first).await, Some(1), "the second one has another number");
    lab.notify("k", None, "three").await;
    assert_eq!(drop("k", first).await, Some(2));
}
