//! Jobs are added, run, and waited for.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use tenure_jobs::{Ctx, Error, How, Jobs, Outcome, Queue, State, Token, Unique};
use tokio::sync::Semaphore;

use super::world::{MINUTE, Said, World};

stories! {
    a_job_runs_and_its_result_is_waited_for,
    many_jobs_run_once_each_in_so_many_slots,
    a_worker_that_waits_is_woken_by_a_job,
    a_delayed_job_runs_after_its_time,
    a_checkpoint_is_seen_by_watchers_and_the_next_attempt,
    data_of_any_type_survive_a_progress,
    a_progress_takes_no_unheard_checkpoint_back,
    a_job_is_unique_under_its_id,
    ids_rise_and_many_are_got_in_order,
    many_large_jobs_are_got_in_order,
    close_finishes_what_runs_and_gives_back_the_rest,
    a_dropped_worker_takes_no_more,
    tokens_rise_from_execution_to_execution,
    what_cannot_be_is_refused_before_it_is_sent,
    a_watcher_sees_each_transition,
    a_worker_without_its_runtime_gives_its_jobs_back,
}

#[derive(Debug, PartialEq, Serialize, Deserialize)]
struct Sum {
    a: u32,
    b: u32,
}

async fn a_job_runs_and_its_result_is_waited_for(world: World) {
    let jobs = world.node("n").queue(Queue::new("sums").keep(MINUTE)).join().await.unwrap();
    let worker = jobs.worker("sums", async |_: Ctx, sum: Sum| Ok(Outcome::result(&(sum.a + sum.b))?));
    let worker = worker.start().unwrap();
    let added = jobs.add("sums", &Sum { a: 2, b: 3 }).await.unwrap();
    assert_eq!(added.how, How::New);
    let ended = jobs.wait(&added.id).await.unwrap();
    assert!(ended.is_done());
    assert_eq!(ended.result::<u32>().unwrap(), 5);
    let view = jobs.get(&added.id).await.unwrap().unwrap();
    assert_eq!(
        (view.state(), view.attempts(), view.data::<Sum>().unwrap()),
        (State::Done, 1, Sum { a: 2, b: 3 })
    );
    assert_eq!(worker.close(MINUTE).await.unwrap().given_back, 0);
}

