//! Which row of a list is chosen. The choice keeps to its row when the list changes.

use tenure_pool::JobKey;

/// The thing that a row is about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::top) enum Id {
    Worker(usize, u64),
    Node(String),
    Job(JobKey),
    Event(u64),
    /// A worker that is only supposed, by its number.
    Supposed(usize),
}

/// A row of a list.
#[derive(Clone, Debug, Default)]
pub(super) struct Choice {
    at: usize,
    id: Option<Id>,
}

impl Choice {
    /// The number of the row.
    pub(super) fn at(&self) -> usize {
        self.at
    }

    /// The rows are these now. The first row of a list that grows at its top stays chosen: it is always the newest.
    pub(super) fn settle(&mut self, ids: &[Id], follows: bool) {
        let place = self.id.as_ref().and_then(|id| ids.iter().position(|other| other == id));
        if follows && self.at == 0 {
            self.go(0, ids);
        } else {
            self.go(place.unwrap_or(self.at), ids);
        }
    }

    /// Goes up or down.
    pub(super) fn step(&mut self, by: isize, ids: &[Id]) {
        self.go(self.at.saturating_add_signed(by), ids);
    }

    fn go(&mut self, to: usize, ids: &[Id]) {
        self.at = to.min(ids.len().saturating_sub(1));
        self.id = ids.get(self.at).cloned();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ids(of: &[u64]) -> Vec<Id> {
        of.iter().map(|id| Id::Event(*id)).collect()
    }

    #[test]
    fn a_choice_keeps_to_its_row() {
        let mut choice = Choice::default();
        choice.settle(&ids(&[1, 2, 3]), false);
        choice.step(1, &ids(&[1, 2, 3]));
        choice.settle(&ids(&[7, 8, 2, 9]), false);
        assert_eq!(choice.at(), 2);
        choice.settle(&ids(&[7, 8]), false);
        assert_eq!(choice.at(), 1);
        choice.step(-9, &ids(&[7, 8]));
        choice.step(9, &[]);
        assert_eq!(choice.at(), 0);
    }

    #[test]
    fn the_newest_row_stays_chosen_where_a_list_follows() {
        let mut choice = Choice::default();
        choice.settle(&ids(&[1]), true);
        choice.settle(&ids(&[2, 1]), true);
        assert_eq!(choice.id, Some(Id::Event(2)));
        choice.step(1, &ids(&[2, 1]));
        choice.settle(&ids(&[3, 2, 1]), true);
        assert_eq!(choice.at(), 2);
    }
}
