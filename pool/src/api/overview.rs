//! A pool at a glance.

use crate::api::figures::Figures;
use crate::api::listing::WorkerInfo;
use crate::api::shard_state::ShardState;
use crate::model::settings::Settings;
use crate::model::status::NodeStatus;

/// A pool at a glance: the answer of [`Inspector::overview`](crate::Inspector::overview).
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Overview {
    /// The state of each shard.
    pub shards: Vec<ShardState>,
    /// The pool-wide settings, of the first shard. A value that this version cannot read has its default.
    pub settings: Settings,
    /// The workers, shard by shard: each has an entry in every shard.
    pub workers: Vec<WorkerInfo>,
    /// How many jobs there are, and where.
    pub figures: Figures,
    /// The words of the nodes with workers about themselves, as of their last renewals.
    pub statuses: Vec<NodeStatus>,
}
