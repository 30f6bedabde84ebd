//! Asks: a question to the owner of a job, whoever that is, and its answer.

use std::future::Future;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use futures::future::join_all;
use serde::{Deserialize, Serialize};
use tenure_pool::error::NotHandled;
use tenure_pool::job::Request;
use tenure_pool::{
    Ask, AskError, BoxError, DispatchError, Error, Job, JobHandler, JobSpec, Node, Payload, RestartPolicy,
    Settings, Start, StopReason,
};
use tokio::sync::Notify;

use crate::world::{PATIENCE, SHORT, World, on_both_stores, until};

on_both_stores!(
    the_owner_answers_on_whatever_node_it_is,
    a_future_answers_asks,
    asks_come_in_order_and_after_notifications,
    a_slow_answer_holds_up_no_other_ask,
    an_ask_waits_for_its_job_to_start,
    a_refusal_brings_its_words,
    an_ask_that_is_dropped_is_unknown,
    an_ask_that_its_handler_sends_on_goes_to_the_next_owner,
    an_ask_that_is_sent_on_until_its_deadline_is_not_handled,
    a_panic_costs_its_own_ask_only,
    an_ask_that_hangs_holds_up_its_own_key_only,
    a_handler_without_asks_says_so,
    no_job_is_asked_that_is_not_there,
    a_parked_job_is_not_asked,
    a_job_with_too_many_asks_takes_no_more,
    what_is_too_long_is_told,
    an_ask_ends_at_its_deadline,
    a_dropped_ask_disturbs_nobody,
    an_ask_of_a_stopping_job_ends,
    a_job_that_ends_has_answered_before,
    a_drain_under_asks_loses_none in real_time,
    a_move_costs_an_ask_a_wait_only in real_time,
    an_owner_that_dies_leaves_its_ask_unknown,
    an_idempotent_ask_goes_to_the_next_owner,
    values_are_asked_and_answered,
    bad_input_is_refused_before_anything_is_sent,
    an_ask_of_a_closed_node_fails,
    an_ask_of_an_abandoned_node_is_unknown,
    a_pool_that_shuts_down_ends_its_asks,
    a_job_that_is_not_there_is_started_for_an_ask,
    many_asks_of_an_absent_key_start_one_job,
    a_job_that_lives_is_asked_and_not_started,
    a_parked_or_stopping_job_is_not_started_for_an_ask,
    an_ask_whose_job_cannot_start_is_told_why,
    an_ask_whose_job_starts_too_late_is_not_handled,
    a_job_that_ends_before_it_is_asked_is_started_again,
    an_ask_with_another_job_to_start_is_refused,
    a_pool_of_shards_starts_jobs_for_asks,
);

/// The way in which a job takes an ask.
#[derive(Clone, Default)]
struct Answerer {
    /// Each notification and each ask, as `kind key body`.
    heard: Arc<Mutex<Vec<String>>>,
    /// Lets slow answers go.
    go: Arc<Notify>,
    /// The handler calls that have not returned.
    open: Arc<AtomicUsize>,
    /// The jobs that it was given to start.
    starts: Arc<AtomicUsize>,
    name: &'static str,
}

impl Answerer {
    fn named(name: &'static str) -> Self {
        Self { name, ..Self::default() }
    }

    fn heard(&self) -> Vec<String> {
        self.heard.lock().unwrap().clone()
    }

    fn hear(&self, kind: &str, job: &Job, body: &Bytes) {
        self.heard.lock().unwrap().push(format!("{kind} {} {}", job.key(), String::from_utf8_lossy(body)));
    }

    async fn hears(&self, words: &str) {
        until(words, async || self.heard().iter().any(|heard| heard == words)).await;
    }
}

impl JobHandler for Answerer {
    async fn start(&self, job: Job) -> Start {
        self.starts.fetch_add(1, Ordering::SeqCst);
        match &*job.payload() {
            b"fails" => Start::Failed("it cannot start".into()),
            b"slow" => {
                self.go.notified().await;
                Start::Started
            }
            _ => Start::Started,
        }
    }

