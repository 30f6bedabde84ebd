//! The ends that a worker has lately told: after a loss of data the new data may have forgotten them.

use std::collections::VecDeque;
use std::time::Duration;

use super::Time;
use super::ends::Said;
use super::filling::one_call;
use crate::model::id::Incarnation;
use crate::store::{Attesting, SettleReply, Settling};

/// An end is remembered for at least this time, and for two leases of its job.
const REMEMBERED: Duration = Duration::from_secs(20);
/// The most ends that a worker remembers.
const ENDS: usize = 20_000;
/// The most bytes of results and data among them.
const BYTES: usize = 16 * 1_048_576;

/// An end that the store has answered.
#[derive(Debug)]
struct Told {
    at: Time,
    /// The incarnation whose data know it.
    known_in: Incarnation,
    execution: Attesting,
    end: Settling,
    bytes: usize,
}

/// The ends that a worker has lately told.
#[derive(Debug, Default)]
pub(super) struct Journal {
    told: VecDeque<Told>,
    bytes: usize,
    longest: Duration,
}

/// Ends that fit into one call.
#[derive(Debug)]
pub(super) struct Page {
    /// The places of the ends in the journal.
    of: Vec<usize>,
    pub(super) ends: (Vec<Attesting>, Vec<Settling>),
}

impl Journal {
    pub(super) fn note(&mut self, at: Time, inc: Incarnation, said: &Said, replies: &[SettleReply]) {
        for (end, reply) in said.ends.iter().zip(replies) {
            let refused = matches!(reply, SettleReply::Bad | SettleReply::NoQueue | SettleReply::NoGroup);
            if refused || *reply == SettleReply::Halt {
                continue;
            }
            self.longest = self.longest.max(2 * end.lease);
            let bytes = end.settle.size();
            self.bytes += bytes;
            self.told.push_back(Told {
                at,
                known_in: inc,
                execution: Attesting::new(end.execution.id.clone(), end.execution.record.clone(), None),
                end: end.settling(),
                bytes,
            });
        }
        let old = self.longest.max(REMEMBERED);
        while let Some(first) = self.told.front() {
            if at.saturating_sub(first.at) < old && self.told.len() <= ENDS && self.bytes <= BYTES {
                break;
            }
            self.bytes -= first.bytes;
            self.told.pop_front();
        }
    }

    /// The ends that the data of the incarnation may have forgotten, by calls.
    pub(super) fn unknown_in(&self, inc: Incarnation) -> VecDeque<Page> {
        let unknown = self.told.iter().enumerate().filter(|(_, told)| told.known_in != inc);
        let unknown: Vec<_> = unknown.collect();
        let (mut rest, mut pages) = (&unknown[..], VecDeque::new());
        while !rest.is_empty() {
            let (page, later) = rest.split_at(one_call(rest.iter().map(|(_, told)| told.bytes)));
            rest = later;
            let ends = page.iter().map(|(_, told)| (told.execution.clone(), told.end.clone()));
            pages.push_back(Page { of: page.iter().map(|(at, _)| *at).collect(), ends: ends.unzip() });
        }
        pages
    }

    /// The data of the incarnation know the ends of a page. No end has been noted since the page was made.
    pub(super) fn knows(&mut self, inc: Incarnation, page: &Page) {
        for at in &page.of {
            if let Some(told) = self.told.get_mut(*at) {
                told.known_in = inc;
            }
        }
    }
}
