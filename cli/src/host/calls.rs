//! A host's requests to the pool: it dispatches, stops, notifies, asks and looks, through its node.

use std::time::Duration;

use clap::ValueEnum;
use tenure_pool::error::NotSaved;
use tenure_pool::node::Ensured;
use tenure_pool::{AskError, DispatchError, Error, JobInfo, JobKey, JobSpec, Node, RestartPolicy};
use tokio::time::timeout;

use super::link::CALLS;
use super::wire::body::{Body, Key};
use super::wire::down::{Done, Down, Info};
use super::wire::up::{Request, Up};
use crate::act::Policy;
use crate::exit::Failure;

/// How long a request may take that says nothing of it, and the longest time.
const USUAL: Duration = Duration::from_secs(20);
const LONGEST: Duration = Duration::from_secs(240);
/// The time that a request has beyond its own, for its answer.
const MARGIN: Duration = Duration::from_secs(2);
/// How many jobs a list has, about.
const LISTED: usize = 100;
const LISTED_MAX: usize = 1_000;

/// Why a request failed: a word for programs, and a text.
struct Failed {
    code: &'static str,
    text: String,
}

impl From<Failure> for Failed {
    fn from(failure: Failure) -> Self {
        Self { code: failure.code.name(), text: failure.to_string() }
    }
}

impl From<Error> for Failed {
    fn from(error: Error) -> Self {
        Failure::from(error).into()
    }
}

impl From<DispatchError> for Failed {
    fn from(error: DispatchError) -> Self {
        let exists = matches!(error, DispatchError::JobExists { .. });
        let failed = Self::from(Failure::from(error));
        if exists { Self { code: "exists", ..failed } } else { failed }
    }
}

impl From<AskError> for Failed {
    fn from(error: AskError) -> Self {
        let refused = matches!(error, AskError::Refused(_));
        let failed = Self::from(Failure::from(error));
        // The others say that nobody was asked, or that nobody knows.
        if refused { Self { code: "handler_refused", ..failed } } else { failed }
    }
}

impl Failed {
    fn usage(text: impl Into<String>) -> Self {
        Failure::usage(text).into()
    }
}

/// The answer of a request that failed.
pub(super) fn error(rid: u64, code: &str, text: &str) -> Down {
    Down::Error { rid, code: code.to_owned(), text: text.to_owned() }
}

/// The answer of a request that is one too many.
pub(super) fn busy(rid: u64) -> Down {
    error(rid, "busy", &format!("{CALLS} requests are open"))
}

/// The number of a request.
pub(super) fn rid_of(request: &Up) -> u64 {
    match request {
        Up::Dispatch(request)
        | Up::Ensure(request)
        | Up::Submit(request)
        | Up::Stop(request)
        | Up::Notify(request)
        | Up::Ask(request)
        | Up::Get(request)
        | Up::List(request) => request.rid,
        // The table takes all others.
        _ => 0,
    }
}

/// The answer of a checkpoint.
pub(super) fn saved(rid: u64, saved: Result<(), NotSaved>) -> Down {
    match saved {
        Ok(()) => Down::Ok { rid, done: Done::default() },
        Err(why) => error(rid, code_of(&why), &why.to_string()),
    }
}

/// Says that the last state of a job is not kept, or may not be.
pub(super) fn unsaved(job: u64, key: &JobKey, why: &NotSaved) -> Down {
    Down::Unsaved { job, key: Key::of(key), code: code_of(why).to_owned(), text: why.to_string() }
}

fn code_of(why: &NotSaved) -> &'static str {
    match why {
        NotSaved::TooLong { .. } => "too_long",
        NotSaved::Refused(_) => "refused",
        NotSaved::JobGone => "fenced",
        _ => "failed",
    }
}

