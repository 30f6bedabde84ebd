//! The words of nodes with workers about themselves.

use bytes::Bytes;

use super::state::State;
use crate::model::id::NodeName;
use crate::step::Renewal;

impl State {
    /// Keeps what a node says with its renewal, while a worker of these is a member.
    pub(super) fn say(&mut self, node: Option<&NodeName>, renewal: &Renewal, status: &Bytes) {
        let lives = renewal.states.iter().any(Option::is_some);
        if let Some(node) = node.filter(|_| lives && !status.is_empty()) {
            self.statuses.insert(node.clone(), status.clone());
        }
    }

    /// Forgets what nodes without a member have said.
    pub(super) fn forget_nodes(&mut self) {
        let Self { statuses, members, .. } = self;
        statuses.retain(|node, _| members.values().any(|member| member.node == *node));
    }
}
