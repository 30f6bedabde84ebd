//! Other payloads for running jobs whose handler takes them: the jobs run on.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use tenure_pool::job::{NewPayload, Restart};
use tenure_pool::{Ask, BoxError, Job, JobHandler, JobInfo, JobSpec, Node, RestartPolicy, Start, StopReason};
use tokio::sync::Notify;

use crate::world::{PATIENCE, World, on_both_stores, until};

on_both_stores!(
    a_running_job_takes_a_payload_where_it_runs,
    a_job_that_runs_as_a_future_takes_a_payload,
    a_closure_takes_a_payload_where_it_waits_for_one,
    a_closure_takes_a_value,
    a_closure_that_never_waits_for_payloads_is_restarted,
    a_closure_that_takes_none_leaves_others_to_take_theirs,
    a_closure_that_waits_no_longer_is_restarted,
    a_closure_that_ends_before_it_takes_a_payload_runs_again,
    a_handler_may_ask_for_a_restart,
    a_handler_that_fails_or_panics_is_restarted,
    a_hung_update_costs_its_own_key_a_restart,
    what_comes_while_a_payload_is_in_hand_is_next,
    a_job_that_moves_with_a_payload_in_hand_begins_with_it,
    a_job_that_is_stopped_with_a_payload_in_hand_ends,
    a_job_that_ends_with_a_payload_in_hand_runs_again,
    an_ask_after_an_update_meets_its_payload,
    a_notification_waits_for_the_update_in_hand,
    a_taken_payload_brings_its_own_options,
    a_taken_payload_outlasts_a_loss_of_data,
);

/// A handler that logs its calls. A payload says how it is taken.
#[derive(Clone, Default)]
struct Tenants {
    heard: Arc<Mutex<Vec<String>>>,
    /// Lets slow updates, and futures, go on.
    go: Arc<Notify>,
}

fn text(bytes: &Bytes) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

impl Tenants {
    fn hear(&self, what: String) {
        self.heard.lock().unwrap().push(what);
    }

    fn heard(&self, key: &str) -> Vec<String> {
        let heard = self.heard.lock().unwrap();
        let of_key = heard.iter().filter_map(|line| line.strip_prefix(key)?.strip_prefix(": "));
        of_key.map(str::to_owned).collect()
    }

    /// Waits until the job has had exactly these calls.
    async fn has(&self, key: &str, calls: &[&str]) {
        until("the calls of a job", async || {
            let heard = self.heard(key);
            if heard == calls { Ok(()) } else { Err(format!("{heard:?}")) }
        })
        .await;
    }
}

impl JobHandler for Tenants {
    async fn start(&self, job: Job) -> Start {
        let left = job.checkpointed().map_or(String::new(), |left| format!(" after {}", text(left.bytes())));
        self.hear(format!("{}: start {}{left}", job.key(), text(&job.payload())));
        if job.key().as_bytes().starts_with(b"future") {
            let go = self.go.clone();
            return Start::Running(Box::pin(async move {
                tokio::select! {
                    () = job.cancelled() => {}
                    () = go.notified() => {}
                }
                Ok(())
            }));
        }
        Start::Started
    }

    async fn update(&self, job: &Job, new: NewPayload) -> Result<(), BoxError> {
        let (old, new) = (text(&job.payload()), text(new.payload()));
        self.hear(format!("{}: {new} over {old}", job.key()));
        match new.as_str() {
            "restart" => return Err(Restart.into()),
            "fail" => return Err("it is odd".into()),
            "panic" => panic!("as it was told"),
            "hang" => std::future::pending().await,
            slow if slow.starts_with("slow") => self.go.notified().await,
            _ => {}
        }
        job.checkpoint(new).await?;
        Ok(())
    }

    async fn notify(&self, job: &Job, body: Bytes) -> Result<(), BoxError> {
        self.hear(format!("{}: note {} with {}", job.key(), text(&body), text(&job.payload())));
        Ok(())
    }

    async fn ask(&self, job: &Job, ask: Ask) {
        ask.answer(job.payload());
    }

    async fn stop(&self, job: &Job, why: StopReason) -> Result<(), BoxError> {
        self.hear(format!("{}: stop {why:?}", job.key()));
        Ok(())
    }
}