    async fn notify(&self, job: &Job, body: Bytes) -> Result<(), BoxError> {
        self.hear("note", job, &body);
        Ok(())
    }

    async fn ask(&self, job: &Job, ask: Ask) {
        self.open.fetch_add(1, Ordering::SeqCst);
        let body = ask.body().clone();
        self.hear("ask", job, &body);
        match &*body {
            b"refuse" => ask.refuse("not today"),
            b"drop" => drop(ask),
            b"move" if self.name != "second" => ask.moved(),
            b"panic" => panic!("an ask that panics"),
            b"hang" => std::future::pending().await,
            b"long" => ask.answer("x".repeat((64 << 10) + 1)),
            b"id" => {
                let answer = format!("{} of {}", ask.id(), ask.asker());
                ask.answer(answer);
            }
            b"slow" => {
                let go = self.go.clone();
                tokio::spawn(async move {
                    go.notified().await;
                    ask.answer("at last");
                });
            }
            _ => ask.answer(format!("{}: {}", self.name, String::from_utf8_lossy(&body))),
        }
        self.open.fetch_sub(1, Ordering::SeqCst);
    }
}

async fn answering(world: &World, name: &str, handler: &Answerer) -> Node {
    let node = world.node(name).await;
    node.add_worker(handler.clone()).await.unwrap();
    node
}

/// A node that asks, and one whose worker answers for the job `key`.
async fn pair(world: &World) -> (Node, Node, Answerer) {
    let handler = Answerer::named("a");
    let owner = answering(world, "a", &handler).await;
    let asker = world.node("b").await;
    owner.dispatch(("key", "")).await.unwrap();
    (asker, owner, handler)
}

pub(crate) fn not_handled<T: std::fmt::Debug>(answer: Result<T, AskError>) -> NotHandled {
    match answer {
        Err(AskError::NotHandled(why)) => why,
        other => panic!("{other:?}"),
    }
}

fn is_unknown<T>(answer: &Result<T, AskError>) -> bool {
    matches!(answer, Err(AskError::Unknown { .. }))
}

async fn the_owner_answers_on_whatever_node_it_is(world: World) {
    let (asker, owner, _) = pair(&world).await;
    for node in [&asker, &owner] {
        assert_eq!(node.ask("key", "how many").await.unwrap(), "a: how many");
    }
    assert_eq!(asker.ask("key", "id").id("order-17").await.unwrap(), "order-17 of b");
}

async fn a_future_answers_asks(world: World) {
    let (asker, owner) = (world.node("b").await, world.node("a").await);
    let handler = tenure_pool::run(async |job: Job| {
        loop {
            tokio::select! {
                () = job.cancelled() => return Ok(()),
                ask = job.asked() => ask.answer("here"),
                _ = job.notified() => {}
            }
        }
    });
    owner.add_worker(handler).await.unwrap();
    asker.dispatch(("key", "")).await.unwrap();
    asker.notify("key", "beside it").await.unwrap();
    for _ in 0..3 {
        assert_eq!(asker.ask("key", "where?").await.unwrap(), "here");
    }
}

async fn asks_come_in_order_and_after_notifications(world: World) {
    let (asker, _owner, handler) = pair(&world).await;
    for round in 0..10 {
        for note in 0..5 {
            asker.notify("key", format!("{round}.{note}")).await.unwrap();
        }
        asker.ask("key", format!("{round}")).await.unwrap();
    }
    let mut expected = Vec::new();
    for round in 0..10 {
        expected.extend((0..5).map(|note| format!("note key {round}.{note}")));
        expected.push(format!("ask key {round}"));
    }
    assert_eq!(handler.heard(), expected);
}

async fn a_slow_answer_holds_up_no_other_ask(world: World) {
    let (asker, _owner, handler) = pair(&world).await;
    let slow = tokio::spawn(asker.ask("key", "slow").into_future());
    handler.hears("ask key slow").await;
    assert_eq!(asker.ask("key", "quick").await.unwrap(), "a: quick");
    handler.go.notify_one();
    assert_eq!(slow.await.unwrap().unwrap(), "at last");
}

