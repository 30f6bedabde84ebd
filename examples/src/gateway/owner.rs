//! The service of a node: it answers for the tenants whose jobs run there, and with 421 for all others.

use std::collections::HashMap;
use std::error::Error;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use axum::Router;
use axum::extract::State;
use axum::extract::ws::rejection::WebSocketUpgradeRejection;
use axum::extract::ws::{CloseFrame, Message, WebSocket, WebSocketUpgrade};
use axum::http::{HeaderMap, HeaderValue, Method, StatusCode, Uri};
use axum::response::{IntoResponse, Response};
use serde::{Deserialize, Serialize};
use tenure_connection::Client;
use tenure_pool::job::Serving;
use tenure_pool::{BoxError, CloseReport, Job, JobHandler, JobKey, Node, Start, StopReason, Token};
use tokio::net::TcpListener;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

use super::resource::Resource;
use super::{ORDER, POOL, TOKEN, key_of};

/// The time in which a node must leave.
const BUDGET: Duration = Duration::from_secs(10);
/// The time of open requests after the node has left. Later ones are answered elsewhere.
const LAST_ANSWERS: Duration = Duration::from_secs(2);
/// The time in which a client of a conversation takes a message.
const SEND: Duration = Duration::from_secs(5);
/// The code of a WebSocket whose server goes away, and whose client should come again: 1012, service restart.
pub const COME_AGAIN: u16 = 1012;

/// An answer of an owner.
#[derive(Debug, Serialize, Deserialize)]
pub struct Answer {
    /// The tenant.
    pub tenant: String,
    /// The fencing token of the owner.
    pub token: u64,
    /// The node that has answered.
    pub node: String,
    /// The requests since the tenant's job began here, from the memory of this process.
    pub here: u64,
}

/// The state of each job that runs here: how many requests it has had. A job's late end touches its own state only.
#[derive(Clone, Debug, Default)]
struct Tenants(Arc<Mutex<HashMap<(JobKey, Token), u64>>>);

impl Tenants {
    fn states(&self) -> MutexGuard<'_, HashMap<(JobKey, Token), u64>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Counts a request. `None` if the job does not run here any more.
    fn count(&self, job: &Job) -> Option<u64> {
        let mut states = self.states();
        let count = states.get_mut(&state_of(job))?;
        *count += 1;
        Some(*count)
    }
}

fn state_of(job: &Job) -> (JobKey, Token) {
    (job.key().clone(), job.token())
}

impl JobHandler for Tenants {
    async fn start(&self, job: Job) -> Start {
        self.states().insert(state_of(&job), 0);
        Start::Started
    }

    async fn stop(&self, job: &Job, _: StopReason) -> Result<(), BoxError> {
        self.states().remove(&state_of(job));
        Ok(())
    }
}

#[derive(Clone)]
struct Service {
    node: Node,
    tenants: Tenants,
    resource: Resource,
}

/// Runs a node with two workers, and its service. `address`: where fronts reach it, if that is not where it listens. Calls `ready` with its address, and ends when the process is told to.
///
/// # Errors
/// The port is taken, or an error of Redis or the pool.
///
/// # Cancel safety
/// Not safe: a node that has joined continues.
pub async fn run(
    redis: &str,
    name: &str,
    listen: &str,
    address: Option<String>,
    ttl: Duration,
    ready: impl FnOnce(&str),
) -> Result<CloseReport, Box<dyn Error>> {
    let listener = TcpListener::bind(listen).await?;
    let here = listener.local_addr()?;
    let address = match address {
        Some(address) => address,
        None if here.ip().is_unspecified() => {
            return Err("say with --address where fronts reach this node".into());
        }
        None => format!("http://{here}"),
    };
    let client = Client::open(redis)?;
    let resource = Resource::on(&client);
    let node = Node::builder(POOL, client).name(name).address(&address).serves().worker_ttl(ttl);
    let node = node.join().await?;
    let told_to_end = node.close_on_signal(BUDGET);
    let tenants = Tenants::default();
    let service = Service { node: node.clone(), tenants: tenants.clone(), resource };
    let routes = Router::new().fallback(take).with_state(service);
    let left = CancellationToken::new();
    let serving = axum::serve(listener, routes).with_graceful_shutdown(left.clone().cancelled_owned());
    let serving = tokio::spawn(serving.into_future());
    for _ in 0..2 {
        node.add_worker(tenants.clone()).await?;
    }
    ready(&address);
    let report = told_to_end.await?;
    left.cancel();
    // The answers that are not sent by then are cut off.
    let _ = timeout(LAST_ANSWERS, serving).await;
    Ok(report)
}