/// A node that runs jobs, and one that asks for them.
async fn pair(world: &World) -> (Tenants, Node, Node) {
    let tenants = Tenants::default();
    let owner = world.builder("a").start_timeout(Duration::from_secs(10)).join().await.unwrap();
    owner.add_worker(tenants.clone()).await.unwrap();
    (tenants, owner, world.node("b").await)
}

async fn job(node: &Node, key: &str) -> JobInfo {
    node.inspect().job(key).await.unwrap().unwrap()
}

async fn a_running_job_takes_a_payload_where_it_runs(world: World) {
    let (tenants, _owner, caller) = pair(&world).await;
    caller.dispatch(("key", "one")).await.unwrap();
    let before = job(&caller, "key").await;
    assert_eq!(caller.update(("key", "two")).await.unwrap(), 1);
    assert_eq!(caller.ask("key", "").await.unwrap(), "two");
    assert_eq!(caller.update(("key", "three")).await.unwrap(), 2);
    assert_eq!(caller.ask("key", "").await.unwrap(), "three");
    let after = job(&caller, "key").await;
    assert_eq!((after.owner, after.token, after.id), (before.owner, before.token, before.id));
    assert_eq!((after.generation, after.attempts), (2, 1));
    caller.stop_job("key").until_stopped().await.unwrap();
    let calls = ["start one", "two over one", "three over two", "stop Stopped"];
    assert_eq!(tenants.heard("key"), calls);
}

async fn a_job_that_runs_as_a_future_takes_a_payload(world: World) {
    let (tenants, _owner, caller) = pair(&world).await;
    let spec = |payload: &'static str| JobSpec::new("future", payload).restart(RestartPolicy::Never);
    caller.dispatch(spec("one")).await.unwrap();
    caller.update(spec("two")).await.unwrap();
    tenants.has("future", &["start one", "two over one"]).await;
    // It has taken the payload when it answers, and nothing is left to do when it ends.
    assert_eq!(caller.ask("future", "").await.unwrap(), "two");
    tenants.go.notify_waiters();
    until("the job to be gone", async || caller.inspect().job("future").await.unwrap().is_none()).await;
    assert_eq!(tenants.heard("future"), ["start one", "two over one"]);
}

/// Logs the start of a job.
fn begins(tenants: &Tenants, job: &Job) {
    tenants.hear(format!("{}: start {}", job.key(), text(&job.payload())));
}

/// A node whose handler is one closure, and one that asks for its jobs.
async fn closure<F, Fut>(world: &World, body: F) -> (Tenants, Node, Node)
where
    F: Fn(Tenants, Job) -> Fut + Send + Sync + 'static,
    Fut: Future<Output = Result<(), BoxError>> + Send + 'static,
{
    let tenants = Tenants::default();
    let owner = world.builder("a").start_timeout(Duration::from_secs(10)).join().await.unwrap();
    let own = tenants.clone();
    let handler = move |job: Job| {
        begins(&own, &job);
        body(own.clone(), job)
    };
    owner.add_worker(tenure_pool::run(handler)).await.unwrap();
    (tenants, owner, world.node("b").await)
}

async fn a_closure_takes_a_payload_where_it_waits_for_one(world: World) {
    let (tenants, _owner, caller) = closure(&world, |tenants, job| async move {
        loop {
            tokio::select! {
                () = job.cancelled() => return Ok(()),
                new = job.updated() => {
                    let (has, of) = (text(&job.payload()), new.generation());
                    tenants.hear(format!("{}: {has} of {of}", job.key()));
                }
                ask = job.asked() => ask.answer(job.payload()),
            }
        }
    })
    .await;
    caller.dispatch(("key", "one")).await.unwrap();
    // It waits for payloads when it has answered.
    assert_eq!(caller.ask("key", "").await.unwrap(), "one");
    let before = job(&caller, "key").await;
    let always = JobSpec::new("key", "two").restart(RestartPolicy::Always);
    assert_eq!(caller.update(always).await.unwrap(), 1);
    assert_eq!(caller.ask("key", "").await.unwrap(), "two");
    assert_eq!(caller.update(("key", "three")).await.unwrap(), 2);
    assert_eq!(caller.ask("key", "").await.unwrap(), "three");
    let after = job(&caller, "key").await;
    assert_eq!((after.owner, after.token, after.generation), (before.owner, before.token, 2));
    caller.stop_job("key").until_stopped().await.unwrap();
    assert_eq!(tenants.heard("key"), ["start one", "two of 1", "three of 2"]);
}