async fn an_ask_waits_for_its_job_to_start(world: World) {
    let (handler, node) = (Answerer::named("a"), world.node("b").await);
    node.submit(("key", "slow")).await.unwrap();
    let queued = tokio::spawn(node.ask("key", "queued").deadline(PATIENCE).into_future());
    let owner = answering(&world, "a", &handler).await;
    until("the job to be begun", async || {
        owner
            .inspect()
            .job("key")
            .await
            .unwrap()
            .is_some_and(|job| job.state == tenure_pool::JobState::Running)
    })
    .await;
    let starting = tokio::spawn(node.ask("key", "starting").deadline(PATIENCE).into_future());
    handler.go.notify_one();
    assert_eq!(queued.await.unwrap().unwrap(), "a: queued");
    assert_eq!(starting.await.unwrap().unwrap(), "a: starting");
}

async fn a_refusal_brings_its_words(world: World) {
    let (asker, _owner, _) = pair(&world).await;
    let refused = asker.ask("key", "refuse").await.unwrap_err();
    assert!(matches!(&refused, AskError::Refused(why) if why == "not today"), "{refused:?}");
}

async fn an_ask_that_its_handler_sends_on_goes_to_the_next_owner(world: World) {
    let (first, second) = (Answerer::named("first"), Answerer::named("second"));
    let node = answering(&world, "a", &first).await;
    node.dispatch(("key", "")).await.unwrap();
    let asker = world.node("c").await;
    let asking = tokio::spawn(async move { asker.ask("key", "move").deadline(PATIENCE).await });
    first.hears("ask key move").await;
    let _next = answering(&world, "b", &second).await;
    node.close().await.unwrap();
    assert_eq!(asking.await.unwrap().unwrap(), "second: move");
}

async fn an_ask_that_is_sent_on_until_its_deadline_is_not_handled(world: World) {
    let handler = Answerer::named("first");
    let node = answering(&world, "a", &handler).await;
    node.dispatch(("key", "")).await.unwrap();
    let times = || handler.heard().iter().filter(|heard| *heard == "ask key move").count();
    // The last attempt may be on its way at the deadline.
    let mut handled = false;
    while !handled {
        match node.ask("key", "move").deadline(Duration::from_millis(300)).await.unwrap_err() {
            AskError::NotHandled(NotHandled::Late) => handled = true,
            AskError::Unknown { .. } => {}
            other => panic!("{other:?}"),
        }
    }
    assert!(times() > 1, "it is asked again and again");
    assert_eq!(node.ask("key", "x").await.unwrap(), "first: x");
}

async fn an_ask_that_is_dropped_is_unknown(world: World) {
    let (asker, _owner, _) = pair(&world).await;
    let unknown = asker.ask("key", "drop").id("order-17").await;
    assert!(matches!(&unknown, Err(AskError::Unknown { id }) if id == "order-17"), "{unknown:?}");
}

async fn a_panic_costs_its_own_ask_only(world: World) {
    let (asker, _owner, handler) = pair(&world).await;
    assert!(is_unknown(&asker.ask("key", "panic").await));
    assert_eq!(asker.ask("key", "next").await.unwrap(), "a: next");
    assert_eq!(handler.heard(), ["ask key panic", "ask key next"]);
}

async fn an_ask_that_hangs_holds_up_its_own_key_only(world: World) {
    let (asker, owner, handler) = pair(&world).await;
    owner.dispatch(("other", "")).await.unwrap();
    let hanging = tokio::spawn(asker.ask("key", "hang").deadline(PATIENCE).into_future());
    handler.hears("ask key hang").await;
    assert_eq!(asker.ask("other", "x").await.unwrap(), "a: x");
    is_taken_and_unanswered(&asker, "behind it").await;
    owner.stop_job("key").until_stopped().await.unwrap();
    assert!(is_unknown(&hanging.await.unwrap()));
    assert_eq!(handler.heard(), ["ask key hang", "ask other x"]);
}

