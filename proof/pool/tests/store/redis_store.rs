//! Mistakes that only the store on Redis can make: with changed servers, with connections, and with keys left behind.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use redis::{Value, cmd};
use tenure_connection::Client;
use tenure_pool::store::{
    Begin, BeginReply, BegunJob, ChangeSchedule, ClaimPool, CleanUp, Cursors, Dispatch, DispatchItem,
    DispatchReply, Expired, ForgetNode, Granted, HoldTurns, Join, JoinRequest, ListJobs, ListOwned, LookUp,
    Notify, NotifyItem, NotifyReply, Placing, PoolState, PruneConsumers, Purge, ReadHeartbeats, ReadIdentity,
    ReadNode, ReadPayload, ReadPool, ReadState, ReadTime, Reap, Recover, RedisStore, Refusal, Release,
    ReleaseItem, ReleaseMode, ReleaseReply, Renew, RestoreGroup, Route, RouteReply, ScheduleChange,
    ScheduleKey, ScheduleKind, ScheduleState, Seen, ShutDown, ShutdownMode, Started, StartedItem, Stop,
    StopItem, StopReply, Store, StoreError, Sweep, Take, TakeItem, TakeTick, Taken, Tell, TermItem,
    TermReply, UnsuitableServer, WhenFull, WorkerBegins, WorkerEvent, WorkerStarts,
};
use tenure_protocol::model::id::{
    DispatchId, Incarnation, JobKey, Nonce, PoolName, Revision, ScheduleName, Token, WorkerId,
};
use tenure_protocol::model::settings::Settings;
use tenure_streaming::EntryId;
use tenure_testing::{Data, RedisServer, eventually};

use super::lab::{key, node, open_pool, recovery, renew, stopping};
use super::single::Single as _;

const SOON: Duration = Duration::from_secs(20);
const LONG: Duration = Duration::from_secs(600);

fn client(server: &RedisServer) -> Client {
    Client::builder(&server.url()).response_timeout(SOON).build().unwrap()
}

fn pool_name(text: &str) -> PoolName {
    PoolName::new(text).unwrap()
}

/// A store that has blessed its server, and a pool in phase N.
async fn pool(client: &Client, name: &str) -> (Store, Incarnation) {
    let store = Store::from(RedisStore::open(client, &pool_name(name)));
    let inc = open_pool(&store, &Settings::default()).await;
    (store, inc)
}

/// A server with a pool `p`, and a client of both.
async fn served() -> (RedisServer, Client, Store, Incarnation) {
    let server = RedisServer::start().unwrap();
    let client = client(&server);
    let (store, inc) = pool(&client, "p").await;
    (server, client, store, inc)
}

async fn join(store: &Store, inc: Incarnation) -> WorkerId {
    join_as(store, inc, "nonce").await
}

async fn join_as(store: &Store, inc: Incarnation, nonce: &str) -> WorkerId {
    let request = JoinRequest {
        nonce: Nonce::new(nonce).unwrap(),
        node: node("n1"),
        meta: String::new(),
        address: String::new(),
        preferred: None,
        settings: Settings::default(),
    };
    store.run(inc, &Join { request: Box::new(request) }).await.unwrap().worker
}

async fn dispatch(store: &Store, inc: Incarnation, name: &str) -> DispatchId {
    let id = DispatchId::of_node(&node("n1"), "first").unwrap();
    let item = DispatchItem {
        key: key(name),
        id: id.clone(),
        not_after: store.read(&ReadTime).await.unwrap() + 10_000,
        hash: String::new(),
        payload: Bytes::from_static(b"\x00payload"),
        worker: None,
        awaited: true,
    };
    assert_eq!(
        store.run(inc, &Dispatch { by: Placing::Ring(Revision(0)), items: vec![item] }).await.unwrap(),
        [DispatchReply::Accepted]
    );
    id
}

async fn keys(client: &Client) -> Vec<String> {
    let keys = client.commands().command(cmd("KEYS").arg("*")).await.unwrap();
    redis::from_redis_value(keys).unwrap()
}

