//! Both stores behind one interface, with a clock that only the test moves, and with faults that no step makes.
//!
//! On Redis, the user that sends the steps has exactly the rights that the protocol names.

use std::cell::Cell;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use redis::Cmd;
use tenure_connection::{Client, Connection};
use tenure_pool::store::{Dump, MemoryStore, ReadIdentity, RedisStore, Store};
use tenure_protocol::memory::Snapshot;
use tenure_protocol::model::id::{JobKey, PoolName, WorkerId};
use tenure_protocol::mutation::{Mutation, Mutations, ScriptPatch};
use tenure_testing::RedisServer;

/// The time at which every clock starts, ms.
pub(crate) const START: u64 = 1_760_000_000_000;

/// How long a busy machine may take for a step. Steps are judged, not times.
const PATIENCE: Duration = Duration::from_secs(30);

const PROTOCOL: &str = include_str!("../../../../docs/protocol/limits.md");

thread_local! {
    /// How the scripts of this thread's stores are broken on purpose.
    pub(crate) static PATCHES: Cell<&'static [ScriptPatch]> = const { Cell::new(&[]) };
    /// The line that this thread's stores in memory leave out.
    pub(crate) static BROKEN: Cell<Option<Mutation>> = const { Cell::new(None) };
}

/// One pool on one store.
pub(crate) struct Backend {
    pub(crate) store: Store,
    clock: Arc<AtomicU64>,
    kind: Kind,
}

/// Data of one moment.
pub(crate) enum Saved {
    Memory(Box<Snapshot>),
    /// Names and values of the keys.
    Redis(Vec<(String, Vec<u8>)>),
}

enum Kind {
    Memory(MemoryStore),
    /// `everything` and `raw` have all rights.
    Redis {
        everything: Arc<RedisStore>,
        raw: Connection,
        client: Client,
        pool: PoolName,
    },
}

impl Backend {
    /// A store in memory, without a pool.
    pub(crate) async fn memory() -> Self {
        let clock = Arc::new(AtomicU64::new(START));
        let reading = Arc::clone(&clock);
        let store = MemoryStore::with_clock(move || reading.load(Ordering::SeqCst));
        store.tamper(|server| server.break_on_purpose(Mutations::of(BROKEN.get())));
        let backend = Self { store: store.clone().into(), clock, kind: Kind::Memory(store) };
        backend.bless(&backend.store).await;
        backend
    }

    /// A store on a Redis server, for a pool of this name that is not there yet.
    pub(crate) async fn redis(server: &RedisServer, pool: &str) -> Self {
        let pool = PoolName::new(pool).unwrap();
        let patient = |url: &str| Client::builder(url).response_timeout(PATIENCE).build().unwrap();
        let owner = patient(&server.url());
        let raw = owner.commands();
        let client = patient(&url_of_user(server, &pool));
        let store = RedisStore::open_patched(&client, &pool, true, PATCHES.get()).into();
        let everything = Arc::new(RedisStore::open_with_clock_key(&owner, &pool));
        let clock = Arc::new(AtomicU64::new(START));
        let backend = Self { store, clock, kind: Kind::Redis { everything, raw, client, pool } };
        backend.set_clock(START).await;
        backend.bless(&backend.store).await;
        backend
    }

    /// Makes a client send its steps to the server that answers.
    pub(crate) async fn bless(&self, client: &Store) {
        client.bless(&client.read(&ReadIdentity).await.unwrap().run_id);
    }

    /// Another client of the same pool, without a blessed server.
    pub(crate) fn client(&self) -> Store {
        match &self.kind {
            Kind::Memory(store) => store.clone().into(),
            Kind::Redis { client, pool, .. } => {
                RedisStore::open_patched(client, pool, true, PATCHES.get()).into()
            }
        }
    }

    /// Another client, of level 2, without a blessed server.
    pub(crate) fn newer_client(&self) -> Store {
        const NEWER: ScriptPatch = ScriptPatch { script: "", from: "local LEVEL = 1", to: "local LEVEL = 2" };
        match &self.kind {
            Kind::Memory(store) => store.at_level(2).into(),
            Kind::Redis { client, pool, .. } => {
                let patches = [PATCHES.get(), &[NEWER]].concat();
                RedisStore::open_patched(client, pool, true, &patches).into()
            }
        }
    }

    /// The whole state.
    pub(crate) async fn dump(&self) -> Dump {
        match &self.kind {
            Kind::Memory(store) => store.tamper(|server| server.dump()),
            Kind::Redis { everything, .. } => everything.dump().await.unwrap(),
        }
    }

    /// The time by the store's clock, ms.
    pub(crate) fn now(&self) -> u64 {
        self.clock.load(Ordering::SeqCst)
    }

    /// Sets the store's clock.
    pub(crate) async fn set_clock(&self, ms: u64) {
        self.clock.store(ms, Ordering::SeqCst);
        if let Kind::Redis { .. } = &self.kind {
            self.raw(redis::cmd("SET").arg(self.key("clock")).arg(ms)).await;
        }
    }

    /// Moves the store's clock on.
    pub(crate) async fn advance(&self, ms: u64) {
        self.set_clock(self.now() + ms).await;
    }

    /// Loses the pool and tells nobody.
    pub(crate) async fn wipe(&self) {
        match &self.kind {
            Kind::Memory(store) => store.tamper(tenure_protocol::memory::Server::wipe),
            Kind::Redis { everything, .. } => {
                let dump = everything.dump().await.unwrap();
                for name in dump.names().filter(|name| *name != "starts.routers") {
                    self.raw(redis::cmd("DEL").arg(self.key(name))).await;
                }
            }
        }
    }

