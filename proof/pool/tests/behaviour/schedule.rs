//! Schedules: one node plans at a time, jobs follow the plan, and no other jobs are touched.

use std::collections::BTreeSet;
use std::future::pending;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::task::Poll;
use std::time::Duration;

use tenure_pool::schedule::Schedule;
use tenure_pool::{BoxError, Client, Error, JobSpec, Node, Plan, Planner, Tick};
use tenure_testing::{Data, Proxy};
use tokio::sync::Semaphore;

use crate::recorder::{Act, SlowEnd};
use crate::world::{POOL, SHORT, World, on_both_stores, until};

on_both_stores!(
    one_of_all_nodes_plans_at_a_time,
    jobs_follow_what_is_wanted,
    a_plan_touches_no_job_but_its_own,
    changes_start_and_stop_what_they_name,
    a_plan_that_fails_is_followed_by_the_next,
    a_job_that_cannot_be_started_starves_no_other,
    a_full_pool_starves_no_other_job_of_the_plan,
    a_job_that_does_not_end_delays_no_plan,
    a_job_that_ended_is_dispatched_again,
    a_plan_replaces_the_changed_payloads_of_its_own_jobs,
    thousands_of_jobs_are_planned_and_stopped,
    a_dead_nodes_turn_is_taken_over,
    a_turn_that_is_left_is_taken_at_once,
    another_period_counts_on_all_nodes,
    an_ended_schedule_ends_on_all_nodes_until_it_is_made_anew,
    a_planner_ends_its_own_schedule,
    planning_goes_on_after_an_outage,
    a_wiped_pool_is_planned_again,
    a_schedule_ends_with_its_pool,
    names_and_periods_are_checked,
    a_call_that_is_dropped_takes_no_part,
    a_client_only_node_plans,
    a_pool_is_shut_down_while_a_planner_runs,
);

const OFTEN: Duration = Duration::from_millis(20);
const SELDOM: Duration = Duration::from_secs(3_600);

type Say = Arc<dyn Fn(Tick) -> Result<Plan, BoxError> + Send + Sync>;

/// The calls to planners of several nodes, and their next answers.
#[derive(Clone)]
struct Desk {
    asked: Arc<Mutex<Vec<(String, Tick)>>>,
    at_work: Arc<AtomicUsize>,
    crowded: Arc<AtomicUsize>,
    wanted: Arc<Mutex<BTreeSet<String>>>,
}

/// The planner of one node.
struct Clerk {
    node: String,
    desk: Desk,
    say: Say,
}

impl Desk {
    fn new() -> Self {
        Self {
            asked: Arc::default(),
            at_work: Arc::default(),
            crowded: Arc::default(),
            wanted: Arc::default(),
        }
    }

    fn want(&self, keys: &[&str]) {
        *self.wanted.lock().unwrap() = keys.iter().map(ToString::to_string).collect();
    }

    /// A planner that wants exactly the jobs in `wanted`.
    fn clerk(&self, node: &Node) -> Clerk {
        let wanted = self.wanted.clone();
        self.saying(node, move |_| {
            let wanted = wanted.lock().unwrap();
            Ok(Plan::exactly(wanted.iter().map(|key| JobSpec::new(key, format!("payload of {key}")))))
        })
    }

    fn saying(
        &self,
        node: &Node,
        say: impl Fn(Tick) -> Result<Plan, BoxError> + Send + Sync + 'static,
    ) -> Clerk {
        Clerk { node: node.name().to_owned(), desk: self.clone(), say: Arc::new(say) }
    }

    async fn schedule(&self, node: &Node, every: Duration) -> Schedule {
        node.schedule("plan", self.clerk(node), every).await.unwrap()
    }

    fn asked(&self) -> Vec<(String, Tick)> {
        self.asked.lock().unwrap().clone()
    }

    fn last(&self) -> Option<(String, Tick)> {
        self.asked().pop()
    }

    /// Waits for this many ticks in all.
    async fn in_all(&self, ticks: usize) {
        until("ticks", async || self.asked().len() >= ticks).await;
    }

