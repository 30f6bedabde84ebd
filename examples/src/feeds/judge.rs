//! The outside judge. It decides about every message of a tenant, and can say afterwards whether two connections of one
//! tenant ever acted at the same time. Pure: time is an argument.
//!
//! 1. A message whose token is below the highest seen for its tenant is refused, and counted.
//! 2. A newer token closes the older connections.
//! 3. Two connections are a *duplicate* when each sent a heartbeat after the later one was accepted. A refused
//!    heartbeat counts: the tenant was spared, but two workers were at work.
//! 4. Independent of the decision, a ledger records every message that had an effect. A message below a recorded token
//!    is a stale token that was accepted.

use std::collections::BTreeMap;
use std::time::Duration;

use super::stats::{Duplicate, Move, Standing, Stats};
use super::wire::Hello;

/// Whether tokens are checked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fencing {
    /// Refuses a message below the highest token.
    Enforced,
    /// Lets every message have an effect, as a resource without tokens does. The ledger then shows the value of tokens.
    Ignored,
}

/// One accepted connection.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ConnectionId {
    tenant: String,
    index: usize,
}

/// The answer to a hello.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Admission {
    /// The connection is the tenant's.
    Accepted {
        /// Its id.
        connection: ConnectionId,
        /// Open connections under older tokens, which must be closed.
        replaced: Vec<ConnectionId>,
    },
    /// The token is too low.
    Refused(Stale),
}

/// A message was refused: its token is below the highest seen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stale {
    /// The highest token seen for the tenant.
    pub highest: u64,
}

/// The judge's observations of all tenants.
#[derive(Debug)]
pub struct Judge {
    fencing: Fencing,
    tenants: BTreeMap<String, History>,
    clock: Clock,
    refused: u64,
    moves: Vec<Move>,
    reconnects: u64,
    changed: Duration,
}

impl Judge {
    /// A judge without observations.
    pub fn new(fencing: Fencing) -> Self {
        Self {
            fencing,
            tenants: BTreeMap::new(),
            clock: Clock(0),
            refused: 0,
            moves: Vec::new(),
            reconnects: 0,
            changed: Duration::ZERO,
        }
    }

    /// A client connects as a tenant.
    pub fn hello(&mut self, hello: &Hello, now: Duration) -> Admission {
        let history = self.tenants.entry(hello.tenant.clone()).or_default();
        if let Err(stale) = history.check(self.fencing, hello.token) {
            self.refused += 1;
            return Admission::Refused(stale);
        }
        match history.connections.last() {
            Some(last) if last.token == hello.token => self.reconnects += 1,
            Some(last) => self.moves.push(Move {
                tenant: hello.tenant.clone(),
                from: last.node.clone(),
                to: hello.node.clone(),
                gap_us: history.vacant_for(now).as_micros() as u64,
            }),
            None => {}
        }
        let id = |index| ConnectionId { tenant: hello.tenant.clone(), index };
        let older = history.connections.iter().enumerate();
        let replaced =
            older.filter(|(_, c)| c.ended.is_none() && c.token < hello.token).map(|(i, _)| id(i)).collect();
        let connection = id(history.connections.len());
        history.ledger.effect(hello.token);
        history.connections.push(Connection::accepted(hello, self.clock.tick()));
        self.changed = now;
        Admission::Accepted { connection, replaced }
    }

    /// A heartbeat arrived on a connection.
    ///
    /// # Errors
    /// The heartbeat was refused.
    pub fn beat(&mut self, id: &ConnectionId, token: u64, line: u64) -> Result<(), Stale> {
        let moment = self.clock.tick();
        self.message(
            id,
            token,
            |connection| connection.last_beat = Some(moment),
            |history| {
                if let Some(connection) = history.connections.get_mut(id.index) {
                    connection.line = connection.line.max(line);
                }
            },
        )
    }

    /// A notification was confirmed on a connection.
    ///
    /// # Errors
    /// The message was refused.
    pub fn noted(&mut self, id: &ConnectionId, token: u64, number: u64) -> Result<(), Stale> {
        self.message(id, token, |_| {}, |history| *history.noted.entry(number).or_default() += 1)
    }

    /// A connection has ended. Only the first end of a connection counts.
    pub fn ended(&mut self, id: &ConnectionId, now: Duration) {
        let connection = self.tenants.get_mut(&id.tenant).and_then(|h| h.connections.get_mut(id.index));
        if let Some(connection) = connection.filter(|c| c.ended.is_none()) {
            connection.ended = Some(now);
            self.changed = now;
        }
    }

