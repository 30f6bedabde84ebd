//! A gateway: an HTTP and WebSocket reverse proxy that sends each request to the process that owns its tenant.
//!
//! ```text
//!                     guess, without a round trip
//!  client ──request──► front ──────────────────────► node of the owner ──write, with token──► resource
//!                        ▲                                 │
//!                        └── 421: ask who owns it, again ◄─┘ not, or no longer, its owner
//! ```
//!
//! - [`owner`]: the service of a node. It answers for the tenants whose jobs run there, with the state in its memory.
//! - [`front`]: the proxy, a client of the pool. [`routes`] is its memory.
//! - [`resource`]: writes to a place outside, which takes none of a former owner.
//! - [`trial`]: three nodes under load, one of which leaves and one of which is killed: the [`load`] and its [`verdict`].
//!
//! An edge in front of it has to do what every edge does: bound slow clients, and authorise. It also strips `tenure-key`
//! from what clients send, or its rules for paths are passed by.
//!

pub mod cli;
pub mod front;
pub mod load;
pub mod owner;
pub mod resource;
pub mod routes;
pub mod trial;
pub mod verdict;

use axum::http::{HeaderMap, HeaderValue, Uri};
use tenure_pool::JobKey;
use tenure_pool::error::IdError;

/// The pool of the tenants.
const POOL: &str = "tenants";
/// The header with the tenant of a request. Without it, the first part of the path names the tenant, as it is written.
pub const KEY: &str = "tenure-key";
/// The header with the number of an order, which is a POST: each is written once.
pub const ORDER: &str = "order";
/// The header with the fencing token of the owner that answers.
pub const TOKEN: &str = "tenure-token";

/// The tenant that a request is for: its header, or the first part of its path.
fn key_of(uri: &Uri, headers: &HeaderMap) -> Result<JobKey, IdError> {
    let header = headers.get(KEY).map(HeaderValue::as_bytes);
    let named = header.unwrap_or_else(|| uri.path().split('/').nth(1).unwrap_or_default().as_bytes());
    JobKey::new(named.to_vec())
}
