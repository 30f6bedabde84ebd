//! After a loss of data, a node says what it runs, and what it has lately ended.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use super::execution::{End, Execution};
use super::filling::{FULL, one_call};
use super::link::Link;
use crate::model::id::Incarnation;
use crate::store::{Attesting, Breakage, MOST, Result as StoreResult, Settle, SettleReply, Settling};

/// An end is remembered for at least this time, and for two leases of its job.
const REMEMBERED: Duration = Duration::from_secs(20);
/// The most ends that a worker remembers.
const ENDS: usize = 20_000;
/// The most bytes of results and data among them.
const BYTES: usize = 16 * 1_048_576;

/// Makes executions known to data that may have forgotten them. One whose end was said since is not made again.
pub(crate) async fn attest_running(
    link: &Link,
    inc: Incarnation,
    executions: impl IntoIterator<Item = Arc<Execution>>,
) -> StoreResult<()> {
    let running = executions.into_iter().filter(|execution| !execution.is_over());
    attest(link, inc, running.map(|execution| (execution, true)).collect()).await
}

/// Makes executions known to data that may have forgotten them. Those that are marked are made again if they are gone.
pub(crate) async fn attest(
    link: &Link,
    inc: Incarnation,
    executions: Vec<(Arc<Execution>, bool)>,
) -> StoreResult<()> {
    if link.is_broken(Breakage::NothingAttested) {
        return Ok(());
    }
    let mut unknown = executions.into_iter().filter(|(execution, _)| !execution.is_known_in(inc)).peekable();
    while unknown.peek().is_some() {
        let (mut call, mut of, mut bytes) = (Vec::new(), Vec::new(), 0);
        while let Some((execution, again)) = unknown.next_if(|_| call.len() < MOST && bytes < FULL) {
            let body = again.then(|| execution.body());
            let notes = execution.notes();
            bytes += body.as_ref().map_or(0, |body| body.len() + notes.len());
            let own = Attesting::new(execution.id.clone(), execution.record.clone(), body);
            call.push(own.with_notes(notes));
            of.push(execution);
        }
        let answer = link.store.attest(inc, &call).await?;
        for (execution, reply) in of.iter().zip(answer.replies) {
            if !matches!(reply, SettleReply::Halt | SettleReply::Bad) {
                execution.know(inc);
            }
        }
    }
    Ok(())
}

/// An end that the store has answered.
#[derive(Clone, Debug)]
struct Said {
    at: Instant,
    /// The incarnation whose data know it.
    known_in: Incarnation,
    execution: Attesting,
    end: Settling,
    bytes: usize,
}

/// The ends that a worker has lately said: the data may forget them.
#[derive(Debug, Default)]
pub(crate) struct Journal {
    said: VecDeque<Said>,
    bytes: usize,
    longest: Duration,
}

/// Ends that fit into one call.
pub(crate) struct Page {
    /// The places of the ends in the journal.
    of: Vec<usize>,
    pub(crate) ends: Arc<(Vec<Attesting>, Vec<Settling>)>,
}

impl Journal {
    pub(crate) fn note(&mut self, inc: Incarnation, ends: &[End], replies: &[SettleReply]) {
        let at = Instant::now();
        for (end, reply) in ends.iter().zip(replies) {
            let refused = matches!(reply, SettleReply::Bad | SettleReply::NoQueue | SettleReply::NoGroup);
            if refused || *reply == SettleReply::Halt {
                continue;
            }
            let execution = &end.execution;
            self.longest = self.longest.max(2 * execution.lease());
            let bytes = end.settle.size();
            self.bytes += bytes;
            self.said.push_back(Said {
                at,
                known_in: inc,
                execution: Attesting::new(execution.id.clone(), execution.record.clone(), None),
                end: Settling::new(execution.id.clone(), execution.token, end.settle.clone()),
                bytes,
            });
        }
        let old = self.longest.max(REMEMBERED);
        while let Some(first) = self.said.front() {
            if at.saturating_duration_since(first.at) < old && self.said.len() <= ENDS && self.bytes <= BYTES
            {
                break;
            }
            self.bytes -= first.bytes;
            self.said.pop_front();
        }
    }

    /// The ends that the data of the incarnation may have forgotten, by calls.
    pub(crate) fn unknown_in(&self, inc: Incarnation) -> Vec<Page> {
        let unknown = self.said.iter().enumerate().filter(|(_, said)| said.known_in != inc);
        let unknown: Vec<_> = unknown.collect();
        let (mut rest, mut pages) = (&unknown[..], Vec::new());
        while !rest.is_empty() {
            let (page, later) = rest.split_at(one_call(rest.iter().map(|(_, said)| said.bytes)));
            rest = later;
            let ends = page.iter().map(|(_, said)| (said.execution.clone(), said.end.clone()));
            pages.push(Page { of: page.iter().map(|(at, _)| *at).collect(), ends: Arc::new(ends.unzip()) });
        }
        pages
    }

    /// The data of the incarnation know the ends of a page. No end has been noted since the page was made.
    pub(crate) fn knows(&mut self, inc: Incarnation, page: &Page) {
        for at in &page.of {
            if let Some(said) = self.said.get_mut(*at) {
                said.known_in = inc;
            }
        }
    }
}

/// Whether an end that the data have forgotten needs its job again: a success does not.
pub(crate) fn needs_its_job(settle: &Settle) -> bool {
    !matches!(settle, Settle::Done(..))
}
