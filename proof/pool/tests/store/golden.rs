//! The data in Redis, byte by byte. Nodes of other versions read and write them, so they may change only by
//! additions. A change that breaks a line here needs another major number of the protocol.

use std::collections::BTreeMap;
use std::time::Duration;

use bytes::Bytes;
use redis::{Connection, FromRedisValue, cmd};
use serde::Deserialize;
use tenure_connection::Client;
use tenure_pool::inspect::Cause;
use tenure_pool::store::{
    Ask, AskEvent, AskId, AskItem, AskReply, BeginReply, BegunJob, ChangeSchedule, Cordon, Dispatch,
    DispatchItem, DispatchReply, HoldTurns, Join, JoinRequest, LookUp, Notify, NotifyItem, NotifyReply,
    Placing, ReadCheckpoint, ReadIdentity, ReadPool, ReadTime, RedisStore, Release, ReleaseItem, ReleaseMode,
    ReleaseReply, Renew, Reply, ReplyItem, ReplyReply, Route, RouteReply, Said, Save, SaveItem, SaveReply,
    ScheduleChange, ScheduleKey, ScheduleKind, ScheduleState, Started, StartedItem, Steer, SteerItem,
    SteerReply, Stop, StopItem, StopReply, Store, TakeTick, TermItem, TermReply, Turn, Update, UpdateItem,
    UpdateReply, Way, WorkerStarts,
};
use tenure_protocol::model::id::{
    Incarnation, NodeName, Nonce, PoolName, Revision, ScheduleName, Token, WorkerId,
};
use tenure_protocol::model::record::Record;
use tenure_protocol::model::settings::Settings;
use tenure_testing::RedisServer;

use super::lab::{key, node, open_pool, recovery, renew, stopping};
use super::single::Single as _;

/// The envelope of the payload `hi` in the stored format.
const ENVELOPE: &[u8] = b"\x82\xa1v\x01\xa4body\xc4\x02hi";

/// A pool with one worker of node n1, and access to its data in Redis.
struct Pool {
    store: Store,
    inc: Incarnation,
    worker: WorkerId,
    redis: Connection,
    _server: RedisServer,
}

/// An entry of `outcomes`, whatever the order of its fields.
#[derive(Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
struct Own {
    v: u64,
    #[serde(with = "serde_bytes")]
    key: Vec<u8>,
    hash: String,
    #[serde(rename = "gen")]
    dispatch: String,
    outcome: Option<String>,
    at: Option<u64>,
}

impl Pool {
    /// A pool that grants nothing.
    async fn open() -> Self {
        Self::open_with(settings()).await
    }

    async fn open_with(settings: Settings) -> Self {
        let server = RedisServer::start().unwrap();
        let client = Client::open(&server.url()).unwrap();
        let store = Store::from(RedisStore::open(&client, &PoolName::new("p").unwrap()));
        let inc = open_pool(&store, &settings).await;
        let request = JoinRequest {
            nonce: Nonce::new("nonce").unwrap(),
            node: node("n1"),
            meta: "zone-1".into(),
            address: "http://n1:80".into(),
            preferred: None,
            settings,
        };
        let worker = store.run(inc, &Join { request: Box::new(request) }).await.unwrap().worker;
        store.run(inc, &Renew { node: Some(node("n1")), ..renew(&[worker]) }).await.unwrap();
        let redis = redis::Client::open(server.url()).unwrap().get_connection().unwrap();
        Self { store, inc, worker, redis, _server: server }
    }

    fn ask<T: FromRedisValue>(&mut self, command: &str, name: &str, args: &[&str]) -> T {
        cmd(command).arg(format!("tenure:{{p}}:{name}")).arg(args).query(&mut self.redis).unwrap()
    }

    fn set(&mut self, name: &str, field: &str, value: &[u8]) {
        let () = cmd("HSET")
            .arg(format!("tenure:{{p}}:{name}"))
            .arg(field)
            .arg(value)
            .query(&mut self.redis)
            .unwrap();
    }

