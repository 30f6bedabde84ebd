//! The node that a name or a worker means.

use tenure_pool::inspect::WorkerInfo;

use crate::args::Named;
use crate::exit::{Code, Failure};

/// The name of the node. A node without workers leaves no trace, so any name of a node is taken.
///
/// # Errors
/// There is no such worker.
pub(crate) fn name_of(named: &Named, workers: &[WorkerInfo]) -> Result<String, Failure> {
    match named {
        Named::Node(name) => Ok(name.clone()),
        Named::Worker { .. } => {
            let worker = workers.iter().find(|worker| named.means(worker));
            let absent = || Failure::new(Code::NotFound, format!("there is no {named}"));
            worker.map(|worker| worker.node.clone()).ok_or_else(absent)
        }
    }
}
