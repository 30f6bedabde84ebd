//! A node answers probes and Prometheus over HTTP: `/livez`, `/readyz` and `/metrics`.

use std::convert::Infallible;
use std::net::{SocketAddr, TcpListener};
use std::sync::{Arc, OnceLock};
use std::thread;
use std::time::Duration;

use bytes::Bytes;
use http_body_util::Full;
use hyper::header::{CONTENT_TYPE, HeaderValue};
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use metrics_exporter_prometheus::{Matcher, PrometheusBuilder, PrometheusHandle};
use serde_json::json;
use tenure_pool::{Health, Node};
use tokio::time::interval;

use crate::exit::{Code, Failure};
use crate::http::{Bounds, Sent, serve, tcp};

const BOUNDS: Bounds = Bounds {
    connections: 256,
    head: Duration::from_secs(2),
    stall: Duration::from_secs(5),
    life: Duration::from_secs(10),
    rest: Duration::from_secs(5),
    keep_alive: false,
};
/// How often figures that nobody reads are put together.
const UPKEEP: Duration = Duration::from_secs(5);
/// The upper bounds of histograms, in seconds.
const BUCKETS: [f64; 14] =
    [0.0002, 0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.5, 1.0, 5.0, 30.0, 300.0];

/// Serves from its start on. The node becomes known when it has joined its pool.
#[derive(Clone)]
pub(crate) struct Probes {
    metrics: PrometheusHandle,
    joined: Arc<OnceLock<Joined>>,
}

/// A node that has joined its pool.
struct Joined {
    node: Node,
    lacks: Lacks,
}

/// Says what a node lacks yet that its own health does not know of.
type Lacks = Box<dyn Fn() -> Option<String> + Send + Sync>;

impl Probes {
    /// Starts to serve, on a thread of its own. It answers whatever the node's jobs do. Call it before the join: a node
    /// records nothing for a recorder that comes later.
    ///
    /// # Errors
    /// The address cannot be listened at.
    pub(crate) fn start(address: SocketAddr) -> Result<Self, Failure> {
        let listener = TcpListener::bind(address).map_err(|error| Failure::of_place(address, &error))?;
        listener.set_nonblocking(true)?;
        tracing::info!(address = %listener.local_addr()?, "serving /livez, /readyz and /metrics");
        let builder =
            PrometheusBuilder::new().set_buckets_for_metric(Matcher::Suffix("_seconds".into()), &BUCKETS);
        let metrics = builder
            .and_then(PrometheusBuilder::install_recorder)
            .map_err(|error| Failure::new(Code::Failed, format!("there are no metrics: {error}")))?;
        let probes = Self { metrics, joined: Arc::default() };
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let serving = probes.clone();
        let run = move || {
            let Err(error) = runtime.block_on(serving.serve(listener));
            tracing::error!(%error, "probes are not answered any more");
        };
        thread::Builder::new().name("probes".to_owned()).spawn(run)?;
        Ok(probes)
    }

    /// The node has joined its pool. It is ready when it is healthy and `lacks` nothing.
    pub(crate) fn joined(&self, node: &Node, lacks: impl Fn() -> Option<String> + Send + Sync + 'static) {
        // It joins once.
        let _ = self.joined.set(Joined { node: node.clone(), lacks: Box::new(lacks) });
    }

    async fn serve(self, listener: TcpListener) -> std::io::Result<Infallible> {
        let upkeep = self.metrics.clone();
        tokio::spawn(async move {
            let mut ticks = interval(UPKEEP);
            loop {
                ticks.tick().await;
                upkeep.run_upkeep();
            }
        });
        let service = service_fn(move |request: Request<Sent>| {
            let answer = self.answer(&request);
            async { Ok::<_, Infallible>(answer) }
        });
        Ok(serve(tcp(listener)?, BOUNDS, service).await)
    }

    fn answer<B>(&self, request: &Request<B>) -> Response<Full<Bytes>> {
        if !matches!(*request.method(), Method::GET | Method::HEAD) {
            return text(StatusCode::METHOD_NOT_ALLOWED, "ask with GET\n");
        }
        match request.uri().path() {
            "/metrics" => text(StatusCode::OK, self.metrics.render()),
            "/livez" => self.health(|health, _| !health.needs_restart(), true),
            "/readyz" => self.health(|health, lacks| health.is_ready() && !lacks, false),
            _ => text(StatusCode::NOT_FOUND, "there are /livez, /readyz and /metrics\n"),
        }
    }

    /// The node's health, with a status that says whether it is fine. It is asked of the health, and whether the node lacks
    /// something.
    fn health(&self, is_fine: impl Fn(&Health, bool) -> bool, before: bool) -> Response<Full<Bytes>> {
        let (fine, body) = match self.joined.get() {
            Some(Joined { node, lacks }) => {
                let (health, lacks) = (node.health(), lacks());
                let mut body = json!(health);
                if let (Some(lacks), Some(reasons)) = (&lacks, body["reasons"].as_array_mut()) {
                    reasons.push(json!(lacks));
                }
                (is_fine(&health, lacks.is_some()), body)
            }
            None => (before, json!({ "reasons": ["the node has not joined its pool yet"] })),
        };
        let mut answer = Response::new(Full::from(body.to_string()));
        *answer.status_mut() = if fine { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE };
        answer.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        answer
    }
}

fn text(status: StatusCode, text: impl Into<Bytes>) -> Response<Full<Bytes>> {
    let mut answer = Response::new(Full::new(text.into()));
    *answer.status_mut() = status;
    answer
        .headers_mut()
        .insert(CONTENT_TYPE, HeaderValue::from_static("text/plain; version=0.0.4; charset=utf-8"));
    answer
}
