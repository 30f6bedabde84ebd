//! Nodes that are broken on purpose, so that the judges must find them.

use serde::{Deserialize, Serialize};
use tenure_connection::Client;
use tenure_pool::store::{RedisStore, Store};
use tenure_pool::{Node, NodeBuilder};
use tenure_protocol::model::id::PoolName;
use tenure_protocol::mutation::{Mutation, Mutations, ScriptPatch};

use crate::Result;

/// The number of findings that a control needs: fewer may be luck.
pub const ENOUGH: usize = 10;

/// The missing part of the protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, clap::ValueEnum)]
#[serde(rename_all = "kebab-case")]
#[value(rename_all = "kebab-case")]
pub enum Broken {
    /// A worker continues after its lease has run out.
    NoSelfFence,
    /// Any worker may begin a job, under any token.
    BeginUnchecked,
    /// A job is handed off before its handler has ended.
    HandOffBeforeStop,
    /// A job begins without the checkpoint that it has.
    CheckpointsForgotten,
    /// An ask that its owner may have handled goes to the next owner, too.
    DoubtfulAsksSentAgain,
}

/// In `begin`: rewrites a record that is not this worker's under this token so that it is.
const BEGIN_UNCHECKED: ScriptPatch = ScriptPatch {
    script: "begin",
    from: "local begun, news = gsub(r, first, begun_first, 1)",
    to: "r = gsub(r, '^1|[QAR]|[^|]*|%d+', '1|A' .. mine)
    local begun, news = gsub(r, first, begun_first, 1)",
};

/// In `begin`, and in the grants of `route`: brings no checkpoint.
const CHECKPOINTS_FORGOTTEN: [ScriptPatch; 2] = [
    ScriptPatch { script: "begin", from: "header and state and given(header)", to: "false" },
    ScriptPatch { script: "route", from: "if header and given(header) then", to: "if false then" },
];

impl Broken {
    /// Whether the nodes of those who ask are broken, and not only those with workers.
    pub fn is_of_askers(self) -> bool {
        self == Self::DoubtfulAsksSentAgain
    }

    /// A node of this pool, broken in this way.
    ///
    /// # Errors
    /// The pool's name is not valid.
    pub fn builder(self, pool: &str, client: Client) -> Result<NodeBuilder> {
        let of = |mutation| Mutations::of([mutation]);
        Ok(match self {
            Self::NoSelfFence => Node::builder(pool, client).broken(of(Mutation::NoSelfFence)),
            Self::HandOffBeforeStop => Node::builder(pool, client).broken(of(Mutation::HandOffBeforeStop)),
            Self::DoubtfulAsksSentAgain => {
                Node::builder(pool, client).broken(of(Mutation::DoubtfulAskSentAgain))
            }
            Self::BeginUnchecked => patched(pool, &client, &[BEGIN_UNCHECKED])?,
            Self::CheckpointsForgotten => patched(pool, &client, &CHECKPOINTS_FORGOTTEN)?,
        })
    }
}

/// A node with broken scripts.
fn patched(pool: &str, client: &Client, patches: &[ScriptPatch]) -> Result<NodeBuilder> {
    let store = RedisStore::open_patched(client, &PoolName::new(pool)?, false, patches);
    Ok(Node::builder(pool, Store::from(store)))
}