async fn a_handler_without_asks_says_so(world: World) {
    let node = world.node_running("a", "key").await;
    assert_eq!(not_handled(node.ask("key", "x").await), NotHandled::TakesNone);
}

async fn no_job_is_asked_that_is_not_there(world: World) {
    let (asker, owner, _) = pair(&world).await;
    assert_eq!(not_handled(asker.ask("absent", "x").await), NotHandled::NoJob);
    owner.stop_job("key").until_stopped().await.unwrap();
    assert_eq!(not_handled(asker.ask("key", "x").idempotent().await), NotHandled::NoJob);
}

async fn a_parked_job_is_not_asked(world: World) {
    let handler = Answerer::named("a");
    let settings = tenure_pool::Settings {
        max_attempts: 1,
        worker_ttl: world.ttl(),
        join_settle: SHORT,
        ..Default::default()
    };
    let node = world.builder("a").settings(settings).join().await.unwrap();
    node.add_worker(handler.clone()).await.unwrap();
    node.submit(JobSpec::new("key", "fails").restart(RestartPolicy::Always)).await.unwrap();
    until("the job to be parked", async || !node.inspect().parked().await.unwrap().is_empty()).await;
    assert_eq!(not_handled(node.ask("key", "x").await), NotHandled::Parked);
}

async fn a_job_with_too_many_asks_takes_no_more(world: World) {
    let (asker, _owner, handler) = pair(&world).await;
    let ask = || asker.ask("key", "slow").deadline(PATIENCE).into_future();
    let open: Vec<_> = (0..64).map(|_| tokio::spawn(ask())).collect();
    until("all of them to come", async || handler.heard().len() == 64).await;
    assert_eq!(not_handled(asker.ask("key", "one more").await), NotHandled::Busy);
    for answered in open {
        // One that comes late to its place must find the call.
        while !answered.is_finished() {
            handler.go.notify_one();
            tokio::task::yield_now().await;
        }
        assert_eq!(answered.await.unwrap().unwrap(), "at last");
    }
    assert_eq!(asker.ask("key", "room again").await.unwrap(), "a: room again");
}

async fn what_is_too_long_is_told(world: World) {
    let (asker, _owner, handler) = pair(&world).await;
    let long = asker.ask("key", "x".repeat((64 << 10) + 1)).await;
    assert!(
        matches!(long, Err(AskError::Failed(Error::TooLong { len: 65_537, max: 65_536, .. }))),
        "{long:?}"
    );
    assert!(handler.heard().is_empty());
    let most = "x".repeat(64 << 10);
    let answer = asker.ask("key", most.clone()).await;
    assert!(
        matches!(&answer, Err(AskError::Refused(why)) if why.contains("65536")),
        "with its name it is longer"
    );
    let answer = asker.ask("key", "long").await;
    assert!(matches!(&answer, Err(AskError::Refused(why)) if why.contains("65537 bytes")), "{answer:?}");
}

async fn an_ask_ends_at_its_deadline(world: World) {
    let node = world.node("a").await;
    node.submit(("key", "")).await.unwrap();
    assert_eq!(not_handled(node.ask("key", "x").deadline(SHORT).await), NotHandled::Late);
    assert_eq!(not_handled(node.ask("key", "x").deadline(Duration::ZERO).await), NotHandled::Late);
    let handler = Answerer::named("a");
    node.add_worker(handler.clone()).await.unwrap();
    assert_eq!(node.ask("key", "first").deadline(PATIENCE).await.unwrap(), "a: first");
    is_taken_and_unanswered(&node, "slow").await;
}

/// Asks until the owner has such an ask at its deadline. One that has not come so far by then is late.
async fn is_taken_and_unanswered(node: &Node, body: &'static str) {
    until("an ask that reaches its owner", async || {
        let answer = node.ask("key", body).deadline(SHORT).await;
        is_unknown(&answer) || {
            assert_eq!(not_handled(answer), NotHandled::Late);
            false
        }
    })
    .await;
}

