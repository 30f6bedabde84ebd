//! A state of the model: the state of the store and of the roles, and the memory of a judge.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::time::Duration;

use tenure_protocol::memory::{Client, OnMemory, Server, Snapshot};
use tenure_protocol::model::id::{
    DispatchId, Incarnation, JobKey, NodeName, Nonce, Revision, Token, WorkerId,
};
use tenure_protocol::model::record::{Begun, Record};
use tenure_protocol::model::settings::Settings;
use tenure_protocol::step::{
    Bootstrap, Join, JoinRequest, OpenNormal, ReleaseMode, Seen, Settle, StoreError,
};

use super::asks::{Asked, At, Attempt, Sending, Word};
use super::clock::Clock;
use super::grants::Grant;
use super::notes::{CAP, Heard, Notes};
use super::pauses::{Pauses, Wish};
use super::scope::{Left, Scope};
use super::states::States;
use super::updates::Payloads;

/// The time of the server's clock. It stands still, and every time-out is 0, so everything that waits may happen at
/// once.
pub(crate) const NOW: u64 = 1_760_000_000_000;

thread_local! {
    /// The server on which steps are run; it holds the state only for as long as a step takes.
    static SERVER: RefCell<Server> = RefCell::default();
}

/// Runs a step on a state.
pub(crate) fn on<S: OnMemory>(
    state: &mut Snapshot,
    inc: Incarnation,
    step: &S,
) -> Result<S::Answer, StoreError> {
    let client = Client { blessed: Some("memory0".into()), ..Client::default() };
    SERVER.with_borrow_mut(|server| {
        server.swap(state);
        let answer = server.perform(&client, NOW, inc, step);
        server.swap(state);
        answer.map(|(answer, _)| answer)
    })
}

/// A job in a worker's hands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Held {
    pub(crate) token: Token,
    pub(crate) attempts: u32,
    pub(crate) begun: Begun,
    /// Which dispatch.
    pub(crate) of: usize,
    pub(crate) heard: Heard,
    /// How many checkpoints its handler has given, and how many of them the pool has kept as its worker knows.
    pub(crate) given: u8,
    pub(crate) saved: u8,
    /// The generation of the payload that it runs with, and the highest one that its worker has heard of.
    pub(crate) ran: u64,
    pub(crate) told: u64,
}

impl Held {
    pub(crate) fn leaving(self, mode: ReleaseMode) -> Leaving {
        // A job that somebody has paused goes by no payload.
        let ran = (mode != ReleaseMode::Park).then_some(self.ran);
        Leaving { token: self.token, mode, ran }
    }
}

/// The next act when a handler has stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Then {
    Release(ReleaseMode),
    Nothing,
    /// Another worker owns it under a higher token. It ends without a call.
    Outranked,
}

/// A release that a worker has to send.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Leaving {
    pub(crate) token: Token,
    pub(crate) mode: ReleaseMode,
    /// The generation of the payload that its handler ran with, if it ran.
    pub(crate) ran: Option<u64>,
}

impl Leaving {
    /// The job has not run here.
    pub(crate) fn unused(token: Token, mode: ReleaseMode) -> Self {
        Self { token, mode, ran: None }
    }
}

/// A worker's present act on a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Hand {
    Idle,
    /// The worker sends `begin` until it is answered.
    Beginning(Token),
    /// Begun; the handler is not called yet.
    Begun(Held),
    /// The handler is active.
    Running(Held),
    /// The handler is active and was asked to end.
    Stopping(Held, Then),
    /// The handler has ended, or never ran; the worker sends `release` until it is answered.
    Ending(Leaving),
}

impl Hand {
    pub(crate) fn active(self) -> Option<Held> {
        match self {
            Self::Running(held) | Self::Stopping(held, _) => Some(held),
            _ => None,
        }
    }

