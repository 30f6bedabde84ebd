//! The server of the pool, and the state of a pool on any server.

use std::sync::Arc;

use bytes::Bytes;
use redis::Value;
use tenure_connection::Version;

use super::membership::is_recovering;
use super::reply::{Values, failed, unexpected};
use super::script::Clock;
use super::steps::Steps;
use crate::model::id::Incarnation;
use crate::store::{PoolState, Result, ServerIdentity, StoreError};

const OLDEST: Version = Version { major: 7, minor: 0, patch: 0 };
pub(super) const POLICY: &str = "noeviction";

/// A server that is unsuitable for a pool. Nothing was written.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum UnsuitableServer {
    /// It lacks features that the scripts need.
    #[error("redis {found} is too old, at least {OLDEST} is needed")]
    TooOld {
        /// Its version.
        found: Version,
    },
    /// It may drop records when its memory is full.
    #[error("redis runs with maxmemory-policy {policy}, a pool needs {POLICY}")]
    Evicts {
        /// Its policy.
        policy: String,
    },
}

pub(super) async fn pool_state(steps: &Steps) -> Result<PoolState> {
    let mut command = redis::cmd("HMGET");
    command.arg(steps.keys.named("pool"));
    command.arg(&["incarnation", "phase", "workers_revision", "settings_revision", "server", "closed"]);
    let value = steps.command(&command).await?;
    let Value::Array(mut fields) = value else { return Err(unexpected("HMGET", "six values", &value)) };
    if fields.len() != 6 {
        return Err(unexpected("HMGET", "six values", &Value::Array(fields)));
    }
    // A value that no pool can have counts as none.
    let closed = fields.pop().and_then(|closed| {
        let number = Values::of("HMGET", Value::Array(vec![closed])).ok()?.number().ok()?;
        Incarnation(number).sound()
    });
    if fields.first() == Some(&Value::Nil) {
        return Ok(closed.map_or(PoolState::Absent, |incarnation| PoolState::Closed { incarnation }));
    }
    let mut values = Values::of("HMGET", Value::Array(fields))?;
    Ok(PoolState::Present {
        incarnation: Incarnation(values.number()?),
        recovering: is_recovering(&values.bytes()?),
        members: values.revision()?,
        settings: values.revision()?,
        run_id: String::from_utf8_lossy(&values.bytes_or_nil()?.unwrap_or_else(Bytes::new)).into_owned(),
        closed: closed.unwrap_or_default(),
    })
}

pub(super) async fn identity(steps: &Steps) -> Result<ServerIdentity> {
    let info = steps.connection.server_of(steps.keys.prefix()).await.map_err(failed)?;
    Ok(ServerIdentity {
        promoted: info.was_promoted(),
        uptime: info.uptime,
        flushed: info.flushed,
        run_id: info.identity.into(),
    })
}

pub(super) async fn checks(steps: &Steps) -> Result<()> {
    let info = steps.connection.server_of(steps.keys.prefix()).await.map_err(failed)?;
    if let Some(unsuitable) = unsuitable(info.version, &info.maxmemory_policy) {
        return Err(StoreError::Unusable(Arc::new(unsuitable)));
    }
    if !info.appendonly {
        tracing::warn!("redis keeps no append-only file: a restart loses what the pool holds");
    }
    Ok(())
}

/// The clock that the scripts see, ms.
pub(super) async fn time(steps: &Steps, clock: Clock) -> Result<u64> {
    match clock {
        Clock::Server => {
            let reply = steps.connection.command_at(steps.keys.prefix(), &redis::cmd("TIME")).await;
            let mut values = Values::of("TIME", reply.map_err(failed)?)?;
            Ok(values.number()?.saturating_mul(1_000).saturating_add(values.number()? / 1_000))
        }
        Clock::Key => {
            let reply = steps.command(redis::cmd("GET").arg(steps.keys.named("clock"))).await?;
            Values::of("GET", redis::Value::Array(vec![reply]))?.number()
        }
    }
}

fn unsuitable(version: Version, policy: &str) -> Option<UnsuitableServer> {
    if version < OLDEST {
        return Some(UnsuitableServer::TooOld { found: version });
    }
    (policy != POLICY).then(|| UnsuitableServer::Evicts { policy: policy.to_owned() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn old_and_evicting_servers_are_refused_by_name() {
        let version = |major, minor| Version { major, minor, patch: 3 };
        let why = |version, policy| unsuitable(version, policy).map(|reason| reason.to_string());
        assert_eq!(why(version(7, 0), "noeviction"), None);
        assert_eq!(
            why(version(6, 2), "noeviction").as_deref(),
            Some("redis 6.2.3 is too old, at least 7.0.0 is needed")
        );
        assert_eq!(
            why(version(8, 0), "allkeys-lru").as_deref(),
            Some("redis runs with maxmemory-policy allkeys-lru, a pool needs noeviction")
        );
    }
}