async fn a_dropped_ask_disturbs_nobody(world: World) {
    let (asker, _owner, handler) = pair(&world).await;
    let dropped = tokio::spawn(asker.ask("key", "slow").into_future());
    handler.hears("ask key slow").await;
    dropped.abort();
    assert!(dropped.await.is_err());
    handler.go.notify_one();
    assert_eq!(asker.ask("key", "next").await.unwrap(), "a: next");
}

async fn an_ask_of_a_stopping_job_ends(world: World) {
    let (asker, owner, handler) = pair(&world).await;
    let slow = tokio::spawn(asker.ask("key", "slow").deadline(PATIENCE).into_future());
    handler.hears("ask key slow").await;
    owner.stop_job("key").until_stopped().await.unwrap();
    assert!(is_unknown(&slow.await.unwrap()), "its handler had it");
    assert_eq!(not_handled(asker.ask("key", "x").await), NotHandled::NoJob);
}

async fn a_job_that_ends_has_answered_before(world: World) {
    let node = world.node("a").await;
    let handler = tenure_pool::run(async |job: Job| {
        let ask = job.asked().await;
        ask.answer("good-bye");
        Ok(())
    });
    node.add_worker(handler).await.unwrap();
    for i in 0..20 {
        node.dispatch((format!("key-{i}"), "")).await.unwrap();
        assert_eq!(node.ask(format!("key-{i}"), "end").await.unwrap(), "good-bye");
    }
}

/// Asks the keys one after the other until `until` has come, and a while longer.
async fn ask_on(asker: &Node, keys: usize, until: impl Future<Output = ()>) -> Vec<Result<Bytes, AskError>> {
    let over = Arc::new(AtomicUsize::new(0));
    let askers = (0..keys).map(|key| {
        let (asker, over) = (asker.clone(), over.clone());
        tokio::spawn(async move {
            let mut answers = Vec::new();
            let mut after = 0;
            while after < 20 {
                after += over.load(Ordering::SeqCst);
                answers.push(asker.ask(format!("key-{key}"), "x").deadline(PATIENCE).await);
            }
            answers
        })
    });
    let askers: Vec<_> = askers.collect();
    until.await;
    over.store(1, Ordering::SeqCst);
    join_all(askers).await.into_iter().flat_map(Result::unwrap).collect()
}

async fn a_drain_under_asks_loses_none(world: World) {
    let (first, second) = (Answerer::named("a"), Answerer::named("b"));
    let (a, asker) = (answering(&world, "a", &first).await, world.node("c").await);
    for key in 0..16 {
        asker.dispatch((format!("key-{key}"), "")).await.unwrap();
    }
    let _b = answering(&world, "b", &second).await;
    let answers = ask_on(&asker, 16, async {
        first.hears("ask key-0 x").await;
        assert!(a.close().await.unwrap().complete);
    })
    .await;
    let failed: Vec<_> = answers.iter().filter(|answer| answer.is_err()).collect();
    assert!(failed.is_empty(), "{failed:?}");
    assert_eq!(answers.len(), first.heard().len() + second.heard().len(), "each was handled once");
    assert!(!second.heard().is_empty());
}

async fn a_move_costs_an_ask_a_wait_only(world: World) {
    let (first, second) = (Answerer::named("a"), Answerer::named("b"));
    let (_a, asker) = (answering(&world, "a", &first).await, world.node("c").await);
    for key in 0..16 {
        asker.dispatch((format!("key-{key}"), "")).await.unwrap();
    }
    let b = world.node("b").await;
    let answers = ask_on(&asker, 16, async {
        b.add_worker(second.clone()).await.unwrap();
        until("some to move", async || !second.heard().is_empty()).await;
    })
    .await;
    let failed: Vec<_> = answers.iter().filter(|answer| answer.is_err()).collect();
    assert!(failed.is_empty(), "{failed:?}");
    assert_eq!(answers.len(), first.heard().len() + second.heard().len(), "each was handled once");
}

