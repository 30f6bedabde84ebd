//! The data beside a job's bytes: the payload's type, the restart policy and the caller's trace.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use tenure_pool::job::DecodeError;
use tenure_pool::job::TraceContext;
use tenure_pool::{DispatchError, Job, JobSpec, Payload, RestartPolicy};
use tokio::sync::mpsc;

use crate::world::{World, on_both_stores};

on_both_stores!(
    a_typed_payload_comes_out_as_it_went_in,
    a_payload_of_another_type_or_none_names_both,
    a_value_that_cannot_be_encoded_is_refused,
    the_policy_and_the_trace_travel_with_the_job,
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