    /// Waits for this many more ticks.
    async fn ticks(&self, more: usize) {
        self.in_all(self.asked().len() + more).await;
    }
}

impl Planner for Clerk {
    async fn plan(&self, tick: Tick) -> Result<Plan, BoxError> {
        if self.desk.at_work.fetch_add(1, Ordering::SeqCst) > 0 {
            self.desk.crowded.fetch_add(1, Ordering::SeqCst);
        }
        tokio::task::yield_now().await;
        self.desk.asked.lock().unwrap().push((self.node.clone(), tick));
        let said = (self.say)(tick);
        self.desk.at_work.fetch_sub(1, Ordering::SeqCst);
        said
    }
}

async fn running(world: &World, keys: &[&str]) {
    let keys: BTreeSet<_> = keys.iter().map(ToString::to_string).collect();
    until("exactly the wanted jobs to run", async || {
        let running = world.recorder.running();
        if running == keys { Ok(()) } else { Err(format!("{running:?} instead of {keys:?}")) }
    })
    .await;
}

async fn one_of_all_nodes_plans_at_a_time(world: World) {
    let desk = Desk::new();
    let nodes = [world.node_with("a", 1).await, world.node("b").await, world.node("c").await];
    for node in &nodes {
        desk.schedule(node, OFTEN).await;
    }
    desk.ticks(20).await;
    let asked = desk.asked();
    let numbers: Vec<_> = asked.iter().map(|(_, tick)| tick.number).collect();
    assert_eq!(numbers, (1..=asked.len() as u64).collect::<Vec<_>>());
    assert_eq!(asked.iter().map(|(node, _)| node).collect::<BTreeSet<_>>().len(), 1, "{asked:?}");
    assert_eq!(asked.iter().map(|(_, tick)| tick.term).collect::<BTreeSet<_>>().len(), 1);
    assert_eq!(desk.crowded.load(Ordering::SeqCst), 0);
}

async fn jobs_follow_what_is_wanted(world: World) {
    let desk = Desk::new();
    let (a, b) = (world.node_with("a", 1).await, world.node_with("b", 1).await);
    desk.want(&["one", "two"]);
    desk.schedule(&a, OFTEN).await;
    desk.schedule(&b, OFTEN).await;
    running(&world, &["one", "two"]).await;
    desk.want(&["two", "three"]);
    running(&world, &["two", "three"]).await;
    desk.want(&[]);
    running(&world, &[]).await;
    desk.want(&["one"]);
    running(&world, &["one"]).await;
    desk.ticks(3).await;
    assert_eq!((world.recorder.starts_of("one"), world.recorder.starts_of("two")), (2, 1));
    assert_eq!(world.recorder.payloads("two"), ["payload of two"]);
    assert_eq!(a.inspect().job("one").await.unwrap().unwrap().plan.as_deref(), Some("plan"));
}

async fn a_plan_touches_no_job_but_its_own(world: World) {
    let (mine, theirs) = (Desk::new(), Desk::new());
    let node = world.node_with("a", 1).await;
    for key in ["by hand", "wanted by all"] {
        node.dispatch((key, "")).await.unwrap();
    }
    theirs.want(&["theirs", "both"]);
    node.schedule("theirs", theirs.clerk(&node), OFTEN).await.unwrap();
    running(&world, &["by hand", "wanted by all", "theirs", "both"]).await;
    mine.want(&["mine", "both", "wanted by all"]);
    node.schedule("mine", mine.clerk(&node), OFTEN).await.unwrap();
    running(&world, &["by hand", "wanted by all", "theirs", "both", "mine"]).await;
    mine.want(&[]);
    running(&world, &["by hand", "wanted by all", "theirs", "both"]).await;
    mine.ticks(3).await;
    theirs.want(&["theirs"]);
    running(&world, &["by hand", "wanted by all", "theirs"]).await;
    assert!(world.recorder.starts().values().all(|starts| *starts == 1), "{:?}", world.recorder.starts());
}