#[derive(serde::Serialize, serde::Deserialize)]
struct Rate {
    rate: u32,
}

impl tenure_pool::Payload for Rate {
    const TYPE: &'static str = "rate";
}

impl tenure_pool::job::Request for Rate {
    type Answer = u32;
}

async fn a_closure_takes_a_value(world: World) {
    let (tenants, _owner, caller) = closure(&world, |tenants, job| async move {
        loop {
            tokio::select! {
                () = job.cancelled() => return Ok(()),
                new = job.updated_as::<Rate>() => {
                    let rate = new?.rate;
                    tenants.hear(format!("{}: rate {rate}", job.key()));
                }
                ask = job.asked() => ask.take::<Rate>()?.1.answer(&job.decode::<Rate>()?.rate),
            }
        }
    })
    .await;
    let rate = |rate| JobSpec::typed("key", &Rate { rate }).restart(RestartPolicy::Never);
    caller.dispatch(rate(1)).await.unwrap();
    assert_eq!(caller.ask_as("key", &Rate { rate: 0 }).await.unwrap(), 1);
    caller.update(rate(2)).await.unwrap();
    assert_eq!(caller.ask_as("key", &Rate { rate: 0 }).await.unwrap(), 2);
    assert_eq!(tenants.heard("key")[1..], ["rate 2"]);
    caller.update(JobSpec::new("key", "no rate").restart(RestartPolicy::Never)).await.unwrap();
    until("it to fail", async || caller.inspect().job("key").await.unwrap().is_none()).await;
    assert_eq!(tenants.heard("key").len(), 2, "it had that payload, and fails for good");
}

async fn a_closure_that_never_waits_for_payloads_is_restarted(world: World) {
    let (tenants, _owner, caller) = closure(&world, |_, job| async move {
        job.cancelled().await;
        Ok(())
    })
    .await;
    caller.dispatch(("key", "one")).await.unwrap();
    caller.update(("key", "two")).await.unwrap();
    tenants.has("key", &["start one", "start two"]).await;
}

async fn a_closure_that_takes_none_leaves_others_to_take_theirs(world: World) {
    let (tenants, _owner, caller) = closure(&world, |tenants, job| async move {
        while job.key().as_bytes() != b"deaf" {
            tokio::select! {
                () = job.cancelled() => return Ok(()),
                new = job.updated() => tenants.hear(format!("{}: took {}", job.key(), text(new.payload()))),
                ask = job.asked() => ask.answer(""),
            }
        }
        job.cancelled().await;
        Ok(())
    })
    .await;
    for key in ["deaf", "key"] {
        caller.dispatch((key, "one")).await.unwrap();
    }
    caller.update(("deaf", "two")).await.unwrap();
    tenants.has("deaf", &["start one", "start two"]).await;
    // It waits for payloads when it has answered.
    caller.ask("key", "").await.unwrap();
    caller.update(("key", "two")).await.unwrap();
    tenants.has("key", &["start one", "took two"]).await;
}

async fn a_closure_that_waits_no_longer_is_restarted(world: World) {
    let tenants = Tenants::default();
    let own = tenants.clone();
    let node = world.builder("a").start_timeout(Duration::from_millis(500)).join().await.unwrap();
    let handler = tenure_pool::run(move |job: Job| {
        let tenants = own.clone();
        begins(&tenants, &job);
        async move {
            tokio::select! {
                biased;
                _ = job.updated() => tenants.hear(format!("{}: {}", job.key(), text(&job.payload()))),
                ask = job.asked() => ask.answer(""),
            }
            job.cancelled().await;
            Ok(())
        }
    });
    node.add_worker(handler).await.unwrap();
    node.dispatch(("key", "one")).await.unwrap();
    node.ask("key", "").await.unwrap();
    node.update(("key", "two")).await.unwrap();
    tenants.has("key", &["start one", "start two"]).await;
}

