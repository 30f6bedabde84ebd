//! The proxy. It guesses the owner of a request's tenant, and corrects the guess when the owner's process says so.

use std::error::Error;
use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::{Request, State};
use axum::http::header::{CONNECTION, HeaderMap, HeaderName, HeaderValue, RETRY_AFTER, UPGRADE};
use axum::http::request::Parts;
use axum::http::{Method, StatusCode};
use axum::response::{IntoResponse, Response};
use futures::StreamExt;
use http_body_util::{BodyExt, Full, LengthLimitError, Limited};
use hyper::body::Incoming;
use hyper::upgrade::OnUpgrade;
use hyper_util::client::legacy::Client as HttpClient;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use tenure_connection::Client;
use tenure_pool::inspect::PoolPhase;
use tenure_pool::{JobKey, JobState, Node};
use tokio::net::TcpListener;
use tokio::time::{sleep, timeout};
use tracing::debug;

use super::routes::Routes;
use super::{KEY, POOL, TOKEN, key_of};

/// A longer body is refused: it could not be sent again after a 421.
const BODY_MAX: usize = 64 * 1024;
const CONNECT: Duration = Duration::from_secs(1);
/// The time for a request's body, for the head of an answer, and for each piece of the answer's body.
const TRANSFER: Duration = Duration::from_secs(30);
/// The interval at which the system looks whether a silent owner's machine is still there.
const KEEP_ALIVE: Duration = Duration::from_secs(30);
const FIRST_PAUSE: Duration = Duration::from_millis(20);
const LONGEST_PAUSE: Duration = Duration::from_millis(250);
/// These headers are between two neighbours (RFC 9110, 7.6.1).
const BETWEEN_NEIGHBOURS: [&str; 9] = [
    "connection",
    "keep-alive",
    "proxy-authenticate",
    "proxy-authorization",
    "proxy-connection",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
];

/// A front: a client of the pool, and the connections to the owners' processes.
#[derive(Debug)]
pub struct Front {
    node: Node,
    http: HttpClient<HttpConnector, Full<Bytes>>,
    routes: Routes,
    patience: Duration,
    ensures: bool,
}

/// A request that can be sent more than once.
struct Again {
    key: JobKey,
    head: Parts,
    body: Bytes,
    upgrade: Option<OnUpgrade>,
}

/// The result of one attempt.
enum Attempt {
    Answered(Response),
    /// The process is not the owner's, and has done nothing; or it could not be reached.
    Elsewhere,
    /// The request was sent, and no owner has answered: it may have had its effect.
    Unknown(String),
}

impl Front {
    /// Joins the pool as a client. `patience`: how long a request waits for an owner. `ensures`: a request for an unknown
    /// tenant dispatches its job.
    ///
    /// # Errors
    /// An invalid address, or an error of the pool.
    ///
    /// # Cancel safety
    /// As [`NodeBuilder::join`](tenure_pool::NodeBuilder::join).
    pub async fn join(redis: &str, patience: Duration, ensures: bool) -> Result<Arc<Self>, Box<dyn Error>> {
        let node = Node::builder(POOL, Client::open(redis)?).client_only().join().await?;
        let mut connector = HttpConnector::new();
        connector.set_connect_timeout(Some(CONNECT));
        connector.set_nodelay(true);
        connector.set_keepalive(Some(KEEP_ALIVE));
        let http = HttpClient::builder(TokioExecutor::new()).pool_timer(TokioTimer::new()).build(connector);
        Ok(Arc::new(Self { node, http, routes: Routes::default(), patience, ensures }))
    }

    /// Its node.
    pub fn node(&self) -> &Node {
        &self.node
    }

    /// Serves until the listener fails or the future is dropped.
    ///
    /// # Errors
    /// A network error of the listener.
    ///
    /// # Cancel safety
    /// Requests in progress end when it is dropped.
    pub async fn serve(self: Arc<Self>, listener: TcpListener) -> std::io::Result<()> {
        axum::serve(listener, Router::new().fallback(take).with_state(self)).await
    }

