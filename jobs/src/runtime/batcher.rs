//! Jobs that come in: what arrives while a call is on its way is the next call.

use std::sync::Arc;

use tokio::sync::{mpsc, oneshot};

use super::attesting::Behind;
use super::handle::Handle;
use super::link::Link;
use crate::core::filling::FULL;
use crate::error::Error;
use crate::model::id::Token;
use crate::store::{AddJobs, AddMode, AddReply, Adding, Lane, MOST, NewJob, StoreError};

/// Jobs that go together.
pub(crate) struct Request {
    pub(crate) mode: AddMode,
    /// The execution whose children these are.
    pub(crate) parent: Option<Arc<Handle>>,
    pub(crate) jobs: Vec<NewJob>,
    pub(crate) reply: oneshot::Sender<Result<Vec<AddReply>, Error>>,
}

impl Request {
    fn token(&self) -> Option<Token> {
        self.parent.as_ref().map(|parent| parent.token)
    }

    fn bytes(&self) -> usize {
        self.jobs.iter().map(NewJob::size).sum()
    }
}

/// Adds jobs until nobody has any more.
pub(crate) async fn run(link: Link, mut requests: mpsc::UnboundedReceiver<Request>) {
    let mut lane = Lane::new(link.lane("add"));
    let mut waiting = Vec::new();
    while requests.recv_many(&mut waiting, MOST).await > 0 {
        while !waiting.is_empty() {
            let call = next_call(&mut waiting);
            send(&link, &mut lane, call).await;
            lane.advance();
        }
    }
}

/// The first requests that go in one call: of one mode and one parent.
fn next_call(waiting: &mut Vec<Request>) -> Vec<Request> {
    let (mut jobs, mut bytes, mut count) = (0, 0, 0);
    for request in waiting.iter() {
        let alike = request.mode == waiting[0].mode && request.token() == waiting[0].token();
        jobs += request.jobs.len();
        if count > 0 && (!alike || jobs > MOST || bytes > FULL) {
            break;
        }
        bytes += request.bytes();
        count += 1;
    }
    waiting.drain(..count).collect()
}

async fn send(link: &Link, own_lane: &mut Lane, requests: Vec<Request>) {
    let Some(first) = requests.first() else { return };
    let (mode, token) = (first.mode, first.token());
    let (mut jobs, mut callers) = (Vec::new(), Vec::with_capacity(requests.len()));
    // Jobs that were taken together have one token.
    let mut parents: Vec<Arc<Handle>> = Vec::new();
    for request in requests {
        if let Some(parent) = request.parent.filter(|one| parents.iter().all(|other| other.id != one.id)) {
            parents.push(parent);
        }
        callers.push((request.jobs.len(), request.reply));
        jobs.extend(request.jobs);
    }
    let step = AddJobs(own_lane.clone(), Adding { mode, token, jobs });
    let mut call = Behind::running(parents, step);
    let mut answer = link.call_or_refuse(&call).await;
    if matches!(answer, Err(Error::Store(StoreError::Late))) {
        // Only this task uses the lane: a late call means damaged data. Nothing was done.
        own_lane.renew();
        call.step.0 = own_lane.clone();
        answer = link.call_or_refuse(&call).await;
    }
    if let Ok(replies) = &answer {
        let queues = call.step.1.jobs.iter().map(|job| &job.kind.queue);
        link.metrics().added(queues.zip(replies.iter().copied()));
    }
    let mut replies = answer.map(Vec::into_iter);
    for (count, caller) in callers {
        let own = match &mut replies {
            Ok(replies) => Ok(replies.by_ref().take(count).collect()),
            Err(error) => Err(error.clone()),
        };
        // Nobody waits for a dropped call.
        let _ = caller.send(own);
    }
}
