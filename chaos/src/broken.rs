//! Nodes that are broken on purpose: what the judges must find.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use tenure_connection::Client;
use tenure_pool::breakage::{Breakage, Breakages, ScriptPatch};
use tenure_pool::id::PoolName;
use tenure_pool::store::{RedisStore, Store};
use tenure_pool::{Node, NodeBuilder};

use crate::Result;

/// What is left out of the protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, clap::ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub enum Broken {
    /// A worker whose lease has run out goes on.
    NoSelfFence,
    /// A job is begun by whoever asks, under whatever token.
    BeginUnchecked,
    /// A job is handed on before its handler has ended.
    HandOffBeforeStop,
}

/// In `begin`: a record that is not this worker's under this token is made so.
const BEGIN_UNCHECKED: ScriptPatch = ScriptPatch {
    script: "begin",
    from: "local begun, news = gsub(r, first, begun_first, 1)",
    to: "r = gsub(r, '^1|[QAR]|[^|]*|%d+', '1|A' .. mine)
    local begun, news = gsub(r, first, begun_first, 1)",
};

impl Broken {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::NoSelfFence, Self::BeginUnchecked, Self::HandOffBeforeStop];

    /// A node of this pool that is broken so.
    ///
    /// # Errors
    /// The pool's name is not valid.
    pub fn builder(self, pool: &str, client: Client) -> Result<NodeBuilder> {
        let of = |breakage| Breakages::of([breakage]);
        Ok(match self {
            Self::NoSelfFence => Node::builder(pool, client).broken(of(Breakage::NoSelfFence)),
            Self::HandOffBeforeStop => Node::builder(pool, client).broken(of(Breakage::HandOffBeforeStop)),
            Self::BeginUnchecked => {
                let store =
                    RedisStore::open_patched(&client, &PoolName::new(pool)?, false, &[BEGIN_UNCHECKED]);
                Node::builder(pool, Arc::new(store) as Arc<dyn Store>)
            }
        })
    }
}