    /// The present data.
    pub(crate) async fn save(&self) -> Saved {
        match &self.kind {
            Kind::Memory(store) => Saved::Memory(Box::new(store.tamper(|server| server.snapshot()))),
            Kind::Redis { everything, raw, .. } => {
                let mut keys = Vec::new();
                for name in everything.dump().await.unwrap().names().filter(|name| *name != "starts.routers")
                {
                    match raw.command(redis::cmd("DUMP").arg(self.key(name))).await.unwrap() {
                        redis::Value::BulkString(bytes) => keys.push((name.to_owned(), bytes)),
                        other => panic!("{name}: {other:?}"),
                    }
                }
                Saved::Redis(keys)
            }
        }
    }

    /// Restores saved data and tells nobody.
    pub(crate) async fn roll_back(&self, saved: &Saved) {
        match (&self.kind, saved) {
            (Kind::Memory(store), Saved::Memory(snapshot)) => {
                store.tamper(|server| server.restore((**snapshot).clone()));
            }
            (Kind::Redis { .. }, Saved::Redis(keys)) => {
                self.wipe().await;
                for (name, bytes) in keys {
                    self.raw(redis::cmd("RESTORE").arg(self.key(name)).arg(0).arg(bytes)).await;
                }
            }
            _ => unreachable!("saved on the other store"),
        }
    }

    /// Writes a record without a check.
    pub(crate) async fn write_record(&self, key: &JobKey, record: &[u8]) {
        match &self.kind {
            Kind::Memory(store) => store.tamper(|server| server.write_record(key, record)),
            Kind::Redis { .. } => {
                self.raw(redis::cmd("HSET").arg(self.key("jobs")).arg(key.as_bytes()).arg(record)).await;
                self.raw(redis::cmd("HSETNX").arg(self.key("payloads")).arg(key.as_bytes()).arg("")).await;
            }
        }
    }

    /// Writes the header of a job's notifications without a check.
    pub(crate) async fn write_header(&self, key: &JobKey, header: &str) {
        match &self.kind {
            Kind::Memory(store) => store.tamper(|server| server.write_header(key, header.as_bytes())),
            Kind::Redis { .. } => {
                self.raw(
                    redis::cmd("HSET").arg(self.key("notifications")).arg(format!("h:{key}")).arg(header),
                )
                .await;
            }
        }
    }

    /// Puts a key into a worker's index.
    pub(crate) async fn write_index(&self, worker: WorkerId, key: &JobKey) {
        match &self.kind {
            Kind::Memory(store) => store.tamper(|server| server.write_index(worker, key)),
            Kind::Redis { .. } => {
                let member = [format!("{worker}:").as_bytes(), key.as_bytes()].concat();
                self.raw(redis::cmd("ZADD").arg(self.key("owners")).arg(0).arg(member)).await;
            }
        }
    }

    /// Sets the counter of tokens.
    pub(crate) async fn set_token(&self, token: u64) {
        match &self.kind {
            Kind::Memory(store) => store.tamper(|server| server.set_token(token)),
            Kind::Redis { .. } => self.write_meta("token", Some(&token.to_string())).await,
        }
    }

    /// On Redis alone: writes a field of `pool` as it is, or deletes it.
    pub(crate) async fn write_meta(&self, field: &str, value: Option<&str>) {
        match value {
            Some(value) => self.raw(redis::cmd("HSET").arg(self.key("pool")).arg(field).arg(value)).await,
            None => self.raw(redis::cmd("HDEL").arg(self.key("pool")).arg(field)).await,
        }
    }

    /// Makes the pool one that was created without a setting.
    pub(crate) async fn forget_setting(&self, name: &str) {
        match &self.kind {
            Kind::Memory(store) => store.tamper(|server| server.forget_setting(name)),
            Kind::Redis { .. } => self.raw(redis::cmd("HDEL").arg(self.key("settings")).arg(name)).await,
        }
    }

    /// Loses one of the pool's keys.
    pub(crate) async fn lose(&self, name: &str) {
        match &self.kind {
            Kind::Memory(store) => store.tamper(|server| server.lose(name)),
            Kind::Redis { .. } => self.raw(redis::cmd("DEL").arg(self.key(name))).await,
        }
    }

    /// Loses the routers' consumer group.
    pub(crate) async fn destroy_group(&self) {
        match &self.kind {
            Kind::Memory(store) => store.tamper(tenure_protocol::memory::Server::destroy_group),
            Kind::Redis { .. } => {
                self.raw(redis::cmd("XGROUP").arg("DESTROY").arg(self.key("starts")).arg("routers")).await;
            }
        }
    }

    /// Sends a command that is none of the pool's, on Redis; `name` is one of the pool's keys, without its prefix.
    pub(crate) async fn write(&self, command: &str, name: &str, args: &[&str]) {
        self.raw(redis::cmd(command).arg(self.key(name)).arg(args)).await;
    }

    pub(crate) fn key(&self, name: &str) -> String {
        match &self.kind {
            Kind::Memory(_) => unreachable!("the store in memory has no keys"),
            Kind::Redis { pool, .. } => format!("tenure:{{{pool}}}:{name}"),
        }
    }

    pub(crate) async fn raw(&self, command: &Cmd) {
        if let Kind::Redis { raw, .. } = &self.kind {
            raw.command(command).await.unwrap();
        }
    }
}

/// Makes a user with the pool's name and the rights that the protocol names; `GET` reads the clock of tests.
fn url_of_user(server: &RedisServer, pool: &PoolName) -> String {
    let (_, rights) = PROTOCOL.split_once("```acl\n").unwrap();
    let (rights, _) = rights.split_once("```").unwrap();
    let rights = rights.replace("<pool>", &pool.to_string());
    let rights: Vec<_> = rights.split_whitespace().chain(["+get"]).collect();
    server.acl_user(&pool.to_string(), "secret", &rights).unwrap()
}
