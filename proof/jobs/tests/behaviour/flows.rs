//! Jobs that go through queues, with children.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use serde::{Deserialize, Serialize};
use tenure_jobs::{
    Backoff, BoxError, ChildEnd, Ctx, Error, Flow, Groups, How, Outcome, Queue, State, Unique, Worker,
};
use tokio::sync::Semaphore;

use super::world::{MINUTE, Said, World};

stories! {
    a_flow_goes_through_its_queues_and_keeps_its_fields,
    a_flow_that_has_ended_is_started_anew,
    a_flow_that_names_a_queue_twice_is_refused,
    a_job_outside_of_its_flows_stages_does_not_go_on,
    a_correlation_id_is_that_of_all_stages_and_children,
    a_handler_sees_the_fields_that_it_declares,
    a_handler_of_a_flow_sees_where_its_job_comes_from,
    a_flow_that_fails_so_often_says_where_and_why,
    the_result_names_the_next_queue_before_the_settings,
    a_priority_differs_by_flow,
    a_flow_is_found_by_its_fields,
    a_flow_that_fails_says_where_and_why,
    a_flow_has_a_life,
    attempts_are_counted_by_queue,
    children_are_waited_for_and_their_results_are_there,
    long_results_of_many_children_are_all_there,
    a_parent_that_waits_for_no_child_goes_on,
    a_failed_child_fails_its_parent_if_that_is_asked_for,
    a_parent_that_runs_again_makes_no_child_twice,
    a_parent_that_waits_for_nothing_again_comes_to_its_end,
    nobody_but_its_parent_adds_a_child,
    a_removed_flow_takes_its_children_with_it,
    a_job_that_was_removed_while_it_ran_writes_nothing,
    a_flow_that_goes_nowhere_fails,
    a_node_that_does_not_know_a_flow_leaves_its_jobs,
    a_job_has_so_many_look_ups_at_most,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
struct Who {
    user: u32,
    guilds: Vec<String>,
}

#[derive(Debug, PartialEq, Serialize, Deserialize)]
struct Access {
    ok: bool,
}

#[derive(Debug, PartialEq, Serialize, Deserialize)]
struct All {
    user: u32,
    ok: bool,
    member: String,
}

#[derive(Serialize)]
struct Member {
    member: &'static str,
}

fn who() -> Who {
    Who { user: 62, guilds: vec!["red".into(), "blue".into()] }
}

fn join(world: &World) -> tenure_jobs::JobsBuilder {
    let flow = Flow::new("join").then("access").then("member").then("grant").lookup("user").lookup("guilds");
    world.node("n").queues(["access", "member", "grant", "discord"]).flow(flow)
}

async fn a_flow_goes_through_its_queues_and_keeps_its_fields(world: World) {
    let jobs = join(&world).join().await.unwrap();
    let _first = jobs
        .worker("access", async |_: Ctx, _: Who| Ok(Outcome::next(&Access { ok: true })?))
        .start()
        .unwrap();
    let next = jobs.worker("member", async |_: Ctx, access: Access| {
        assert!(access.ok);
        Ok(Outcome::next(&Member { member: "yes" })?)
    });
    let _next = next.start().unwrap();
    let last = jobs.worker("grant", async |ctx: Ctx, all: All| {
        assert_eq!((ctx.flow(), ctx.queue().as_str(), ctx.attempt()), (Some("join"), "grant", 1));
        Ok(Outcome::result(&all)?)
    });
    let _last = last.start().unwrap();
    let id = jobs.start("join", &who()).await.unwrap().id;
    assert!(id.as_str().starts_with("join:"));
    let expected = All { user: 62, ok: true, member: "yes".into() };
    assert_eq!(jobs.wait(&id).await.unwrap().result::<All>().unwrap(), expected);
    let view = jobs.get(&id).await.unwrap().unwrap();
    assert_eq!((view.state(), view.data::<All>().unwrap()), (State::Done, expected));
    for queue in ["access", "member", "grant"] {
        let figures = jobs.queue(queue).unwrap().figures().await.unwrap();
        assert_eq!((figures.done, figures.running, figures.ready), (1, 0, 0), "{queue}");
    }
}

async fn a_flow_that_has_ended_is_started_anew(world: World) {
    let jobs =
        world.node("n").queues(["a", "b"]).flow(Flow::new("f").then("a").then("b")).join().await.unwrap();
    let said = Said::default();
    let _workers = ["a", "b"].map(|queue| passing(&jobs, queue, &said, Outcome::go_on));
    let start = async || jobs.start("f", &()).id("one").unique(Unique::Again).await.unwrap();
    let first = start().await;
    assert_eq!(first.how, How::New);
    assert!(jobs.wait(&first.id).await.unwrap().is_done());
    assert_eq!(start().await.how, How::Anew);
    assert!(jobs.wait(&first.id).await.unwrap().is_done());
    assert_eq!(said.all(), ["a 0", "b 0", "a 0", "b 0"]);
}

async fn a_flow_that_names_a_queue_twice_is_refused(world: World) {
    let flow = Flow::new("round").then("a").then("b").then_at("a", 3);
    match world.node("n").queues(["a", "b"]).flow(flow).join().await {
        Err(Error::SameStage { flow, queue }) => assert_eq!((&*flow, queue.as_str()), ("round", "a")),
        other => panic!("{other:?}"),
    }
    let jobs = world.node("n").queues(["c"]).join().await.unwrap();
    let figures = jobs.queue("a").unwrap().figures().await;
    assert!(matches!(figures, Err(Error::NoQueue(_))), "nothing was declared: {figures:?}");
}

async fn a_job_outside_of_its_flows_stages_does_not_go_on(world: World) {
    let flow = Flow::new("f").then("a").then("b");
    let jobs = world.node("n").queues(["a", "b", "aside"]).flow(flow).join().await.unwrap();
    let said = Said::default();
    let _a = passing(&jobs, "a", &said, || Outcome::go_on().to("aside"));
    let _aside = passing(&jobs, "aside", &said, Outcome::go_on);
    let _b = passing(&jobs, "b", &said, Outcome::go_on);
    let id = jobs.start("f", &()).await.unwrap().id;
    let ended = jobs.wait(&id).await.unwrap();
    let expected = "the flow f has no stage aside, and nothing else names the next queue";
    assert_eq!((ended.state(), ended.error().as_deref()), (State::Failed, Some(expected)));
    assert_eq!(jobs.queue("aside").unwrap().dead().await.unwrap(), [id], "it can be replayed");
    assert_eq!(said.all(), ["a 0", "aside 0"]);
}

async fn a_correlation_id_is_that_of_all_stages_and_children(world: World) {
    let jobs = join(&world).join().await.unwrap();
    let said = Said::default();
    let heard = said.clone();
    let worker = jobs.worker_of(["access", "member", "grant", "discord"], move |ctx: Ctx, (): ()| {
        let heard = heard.clone();
        async move {
            heard.say(format!("{} {}", ctx.queue(), ctx.correlation_id().unwrap_or("none")));
            if ctx.queue().as_str() == "member" && ctx.children().await?.is_none() {
                ctx.spawn("discord", "one", &()).await?;
                ctx.spawn("discord", "two", &()).correlation_id("its-own").await?;
                return Ok(Outcome::wait());
            }
            Ok(Outcome::go_on())
        }
    });
    let _worker = worker.slots(1).start().unwrap();
    let id = jobs.start("join", &()).correlation_id("request-7").await.unwrap().id;
    assert!(jobs.wait(&id).await.unwrap().is_done());
    let expected = [
        "access request-7",
        "member request-7",
        "discord request-7",
        "discord its-own",
        "member request-7",
        "grant request-7",
    ];
    assert_eq!(said.all(), expected);
    let id = jobs.add("discord", &()).keep(MINUTE).await.unwrap().id;
    assert!(jobs.wait(&id).await.unwrap().is_done());
    assert_eq!(said.all().pop().unwrap(), "discord none");
    for bad in ["", "a|b", "a b", "ä", &"x".repeat(129)] {
        let added = jobs.add("discord", &()).correlation_id(bad).await;
        assert!(matches!(added, Err(Error::Setting(_))), "{bad}: {added:?}");
    }
}

/// The flow, the priority, the correlation id, the group and the time of a job.
type Seen = (Option<String>, i8, Option<String>, Option<String>, Option<SystemTime>);

async fn a_handler_of_a_flow_sees_where_its_job_comes_from(world: World) {
    let flow = Flow::new("f").then_at("a", 4).then("b");
    let grouped = Queue::new("a").groups(Groups::new());
    let jobs = world.node("n").queue(grouped).queues(["b"]).flow(flow).join().await.unwrap();
    let due = SystemTime::UNIX_EPOCH + Duration::from_secs(1_000_000_000);
    let add = jobs.start("f", &who()).group("red").at(due).correlation_id("request-7");
    let id = add.await.unwrap().id;
    let record = jobs.get(&id).await.unwrap().unwrap().record().clone();
    assert_eq!(record.keep, 24 * 60 * 60 * 1_000, "a flow is kept for a day, unless it says so");
    let worker = jobs.worker("a", async |ctx: Ctx, _: Who| {
        let seen = (
            ctx.flow().map(str::to_owned),
            ctx.priority(),
            ctx.correlation_id().map(str::to_owned),
            ctx.group().map(str::to_owned),
            ctx.due_at(),
        );
        Ok(Outcome::result(&seen)?)
    });
    let _worker = worker.start().unwrap();
    let seen = jobs.wait(&id).await.unwrap().result::<Seen>().unwrap();
    let words = ["f", "request-7", "red"].map(|word| Some(word.to_owned()));
    let [flow, correlation, group] = words;
    assert_eq!(seen, (flow, 4, correlation, group, Some(due)));
}

async fn a_flow_that_fails_so_often_says_where_and_why(world: World) {
    let queue = |name: &str| Queue::new(name).attempts(2).backoff(Backoff::none());
    let flow = Flow::new("f").then("a").then("b");
    let jobs = world.node("n").queue(queue("a")).queue(queue("b")).flow(flow).join().await.unwrap();
    let worker = jobs.worker_of(["a", "b"], async |ctx: Ctx, (): ()| {
        if ctx.queue().as_str() == "a" {
            return Ok(Outcome::go_on());
        }
        Err(format!("attempt {} was in vain", ctx.attempt()).into())
    });
    let _worker = worker.start().unwrap();
    let id = jobs.start("f", &()).await.unwrap().id;
    let ended = jobs.wait(&id).await.unwrap();
    assert_eq!((ended.state(), ended.error().as_deref()), (State::Failed, Some("attempt 2 was in vain")));
    let view = jobs.get(&id).await.unwrap().unwrap();
    assert_eq!((view.queue().as_str(), view.attempts()), ("b", 2));
}

async fn a_handler_sees_the_fields_that_it_declares(world: World) {
    #[derive(Serialize, Deserialize)]
    struct Guilds {
        guilds: Vec<String>,
        #[serde(default)]
        level: u32,
    }
    #[derive(Deserialize)]
    struct Level {
        #[expect(dead_code, reason = "no job has it")]
        level: u32,
    }
    let jobs = join(&world).join().await.unwrap();
    let said = Said::default();
    let [first, second, third] = [&said; 3].map(Said::clone);
    let access = jobs.worker("access", move |_: Ctx, seen: Guilds| {
        first.say(serde_json::to_string(&seen).unwrap());
        async { Ok(Outcome::next(&Access { ok: true })?) }
    });
    let member = jobs.worker("member", move |_: Ctx, seen: Access| {
        second.say(serde_json::to_string(&seen).unwrap());
        async { Ok(Outcome::next(&Member { member: "yes" })?) }
    });
    let grant = jobs.worker("grant", move |_: Ctx, _: Level| {
        third.say("a field that it declares was missing");
        async { Ok(()) }
    });
    let _workers = [access, member, grant].map(|worker| worker.start().unwrap());
    let id = jobs.start("join", &who()).await.unwrap().id;
    let ended = tokio::time::timeout(MINUTE, jobs.wait(&id)).await.expect("it has ended").unwrap();
    assert_eq!(said.all(), [r#"{"guilds":["red","blue"],"level":0}"#, r#"{"ok":true}"#]);
    let error = ended.error().unwrap_or_default();
    assert!(ended.state() == State::Failed && error.ends_with("missing field `level`"), "{ended:?}");
    let view = jobs.get(&id).await.unwrap().unwrap();
    assert_eq!((view.queue().as_str(), view.attempts()), ("grant", 1), "another attempt reads no more");
    let all = serde_json::json!({"user": 62, "guilds": ["red", "blue"], "ok": true, "member": "yes"});
    assert_eq!(view.data::<serde_json::Value>().unwrap(), all, "the others are kept");
}

/// A worker that says its queue and goes on.
fn passing(jobs: &tenure_jobs::Jobs, queue: &'static str, said: &Said, outcome: fn() -> Outcome) -> Worker {
    let worker = said.worker(jobs, queue, move |heard: Said, ctx: Ctx, (): ()| async move {
        heard.say(format!("{queue} {}", ctx.priority()));
        Ok(outcome())
    });
    worker.start().unwrap()
}

async fn the_result_names_the_next_queue_before_the_settings(world: World) {
    let queues = [Queue::new("a").next("b"), Queue::new("b").keep(MINUTE), Queue::new("c")];
    let mut builder = world.node("n").flow(Flow::new("f").then("a").then("c"));
    for queue in queues {
        builder = builder.queue(queue);
    }
    let jobs = builder.join().await.unwrap();
    let said = Said::default();
    let _a = passing(&jobs, "a", &said, Outcome::go_on);
    let _b = passing(&jobs, "b", &said, || Outcome::go_on().to("c"));
    let _c = passing(&jobs, "c", &said, Outcome::go_on);
    let id = jobs.start("f", &()).await.unwrap().id;
    assert!(jobs.wait(&id).await.unwrap().is_done());
    assert_eq!(said.all(), ["a 0", "b 0", "c 0"]);
}

async fn a_priority_differs_by_flow(world: World) {
    let slow = Flow::new("slow").then_at("a", -1).then_at("b", -2);
    let fast = Flow::new("fast").then_at("a", 5).then("b");
    let jobs = world.node("n").queues(["a", "b"]).flow(slow).flow(fast).join().await.unwrap();
    let said = Said::default();
    let slow = jobs.start("slow", &()).await.unwrap().id;
    let fast = jobs.start("fast", &()).await.unwrap().id;
    let _a = passing(&jobs, "a", &said, Outcome::go_on);
    said.until(2).await;
    let _b = passing(&jobs, "b", &said, Outcome::go_on);
    assert!(jobs.wait(&slow).await.unwrap().is_done() && jobs.wait(&fast).await.unwrap().is_done());
    let all = said.all();
    assert!(all[..2].contains(&"a 5".into()) && all[..2].contains(&"a -1".into()), "{all:?}");
    assert!(all[2..].contains(&"b 5".into()) && all[2..].contains(&"b -2".into()), "{all:?}");
}

async fn a_flow_is_found_by_its_fields(world: World) {
    let jobs = join(&world).join().await.unwrap();
    let first = jobs.start("join", &who()).await.unwrap().id;
    let second = jobs.start("join", &Who { user: 63, guilds: vec!["red".into()] }).await.unwrap().id;
    assert!(second > first, "ids rise with time");
    assert_eq!(jobs.find("user", 62).await.unwrap(), std::slice::from_ref(&first));
    assert_eq!(jobs.find("guilds", "red").await.unwrap(), [first.clone(), second.clone()]);
    assert_eq!(jobs.find("guilds", "blue").await.unwrap(), std::slice::from_ref(&first));
    jobs.remove(&first).await.unwrap();
    assert_eq!(jobs.find("guilds", "red").await.unwrap(), [second]);
    assert!(jobs.find("user", 62).await.unwrap().is_empty());
}

async fn a_flow_that_fails_says_where_and_why(world: World) {
    let jobs = join(&world).join().await.unwrap();
    let _first = jobs.worker("access", async |_: Ctx, _: Who| Ok(Outcome::go_on())).start().unwrap();
    let next = jobs.worker("member", async |_: Ctx, _: Who| {
        Err::<(), BoxError>(tenure_jobs::Fatal::new("banned").into())
    });
    let _next = next.start().unwrap();
    let id = jobs.start("join", &who()).await.unwrap().id;
    assert_eq!(jobs.wait(&id).await.unwrap().error().as_deref(), Some("banned"));
    let view = jobs.get(&id).await.unwrap().unwrap();
    assert_eq!(
        (view.state(), view.queue().as_str(), view.error().as_deref()),
        (State::Failed, "member", Some("banned"))
    );
}

async fn a_flow_has_a_life(world: World) {
    let flow = Flow::new("short").then("a").life(Duration::from_millis(300));
    let jobs = world.node("n").queues(["a"]).flow(flow).join().await.unwrap();
    let worker = jobs.worker("a", async |ctx: Ctx, (): ()| {
        ctx.cancelled().await;
        Ok(())
    });
    let _worker = worker.start().unwrap();
    let id = jobs.start("short", &()).await.unwrap().id;
    let ended = jobs.wait(&id).await.unwrap();
    assert_eq!((ended.state(), ended.error().as_deref()), (State::Failed, Some("deadline")));
}

async fn attempts_are_counted_by_queue(world: World) {
    let queue = |name: &str| Queue::new(name).attempts(2).backoff(Backoff::none());
    let flow = Flow::new("f").then("a").then("b");
    let jobs = world.node("n").queue(queue("a")).queue(queue("b")).flow(flow).join().await.unwrap();
    let once_more = async |ctx: Ctx, (): ()| {
        if ctx.attempt() == 1 { Err("once more".into()) } else { Ok(Outcome::go_on()) }
    };
    let _worker = jobs.worker_of(["a", "b"], once_more).start().unwrap();
    let id = jobs.start("f", &()).await.unwrap().id;
    assert!(jobs.wait(&id).await.unwrap().is_done());
}

/// A parent with three children, whose handler says each run.
fn parent(jobs: &tenure_jobs::Jobs, said: &Said) -> Worker {
    let worker = said.worker(jobs, "grant", async |heard: Said, ctx: Ctx, who: Who| {
        heard.say(format!("{} {}", ctx.queue(), ctx.attempt()));
        let children = ctx.children().await?.unwrap_or_default();
        if children.len() < who.guilds.len() {
            // A run that was cut off half way has made some of them. None is made twice.
            for guild in &who.guilds {
                ctx.spawn("discord", guild, guild).await?;
            }
            return Ok(Outcome::wait());
        }
        let granted = children.iter().filter_map(|child| child.result::<String>().ok()).collect::<Vec<_>>();
        let failed = children.iter().filter_map(ChildEnd::error).collect::<Vec<_>>();
        Ok(Outcome::result(&(granted, failed))?)
    });
    worker.start().unwrap()
}

async fn children_are_waited_for_and_their_results_are_there(world: World) {
    let jobs = join(&world).join().await.unwrap();
    let said = Said::default();
    let _parent = parent(&jobs, &said);
    let child = jobs.worker("discord", async |_: Ctx, guild: String| match &*guild {
        "blue" => Err(tenure_jobs::Fatal::new("blue is closed").into()),
        guild => Ok(Outcome::result(guild)?),
    });
    let _child = child.start().unwrap();
    let id = jobs.add("grant", &who()).keep(MINUTE).await.unwrap().id;
    let ended = jobs.wait(&id).await.unwrap();
    let (granted, failed) = ended.result::<(Vec<String>, Vec<String>)>().unwrap();
    assert_eq!((granted, failed), (vec!["red".to_owned()], vec!["blue is closed".to_owned()]));
    assert_eq!(said.all(), ["grant 1", "grant 1"], "waiting is no attempt");
    let view = jobs.get(&id).await.unwrap().unwrap();
    assert_eq!(view.children().len(), 2);
}

async fn long_results_of_many_children_are_all_there(world: World) {
    let jobs = join(&world).join().await.unwrap();
    let parent = jobs.worker("grant", async |ctx: Ctx, (): ()| {
        let Some(children) = ctx.children().await? else {
            for n in 0..24 {
                ctx.spawn("discord", &format!("{n:02}"), &n).await?;
            }
            return Ok(Outcome::wait());
        };
        // More than one answer of the store has.
        let results =
            children.iter().map(ChildEnd::result::<(u32, String)>).collect::<Result<Vec<_>, _>>()?;
        Ok(Outcome::result(&results.into_iter().map(|(n, text)| (n, text.len())).collect::<Vec<_>>())?)
    });
    let child = jobs.worker("discord", async |_: Ctx, n: u32| Ok(Outcome::result(&(n, "x".repeat(60_000)))?));
    let _workers = (parent.start().unwrap(), child.start().unwrap());
    let id = jobs.add("grant", &()).keep(MINUTE).await.unwrap().id;
    let read = jobs.wait(&id).await.unwrap().result::<Vec<(u32, usize)>>().unwrap();
    assert_eq!(read, (0..24).map(|n| (n, 60_000)).collect::<Vec<_>>());
    let views = jobs.get_many(&[id.clone(), id]).await.unwrap();
    assert_eq!(
        views.iter().map(|view| view.as_ref().unwrap().children().len()).collect::<Vec<_>>(),
        [24, 24]
    );
}

async fn a_failed_child_fails_its_parent_if_that_is_asked_for(world: World) {
    let jobs = join(&world).join().await.unwrap();
    let _parent = parent(&jobs, &Said::default());
    let child = jobs.worker("discord", async |ctx: Ctx, guild: String| {
        if guild == "blue" {
            return Err::<(), BoxError>(tenure_jobs::Fatal::new("closed").into());
        }
        ctx.cancelled().await;
        Err("cancelled".into())
    });
    let _child = child.start().unwrap();
    let id = jobs.add("grant", &who()).fail_with_first_child().await.unwrap().id;
    let ended = jobs.wait(&id).await.unwrap();
    assert_eq!(ended.error(), Some(format!("child {id}..blue failed")));
    let other = format!("{id}..red").parse().unwrap();
    tenure_testing::eventually(MINUTE, "the other child is cancelled", async || {
        jobs.get(&other).await.unwrap().is_some_and(|child| child.state() == State::Cancelled)
    })
    .await;
}

async fn a_parent_that_runs_again_makes_no_child_twice(world: World) {
    let grant = Queue::new("grant").backoff(Backoff::none());
    let jobs = world.node("n").queue(grant).queues(["discord"]).join().await.unwrap();
    let said = Said::default();
    let child = said.worker(&jobs, "discord", async |heard: Said, ctx: Ctx, (): ()| {
        heard.say(ctx.id().to_string());
        Ok(())
    });
    let _child = child.start().unwrap();
    let parent = jobs.worker("grant", async |ctx: Ctx, (): ()| {
        if ctx.children().await?.is_some_and(|children| children.len() == 2 && ctx.attempt() == 1) {
            return Ok(Outcome::done());
        }
        ctx.spawn("discord", "a", &()).await?;
        ctx.spawn("discord", "b", &()).await?;
        if ctx.attempt() < 3 { Err("once more".into()) } else { Ok(Outcome::wait()) }
    });
    let _parent = parent.start().unwrap();
    let id = jobs.add("grant", &()).keep(MINUTE).await.unwrap().id;
    assert!(jobs.wait(&id).await.unwrap().is_done());
    let mut ran = said.all();
    ran.sort();
    assert_eq!(ran, [format!("{id}..a"), format!("{id}..b")]);
}

async fn a_parent_that_waits_for_nothing_again_comes_to_its_end(world: World) {
    let pauses = Backoff::new(Duration::from_millis(20), Duration::from_millis(20));
    let grant = Queue::new("grant").attempts(3).backoff(pauses);
    let jobs = world.node("n").queue(grant).queue(Queue::new("discord")).join().await.unwrap();
    // The handler wants two children, and both have one name.
    let said = Said::default();
    let heard = said.clone();
    let parent = jobs.worker("grant", move |ctx: Ctx, (): ()| {
        heard.say(format!("{}", ctx.attempt()));
        async move {
            if ctx.children().await?.is_some_and(|children| children.len() == 2) {
                return Ok(Outcome::done());
            }
            for _ in 0..2 {
                ctx.spawn("discord", "same", &()).await?;
            }
            Ok::<_, BoxError>(Outcome::wait())
        }
    });
    let _parent = parent.start().unwrap();
    let _child = jobs.worker("discord", async |_: Ctx, (): ()| Ok(())).start().unwrap();
    let id = jobs.add("grant", &()).keep(MINUTE).await.unwrap().id;
    let end = jobs.wait(&id).await.unwrap();
    assert_eq!(end.state(), State::Failed);
    assert_eq!(end.error().as_deref(), Some("it waits, and nothing has ended since its last wait"));
    assert_eq!(
        said.all(),
        ["1", "1", "2", "3"],
        "its only child has ended, and then there are three attempts"
    );
}

async fn nobody_but_its_parent_adds_a_child(world: World) {
    let jobs = join(&world).join().await.unwrap();
    for id in ["order-7..item", "..", "a..", "..b", "a...b"] {
        let added = jobs.add("discord", &()).id(id).await;
        assert!(matches!(&added, Err(Error::ChildsId(of)) if *of == *id), "{added:?}");
    }
    assert!(jobs.queue("discord").unwrap().figures().await.unwrap().ready == 0);
    // A dot, or one at the end, is no child's.
    for id in ["order-7.item", "cat.v1.png", "a.", ".b"] {
        assert_eq!(jobs.add("discord", &()).id(id).await.unwrap().how, How::New, "{id}");
    }
}

async fn a_removed_flow_takes_its_children_with_it(world: World) {
    let jobs = join(&world).join().await.unwrap();
    let said = Said::default();
    let _parent = parent(&jobs, &said);
    let id = jobs.add("grant", &who()).await.unwrap().id;
    let state = async || jobs.get(&id).await.unwrap().map(|view| view.state());
    tenure_testing::eventually(MINUTE, "it waits", async || state().await == Some(State::Waiting)).await;
    jobs.remove(&id).await.unwrap();
    for guild in ["red", "blue"] {
        let child = format!("{id}..{guild}").parse().unwrap();
        tenure_testing::eventually(MINUTE, "the child is gone", async || {
            jobs.get(&child).await.unwrap().is_none()
        })
        .await;
    }
}

async fn a_job_that_was_removed_while_it_ran_writes_nothing(world: World) {
    let jobs = join(&world).join().await.unwrap();
    let (said, is_removed) = (Said::default(), Arc::new(Semaphore::new(0)));
    let (heard, goes_on) = (said.clone(), is_removed.clone());
    let worker = jobs.worker("access", move |ctx: Ctx, _: Who| {
        let (heard, goes_on) = (heard.clone(), goes_on.clone());
        async move {
            heard.say(format!("{} begun", ctx.id()));
            // It fails as soon as the other side closes it.
            let _ = goes_on.acquire().await;
            let kept = ctx.checkpoint(&Access { ok: true }).await.is_ok();
            heard.say(format!("{} kept {kept}", ctx.id()));
            Ok(Outcome::next(&Access { ok: true })?)
        }
    });
    let _worker = worker.start().unwrap();
    let id = jobs.start("join", &who()).await.unwrap().id;
    said.until(1).await;
    jobs.remove(&id).await.unwrap();
    is_removed.close();
    let other = jobs.start("join", &who()).await.unwrap().id;
    let member = async || jobs.get(&other).await.unwrap().is_some_and(|view| *view.queue() == "member");
    tenure_testing::eventually(MINUTE, "another job goes on", member).await;
    assert!(jobs.get(&id).await.unwrap().is_none());
    // Its handler was ended, or told that nothing is kept.
    let said = said.all();
    assert!(!said.contains(&format!("{id} kept true")), "{said:?}");
    assert!(said.contains(&format!("{other} kept true")), "{said:?}");
}

async fn a_flow_that_goes_nowhere_fails(world: World) {
    let jobs = world.node("n").queues(["a"]).join().await.unwrap();
    let _worker =
        jobs.worker("a", async |_: Ctx, (): ()| Ok(Outcome::go_on().to("nowhere"))).start().unwrap();
    let id = jobs.add("a", &()).await.unwrap().id;
    let ended = jobs.wait(&id).await.unwrap();
    assert_eq!(ended.state(), State::Failed);
    assert!(matches!(jobs.add("nowhere", &()).await, Err(Error::NoQueue(_))));
}

async fn a_node_that_does_not_know_a_flow_leaves_its_jobs(world: World) {
    let flow = Flow::new("f").then("a").then("b");
    let producer = world.node("new").queues(["a", "b"]).flow(flow).join().await.unwrap();
    let former = world.node("former").queues(["a", "b"]).join().await.unwrap();
    let (said, unknowing) = (Said::default(), Said::default());
    let unknowing_worker = passing(&former, "a", &unknowing, Outcome::go_on);
    let id = producer.start("f", &()).await.unwrap().id;
    tenure_testing::eventually(MINUTE, "it is left to others", async || {
        let view = producer.get(&id).await.unwrap().unwrap();
        let found = (view.state(), view.error());
        let expected = "its node does not know the flow f";
        if found == (State::Delayed, Some(expected.into())) { Ok(()) } else { Err(found) }
    })
    .await;
    unknowing_worker.close(MINUTE).await.unwrap();
    let _workers = ["a", "b"].map(|queue| passing(&producer, queue, &said, Outcome::go_on));
    let ended = tokio::time::timeout(MINUTE, producer.wait(&id)).await.unwrap().unwrap();
    assert!(ended.is_done());
    assert_eq!((said.all(), unknowing.count()), (vec!["a 0".to_owned(), "b 0".to_owned()], 0));
}

async fn a_parent_that_waits_for_no_child_goes_on(world: World) {
    let jobs = world.node("n").queue(Queue::new("q").keep(MINUTE)).join().await.unwrap();
    let worker = jobs.worker("q", async |ctx: Ctx, (): ()| {
        // It has no child to count, so this tells its first run from the later one.
        match ctx.children().await? {
            None => Ok(Outcome::wait()),
            Some(ends) => Ok(Outcome::result(&ends.len())?),
        }
    });
    let _worker = worker.start().unwrap();
    let id = jobs.add("q", &()).await.unwrap().id;
    assert_eq!(jobs.wait(&id).await.unwrap().result::<usize>().unwrap(), 0);
}

async fn a_job_has_so_many_look_ups_at_most(world: World) {
    let jobs = join(&world).join().await.unwrap();
    let of = |guilds: usize| Who { user: 1, guilds: (0..guilds).map(|i| i.to_string()).collect() };
    let id = jobs.start("join", &of(63)).await.unwrap().id;
    assert_eq!(jobs.find("guilds", 62).await.unwrap(), std::slice::from_ref(&id));
    jobs.remove(&id).await.unwrap();
    assert!(jobs.find("guilds", 62).await.unwrap().is_empty());
    assert!(matches!(jobs.start("join", &of(64)).await, Err(Error::Setting(_))));
    assert!(jobs.find("user", 1).await.unwrap().is_empty());
}
