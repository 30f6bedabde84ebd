//! The words of a node about itself with each renewal: a `MessagePack` map `{v, host, pid, version, up, workers}`, version first.

use std::time::Duration;

use bytes::Bytes;
use serde::{Deserialize, Serialize};

use super::id::WorkerId;
use super::serial;

/// The version that this crate writes, and the newest that it reads.
const VERSION: u64 = 1;

/// The words of a node with workers about itself, in one shard. They are as old as the node's last renewal. When serialized, times are
/// milliseconds.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct NodeStatus {
    /// The shard, from 0.
    pub shard: usize,
    /// The node's name.
    pub node: String,
    /// The name of its machine.
    pub host: String,
    /// The number of its process there.
    pub pid: u32,
    /// The version of this crate that it runs.
    pub version: String,
    /// How long it has been in the pool.
    #[serde(serialize_with = "serial::lapse")]
    pub up: Duration,
    /// Its workers.
    pub workers: Vec<WorkerCounts>,
}

/// The jobs in a worker's hands.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct WorkerCounts {
    /// The worker.
    #[serde(with = "number")]
    pub worker: WorkerId,
    /// Jobs that it holds.
    #[serde(default)]
    pub held: u64,
    /// Those of them that wait for their start.
    #[serde(default)]
    pub to_start: u64,
    /// Those that came from another worker, and have not started on this one.
    #[serde(default)]
    pub coming: u64,
    /// Those that belong elsewhere, and wait for their move.
    #[serde(default)]
    pub to_move: u64,
    /// Those whose handler does not end.
    #[serde(default)]
    pub stuck: u64,
    /// How many jobs it takes, in all shards together. `None`: all that it is given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub capacity: Option<u32>,
}

impl WorkerCounts {
    /// A worker with empty hands.
    #[doc(hidden)]
    pub fn new(worker: WorkerId) -> Self {
        Self { worker, held: 0, to_start: 0, coming: 0, to_move: 0, stuck: 0, capacity: None }
    }
}

mod number {
    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    use crate::model::id::WorkerId;

    #[allow(clippy::trivially_copy_pass_by_ref, reason = "serde gives a reference")]
    pub(super) fn serialize<S: Serializer>(worker: &WorkerId, to: S) -> Result<S::Ok, S::Error> {
        worker.0.serialize(to)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<WorkerId, D::Error> {
        u64::deserialize(from).map(WorkerId)
    }
}

#[derive(Serialize, Deserialize)]
struct Stored {
    v: u64,
    #[serde(default)]
    host: String,
    #[serde(default)]
    pid: u32,
    #[serde(default)]
    version: String,
    /// ms.
    #[serde(default)]
    up: u64,
    #[serde(default)]
    workers: Vec<WorkerCounts>,
}

impl NodeStatus {
    /// What the node of this process says. Only the reader knows the node's name and shard.
    #[doc(hidden)]
    pub fn new(host: String, pid: u32, version: &str, up: Duration, workers: Vec<WorkerCounts>) -> Self {
        Self { shard: 0, node: String::new(), host, pid, version: version.to_owned(), up, workers }
    }

    /// Its bytes. Empty if they cannot be written, which no value leads to.
    #[doc(hidden)]
    pub fn encode(self) -> Bytes {
        let Self { host, pid, version, up, workers, .. } = self;
        let up = u64::try_from(up.as_millis()).unwrap_or(u64::MAX);
        rmp_serde::to_vec_named(&Stored { v: VERSION, host, pid, version, up, workers })
            .unwrap_or_default()
            .into()
    }

    /// Reads what a node has said. `None` for a later version, and for damage.
    #[doc(hidden)]
    pub fn decode(shard: usize, node: String, bytes: &[u8]) -> Option<Self> {
        let stored: Stored = rmp_serde::from_slice(bytes).ok()?;
        let Stored { v, host, pid, version, up, workers } = stored;
        let up = Duration::from_millis(up);
        (v == VERSION).then_some(Self { shard, node, host, pid, version, up, workers })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn status() -> NodeStatus {
        let (worker, held, to_start) = (WorkerId(17), 3, 1);
        let workers =
            vec![WorkerCounts { worker, held, to_start, coming: 2, to_move: 0, stuck: 0, capacity: None }];
        let (node, host, version) = ("n1".to_owned(), "box".to_owned(), "1.2.3".to_owned());
        NodeStatus { shard: 2, node, host, pid: 4, version, up: Duration::from_millis(1_500), workers }
    }

    #[test]
    fn a_status_survives_the_round_trip() {
        assert_eq!(NodeStatus::decode(2, "n1".to_owned(), &status().encode()), Some(status()));
    }

    #[test]
    fn a_status_has_these_bytes() {
        let bytes = b"\x86\xa1v\x01\xa4host\xa3box\xa3pid\x04\xa7version\xa51.2.3\xa2up\xcd\x05\xdc\xa7workers\x91\x86\xa6worker\x11\xa4held\x03\xa8to_start\x01\xa6coming\x02\xa7to_move\x00\xa5stuck\x00";
        assert_eq!(status().encode().escape_ascii().to_string(), bytes.escape_ascii().to_string());
    }

    #[test]
    fn a_capacity_is_said_where_there_is_one() {
        let mut status = status();
        status.workers[0].capacity = Some(10);
        let bytes = status.clone().encode();
        assert!(bytes.ends_with(b"\xa5stuck\x00\xa8capacity\x0a"), "{}", bytes.escape_ascii());
        assert_eq!(NodeStatus::decode(2, "n1".to_owned(), &bytes), Some(status));
    }

    #[test]
    fn a_later_version_is_passed_over_and_its_fields_too() {
        let read = |bytes: &[u8]| NodeStatus::decode(0, "n".to_owned(), bytes).map(|status| status.pid);
        assert_eq!(read(b"\x83\xa1v\x01\xa5later\x07\xa3pid\x04"), Some(4));
        for bytes in [&b"\x82\xa1v\x02\xa3pid\x04"[..], b"", b"rubbish"] {
            assert_eq!(read(bytes), None);
        }
    }
}
