//! Groups through the public interface.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use tenure_jobs::{Ctx, Error, Groups, Outcome, Queue};

use super::world::{MINUTE, Said, World};

stories! {
    a_big_tenant_does_not_hold_up_a_small_one,
    the_jobs_of_a_group_run_in_order,
    no_more_begin_in_a_window_than_its_limit,
    a_refusal_holds_up_its_group_only,
    a_paused_group_waits_and_others_go_on,
    a_limit_of_a_group_needs_a_window,
}

async fn a_big_tenant_does_not_hold_up_a_small_one(world: World) {
    let jobs = world.node("n").queue(Queue::new("q").groups(Groups::new())).join().await.unwrap();
    for n in 0..50 {
        jobs.add("q", &n).group("big").await.unwrap();
    }
    jobs.add("q", &100).group("small").await.unwrap();
    let said = Said::default();
    let worker = said.worker(&jobs, "q", async |heard: Said, ctx: Ctx, _: u32| {
        heard.say(ctx.group().unwrap_or_default());
        Ok(())
    });
    let _worker = worker.slots(1).start().unwrap();
    let order = said.until(51).await;
    let at = order.iter().position(|group| group == "small").unwrap();
    assert!(at <= 2, "{order:?}");
}

async fn a_limit_of_a_group_needs_a_window(world: World) {
    let jobs = world.node("n").queue(Queue::new("q").groups(Groups::new())).join().await.unwrap();
    let group = jobs.queue("q").unwrap().group("acme").unwrap();
    for window in [Duration::ZERO, Duration::from_micros(999)] {
        let refused = group.limit(1, window).await.unwrap_err();
        assert_eq!(refused.to_string(), "a limit needs a window of at least 1 ms, nothing was sent");
        assert!(matches!(refused, Error::Setting(_)));
    }
    group.limit(0, Duration::ZERO).await.unwrap();
    group.limit(1, Duration::from_millis(1)).await.unwrap();
}

async fn the_jobs_of_a_group_run_in_order(world: World) {
    let queue = Queue::new("q").groups(Groups::new().concurrency(1));
    let jobs = world.node("n").queue(queue).join().await.unwrap();
    let (said, running) = (Said::default(), Arc::new(AtomicUsize::new(0)));
    let (heard, now) = (said.clone(), running.clone());
    let worker = jobs.worker("q", move |_: Ctx, n: u32| {
        let (heard, now) = (heard.clone(), now.clone());
        async move {
            assert_eq!(now.fetch_add(1, Ordering::SeqCst), 0, "one at a time");
            tokio::task::yield_now().await;
            heard.say(n.to_string());
            now.fetch_sub(1, Ordering::SeqCst);
            Ok(())
        }
    });
    let _worker = worker.slots(8).start().unwrap();
    for n in 0..40 {
        jobs.add("q", &n).group("one").await.unwrap();
    }
    assert_eq!(said.until(40).await, (0..40).map(|n| n.to_string()).collect::<Vec<_>>());
}

async fn no_more_begin_in_a_window_than_its_limit(world: World) {
    let window = Duration::from_millis(500);
    let queue = Queue::new("q").groups(Groups::new().limit(3, window));
    let jobs = world.node("n").queue(queue).join().await.unwrap();
    let said = Said::default();
    let worker = said.worker(&jobs, "q", async |heard: Said, ctx: Ctx, _: u32| {
        heard.say(ctx.group().unwrap_or_default());
        Ok(())
    });
    let began = world.now();
    let _worker = worker.start().unwrap();
    for n in 0..20 {
        jobs.add("q", &n).group(format!("t{}", n % 2)).await.unwrap();
    }
    assert_eq!(said.until(20).await.len(), 20);
    // Ten jobs of a group need four windows, of which the first has begun before.
    let of = |time: SystemTime| time.duration_since(UNIX_EPOCH).unwrap().as_millis() / window.as_millis();
    assert!(of(world.now()) - of(began) >= 3);
}

async fn a_refusal_holds_up_its_group_only(world: World) {
    let queue = Queue::new("q").groups(Groups::new()).attempts(1).keep(MINUTE);
    let jobs = world.node("n").queue(queue).join().await.unwrap();
    let said = Said::default();
    let heard = said.clone();
    let worker = jobs.worker("q", move |ctx: Ctx, (): ()| {
        let heard = heard.clone();
        let until = world.now() + Duration::from_millis(400);
        async move {
            let group = ctx.group().unwrap_or_default().to_owned();
            let first = !heard.all().contains(&"refused".to_owned()) && group == "refused";
            heard.say(group);
            Ok(if first { Outcome::limited_until(until) } else { Outcome::done() })
        }
    });
    let _worker = worker.start().unwrap();
    let refused = jobs.add("q", &()).group("refused").await.unwrap().id;
    said.until(1).await;
    let other = jobs.add("q", &()).group("other").await.unwrap().id;
    assert!(jobs.wait(&other).await.unwrap().is_done());
    assert!(jobs.wait(&refused).await.unwrap().is_done());
    assert_eq!(said.all().iter().filter(|group| *group == "refused").count(), 2);
}

async fn a_paused_group_waits_and_others_go_on(world: World) {
    let queue = Queue::new("q").groups(Groups::new()).keep(MINUTE);
    let jobs = world.node("n").queue(queue).join().await.unwrap();
    let group = jobs.queue("q").unwrap().group("slow one").unwrap();
    group.pause().await.unwrap();
    let _worker = jobs.worker("q", async |_: Ctx, (): ()| Ok(())).start().unwrap();
    let paused = jobs.add("q", &()).group("slow one").await.unwrap().id;
    let other = jobs.add("q", &()).group("other").await.unwrap().id;
    assert!(jobs.wait(&other).await.unwrap().is_done());
    assert!(!jobs.get(&paused).await.unwrap().unwrap().state().is_over());
    group.resume().await.unwrap();
    assert!(jobs.wait(&paused).await.unwrap().is_done());
}