async fn changes_start_and_stop_what_they_name(world: World) {
    let desk = Desk::new();
    let node = world.node_with("a", 1).await;
    node.dispatch(("by hand", "")).await.unwrap();
    let clerk = desk.saying(&node, |tick| {
        Ok(match tick.number {
            1 => Plan::new().start(JobSpec::new("one", "")).start(JobSpec::new("two", "")),
            2 => Plan::new().start(JobSpec::new("three", "")),
            3 => Plan::new()
                .stop("one")
                .stop("by hand")
                .stop("nothing")
                .stop("three")
                .start(JobSpec::new("three", "")),
            4 => Plan::new(),
            _ => Plan::new().start(JobSpec::new("four", "")).stop_others(),
        })
    });
    node.schedule("plan", clerk, OFTEN).await.unwrap();
    running(&world, &["by hand", "four"]).await;
    let starts = world.recorder.starts();
    assert_eq!((starts["one"], starts["two"], starts["three"]), (1, 1, 1));
}

async fn a_plan_that_fails_is_followed_by_the_next(world: World) {
    let desk = Desk::new();
    let node = world.builder("a").plan_timeout(Duration::from_millis(200)).join().await.unwrap();
    world.add_worker(&node).await;
    let asked = Arc::new(AtomicUsize::new(0));
    let planner = {
        let asked = asked.clone();
        move |tick: Tick| {
            asked.fetch_add(1, Ordering::SeqCst);
            async move {
                match tick.number {
                    1 => Err("as it was told".into()),
                    2 => panic!("as it was told"),
                    3 => pending().await,
                    _ => Ok(Plan::exactly([JobSpec::new("one", "")])),
                }
            }
        }
    };
    node.schedule("plan", planner, OFTEN).await.unwrap();
    // Another schedule of the same node goes on meanwhile.
    desk.want(&["other"]);
    node.schedule("other", desk.clerk(&node), OFTEN).await.unwrap();
    running(&world, &["one", "other"]).await;
    assert!(asked.load(Ordering::SeqCst) >= 4);
    node.dispatch(("by hand", "")).await.unwrap();
}

async fn a_job_that_cannot_be_started_starves_no_other(world: World) {
    let desk = Desk::new();
    let settings = tenure_pool::Settings {
        payload_max: 1_024,
        worker_ttl: world.ttl(),
        join_settle: SHORT,
        ..tenure_pool::Settings::default()
    };
    let node = world.builder("a").settings(settings).join().await.unwrap();
    world.add_worker(&node).await;
    let clerk = desk.saying(&node, |tick| {
        let grown = JobSpec::new("grown", vec![b'x'; if tick.number == 1 { 1 } else { 2_000 }]);
        let jobs =
            [JobSpec::new("", ""), JobSpec::new("long", vec![b'x'; 2_000]), grown, JobSpec::new("good", "")];
        Ok(Plan::exactly(jobs))
    });
    node.schedule("plan", clerk, OFTEN).await.unwrap();
    running(&world, &["good", "grown"]).await;
    desk.ticks(3).await;
    running(&world, &["good", "grown"]).await;
    assert_eq!(world.recorder.starts_of("grown"), 1);
}

async fn a_full_pool_starves_no_other_job_of_the_plan(world: World) {
    let desk = Desk::new();
    let node = world.builder("a").max_queued(3).join().await.unwrap();
    desk.want(&["1", "2", "3", "4", "5"]);
    let schedule = desk.schedule(&node, OFTEN).await;
    until("the pool to be full", async || node.inspect().jobs().await.unwrap().len() == 3).await;
    desk.ticks(3).await;
    assert_eq!(node.inspect().jobs().await.unwrap().len(), 3);
    world.add_worker(&node).await;
    running(&world, &["1", "2", "3", "4", "5"]).await;
    schedule.end().await.unwrap();
}