async fn clients(client: &Client) -> String {
    let list = client.commands().command(cmd("CLIENT").arg("LIST")).await.unwrap();
    redis::from_redis_value(list).unwrap()
}

/// The look costs the server more than the rest of its description.
#[tokio::test]
async fn a_renewal_looks_at_the_memory_only_if_it_shall() {
    let (server, _client, store, inc) = served().await;
    let mut redis = redis::Client::open(server.url()).unwrap().get_connection().unwrap();
    let mut monitor = redis::Client::open(server.url()).unwrap().get_connection().unwrap();
    redis::cmd("MONITOR").exec(&mut monitor).unwrap();
    let mut told = Vec::new();
    for (policy, looks_at_memory) in [("noeviction", true), ("allkeys-lru", false), ("allkeys-lru", true)] {
        redis::cmd("CONFIG").arg("SET").arg("maxmemory-policy").arg(policy).exec(&mut redis).unwrap();
        told.push(store.run(inc, &Renew { looks_at_memory, ..renew(&[]) }).await.unwrap().when_full);
    }
    let evicts = WhenFull::Evicts("allkeys-lru".into());
    assert_eq!(told, [WhenFull::Refuses, WhenFull::Unknown, evicts]);
    redis::cmd("ECHO").arg("no more").exec(&mut redis).unwrap();
    let mut asked = Vec::new();
    loop {
        let line: String = redis::from_redis_value(monitor.recv_response().unwrap()).unwrap();
        match line.split_once(" lua] \"INFO\" ") {
            Some((_, sections)) => asked.push(sections.to_owned()),
            None if line.contains("no more") => break,
            None => {}
        }
    }
    let [all, few] = [r#""server" "replication" "memory""#, r#""server" "replication""#];
    assert_eq!(asked, [all, few, all]);
}

#[tokio::test]
async fn a_job_lives_from_dispatch_to_the_tombstone() {
    let (_server, client, store, inc) = served().await;
    let worker = join(&store, inc).await;
    let renewal =
        store.run(inc, &Renew { node: Some(node("n1")), ..renew(&[worker, WorkerId(1)]) }).await.unwrap();
    assert_eq!(renewal.states.iter().map(Option::is_some).collect::<Vec<_>>(), [true, false]);
    let mut members = store.members();
    let seen = members.wait_for(|members| members.entries.contains_key(&worker)).await.unwrap().clone();
    assert_eq!((seen.incarnation, seen.revision), (Some(inc), renewal.members));

    let job = key("a|b\n");
    let id = dispatch(&store, inc, "a|b\n").await;
    let events = store.read(&ReadPool { consumer: node("n1"), max: 8, block: LONG }).await.unwrap().unwrap();
    assert_eq!(events[0].jobs, [(job.clone(), 0)]);
    let jobs = vec![(job.clone(), Some(worker))];
    let stale = store
        .run(inc, &Route { ring: Revision(99), entries: vec![events[0].entry], jobs: jobs.clone() })
        .await;
    assert!(matches!(stale, Err(StoreError::Refused(Refusal::StaleRing(_)))), "{stale:?}");
    let routed =
        store.run(inc, &Route { ring: renewal.members, entries: vec![events[0].entry], jobs }).await.unwrap();
    assert_eq!(routed, [RouteReply::Routed]);

    let mut cursors = Cursors { workers: [(worker, EntryId::default())].into(), node: EntryId::default() };
    let mut came = store
        .read(&ReadNode { node: node("n1"), cursors: cursors.clone(), max: 8, block: LONG })
        .await
        .unwrap();
    let (_, entry, event) = came.workers.remove(0);
    let WorkerEvent::Grant(Granted { token, jobs: granted, .. }) = event else { panic!("{event:?}") };
    assert_eq!(granted.iter().map(|of| &of.key).collect::<Vec<_>>(), [&job]);
    let begun = store.begin_one(inc, worker, &[entry], &[(job.clone(), token)]).await.unwrap();
    let BeginReply::Begun(BegunJob { record, waiting: false, payload, checkpoint: None }) = &begun[0] else {
        panic!("{begun:?}")
    };
    assert_eq!((&record.id, &**payload), (&id, &b"\x00payload"[..]));
    assert_eq!(store.oldest(worker).await, None);
    let item = StartedItem { key: job.clone(), token, tell: Some(node("n1")) };
    assert_eq!(
        store
            .run(inc, &Started { starts: vec![WorkerStarts { worker, finished: vec![], items: vec![item] }] })
            .await
            .unwrap(),
        [true]
    );
    cursors.node = came.outcomes[0].0;
    let told =
        store.read(&ReadNode { node: node("n1"), cursors, max: 8, block: LONG }).await.unwrap().outcomes;
    assert_eq!(told[0].1, [(id.clone(), "ok".to_owned())]);

    let note = NotifyItem { key: job.clone(), guess: Some(worker), body: Bytes::from_static(b"one") };
    assert_eq!(store.run(inc, &Notify { items: vec![note] }).await.unwrap(), [NotifyReply::Kept]);
    let take = |ack| TakeItem { key: job.clone(), token, ack };
    let taken = store.run(inc, &Take { worker, finished: Vec::new(), items: vec![take(0)] }).await.unwrap();
    let Some(Taken { first, bodies }) = &taken[0] else { panic!("{taken:?}") };
    assert_eq!(bodies, &[Bytes::from_static(b"one")]);
    let rest =
        store.run(inc, &Take { worker, finished: Vec::new(), items: vec![take(first + 1)] }).await.unwrap();
    assert_eq!(rest, [Some(Taken { first: 0, bodies: vec![] })]);
    assert_eq!(store.run(inc, &ListOwned { worker, after: None, limit: 8 }).await.unwrap().jobs.len(), 1);
    assert_eq!(store.read(&ListJobs { cursor: 0, limit: 8 }).await.unwrap().jobs.len(), 1);
    assert!(store.read(&ReadPayload { key: job.clone() }).await.unwrap().is_some());
    assert_eq!(store.run(inc, &Sweep { limit: 8, kick: Some(0) }).await.unwrap().count, 0);

    let stop = StopItem { key: job.clone(), id: id.clone(), guess: Some(worker), forbid: false };
    assert_eq!(
        store
            .run(inc, &Stop { turn: None, repeat: false, waiting: Some(node("n1")), items: vec![stop] })
            .await
            .unwrap(),
        [StopReply::Stopping]
    );
    let release = ReleaseItem {
        key: job.clone(),
        token,
        mode: ReleaseMode::Delete,
        cause: tenure_pool::inspect::Cause::Moved,
        ran: None,
        rests: String::new(),
        delay: Duration::ZERO,
        tell: None,
        tell_stopper: Some(node("n1")),
        result: String::new(),
    };
    assert_eq!(
        store.run(inc, &Release { worker, finished: Vec::new(), items: vec![release] }).await.unwrap(),
        [ReleaseReply::Deleted]
    );
    assert!(store.read(&LookUp { items: vec![(job, Some(id))] }).await.unwrap()[0].ended);

    store.run(inc, &ShutDown { by: node("n1"), mode: ShutdownMode::DropQueued }).await.unwrap();
    assert_eq!(store.run(inc, &Purge { limit: 8 }).await.unwrap(), []);
    assert_eq!(store.expire_one(inc, worker, None).await.unwrap(), Expired::Done);
    assert!(store.run(inc, &Reap { worker, limit: 8 }).await.unwrap().done);
    store.read(&ForgetNode { node: node("n1") }).await.unwrap();
    assert_eq!(store.run(inc, &CleanUp { tombstone: Duration::from_secs(60) }).await.unwrap(), 0);
    assert_eq!(keys(&client).await, ["tenure:{p}:pool"]);
    assert_eq!(store.read(&ReadState).await.unwrap(), PoolState::Closed { incarnation: inc });
    members.wait_for(|members| members.incarnation.is_none()).await.unwrap();
    store.close().await;
}

#[tokio::test]
async fn a_renewal_notices_that_its_server_was_promoted_again() {
    let (_server, client, store, inc) = served().await;
    let lease = store.apart();
    let first = lease.run(inc, &renew(&[])).await.unwrap().run_id;
    for replica_of in [["127.0.0.1", "1"], ["NO", "ONE"]] {
        client.commands().command(redis::cmd("REPLICAOF").arg(&replica_of)).await.unwrap();
    }
    // The connections live, and the process is the same.
    store.read(&ReadTime).await.unwrap();
    let second = match lease.run(inc, &renew(&[])).await {
        Err(StoreError::OtherServer { run_id }) => run_id,
        other => panic!("{other:?}"),
    };
    assert_eq!(store.read(&ReadIdentity).await.unwrap().run_id, second);
    assert!(second.starts_with(&first) && second != first, "{first} {second}");

    let inc = store.run(inc, &recovery(&second)).await.unwrap();
    store.bless(&second);
    assert_eq!(lease.run(inc, &renew(&[])).await.unwrap().run_id, second);
    store.read(&ReadTime).await.unwrap();
    let state = store.read(&ReadState).await.unwrap();
    assert!(matches!(&state, PoolState::Present { run_id, .. } if *run_id == second), "{state:?}");
}

#[tokio::test]
async fn steps_go_to_the_blessed_server_process_only() {
    let server = RedisServer::start().unwrap();
    let client = client(&server);
    let store = Store::from(RedisStore::open(&client, &pool_name("p")));
    let refused = store.read(&ReadTime).await;
    assert!(matches!(refused, Err(StoreError::OtherServer { .. })), "nobody is blessed: {refused:?}");
    let inc = open_pool(&store, &Settings::default()).await;
    let lease = store.apart();
    lease.run(inc, &renew(&[])).await.unwrap();

    server.restart(Data::Keep).unwrap();
    let other = eventually(SOON, "the restart to be noticed", async || {
        match store.read(&ReadHeartbeats { workers: None }).await {
            Err(StoreError::OtherServer { run_id }) => Some(run_id),
            _ => None,
        }
    })
    .await;
    eventually(SOON, "the lease to notice it as well", async || {
        let renewed = lease.run(inc, &renew(&[])).await;
        matches!(renewed, Err(StoreError::OtherServer { .. })).then_some(())
    })
    .await;
    let events = store.read(&ReadPool { consumer: node("n1"), max: 8, block: LONG }).await;
    assert!(events.is_err(), "{events:?}");
    let state = store.read(&ReadState).await.unwrap();
    assert!(matches!(&state, PoolState::Present { run_id, .. } if *run_id != other), "{state:?}");

    let inc = store
        .run(inc, &Recover { seen: Seen { token: Token(7), ..Seen::default() }, ..recovery(&other) })
        .await
        .unwrap();
    store.bless(&other);
    assert!(lease.run(inc, &renew(&[])).await.unwrap().recovering);
    store.members().wait_for(|members| members.incarnation == Some(inc)).await.unwrap();
}

#[tokio::test]
async fn the_connections_of_a_node_say_whose_they_are() {
    let server = RedisServer::start().unwrap();
    let client = client(&server);
    let node = tenure_pool::Node::builder("feeds", client.clone()).name("n1").assume_fresh(true);
    let node = node.join().await.unwrap();
    // A new connection gets its name a moment later. The asking connection has none.
    eventually(SOON, "every connection to have its name", async || {
        let connected = clients(&client).await;
        let named = connected.matches(" name=tenure:feeds:n1 ").count();
        if named > 2 && connected.matches(" name= ").count() == 1 { Ok(()) } else { Err(connected) }
    })
    .await;
    node.close().await.unwrap();
}

#[tokio::test]
async fn a_lost_group_is_told_and_restored() {
    let (_server, client, store, inc) = served().await;
    dispatch(&store, inc, "a").await;
    assert_eq!(
        store.read(&ReadPool { consumer: node("n1"), max: 8, block: LONG }).await.unwrap().unwrap().len(),
        1
    );
    client.commands().command(cmd("XGROUP").arg(&["DESTROY", "tenure:{p}:starts", "routers"])).await.unwrap();
    assert_eq!(store.read(&ReadPool { consumer: node("n1"), max: 8, block: LONG }).await.unwrap(), None);
    assert_eq!(
        store.read(&ClaimPool { consumer: node("n1"), min_idle: Duration::ZERO, max: 8 }).await.unwrap(),
        None
    );
    store.run(inc, &PruneConsumers { idle: Duration::ZERO }).await.unwrap();
    store.run(inc, &RestoreGroup).await.unwrap();
    assert_eq!(
        store.read(&ReadPool { consumer: node("n1"), max: 8, block: LONG }).await.unwrap().unwrap().len(),
        1
    );
    store.run(inc, &RestoreGroup).await.unwrap();
    let claimed = store
        .read(&ClaimPool { consumer: node("n2"), min_idle: Duration::ZERO, max: 8 })
        .await
        .unwrap()
        .unwrap();
    assert_eq!(claimed.len(), 1);

    store.run(inc, &PruneConsumers { idle: Duration::ZERO }).await.unwrap();
    let consumers = cmd("XINFO").arg(&["CONSUMERS", "tenure:{p}:starts", "routers"]).clone();
    let Value::Array(left) = client.commands().command(&consumers).await.unwrap() else { panic!("no list") };
    assert_eq!(left.len(), 1, "who holds an entry stays");
}

#[tokio::test]
async fn a_read_that_was_dropped_does_not_hold_up_the_next() {
    let (_server, client, store, inc) = served().await;
    store.run(inc, &Renew { node: Some(node("n1")), ..renew(&[]) }).await.unwrap();
    let mut cursors = Cursors::default();
    let opened = store
        .read(&ReadNode { node: node("n1"), cursors: cursors.clone(), max: 8, block: LONG })
        .await
        .unwrap();
    cursors.node = opened.outcomes[0].0;
    for round in 0..10 {
        let step = ReadNode { node: node("n1"), cursors: cursors.clone(), max: 8, block: LONG };
        let blocked = eventually(SOON, "the read to block", async || {
            clients(&client).await.contains("cmd=xread").then_some(())
        });
        tokio::select! {
            read = store.read(&step) => panic!("nothing to read: {read:?}"),
            () = blocked => {}
        }
        let id = DispatchId::of_node(&node("n1"), &format!("id{round}")).unwrap();
        store.read(&Tell { outcomes: vec![(id.clone(), "ok".to_owned())] }).await.unwrap();
        let told = store.read(&step).await.unwrap().outcomes;
        assert_eq!(told[0].1, [(id, "ok".to_owned())]);
        cursors.node = told[0].0;
    }
}

#[tokio::test]
async fn a_stream_that_is_damaged_fails_no_other_workers_begins() {
    let (_server, client, store, inc) = served().await;
    let (worker, damaged) = (join(&store, inc).await, join_as(&store, inc, "another").await);
    dispatch(&store, inc, "a").await;
    let ring = store.run(inc, &renew(&[])).await.unwrap().members;
    store.run(inc, &Route { ring, entries: Vec::new(), jobs: vec![(key("a"), Some(worker))] }).await.unwrap();
    let token =
        store.read(&LookUp { items: vec![(key("a"), None)] }).await.unwrap().remove(0).record.unwrap().token;
    let stream = format!("tenure:{{p}}:worker:{}", damaged.0);
    client.commands().command(cmd("SET").arg(stream).arg("x")).await.unwrap();
    let entry = EntryId { ms: 1, seq: 0 };
    let begins = vec![
        WorkerBegins { worker: damaged, finished: vec![entry], jobs: vec![] },
        WorkerBegins { worker, finished: vec![], jobs: vec![(key("a"), token)] },
    ];
    let answers = store.run(inc, &Begin { begins }).await.unwrap();
    assert!(matches!(&answers[..], [Ok(_), Ok(begun)] if matches!(begun[..], [BeginReply::Begun(_)])));
}

#[tokio::test]
async fn a_nodes_stream_that_is_damaged_hinders_no_note_of_a_start() {
    let (_server, client, store, inc) = served().await;
    let workers = [join(&store, inc).await, join_as(&store, inc, "another").await];
    let mut starts = Vec::new();
    for (worker, (name, dispatcher)) in workers.into_iter().zip([("a", "damaged"), ("b", "n1")]) {
        dispatch(&store, inc, name).await;
        let ring = store.run(inc, &renew(&[])).await.unwrap().members;
        store
            .run(inc, &Route { ring, entries: Vec::new(), jobs: vec![(key(name), Some(worker))] })
            .await
            .unwrap();
        let token = store
            .read(&LookUp { items: vec![(key(name), None)] })
            .await
            .unwrap()
            .remove(0)
            .record
            .unwrap()
            .token;
        store.begin_one(inc, worker, &[], &[(key(name), token)]).await.unwrap();
        let items = vec![StartedItem { key: key(name), token, tell: Some(node(dispatcher)) }];
        starts.push(WorkerStarts { worker, finished: vec![], items });
    }
    client.commands().command(cmd("SET").arg("tenure:{p}:node:damaged").arg("x")).await.unwrap();
    assert_eq!(store.run(inc, &Started { starts }).await.unwrap(), [true, true]);
}

#[tokio::test]
async fn flushed_scripts_are_reloaded_and_strange_data_is_an_error() {
    let (_server, client, store, inc) = served().await;
    client.commands().command(cmd("SCRIPT").arg("FLUSH")).await.unwrap();
    dispatch(&store, inc, "a").await;

    client.commands().command(cmd("SET").arg("tenure:{p}:notifications").arg("x")).await.unwrap();
    let note = NotifyItem { key: key("a"), guess: None, body: Bytes::new() };
    let error = store.run(inc, &Notify { items: vec![note] }).await.unwrap_err();
    assert!(matches!(error, StoreError::Damaged(_)), "{error:?}");
    client
        .commands()
        .command(cmd("HDEL").arg("tenure:{p}:settings").arg("max_dispatch_deadline"))
        .await
        .unwrap();
    let error = store.run(inc, &Purge { limit: 8 }).await.unwrap_err();
    let StoreError::Damaged(source) = error else { panic!("{error:?}") };
    assert!(source.to_string().contains("max_dispatch_deadline"), "{source}");
}

#[tokio::test]
async fn a_full_server_refuses_new_work_and_lets_work_end() {
    let (_server, client, store, inc) = served().await;
    let worker = join(&store, inc).await;
    let id = dispatch(&store, inc, "a").await;
    let schedule = ScheduleKey { kind: ScheduleKind::Plan, name: ScheduleName::new("p").unwrap() };
    let make = ScheduleChange::Create { period: Duration::from_secs(1), first: Duration::ZERO };
    let ScheduleState::Present { entry, .. } =
        store.run(inc, &ChangeSchedule { schedule: schedule.clone(), change: make }).await.unwrap()
    else {
        panic!("it was not made")
    };
    client.commands().command(cmd("CONFIG").arg(&["SET", "maxmemory", "1"])).await.unwrap();
    let item = DispatchItem {
        key: key("b"),
        id: DispatchId::of_node(&node("n1"), "b").unwrap(),
        not_after: store.read(&ReadTime).await.unwrap() + 10_000,
        hash: String::new(),
        payload: Bytes::new(),
        worker: None,
        awaited: true,
    };
    let full = store.run(inc, &Dispatch { by: Placing::Ring(Revision(0)), items: vec![item] }).await;
    assert!(matches!(full, Err(StoreError::NotExecuted(_))), "{full:?}");
    store.run(inc, &renew(&[worker])).await.unwrap();
    let stop = StopItem { key: key("a"), id, guess: None, forbid: false };
    assert_eq!(store.run(inc, &stopping(vec![stop])).await.unwrap(), [StopReply::Deleted]);
    // Plans go on, so that they stop surplus jobs, and schedules end.
    let item = TermItem { schedule: schedule.clone(), id: entry.id, life: 1, leave: false, seen: None };
    let terms = store.run(inc, &HoldTurns { node: node("n1"), items: vec![item] }).await.unwrap();
    let [TermReply::Held(held)] = &terms.replies[..] else { panic!("{terms:?}") };
    assert!(
        store
            .run(inc, &TakeTick { schedule: schedule.clone(), turn: (entry.id, held.term), number: 1 })
            .await
            .unwrap()
            .due
    );
    let end = ScheduleChange::End { id: entry.id, term: Some(held.term) };
    assert_eq!(
        store.run(inc, &ChangeSchedule { schedule, change: end }).await.unwrap(),
        ScheduleState::Ended
    );
}

#[tokio::test]
async fn unsuitable_servers_are_refused_by_name() {
    let server = RedisServer::builder().config("maxmemory-policy", "allkeys-lru").start().unwrap();
    let store = Store::from(RedisStore::open(&client(&server), &pool_name("p")));
    let StoreError::Unusable(source) = store.server_checks().await.unwrap_err() else { panic!("usable") };
    let expected = UnsuitableServer::Evicts { policy: "allkeys-lru".into() };
    assert_eq!(source.downcast_ref::<UnsuitableServer>(), Some(&expected));

    let server = RedisServer::start().unwrap();
    Store::from(RedisStore::open(&client(&server), &pool_name("p"))).server_checks().await.unwrap();
}

#[tokio::test]
async fn nothing_is_left_of_a_store() {
    let server = RedisServer::start().unwrap();
    let watcher = client(&server);
    for close in [true, false] {
        let user = client(&server);
        let (store, inc) = pool(&user, if close { "closed" } else { "dropped" }).await;
        let mut members = store.members();
        members.wait_for(|members| members.incarnation == Some(inc)).await.unwrap();
        store
            .read(&ReadPool { consumer: node("n1"), max: 1, block: Duration::from_millis(1) })
            .await
            .unwrap();
        let lease = store.apart();
        lease.run(inc, &renew(&[])).await.unwrap();
        assert!(clients(&watcher).await.lines().count() > 4);
        if close {
            store.close().await;
            assert!(members.changed().await.is_err(), "nobody tells of members any more");
        }
        drop((store, lease, user));
        eventually(SOON, "all connections but the watcher's to end", async || {
            (clients(&watcher).await.lines().count() == 1).then_some(())
        })
        .await;
    }
}

#[tokio::test]
async fn the_dump_shows_every_key() {
    let server = RedisServer::start().unwrap();
    let client = client(&server);
    let redis = Arc::new(RedisStore::open_with_clock_key(&client, &pool_name("p")));
    let store = Store::Redis(Arc::clone(&redis));
    client.commands().command(cmd("SET").arg("tenure:{p}:clock").arg(1_750_000_000_000_u64)).await.unwrap();
    let inc = open_pool(&store, &Settings::default()).await;
    assert_eq!(inc, Incarnation(1_750_000_000_000));
    assert_eq!(store.read(&ReadTime).await.unwrap(), 1_750_000_000_000);
    let item = DispatchItem {
        key: JobKey::new(vec![0xff, b'k']).unwrap(),
        id: DispatchId::of_caller(&node("n1"), "own").unwrap(),
        not_after: 1_750_000_000_001,
        hash: "h".into(),
        payload: Bytes::new(),
        worker: None,
        awaited: true,
    };
    store.run(inc, &Dispatch { by: Placing::Ring(Revision(0)), items: vec![item] }).await.unwrap();
    store.read(&ReadPool { consumer: node("n1"), max: 1, block: LONG }).await.unwrap();
    let dump = redis.dump().await.unwrap();
    assert_eq!(
        dump.names().collect::<Vec<_>>(),
        ["jobs", "outcomes", "payloads", "pool", "queue", "settings", "starts", "starts.routers"]
    );
    let text = format!("{dump:?}");
    assert!(text.contains(r"outcomes own = \xffk|h|n1.!own|"), "{text}");
    assert!(
        text.contains(r"queue \xffk @ 1750000002000") && text.contains("starts.routers n1 = 1"),
        "{text}"
    );
    assert!(!text.contains("pool server = "), "{text}");
}