    /// The fields of every entry of a stream.
    fn stream(&mut self, name: &str) -> Vec<Vec<String>> {
        let entries: Vec<(String, Vec<String>)> = self.ask("XRANGE", name, &["-", "+"]);
        entries.into_iter().map(|(_, fields)| fields).collect()
    }

    async fn read(&self, name: &str) -> Record {
        let mut found = self.store.read(&LookUp { items: vec![(key(name), None)] }).await.unwrap();
        found.remove(0).record.unwrap()
    }

    /// The time since when a job is as it is.
    async fn since(&self, name: &str) -> u64 {
        self.read(name).await.since
    }

    /// A record, with its two times taken out.
    fn record(&mut self, name: &str) -> String {
        let record: String = self.ask("HGET", "jobs", &[name]);
        let mut fields: Vec<_> = record.split('|').collect();
        for at in [6, 8] {
            assert_eq!(fields[at].len(), 13, "milliseconds: {record}");
            fields[at] = "T";
        }
        fields.join("|")
    }

    /// An entry of `outcomes`, with its time taken out.
    fn own(&mut self, id: &str) -> Own {
        let packed: Vec<u8> = self.ask("HGET", "outcomes", &[id]);
        let mut own: Own = rmp_serde::from_slice(&packed).unwrap();
        let at = own.at.replace(0).expect("every entry has its time");
        assert_eq!(at.to_string().len(), 13, "milliseconds: {own:?}");
        own
    }

    async fn dispatch(&self, name: &str, id: &str) -> DispatchReply {
        let item = DispatchItem {
            key: key(name),
            id: id.parse().unwrap(),
            not_after: self.store.read(&ReadTime).await.unwrap() + 10_000,
            hash: "digest".into(),
            payload: Bytes::from_static(ENVELOPE),
            worker: None,
            awaited: true,
        };
        self.store
            .run(self.inc, &Dispatch { by: Placing::Ring(Revision(0)), items: vec![item] })
            .await
            .unwrap()
            .remove(0)
    }

    async fn route(&self, name: &str) {
        let events = self
            .store
            .read(&ReadPool { consumer: node("n1"), max: 8, block: Duration::ZERO })
            .await
            .unwrap()
            .unwrap();
        let entries: Vec<_> = events.iter().map(|event| event.entry).collect();
        let ring =
            self.store.members().wait_for(|m| m.entries.contains_key(&self.worker)).await.unwrap().revision;
        let jobs = vec![(key(name), Some(self.worker))];
        assert_eq!(
            self.store.run(self.inc, &Route { ring, entries, jobs }).await.unwrap(),
            [RouteReply::Routed]
        );
    }

    async fn begin(&self, name: &str) -> Token {
        let token = self.token(name).await;
        let begun = self.store.begin_one(self.inc, self.worker, &[], &[(key(name), token)]).await.unwrap();
        assert!(
            matches!(&begun[..], [BeginReply::Begun(BegunJob { payload, .. })] if payload == ENVELOPE),
            "{begun:?}"
        );
        token
    }

    async fn token(&self, name: &str) -> Token {
        self.read(name).await.token
    }

    async fn started(&self, name: &str, token: Token) {
        let item = StartedItem { key: key(name), token, tell: Some(node("n1")) };
        assert_eq!(
            self.store
                .run(
                    self.inc,
                    &Started {
                        starts: vec![WorkerStarts {
                            worker: self.worker,
                            finished: vec![],
                            items: vec![item]
                        }]
                    }
                )
                .await
                .unwrap(),
            [true]
        );
    }

