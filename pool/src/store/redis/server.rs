//! The server of the pool, and the state of a pool on any server.

use std::sync::Arc;

use bytes::Bytes;
use redis::Value;
use tenure_connection::{ServerInfo, Version};
use tenure_steps::Failure;
use tokio::sync::watch;

use super::RedisStore;
use super::membership::is_recovering;
use super::reply::{Values, failed, unexpected};
use super::script::Clock;
use crate::model::id::{Incarnation, Revision};
use crate::model::member::Members;
use crate::model::settings::StoredSettings;
use crate::store::{
    OnRedis, PoolState, ReadIdentity, ReadState, ReadTime, Result, ServerIdentity, StoreError, Survey,
};

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

impl OnRedis for ReadState {
    async fn on_redis(&self, store: &RedisStore, _: Incarnation) -> Result<PoolState> {
        let mut command = redis::cmd("HMGET");
        command.arg(store.open.keys.named("pool"));
        command.arg(&["incarnation", "phase", "workers_revision", "settings_revision", "server", "closed"]);
        let value = store.open.command(&command).await?;
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
}

impl OnRedis for ReadIdentity {
    async fn on_redis(&self, store: &RedisStore, _: Incarnation) -> Result<ServerIdentity> {
        let info = store.info().await?;
        Ok(ServerIdentity {
            promoted: info.was_promoted(),
            uptime: info.uptime,
            flushed: info.flushed,
            run_id: info.identity.into(),
        })
    }
}

impl OnRedis for Survey {
    async fn on_redis(&self, store: &RedisStore, inc: Incarnation) -> Result<(PoolState, ServerIdentity)> {
        Ok((ReadState.on_redis(store, inc).await?, ReadIdentity.on_redis(store, inc).await?))
    }
}

impl OnRedis for ReadTime {
    async fn on_redis(&self, store: &RedisStore, _: Incarnation) -> Result<u64> {
        match store.clock {
            Clock::Server => {
                let reply =
                    store.steps.connection.command_at(store.steps.keys.prefix(), &redis::cmd("TIME")).await;
                let mut values = Values::of("TIME", reply.map_err(failed)?)?;
                Ok(values.number()?.saturating_mul(1_000).saturating_add(values.number()? / 1_000))
            }
            Clock::Key => {
                let reply =
                    store.steps.command(redis::cmd("GET").arg(store.steps.keys.named("clock"))).await?;
                Values::of("GET", redis::Value::Array(vec![reply]))?.number()
            }
        }
    }
}

impl RedisStore {
    pub(in crate::store) async fn server_checks(&self) -> Result<()> {
        let info = self.info().await?;
        if let Some(unsuitable) = unsuitable(info.version, &info.maxmemory_policy) {
            return Err(StoreError::Unusable(Failure::new(unsuitable)));
        }
        if !info.appendonly {
            tracing::warn!("redis keeps no append-only file: a restart loses what the pool holds");
        }
        Ok(())
    }

    pub(in crate::store) fn bless(&self, run_id: &str) {
        self.blessed.send_replace(Some(run_id.into()));
    }

    pub(in crate::store) fn blessed(&self) -> Option<Box<str>> {
        self.blessed.borrow().clone()
    }

    pub(in crate::store) fn members(&self) -> watch::Receiver<Arc<Members>> {
        self.maps.members()
    }

    pub(in crate::store) fn settings(&self) -> watch::Receiver<Arc<StoredSettings>> {
        self.maps.settings()
    }

    pub(in crate::store) fn expect(&self, inc: Incarnation, members: Revision, settings: Revision) {
        self.maps.expect(inc, members, settings);
    }

    pub(in crate::store) fn reread(&self, members: bool) {
        self.maps.reread(members);
    }

    pub(in crate::store) fn unfollowed(&self) -> Option<StoreError> {
        self.maps.trouble()
    }

    pub(in crate::store) async fn close(&self) {
        self.maps.close().await;
        for reads in [&self.pool_reads, &self.node_reads, &self.history_reads] {
            // A read in flight closes its connection itself when its future ends.
            if let Ok(mut reads) = reads.try_lock() {
                reads.close();
            }
        }
    }
}

impl RedisStore {
    /// The server's own description, or the reason why it cannot be reached at present. Callers try again.
    async fn info(&self) -> Result<ServerInfo> {
        let connection = self.open.connection.clone().without_retries();
        connection.server_of(self.open.keys.prefix()).await.map_err(failed)
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
