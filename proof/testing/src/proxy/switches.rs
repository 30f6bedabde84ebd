//! The switches of a proxy, the limits of its connections, and the traffic counts.
//!
//! One lock holds all of it, only for moments and never across an await. A byte is written while the lock is held, so a
//! switch takes effect at once.

use std::{
    collections::{BTreeMap, BTreeSet},
    io,
    sync::{Mutex, MutexGuard, PoisonError},
};

use tokio::sync::watch;

use crate::address::Address;

/// The direction of bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Direction {
    /// Commands.
    ToServer,
    /// Replies and messages.
    ToClient,
}

/// The place and the manner of a cut. Bytes on their way in the other direction at that moment are lost.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use]
pub struct Cut {
    direction: Direction,
    after: u64,
    end: End,
}

impl Cut {
    /// Ends the connection in good order after exactly this many bytes in this direction; with 0, before any.
    pub fn after(direction: Direction, bytes: u64) -> Self {
        Self { direction, after: bytes, end: End::Finish }
    }

    /// Resets the connection instead (`ECONNRESET`).
    pub fn reset(mut self) -> Self {
        self.end = End::Reset;
        self
    }
}

/// The traffic of a proxy so far.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Counts {
    /// Accepted connections.
    pub accepted: u64,
    /// The accepted connections through which bytes may still pass.
    pub open: u64,
    /// The accepted connections that a [`Cut`] has ended.
    pub cut: u64,
    /// Bytes forwarded to the server.
    pub to_server: u64,
    /// Bytes forwarded to clients.
    pub to_client: u64,
    /// Bytes from the server that were dropped.
    pub lost: u64,
}

/// The manner in which a connection ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum End {
    Finish,
    Reset,
}

/// The treatment of one direction's bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Flow {
    Pass,
    Hold,
    Lose,
}

/// The order for one direction of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Order {
    Flow(Flow),
    End(End),
}

/// A number for each connection of a proxy.
pub(super) type Id = u64;

pub(super) struct Switches {
    state: Mutex<State>,
    changed: watch::Sender<()>,
}

struct State {
    upstream: Address,
    refusing: bool,
    flows: PerDirection<Flow>,
    next: Option<Cut>,
    each: Option<Cut>,
    open: BTreeMap<Id, PerDirection<Option<Limit>>>,
    /// Connections that lose all replies.
    unheard: BTreeSet<Id>,
    /// Scripts that lose the reply to their next call.
    unanswered: BTreeSet<String>,
    lost_replies: BTreeMap<String, u64>,
    counts: Counts,
}

/// The bytes that may still pass, and the end that follows them.
#[derive(Clone, Copy)]
struct Limit {
    left: u64,
    end: End,
}

#[derive(Clone, Copy)]
struct PerDirection<T> {
    to_server: T,
    to_client: T,
}

impl<T> PerDirection<T> {
    fn get(&mut self, direction: Direction) -> &mut T {
        match direction {
            Direction::ToServer => &mut self.to_server,
            Direction::ToClient => &mut self.to_client,
        }
    }
}

impl Switches {
    pub(super) fn new(upstream: Address) -> Self {
        let state = State {
            upstream,
            refusing: false,
            flows: PerDirection { to_server: Flow::Pass, to_client: Flow::Pass },
            next: None,
            each: None,
            open: BTreeMap::new(),
            unheard: BTreeSet::new(),
            unanswered: BTreeSet::new(),
            lost_replies: BTreeMap::new(),
            counts: Counts::default(),
        };
        Self { state: Mutex::new(state), changed: watch::Sender::new(()) }
    }

    /// Notifies of every change of a switch.
    pub(super) fn changes(&self) -> watch::Receiver<()> {
        self.changed.subscribe()
    }

    pub(super) fn redirect(&self, upstream: Address) {
        self.turn(|state| state.upstream = upstream);
    }

    pub(super) fn set_refusing(&self, refusing: bool) {
        self.turn(|state| state.refusing = refusing);
    }

    pub(super) fn is_refusing(&self) -> bool {
        self.state().refusing
    }

    pub(super) fn set_flow(&self, directions: &[Direction], flow: Flow) {
        self.turn(|state| directions.iter().for_each(|&direction| *state.flows.get(direction) = flow));
    }

    pub(super) fn cut_next(&self, cut: Option<Cut>) {
        self.turn(|state| state.next = cut);
    }

