//! Ends that a run has told after a loss of data, when later runs of the same dispatch may be hidden.

use super::state::{Ended, State};
use crate::model::id::{DispatchId, Token};
use crate::mutation::Mutation;

/// The last run of a dispatch that has told its end (a field of `outcomes`). An end without it is one whatever the run.
#[derive(Clone, Copy, Debug, Hash)]
pub(super) struct RunEnd {
    pub(super) token: Token,
    /// When it was told, ms.
    pub(super) at: u64,
}

/// The dispatch, which is the same from every node where a caller gave its id.
fn field(id: &DispatchId) -> String {
    id.caller_id().map_or_else(|| id.to_string(), |own| format!("!{own}"))
}

impl State {
    /// The token of the last run that has told its end. `None`: there is none, or the dispatch was accepted after that.
    pub(super) fn ended_by_run(&self, id: &DispatchId, created: Option<u64>) -> Option<Token> {
        if self.broken.has(Mutation::EarlierRunEnds) {
            return None;
        }
        let told = self.run_ends.get(&field(id))?;
        created.is_none_or(|created| created <= told.at).then_some(told.token)
    }

    /// Remembers that the dispatch has ended, as far as this run knows.
    pub(super) fn end_by_run(&mut self, id: &DispatchId, token: Token, at: u64, until: u64) {
        self.run_ends.insert(field(id), RunEnd { token, at });
        self.ended.put(Ended::Run(field(id)), until);
    }

    /// The end is one whatever the run.
    pub(super) fn end_for_good(&mut self, id: &DispatchId) {
        self.run_ends.remove(&field(id));
    }

    /// The dispatch goes on with a later run.
    pub(super) fn forget_end(&mut self, id: &DispatchId) {
        self.ended.remove(&Ended::Dispatch(id.clone()));
        self.ended.remove(&Ended::Run(field(id)));
        self.end_for_good(id);
    }
}