    async fn release(&self, name: &str, token: Token, mode: ReleaseMode) -> ReleaseReply {
        let item = ReleaseItem {
            key: key(name),
            token,
            mode,
            cause: tenure_pool::inspect::Cause::Moved,
            ran: None,
            rests: String::new(),
            delay: Duration::ZERO,
            tell: None,
            tell_stopper: Some(node("n1")),
            result: String::new(),
        };
        self.store
            .run(self.inc, &Release { worker: self.worker, finished: Vec::new(), items: vec![item] })
            .await
            .unwrap()[0]
    }
}

/// The defaults, with fixed keys of the placement hash, which are otherwise drawn at random.
fn settings() -> Settings {
    let hash_keys = Some((8_387_231_331_756_867_585, 7_671_157_869_767_060_994));
    Settings { hash_keys, grant_max: 0, ..Settings::default() }
}

#[tokio::test]
async fn members_and_settings() {
    let mut pool = Pool::open().await;
    let worker = pool.worker.0;
    let members: BTreeMap<String, String> = pool.ask("HGETALL", "workers", &[]);
    let expected = [(worker.to_string(), "U|0|10000|nonce|n1|zone-1|1|http://n1:80"), ("size".into(), "1")];
    assert_eq!(members, expected.map(|(field, value)| (field, value.to_owned())).into());
    let seen: u64 = pool.ask("HGET", "pool", &["workers_revision"]);
    pool.store
        .run(pool.inc, &Cordon { seen: Revision(seen), node: NodeName::new("n2").unwrap(), on: true })
        .await
        .unwrap();
    let cordon: String = pool.ask("HGET", "workers", &["cordon:n2"]);
    assert_eq!(cordon, "1");
    let settings: BTreeMap<String, String> = pool.ask("HGETALL", "settings", &[]);
    let expected = [
        ("assign_timeout", "5000"),
        ("checkpoint_max", "65536"),
        ("grant_max", "0"),
        ("hash_keys", "8387231331756867585/7671157869767060994"),
        ("history_all", "0"),
        ("history_max", "4096"),
        ("hold", "0"),
        ("join_settle", "5000"),
        ("max_attempts", "20"),
        ("max_dispatch_deadline", "30000"),
        ("max_queued", "10000"),
        ("move_now", "0"),
        ("move_rate", "0"),
        ("notify_bytes", "1048576"),
        ("notify_cap", "64"),
        ("outcome_retention", "600000"),
        ("payload_max", "524288"),
        ("protocol", "2"),
        ("route_timeout", "2000"),
        ("stable_run", "600000"),
        ("stop_retry", "2000"),
        ("strikes", "3"),
        ("worker_ttl", "10000"),
    ];
    let seen: Vec<_> = settings.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
    assert_eq!(seen, expected);
}

#[tokio::test]
async fn a_granted_job_leaves_these_data() {
    let mut pool = Pool::open_with(Settings { grant_max: 100, ..settings() }).await;
    let worker = pool.worker.0;
    assert_eq!(pool.dispatch("k", "n1.!order").await, DispatchReply::Accepted);
    pool.route("k").await;
    let token = pool.token("k").await;
    assert_eq!(pool.record("k"), format!("1|R|{worker}|{token}|1|0|T|n1.!order|T||0|"));
    assert_eq!(pool.ask::<Vec<String>>("ZRANGE", "owners", &["0", "-1"]), [format!("{worker}:k")]);
    assert_eq!(pool.ask::<Vec<String>>("ZRANGE", "queue", &["0", "-1"]), [""; 0]);
    let (record, inc) = (pool.ask::<String>("HGET", "jobs", &["k"]), pool.inc);
    let entries: Vec<(String, Vec<Vec<u8>>)> = pool.ask("XRANGE", &format!("worker:{worker}"), &["-", "+"]);
    let head = ["g".into(), token.to_string(), "i".into(), inc.to_string(), "k".into(), record, "B".into()];
    let expected: Vec<_> = head.map(String::into_bytes).into_iter().chain([ENVELOPE.to_vec()]).collect();
    assert_eq!(entries[0].1, expected);
}