    /// Sends the request to the owner, again after each 421, until it is answered or the patience is over.
    async fn forward(&self, mut request: Again) -> Response {
        let (deadline, mut pause) = (Instant::now() + self.patience, FIRST_PAUSE);
        let left = || deadline.saturating_duration_since(Instant::now());
        let key = request.key.clone();
        let mut to = self.routes.exception(&key).or_else(|| self.guess(&key));
        loop {
            if let Some(address) = &to {
                match self.attempt(address, &mut request).await {
                    Attempt::Answered(response) => return response,
                    Attempt::Elsewhere => {}
                    Attempt::Unknown(why) if !request.head.method.is_idempotent() => {
                        let text = format!("the request may have had its effect: {why}");
                        return (StatusCode::BAD_GATEWAY, text).into_response();
                    }
                    Attempt::Unknown(why) => debug!(%key, why, "a request is sent again"),
                }
            }
            self.routes.forget(&key);
            if self.ensures {
                // It is there if it was accepted before; then this is a read.
                let _ = timeout(left(), self.node.ensure((key.clone(), "")).deadline(left())).await;
            }
            let owner = timeout(left(), self.node.inspect().owner(key.clone())).await;
            if matches!(owner, Ok(Ok(None))) && self.is_unknown(&key, left()).await {
                return (StatusCode::NOT_FOUND, "there is no such tenant").into_response();
            }
            let owner =
                owner.ok().and_then(Result::ok).flatten().filter(|owner| owner.state == JobState::Running);
            let known = owner.map(|owner| owner.address).filter(|address| !address.is_empty());
            if let Some(address) = known.filter(|address| to.as_ref() != Some(address)) {
                self.routes.except(&key, &address);
                to = Some(address);
                continue;
            }
            if left() <= pause {
                let text = "no owner has answered";
                return (StatusCode::SERVICE_UNAVAILABLE, [(RETRY_AFTER, "1")], text).into_response();
            }
            sleep(pause).await;
            pause = (pause * 2).min(LONGEST_PAUSE);
            to = to.or_else(|| self.guess(&key));
        }
    }

    fn guess(&self, key: &JobKey) -> Option<String> {
        let guess = self.node.guess(key.clone()).ok().flatten()?;
        Some(guess.address).filter(|address| !address.is_empty())
    }

    async fn attempt(&self, address: &str, request: &mut Again) -> Attempt {
        let mut head = request.head.clone();
        let path = head.uri.path_and_query().map_or("/", |path| path.as_str());
        let Ok(uri) = format!("{address}{path}").parse() else {
            let text = format!("the owner publishes an address that is none: {address}");
            return Attempt::Answered((StatusCode::BAD_GATEWAY, text).into_response());
        };
        head.uri = uri;
        let known = self.routes.token(&request.key);
        let sent = self.http.request(hyper::Request::from_parts(head, Full::new(request.body.clone())));
        let mut response = match timeout(TRANSFER, sent).await {
            Ok(Ok(response)) => response,
            Ok(Err(error)) if error.is_connect() => return Attempt::Elsewhere,
            Ok(Err(error)) => return Attempt::Unknown(format!("the owner's connection broke: {error}")),
            Err(_) => return Attempt::Answered(StatusCode::GATEWAY_TIMEOUT.into_response()),
        };
        if response.status() == StatusCode::MISDIRECTED_REQUEST {
            return Attempt::Elsewhere;
        }
        match response.headers().get(TOKEN).and_then(|token| token.to_str().ok()?.parse().ok()) {
            // A later owner had answered before this request was sent.
            Some(token) if token < known => return Attempt::Unknown("a former owner has answered".into()),
            Some(token) => self.routes.saw(&request.key, token),
            None => {}
        }
        if response.status() == StatusCode::SWITCHING_PROTOCOLS {
            if let Some(near) = request.upgrade.take() {
                tokio::spawn(join_ends(near, hyper::upgrade::on(&mut response)));
            }
        } else {
            between_neighbours(response.headers_mut());
        }
        Attempt::Answered(response.map(in_pieces))
    }