    /// Begins a new step: moves and reconnects are counted from here.
    pub fn mark(&mut self) {
        self.moves.clear();
        self.reconnects = 0;
    }

    /// The findings so far.
    pub fn stats(&self, now: Duration) -> Stats {
        let tenants =
            self.tenants.iter().filter_map(|(name, h)| Some((name.clone(), h.standing()?))).collect();
        Stats {
            tenants,
            moves: self.moves.clone(),
            reconnects: self.reconnects,
            duplicates: self.tenants.iter().flat_map(|(name, history)| history.duplicates(name)).collect(),
            refused: self.refused,
            stale_accepted: self.tenants.values().map(|history| history.ledger.stale).sum(),
            quiet_ms: now.saturating_sub(self.changed).as_millis() as u64,
        }
    }

    /// Passes one message: `attempt` happens in any case, `effect` only when the message is not refused.
    fn message(
        &mut self,
        id: &ConnectionId,
        token: u64,
        attempt: impl FnOnce(&mut Connection),
        effect: impl FnOnce(&mut History),
    ) -> Result<(), Stale> {
        let history = self.tenants.entry(id.tenant.clone()).or_default();
        if let Some(connection) = history.connections.get_mut(id.index) {
            attempt(connection);
        }
        if let Err(stale) = history.check(self.fencing, token) {
            self.refused += 1;
            return Err(stale);
        }
        history.ledger.effect(token);
        effect(history);
        Ok(())
    }
}

/// Orders events that may carry the same time.
#[derive(Debug)]
struct Clock(u64);

impl Clock {
    fn tick(&mut self) -> u64 {
        self.0 += 1;
        self.0
    }
}

/// The observations of one tenant.
#[derive(Debug, Default)]
struct History {
    /// The connections in the order of their acceptance.
    connections: Vec<Connection>,
    ledger: Ledger,
    noted: BTreeMap<u64, u64>,
}

impl History {
    fn check(&self, fencing: Fencing, token: u64) -> Result<(), Stale> {
        let highest = self.connections.iter().map(|c| c.token).max().unwrap_or(0);
        if fencing == Fencing::Enforced && token < highest { Err(Stale { highest }) } else { Ok(()) }
    }

    /// The time for which nobody has been connected.
    fn vacant_for(&self, now: Duration) -> Duration {
        let ends: Option<Vec<_>> = self.connections.iter().map(|c| c.ended).collect();
        let last = ends.and_then(|ends| ends.into_iter().max());
        last.map_or(Duration::ZERO, |last| now.saturating_sub(last))
    }

    fn standing(&self) -> Option<Standing> {
        let newest = self.connections.last()?;
        Some(Standing {
            connected: newest.ended.is_none() && newest.last_beat.is_some(),
            token: newest.token,
            node: newest.node.clone(),
            worker: newest.worker.clone(),
            line: newest.line,
            noted: self.noted.clone(),
        })
    }

    fn duplicates<'a>(&'a self, tenant: &'a str) -> impl Iterator<Item = Duplicate> + 'a {
        let pairs = self
            .connections
            .iter()
            .enumerate()
            .flat_map(|(i, older)| self.connections[i + 1..].iter().map(move |newer| (older, newer)));
        pairs
            .filter(|(older, newer)| newer.last_beat.is_some() && older.last_beat > Some(newer.accepted))
            .map(move |(older, newer)| Duplicate {
                tenant: tenant.to_owned(),
                older: older.token,
                newer: newer.token,
            })
    }
}

#[derive(Debug)]
struct Connection {
    token: u64,
    node: String,
    worker: String,
    accepted: u64,
    last_beat: Option<u64>,
    line: u64,
    ended: Option<Duration>,
}

impl Connection {
    fn accepted(hello: &Hello, moment: u64) -> Self {
        Self {
            token: hello.token,
            node: hello.node.clone(),
            worker: hello.worker.clone(),
            accepted: moment,
            last_beat: None,
            line: 0,
            ended: None,
        }
    }
}

/// The tenant's messages that had an effect, as far as needed to find a stale one among them.
#[derive(Debug, Default)]
struct Ledger {
    highest: u64,
    stale: u64,
}

impl Ledger {
    fn effect(&mut self, token: u64) {
        if token < self.highest {
            self.stale += 1;
        }
        self.highest = self.highest.max(token);
    }
}
