//! Calls on their way. Each takes time there and back, and may be lost, doubled, late, or answered to no caller.

use std::future::ready;
use std::sync::{Mutex, PoisonError};

use bytes::Bytes;
use std::time::Duration;

use futures::FutureExt;
use tenure_steps::{Class, Failure};

use super::Fault;
use super::node::{WorkerEvents, nanos};
use super::world::{Event, MS, World};
use tenure_protocol::core::call::{Call, Done, READ_BLOCK};
use tenure_protocol::core::input::Input;
use tenure_protocol::core::time::Time;
use tenure_protocol::memory::{Client, OnMemory, Server};
use tenure_protocol::model::id::{Incarnation, WorkerId};
use tenure_protocol::step::{Performs, Renew, Renewal, Result, Seen, StoreError};

/// The role of a call for its node: each of the two reads is in flight once at most.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Role {
    Step,
    NodeRead,
    PoolRead,
    Renewal,
}

#[derive(Clone, Debug)]
pub(super) enum Request {
    Call(Incarnation, Box<Call>),
    Renew { incarnation: Incarnation, seen: Seen, workers: Vec<WorkerId>, sent: Time },
}

#[derive(Debug)]
pub(super) enum Reply {
    Done(Box<Done>),
    Renewed(Result<Renewal>),
}

impl Reply {
    /// A read has found nothing.
    fn is_empty(&self) -> bool {
        let Self::Done(done) = self else { return false };
        match &**done {
            Done::ReadPool(_, Ok(Some(events))) => events.is_empty(),
            Done::ReadNode(_, _, Ok(events)) => {
                events.workers.is_empty() && events.outcomes.is_empty() && events.replies.is_empty()
            }
            _ => false,
        }
    }
}

/// One call on its way.
pub(super) struct Flight {
    pub(super) node: usize,
    role: Role,
    request: Request,
    /// The server process that it was sent to.
    process: u64,
    /// Its caller still waits.
    pub(super) open: bool,
    arrivals: u32,
    /// The node that is cut off when the call arrives.
    cuts: Option<usize>,
    lose_reply: bool,
    /// A full memory has refused it. The caller hears that nothing was done, so no copy of the call may do something.
    refused: bool,
    reply: Option<Reply>,
}

fn lost() -> StoreError {
    StoreError::Unanswered(Failure::new(std::io::Error::from(std::io::ErrorKind::TimedOut)))
}

/// Whether a full memory refuses the call. Of the commands, only `Tell` adds data.
fn needs_memory(call: &Call) -> bool {
    tenure_pool::store::needs_memory(call.step()).unwrap_or(matches!(call, Call::Tell(_)))
}

/// The server, for one call of a client. Each step is performed at once.
struct Visit<'a> {
    server: Mutex<&'a mut Server>,
    client: &'a Client,
    now: u64,
}

impl<S: OnMemory> Performs<S> for Visit<'_> {
    fn perform(&self, inc: Incarnation, step: &S) -> impl Future<Output = Result<S::Answer>> + Send {
        let mut server = self.server.lock().unwrap_or_else(PoisonError::into_inner);
        ready(server.perform(self.client, self.now, inc, step).map(|(answer, _)| answer))
    }
}

impl World {
    pub(super) fn call(&mut self, at: usize, incarnation: Incarnation, call: Call) {
        self.says(at, &call);
        let role = match &call {
            Call::ReadNode(..) => Role::NodeRead,
            Call::ReadPool(..) => Role::PoolRead,
            _ => Role::Step,
        };
        if role != Role::Step {
            self.drop_read(at, role);
        }
        self.send(at, role, Request::Call(incarnation, Box::new(call)));
    }

    /// The node no longer waits for this read.
    pub(super) fn drop_read(&mut self, at: usize, role: Role) {
        let Some(node) = self.nodes.get_mut(at) else { return };
        if let Some(id) = node.reads.remove(&role) {
            self.close(id);
        }
    }

    fn close(&mut self, id: u64) {
        self.parked.remove(&id);
        let over = self.flights.get_mut(&id).is_none_or(|flight| {
            flight.open = false;
            flight.arrivals == 0
        });
        if over {
            self.flights.remove(&id);
        }
    }

