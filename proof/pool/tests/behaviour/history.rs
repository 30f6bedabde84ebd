//! A pool's history: what its nodes note for people, and what they do not.

use futures::StreamExt;
use tenure_pool::event::{Event, EventCursor, EventKind};
use tenure_pool::inspect::Cause;
use tenure_pool::{Inspector, JobSpec, Node, RestartPolicy};

use crate::parking::until_parked;
use crate::recorder::Act;
use crate::world::{PATIENCE, POOL, World, on_both_stores, until};

on_both_stores!(
    an_ordinary_life_makes_no_event,
    a_failure_and_its_end_are_noted_with_the_key,
    jobs_that_a_drain_moves_are_told_together,
    a_lost_worker_is_noted_by_who_finds_it,
    what_operators_ask_for_is_noted,
    starts_and_ends_are_noted_where_the_pool_wants_all,
    a_follower_hears_what_comes,
    a_history_that_keeps_nothing_stays_empty,
    a_node_that_leaves_writes_its_last_events,
    the_shards_of_a_pool_have_one_history,
);

async fn all(seen: &Inspector) -> Vec<Event> {
    let (mut events, mut next) = (Vec::new(), EventCursor::default());
    loop {
        let page = seen.events(&next, 50).await.unwrap();
        events.extend(page.events);
        next = page.next;
        if page.is_last {
            assert!(events.is_sorted_by_key(|event| event.at) || seen.shards() > 1);
            return events;
        }
    }
}

/// The first event that fits, once it is there.
pub(crate) async fn noted(seen: &Inspector, what: &str, fits: impl Fn(&Event) -> bool) -> Event {
    let find = async || all(seen).await.into_iter().find(&fits);
    until(what, find).await
}

async fn an_ordinary_life_makes_no_event(world: World) {
    let node = world.node_with("a", 2).await;
    let seen = world.inspector().await;
    noted(&seen, "the second worker", |event| event.kind == EventKind::Joined && event.text.is_empty()).await;
    let (keys, _) = world.dispatch_placed(&node, 40).await;
    for key in &keys {
        node.notify(&**key, "hello").await.unwrap();
        world.stop(&node, key).await;
    }
    // Events come in order: what those jobs made would be before this one.
    node.operate().cordon("b").await.unwrap();
    noted(&seen, "the last event", |event| event.kind == EventKind::Asked).await;
    let events = all(&seen).await;
    let of_jobs: Vec<_> =
        events.iter().filter(|event| event.count > 0 && event.why != Some(Cause::Moved)).collect();
    assert!(of_jobs.is_empty(), "{of_jobs:?}");
    let kinds: Vec<_> = events.iter().map(|event| event.kind).collect();
    assert!(kinds.contains(&EventKind::Open) && kinds.contains(&EventKind::Joined), "{kinds:?}");
    world.assert_clean();
}

async fn starts_and_ends_are_noted_where_the_pool_wants_all(world: World) {
    let node = world.node_with("a", 1).await;
    let seen = world.inspector().await;
    world.dispatch_one(&node, "before").await;
    node.operate().change_settings(|settings| settings.history_all = true).await.unwrap();
    world.dispatch_one(&node, "acme").await;
    world.stop(&node, "acme").await;
    let of_acme = |kind| move |event: &Event| event.kind == kind && event.keys[0].as_str() == Some("acme");
    let started = noted(&seen, "the start", of_acme(EventKind::Started)).await;
    let ended = noted(&seen, "the end", of_acme(EventKind::Ended)).await;
    assert!(started.at <= ended.at && started.worker == ended.worker && started.worker.is_some());
    node.operate().change_settings(|settings| settings.history_all = false).await.unwrap();
    world.stop(&node, "before").await;
    node.operate().cordon("b").await.unwrap();
    noted(&seen, "the last event", |event| event.kind == EventKind::Asked && event.text.contains("cordon"))
        .await;
    let told = all(&seen).await.into_iter().filter(|event| event.kind == EventKind::Ended).count();
    assert_eq!(told, 1, "only while it is wanted");
}

