//! What a worker has given up lately. After a loss of data the store may have forgotten that: then the worker says it
//! again, so that what has ended does not come back, and what was handed on is not taken for running.

use std::collections::VecDeque;
use std::time::Duration;

use super::ctx::Ctx;
use super::time::Time;
use crate::id::{DispatchId, JobKey, Token};
use crate::store::{Attest, AttestItem};

/// How far back it reaches at least: longer than any server lags behind what it has acknowledged.
const REACH: Duration = Duration::from_secs(20);
/// How many entries it has at most.
const ENTRIES_MAX: usize = 100_000;

/// One job that has left the worker's hands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Past {
    pub(crate) key: JobKey,
    pub(crate) token: Token,
    pub(crate) id: DispatchId,
    /// It goes on elsewhere; else it has ended.
    pub(crate) handed_on: bool,
}

impl Past {
    /// What is to be said of it after a loss of data.
    pub(crate) fn attested(&self) -> AttestItem {
        let what = if self.handed_on { Attest::HandedOn } else { Attest::Ended };
        AttestItem { key: self.key.clone(), token: self.token, id: self.id.clone(), what }
    }
}

/// A worker's journal.
#[derive(Debug, Default)]
pub(crate) struct Journal {
    entries: VecDeque<(Time, Past)>,
}

impl Journal {
    pub(crate) fn note(&mut self, now: Time, past: Past) {
        if self.entries.len() == ENTRIES_MAX {
            self.entries.pop_front();
        }
        self.entries.push_back((now, past));
    }

    /// Forgets what is too old.
    pub(crate) fn forget(&mut self, ctx: &Ctx) {
        let reach = REACH.max(ctx.config.timing.ttl * 2);
        while self.entries.front().is_some_and(|(at, _)| ctx.now.since(*at) > reach) {
            self.entries.pop_front();
        }
    }

    pub(crate) fn entries(&self) -> impl Iterator<Item = &Past> {
        self.entries.iter().map(|(_, past)| past)
    }
}