    pub(super) fn send(&mut self, at: usize, role: Role, request: Request) {
        let id = self.id();
        let lost_call = self.hits(Fault::LostCall);
        let lose_reply = self.hits(Fault::LostReply);
        let doubled = self.hits(Fault::Doubled);
        let late = self.hits(Fault::Delayed);
        let ttl = nanos(self.settings.worker_ttl);
        let looks = matches!(&request, Request::Call(_, call) if matches!(**call, Call::Heartbeats(..)));
        let cuts = if looks && self.hits(Fault::LateLook) { self.another(at) } else { None };
        let Some(node) = self.nodes.get_mut(at) else { return };
        let patience = match role {
            Role::Renewal => node.config.timing.renew_every,
            Role::Step => node.config.timing.ttl / 2,
            Role::NodeRead | Role::PoolRead => READ_BLOCK + node.config.timing.ttl / 2,
        };
        if matches!(role, Role::NodeRead | Role::PoolRead) {
            node.reads.insert(role, id);
        }
        let mut flight = Flight {
            node: at,
            role,
            request,
            process: self.process,
            open: true,
            arrivals: 0,
            cuts,
            lose_reply,
            refused: false,
            reply: None,
        };
        if !(lost_call || node.cut.calls) {
            let copies = 1 + u32::from(doubled);
            for copy in 0..copies {
                let far = late || copy > 0 && self.rng.chance(3_000);
                let delay = match cuts {
                    Some(_) => self.rng.between(ttl * 2 / 5, ttl * 9 / 20),
                    None if far => self.rng.between(MS, 3 * ttl),
                    None => self.trip(),
                };
                flight.arrivals += 1;
                self.after(delay, Event::Arrive(id));
            }
        }
        self.flights.insert(id, flight);
        self.after(nanos(patience), Event::Timeout(id));
    }

    /// The time of one way.
    fn trip(&mut self) -> u64 {
        if self.rng.chance(200) { self.rng.below(300 * MS) } else { self.rng.between(MS / 5, 2 * MS) }
    }

    pub(super) fn arrive(&mut self, id: u64) {
        let Some(flight) = self.flights.get_mut(&id) else { return };
        flight.arrivals -= 1;
        let cut = self.nodes.get(flight.node).is_some_and(|node| node.cut.calls);
        let cuts = flight.cuts.take().filter(|_| !self.healed);
        if flight.process == self.process && !cut {
            let block = match &flight.request {
                Request::Call(_, call) => match **call {
                    Call::ReadNode(ref read, _) => read.block,
                    _ => READ_BLOCK,
                },
                Request::Renew { .. } => READ_BLOCK,
            };
            self.execute(id, block);
        } else if flight.process != self.process {
            self.reset(id);
        }
        if let Some(other) = cuts {
            self.cut_off(other);
        }
        if self.flights.get(&id).is_some_and(|flight| !flight.open && flight.arrivals == 0) {
            self.flights.remove(&id);
        }
    }

    /// The server carries out the call. A read that finds nothing waits for up to `block`.
    fn execute(&mut self, id: u64, block: Duration) {
        let Some(flight) = self.flights.get(&id) else { return };
        let (at, role, request) = (flight.node, flight.role, flight.request.clone());
        if matches!(role, Role::NodeRead | Role::PoolRead) && !flight.open && block.is_zero() {
            return;
        }
        if flight.refused {
            return;
        }
        let full = self.refuses_for_memory(&request);
        if let Some(flight) = self.flights.get_mut(&id) {
            flight.refused = full;
        }
        let refused = self.must_refuse(at, &request);
        let before = self.server.facts();
        let (step, reply) = self.perform_on(at, request.clone());
        let Some(reply) = reply else {
            self.judge.violations.push(format!("a step of the store waits: {request:?}"));
            return;
        };
        let empty = reply.is_empty();
        if empty && !block.is_zero() {
            if self.flights.get(&id).is_some_and(|flight| flight.open) && self.parked.insert(id) {
                self.after(nanos(block), Event::Block(id));
            }
            return;
        }
        if !(empty && matches!(role, Role::NodeRead | Role::PoolRead)) {
            self.note(|| format!("server: {step} of n{at} {request:?} => {reply:?}"));
        }
        self.saw(at, step, &request, &reply);
        if self.ends_unheard(&request, &reply)
            && let Some(flight) = self.flights.get_mut(&id)
        {
            flight.lose_reply = true;
        }
        self.saw_level(at, step, &request, &reply, (before.floor, refused));
        let after = self.server.facts();
        if before != after || step != "read" {
            self.changed(step, &request);
        }
        if (before.incarnation, before.members, before.settings)
            != (after.incarnation, after.members, after.settings)
        {
            self.publish();
        }
        self.send_back(id, step, reply);
        if before.appended != after.appended || before.incarnation != after.incarnation {
            self.wake_reads();
        }
    }

    /// The server's memory is full, and the call needs some.
    fn refuses_for_memory(&self, request: &Request) -> bool {
        self.full && matches!(request, Request::Call(_, call) if needs_memory(call))
    }