async fn a_job_that_does_not_end_delays_no_plan(world: World) {
    let desk = Desk::new();
    let node = world.builder("a").plan_timeout(SELDOM).join().await.unwrap();
    let (slow, starts) = (Arc::new(SlowEnd::default()), Arc::new(AtomicUsize::new(0)));
    let ends = slow.clone();
    let handler = world.recorder.acting(move |job| {
        let first = job.key().as_bytes() == b"stuck" && starts.fetch_add(1, Ordering::SeqCst) == 0;
        if first { Act::EndWhenTold(ends.clone()) } else { Act::Run }
    });
    node.add_worker(handler).await.unwrap();
    desk.want(&["stuck"]);
    node.schedule("plan", desk.clerk(&node), OFTEN).await.unwrap();
    running(&world, &["stuck"]).await;
    node.stop_job("stuck").await.unwrap();
    slow.asked.notified().await;
    desk.want(&["stuck", "new"]);
    running(&world, &["stuck", "new"]).await;
    assert_eq!(world.recorder.starts_of("stuck"), 1, "it has not ended");
    slow.told.notify_one();
    until("it to be started again", async || world.recorder.starts_of("stuck") == 2).await;
}

async fn a_job_that_ended_is_dispatched_again(world: World) {
    let desk = Desk::new();
    let node = world.node("a").await;
    node.add_worker(world.recorder.acting(|_| crate::recorder::Act::End)).await.unwrap();
    desk.want(&["short"]);
    desk.schedule(&node, OFTEN).await;
    until("the job to come again", async || world.recorder.starts_of("short") > 3).await;
}

async fn a_plan_replaces_the_changed_payloads_of_its_own_jobs(world: World) {
    let (a, b) = (world.node_with("a", 1).await, world.node_with("b", 1).await);
    let desk = Desk::new();
    let rate = Arc::new(Mutex::new("rate=1"));
    let says = rate.clone();
    let clerk = desk.saying(&a, move |_| {
        let jobs = [("acme", *says.lock().unwrap()), ("zenith", "as ever"), ("hand", "of the plan")];
        Ok(Plan::exactly(jobs.map(JobSpec::from)).replace_changed())
    });
    b.dispatch(("hand", "of a caller")).await.unwrap();
    a.schedule("plan", clerk, OFTEN).await.unwrap();
    running(&world, &["acme", "hand", "zenith"]).await;
    desk.ticks(3).await;
    *rate.lock().unwrap() = "rate=2";
    let payloads = |key: &str| world.recorder.payloads(key);
    until("the change", async || payloads("acme") == ["rate=1", "rate=2"]).await;
    b.update(("acme", "rate=9")).await.unwrap();
    until("what the plan wants", async || {
        payloads("acme").last().is_some_and(|payload| payload == "rate=2") && payloads("acme").len() > 2
    })
    .await;
    desk.ticks(3).await;
    assert_eq!((payloads("zenith").len(), payloads("hand").len()), (1, 1), "they are as they were");
    assert_eq!(payloads("hand"), ["of a caller"]);
    running(&world, &["acme", "hand", "zenith"]).await;
}

async fn thousands_of_jobs_are_planned_and_stopped(world: World) {
    let desk = Desk::new();
    let node = world.node_with("a", 1).await;
    let keys: Vec<_> = (0..1_500).map(|i| format!("job-{i}")).collect();
    *desk.wanted.lock().unwrap() = keys.iter().cloned().collect();
    desk.schedule(&node, OFTEN).await;
    until("all to run", async || world.recorder.running().len() == keys.len()).await;
    *desk.wanted.lock().unwrap() = keys.iter().take(700).cloned().collect();
    until("the others to stop", async || world.recorder.running().len() == 700).await;
    desk.ticks(2).await;
    assert!(world.recorder.starts().values().all(|starts| *starts == 1));
}

async fn a_dead_nodes_turn_is_taken_over(world: World) {
    let world = world.with_ttl(Duration::from_secs(1));
    let desk = Desk::new();
    let (a, b) = (world.node("a").await, world.node_with("b", 1).await);
    desk.want(&["one"]);
    desk.schedule(&a, OFTEN).await;
    desk.ticks(1).await;
    desk.schedule(&b, OFTEN).await;
    desk.ticks(5).await;
    let before = desk.asked();
    assert!(before.iter().all(|(node, _)| node == "a"), "{before:?}");
    a.abandon();
    desk.want(&["one", "two"]);
    running(&world, &["one", "two"]).await;
    let (node, tick) = desk.last().unwrap();
    assert_eq!(node, "b");
    assert!(tick.term > before[0].1.term);
    let numbers: Vec<_> = desk.asked().iter().map(|(_, tick)| tick.number).collect();
    assert!(numbers.is_sorted_by(|a, b| a < b), "{numbers:?}");
}