async fn many_jobs_run_once_each_in_so_many_slots(world: World) {
    let jobs = world.node("n").queue(Queue::new("q")).join().await.unwrap();
    let (said, running, most) =
        (Said::default(), Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let (heard, now, top) = (said.clone(), running.clone(), most.clone());
    let worker = jobs.worker("q", move |ctx: Ctx, _: u32| {
        let (heard, now, top) = (heard.clone(), now.clone(), top.clone());
        async move {
            top.fetch_max(now.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
            tokio::task::yield_now().await;
            heard.say(ctx.id().to_string());
            now.fetch_sub(1, Ordering::SeqCst);
            Ok(())
        }
    });
    let _worker = worker.slots(7).start().unwrap();
    let added = jobs.add_many("q", 0..500u32).await.unwrap();
    let mut ran = said.until(500).await;
    ran.sort();
    let mut ids: Vec<_> = added.iter().map(|added| added.id.to_string()).collect();
    assert!(ids.is_sorted(), "ids rise");
    ids.sort();
    assert_eq!(ran, ids);
    assert!(most.load(Ordering::SeqCst) <= 7);
    tenure_testing::eventually(MINUTE, "all have ended", async || {
        let figures = jobs.queue("q").unwrap().figures().await.unwrap();
        if (figures.ready, figures.running, figures.done) == (0, 0, 500) { Ok(()) } else { Err(figures) }
    })
    .await;
}

async fn a_worker_that_waits_is_woken_by_a_job(world: World) {
    let (here, there) = (
        world.node("here").queues(["q"]).join().await.unwrap(),
        world.node("there").queues(["q"]).join().await.unwrap(),
    );
    let said = Said::default();
    let worker = said.worker(&there, "q", async |heard: Said, _: Ctx, n: u32| {
        heard.say(n.to_string());
        Ok(())
    });
    let _worker = worker.start().unwrap();
    for n in 0..20 {
        here.add("q", &n).await.unwrap();
        said.until(n as usize + 1).await;
    }
    assert_eq!(said.all(), (0..20).map(|n| n.to_string()).collect::<Vec<_>>());
}

async fn a_delayed_job_runs_after_its_time(world: World) {
    let jobs = world.node("n").queues(["q"]).join().await.unwrap();
    let world = Arc::new(world);
    let store = world.clone();
    let worker = jobs.worker("q", move |ctx: Ctx, (): ()| {
        assert!(store.now() >= ctx.due_at().unwrap());
        async { Ok(()) }
    });
    let _worker = worker.start().unwrap();
    let id = jobs.add("q", &()).delay(Duration::from_millis(300)).keep(MINUTE).await.unwrap().id;
    assert_eq!(jobs.get(&id).await.unwrap().unwrap().state(), State::Delayed);
    assert!(jobs.wait(&id).await.unwrap().is_done());
    let id = jobs.add("q", &()).delay(MINUTE).keep(MINUTE).await.unwrap().id;
    jobs.run_at(&id, world.now()).await.unwrap();
    assert!(jobs.wait(&id).await.unwrap().is_done());
}

async fn a_checkpoint_is_seen_by_watchers_and_the_next_attempt(world: World) {
    let queue = Queue::new("q").backoff(tenure_jobs::Backoff::none()).keep(MINUTE);
    let jobs = world.node("n").queue(queue).join().await.unwrap();
    let gate = Arc::new(Semaphore::new(0));
    let opened = gate.clone();
    let worker = jobs.worker("q", move |ctx: Ctx, pages: u32| {
        let opened = opened.clone();
        async move {
            if ctx.attempt() == 1 {
                opened.acquire().await?.forget();
            }
            let mut done = ctx.checkpointed::<u32>()?.unwrap_or_default();
            while done < pages {
                if done == 2 && ctx.attempt() == 1 {
                    return Err("the printer jams".into());
                }
                done += 1;
                ctx.checkpoint(&done).await?;
            }
            let before = ctx.progressed::<String>()?;
            ctx.progress("all").await?;
            assert_eq!((before, ctx.progressed::<String>()?), (None, Some("all".to_owned())));
            Ok(Outcome::result(&(ctx.attempt(), done))?)
        }
    });
    let _worker = worker.start().unwrap();
    let id = jobs.add("q", &4u32).await.unwrap().id;
    let mut watch = jobs.watch(&id).await.unwrap();
    gate.add_permits(1);
    let (mut seen, mut told) = (Vec::new(), Vec::new());
    while !watch.state().unwrap().is_over() {
        let change = watch.next().await.unwrap();
        assert_eq!(change.data::<u32>().unwrap().unwrap_or(4), 4);
        seen.extend(change.checkpoint::<u32>().unwrap());
        told.extend(change.progress::<String>().unwrap());
    }
    assert_eq!((seen, told), (vec![1, 2, 3, 4], vec!["all".to_owned()]));
    assert_eq!(watch.ended().await.unwrap().result::<(u32, u32)>().unwrap(), (2, 4));
    let view = jobs.get(&id).await.unwrap().unwrap();
    assert_eq!(view.data::<u32>().unwrap(), 4);
    assert_eq!((view.checkpoint().unwrap(), view.progress().unwrap()), (Some(4u32), Some("all".to_owned())));
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
enum Task {
    Render { width: u32 },
    Send(String),
    Ping,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Strict {
    to: String,
}

/// Fails twice, each time after a progress and a checkpoint, and succeeds after a replay.
async fn fails_and_is_replayed<T>(jobs: &Jobs, payload: T)
where
    T: Clone + std::fmt::Debug + PartialEq + Serialize + DeserializeOwned + Send + Sync + 'static,
{
    let own = payload.clone();
    let worker = jobs.worker("q", move |ctx: Ctx, payload: T| {
        let own = own.clone();
        async move {
            assert_eq!((&payload, &ctx.data::<T>()?), (&own, &own));
            let runs = ctx.checkpointed::<u8>()?.unwrap_or_default() + 1;
            ctx.progress(&Strict { to: "the end".to_owned() }).await?;
            ctx.checkpoint(&runs).await?;
            if runs < 3 { Err("once more".into()) } else { Ok(Outcome::result(&runs)?) }
        }
    });
    let worker = worker.start().unwrap();
    let id = jobs.add("q", &payload).await.unwrap().id;
    let ended = jobs.wait(&id).await.unwrap();
    assert_eq!((ended.state(), ended.error().as_deref()), (State::Failed, Some("once more")), "{payload:?}");
    assert_eq!(jobs.get(&id).await.unwrap().unwrap().data::<T>().unwrap(), payload);
    jobs.replay(&id).await.unwrap();
    let ended = jobs.wait(&id).await.unwrap();
    assert!(ended.is_done(), "{payload:?}: {:?}", ended.error());
    assert_eq!(ended.result::<u8>().unwrap(), 3, "it goes on from its checkpoint");
    assert_eq!(jobs.get(&id).await.unwrap().unwrap().data::<T>().unwrap(), payload);
    worker.close(MINUTE).await.unwrap();
}

async fn data_of_any_type_survive_a_progress(world: World) {
    let queue = Queue::new("q").backoff(tenure_jobs::Backoff::none()).attempts(2).keep(MINUTE);
    let jobs = world.node("n").queue(queue).join().await.unwrap();
    fails_and_is_replayed(&jobs, "the only copy".to_owned()).await;
    fails_and_is_replayed(&jobs, (3u32, 4u32)).await;
    fails_and_is_replayed(&jobs, Task::Render { width: 3 }).await;
    fails_and_is_replayed(&jobs, Task::Send("a@b.c".to_owned())).await;
    fails_and_is_replayed(&jobs, Task::Ping).await;
    fails_and_is_replayed(&jobs, Strict { to: "a@b.c".to_owned() }).await;
    fails_and_is_replayed(&jobs, ()).await;
    fails_and_is_replayed(&jobs, vec![1u8, 2]).await;
}

async fn a_progress_takes_no_unheard_checkpoint_back(world: World) {
    let queue = Queue::new("q").backoff(tenure_jobs::Backoff::none()).attempts(2).keep(MINUTE);
    let jobs = world.node("n").queue(queue).join().await.unwrap();
    let worker = jobs.worker("q", async |ctx: Ctx, (): ()| {
        if let Some(page) = ctx.checkpointed::<u8>()? {
            return Ok(Outcome::result(&page)?);
        }
        // Nobody hears the answer.
        tokio::select! {
            biased;
            _ = ctx.checkpoint(&5u8) => {}
            () = std::future::ready(()) => {}
        }
        ctx.progress("half").await?;
        Err("once more".into())
    });
    let _worker = worker.start().unwrap();
    let id = jobs.add("q", &()).await.unwrap().id;
    assert_eq!(jobs.wait(&id).await.unwrap().result::<u8>().unwrap(), 5);
}

async fn a_job_is_unique_under_its_id(world: World) {
    let jobs = world.node("n").queues(["q"]).join().await.unwrap();
    let add = async |n: u32, unique| {
        jobs.add("q", &n).id("a key|with anything").unique(unique).delay(MINUTE).await.unwrap()
    };
    let first = add(1, Unique::Keep).await;
    assert_eq!((first.how, add(2, Unique::Keep).await.how), (How::New, How::Exists));
    let view = jobs.get(&first.id).await.unwrap().unwrap();
    assert_eq!(view.data::<u32>().unwrap(), 1);
    for (n, unique) in (3..).zip([Unique::Replace, Unique::Again].repeat(5)) {
        assert_eq!(add(n, unique).await.how, How::Changed);
        assert_eq!(jobs.get(&first.id).await.unwrap().unwrap().data::<u32>().unwrap(), n);
    }
    jobs.remove(&first.id).await.unwrap();
    assert!(matches!(jobs.remove(&first.id).await, Err(Error::NotFound(_))));
    assert_eq!(add(4, Unique::Keep).await.how, How::New);
}

async fn ids_rise_and_many_are_got_in_order(world: World) {
    let jobs = world.node("n").queues(["q"]).join().await.unwrap();
    let mut ids = Vec::new();
    for n in 0..30 {
        ids.push(jobs.add("q", &n).lookup("user", n % 3).await.unwrap().id);
    }
    assert!(ids.is_sorted());
    assert_eq!(
        jobs.find("user", 1).await.unwrap(),
        ids.iter().skip(1).step_by(3).cloned().collect::<Vec<_>>()
    );
    ids.reverse();
    ids.insert(3, "missing".parse().unwrap());
    let views = jobs.get_many(&ids).await.unwrap();
    assert_eq!(views.len(), ids.len());
    for (id, view) in ids.iter().zip(views) {
        assert_eq!(view.map(|view| view.id().clone()), Some(id.clone()).filter(|id| *id != "missing"));
    }
}

async fn many_large_jobs_are_got_in_order(world: World) {
    let jobs = world.node("n").queues(["q"]).join().await.unwrap();
    let large = "x".repeat(300_000);
    let added = jobs.add_many("q", (0..20).map(|n| (n, large.as_str()))).await.unwrap();
    let ids: Vec<_> = added.into_iter().map(|added| added.id).rev().collect();
    let views = jobs.get_many(&ids).await.unwrap();
    let data = views.iter().map(|view| view.as_ref().unwrap().data::<(usize, String)>().unwrap());
    let expected = (0..20).rev().map(|n| (n, large.clone()));
    assert!(data.eq(expected), "several answers have them");
}

async fn close_finishes_what_runs_and_gives_back_the_rest(world: World) {
    let jobs = world.node("n").queues(["quick", "stuck"]).join().await.unwrap();
    let said = Said::default();
    let heard = said.clone();
    let gate = Arc::new(Semaphore::new(0));
    let opened = gate.clone();
    let quick = jobs.worker("quick", move |_: Ctx, (): ()| {
        let (heard, opened) = (heard.clone(), opened.clone());
        async move {
            heard.say("begun");
            opened.acquire().await?.forget();
            heard.say("ended");
            Ok(())
        }
    });
    let quick = quick.slots(1).start().unwrap();
    jobs.add("quick", &()).await.unwrap();
    jobs.add("quick", &()).await.unwrap();
    said.until(1).await;
    // The slot is freed right after the close has begun: the job that waits for it must not begin.
    let (closed, ()) = tokio::join!(biased; quick.close(MINUTE), async { gate.add_permits(2) });
    assert_eq!(closed.unwrap().given_back, 0);
    assert_eq!(said.all(), ["begun", "ended"]);
    let figures = jobs.queue("quick").unwrap().figures().await.unwrap();
    assert_eq!((figures.done, figures.ready, figures.running), (1, 1, 0));

    let begun = said.clone();
    let stuck = jobs.worker("stuck", move |_: Ctx, (): ()| {
        let begun = begun.clone();
        async move {
            begun.say("stuck");
            std::future::pending::<()>().await;
            Ok(())
        }
    });
    let stuck = stuck.start().unwrap();
    let id = jobs.add("stuck", &()).await.unwrap().id;
    // The store knows that it runs before the worker does.
    said.until(3).await;
    assert_eq!(stuck.close(Duration::from_millis(50)).await.unwrap().given_back, 1);
    let view = jobs.get(&id).await.unwrap().unwrap();
    assert_eq!((view.state(), view.attempts()), (State::Ready, 0), "another worker may take it at once");
}

async fn a_dropped_worker_takes_no_more(world: World) {
    let jobs = world.node("n").queues(["q"]).join().await.unwrap();
    let worker = jobs.worker("q", async |_: Ctx, (): ()| Ok(())).start().unwrap();
    let first = jobs.add("q", &()).keep(MINUTE).await.unwrap().id;
    assert!(jobs.wait(&first).await.unwrap().is_done());
    worker.close(MINUTE).await.unwrap();
    drop(worker);
    let second = jobs.add("q", &()).await.unwrap().id;
    let next =
        jobs.worker("q", async |ctx: Ctx, (): ()| Ok(Outcome::result(&ctx.token().0)?)).start().unwrap();
    assert!(
        jobs.wait(&second).await.is_ok_and(|ended| ended.is_done())
            || jobs.get(&second).await.unwrap().is_none()
    );
    drop(next);
}

async fn tokens_rise_from_execution_to_execution(world: World) {
    let queue = Queue::new("q").backoff(tenure_jobs::Backoff::none()).keep(MINUTE);
    let jobs = world.node("n").queue(queue).join().await.unwrap();
    let said = Said::default();
    let worker = said.worker(&jobs, "q", async |heard: Said, ctx: Ctx, (): ()| {
        heard.say(format!("{:020}", ctx.token().0));
        if ctx.attempt() < 5 { Err("once more".into()) } else { Ok(()) }
    });
    let _worker = worker.start().unwrap();
    let id = jobs.add("q", &()).await.unwrap().id;
    assert!(jobs.wait(&id).await.unwrap().is_done());
    let tokens = said.all();
    assert!(tokens.len() == 5 && tokens.is_sorted_by(|a, b| a < b), "{tokens:?}");
}

async fn what_cannot_be_is_refused_before_it_is_sent(world: World) {
    let jobs = world.node("n").queue(Queue::new("q").capacity(1)).join().await.unwrap();
    assert!(matches!(jobs.add("q q", &()).await, Err(Error::Name(_))));
    assert!(matches!(jobs.add("no", &()).await, Err(Error::NoQueue(_))));
    assert!(matches!(jobs.add("q", &()).priority(10).await, Err(Error::Setting(_))));
    assert!(matches!(jobs.add("q", &()).id("").await, Err(Error::Name(_))));
    assert!(matches!(jobs.add("q", &vec![0u64; 1 << 20]).await, Err(Error::TooLarge { .. })));
    let deep = (0..600).fold(serde_json::Value::Null, |inner, _| serde_json::json!([inner]));
    assert!(matches!(jobs.add("q", &deep).await, Err(Error::Encode(_))));
    assert!(matches!(jobs.start("no", &()).await, Err(Error::Setting(_))));
    assert!(matches!(jobs.wait(&"no".parse().unwrap()).await, Err(Error::NotFound(_))));
    jobs.add("q", &()).await.unwrap();
    assert!(matches!(jobs.add("q", &()).await, Err(Error::Full(_))));
    let groups = world.node("m").queue(Queue::new("q").groups(tenure_jobs::Groups::new())).join().await;
    assert!(matches!(groups, Err(Error::Groups(_))));
    jobs.close();
    assert!(matches!(jobs.get(&"no".parse().unwrap()).await, Err(Error::Closed)));
}

async fn a_watcher_sees_each_transition(world: World) {
    let jobs = world.node("n").queues(["q"]).join().await.unwrap();
    let watcher = world.node("w").join().await.unwrap();
    let id = jobs.add("q", &()).keep(MINUTE).await.unwrap().id;
    let (mut first, mut second) = (watcher.watch(&id).await.unwrap(), watcher.watch(&id).await.unwrap());
    assert_eq!(first.state(), Some(State::Ready));
    let _worker = jobs.worker("q", async |_: Ctx, (): ()| Ok(())).start().unwrap();
    for watch in [&mut first, &mut second] {
        assert!(tokio::time::timeout(MINUTE, watch.until(State::Running)).await.unwrap().unwrap());
        assert!(watch.until(State::Done).await.unwrap());
        assert!(watch.ended().await.unwrap().is_done());
    }
    jobs.remove(&id).await.unwrap();
    assert!(matches!(watcher.wait(&id).await, Err(Error::NotFound(_))));
}

async fn a_worker_without_its_runtime_gives_its_jobs_back(world: World) {
    let jobs = world.node("n").queues(["q"]).join().await.unwrap();
    let home = tokio::runtime::Builder::new_multi_thread().worker_threads(1).build().unwrap();
    let said = Said::default();
    let heard = said.clone();
    let worker = jobs.worker("q", move |ctx: Ctx, (): ()| {
        heard.say(ctx.id().to_string());
        std::future::pending::<Result<(), _>>()
    });
    let worker = {
        let _home = home.enter();
        worker.slots(2).start().unwrap()
    };
    let running = jobs.add_many("q", [(), ()]).await.unwrap();
    said.until(2).await;
    let token = async |id| jobs.get(id).await.unwrap().unwrap().token();
    let tokens = async || [token(&running[0].id).await, token(&running[1].id).await];
    let taken = tokens().await;
    home.shutdown_background();
    let given_back = async || {
        assert_eq!(tokens().await, taken, "it takes no more");
        let figures = jobs.queue("q").unwrap().figures().await.unwrap();
        let found = (figures.ready, figures.running);
        if found == (2, 0) { Ok(()) } else { Err(found) }
    };
    tenure_testing::eventually(MINUTE, "the jobs are ready again", given_back).await;
    let view = jobs.get(&running[0].id).await.unwrap().unwrap();
    assert_eq!((view.state(), view.attempts()), (State::Ready, 0));
    // No job has another token, and all are another worker's.
    let third = jobs.add("q", &()).await.unwrap().id;
    assert_eq!(worker.close(MINUTE).await.unwrap().given_back, 0);
    assert_eq!(tokens().await, taken);
    assert_eq!(token(&third).await, Token(0));
    let next = jobs.worker("q", async |_: Ctx, (): ()| Ok(())).start().unwrap();
    for id in running.iter().map(|added| &added.id).chain([&third]) {
        let ended = async || match jobs.get(id).await.unwrap() {
            None => Ok(()),
            Some(view) => Err(view.state()),
        };
        tenure_testing::eventually(MINUTE, "it is done", ended).await;
    }
    assert_eq!(said.count(), 2);
    drop(next);
}