    /// Carries the request out in the store. `None`: it waits. A read that finds nothing waits in this world's queue.
    fn perform_on(&mut self, at: usize, request: Request) -> (&'static str, Option<Reply>) {
        let is_refused = self.refuses_for_memory(&request);
        match request {
            Request::Renew { incarnation, seen, workers, .. } => {
                let node = Some(self.nodes[at].config.node.clone());
                let renewal = Renew { seen, node, workers, status: Bytes::new(), looks_at_memory: false };
                ("renew", Some(Reply::Renewed(self.perform(at, incarnation, &renewal))))
            }
            Request::Call(incarnation, call) => {
                let step = call.metric().unwrap_or("read");
                let done = if is_refused {
                    let full = Failure::of(Class::Full, std::fmt::Error);
                    Some(call.failed(StoreError::NotExecuted(full)))
                } else {
                    let client = &self.nodes[at].client;
                    let visit = Visit { server: Mutex::new(&mut self.server), client, now: self.server_now };
                    call.perform(&visit, incarnation).now_or_never()
                };
                (step, done.map(|done| Reply::Done(Box::new(done))))
            }
        }
    }

    /// Blocking reads look again.
    pub(super) fn wake_reads(&mut self) {
        for id in self.parked.clone() {
            self.execute(id, Duration::from_nanos(1));
        }
    }

    pub(super) fn waited(&mut self, id: u64) {
        if self.parked.remove(&id) {
            self.execute(id, Duration::ZERO);
        }
    }

    /// All blocking reads lose their connection.
    pub(super) fn reset_reads(&mut self) {
        for id in std::mem::take(&mut self.parked) {
            self.reset(id);
        }
    }

    /// The call's connection is gone: its caller learns that soon.
    fn reset(&mut self, id: u64) {
        let Some(flight) = self.flights.get_mut(&id).filter(|flight| flight.open) else { return };
        flight.reply = Some(match flight.request.clone() {
            Request::Call(_, call) => Reply::Done(Box::new(call.failed(lost()))),
            Request::Renew { .. } => Reply::Renewed(Err(lost())),
        });
        self.after(MS, Event::Answer(id));
    }

    fn send_back(&mut self, id: u64, step: &str, reply: Reply) {
        let trip = self.trip();
        let Some(flight) = self.flights.get_mut(&id) else { return };
        self.parked.remove(&id);
        let cut = self.nodes.get(flight.node).is_some_and(|node| node.cut.answers);
        if flight.open && flight.reply.is_none() && !flight.lose_reply && !cut {
            let at = flight.node;
            flight.reply = Some(reply);
            self.after(trip, Event::Answer(id));
            self.executed(at, step);
        }
    }

    pub(super) fn answered(&mut self, id: u64) {
        let Some(flight) = self.flights.get_mut(&id).filter(|flight| flight.open) else { return };
        if let Some(reply) = flight.reply.take() {
            self.over(id, reply);
        }
    }

    pub(super) fn timed_out(&mut self, id: u64) {
        self.fail(id, &lost());
    }

    fn fail(&mut self, id: u64, error: &StoreError) {
        let Some(flight) = self.flights.get(&id).filter(|flight| flight.open) else { return };
        let reply = match flight.request.clone() {
            Request::Call(_, call) => Reply::Done(Box::new(call.failed(error.clone()))),
            Request::Renew { .. } => Reply::Renewed(Err(error.clone())),
        };
        self.over(id, reply);
    }

    /// The caller hears the answer, once.
    fn over(&mut self, id: u64, reply: Reply) {
        let Some(flight) = self.flights.get(&id) else { return };
        let (at, role, request) = (flight.node, flight.role, flight.request.clone());
        self.close(id);
        if let Some(node) = self.nodes.get_mut(at)
            && node.reads.get(&role) == Some(&id)
        {
            node.reads.remove(&role);
        }
        match (request, reply) {
            (Request::Renew { incarnation, workers, sent, .. }, Reply::Renewed(answer)) => {
                self.renewed(at, sent, (incarnation, workers, answer));
            }
            (_, Reply::Done(mut done)) => {
                self.judge.hears(&done);
                if let Done::ReadNode(_, _, Ok(events)) = &mut *done {
                    self.reads_again(at, &mut events.workers);
                }
                self.step(at, Input::Done(done));
            }
            (Request::Call(..), Reply::Renewed(_)) => {}
        }
    }

    /// Adds the events of one of the node's latest reads, this one included.
    fn reads_again(&mut self, at: usize, events: &mut WorkerEvents) {
        let again = self.hits(Fault::ReadAgain);
        let Some(node) = self.nodes.get_mut(at) else { return };
        node.heard.push_front(events.clone());
        node.heard.truncate(8);
        let latest = node.heard.len() as u64;
        if again
            && let Some(heard) = usize::try_from(self.rng.below(latest)).ok().and_then(|n| node.heard.get(n))
        {
            events.extend(heard.iter().cloned());
        }
    }
}