#[tokio::test]
async fn the_life_of_a_job() {
    let mut pool = Pool::open().await;
    let (worker, streams) = (pool.worker.0, format!("worker:{}", pool.worker.0));
    assert_eq!(pool.dispatch("k", "n1.!order").await, DispatchReply::Accepted);
    assert_eq!(pool.record("k"), "1|Q||0|0|0|T|n1.!order|T||0|");
    assert_eq!(pool.ask::<Vec<u8>>("HGET", "payloads", &["k"]), ENVELOPE);
    assert_eq!(pool.stream("starts"), [["s", "k"]]);
    let own = Own {
        v: 1,
        key: b"k".into(),
        hash: "digest".into(),
        dispatch: "n1.!order".into(),
        outcome: None,
        at: Some(0),
    };
    assert_eq!(pool.own("order"), own);
    assert_eq!(pool.ask::<Vec<String>>("ZRANGE", "queue", &["0", "-1"]), ["k"]);

    pool.route("k").await;
    let token = pool.token("k").await;
    assert_eq!(pool.record("k"), format!("1|A|{worker}|{token}|0|0|T|n1.!order|T||0|"));
    assert_eq!(pool.stream(&streams), [["t", &token.to_string(), "s", "k"]]);
    assert_eq!(pool.ask::<Vec<String>>("ZRANGE", "owners", &["0", "-1"]), [format!("{worker}:k")]);

    pool.begin("k").await;
    assert_eq!(pool.record("k"), format!("1|R|{worker}|{token}|1|1|T|n1.!order|T||0|"));
    let note = NotifyItem { key: key("k"), guess: Some(pool.worker), body: Bytes::from_static(b"hello") };
    assert_eq!(pool.store.run(pool.inc, &Notify { items: vec![note] }).await.unwrap(), [NotifyReply::Kept]);
    let notes: BTreeMap<String, String> = pool.ask("HGETALL", "notifications", &[]);
    assert_eq!(notes, [("0:k".into(), "hello".into()), ("h:k".into(), "0|1|5".into())].into());
    assert_eq!(pool.stream(&streams)[1], ["n", "k", "t", &token.to_string()]);

    let state = Bytes::from_static(b"state");
    let save = SaveItem { key: key("k"), token, given: token, number: 3, bytes: state };
    assert_eq!(
        pool.store.run(pool.inc, &Save { worker: pool.worker, items: vec![save] }).await.unwrap(),
        [SaveReply::Kept]
    );
    let kept: BTreeMap<String, String> = pool.ask("HGETALL", "checkpoints", &[]);
    let at = pool.store.read(&ReadCheckpoint { key: key("k") }).await.unwrap().unwrap().at;
    assert_eq!(kept, [("b:k".into(), "state".into()), ("h:k".into(), format!("1|{token}|3|{at}"))].into());

    let payload = Bytes::from_static(b"another");
    let (id, guess) = ("n1.!order".parse().unwrap(), Some(pool.worker));
    let update = UpdateItem { key: key("k"), id, generation: 0, guess, payload };
    assert_eq!(
        pool.store.run(pool.inc, &Update { turn: None, items: vec![update] }).await.unwrap(),
        [UpdateReply::Kept(1)]
    );
    assert_eq!(pool.record("k"), format!("1|R|{worker}|{token}|1|1|T|n1.!order|T||0||1"));
    assert_eq!(pool.ask::<String>("HGET", "payloads", &["k"]), "another");
    assert_eq!(pool.stream(&streams)[2], ["u", "k", "t", &token.to_string(), "g", "1"]);

    let since = pool.since("k").await;
    let (id, guess) = ("n1.!order".parse().unwrap(), Some(pool.worker));
    let reason = "ticket 17".to_owned();
    let park = SteerItem { key: key("k"), id, token, since, way: Way::Park, guess, reason };
    assert_eq!(pool.store.run(pool.inc, &Steer { items: vec![park] }).await.unwrap(), [SteerReply::Told]);
    let told = ["r", "k", "t", &token.to_string(), "w", "p", "e", "ticket 17"];
    assert_eq!(pool.stream(&streams)[3], told);

    let (id, not_after) = (AskId { life: 5, number: 3 }, pool.store.read(&ReadTime).await.unwrap() + 1_000);
    let body = Bytes::from_static(b"how many?");
    let ask = AskEvent { id, name: "order-17".into(), token, not_after, poke: false, body };
    let items = vec![AskItem { key: key("k"), guess: Some(pool.worker), ask }];
    assert_eq!(pool.store.run(pool.inc, &Ask { asker: node("n1"), items }).await.unwrap(), [AskReply::Sent]);
    let asked = format!("{not_after}|?5.3|f|order-17");
    assert_eq!(pool.stream(&streams)[4], ["a", "n1", "k", &asked, &token.to_string(), "how many?"]);
    let said = Said::Answer(Bytes::from_static(b"three"));
    let reply = ReplyItem { key: key("k"), token, asker: node("n1"), id, said };
    assert_eq!(
        pool.store
            .run(pool.inc, &Reply { worker: pool.worker, finished: Vec::new(), items: vec![reply] })
            .await
            .unwrap(),
        [ReplyReply::Told]
    );

    pool.started("k", token).await;
    assert_eq!(pool.record("k"), format!("1|R|{worker}|{token}|1|2|T|n1.!order|T||0||1"));
    assert_eq!(pool.own("order"), Own { outcome: Some("ok".into()), ..own });
    assert_eq!(pool.ask::<Vec<String>>("ZRANGE", "ended", &["0", "-1"]), ["!order"]);
    assert_eq!(pool.stream("node:n1"), [["open", "1"], ["?5.3", "athree"], ["n1.!order", "ok"]]);

    let stop =
        StopItem { key: key("k"), id: "n1.!order".parse().unwrap(), guess: Some(pool.worker), forbid: false };
    let stopped = pool
        .store
        .run(pool.inc, &Stop { turn: None, repeat: false, waiting: Some(node("n1")), items: vec![stop] })
        .await
        .unwrap();
    assert_eq!(stopped, [StopReply::Stopping]);
    assert_eq!(pool.record("k"), format!("1|S|{worker}|{token}|1|2|T|n1.!order|T||0||1"));
    assert_eq!(pool.stream(&streams)[5], ["w", "n1", "x", "k", "t", &token.to_string(), "i", "n1.!order"]);
    assert_eq!(pool.release("k", token, ReleaseMode::Delete).await, ReleaseReply::Deleted);
    assert_eq!(pool.stream("node:n1")[3], ["n1.!order", "stopped"]);
}

