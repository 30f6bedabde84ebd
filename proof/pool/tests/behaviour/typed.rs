//! The data beside a job's bytes: the payload's type, the restart policy and the caller's trace.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use tenure_pool::job::NewPayload;
use tenure_pool::job::{ByType, DecodeError, TraceContext, layered};
use tenure_pool::{Ask, BoxError, DispatchError, Job, JobHandler, JobSpec, Payload, RestartPolicy, Start};
use tokio::sync::mpsc;

use crate::world::{PATIENCE, World, on_both_stores, until};

on_both_stores!(
    a_typed_payload_comes_out_as_it_went_in,
    a_payload_of_another_type_or_none_names_both,
    a_value_that_cannot_be_encoded_is_refused,
    the_policy_and_the_trace_travel_with_the_job,
    each_kind_of_job_has_its_own_handler,
    a_kind_without_a_handler_is_turned_away_by_its_name,
    a_layer_of_tower_is_around_the_starts,
);

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Feed {
    url: String,
    depth: u32,
}

impl Payload for Feed {
    const TYPE: &'static str = "feed";
}

/// The same type in a later version of the program.
#[derive(Debug, Serialize, Deserialize)]
struct LaterFeed {
    #[serde(default)]
    colour: Option<String>,
    url: String,
}

impl Payload for LaterFeed {
    const TYPE: &'static str = "feed";
}

#[derive(Debug, Serialize, Deserialize)]
struct Order(u32);

impl Payload for Order {
    const TYPE: &'static str = "order";
}

fn feed() -> Feed {
    Feed { url: "wss://acme".into(), depth: 7 }
}

/// A node whose worker passes on the jobs that it starts.
async fn showing(world: &World) -> (tenure_pool::Node, mpsc::UnboundedReceiver<Job>) {
    let node = world.node("a").await;
    let (started, jobs) = mpsc::unbounded_channel();
    let handler = tenure_pool::run(move |job: Job| {
        started.send(job.clone()).unwrap();
        async move {
            job.cancelled().await;
            Ok(())
        }
    });
    node.add_worker(handler).await.unwrap();
    (node, jobs)
}

async fn a_typed_payload_comes_out_as_it_went_in(world: World) {
    let (node, mut jobs) = showing(&world).await;
    node.dispatch(JobSpec::typed("acme", &feed())).await.unwrap();
    let job = jobs.recv().await.unwrap();
    assert_eq!(job.payload_type().as_deref(), Some("feed"));
    assert_eq!(job.decode::<Feed>().unwrap(), feed());
    let later: LaterFeed = job.decode().unwrap();
    assert_eq!((later.url, later.colour), (feed().url, None));
    node.submit(JobSpec::typed("zenith", &LaterFeed { colour: Some("red".into()), url: "u".into() }))
        .await
        .unwrap();
    let missing = jobs.recv().await.unwrap().decode::<Feed>();
    assert!(matches!(missing, Err(DecodeError::Damaged { wanted: "feed", .. })), "{missing:?}");
}

async fn a_payload_of_another_type_or_none_names_both(world: World) {
    let (node, mut jobs) = showing(&world).await;
    node.dispatch(JobSpec::typed("acme", &feed())).await.unwrap();
    let other = jobs.recv().await.unwrap().decode::<Order>().unwrap_err();
    assert_eq!(other.to_string(), "the payload is \"feed\", not \"order\"");
    node.dispatch(("plain", "bytes")).await.unwrap();
    let plain = jobs.recv().await.unwrap();
    assert_eq!((plain.payload_type().as_deref(), &plain.payload()[..]), (None, &b"bytes"[..]));
    assert_eq!(plain.decode::<Order>().unwrap_err().to_string(), "the payload is of no type, not \"order\"");
}

async fn a_value_that_cannot_be_encoded_is_refused(world: World) {
    /// Its keys are no map's keys.
    #[derive(Deserialize)]
    struct Stubborn;
    impl Serialize for Stubborn {
        fn serialize<S: serde::Serializer>(&self, _: S) -> Result<S::Ok, S::Error> {
            Err(serde::ser::Error::custom("will not"))
        }
    }
    impl Payload for Stubborn {
        const TYPE: &'static str = "stubborn";
    }
    let node = world.node("a").await;
    let refused = node.dispatch(JobSpec::typed("key", &Stubborn)).await;
    assert!(matches!(refused, Err(DispatchError::Encode { kind: "stubborn", .. })), "{refused:?}");
    assert_eq!(node.inspect().jobs().await.unwrap(), vec![]);
}