async fn a_turn_that_is_left_is_taken_at_once(world: World) {
    // With the default time to live, for which the test does not wait.
    let desk = Desk::new();
    let (a, b) = (world.node("a").await, world.node_with("b", 1).await);
    let on_a = desk.schedule(&a, OFTEN).await;
    desk.ticks(1).await;
    let on_b = desk.schedule(&b, OFTEN).await;
    on_a.close().await.unwrap();
    on_a.ended().await;
    until("the other to plan", async || desk.last().is_some_and(|(node, _)| node == "b")).await;
    let again = desk.schedule(&a, OFTEN).await;
    on_b.close().await.unwrap();
    until("the first to plan again", async || desk.last().is_some_and(|(node, _)| node == "a")).await;
    desk.schedule(&b, OFTEN).await;
    assert!(a.close().await.unwrap().complete);
    again.ended().await;
    until("the other to plan again", async || desk.last().is_some_and(|(node, _)| node == "b")).await;
    assert!(matches!(again.set_period(OFTEN).await, Err(Error::NodeClosed)));
}

async fn another_period_counts_on_all_nodes(world: World) {
    let desk = Desk::new();
    let (a, b) = (world.node_with("a", 1).await, world.node("b").await);
    desk.schedule(&a, SELDOM).await;
    desk.in_all(1).await;
    let on_b = desk.schedule(&b, SELDOM).await;
    assert_eq!(desk.asked().len(), 1);
    on_b.set_period(OFTEN).await.unwrap();
    desk.ticks(5).await;
    assert!(desk.asked().iter().all(|(node, _)| node == "a"));
    // The last node that schedules sets the period.
    let on_b = desk.schedule(&b, SELDOM).await;
    until("the ticks to become seldom", async || {
        let before = desk.asked().len();
        let pause = tokio::time::timeout(Duration::from_secs(1), desk.ticks(1)).await;
        pause.is_err() && desk.asked().len() == before
    })
    .await;
    on_b.end().await.unwrap();
}

async fn an_ended_schedule_ends_on_all_nodes_until_it_is_made_anew(world: World) {
    let world = world.with_ttl(Duration::from_secs(2));
    let desk = Desk::new();
    let (a, b) = (world.node_with("a", 1).await, world.node("b").await);
    desk.want(&["one"]);
    let on_a = desk.schedule(&a, OFTEN).await;
    let on_b = desk.schedule(&b, OFTEN).await;
    running(&world, &["one"]).await;
    on_b.end().await.unwrap();
    on_a.ended().await;
    on_b.ended().await;
    on_b.end().await.unwrap();
    assert!(matches!(on_a.set_period(OFTEN).await, Err(Error::ScheduleEnded)));
    let before = desk.asked().len();
    desk.want(&["two"]);
    assert_eq!(world.recorder.running(), ["one".to_owned()].into());
    assert_eq!(desk.asked().len(), before);
    desk.schedule(&b, OFTEN).await;
    running(&world, &["two"]).await;
    assert_eq!(desk.asked()[before].1.number, 1);
    assert!(desk.asked()[before].1.term > desk.asked()[0].1.term);
}

async fn a_planner_ends_its_own_schedule(world: World) {
    let world = world.with_ttl(Duration::from_secs(2));
    let desk = Desk::new();
    let (a, b) = (world.node_with("a", 1).await, world.node("b").await);
    let mut schedules = Vec::new();
    for node in [&a, &b] {
        let clerk = desk.saying(node, |tick| {
            Ok(match tick.number {
                1 => Plan::exactly([JobSpec::new("one", "")]),
                2 | 3 => Plan::new(),
                _ => Plan::exactly([JobSpec::new("last", "")]).end(),
            })
        });
        schedules.push(node.schedule("plan", clerk, OFTEN).await.unwrap());
    }
    for schedule in &schedules {
        schedule.ended().await;
    }
    running(&world, &["last"]).await;
    assert_eq!(desk.asked().len(), 4);
}

