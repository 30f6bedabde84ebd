//! The settings of a node that only proofs need.

use super::NodeBuilder;
use crate::mutation::Mutations;

impl NodeBuilder {
    /// Leaves these lines of the protocol out.
    #[doc(hidden)]
    pub fn broken(mut self, mutations: Mutations) -> Self {
        self.broken = mutations;
        self
    }

    /// Gives each engine a thread that no other engine shares, so that a test may block the thread.
    #[doc(hidden)]
    pub fn own_thread(mut self) -> Self {
        self.own_thread = true;
        self
    }
}