#[tokio::test]
async fn refusals_and_nodes_leave_these_data() {
    let mut pool = Pool::open().await;
    let worker = pool.worker.0;
    pool.dispatch("k", "n1.01ABC").await;
    pool.route("k").await;
    let token = pool.begin("k").await;
    assert_eq!(pool.release("k", token, ReleaseMode::Refuse).await, ReleaseReply::Queued);
    assert_eq!(pool.record("k"), format!("1|Q||{token}|0|1|T|n1.01ABC|T||1|||m{worker}"));
    assert_eq!(pool.stream("starts"), [["s1", "k"]]);
    pool.route("k").await;
    let token = pool.begin("k").await;
    let elsewhere = ReleaseMode::Elsewhere { workers: 2 };
    assert_eq!(pool.release("k", token, elsewhere).await, ReleaseReply::Queued);
    assert_eq!(pool.record("k"), format!("1|Q||{token}|0|1|T|n1.01ABC|T||3|||m{worker}"));
    assert_eq!(pool.stream("starts"), [["s3", "k"]]);
    let stop = StopItem { key: key("k"), id: "n1.01ABC".parse().unwrap(), guess: None, forbid: false };
    assert_eq!(pool.store.run(pool.inc, &stopping(vec![stop])).await.unwrap(), [StopReply::Deleted]);
    assert_eq!(pool.ask::<Vec<String>>("ZRANGE", "ended", &["0", "-1"]), ["n1.01ABC"]);
    pool.store.expire_one(pool.inc, pool.worker, None).await.unwrap();
    let dead: String = pool.ask("HGET", "expired", &[&worker.to_string()]);
    assert_eq!((dead.len(), &dead[13..]), (15, "|0"), "when, and the slot");
}

