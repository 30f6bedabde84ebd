//! After a loss of data, a node says what it runs, and what it has lately ended.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use futures::FutureExt;
use futures::future::BoxFuture;
use tokio::time::Instant;

use super::execution::{End, Execution};
use super::filling::{FULL, one_call};
use super::link::{Call, Link};
use crate::model::id::Incarnation;
use crate::store::{
    AttestJobs, Attesting, Breakage, MOST, Result as StoreResult, Settle, SettleJobs, SettleReply, Settling,
};

/// An end is remembered for at least this time, and for two leases of its job.
const REMEMBERED: Duration = Duration::from_secs(20);
/// The most ends that a worker remembers.
const ENDS: usize = 20_000;
/// The most bytes of results and data among them.
const BYTES: usize = 16 * 1_048_576;

/// A step behind executions that the data may have forgotten: they are known before.
pub(crate) struct Behind<C> {
    /// Each execution, and whether the data make its job again. `None`: the execution runs. Then the data make its job
    /// again, and an execution whose end was said meanwhile is left out.
    pub(crate) executions: Vec<(Arc<Execution>, Option<bool>)>,
    pub(crate) step: C,
}

impl<C> Behind<C> {
    /// A step behind running executions.
    pub(crate) fn running(executions: impl IntoIterator<Item = Arc<Execution>>, step: C) -> Self {
        Self { executions: executions.into_iter().map(|execution| (execution, None)).collect(), step }
    }
}

impl<C: Call> Call for Behind<C> {
    type Answer = C::Answer;

    fn send<'a>(&'a self, link: &'a Link, inc: Incarnation) -> BoxFuture<'a, StoreResult<C::Answer>> {
        async move {
            if link.is_broken(Breakage::NothingAttested) {
                return self.step.send(link, inc).await;
            }
            let unknown = self.executions.iter().filter(|(execution, again)| {
                !execution.is_known_in(inc) && (again.is_some() || !execution.is_over())
            });
            let mut unknown = unknown.collect::<Vec<_>>().into_iter().peekable();
            while unknown.peek().is_some() {
                let (mut call, mut of, mut bytes) = (Vec::new(), Vec::new(), 0);
                while let Some((execution, again)) = unknown.next_if(|_| call.len() < MOST && bytes < FULL) {
                    let body = again.unwrap_or(true).then(|| execution.body());
                    let notes = execution.notes();
                    bytes += body.as_ref().map_or(0, |body| body.len() + notes.len());
                    let own = Attesting::new(execution.id.clone(), execution.record.clone(), body);
                    call.push(own.with_notes(notes));
                    of.push(execution);
                }
                let answer = link.store.run(inc, &AttestJobs(call)).await?;
                for (execution, reply) in of.iter().zip(answer.replies) {
                    if !matches!(reply, SettleReply::Halt | SettleReply::Bad) {
                        execution.know(inc);
                    }
                }
            }
            self.step.send(link, inc).await
        }
        .boxed()
    }
}

/// Ends behind executions that are told to data that do not know them.
pub(crate) struct Told {
    /// The incarnation whose data know the executions.
    pub(crate) known_in: Arc<AtomicU64>,
    pub(crate) executions: AttestJobs,
    pub(crate) ends: SettleJobs,
}

impl Call for Told {
    type Answer = Vec<SettleReply>;

    fn send<'a>(&'a self, link: &'a Link, inc: Incarnation) -> BoxFuture<'a, StoreResult<Self::Answer>> {
        async move {
            if self.known_in.load(Ordering::Acquire) != inc.0 {
                link.store.run(inc, &self.executions).await?;
                self.known_in.store(inc.0, Ordering::Release);
            }
            link.store.run(inc, &self.ends).await
        }
        .boxed()
    }
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
    pub(crate) ends: (Vec<Attesting>, Vec<Settling>),
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
            pages.push(Page { of: page.iter().map(|(at, _)| *at).collect(), ends: ends.unzip() });
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