async fn a_closure_that_ends_before_it_takes_a_payload_runs_again(world: World) {
    let (tenants, _owner, caller) = closure(&world, |tenants, job| async move {
        if &*job.payload() == b"one" {
            // It has waited for payloads, and waits for something else now.
            let _ = futures::FutureExt::now_or_never(job.updated());
            job.asked().await.answer("");
            tenants.go.notified().await;
            return Ok(());
        }
        job.cancelled().await;
        Ok(())
    })
    .await;
    caller.dispatch(JobSpec::new("key", "one").restart(RestartPolicy::Never)).await.unwrap();
    caller.ask("key", "").await.unwrap();
    caller.update(JobSpec::new("key", "two").restart(RestartPolicy::Never)).await.unwrap();
    // An ask after the update waits until the job has ended.
    let behind = caller.ask("key", "").deadline(Duration::from_millis(300)).await;
    assert!(behind.is_err(), "{behind:?}");
    tenants.go.notify_one();
    tenants.has("key", &["start one", "start two"]).await;
}

async fn a_handler_may_ask_for_a_restart(world: World) {
    let (tenants, _owner, caller) = pair(&world).await;
    caller.dispatch(("key", "one")).await.unwrap();
    let before = job(&caller, "key").await;
    caller.update(("key", "restart")).await.unwrap();
    tenants.has("key", &["start one", "restart over one", "stop Updated", "start restart"]).await;
    let after = job(&caller, "key").await;
    assert!(after.token > before.token && after.owner == before.owner, "{before:?} {after:?}");
}

async fn a_handler_that_fails_or_panics_is_restarted(world: World) {
    let (tenants, _owner, caller) = pair(&world).await;
    for payload in ["fail", "panic"] {
        caller.dispatch((payload, "one")).await.unwrap();
        caller.update((payload, payload)).await.unwrap();
        let (taken, start) = (format!("{payload} over one"), format!("start {payload}"));
        tenants.has(payload, &["start one", &taken, "stop Updated", &start]).await;
        assert_eq!(job(&caller, payload).await.attempts, 1, "it is no failure of the job");
    }
}

async fn a_hung_update_costs_its_own_key_a_restart(world: World) {
    let tenants = Tenants::default();
    let node = world.builder("a").start_timeout(Duration::from_millis(500)).join().await.unwrap();
    node.add_worker(tenants.clone()).await.unwrap();
    for key in ["key", "other"] {
        node.dispatch((key, "one")).await.unwrap();
        node.update((key, if key == "key" { "hang" } else { "two" })).await.unwrap();
    }
    tenants.has("key", &["start one", "hang over one", "stop Updated", "start hang"]).await;
    tenants.has("other", &["start one", "two over one"]).await;
    assert_eq!(node.ask("key", "").await.unwrap(), "hang");
}

async fn what_comes_while_a_payload_is_in_hand_is_next(world: World) {
    let (tenants, _owner, caller) = pair(&world).await;
    caller.dispatch(("key", "one")).await.unwrap();
    caller.update(("key", "slow")).await.unwrap();
    tenants.has("key", &["start one", "slow over one"]).await;
    for payload in ["two", "three", "four"] {
        caller.update(("key", payload)).await.unwrap();
    }
    tenants.go.notify_one();
    tenants.has("key", &["start one", "slow over one", "four over slow"]).await;
    assert_eq!(caller.ask("key", "").await.unwrap(), "four");
    assert_eq!(job(&caller, "key").await.generation, 4);
}

async fn a_job_that_moves_with_a_payload_in_hand_begins_with_it(world: World) {
    let (tenants, owner, caller) = pair(&world).await;
    caller.dispatch(("key", "one")).await.unwrap();
    caller.update(("key", "two")).await.unwrap();
    assert_eq!(caller.ask("key", "").await.unwrap(), "two");
    caller.update(("key", "slow")).await.unwrap();
    tenants.has("key", &["start one", "two over one", "slow over two"]).await;
    caller.add_worker(tenants.clone()).await.unwrap();
    owner.close().await.unwrap();
    let calls = ["start one", "two over one", "slow over two", "stop Draining", "start slow after two"];
    tenants.has("key", &calls).await;
}