/// Performs a request, and returns the answer.
pub(super) async fn perform(node: &Node, request: Up) -> Down {
    let (op, request) = match request {
        Up::Dispatch(request) => (Op::Dispatch, request),
        Up::Ensure(request) => (Op::Ensure, request),
        Up::Submit(request) => (Op::Submit, request),
        Up::Stop(request) => (Op::Stop, request),
        Up::Notify(request) => (Op::Notify, request),
        Up::Ask(request) => (Op::Ask, request),
        Up::Get(request) => (Op::Get, request),
        Up::List(request) => (Op::List, request),
        // The table takes all others.
        _ => return error(0, "usage", "this is no request"),
    };
    let rid = request.rid;
    let within =
        request.within_ms.map_or(USUAL, Duration::from_millis).clamp(Duration::from_millis(1), LONGEST);
    let done = timeout(within + MARGIN, op.done(node, request, within)).await;
    match done {
        Ok(Ok(done)) => Down::Ok { rid, done },
        Ok(Err(Failed { code, text })) => error(rid, code, &text),
        Err(_) => error(rid, "late", "the time was up: it may still happen"),
    }
}

#[derive(Clone, Copy, Debug)]
enum Op {
    Dispatch,
    Ensure,
    Submit,
    Stop,
    Notify,
    Ask,
    Get,
    List,
}

impl Op {
    async fn done(self, node: &Node, request: Request, within: Duration) -> Result<Done, Failed> {
        let mut done = Done::default();
        if let Self::List = self {
            let limit = request.limit.unwrap_or(LISTED).clamp(1, LISTED_MAX);
            let cursor = request.next.map(|next| next.parse()).transpose();
            let cursor = cursor.map_err(|_| Failed::usage("next is no place in a list"))?;
            let page = node.inspect().jobs_page(cursor, limit).await?;
            done.jobs = Some(page.items.iter().map(Info::of).collect());
            done.next = page.next.map(|next| next.to_string());
            return Ok(done);
        }
        let key = request.key.job_key().map_err(Failed::usage)?;
        let body = request.body.bytes().map_err(Failed::usage)?;
        match self {
            Self::Dispatch | Self::Ensure | Self::Submit => {
                let policy = request.policy.as_deref().unwrap_or("never");
                let policy = Policy::from_str(policy, false)
                    .map_err(|_| Failed::usage("a policy is never, on-failure or always"))?;
                let job = JobSpec::new(key, body).restart(RestartPolicy::from(policy));
                let job = match request.id {
                    Some(id) => job.id(id),
                    None => job,
                };
                match self {
                    Self::Dispatch => node.dispatch(job).deadline(within).await?,
                    Self::Ensure => {
                        let found = node.ensure(job).deadline(within).await?;
                        done.started = Some(found == Ensured::Started);
                    }
                    _ => done.id = Some(node.submit(job).deadline(within).await?.id.to_string()),
                }
            }
            Self::Stop => {
                let stop = node.stop_job(key).deadline(within);
                if request.until_stopped { stop.until_stopped().await } else { stop.await }?;
            }
            Self::Notify => node.notify(key, body).await?,
            Self::Ask => {
                let ask = node.ask(key, body).deadline(within);
                let answer = if request.idempotent { ask.idempotent().await } else { ask.await }?;
                done.body = Body::of(&answer);
            }
            Self::Get => done.job = node.inspect().job(key).await?.as_ref().map(Info::of),
            Self::List => {}
        }
        Ok(done)
    }
}

impl Info {
    fn of(job: &JobInfo) -> Self {
        Self {
            key: Key::of(&job.key),
            state: state_of(job),
            token: job.token.0,
            worker: job.owner.map(|worker| worker.0),
            attempts: job.attempts,
        }
    }
}

/// The state as listings call it.
fn state_of(job: &JobInfo) -> String {
    format!("{:?}", job.state).to_ascii_lowercase()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_reason_for_a_state_that_is_not_kept_has_its_code() {
        let codes = [
            (NotSaved::TooLong { len: 5, max: 4 }, "too_long"),
            (NotSaved::Refused("its memory is full".to_owned()), "refused"),
            (NotSaved::JobGone, "fenced"),
            (NotSaved::Encoding(String::new()), "failed"),
        ];
        for (why, code) in codes {
            let Down::Error { code: said, text, .. } = saved(1, Err(why.clone())) else { panic!("{why}") };
            assert_eq!((&*said, text), (code, why.to_string()));
        }
    }
}
