//! The connection to one server that many callers share, and that reconnects when it breaks.
//!
//! Invariants:
//! - At most one attempt to connect runs at a time. All callers that need it wait for it, each no longer than its own
//!   deadline. It goes on without them, and ends with the connection. No lock is held while waiting.
//! - The connection leaves a server that says that it is a replica, though not again and again.
//! - After a failure the next attempt waits for its pause. A connection that never answered counts as a failure.
//! - The connection leaves a server that has owed an answer for the whole response timeout and said nothing: the link
//!   may be dead without a sign. A caller in a hurry proves nothing about the link. Calls in flight on a link that is
//!   left keep it until their own deadline.
//! - A call that the server refused because it does not know the script did not execute. It is sent again after the
//!   script; nothing else is sent twice.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use redis::{Cmd, Pipeline, Value};
use tokio::time::{Instant, timeout_at};

use crate::deadline::Deadline;
use crate::flight::{Flight, Outcome};
use crate::link::{Connector, Link};
use crate::request::Request;
use crate::topology::says;
use crate::{Backoff, Error, Script};

const FIRST_PAUSE: Duration = Duration::from_millis(20);
const LONGEST_PAUSE: Duration = Duration::from_millis(500);
/// If a script is flushed between its load and its call, it is loaded again, this often in all.
const LOADS_PER_CALL: usize = 3;

type Attempt = Result<Arc<Link>, Error>;

/// Whether to try again after a failed attempt to connect.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Patience {
    UntilTheDeadline,
    OneAttempt,
}

impl Patience {
    pub(crate) fn lasts(self) -> bool {
        self == Self::UntilTheDeadline
    }
}

pub(crate) struct Shared {
    connector: Connector,
    state: Mutex<State>,
}

struct State {
    backoff: Backoff,
    slot: Slot,
    /// When a link was last left because its server said that it is a replica.
    demoted_at: Option<Instant>,
}

enum Slot {
    Empty,
    Connecting(Flight<Attempt>),
    Ready(Arc<Link>),
}

impl Shared {
    pub(crate) fn new(connector: Connector) -> Arc<Self> {
        let state =
            State { backoff: Backoff::new(FIRST_PAUSE, LONGEST_PAUSE), slot: Slot::Empty, demoted_at: None };
        Arc::new(Self { connector, state: Mutex::new(state) })
    }

    /// Waits for a live link until the deadline.
    pub(crate) async fn link(
        self: &Arc<Self>,
        deadline: Deadline,
        patience: Patience,
    ) -> Result<Arc<Link>, Error> {
        let mut last = None;
        loop {
            // A command that could not be answered in time is not sent.
            if Instant::now() >= deadline.at {
                return Err(last.unwrap_or_else(Error::connect_timed_out));
            }
            let attempt = match self.ready_or_attempt() {
                Ok(link) => return Ok(link),
                Err(attempt) => attempt,
            };
            match timeout_at(deadline.at, attempt).await {
                Ok(Ok(link)) => return Ok(link),
                Ok(Err(error)) if error.is_transient() && patience.lasts() => {
                    last = Some(error);
                }
                Ok(Err(error)) => return Err(error),
                Err(_) => return Err(last.unwrap_or_else(Error::connect_timed_out)),
            }
        }
    }

    /// Sends a command, whatever the admission decides.
    pub(crate) async fn send_unchecked(
        &self,
        link: &Arc<Link>,
        command: &Cmd,
        deadline: Deadline,
    ) -> Result<Value, Error> {
        let result = link.send_by(command, deadline.at, deadline.allowed).await;
        self.note(link, result.as_ref().err());
        result
    }

    async fn admit(&self, link: &Arc<Link>, deadline: Deadline) -> Result<(), Error> {
        let admitted = self.connector.admit(link, deadline.at, deadline.allowed).await;
        admitted.inspect_err(|error| self.note(link, Some(error)))
    }

    /// Sends a command.
    pub(crate) async fn send(
        &self,
        link: &Arc<Link>,
        command: &Cmd,
        deadline: Deadline,
    ) -> Result<Value, Error> {
        self.admit(link, deadline).await?;
        self.send_unchecked(link, command, deadline).await
    }

    /// Sends a request, after its script if the server does not know that.
    pub(crate) async fn call(
        &self,
        link: &Arc<Link>,
        request: Request<'_>,
        deadline: Deadline,
    ) -> Result<Value, Error> {
        let mut loads = 0;
        loop {
            match (self.send(link, request.command, deadline).await, request.script) {
                (Err(error), Some(script)) if is_unknown_script(&error) && loads < LOADS_PER_CALL => {
                    loads += 1;
                    tracing::debug!(script = script.name(), "loading script");
                    self.send(link, &script.load(), deadline).await?;
                }
                (other, _) => return other,
            }
        }
    }

