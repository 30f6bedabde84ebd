//! The figures of a self-test, and the promises that it broke.

use std::collections::HashMap;

use serde::Serialize;

/// The figures of a self-test.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Verdict {
    /// Requests that an owner has answered.
    pub answered: u64,
    /// Orders of which nobody knows whether they are written, because their owner was killed: 502.
    pub unknown: u64,
    /// Requests without an owner's answer.
    pub unanswered: u64,
    /// Answers of a former owner to what was sent after a later one had answered.
    pub stale: u64,
    /// Orders that were answered and are not written.
    pub lost: u64,
    /// Orders that are written more than once.
    pub doubled: u64,
    /// Answers of each node.
    pub by_node: HashMap<String, u64>,
    /// The longest time to an answer, ms.
    pub longest_ms: u128,
    /// Messages of the conversations that were answered.
    pub said: u64,
    /// How often an owner told its client to come again.
    pub told_to_come_again: u64,
    /// Conversations to which the last node did not answer.
    pub silent: usize,
    /// The number of clients. At most as many orders are unknown.
    #[serde(skip)]
    pub clients: usize,
}

impl Verdict {
    /// The broken promises, each in a line.
    pub fn faults(&self) -> Vec<String> {
        let rows = [
            (self.answered > 0 && self.said > 0, "nobody was answered".to_owned()),
            (self.unanswered == 0, format!("requests without an answer: {}", self.unanswered)),
            (self.stale == 0, format!("answers of a former owner: {}", self.stale)),
            (self.lost == 0, format!("orders that were answered and are not written: {}", self.lost)),
            (self.doubled == 0, format!("orders that are written more than once: {}", self.doubled)),
            (self.unknown <= self.clients as u64, format!("orders that may be written: {}", self.unknown)),
            (self.told_to_come_again > 0, "no conversation was told to come again".to_owned()),
            (self.silent == 0, format!("conversations that did not go on: {}", self.silent)),
        ];
        rows.into_iter().filter(|(holds, _)| !holds).map(|(_, fault)| fault).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_broken_promise_is_a_fault() {
        let good = Verdict {
            answered: 1,
            said: 1,
            told_to_come_again: 1,
            unknown: 2,
            clients: 2,
            ..Verdict::default()
        };
        assert_eq!(good.faults(), [""; 0]);
        let bad = [
            (Verdict { answered: 0, ..good.clone() }, "nobody was answered"),
            (Verdict { said: 0, ..good.clone() }, "nobody was answered"),
            (Verdict { unanswered: 1, ..good.clone() }, "requests without an answer: 1"),
            (Verdict { stale: 2, ..good.clone() }, "answers of a former owner: 2"),
            (Verdict { lost: 3, ..good.clone() }, "orders that were answered and are not written: 3"),
            (Verdict { doubled: 4, ..good.clone() }, "orders that are written more than once: 4"),
            (Verdict { unknown: 3, ..good.clone() }, "orders that may be written: 3"),
            (Verdict { told_to_come_again: 0, ..good.clone() }, "no conversation was told to come again"),
            (Verdict { silent: 5, ..good }, "conversations that did not go on: 5"),
        ];
        for (verdict, fault) in bad {
            assert_eq!(verdict.faults(), [fault]);
        }
    }
}
