//! Which worker or node a command means.

use std::fmt;
use std::str::FromStr;

use tenure_pool::WorkerId;
use tenure_pool::inspect::WorkerInfo;

/// A worker by its id, or a node by its name. With several shards, `SHARD:ID` names the entry of one shard.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Named {
    Worker { shard: Option<usize>, id: WorkerId },
    Node(String),
}

impl FromStr for Named {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (shard, id) = text.split_once(':').map_or((None, text), |(shard, id)| (Some(shard), id));
        let shard = shard.map(str::parse).transpose();
        match (shard, id.parse()) {
            (Ok(shard), Ok(id)) if !text.contains('+') => Ok(Self::Worker { shard, id: WorkerId(id) }),
            _ if text.is_empty() => Err("the name of a worker or node is empty".to_owned()),
            _ => Ok(Self::Node(text.to_owned())),
        }
    }
}

impl fmt::Display for Named {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Worker { shard: Some(shard), id } => write!(f, "worker {shard}:{id}"),
            Self::Worker { shard: None, id } => write!(f, "worker {id}"),
            Self::Node(name) => write!(f, "node {name}"),
        }
    }
}

impl Named {
    /// Whether this worker is meant.
    pub(crate) fn means(&self, worker: &WorkerInfo) -> bool {
        match self {
            Self::Worker { shard, id } => worker.id == *id && shard.is_none_or(|shard| shard == worker.shard),
            Self::Node(name) => worker.node == *name,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_workers_and_other_names_are_nodes() {
        let worker = |shard, id| Ok(Named::Worker { shard, id: WorkerId(id) });
        assert_eq!("41".parse(), worker(None, 41));
        assert_eq!("2:41".parse(), worker(Some(2), 41));
        assert_eq!("feeds-7".parse(), Ok(Named::Node("feeds-7".into())));
        assert_eq!("a:41".parse(), Ok(Named::Node("a:41".into())));
        assert_eq!("+41".parse(), Ok(Named::Node("+41".into())));
        assert!("".parse::<Named>().is_err());
    }
}