    /// Sends requests in one write, each behind an `ASKING` when `asking`. The results are in the order of the
    /// requests. Calls of unknown scripts are sent again after their scripts.
    pub(crate) async fn send_all(
        &self,
        link: &Arc<Link>,
        requests: &[Request<'_>],
        asking: bool,
        deadline: Deadline,
    ) -> Vec<Result<Value, Error>> {
        if let (&[request], false) = (requests, asking) {
            return vec![self.call(link, request, deadline).await];
        }
        let mut results: Vec<Option<Result<Value, Error>>> = vec![None; requests.len()];
        let mut open: Vec<usize> = (0..requests.len()).collect();
        let mut unknown: Vec<&Script> = Vec::new();
        for round in 0..=LOADS_PER_CALL {
            let replies = match self.exchange(link, &unknown, requests, &open, asking, deadline).await {
                Ok(replies) => replies,
                Err(error) => {
                    for index in open {
                        results[index] = Some(Err(error.clone()));
                    }
                    break;
                }
            };
            unknown.clear();
            for (index, reply) in std::mem::take(&mut open).into_iter().zip(replies) {
                match (&reply, requests[index].script) {
                    (Err(error), Some(script)) if is_unknown_script(error) && round < LOADS_PER_CALL => {
                        if !unknown.iter().any(|known| known.sha() == script.sha()) {
                            unknown.push(script);
                        }
                        open.push(index);
                    }
                    _ => results[index] = Some(reply),
                }
            }
            if open.is_empty() {
                break;
            }
        }
        let missing = || Err(Error::Reply { expected: "one reply for each command" });
        results.into_iter().map(|result| result.unwrap_or_else(missing)).collect()
    }

    /// One round trip: the scripts, then the open requests. Returns the results of the requests.
    async fn exchange(
        &self,
        link: &Arc<Link>,
        scripts: &[&Script],
        requests: &[Request<'_>],
        open: &[usize],
        asking: bool,
        deadline: Deadline,
    ) -> Result<Vec<Result<Value, Error>>, Error> {
        self.admit(link, deadline).await?;
        let mut pipeline = Pipeline::with_capacity(scripts.len() + open.len());
        for script in scripts {
            tracing::debug!(script = script.name(), "loading script");
            pipeline.add_command(script.load());
        }
        for &index in open {
            if asking {
                pipeline.cmd("ASKING");
            }
            pipeline.add_command(requests[index].command.clone());
        }
        let replies = link.send_all_by(&pipeline, deadline.at, deadline.allowed).await;
        let mut replies =
            replies.inspect_err(|error| self.note(link, Some(error)))?.into_iter().map(Error::checked);
        let refused: Vec<_> = scripts
            .iter()
            .zip(replies.by_ref())
            .filter_map(|(script, reply)| reply.err().map(|error| (script.sha(), error)))
            .collect();
        let answers = std::iter::from_fn(|| {
            let asked = if asking { replies.next()? } else { Ok(Value::Okay) };
            // A user without the right to ask is redirected back; the refusal of `ASKING` says more.
            replies.next().map(|answer| answer.map_err(|error| asked.err().unwrap_or(error)))
        });
        let answers: Vec<_> = open
            .iter()
            .zip(answers)
            .map(|(&index, answer)| {
                // The reason why a script could not be loaded says more than its absence.
                let why = |script: &Script| refused.iter().find(|(sha, _)| *sha == script.sha());
                match (&answer, requests[index].script.and_then(why)) {
                    (Err(error), Some((_, why))) if is_unknown_script(error) => Err(why.clone()),
                    _ => answer,
                }
            })
            .collect();
        let mut errors = answers.iter().filter_map(|answer| answer.as_ref().err());
        self.note(link, errors.find(|error| error.ends_connection()));
        Ok(answers)
    }

    fn note(&self, link: &Arc<Link>, error: Option<&Error>) {
        let silence = self.connector.access.settings.response_timeout;
        match error {
            Some(Error::TimedOut(_)) if !link.is_silent_for(silence) => {}
            Some(error @ Error::Server { .. }) if error.ends_connection() => self.leave_replica(link),
            Some(error) if error.ends_connection() => self.retire(link),
            _ => self.lock().backoff.reset(),
        }
    }

    fn ready_or_attempt(self: &Arc<Self>) -> Result<Arc<Link>, Outcome<Attempt>> {
        let mut state = self.lock();
        if let Slot::Ready(link) = &state.slot {
            if !link.is_closed() {
                return Ok(link.clone());
            }
            state.slot = Slot::Empty;
        }
        if let Slot::Connecting(flight) = &state.slot
            && !flight.is_over()
        {
            return Err(flight.outcome());
        }
        let attempt = Self::attempt(self.connector.clone(), state.backoff.clone(), Arc::downgrade(self));
        let flight = Flight::start(attempt);
        // The first reply resets this: a server that accepts and hangs up is not called without a pause.
        state.backoff.fail();
        let outcome = flight.outcome();
        state.slot = Slot::Connecting(flight);
        Err(outcome)
    }

    async fn attempt(connector: Connector, backoff: Backoff, shared: Weak<Self>) -> Attempt {
        backoff.wait().await;
        let result = connector.connect().await.map(Arc::new);
        if let Err(error) = &result {
            let error = error as &dyn std::error::Error;
            tracing::debug!(error, "cannot connect to redis");
        }
        if let Some(shared) = shared.upgrade() {
            shared.lock().slot = result.as_ref().map_or(Slot::Empty, |link| Slot::Ready(link.clone()));
        }
        result
    }

    /// Leaves a server that says that it is a replica, to find the master. If there is none, the next server is the
    /// same one, which answers reads. So this has its own pace.
    fn leave_replica(&self, link: &Arc<Link>) {
        let now = Instant::now();
        {
            let mut state = self.lock();
            if state.demoted_at.is_some_and(|at| now < at + LONGEST_PAUSE) {
                return;
            }
            state.demoted_at = Some(now);
        }
        self.retire(link);
    }

    fn retire(&self, link: &Arc<Link>) {
        let mut state = self.lock();
        if matches!(&state.slot, Slot::Ready(current) if Arc::ptr_eq(current, link)) {
            state.slot = Slot::Empty;
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn is_unknown_script(error: &Error) -> bool {
    matches!(error, Error::Server { code, detail } if &**code == "NOSCRIPT" && says(detail, "No matching script"))
}