    pub(super) fn cut_each(&self, cut: Option<Cut>) {
        self.turn(|state| state.each = cut);
    }

    pub(super) fn cut_open(&self, cut: Cut) {
        self.turn(|state| state.open.values_mut().for_each(|limits| cut.limit(limits)));
    }

    pub(super) fn counts(&self) -> Counts {
        let state = self.state();
        Counts { open: state.open.len() as u64, ..state.counts }
    }

    /// Counts an accepted connection. Returns its number and its server's address.
    pub(super) fn accepted(&self) -> (Id, Address) {
        let mut state = self.state();
        state.counts.accepted += 1;
        let id = state.counts.accepted;
        let mut limits = PerDirection { to_server: None, to_client: None };
        if let Some(cut) = state.next.take().or(state.each) {
            cut.limit(&mut limits);
        }
        state.open.insert(id, limits);
        (id, state.upstream.clone())
    }

    pub(super) fn lose_reply_to(&self, hashes: BTreeSet<String>) {
        self.state().unanswered = hashes;
    }

    pub(super) fn lost_replies(&self) -> BTreeMap<String, u64> {
        self.state().lost_replies.clone()
    }

    /// Registers a call of this script that is about to pass. Returns whether this connection's replies are lost from
    /// now on because of it.
    pub(super) fn called(&self, id: Id, script: &str) -> bool {
        let mut state = self.state();
        let all_lost = state.flows.to_client == Flow::Lose;
        let this_one = !all_lost && state.unanswered.remove(script);
        if all_lost || this_one {
            *state.lost_replies.entry(script.to_owned()).or_default() += 1;
        }
        if this_one {
            state.unheard.insert(id);
        }
        drop(state);
        if this_one {
            self.changed.send_replace(());
        }
        this_one
    }

    /// Forgets a connection that has ended.
    pub(super) fn ended(&self, id: Id) {
        let mut state = self.state();
        state.unheard.remove(&id);
        state.open.remove(&id);
    }

    /// The order for the bytes of this direction. An end is ordered, and counted, once.
    pub(super) fn order(&self, id: Id, direction: Direction) -> Order {
        let mut state = self.state();
        match state.reached(id, direction) {
            Some(end) => {
                state.counts.cut += 1;
                Order::End(end)
            }
            None => Order::Flow(state.flow(id, direction)),
        }
    }

    /// Writes bytes, unless they must not pass now. `write` receives the most bytes that it may write, and returns how
    /// many it wrote. If nothing may pass, the result is 0.
    pub(super) fn pass(
        &self,
        id: Id,
        direction: Direction,
        write: impl FnOnce(usize) -> io::Result<usize>,
    ) -> io::Result<usize> {
        let mut state = self.state();
        if state.reached(id, direction).is_some() || state.flow(id, direction) != Flow::Pass {
            return Ok(0);
        }
        let limit = state.open.get_mut(&id).and_then(|limits| limits.get(direction).as_mut());
        let allowed =
            limit.as_ref().map_or(usize::MAX, |limit| usize::try_from(limit.left).unwrap_or(usize::MAX));
        let written = write(allowed)?;
        if let Some(limit) = limit {
            limit.left -= written as u64;
        }
        match direction {
            Direction::ToServer => state.counts.to_server += written as u64,
            Direction::ToClient => state.counts.to_client += written as u64,
        }
        Ok(written)
    }

    /// Counts dropped bytes.
    pub(super) fn lost(&self, bytes: usize) {
        self.state().counts.lost += bytes as u64;
    }

    fn turn(&self, turn: impl FnOnce(&mut State)) {
        turn(&mut self.state());
        self.changed.send_replace(());
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn flow(&mut self, id: Id, direction: Direction) -> Flow {
        let unheard = direction == Direction::ToClient && self.unheard.contains(&id);
        if unheard { Flow::Lose } else { *self.flows.get(direction) }
    }

    /// The end of the connection, if it has reached its limit.
    fn reached(&mut self, id: Id, direction: Direction) -> Option<End> {
        let limit = (*self.open.get_mut(&id)?.get(direction))?;
        (limit.left == 0).then_some(limit.end)
    }
}

impl Cut {
    fn limit(self, limits: &mut PerDirection<Option<Limit>>) {
        *limits.get(self.direction) = Some(Limit { left: self.after, end: self.end });
    }
}