    pub(crate) fn token(self) -> Option<Token> {
        match self {
            Self::Idle => None,
            Self::Beginning(token) | Self::Ending(Leaving { token, .. }) => Some(token),
            Self::Begun(held) | Self::Running(held) | Self::Stopping(held, _) => Some(held.token),
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Life {
    Up,
    Draining,
    /// Its lease has run out, or it has crashed: nothing of it runs.
    Fenced,
    Left,
}

/// The progress of a worker's reports in phase R.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Said {
    Nothing,
    /// All that it has.
    All,
    /// And that this is all.
    LastWord,
}

#[derive(Clone, Debug, Hash)]
pub(crate) struct Worker {
    pub(crate) id: WorkerId,
    pub(crate) life: Life,
    /// Dispatches whose handlers ended with its lease.
    pub(crate) cut: BTreeSet<usize>,
    pub(crate) hands: Vec<Hand>,
    /// The progress of its reports in this phase R.
    pub(crate) said: Said,
    /// The jobs that have ended here or were handed off from here: key, dispatch, token.
    pub(crate) journal: BTreeSet<(usize, usize, Token, Parting)>,
    /// The attempts of the ask that have come, and what became of each.
    pub(crate) asks: BTreeMap<u8, At>,
    /// The highest token that it has read or spoken of.
    pub(crate) high: Token,
    /// The last run of each key that it has had in hand, where jobs are granted.
    pub(crate) had: Vec<Token>,
}

impl Worker {
    pub(crate) fn lives(&self) -> bool {
        matches!(self.life, Life::Up | Life::Draining)
    }
}

/// How a job has left a worker's hands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Parting {
    /// It has ended with a payload of this generation. Not `sure`: it goes on if the pool has a later one.
    Ended {
        ran: u64,
        sure: bool,
    },
    HandedOff,
}

/// A router's view of the ring.
#[derive(Clone, Debug, Hash)]
pub(crate) struct View {
    pub(crate) revision: Revision,
    pub(crate) up: Vec<WorkerId>,
}

/// An event of a worker's stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Mail {
    Start(usize, Token),
    Grant(Grant),
    Stop(usize, Token),
    /// Its record has a payload of this generation.
    Update(usize, Token, u64),
    Ask(usize, Token, Attempt),
    /// Somebody pauses it.
    Pause(usize, Token),
}

impl Mail {
    /// The job that it is about.
    pub(crate) fn key(self) -> usize {
        match self {
            Self::Grant(grant) => grant.key,
            Self::Start(key, _)
            | Self::Stop(key, _)
            | Self::Update(key, ..)
            | Self::Ask(key, ..)
            | Self::Pause(key, _) => key,
        }
    }

    /// The token of the run that it is about.
    pub(crate) fn token(self) -> Token {
        match self {
            Self::Grant(grant) => grant.token,
            Self::Start(_, token)
            | Self::Stop(_, token)
            | Self::Update(_, token, _)
            | Self::Ask(_, token, _)
            | Self::Pause(_, token) => token,
        }
    }
}

/// A call on its way.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Call {
    Begin(WorkerId, usize, Token),
    Release(WorkerId, usize, Leaving),
    Take(WorkerId, usize, Token, Heard),
    /// A checkpoint, by its number.
    Keep(WorkerId, usize, Token, u8),
    Update(Offer),
    Ask(Sending),
    /// The start of an ask, by its dispatch.
    Start(usize),
    Steer(Wish),
}

/// A payload that a user has for a dispatch, with what that user has seen of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Offer {
    pub(crate) dispatch: usize,
    pub(crate) seen: u64,
    pub(crate) owner: Option<WorkerId>,
    pub(crate) payload: u8,
}

/// The judge's knowledge of a dispatch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Fate {
    pub(crate) accepted: bool,
    /// Its record was there and is gone.
    pub(crate) over: bool,
}

#[expect(clippy::derived_hash_with_manual_eq, reason = "stateright tells states apart by their hash")]
#[derive(Clone, Debug, Hash)]
pub(crate) struct World {
    pub(crate) store: Snapshot,
    /// The state that the data may roll back to.
    pub(crate) saved: Option<Box<Snapshot>>,
    pub(crate) inc: Incarnation,
    pub(crate) workers: Vec<Worker>,
    pub(crate) views: Vec<View>,
    /// Events that were sent: they may come at any time, any number of times.
    pub(crate) mail: BTreeSet<(WorkerId, Mail)>,
    /// Calls that are executed late, with the incarnation that their callers knew.
    pub(crate) copies: BTreeSet<(Incarnation, Call)>,
    pub(crate) left: Left,
    pub(crate) fates: Vec<Fate>,
    /// The token of the last handler of each key.
    pub(crate) last: Vec<Token>,
    /// Keys and tokens that were begun.
    pub(crate) begun: BTreeSet<(usize, Token)>,
    pub(crate) notes: Vec<Notes>,
    pub(crate) states: Vec<States>,
    pub(crate) payloads: Vec<Payloads>,
    pub(crate) asked: Asked,
    /// The words to the present attempt of the ask. Each may be heard at any time.
    pub(crate) said: BTreeSet<Word>,
    pub(crate) pauses: Pauses,
    pub(crate) clock: Clock,
    /// No more faults and no more requests of users.
    pub(crate) calm: bool,
    /// The property that a step has violated.
    pub(crate) broke: Option<&'static str>,
}

