//! All settings of a queue hold for all nodes, whichever node adds a job or runs it.

use std::collections::BTreeMap;
use std::time::{Duration, SystemTime};

use tenure_jobs::{Backoff, Ctx, Error, Groups, Outcome, Queue, State};

use super::world::{MINUTE, SECOND, World};

stories! {
    jobs_are_kept_as_their_queue_says_whoever_adds_them,
    a_producer_that_names_a_queue_changes_nothing,
    a_time_out_holds_on_a_node_without_the_settings,
    heartbeats_and_pauses_hold_on_a_node_without_settings,
    jobs_go_on_from_a_node_without_the_settings,
    data_for_the_next_queue_replace_all_fields,
    a_queue_that_was_only_named_may_still_get_groups,
}

async fn jobs_are_kept_as_their_queue_says_whoever_adds_them(world: World) {
    let declares = world.node("w").queue(Queue::new("q").keep(MINUTE)).queues(["parents"]).join();
    let (declares, producer) = (declares.await.unwrap(), world.node("p").join().await.unwrap());
    let one = producer.add("q", &1u32).await.unwrap().id;
    let many = producer.add_many("q", [2u32, 3]).await.unwrap();
    let other = producer.add("q", &4u32).keep(2 * MINUTE).await.unwrap().id;
    let parent = producer.worker("parents", async |ctx: Ctx, (): ()| {
        Ok(Outcome::result(&ctx.spawn("q", "child", &5u32).await?.id.to_string())?)
    });
    let _worker = parent.start().unwrap();
    let parent = producer.add("parents", &()).keep(MINUTE).await.unwrap().id;
    let child = producer.wait(&parent).await.unwrap().result::<String>().unwrap().parse().unwrap();
    for id in [&one, &many[0].id, &many[1].id, &child] {
        assert_eq!(declares.get(id).await.unwrap().unwrap().record().keep, 60_000, "{id}");
    }
    assert_eq!(declares.get(&other).await.unwrap().unwrap().record().keep, 120_000, "it says so itself");
}

async fn a_producer_that_names_a_queue_changes_nothing(world: World) {
    let settings = Queue::new("q").limit(1, 60 * MINUTE).attempts(2).lease(7 * SECOND);
    let groups = Queue::new("g").groups(Groups::new().concurrency(3));
    let declares = world.node("w").queue(settings).queue(groups).join().await.unwrap();
    let producer = world.node("p").queues(["q", "g", "new"]).join().await.unwrap();
    producer.add("g", &()).group("acme").await.unwrap();
    producer.add("new", &()).await.unwrap();
    let settings = async |name| declares.queue(name).unwrap().figures().await.unwrap().settings.unwrap();
    let of_q = settings("q").await;
    assert_eq!((of_q.limit, of_q.max, of_q.lease), (1, 2, 7_000));
    assert_eq!(settings("g").await.group_concurrency, 3);
    assert_eq!(settings("new").await.lease, 30_000, "nobody has declared it");
}

async fn a_time_out_holds_on_a_node_without_the_settings(world: World) {
    let overruns = Queue::new("q").timeout(Duration::from_millis(300)).attempts(1);
    let _declares = world.node("w").queue(overruns).join().await.unwrap();
    let runs = world.node("r").join().await.unwrap();
    let worker = runs.worker("q", async |_: Ctx, (): ()| {
        tokio::time::sleep(5 * SECOND).await;
        Ok(())
    });
    let _worker = worker.start().unwrap();
    let id = runs.add("q", &()).await.unwrap().id;
    let ended = runs.wait(&id).await.unwrap();
    assert_eq!((ended.state(), ended.error().as_deref()), (State::Failed, Some("it took longer than 300ms")));
}

async fn heartbeats_and_pauses_hold_on_a_node_without_settings(world: World) {
    let silent = Queue::new("q").heartbeat(Duration::from_millis(300));
    let silent = silent.backoff(Backoff::new(10 * MINUTE, 10 * MINUTE));
    let _declares = world.node("w").queue(silent).join().await.unwrap();
    let runs = world.node("r").join().await.unwrap();
    let worker = runs.worker("q", async |_: Ctx, (): ()| {
        tokio::time::sleep(5 * SECOND).await;
        Ok(())
    });
    let _worker = worker.start().unwrap();
    let id = runs.add("q", &()).keep(MINUTE).await.unwrap().id;
    let mut watch = runs.watch(&id).await.unwrap();
    assert!(watch.until(State::Delayed).await.unwrap());
    let view = runs.get(&id).await.unwrap().unwrap();
    assert_eq!(view.error().unwrap(), "no heartbeat within 300ms");
    let due = SystemTime::UNIX_EPOCH + Duration::from_millis(view.record().due);
    assert!(due > world.now() + 5 * MINUTE);
}

async fn jobs_go_on_from_a_node_without_the_settings(world: World) {
    let declares = world.node("w").queue(Queue::new("a").next("b")).queues(["b"]).join().await.unwrap();
    let runs = world.node("r").join().await.unwrap();
    let stages = async |ctx: Ctx, way: String| Ok(Outcome::next_as(&format!("{way} {}", ctx.queue()))?);
    let _worker = runs.worker_of(["a", "b"], stages).start().unwrap();
    let id = declares.add("a", "by").keep(MINUTE).await.unwrap().id;
    assert!(declares.wait(&id).await.unwrap().is_done());
    let view = declares.get(&id).await.unwrap().unwrap();
    assert_eq!((view.queue().as_str(), view.data::<String>().unwrap().as_str()), ("b", "by a b"));
}

async fn data_for_the_next_queue_replace_all_fields(world: World) {
    let fields = |names: [&str; 2]| BTreeMap::from(names.map(|name| (name.to_owned(), 1)));
    let jobs = world.node("n").queue(Queue::new("a").next("b")).queues(["b"]).join().await.unwrap();
    let next = fields(["y", "z"]);
    let stages = move |_: Ctx, replace: BTreeMap<String, u8>| {
        let next =
            if replace.contains_key("replace") { Outcome::next_as(&next) } else { Outcome::next(&next) };
        async { Ok(next?) }
    };
    let _worker = jobs.worker_of(["a", "b"], stages).start().unwrap();
    for (names, expected) in [(["replace", "y"], vec!["y", "z"]), (["x", "y"], vec!["x", "y", "z"])] {
        let id = jobs.add("a", &fields(names)).keep(MINUTE).await.unwrap().id;
        assert!(jobs.wait(&id).await.unwrap().is_done());
        let left: BTreeMap<String, u8> = jobs.get(&id).await.unwrap().unwrap().data().unwrap();
        assert_eq!(left.keys().collect::<Vec<_>>(), expected);
    }
}

async fn a_queue_that_was_only_named_may_still_get_groups(world: World) {
    let producer = world.node("p").queues(["early", "late", "plain"]).join().await.unwrap();
    let refused = producer.add("early", &()).group("acme").await;
    assert!(matches!(refused, Err(Error::NoQueue(_))), "no group is lost: {refused:?}");
    producer.add("late", &()).await.unwrap();
    let grouped = |name: &str| Queue::new(name).groups(Groups::new());
    let declares = world.node("w").queue(grouped("early")).queue(Queue::new("plain")).join().await.unwrap();
    let id = producer.add("early", &()).group("acme").await.unwrap().id;
    assert_eq!(declares.get(&id).await.unwrap().unwrap().record().group, "acme");
    for name in ["late", "plain"] {
        let refused = world.node("x").queue(grouped(name)).join().await;
        assert!(matches!(refused, Err(Error::Groups(_))), "{name} has a job, or was declared");
    }
}