/// Looks first whether the tenant's job runs here: else the answer is 421, before a body is read.
async fn take(
    State(service): State<Service>,
    uri: Uri,
    method: Method,
    headers: HeaderMap,
    upgrade: Result<WebSocketUpgrade, WebSocketUpgradeRejection>,
) -> Response {
    let order = match order_of(&method, &headers) {
        Ok(order) => order,
        Err(refused) => return refused.into_response(),
    };
    let serving = match key_of(&uri, &headers).map(|key| service.node.serving(key)) {
        Ok(Ok(Some(serving))) => serving,
        Ok(Ok(None)) => return StatusCode::MISDIRECTED_REQUEST.into_response(),
        Ok(Err(error)) => return (StatusCode::INTERNAL_SERVER_ERROR, error.to_string()).into_response(),
        Err(error) => return (StatusCode::BAD_REQUEST, error.to_string()).into_response(),
    };
    let token = HeaderValue::from(serving.token().0);
    let mut response = match upgrade {
        Ok(upgrade) => upgrade.on_upgrade(|socket| echo(socket, serving)),
        Err(_) => service.answer(&serving, order).await,
    };
    response.headers_mut().insert(TOKEN, token);
    response
}

impl Service {
    async fn answer(&self, serving: &Serving, order: Option<&str>) -> Response {
        let Some(here) = self.tenants.count(serving.job()) else {
            return StatusCode::MISDIRECTED_REQUEST.into_response();
        };
        let (tenant, token) = (serving.job().key().to_string(), serving.token().0);
        // The resource decides: once it has taken the write, the answer is the owner's.
        match self.resource.write(&tenant, token, order).await {
            Ok(true) => {
                let node = self.node.name().to_owned();
                axum::Json(Answer { tenant, token, node, here }).into_response()
            }
            Ok(false) => StatusCode::MISDIRECTED_REQUEST.into_response(),
            Err(error) => failed(order, &error).into_response(),
        }
    }
}

/// The order of a request. Only a POST has one: when the answer to another method is lost, the front sends it again.
fn order_of<'h>(method: &Method, headers: &'h HeaderMap) -> Result<Option<&'h str>, StatusCode> {
    let Some(order) = headers.get(ORDER) else { return Ok(None) };
    if method != Method::POST {
        return Err(StatusCode::METHOD_NOT_ALLOWED);
    }
    let order = order.to_str().ok().filter(|order| !order.is_empty());
    order.map(Some).ok_or(StatusCode::BAD_REQUEST)
}

/// The answer after a write that failed. Clients send a request again after a 503, so an order that may be written gets
/// a 502.
fn failed(order: Option<&str>, error: &tenure_connection::Error) -> (StatusCode, String) {
    match order {
        Some(order) if error.may_have_executed() => {
            (StatusCode::BAD_GATEWAY, format!("the order {order} may be written: {error}"))
        }
        _ => (StatusCode::SERVICE_UNAVAILABLE, error.to_string()),
    }
}

/// Answers each message with the token and the message, while the job is here.
async fn echo(mut socket: WebSocket, serving: Serving) {
    loop {
        let message = tokio::select! {
            biased;
            () = serving.ended() => break,
            message = socket.recv() => message,
        };
        let answer = match message {
            // The process may have stood still, and the job may be elsewhere by now.
            Some(Ok(_)) if !serving.check() => break,
            Some(Ok(Message::Text(text))) => format!("{} {}", serving.token(), text.as_str()),
            Some(Ok(Message::Close(_)) | Err(_)) | None => return,
            Some(Ok(_)) => continue,
        };
        if !send(&mut socket, Message::text(answer)).await {
            return;
        }
    }
    let frame = CloseFrame { code: COME_AGAIN, reason: "the job moves".into() };
    send(&mut socket, Message::Close(Some(frame))).await;
}

/// False if the client is gone, or reads nothing.
async fn send(socket: &mut WebSocket, message: Message) -> bool {
    matches!(timeout(SEND, socket.send(message)).await, Ok(Ok(())))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_order_that_may_be_written_is_not_to_be_sent_again() {
        let late = tenure_connection::Error::TimedOut(Duration::from_secs(1));
        let refused =
            tenure_connection::Error::Server { code: "READONLY".into(), detail: "a replica".into() };
        let status = |order, error| failed(order, error).0;
        assert_eq!(status(Some("7"), &late), StatusCode::BAD_GATEWAY);
        assert_eq!(status(Some("7"), &refused), StatusCode::SERVICE_UNAVAILABLE);
        assert_eq!(status(None, &late), StatusCode::SERVICE_UNAVAILABLE, "it writes no order");
    }

    #[test]
    fn only_a_post_has_an_order() {
        let read = |method: &Method, order: Option<&'static str>| {
            let mut headers = HeaderMap::new();
            if let Some(order) = order {
                headers.insert(ORDER, HeaderValue::from_static(order));
            }
            order_of(method, &headers).map(|order| order.map(str::to_owned))
        };
        assert_eq!(read(&Method::POST, Some("7")), Ok(Some("7".to_owned())));
        assert_eq!(read(&Method::POST, Some("")), Err(StatusCode::BAD_REQUEST));
        for method in [Method::PUT, Method::GET, Method::DELETE] {
            assert_eq!(read(&method, Some("7")), Err(StatusCode::METHOD_NOT_ALLOWED), "{method}");
            assert_eq!(read(&method, None), Ok(None));
        }
    }
}
