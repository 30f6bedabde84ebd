//! The reads of a server, and of a pool on any server.

use super::performing::read;
use super::{PoolState, ServerIdentity};

/// The state of the pool, from any answering server, blessed or not.
#[derive(Clone, Debug)]
pub struct ReadState;

read!(ReadState: "pool_state" -> PoolState);

/// The identity of the answering server.
#[derive(Clone, Debug)]
pub struct ReadIdentity;

read!(ReadIdentity: "server_identity" -> ServerIdentity);

/// The server's clock, ms.
#[derive(Clone, Debug)]
pub struct ReadTime;

read!(ReadTime: "server_time" -> u64);

/// The state of the pool and the identity of the server, from any answering server.
#[derive(Clone, Debug)]
pub struct Survey;

read!(Survey: "survey" -> (PoolState, ServerIdentity));