async fn an_owner_that_dies_leaves_its_ask_unknown(world: World) {
    let world = world.with_ttl(Duration::from_secs(2));
    let (asker, owner, handler) = pair(&world).await;
    let lost = tokio::spawn(asker.ask("key", "slow").deadline(PATIENCE).into_future());
    handler.hears("ask key slow").await;
    owner.abandon();
    let next = Answerer::named("b");
    asker.add_worker(next.clone()).await.unwrap();
    assert!(is_unknown(&lost.await.unwrap()));
    assert_eq!(asker.ask("key", "x").deadline(PATIENCE).await.unwrap(), "b: x");
    assert_eq!(next.heard(), ["ask key x"]);
}

async fn an_idempotent_ask_goes_to_the_next_owner(world: World) {
    let world = world.with_ttl(Duration::from_secs(2));
    let (asker, owner, handler) = pair(&world).await;
    let ask = asker.ask("key", "hang").id("order-17").idempotent().deadline(PATIENCE);
    let again = tokio::spawn(ask.into_future());
    handler.hears("ask key hang").await;
    owner.abandon();
    let next = Named::default();
    asker.add_worker(next.clone()).await.unwrap();
    assert_eq!(again.await.unwrap().unwrap(), "done");
    assert_eq!(*next.0.lock().unwrap(), ["order-17"]);
}

/// Answers everything, and remembers the ids.
#[derive(Clone, Default)]
struct Named(Arc<Mutex<Vec<String>>>);

impl JobHandler for Named {
    async fn start(&self, _: Job) -> Start {
        Start::Started
    }

    async fn ask(&self, _: &Job, ask: Ask) {
        self.0.lock().unwrap().push(ask.id().to_owned());
        ask.answer("done");
    }

    async fn stop(&self, _: &Job, _: StopReason) -> Result<(), BoxError> {
        Ok(())
    }
}

#[derive(Debug, PartialEq, Serialize, Deserialize)]
struct Quote {
    amount: u32,
}

impl Payload for Quote {
    const TYPE: &'static str = "quote";
}

#[derive(Debug, PartialEq, Serialize, Deserialize)]
struct Price {
    cents: u64,
}

impl Request for Quote {
    type Answer = Price;
}

#[derive(Serialize, Deserialize)]
struct HowMany;

impl Payload for HowMany {
    const TYPE: &'static str = "how-many";
}

impl Request for HowMany {
    type Answer = u32;
}

async fn values_are_asked_and_answered(world: World) {
    let node = world.node("a").await;
    let handler = tenure_pool::run(async |job: Job| {
        let mut sold = 0;
        loop {
            let ask = tokio::select! {
                () = job.cancelled() => return Ok(()),
                ask = job.asked() => ask,
                order = job.notified_as::<Quote>() => {
                    sold += order?.amount;
                    continue;
                }
            };
            if ask.request_type().as_deref() == Some(HowMany::TYPE) {
                ask.take::<HowMany>()?.1.answer(&sold);
            } else if let Ok((quote, reply)) = ask.take::<Quote>() {
                reply.answer(&Price { cents: u64::from(quote.amount) * 5 });
            }
        }
    });
    node.add_worker(handler).await.unwrap();
    node.dispatch(("key", "")).await.unwrap();
    assert_eq!(node.ask_as("key", &Quote { amount: 3 }).await.unwrap(), Price { cents: 15 });
    node.notify_as("key", &Quote { amount: 40 }).await.unwrap();
    node.notify_as("key", &Quote { amount: 2 }).await.unwrap();
    let all_sold = async || node.ask_as("key", &HowMany).await.unwrap() == 42;
    until("both orders", all_sold).await;
    let plain = node.ask("key", "no quote").await;
    let refused = "the payload is of no type, not \"quote\"";
    assert!(matches!(&plain, Err(AskError::Refused(why)) if why == refused), "{plain:?}");
    node.notify_as("key", &HowMany).await.unwrap();
    until("the job to fail on it", async || node.inspect().job("key").await.unwrap().is_none()).await;
}

