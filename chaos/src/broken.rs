//! Nodes that are broken on purpose, so that the judges must find them.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use tenure_connection::Client;
use tenure_pool::id::PoolName;
use tenure_pool::mutation::{Mutation, Mutations, ScriptPatch};
use tenure_pool::store::{RedisStore, Store};
use tenure_pool::{Node, NodeBuilder};

use crate::Result;

/// The missing part of the protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, clap::ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub enum Broken {
    /// A worker continues after its lease has run out.
    NoSelfFence,
    /// Any worker may begin a job, under any token.
    BeginUnchecked,
    /// A job is handed off before its handler has ended.
    HandOffBeforeStop,
}

/// In `begin`: rewrites a record that is not this worker's under this token so that it is.
const BEGIN_UNCHECKED: ScriptPatch = ScriptPatch {
    script: "begin",
    from: "local begun, news = gsub(r, first, begun_first, 1)",
    to: "r = gsub(r, '^1|[QAR]|[^|]*|%d+', '1|A' .. mine)
    local begun, news = gsub(r, first, begun_first, 1)",
};

impl Broken {
    /// All kinds.
    pub const ALL: [Self; 3] = [Self::NoSelfFence, Self::BeginUnchecked, Self::HandOffBeforeStop];

    /// A node of this pool, broken in this way.
    ///
    /// # Errors
    /// The pool's name is not valid.
    pub fn builder(self, pool: &str, client: Client) -> Result<NodeBuilder> {
        let of = |mutation| Mutations::of([mutation]);
        Ok(match self {
            Self::NoSelfFence => Node::builder(pool, client).broken(of(Mutation::NoSelfFence)),
            Self::HandOffBeforeStop => Node::builder(pool, client).broken(of(Mutation::HandOffBeforeStop)),
            Self::BeginUnchecked => {
                let store =
                    RedisStore::open_patched(&client, &PoolName::new(pool)?, false, &[BEGIN_UNCHECKED]);
                Node::builder(pool, Arc::new(store) as Arc<dyn Store>)
            }
        })
    }
}