async fn a_job_that_is_stopped_with_a_payload_in_hand_ends(world: World) {
    let (tenants, _owner, caller) = pair(&world).await;
    caller.dispatch(("key", "one")).await.unwrap();
    caller.update(("key", "slow")).await.unwrap();
    tenants.has("key", &["start one", "slow over one"]).await;
    caller.stop_job("key").until_stopped().await.unwrap();
    assert!(caller.inspect().job("key").await.unwrap().is_none());
    assert_eq!(tenants.heard("key"), ["start one", "slow over one", "stop Stopped"]);
}

async fn a_job_that_ends_with_a_payload_in_hand_runs_again(world: World) {
    let (tenants, _owner, caller) = pair(&world).await;
    caller.dispatch(("future", "one")).await.unwrap();
    caller.update(("future", "hang")).await.unwrap();
    tenants.has("future", &["start one", "hang over one"]).await;
    tenants.go.notify_one();
    tenants.has("future", &["start one", "hang over one", "start hang"]).await;
}

async fn an_ask_after_an_update_meets_its_payload(world: World) {
    let (_tenants, _owner, caller) = pair(&world).await;
    caller.dispatch(("key", "0")).await.unwrap();
    for round in 1..30 {
        caller.notify("key", "work").await.unwrap();
        // Now and then the job is restarted by it.
        let payload = if round % 10 == 0 { "restart".to_owned() } else { round.to_string() };
        caller.update(("key", payload.clone())).await.unwrap();
        assert_eq!(caller.ask("key", "").deadline(PATIENCE).await.unwrap(), payload);
    }
}

async fn a_notification_waits_for_the_update_in_hand(world: World) {
    let (tenants, _owner, caller) = pair(&world).await;
    caller.dispatch(("key", "one")).await.unwrap();
    caller.notify("key", "a").await.unwrap();
    tenants.has("key", &["start one", "note a with one"]).await;
    caller.update(("key", "slow")).await.unwrap();
    tenants.has("key", &["start one", "note a with one", "slow over one"]).await;
    caller.notify("key", "b").await.unwrap();
    tenants.go.notify_one();
    let calls = ["start one", "note a with one", "slow over one", "note b with slow"];
    tenants.has("key", &calls).await;
}

async fn a_taken_payload_brings_its_own_options(world: World) {
    let (tenants, _owner, caller) = pair(&world).await;
    caller.dispatch(("future", "one")).await.unwrap();
    let always = JobSpec::new("future", "two").restart(RestartPolicy::Always);
    caller.update(always).await.unwrap();
    assert_eq!(caller.ask("future", "").await.unwrap(), "two");
    tenants.go.notify_waiters();
    tenants.has("future", &["start one", "two over one", "start two after two"]).await;
    caller.dispatch(("key", "one")).await.unwrap();
    let timed = JobSpec::new("key", "two").progress_timeout(Duration::from_secs(1));
    caller.update(timed).await.unwrap();
    tenants.has("key", &["start one", "two over one", "stop Stalled", "start two after two"]).await;
}

async fn a_taken_payload_outlasts_a_loss_of_data(world: World) {
    let world = world.with_ttl(crate::server_loss::TTL);
    let (tenants, owner, caller) = pair(&world).await;
    caller.dispatch(("key", "one")).await.unwrap();
    caller.update(("key", "two")).await.unwrap();
    assert_eq!(caller.ask("key", "").await.unwrap(), "two");
    let before = job(&caller, "key").await;
    world.wipe();
    caller.dispatch(("another", "one")).await.unwrap();
    let after = job(&caller, "key").await;
    assert_eq!((after.token, after.generation), (before.token, 1));
    caller.add_worker(tenants.clone()).await.unwrap();
    owner.close().await.unwrap();
    let heard = || tenants.heard("key");
    until("it to move", async || heard().len() == 4).await;
    assert_eq!(heard(), ["start one", "two over one", "stop Draining", "start two after two"]);
}
