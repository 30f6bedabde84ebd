//! The ends that a worker has lately told: the data may forget these ends.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use super::Time;
use super::ends::Said;
use super::execution::End;
use super::filling::one_call;
use crate::model::id::Incarnation;
use crate::store::SettleReply;

/// An end is remembered for at least this time, and for two leases of its job.
const REMEMBERED: Duration = Duration::from_secs(20);
/// The most ends that a worker remembers.
const ENDS: usize = 20_000;
/// The most bytes of results and data among them.
const BYTES: usize = 16 * 1_048_576;

/// Recent ends, each with the time of the answer, and the incarnation whose data know the end.
#[derive(Debug, Default)]
pub(super) struct Journal {
    told: VecDeque<(Time, Incarnation, End)>,
    bytes: usize,
    longest: Duration,
}

/// Ends that fit into one call, and their places in the journal.
#[derive(Debug)]
pub(super) struct Page(pub(super) Arc<[End]>, Vec<usize>);

impl Journal {
    pub(super) fn note(&mut self, at: Time, inc: Incarnation, said: &Said, replies: &[SettleReply]) {
        for (end, reply) in said.ends.iter().zip(replies) {
            let refused = matches!(reply, SettleReply::Bad | SettleReply::NoQueue | SettleReply::NoGroup);
            if refused || *reply == SettleReply::Halt {
                continue;
            }
            self.longest = self.longest.max(2 * end.lease);
            self.bytes += end.settle.size();
            self.told.push_back((at, inc, end.clone()));
        }
        let old = self.longest.max(REMEMBERED);
        while let Some((first, _, end)) = self.told.front() {
            if at.saturating_sub(*first) < old && self.told.len() <= ENDS && self.bytes <= BYTES {
                break;
            }
            self.bytes -= end.settle.size();
            self.told.pop_front();
        }
    }

    /// The ends that the data of the incarnation may have forgotten, by calls.
    pub(super) fn unknown_in(&self, inc: Incarnation) -> VecDeque<Page> {
        let unknown: Vec<_> = self.told.iter().enumerate().filter(|(_, told)| told.1 != inc).collect();
        let (mut rest, mut pages) = (&unknown[..], VecDeque::new());
        while !rest.is_empty() {
            let (page, later) = rest.split_at(one_call(rest.iter().map(|(_, told)| told.2.settle.size())));
            rest = later;
            let ends = page.iter().map(|(_, told)| told.2.clone()).collect();
            pages.push_back(Page(ends, page.iter().map(|(at, _)| *at).collect()));
        }
        pages
    }

    /// The data of the incarnation know the ends of a page. No end has been noted since the page was made.
    pub(super) fn knows(&mut self, inc: Incarnation, Page(_, places): &Page) {
        for at in places {
            if let Some(told) = self.told.get_mut(*at) {
                told.1 = inc;
            }
        }
    }
}