async fn a_failure_and_its_end_are_noted_with_the_key(world: World) {
    let node = crate::parking::strict(&world, "a").await;
    node.add_worker(world.recorder.acting(|_| Act::Fail("no route"))).await.unwrap();
    node.submit(JobSpec::new("acme", "").restart(RestartPolicy::OnFailure)).await.unwrap();
    until_parked(&node, "acme").await;
    let seen = world.inspector().await;
    let parked = noted(&seen, "the parked job", |event| event.kind == EventKind::Parked).await;
    assert_eq!((parked.keys[0].as_str(), parked.text.as_str()), (Some("acme"), "no route"));
    assert_eq!((parked.node.as_str(), parked.shard, parked.count), ("a", 0, 1));
    let failures: Vec<_> =
        all(&seen).await.into_iter().filter(|event| event.kind == EventKind::Failed).collect();
    assert_eq!(failures.len(), 2, "{failures:?}");
    let why = seen.job("acme").await.unwrap().unwrap().why.unwrap();
    assert_eq!(why.cause, Cause::Failed);
}

async fn jobs_that_a_drain_moves_are_told_together(world: World) {
    let (a, b) = (world.node_with("a", 1).await, world.node_with("b", 1).await);
    let (keys, _) = world.dispatch_placed(&a, 200).await;
    let worker = b.inspect().workers().await.unwrap().into_iter().find(|worker| worker.node == "b").unwrap();
    let seen = world.inspector().await;
    let had = a.inspect().jobs_of(&worker, None, 1_000).await.unwrap().len() as u64;
    b.close().await.unwrap();
    world.placed(&a, &keys).await;
    let moved = async || {
        let events = all(&seen).await.into_iter();
        let moved: Vec<_> = events.filter(|event| event.why == Some(Cause::Drained)).collect();
        (moved.iter().map(|event| event.count).sum::<u64>() >= had).then_some(moved)
    };
    let moved = until("all moves to be told", moved).await;
    assert!(moved.iter().all(|event| event.worker == Some(worker.id) && !event.keys.is_empty()), "{moved:?}");
    assert!(moved.iter().any(|event| event.count > 1), "{} events of {had} moves", moved.len());
    let key = moved[0].keys[0].clone();
    let why = seen.explain(key).await.unwrap().why.unwrap();
    assert_eq!((why.cause, why.former), (Cause::Drained, Some(worker.id)));
    world.assert_clean();
}

async fn a_lost_worker_is_noted_by_who_finds_it(world: World) {
    let world = world.with_ttl(crate::server_loss::TTL);
    let (a, b) = (world.node_with("a", 1).await, world.node_with("b", 1).await);
    let (keys, _) = world.dispatch_placed(&a, 20).await;
    let worker = a.inspect().workers().await.unwrap().into_iter().find(|worker| worker.node == "b").unwrap();
    b.abandon();
    let seen = world.inspector().await;
    let lost = noted(&seen, "the loss with its jobs", |event| {
        event.kind == EventKind::Lost && event.worker == Some(worker.id) && event.count > 0
    })
    .await;
    assert_eq!(lost.node, "a");
    world.placed(&a, &keys).await;
    let jobs = seen.jobs().await.unwrap();
    let of_the_lost = jobs.iter().filter(|job| job.why.is_some_and(|why| why.cause == Cause::Lost));
    assert!(of_the_lost.clone().count() > 0, "{jobs:?}");
    assert!(of_the_lost.clone().all(|job| job.why.and_then(|why| why.former) == Some(worker.id)));
}

async fn what_operators_ask_for_is_noted(world: World) {
    let node = world.node_with("a", 1).await;
    let (keys, _) = world.dispatch_placed(&node, 1).await;
    let client = world.builder("desk").client_only().join().await.unwrap();
    client.operate().park(&*keys[0], "ticket 17").await.unwrap();
    client.operate().unpark(&*keys[0]).await.unwrap();
    client.operate().change_settings(|settings| settings.strikes = 9).await.unwrap();
    client.operate().cordon("a").await.unwrap();
    client.operate().drain_node("a").await.unwrap();
    client.close().await.unwrap();
    let seen = world.inspector().await;
    noted(&seen, "the drain", |event| event.text == "drain").await;
    let asked: Vec<_> = all(&seen).await.into_iter().filter(|event| event.kind == EventKind::Asked).collect();
    assert!(asked.iter().all(|event| event.node == "desk"), "{asked:?}");
    let texts: Vec<_> = asked.iter().map(|event| event.text.as_str()).collect();
    assert_eq!(texts, ["park: ticket 17", "unpark", "settings: strikes=9", "cordon of a", "drain"]);
    assert_eq!(asked[0].keys[0].as_str(), Some(&*keys[0]));
}

