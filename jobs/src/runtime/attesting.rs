//! Steps behind executions that the data may have forgotten: the data are reminded first.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use futures::FutureExt;
use futures::future::BoxFuture;

use super::handle::Handle;
use super::link::{Call, Link};
use crate::core::filling::FULL;
use crate::model::id::Incarnation;
use crate::store::{AttestJobs, Attesting, Breakage, MOST, Result as StoreResult, SettleJobs, SettleReply};

/// A step behind executions that the data may have forgotten: they are known before.
pub(crate) struct Behind<C> {
    /// Each execution, and whether the data make its job again. `None`: the execution runs. Then the data make its job
    /// again, and an execution whose end was said meanwhile is left out.
    pub(crate) executions: Vec<(Arc<Handle>, Option<bool>)>,
    pub(crate) step: C,
}

impl<C> Behind<C> {
    /// A step behind running executions.
    pub(crate) fn running(executions: impl IntoIterator<Item = Arc<Handle>>, step: C) -> Self {
        Self { executions: executions.into_iter().map(|execution| (execution, None)).collect(), step }
    }
}

impl<C: Call> Call for Behind<C> {
    type Answer = C::Answer;

    fn send<'a>(&'a self, link: &'a Link, inc: Incarnation) -> BoxFuture<'a, StoreResult<C::Answer>> {
        async move {
            if link.broken() == Some(Breakage::NothingAttested) {
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
