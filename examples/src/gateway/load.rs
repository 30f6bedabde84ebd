//! The load of a self-test: clients with requests and orders, and conversations. They judge each answer.

use std::collections::HashMap;
use std::fmt::Display;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use axum::http::{Method, StatusCode};
use futures::{SinkExt, StreamExt};
use http_body_util::{BodyExt, Empty};
use hyper::body::Bytes;
use hyper_util::client::legacy::Client as HttpClient;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use rand::Rng;
use tokio::time::{sleep, timeout};
use tokio_tungstenite::tungstenite::Message;
use tokio_util::sync::CancellationToken;

use super::ORDER;
use super::owner::{Answer, COME_AGAIN};
use super::verdict::Verdict;
use crate::PATIENCE;

/// The pause between two messages of a conversation.
const BEAT: Duration = Duration::from_millis(50);

/// The clients' view.
#[derive(Debug, Default)]
pub struct Seen {
    /// The figures so far.
    pub verdict: Verdict,
    /// The highest token that each tenant was answered with.
    pub tokens: HashMap<String, u64>,
    /// The orders so far, and whether each was answered.
    pub orders: Vec<bool>,
    /// The token of each conversation's last answer.
    pub talks: HashMap<String, u64>,
}

/// The load on one front. Its clones share what they have seen.
#[derive(Clone, Debug)]
pub struct Load {
    front: String,
    http: HttpClient<HttpConnector, Empty<Bytes>>,
    seen: Arc<Mutex<Seen>>,
    over: CancellationToken,
}

impl Load {
    /// A load on the front at this address.
    pub fn on(front: String) -> Self {
        let http = HttpClient::builder(TokioExecutor::new()).build_http();
        Self { front, http, seen: Arc::default(), over: CancellationToken::new() }
    }

    /// The answers and faults so far.
    pub fn seen(&self) -> MutexGuard<'_, Seen> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Ends the load: each client ends after its answer.
    pub fn end(&self) {
        self.over.cancel();
    }

    /// One client: asks for tenants, and orders now and then, one after the other.
    ///
    /// # Cancel safety
    /// A dropped client leaves a request unanswered.
    pub async fn ask(self, tenants: Vec<String>) {
        while !self.over.is_cancelled() {
            let (at, orders) = {
                let mut rng = rand::rng();
                (rng.random_range(0..tenants.len()), rng.random_ratio(1, 4))
            };
            let tenant = &tenants[at];
            let known = self.known(tenant);
            let order = orders.then(|| {
                let all = &mut self.seen().orders;
                all.push(false);
                all.len() - 1
            });
            let began = Instant::now();
            let answer = timeout(2 * PATIENCE, self.request(tenant, order)).await;
            let answer = answer.unwrap_or_else(|late| Err(late.to_string()));
            self.judge(tenant, known, order, began.elapsed(), answer);
        }
    }

    fn known(&self, tenant: &str) -> u64 {
        self.seen().tokens.get(tenant).copied().unwrap_or(0)
    }

    /// The answer; `None` after a 502 to an order.
    async fn request(&self, tenant: &str, order: Option<usize>) -> Result<Option<Answer>, String> {
        let mut request = hyper::Request::builder().uri(format!("http://{}/{tenant}/orders", self.front));
        if let Some(order) = order {
            request = request.method(Method::POST).header(ORDER, order.to_string());
        }
        let response = self.http.request(request.body(Empty::new()).map_err(text)?).await.map_err(text)?;
        let status = response.status();
        let body = response.into_body().collect().await.map_err(text)?.to_bytes();
        match status {
            StatusCode::OK => Ok(Some(serde_json::from_slice(&body).map_err(text)?)),
            StatusCode::BAD_GATEWAY if order.is_some() => Ok(None),
            _ => Err(format!("{status} {}", String::from_utf8_lossy(&body))),
        }
    }

    fn judge(
        &self,
        tenant: &str,
        known: u64,
        order: Option<usize>,
        took: Duration,
        answer: Result<Option<Answer>, String>,
    ) {
        let mut seen = self.seen();
        let Seen { verdict, tokens, orders, .. } = &mut *seen;
        match answer {
            Ok(Some(answer)) => {
                verdict.answered += 1;
                *verdict.by_node.entry(answer.node).or_default() += 1;
                verdict.longest_ms = verdict.longest_ms.max(took.as_millis());
                verdict.stale += u64::from(answer.token < known || answer.tenant != tenant);
                let token = tokens.entry(tenant.to_owned()).or_default();
                *token = answer.token.max(*token);
                if let Some(answered) = order.and_then(|order| orders.get_mut(order)) {
                    *answered = true;
                }
            }
            Ok(None) => verdict.unknown += 1,
            Err(error) => {
                tracing::warn!(tenant, error, "a request was not answered");
                verdict.unanswered += 1;
            }
        }
    }

    /// Talks with the owners of a tenant: with each until it goes, then it comes again.
    ///
    /// # Cancel safety
    /// A dropped conversation ends.
    pub async fn talk(self, tenant: String) {
        while !self.over.is_cancelled() {
            if let Err(error) = self.converse(&tenant).await {
                tracing::debug!(tenant, error, "a conversation broke");
            }
            sleep(BEAT).await;
        }
    }

    async fn converse(&self, tenant: &str) -> Result<(), String> {
        let url = format!("ws://{}/{tenant}/talk", self.front);
        let connected = timeout(2 * PATIENCE, tokio_tungstenite::connect_async(url)).await.map_err(text)?;
        let (mut socket, _) = connected.map_err(text)?;
        while !self.over.is_cancelled() {
            let known = self.known(tenant);
            timeout(PATIENCE, socket.send(Message::text("here"))).await.map_err(text)?.map_err(text)?;
            match timeout(PATIENCE, socket.next()).await.map_err(text)?.transpose().map_err(text)? {
                Some(Message::Text(answer)) => {
                    let token = answer.split(' ').next().and_then(|token| token.parse().ok());
                    self.heard(tenant, known, token.ok_or("no token")?);
                }
                Some(Message::Close(Some(frame))) if u16::from(frame.code) == COME_AGAIN => {
                    self.seen().verdict.told_to_come_again += 1;
                    return Ok(());
                }
                _ => return Ok(()),
            }
            sleep(BEAT).await;
        }
        Ok(())
    }

    /// A message that was sent when this token was known was answered under another.
    fn heard(&self, tenant: &str, known: u64, token: u64) {
        let mut seen = self.seen();
        seen.verdict.said += 1;
        seen.verdict.stale += u64::from(token < known);
        seen.talks.insert(tenant.to_owned(), token);
        let highest = seen.tokens.entry(tenant.to_owned()).or_default();
        *highest = token.max(*highest);
    }
}

fn text(error: impl Display) -> String {
    error.to_string()
}