async fn a_follower_hears_what_comes(world: World) {
    let node = world.node_with("a", 1).await;
    let seen = world.inspector().await;
    noted(&seen, "the worker", |event| event.kind == EventKind::Joined).await;
    let page = seen.events(&EventCursor::default(), 1_000).await.unwrap();
    let mut coming = seen.follow(page.next);
    node.operate().cordon("x").await.unwrap();
    node.operate().uncordon("x").await.unwrap();
    let mut texts = Vec::new();
    while texts.len() < 2 {
        let event = tokio::time::timeout(PATIENCE, coming.next()).await.unwrap().unwrap().unwrap();
        if event.kind == EventKind::Asked {
            texts.push(event.text);
        }
    }
    assert_eq!(texts, ["cordon of x", "no cordon of x"]);
}

/// How many clients the server lets wait.
pub(crate) fn blocked(world: &World) -> u64 {
    let info: String = redis::cmd("INFO").arg("clients").query(&mut world.client()).unwrap();
    let line = info.lines().find_map(|line| line.strip_prefix("blocked_clients:"));
    line.unwrap().trim_end().parse().unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_follower_waits_in_a_read_that_the_server_holds() {
    let world = World::on_redis();
    let node = world.node_with("a", 1).await;
    let seen = world.inspector().await;
    noted(&seen, "the worker", |event| event.kind == EventKind::Joined).await;
    let mut coming = seen.follow(seen.events(&EventCursor::default(), 1_000).await.unwrap().next);
    // The node's own reads end with it.
    node.abandon();
    node.closed().await;
    tokio::select! {
        event = coming.next() => panic!("{event:?}"),
        () = until("the held read alone", async || blocked(&world) == 1) => {}
    }
    let desk = world.builder("desk").client_only().join().await.unwrap();
    desk.operate().cordon("x").await.unwrap();
    let event = tokio::time::timeout(PATIENCE, coming.next()).await.unwrap().unwrap().unwrap();
    assert_eq!(event.text, "cordon of x");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_follower_passes_over_what_it_cannot_read() {
    let world = World::on_redis();
    let node = world.node_with("a", 1).await;
    let seen = world.inspector().await;
    noted(&seen, "the worker", |event| event.kind == EventKind::Joined).await;
    let page = seen.events(&EventCursor::default(), 1_000).await.unwrap();
    let mut rubbish = redis::pipe();
    for _ in 0..300 {
        rubbish
            .cmd("XADD")
            .arg(format!("tenure:{{{POOL}}}:history"))
            .arg("*")
            .arg("e")
            .arg("rubbish")
            .ignore();
    }
    rubbish.query::<()>(&mut world.client()).unwrap();
    let mut coming = seen.follow(page.next);
    node.operate().cordon("x").await.unwrap();
    let next = async {
        while let Some(event) = coming.next().await {
            if event.unwrap().text == "cordon of x" {
                return true;
            }
        }
        false
    };
    assert!(tokio::time::timeout(PATIENCE, next).await.unwrap());
}

async fn a_history_that_keeps_nothing_stays_empty(world: World) {
    let settings = tenure_pool::Settings { worker_ttl: world.ttl(), history_max: 0, ..Default::default() };
    let node = world.builder("a").settings(settings).join().await.unwrap();
    let seen = world.inspector().await;
    node.operate().cordon("x").await.unwrap();
    node.operate().change_settings(|settings| settings.history_max = 10).await.unwrap();
    node.operate().uncordon("x").await.unwrap();
    noted(&seen, "what follows", |event| event.text == "no cordon of x").await;
    let texts: Vec<_> = all(&seen).await.into_iter().map(|event| event.text).collect();
    assert!(!texts.contains(&"cordon of x".to_owned()), "{texts:?}");
}

async fn a_node_that_leaves_writes_its_last_events(world: World) {
    let stays = world.node("a").await;
    let leaves: Node = world.node_with("b", 1).await;
    leaves.operate().cordon("x").await.unwrap();
    leaves.close().await.unwrap();
    let seen = world.inspector().await;
    let events = all(&seen).await;
    assert!(events.iter().any(|event| event.node == "b" && event.kind == EventKind::Left), "{events:?}");
    assert!(events.iter().any(|event| event.text == "cordon of x"));
    drop(stays);
}

async fn the_shards_of_a_pool_have_one_history(world: World) {
    let world = world.with_shards(3);
    let node = world.node_with("a", 1).await;
    node.operate().cordon("x").await.unwrap();
    let seen = world.inspector().await;
    let shards = async || {
        let events = all(&seen).await.into_iter();
        let shards: std::collections::BTreeSet<_> =
            events.filter(|event| event.text == "cordon of x").map(|event| event.shard).collect();
        shards.len() == 3
    };
    until("all shards to say so", shards).await;
}