async fn the_policy_and_the_trace_travel_with_the_job(world: World) {
    let (node, mut jobs) = showing(&world).await;
    let trace = TraceContext::new("00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01", "v=1").unwrap();
    node.dispatch(("plain", "")).await.unwrap();
    node.dispatch(("kept", "")).restart(RestartPolicy::Always).trace(trace.clone()).await.unwrap();
    let mut seen = BTreeMap::new();
    for _ in 0..2 {
        let job = jobs.recv().await.unwrap();
        seen.insert(job.key().to_string(), (job.restart_policy(), job.trace().cloned()));
    }
    assert_eq!(seen["plain"], (RestartPolicy::Never, None));
    assert_eq!(seen["kept"], (RestartPolicy::Always, Some(trace)));
}

/// Tells its own name and the key of each job at the start. Takes every update.
struct Named(&'static str, mpsc::UnboundedSender<(&'static str, String)>);

impl JobHandler for Named {
    async fn start(&self, job: Job) -> Start {
        self.1.send((self.0, job.key().to_string())).unwrap();
        Start::Started
    }

    async fn update(&self, _: &Job, _: NewPayload) -> Result<(), BoxError> {
        Ok(())
    }

    async fn ask(&self, _: &Job, ask: Ask) {
        ask.answer(self.0);
    }
}

/// What a handler tells next.
async fn next<T>(heard: &mut mpsc::UnboundedReceiver<T>) -> T {
    tokio::time::timeout(PATIENCE, heard.recv()).await.expect("a handler starts").unwrap()
}

async fn each_kind_of_job_has_its_own_handler(world: World) {
    let node = world.node("a").await;
    let (told, mut heard) = mpsc::unbounded_channel();
    let named = |name| Named(name, told.clone());
    let handler = ByType::new().on::<Feed>(named("feeds")).on::<Order>(named("orders"));
    node.add_worker(handler.otherwise(named("others"))).await.unwrap();
    node.dispatch(JobSpec::typed("acme", &feed())).await.unwrap();
    node.dispatch(JobSpec::typed("17", &Order(17))).await.unwrap();
    node.dispatch(("plain", "")).await.unwrap();
    for (name, key) in [("feeds", "acme"), ("orders", "17"), ("others", "plain")] {
        assert_eq!(next(&mut heard).await, (name, key.to_owned()));
        assert_eq!(node.ask(key, "").await.unwrap(), name);
    }
    node.update(JobSpec::typed("17", &Order(18))).await.unwrap();
    assert_eq!(node.ask("17", "").await.unwrap(), "orders");
    assert!(heard.try_recv().is_err(), "its handler has taken the payload");
    node.update(JobSpec::typed("17", &feed())).await.unwrap();
    assert_eq!(next(&mut heard).await, ("feeds", "17".to_owned()), "the other one begins it anew");
}

async fn a_kind_without_a_handler_is_turned_away_by_its_name(world: World) {
    let node = world.node("a").await;
    let (told, mut heard) = mpsc::unbounded_channel();
    node.add_worker(ByType::new().on::<Feed>(Named("feeds", told))).await.unwrap();
    node.submit(JobSpec::typed("17", &Order(17))).await.unwrap();
    node.submit(("plain", "")).await.unwrap();
    for (key, reason) in [
        ("17", "no handler for the payload type \"order\""),
        ("plain", "no handler for a payload without a type"),
    ] {
        let refusal = async || {
            let explained = node.inspect().explain(key).await.unwrap();
            explained.refusal.ok_or("it is not refused so far")
        };
        assert_eq!(until("the refusal", refusal).await, reason);
    }
    assert!(heard.try_recv().is_err());
}

async fn a_layer_of_tower_is_around_the_starts(world: World) {
    /// Never starts a job whose key says so.
    struct Slow;
    impl JobHandler for Slow {
        async fn start(&self, job: Job) -> Start {
            if job.key().as_str() == Some("slow") { std::future::pending().await } else { Start::Started }
        }

        async fn ask(&self, _: &Job, ask: Ask) {
            ask.answer("past the layer");
        }
    }
    let node = world.node("a").await;
    let within = tower::timeout::TimeoutLayer::new(Duration::from_millis(50));
    node.add_worker(layered(Slow, within)).await.unwrap();
    node.dispatch(("fast", "")).await.unwrap();
    assert_eq!(node.ask("fast", "").await.unwrap(), "past the layer");
    let failed = node.dispatch(("slow", "")).await.unwrap_err();
    assert!(matches!(&failed, DispatchError::StartFailed(why) if why.contains("timed out")), "{failed:?}");
}