#[tokio::test]
async fn a_pause_leaves_these_data() {
    let mut pool = Pool::open().await;
    let worker = pool.worker.0;
    pool.dispatch("k", "n1.01ABC").await;
    pool.route("k").await;
    let token = pool.begin("k").await;
    let item = |way, since, guess| SteerItem {
        key: key("k"),
        id: "n1.01ABC".parse().unwrap(),
        token,
        since,
        way,
        guess,
        reason: if way == Way::Pause { "anna|ticket 17".to_owned() } else { String::new() },
    };
    let pause = item(Way::Pause, pool.since("k").await, Some(pool.worker));
    assert_eq!(pool.store.run(pool.inc, &Steer { items: vec![pause] }).await.unwrap(), [SteerReply::Told]);
    let told = ["r", "k", "t", &token.to_string(), "w", "z", "e", "anna|ticket 17"];
    assert_eq!(pool.stream(&format!("worker:{worker}")).last().unwrap(), &told);
    let release = ReleaseItem {
        key: key("k"),
        token,
        mode: ReleaseMode::Park,
        cause: tenure_pool::inspect::Cause::Paused,
        ran: Some(0),
        rests: String::new(),
        delay: Duration::ZERO,
        tell: None,
        tell_stopper: None,
        result: "anna|ticket 17".into(),
    };
    let released = pool
        .store
        .run(pool.inc, &Release { worker: pool.worker, finished: Vec::new(), items: vec![release] })
        .await
        .unwrap();
    assert_eq!(released, [ReleaseReply::Parked]);
    assert_eq!(pool.record("k"), format!("1|P||{token}|0|1|T|n1.01ABC|T||0|||z{worker}"));
    assert_eq!(pool.ask::<String>("HGET", "errors", &["k"]), "anna|ticket 17");
    let resume = item(Way::Resume, pool.since("k").await, None);
    assert_eq!(pool.store.run(pool.inc, &Steer { items: vec![resume] }).await.unwrap(), [SteerReply::Queued]);
    assert_eq!(pool.record("k"), format!("1|Q||{token}|0|1|T|n1.01ABC|T||0|||y{worker}"));
    assert_eq!(pool.ask::<Vec<String>>("HVALS", "errors", &[]), [""; 0]);
    let since = pool.since("k").await;
    let until =
        SteerItem { reason: "anna|1700000000000|ticket 17".to_owned(), ..item(Way::Pause, since, None) };
    assert_eq!(pool.store.run(pool.inc, &Steer { items: vec![until] }).await.unwrap(), [SteerReply::Paused]);
    assert_eq!(pool.record("k"), format!("1|P||{token}|0|1|T|n1.01ABC|T||0|||z{worker}+1700000000000"));
    assert_eq!(pool.ask::<String>("ZSCORE", "parked", &["k"]), "1700000000000");
}