async fn planning_goes_on_after_an_outage(world: World) {
    let world = world.with_ttl(Duration::from_secs(1));
    let desk = Desk::new();
    let (a, b) = (world.node_with("a", 1).await, world.node_with("b", 1).await);
    desk.want(&["one"]);
    desk.schedule(&a, OFTEN).await;
    desk.schedule(&b, OFTEN).await;
    running(&world, &["one"]).await;
    world.cut_off();
    until("the handler to end", async || world.recorder.running().is_empty()).await;
    desk.want(&["one", "two"]);
    world.reconnect();
    running(&world, &["one", "two"]).await;
    let numbers: Vec<_> = desk.asked().iter().map(|(_, tick)| tick.number).collect();
    assert!(numbers.is_sorted_by(|a, b| a < b), "{numbers:?}");
    world.assert_clean();
}

async fn a_wiped_pool_is_planned_again(world: World) {
    let world = world.with_ttl(Duration::from_secs(1));
    let desk = Desk::new();
    let (a, b) = (world.node_with("a", 1).await, world.node_with("b", 1).await);
    desk.want(&["one", "two"]);
    desk.schedule(&a, SELDOM).await;
    desk.schedule(&b, SELDOM).await;
    running(&world, &["one", "two"]).await;
    let before = desk.last().unwrap().1;
    world.wipe();
    until("another plan", async || desk.last().unwrap().1.term > before.term).await;
    running(&world, &["one", "two"]).await;
    until("both to be there again", async || a.inspect().jobs().await.is_ok_and(|jobs| jobs.len() == 2))
        .await;
}

async fn a_schedule_ends_with_its_pool(world: World) {
    let desk = Desk::new();
    let (a, b) = (world.node_with("a", 1).await, world.node("b").await);
    desk.want(&["one"]);
    let schedules = [desk.schedule(&a, OFTEN).await, desk.schedule(&b, OFTEN).await];
    running(&world, &["one"]).await;
    assert!(a.operate().shutdown().await.unwrap().complete);
    for schedule in &schedules {
        schedule.ended().await;
    }
    b.closed().await;
    let left: Vec<_> = world.data().await.into_iter().filter(|line| !line.starts_with("node:")).collect();
    assert_eq!(left.len(), 1, "{left:?}");
}

async fn a_client_only_node_plans(world: World) {
    let desk = Desk::new();
    let _a = world.node_with("a", 1).await;
    let client = world.builder("client").client_only().join().await.unwrap();
    desk.want(&["one", "two"]);
    let schedule = desk.schedule(&client, OFTEN).await;
    running(&world, &["one", "two"]).await;
    desk.want(&["two"]);
    running(&world, &["two"]).await;
    assert!(desk.asked().iter().all(|(node, _)| node == "client"));
    schedule.close().await.unwrap();
    schedule.ended().await;
}

async fn a_pool_is_shut_down_while_a_planner_runs(world: World) {
    let node = world.node_with("a", 1).await;
    let asked = Arc::new(Semaphore::new(0));
    let asks = asked.clone();
    let planner = move |_: Tick| {
        asks.add_permits(1);
        pending::<Result<Plan, BoxError>>()
    };
    let schedule = node.schedule("plan", planner, SELDOM).await.unwrap();
    asked.acquire().await.unwrap().forget();
    assert!(node.operate().shutdown().await.unwrap().complete);
    schedule.ended().await;
}