    /// There is no job with this key, and none that a worker may still report.
    async fn is_unknown(&self, key: &JobKey, left: Duration) -> bool {
        let is_open = self.node.health().phase == PoolPhase::Open;
        is_open && matches!(timeout(left, self.node.inspect().job(key.clone())).await, Ok(Ok(None)))
    }
}

/// Takes a request as it comes.
async fn take(State(front): State<Arc<Front>>, mut request: Request) -> Response {
    let key = match key_of(request.uri(), request.headers()) {
        Ok(key) => key,
        Err(error) => return (StatusCode::BAD_REQUEST, error.to_string()).into_response(),
    };
    // No other protocol: the far end could take requests for other tenants by it.
    let protocol = request.headers().get(UPGRADE).map(HeaderValue::as_bytes);
    let upgrades = request.method() == Method::GET
        && protocol.is_some_and(|protocol| protocol.eq_ignore_ascii_case(b"websocket"));
    let upgrade = upgrades.then(|| hyper::upgrade::on(&mut request));
    let (mut head, body) = request.into_parts();
    let body = match timeout(TRANSFER, Limited::new(body, BODY_MAX).collect()).await {
        Ok(Ok(body)) => body.to_bytes(),
        Ok(Err(error)) if error.is::<LengthLimitError>() => {
            let text = format!("a body has at most {BODY_MAX} bytes");
            return (StatusCode::PAYLOAD_TOO_LARGE, text).into_response();
        }
        Ok(Err(error)) => return (StatusCode::BAD_REQUEST, error.to_string()).into_response(),
        Err(_) => return StatusCode::REQUEST_TIMEOUT.into_response(),
    };
    between_neighbours(&mut head.headers);
    if upgrades {
        head.headers.insert(CONNECTION, HeaderValue::from_static("upgrade"));
        head.headers.insert(UPGRADE, HeaderValue::from_static("websocket"));
    }
    let Ok(value) = HeaderValue::from_bytes(key.as_bytes()) else {
        return (StatusCode::BAD_REQUEST, "a tenant has no control characters").into_response();
    };
    head.headers.insert(HeaderName::from_static(KEY), value);
    front.forward(Again { key, head, body, upgrade }).await
}

/// Removes what concerns two neighbours only.
fn between_neighbours(headers: &mut HeaderMap) {
    let named: Vec<HeaderName> = headers
        .get_all(CONNECTION)
        .iter()
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(','))
        .filter_map(|name| name.trim().parse().ok())
        .collect();
    for name in named {
        headers.remove(name);
    }
    for name in BETWEEN_NEIGHBOURS {
        headers.remove(name);
    }
}

/// The body of an answer, which breaks off if its next piece takes too long.
fn in_pieces(body: Incoming) -> Body {
    Body::from_stream(futures::stream::unfold(Body::new(body).into_data_stream(), async |mut body| {
        let piece = match timeout(TRANSFER, body.next()).await {
            Ok(piece) => piece?,
            Err(late) => Err(axum::Error::new(late)),
        };
        Some((piece, body))
    }))
}

/// Passes the bytes of two upgraded connections on, until one of them ends.
async fn join_ends(near: OnUpgrade, far: OnUpgrade) {
    match tokio::try_join!(near, far) {
        Ok((near, far)) => {
            let (mut near, mut far) = (TokioIo::new(near), TokioIo::new(far));
            if let Err(error) = tokio::io::copy_bidirectional(&mut near, &mut far).await {
                debug!(%error, "an upgraded connection broke");
            }
        }
        Err(error) => debug!(%error, "a connection was not upgraded"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_concerns_two_neighbours_is_not_passed_on() {
        let mut headers = HeaderMap::new();
        for (name, value) in [
            ("connection", "x-own, close"),
            ("x-own", "1"),
            ("proxy-connection", "keep-alive"),
            ("transfer-encoding", "chunked"),
            ("accept", "text/plain"),
        ] {
            headers.insert(HeaderName::from_static(name), HeaderValue::from_static(value));
        }
        between_neighbours(&mut headers);
        assert_eq!(headers.keys().map(HeaderName::as_str).collect::<Vec<_>>(), ["accept"]);
    }
}
