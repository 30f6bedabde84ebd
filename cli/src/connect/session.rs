//! The session of a command: global options, output, and the end of the node.

use std::time::Duration;

use tenure_pool::Node;

use super::Place;
use crate::args::Global;
use crate::exit::Failure;
use crate::out::Out;

/// The global options and the output of a command.
pub(crate) struct Session {
    pub(crate) global: Global,
    pub(crate) out: Out,
}

impl Session {
    /// The pool that is meant.
    ///
    /// # Errors
    /// None is named.
    pub(crate) fn place(&self) -> Result<Place, Failure> {
        Place::of(&self.global)
    }
}

/// How long a node of this process may take to leave. It holds nothing.
const LEAVING: Duration = Duration::from_secs(2);

/// Leaves the pool. The command has its answer, so nobody has to know how it went.
pub(crate) async fn close(node: &Node) {
    let _ = node.close_within(LEAVING).await;
}