/// The stored format is read byte for byte: a job that another build has written runs to its end.
#[tokio::test]
async fn a_job_in_the_stored_format_is_run() {
    let mut pool = Pool::open().await;
    pool.dispatch("k", "n1.!order").await;
    let created = pool.store.read(&ReadTime).await.unwrap();
    pool.set("jobs", "k", format!("1|Q||0|0|0|{created}|n0.!order|{created}||0|").as_bytes());
    pool.set("outcomes", "order", b"\x84\xa3key\xa1k\xa3gen\xa9n0.!order\xa4hash\xa6digest\xa1v\x01");
    assert_eq!(pool.dispatch("k", "n1.!order").await, DispatchReply::Accepted);
    assert_eq!(pool.dispatch("j", "n1.!order").await, DispatchReply::Conflict);
    pool.route("k").await;
    let token = pool.begin("k").await;
    pool.started("k", token).await;
    let own = pool.own("order");
    assert_eq!((own.v, own.outcome.as_deref()), (1, Some("ok")));
    assert_eq!(pool.release("k", token, ReleaseMode::Delete).await, ReleaseReply::Deleted);
    assert_eq!(pool.dispatch("k", "n2.!order").await, DispatchReply::Outcome("ok".into()));
}

#[tokio::test]
async fn the_end_of_a_run_after_a_loss() {
    let mut pool = Pool::open().await;
    let mut tokens = Vec::new();
    for (name, id) in [("k", "n1.01ABC"), ("l", "n1.!order")] {
        pool.dispatch(name, id).await;
        pool.route(name).await;
        tokens.push(pool.begin(name).await);
    }
    let run_id = pool.store.read(&ReadIdentity).await.unwrap().run_id;
    pool.inc = pool.store.run(pool.inc, &recovery(&run_id)).await.unwrap();
    for (name, token) in ["k", "l"].into_iter().zip(&tokens) {
        let ended = ReleaseItem::new(key(name), *token, ReleaseMode::Delete, Cause::Moved);
        let ended = ReleaseItem { ran: Some(0), ..ended };
        let released = pool
            .store
            .run(pool.inc, &Release { worker: pool.worker, finished: Vec::new(), items: vec![ended] })
            .await
            .unwrap();
        assert_eq!(released, [ReleaseReply::Deleted]);
    }
    for (field, token) in ["#n1.01ABC", "#!order"].into_iter().zip(&tokens) {
        let told: String = pool.ask("HGET", "outcomes", &[field]);
        let until: u64 = pool.ask("ZSCORE", "ended", &[field]);
        assert_eq!(told, format!("{token}|{}", until - 30_000));
    }
}

/// Every step that writes keeps the additions of a later version.
#[tokio::test]
async fn a_schedule_and_its_jobs() {
    let mut pool = Pool::open().await;
    let schedule = ScheduleKey { kind: ScheduleKind::Plan, name: ScheduleName::new("hourly").unwrap() };
    let make = ScheduleChange::Create { period: Duration::from_secs(3_600), first: Duration::ZERO };
    let ScheduleState::Present { entry, .. } =
        pool.store.run(pool.inc, &ChangeSchedule { schedule: schedule.clone(), change: make }).await.unwrap()
    else {
        panic!("it was not made")
    };
    let (id, inc) = (entry.id, pool.inc);
    let made: String = pool.ask("HGET", "schedules", &["s:hourly"]);
    assert_eq!(made, format!("1|{id}|1|3600000|{}|0|{inc}|0|0||", entry.next));
    let item = TermItem { schedule: schedule.clone(), id, life: 7, leave: false, seen: None };
    let terms = pool.store.run(inc, &HoldTurns { node: node("n1"), items: vec![item] }).await.unwrap();
    let TermReply::Held(held) = &terms.replies[0] else { panic!("{terms:?}") };
    let term = held.term;
    assert!(
        pool.store
            .run(inc, &TakeTick { schedule: schedule.clone(), turn: (id, term), number: 1 })
            .await
            .unwrap()
            .due
    );
    let ticked: String = pool.ask("HGET", "schedules", &["s:hourly"]);
    let next = ticked.split('|').nth(4).unwrap();
    assert_eq!(ticked, format!("1|{id}|1|3600000|{next}|1|{inc}|{term}|1|n1|7"));
    let turn = Turn { plan: schedule.name.clone(), id, term };
    let item = DispatchItem {
        key: key("k"),
        id: "n1.!order".parse().unwrap(),
        not_after: pool.store.read(&ReadTime).await.unwrap() + 10_000,
        hash: String::new(),
        payload: Bytes::from_static(ENVELOPE),
        worker: None,
        awaited: true,
    };
    assert_eq!(
        pool.store.run(inc, &Dispatch { by: Placing::Turn(turn), items: vec![item] }).await.unwrap(),
        [DispatchReply::Accepted]
    );
    let planned: Vec<String> = pool.ask("ZRANGE", "planned", &["0", "-1"]);
    assert_eq!(planned, ["hourly|k"]);
    let record: String = pool.ask("HGET", "jobs", &["k"]);
    assert_eq!(record.split('|').nth(11), Some("hourly"));
}

