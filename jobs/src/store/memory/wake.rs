//! Nodes that wait for jobs are woken.

use super::edit::{Edit, Stir};
use super::state::with_prefix;
use crate::model::id::{GroupName, QueueName};
use crate::store::Hint;

/// A pinned queue that goes on wakes the owners of this many groups.
const OWNERS: usize = 4_096;
/// Those that wait are looked at by eight.
const PAGE: usize = 8;

impl Edit<'_> {
    pub(super) fn wake(&mut self, queue: &QueueName, count: u64) {
        self.wake_as(queue, None, count);
    }

    /// Wakes who waits for the jobs of a queue that became ready: of a pinned queue the owners of their groups.
    pub(super) fn wake_for(&mut self, queue: &QueueName) {
        let Stir { added, owners, .. } = self.stir(queue).clone();
        if !self.settings(queue).pinned {
            return self.wake(queue, added);
        }
        for group in owners {
            if let Ok(group) = GroupName::new(&group) {
                self.wake_as(queue, Some(&group), 1);
            }
        }
    }

    /// A pinned queue goes on.
    pub(super) fn stir_pinned(&mut self, queue: &QueueName) {
        if self.settings(queue).pinned {
            let prefix = format!("{queue}|");
            let found = with_prefix(&self.state.data.turns, &prefix).take(OWNERS);
            let owners = found.map(|member| member[prefix.len() + 15..].to_owned()).collect();
            self.stir(queue).owners = owners;
        }
    }

    fn wake_as(&mut self, queue: &QueueName, group: Option<&GroupName>, count: u64) {
        let (mut left, mut woken) = (count, 0);
        let prefix = waits_as(queue, group) + "|";
        // No tick makes up for the owners of groups.
        let cost = u32::from(group.is_none());
        while self.patience > 0 || cost == 0 {
            let found = with_prefix(&self.state.data.waiting, &prefix);
            let found: Vec<_> = found.take(PAGE).cloned().collect();
            if found.is_empty() {
                return;
            }
            for member in found {
                self.state.data.waiting.remove(&member);
                let mut words = member.split('|').skip(2);
                let (node, slots) =
                    (words.next().unwrap_or_default(), words.next().and_then(|n| n.parse().ok()));
                if self.publish(node, Hint::Ready(queue.clone(), group.cloned())) {
                    left = left.saturating_sub(slots.unwrap_or(1));
                    woken += 1;
                    if left == 0 || woken >= 4 {
                        return;
                    }
                } else {
                    self.patience = self.patience.saturating_sub(cost);
                }
            }
        }
        // More are left: a tick comes at once, and goes on.
        self.arm(self.now);
    }
}

/// The name under which nodes wait for jobs of a queue, or of one of its groups.
pub(super) fn waits_as(queue: &QueueName, group: Option<&GroupName>) -> String {
    group.map_or_else(|| queue.to_string(), |group| format!("{queue}/{group}"))
}