async fn bad_input_is_refused_before_anything_is_sent(world: World) {
    let (asker, _owner, handler) = pair(&world).await;
    assert!(matches!(asker.ask("", "x").await, Err(AskError::Failed(Error::Name(_)))));
    for id in ["", "two words", &"x".repeat(65)] {
        let answer = asker.ask("key", "x").id(id).await;
        assert!(matches!(answer, Err(AskError::Failed(Error::Name(_)))), "{answer:?}");
    }
    assert!(handler.heard().is_empty());
}

async fn an_ask_of_a_closed_node_fails(world: World) {
    let (asker, _owner, handler) = pair(&world).await;
    let open = tokio::spawn(asker.ask("key", "slow").deadline(PATIENCE).into_future());
    handler.hears("ask key slow").await;
    asker.close().await.unwrap();
    assert!(is_unknown(&open.await.unwrap()));
    let late = asker.ask("key", "x").await;
    assert!(matches!(late, Err(AskError::Failed(Error::NodeClosed))), "{late:?}");
}

async fn an_ask_of_an_abandoned_node_is_unknown(world: World) {
    let (asker, _owner, handler) = pair(&world).await;
    let open = tokio::spawn(asker.ask("key", "slow").deadline(PATIENCE).into_future());
    handler.hears("ask key slow").await;
    asker.abandon();
    let answer = open.await.unwrap();
    assert!(is_unknown(&answer), "a handler has it: {answer:?}");
}

async fn a_pool_that_shuts_down_ends_its_asks(world: World) {
    let (asker, owner, handler) = pair(&world).await;
    let open = tokio::spawn(asker.ask("key", "slow").deadline(PATIENCE).into_future());
    handler.hears("ask key slow").await;
    owner.operate().shutdown().await.unwrap();
    assert!(is_unknown(&open.await.unwrap()));
    asker.closed().await;
    assert!(matches!(asker.ask("key", "x").await, Err(AskError::Failed(_) | AskError::NotHandled(_))));
}

fn failed<T: std::fmt::Debug>(answer: Result<T, AskError>) -> Error {
    match answer {
        Err(AskError::Failed(error)) => error,
        other => panic!("{other:?}"),
    }
}

async fn a_job_that_is_not_there_is_started_for_an_ask(world: World) {
    let handler = Answerer::named("a");
    let _owner = answering(&world, "a", &handler).await;
    let asker = world.node("b").await;
    assert_eq!(asker.ask("key", "first").or_start(("key", "payload")).await.unwrap(), "a: first");
    assert_eq!(asker.inspect().payload("key").await.unwrap().unwrap(), "payload");
    asker.stop_job("key").until_stopped().await.unwrap();
    let again = asker.ask("key", "again").or_start(("key", "")).id("order-17").idempotent();
    assert_eq!(again.await.unwrap(), "a: again");
    assert_eq!(handler.heard(), ["ask key first", "ask key again"]);
}

async fn many_asks_of_an_absent_key_start_one_job(world: World) {
    let handler = Answerer::named("a");
    let nodes = [answering(&world, "a", &handler).await, world.node("b").await];
    let ask = |i: usize| {
        nodes[i % 2].ask("key", i.to_string()).or_start(("key", "")).deadline(PATIENCE).into_future()
    };
    for (i, answer) in join_all((0..50).map(ask)).await.into_iter().enumerate() {
        assert_eq!(answer.unwrap(), format!("a: {i}"));
    }
    assert_eq!((handler.heard().len(), handler.starts.load(Ordering::SeqCst)), (50, 1));
}