async fn a_call_that_is_dropped_takes_no_part(world: World) {
    let desk = Desk::new();
    let (a, b) = (world.node("a").await, world.node("b").await);
    for _ in 0..20 {
        // The same period, because a dropped call may still set it after the other node's call.
        let mut call = Box::pin(a.schedule("plan", desk.clerk(&a), OFTEN));
        if let Poll::Ready(schedule) = futures::poll!(&mut call) {
            schedule.unwrap().close().await.unwrap();
        }
    }
    desk.schedule(&b, OFTEN).await;
    until("the other node to plan", async || {
        desk.last().is_some_and(|(node, tick)| node == "b" && tick.number > 1)
    })
    .await;
}

async fn names_and_periods_are_checked(world: World) {
    let desk = Desk::new();
    let node = world.node("a").await;
    let long = "x".repeat(65);
    for name in ["", "a b", "a|b", "a}", long.as_str()] {
        assert!(matches!(node.schedule(name, desk.clerk(&node), OFTEN).await, Err(Error::Name(_))), "{name}");
        assert!(matches!(node.ticker(name, OFTEN).await, Err(Error::Name(_))), "{name}");
    }
    let schedule = desk.schedule(&node, SELDOM).await;
    for period in [Duration::ZERO, Duration::from_micros(999), SELDOM * 24 * 366] {
        assert!(matches!(node.schedule("plan", desk.clerk(&node), period).await, Err(Error::Setting(_))));
        assert!(matches!(schedule.set_period(period).await, Err(Error::Setting(_))));
    }
    let data = world.data().await;
    assert_eq!(data.iter().filter(|line| line.starts_with("schedules ")).count(), 1, "{data:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_schedule_outlives_a_restart_of_the_server_with_its_data() {
    let world = World::on_redis().with_ttl(Duration::from_secs(2));
    let node = world.node_with("a", 1).await;
    let desk = Desk::new();
    desk.want(&["one"]);
    desk.schedule(&node, OFTEN).await;
    running(&world, &["one"]).await;
    let (_, before) = desk.last().unwrap();
    world.server().restart(Data::Keep).unwrap();
    desk.want(&["two"]);
    until("plans in a new turn", async || desk.last().unwrap().1.term > before.term).await;
    running(&world, &["two"]).await;
    // The server may have lost the last moment, so a number may come again in another turn.
    let ticks: Vec<_> = desk.asked().iter().map(|(_, tick)| (tick.term, tick.number)).collect();
    assert!(ticks.is_sorted_by(|a, b| a < b), "{ticks:?}");
}

/// A node that stands still while its planner runs, and wakes when another node has the turn.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_paused_planner_changes_nothing_when_it_wakes() {
    let world = World::on_redis().drawing().with_ttl(Duration::from_secs(1));
    let proxy = Proxy::start(world.server()).await.unwrap();
    let slow = Node::builder(POOL, Client::open(&proxy.url()).unwrap())
        .name("slow")
        .worker_ttl(world.ttl())
        .join_settle(SHORT)
        .assume_fresh(true)
        .join()
        .await
        .unwrap();
    let b = world.node_with("b", 1).await;
    let (gate, asked) = (Arc::new(Semaphore::new(0)), Arc::new(AtomicUsize::new(0)));
    let planner = {
        let (gate, asked) = (gate.clone(), asked.clone());
        move |_: Tick| {
            asked.fetch_add(1, Ordering::SeqCst);
            let gate = gate.clone();
            async move {
                gate.acquire().await?.forget();
                Ok(Plan::exactly([JobSpec::new("late", "")]))
            }
        }
    };
    slow.schedule("plan", planner, SELDOM).await.unwrap();
    until("the planner to think", async || asked.load(Ordering::SeqCst) == 1).await;
    let desk = Desk::new();
    desk.want(&["one"]);
    desk.schedule(&b, OFTEN).await;
    proxy.pause();
    running(&world, &["one"]).await;
    gate.add_permits(1);
    let before = desk.asked().len();
    proxy.resume();
    desk.in_all(before + 5).await;
    running(&world, &["one"]).await;
    assert_eq!(world.recorder.starts_of("late"), 0);
    let later = world.data().await;
    assert!(!later.iter().any(|line| line.starts_with("planned plan|late")), "{later:?}");
    slow.abandon();
}