impl World {
    /// Runs a step in the incarnation that everybody knows.
    pub(crate) fn on<S: OnMemory>(&mut self, step: &S) -> Result<S::Answer, StoreError> {
        on(&mut self.store, self.inc, step)
    }
}

impl PartialEq for World {
    fn eq(&self, other: &Self) -> bool {
        let of = |world: &Self| {
            let mut hasher = DefaultHasher::new();
            world.hash(&mut hasher);
            hasher.finish()
        };
        of(self) == of(other)
    }
}

/// The model.
pub(crate) struct Pool {
    pub(crate) scope: Scope,
    pub(crate) keys: Vec<JobKey>,
    pub(crate) ids: Vec<DispatchId>,
    pub(crate) settings: Settings,
    /// Only the properties whose names begin like this.
    pub(crate) only: Option<String>,
}

impl Pool {
    pub(crate) fn new(scope: Scope) -> Self {
        let settings = Settings {
            route_timeout: Duration::ZERO,
            assign_timeout: Duration::ZERO,
            stop_retry: Duration::ZERO,
            max_attempts: 2,
            notify_cap: CAP,
            grant_max: u64::from(scope.grants),
            ..Settings::default()
        };
        let keys = (0..scope.keys).map(|key| JobKey::try_from(format!("k{key}").as_str()).unwrap()).collect();
        let ids = (0..scope.dispatches.len()).map(|id| format!("n.d{id}").parse().unwrap()).collect();
        Self { scope, keys, ids, settings, only: None }
    }

    pub(crate) fn join(&self, store: &mut Snapshot, inc: Incarnation, nonce: &str) -> WorkerId {
        let request = JoinRequest {
            nonce: Nonce::new(nonce).unwrap(),
            node: node(),
            meta: String::new(),
            address: String::new(),
            preferred: None,
            settings: self.settings.clone(),
        };
        let seat = on(store, inc, &Join { request: Box::new(request) }).unwrap();
        on(store, inc, &Settle { worker: seat.worker }).unwrap().worker
    }

    pub(crate) fn bootstrap(&self, store: &mut Snapshot, seen: Seen) -> Incarnation {
        let step = Bootstrap { seen, run_id: "memory0".into(), settings: Box::new(self.settings.clone()) };
        on(store, Incarnation(0), &step).unwrap().incarnation
    }

    /// An open pool with two workers in its ring and nothing to do.
    pub(crate) fn beginning(&self) -> World {
        let mut store = SERVER.with_borrow(Server::snapshot);
        store.wipe();
        store.break_on_purpose(self.scope.broken.clone());
        let inc = self.bootstrap(&mut store, Seen::default());
        on(&mut store, inc, &OpenNormal).unwrap();
        let hands = vec![Hand::Idle; self.scope.keys];
        let mut workers = Vec::new();
        for nonce in ["a", "b"] {
            let id = self.join(&mut store, inc, nonce);
            workers.push(Worker {
                id,
                life: Life::Up,
                cut: BTreeSet::new(),
                hands: hands.clone(),
                said: Said::LastWord,
                journal: BTreeSet::new(),
                asks: BTreeMap::new(),
                high: Token(0),
                had: vec![Token(0); hands.len()],
            });
        }
        let view = view(&store);
        World {
            store,
            saved: None,
            inc,
            workers,
            views: vec![view; self.scope.routers],
            mail: BTreeSet::new(),
            copies: BTreeSet::new(),
            left: self.scope.left,
            fates: vec![Fate::default(); self.ids.len()],
            last: vec![Token(0); self.scope.keys],
            begun: BTreeSet::new(),
            notes: vec![Notes::default(); self.scope.keys],
            states: vec![States::default(); self.scope.keys],
            payloads: vec![Payloads::default(); self.scope.keys],
            asked: Asked::default(),
            said: BTreeSet::new(),
            pauses: Pauses::default(),
            clock: Clock::default(),
            calm: false,
            broke: None,
        }
    }

    pub(crate) fn key_of(&self, key: &JobKey) -> usize {
        self.keys.iter().position(|known| known == key).unwrap()
    }

    pub(crate) fn dispatch_of(&self, record: &Record) -> usize {
        self.ids.iter().position(|id| *id == record.id).unwrap()
    }
}

pub(crate) fn node() -> NodeName {
    NodeName::new("n").unwrap()
}

/// The ring as it stands.
pub(crate) fn view(store: &Snapshot) -> View {
    let up = store.members().filter(|(_, state)| *state == tenure_protocol::model::member::MemberState::Up);
    View { revision: store.member_revision(), up: up.map(|(worker, _)| worker).collect() }
}