async fn a_job_that_lives_is_asked_and_not_started(world: World) {
    let (asker, _owner, handler) = pair(&world).await;
    assert_eq!(asker.ask("key", "x").or_start(("key", "other")).await.unwrap(), "a: x");
    assert_eq!(asker.inspect().payload("key").await.unwrap().unwrap(), "");
    assert_eq!(handler.starts.load(Ordering::SeqCst), 1);
}

async fn a_parked_or_stopping_job_is_not_started_for_an_ask(world: World) {
    let handler = Answerer::named("a");
    let node = world.builder("a").settings(Settings { max_attempts: 1, ..Settings::default() });
    let node = node.join().await.unwrap();
    node.add_worker(handler.clone()).await.unwrap();
    let parked = JobSpec::new("parked", "fails").restart(RestartPolicy::Always);
    assert!(node.dispatch(parked).await.is_err());
    assert_eq!(not_handled(node.ask("parked", "x").or_start(("parked", "")).await), NotHandled::Parked);
    node.dispatch(("stopping", "")).await.unwrap();
    let hanging = tokio::spawn(node.ask("stopping", "hang").deadline(PATIENCE).into_future());
    handler.hears("ask stopping hang").await;
    node.stop_job("stopping").await.unwrap();
    assert_eq!(not_handled(node.ask("stopping", "x").or_start(("stopping", "")).await), NotHandled::Stopping);
    assert!(is_unknown(&hanging.await.unwrap()));
}

async fn an_ask_whose_job_cannot_start_is_told_why(world: World) {
    let (asker, _owner, _) = pair(&world).await;
    let error = failed(asker.ask("other", "x").or_start(("other", "fails")).await);
    assert!(
        matches!(&error, Error::NotStarted(why) if matches!(**why, DispatchError::StartFailed(_))),
        "{error:?}"
    );
}

async fn an_ask_whose_job_starts_too_late_is_not_handled(world: World) {
    let node = world.node("b").await;
    until("an ask that has left its job behind", async || {
        let ask = node.ask("key", "x").or_start(("key", "")).deadline(SHORT);
        assert_eq!(not_handled(ask.await), NotHandled::Late);
        node.inspect().job("key").await.unwrap().is_some()
    })
    .await;
}

async fn a_job_that_ends_before_it_is_asked_is_started_again(world: World) {
    let (node, runs) = (world.node("a").await, Arc::new(AtomicUsize::new(0)));
    let seen = runs.clone();
    let handler = tenure_pool::run(move |job: Job| {
        let run = runs.fetch_add(1, Ordering::SeqCst);
        async move {
            if run > 2 {
                job.asked().await.answer("here");
                job.cancelled().await;
            }
            Ok(())
        }
    });
    node.add_worker(handler).await.unwrap();
    let ask = node.ask("key", "where?").or_start(("key", "")).idempotent().deadline(PATIENCE);
    assert_eq!(ask.await.unwrap(), "here");
    assert_eq!(seen.load(Ordering::SeqCst), 4);
}

async fn an_ask_with_another_job_to_start_is_refused(world: World) {
    let node = world.node("a").await;
    let too_long = vec![0; node.settings().payload_max as usize + 1];
    for job in [JobSpec::new("other", ""), JobSpec::new("key", "").id("order-17")] {
        let error = failed(node.ask("key", "x").or_start(job).await);
        assert!(matches!(error, Error::WrongStart { .. }), "{error:?}");
    }
    for job in [JobSpec::new("", ""), JobSpec::new("key", too_long)] {
        let error = failed(node.ask("key", "x").or_start(job).await);
        assert!(matches!(error, Error::NotStarted(_)), "{error:?}");
    }
    assert_eq!(node.inspect().jobs().await.unwrap(), []);
}

async fn a_pool_of_shards_starts_jobs_for_asks(world: World) {
    let world = world.with_shards(3);
    let handler = Answerer::named("a");
    let node = answering(&world, "a", &handler).await;
    for key in ["a", "b", "c", "d", "e", "f"] {
        assert_eq!(node.ask(key, "x").or_start((key, "")).await.unwrap(), "a: x");
    }
}
