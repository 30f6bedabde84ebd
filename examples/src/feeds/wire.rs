//! The messages between a client and the feed server: one JSON value per line, in both directions.
//!
//! The first line decides the kind of the connection: [`Request::Hello`] makes it a tenant's; [`Request::Stats`] and
//! [`Request::Mark`] are the conductor's. Every message of a tenant carries the token of its job.

use serde::{Deserialize, Serialize};

use super::stats::Stats;

/// From a client to the feed server.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Request {
    /// Connects as a tenant.
    Hello(Hello),
    /// The heartbeat: the client is alive, and acts for its tenant.
    Beat {
        /// The job's token.
        token: u64,
        /// The number of the last feed line that arrived; 0 before the first.
        line: u64,
    },
    /// A notification has reached the tenant's job.
    Noted {
        /// The job's token.
        token: u64,
        /// The number of the notification.
        number: u64,
    },
    /// The client ends the connection and waits for the answer.
    Bye {
        /// The job's token.
        token: u64,
    },
    /// Asks for the judge's findings.
    Stats,
    /// Begins a new step: moves are counted from here.
    Mark,
}

/// The client's introduction.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Hello {
    /// The tenant.
    pub tenant: String,
    /// The job's token.
    pub token: u64,
    /// The node that runs the job.
    pub node: String,
    /// The worker of the node, for people.
    pub worker: String,
    /// The symbol to quote.
    pub symbol: String,
}

/// From the feed server to a client.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Reply {
    /// The connection is the tenant's.
    Welcome,
    /// The token is below the highest seen: the message had no effect.
    Refused {
        /// The highest token seen for the tenant.
        highest: u64,
    },
    /// A line of the feed.
    Line {
        /// Counts from 1 on every connection.
        number: u64,
        /// The quoted symbol.
        symbol: String,
        /// The price, in cents.
        cents: u64,
    },
    /// A newer token took the tenant over: this connection is closed.
    Replaced,
    /// The answer to [`Request::Bye`]: for the judge, the connection has ended.
    Bye,
    /// The judge's findings.
    Stats(Stats),
    /// The answer to [`Request::Mark`].
    Marked,
    /// The line makes no sense here; the connection is closed.
    Invalid {
        /// The expected lines.
        reason: String,
    },
}