#[tokio::test]
async fn a_newer_schedule_is_named_with_its_version_and_left_as_it_is() {
    let mut pool = Pool::open().await;
    let schedule = ScheduleKey { kind: ScheduleKind::Ticker, name: ScheduleName::new("beat").unwrap() };
    let make = ScheduleChange::Create { period: Duration::from_secs(1), first: Duration::ZERO };
    for (text, newer) in [("2|whatever", Some(2)), ("rubbish", None), ("1|x", None)] {
        pool.set("schedules", "t:beat", text.as_bytes());
        let change = ChangeSchedule { schedule: schedule.clone(), change: make.clone() };
        let state = pool.store.run(pool.inc, &change).await.unwrap();
        assert_eq!(state, ScheduleState::Bad { newer }, "{text}");
        let kept: String = pool.ask("HGET", "schedules", &["t:beat"]);
        assert_eq!(kept, text);
    }
}

#[tokio::test]
async fn additions_of_a_later_version_are_kept() {
    let mut pool = Pool::open().await;
    let worker = pool.worker.0.to_string();
    pool.set("workers", &worker, b"U|0|10000|nonce|n1|zone-1|1|http://n1:80|later");
    pool.set("settings", "later", b"7");
    pool.dispatch("k", "n1.!order").await;
    let record: String = pool.ask("HGET", "jobs", &["k"]);
    pool.set("jobs", "k", format!("{record}|||later").as_bytes());
    pool.set("payloads", "k", b"\x83\xa1v\x01\xa5later\x07\xa4body\xc4\x02hi");
    pool.set(
        "outcomes",
        "order",
        b"\x85\xa5later\x07\xa3key\xa1k\xa3gen\xa9n1.!order\xa4hash\xa6digest\xa1v\x01",
    );
    pool.route("k").await;
    let token = pool.token("k").await;
    pool.store.begin_one(pool.inc, pool.worker, &[], &[(key("k"), token)]).await.unwrap();
    pool.started("k", token).await;
    let packed: Vec<u8> = pool.ask("HGET", "outcomes", &["order"]);
    assert!(packed.windows(7).any(|part| part == b"\xa5later\x07"), "{}", packed.escape_ascii());
    assert!(packed.windows(11).any(|part| part == b"\xa7outcome\xa2ok"), "{}", packed.escape_ascii());
    assert_eq!(pool.release("k", token, ReleaseMode::HandOff).await, ReleaseReply::Queued);
    assert!(pool.record("k").ends_with("|later"));
    let envelope: Vec<u8> = pool.ask("HGET", "payloads", &["k"]);
    assert!(envelope.windows(7).any(|part| part == b"\xa5later\x07"));
    pool.store.drain_one(pool.inc, pool.worker).await.unwrap();
    let entry: String = pool.ask("HGET", "workers", &[&worker]);
    assert_eq!(entry, "G|0|10000|nonce|n1|zone-1|1|http://n1:80|later");
    let later: String = pool.ask("HGET", "settings", &["later"]);
    assert_eq!(later, "7");
}
