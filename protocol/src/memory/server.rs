//! A server process around the state. A client must know the process before the process performs the client's steps.

use std::fmt;
use std::time::Duration;

use tenure_steps::Failure;

use super::state::State;
use crate::model::id::{Incarnation, Revision};
use crate::model::level;
use crate::model::member::Members;
use crate::model::settings::StoredSettings;
use crate::mutation::Mutation;
use crate::step::{BATCH_MAX, Refusal, Result, ServerIdentity, Step, StoreError};

/// The store was made unavailable.
#[derive(Debug, thiserror::Error)]
#[error("the store in memory is switched off")]
struct SwitchedOff;

/// What a client says with each of its steps.
#[derive(Clone, Debug)]
pub struct Client {
    /// The server process that the client was told to use.
    pub blessed: Option<Box<str>>,
    /// The level of the client's steps.
    pub level: u32,
}

impl Default for Client {
    /// A client of this version's level that was told of no process.
    fn default() -> Self {
        Self { blessed: None, level: level::OWN }
    }
}

/// What a step has changed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[must_use]
pub struct Changes {
    /// The members or the settings.
    pub maps: bool,
    /// A stream has a new entry.
    pub entries: bool,
}

/// One server process and its data.
pub struct Server {
    pub(super) state: State,
    /// How many processes there were before.
    pub(super) process: u64,
    /// Server time, ms, at which the process began. The first process counts as having always run, because nobody can
    /// have used the store before it.
    pub(super) started: u64,
    pub(super) flushed: bool,
    pub(super) available: bool,
}

impl Server {
    /// A process without a pool.
    pub fn new() -> Self {
        Self { state: State::default(), process: 0, started: 0, flushed: false, available: true }
    }

    /// The id of the process.
    pub fn run_id(&self) -> String {
        format!("memory{}", self.process)
    }

    /// The process, for a client that asks at this time, ms.
    pub(super) fn identity(&self, now: u64) -> ServerIdentity {
        let uptime = Duration::from_millis(now.saturating_sub(self.started));
        ServerIdentity { run_id: self.run_id(), uptime, promoted: false, flushed: self.flushed }
    }

    /// The members.
    pub fn members(&self) -> Members {
        let state = &self.state;
        Members {
            incarnation: state.meta.incarnation,
            revision: state.meta.members,
            ring_size: state.ring_size,
            cordoned: state.cordoned.clone(),
            entries: state.members.clone(),
        }
    }

    /// The stored settings.
    pub fn settings(&self) -> StoredSettings {
        let meta = &self.state.meta;
        StoredSettings {
            incarnation: meta.incarnation,
            revision: meta.settings,
            fields: self.state.settings.clone(),
        }
    }

    /// The incarnation, and the revisions of members and settings.
    pub fn revisions(&self) -> (Option<Incarnation>, Revision, Revision) {
        let meta = &self.state.meta;
        (meta.incarnation, meta.members, meta.settings)
    }

    /// Fails if the store was made unavailable.
    ///
    /// # Errors
    /// [`StoreError::NotExecuted`].
    pub fn reach(&self) -> Result<()> {
        if self.available { Ok(()) } else { Err(StoreError::NotExecuted(Failure::new(SwitchedOff))) }
    }

    /// Fails if the client was told to use another process.
    ///
    /// # Errors
    /// [`StoreError::OtherServer`], or as of [`reach`](Self::reach).
    pub fn admit(&self, client: &Client) -> Result<()> {
        self.reach()?;
        let run_id = self.run_id();
        let unasked = self.state.broken.has(Mutation::ScriptBeforeIdentity);
        if unasked || client.blessed.as_deref() == Some(&*run_id) {
            Ok(())
        } else {
            Err(StoreError::OtherServer { run_id })
        }
    }

    /// Performs a step at this server time, ms, and says what the step has changed.
    ///
    /// # Errors
    /// [`StoreError`]. Nothing was changed.
    pub fn perform<S: OnMemory>(
        &mut self,
        client: &Client,
        now: u64,
        inc: Incarnation,
        step: &S,
    ) -> Result<(S::Answer, Changes)> {
        if S::ANY_SERVER { self.reach() } else { self.admit(client) }?;
        if step.items() > BATCH_MAX {
            return Err(StoreError::Refused(Refusal::BadArgument));
        }
        self.state.level = client.level;
        self.state.expire_keys(now);
        let (appended, revisions) = (self.state.appended, self.state.revisions());
        let answer = step.on(self, now, inc).map_err(StoreError::Refused)?;
        let changes =
            Changes { maps: revisions != self.state.revisions(), entries: appended != self.state.appended };
        Ok((answer, changes))
    }
}

impl Default for Server {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for Server {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut server = f.debug_struct("Server");
        server.field("run_id", &self.run_id()).field("available", &self.available);
        server.field("pool", &self.state.pool_state()).finish_non_exhaustive()
    }
}

/// What a server in memory does for a step. No part of this is a contract: use [`Server::perform`].
pub trait OnMemory: Step {
    /// Any server performs the step, also one that no client has blessed.
    const ANY_SERVER: bool = false;
    /// Changes the server's state at this server time, ms, or refuses the step and changes nothing.
    ///
    /// # Errors
    /// The refusal.
    fn on(&self, server: &mut Server, now: u64, inc: Incarnation) -> Applied<Self>;
    /// For how long the step waits for another answer than this one. `None`: the answer is final.
    fn wait(&self, _: &Self::Answer) -> Option<Duration> {
        None
    }
}

/// A step's change of the state. It is pure: time comes from outside.
pub(super) trait Transition: Step {
    /// As of [`OnMemory`].
    const ANY_SERVER: bool = false;
    /// Changes the state at this server time, ms, or refuses the step and changes nothing.
    fn apply(&self, state: &mut State, now: u64, inc: Incarnation) -> Applied<Self>;
}

/// The answer of a step, or its refusal.
pub(super) type Applied<S> = std::result::Result<<S as Step>::Answer, Refusal>;

impl<S: Transition> OnMemory for S {
    const ANY_SERVER: bool = <S as Transition>::ANY_SERVER;
    fn on(&self, server: &mut Server, now: u64, inc: Incarnation) -> Applied<Self> {
        self.apply(&mut server.state, now, inc)
    }
}
