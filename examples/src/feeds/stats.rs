//! The judge's findings, as the conductor reads them.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// The judge's findings at one moment.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Stats {
    /// Every tenant that was ever connected.
    pub tenants: BTreeMap<String, Standing>,
    /// Changes of hands since the last mark, in their order.
    pub moves: Vec<Move>,
    /// Connections since the last mark with the token that the tenant already had: the same owner has returned.
    pub reconnects: u64,
    /// Pairs of connections of one tenant that both acted after the later one was accepted.
    pub duplicates: Vec<Duplicate>,
    /// Messages that were refused because of their token.
    pub refused: u64,
    /// Messages that had an effect although the judge had seen a higher token.
    pub stale_accepted: u64,
    /// The time since a connection was last made or ended, in milliseconds.
    pub quiet_ms: u64,
}

/// The state of a tenant.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Standing {
    /// Whether its newest connection is open and has sent a heartbeat.
    pub connected: bool,
    /// The token of the newest connection.
    pub token: u64,
    /// The node of the newest connection.
    pub node: String,
    /// The worker of the newest connection.
    pub worker: String,
    /// The last feed line that the newest connection has confirmed.
    pub line: u64,
    /// The notifications that arrived, each with its count.
    pub noted: BTreeMap<u64, u64>,
}

/// A tenant's change of hands.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Move {
    /// The tenant.
    pub tenant: String,
    /// The node that had it.
    pub from: String,
    /// The node that has it now.
    pub to: String,
    /// The time from the end of the old connection to the acceptance of the new one, in microseconds; 0 when the old
    /// one was still open.
    pub gap_us: u64,
}

/// Two connections of one tenant that both acted.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Duplicate {
    /// The tenant.
    pub tenant: String,
    /// The token of the connection that was accepted first.
    pub older: u64,
    /// The token of the connection that was accepted later.
    pub newer: u64,
}
