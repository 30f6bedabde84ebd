//! The state of a pool, shard by shard, as the stores say it.

use serde::Serialize;

use crate::error::Error;
use crate::model::id::{Incarnation, Revision};
use crate::model::phase::PoolPhase;
use crate::store::{PoolState, ReadIdentity, ReadState, Store};

/// The state of one shard of a pool, as its store says it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct ShardState {
    /// The shard, from 0.
    pub shard: usize,
    /// Its phase. [`PoolPhase::Unknown`] if there is no such shard, and [`PoolPhase::Closed`] for a short time after it
    /// was shut down.
    pub phase: PoolPhase,
    /// The life of its data. It rises with each recovery from a loss of data. 0 if there is no such shard.
    pub incarnation: Incarnation,
    /// The revision of its members, which is the version of its ring.
    pub members: Revision,
    /// The revision of its settings.
    pub settings: Revision,
    /// Another server process answers than the one that the pool was last seen on: no node has looked yet whether data
    /// were lost.
    pub server_changed: bool,
}

impl ShardState {
    /// Reads it from the server that answers, and the shutdown flag from the copy of the settings.
    pub(crate) async fn read(store: &Store, shard: usize) -> Result<Self, Error> {
        let (state, server) =
            futures::future::try_join(store.read(&ReadState), store.read(&ReadIdentity)).await?;
        let absent = Self {
            shard,
            phase: PoolPhase::Unknown,
            incarnation: Incarnation(0),
            members: Revision(0),
            settings: Revision(0),
            server_changed: false,
        };
        Ok(match state {
            PoolState::Absent => absent,
            PoolState::Closed { incarnation } => Self { phase: PoolPhase::Closed, incarnation, ..absent },
            PoolState::Present { incarnation, recovering, members, settings, run_id, .. } => Self {
                shard,
                phase: phase(recovering, store),
                incarnation,
                members,
                settings,
                server_changed: run_id != server.run_id,
            },
        })
    }
}

fn phase(recovering: bool, store: &Store) -> PoolPhase {
    match store.settings().borrow().flag() {
        Some(flag) if flag.is_stopping() => PoolPhase::Stopping,
        Some(_) => PoolPhase::Closing,
        None if recovering => PoolPhase::Recovering,
        None => PoolPhase::Open,
    }
}
