//! An inspector looks at a pool, and is no part of it.

use std::time::Duration;

use futures::stream::{StreamExt, TryStreamExt};
use tenure_pool::event::EventCursor;
use tenure_pool::inspect::{Explanation, PoolPhase, ScheduleKind, Verdict};
use tenure_pool::{Client, Error, Inspector, Job, JobState, MemoryStore, Node, Plan, Settings, Tick};
use tenure_testing::RedisServer;
use tenure_testing::tls::Authority;

use crate::history::blocked;
use crate::world::{Home, PATIENCE, POOL, World, on_both_stores, until};

on_both_stores!(
    an_inspector_sees_what_a_node_sees,
    a_name_without_a_pool_makes_none,
    an_inspector_changes_nothing,
    schedules_are_listed_with_their_holders,
    a_node_and_an_inspector_explain_a_key,
    a_pool_whose_workers_have_all_died_says_so,
    figures_count_the_jobs_and_their_workers,
    an_inspector_takes_over_the_pool_s_settings,
    nodes_with_workers_say_what_they_are,
    an_inspector_follows_the_pool_to_another_server,
    an_inspector_of_a_pool_that_was_shut_down_says_so,
);

impl World {
    pub(crate) async fn inspector(&self) -> Inspector {
        Inspector::open(POOL, self.backend()).await.unwrap()
    }
}

/// A pool with running and waiting jobs, notifications and a checkpoint. Its node has died.
async fn left_alone(world: &World) -> Node {
    let node = world.node("a").await;
    let saving = tenure_pool::run(|job: Job| async move {
        job.checkpoint("halfway").await?;
        job.cancelled().await;
        Ok(())
    });
    node.add_worker(saving).meta("zone-1").await.unwrap();
    for key in ["one", "two", "three"] {
        node.dispatch((key, format!("payload of {key}"))).await.unwrap();
        until("the checkpoint", async || node.inspect().checkpoint_of(key).await.unwrap().is_some()).await;
    }
    node.operate().hold(true).await.unwrap();
    node.submit(("waiting", "payload of waiting")).await.unwrap();
    node.notify("waiting", "hello").await.unwrap();
    node.abandon();
    node.closed().await;
    node
}

async fn an_inspector_sees_what_a_node_sees(world: World) {
    let node = world.node("a").await;
    let seen = world.inspector().await;
    assert_eq!((seen.pool_name(), seen.shards(), seen.shard_of("key").unwrap()), (POOL, 1, 0));
    assert_eq!((seen.jobs().await.unwrap(), seen.workers().await.unwrap()), (vec![], vec![]));
    world.add_worker(&node).await;
    assert_eq!(seen.workers().await.unwrap(), node.inspect().workers().await.unwrap(), "as new as the call");
    assert_eq!(seen.nodes().await.unwrap(), node.inspect().nodes().await.unwrap());
    let listed = seen.nodes().await.unwrap();
    assert_eq!((listed[0].name.as_str(), listed[0].workers.len()), ("a", 1));
    let (keys, _) = world.dispatch_placed(&node, 30).await;
    assert_eq!(seen.jobs().await.unwrap(), node.inspect().jobs().await.unwrap());
    let streamed: Vec<_> = seen.job_stream().try_collect().await.unwrap();
    assert_eq!(streamed.len(), keys.len());
    let key = keys[0].as_str();
    assert_eq!(seen.job(key).await.unwrap(), node.inspect().job(key).await.unwrap());
    assert_eq!(seen.owner(key).await.unwrap(), node.inspect().owner(key).await.unwrap());
    assert_eq!(seen.payload(key).await.unwrap().unwrap(), format!("payload of {key}"));
    let worker = &seen.workers().await.unwrap()[0];
    assert_eq!(seen.jobs_of(worker, None, 100).await.unwrap().len(), keys.len());
    assert_eq!(seen.parked().await.unwrap(), []);
    assert_eq!(seen.parked_page(None, 10).await.unwrap().items, []);
    assert_eq!(seen.pool_state().await.unwrap(), node.inspect().pool_state().await.unwrap());
    let state = &seen.pool_state().await.unwrap()[0];
    assert_eq!((state.shard, state.phase, state.server_changed), (0, PoolPhase::Open, false));
    assert!(matches!(seen.job("").await, Err(Error::Name(_))));
    assert!(matches!(seen.jobs_page(Some("1:0".parse().unwrap()), 5).await, Err(Error::Name(_))));
    assert!(matches!(seen.notifications("none").await, Err(Error::JobNotFound(_))));
}

async fn a_name_without_a_pool_makes_none(world: World) {
    for _ in 0..2 {
        let opened = Inspector::open(POOL, world.backend()).await;
        assert!(matches!(&opened, Err(Error::NoPool { pool }) if pool == POOL), "{opened:?}");
    }
    assert!(matches!(Inspector::open("no pool", world.backend()).await, Err(Error::Name(_))));
    match &world.home {
        Home::Memory(store) => assert_eq!(store.tamper(|server| server.dump()).lines(), [""; 0]),
        Home::Redis(_) | Home::Elsewhere => {
            let keys: Vec<String> = redis::cmd("KEYS").arg("*").query(&mut world.client()).unwrap();
            assert_eq!(keys, [""; 0]);
        }
    }
}

async fn an_inspector_changes_nothing(world: World) {
    left_alone(&world).await;
    let before = world.data().await;
    assert!(before.len() > 20, "{before:?}");
    look_at_all(&world.inspector().await).await;
    assert_eq!(world.data().await, before);
}

async fn schedules_are_listed_with_their_holders(world: World) {
    let node = world.node_with("a", 1).await;
    let seen = world.inspector().await;
    assert_eq!(node.inspect().schedules().await.unwrap(), []);
    let hour = Duration::from_secs(3_600);
    let _plan = node.schedule("nightly", |_: Tick| async { Ok(Plan::exactly([])) }, hour).await.unwrap();
    let _ticker = node.ticker("report", 2 * hour).await.unwrap();
    until("the first tick of the plan", async || {
        let all = seen.schedules().await.unwrap();
        all.len() == 2 && all[0].ticks == 1 && all.iter().all(|schedule| schedule.term.0 > 0)
    })
    .await;
    let all = node.inspect().schedules().await.unwrap();
    assert_eq!(seen.schedules().await.unwrap(), all);
    let listed: Vec<_> = all.iter().map(|s| (s.shard, s.kind, s.name.to_string(), s.period)).collect();
    assert_eq!(
        listed,
        [
            (0, ScheduleKind::Plan, "nightly".to_owned(), hour),
            (0, ScheduleKind::Ticker, "report".to_owned(), 2 * hour)
        ]
    );
    assert!(all.iter().all(|schedule| schedule.holder.as_ref().is_some_and(|node| node.as_str() == "a")));
    assert!(all.iter().all(|schedule| schedule.next > world.now() + hour / 2));
    let json = serde_json::to_value(&all[0]).unwrap();
    assert_eq!(
        (&json["kind"], &json["name"], &json["holder"]),
        (&"plan".into(), &"nightly".into(), &"a".into())
    );
    assert_eq!(json["period"], 3_600_000);
}

async fn a_node_and_an_inspector_explain_a_key(world: World) {
    let node = world.builder("a").address("http://a:80").join().await.unwrap();
    let seen = world.inspector().await;
    let ticket = node.submit(("key", "")).id("order-7").await.unwrap();
    let explained = seen.explain("key").await.unwrap();
    assert_eq!(explained.verdict, Verdict::NoWorker);
    assert!(explained.to_string().contains(": no worker is up\n  accepted"), "{explained}");
    let worker = world.add_worker(&node).await;
    let is_running = async || node.inspect().job("key").await.unwrap().unwrap().state == JobState::Running;
    until("the job to run", is_running).await;
    until("its start to be noted", async || seen.explain("key").await.unwrap().verdict == Verdict::AtHome)
        .await;
    let explained = node.inspect().explain("key").await.unwrap();
    let owner = explained.owner.as_ref().unwrap();
    assert_eq!((Some(owner.worker), owner.node.as_deref()), (worker.id(), Some("a")));
    let token = node.inspect().job("key").await.unwrap().unwrap().token;
    let first =
        format!("key: running on worker {} (node a, http://a:80) under token {token}, for ", owner.worker);
    assert!(explained.to_string().starts_with(&first), "{explained}");
    assert_eq!(seen.explain_dispatch(&ticket).await.unwrap().verdict, Verdict::AtHome);
    node.stop_job("key").until_stopped().await.unwrap();
    assert_eq!(node.inspect().explain("key").await.unwrap().verdict, Verdict::Absent);
    // Its start has succeeded, which settled the outcome of its id.
    let ended = Verdict::Ended { outcome: Some("ok".to_owned()) };
    assert_eq!(seen.explain_dispatch(&ticket).await.unwrap().verdict, ended);
    assert_eq!(node.inspect().explain_dispatch(&ticket).await.unwrap().verdict, ended);
    let next = node.submit(("key", "")).await.unwrap();
    for explained in [seen.explain_dispatch(&ticket).await, node.inspect().explain_dispatch(&ticket).await] {
        let Explanation { id, named, .. } = explained.unwrap();
        let named = named.map(|named| (named.id, named.ended, named.outcome));
        assert_eq!(
            (id, named),
            (Some(next.id.clone()), Some((ticket.id.clone(), true, Some("ok".to_owned()))))
        );
    }
    assert_eq!(seen.explain_dispatch(&next).await.unwrap().named, None);
    assert!(matches!(seen.explain("").await, Err(Error::Name(_))));
    assert!(node.operate().shutdown().await.unwrap().complete);
    assert!(matches!(seen.explain("key").await, Err(Error::PoolClosed)));
}

async fn a_pool_whose_workers_have_all_died_says_so(world: World) {
    let world = world.with_ttl(crate::server_loss::TTL);
    let node = world.node_with("a", 1).await;
    // A client takes nothing from the dead.
    let client = world.builder("client").client_only().join().await.unwrap();
    client.dispatch(("runs", "")).await.unwrap();
    node.abandon();
    node.closed().await;
    client.submit(("waits", "")).await.unwrap();
    for key in ["runs", "waits"] {
        until("the silence to be noticed", async || {
            let explained = client.inspect().explain(key).await.unwrap();
            matches!(explained.verdict, Verdict::NobodyLives { .. })
                && explained.to_string().contains("no worker lives: the last one renewed its lease ")
        })
        .await;
    }
}

async fn figures_count_the_jobs_and_their_workers(world: World) {
    let node = world.node("a").await;
    let seen = world.inspector().await;
    node.submit(("waiting", "")).await.unwrap();
    let figures = seen.figures().await.unwrap();
    assert_eq!((figures.jobs, figures.queued, figures.waiting, figures.parked), (1, 1, 1, 0));
    assert!(figures.oldest_queued.is_some() && !figures.older_possible, "{figures:?}");
    assert_eq!(figures.workers, []);
    let workers = [world.add_worker(&node).await, world.add_worker(&node).await];
    world.dispatch_placed(&node, 30).await;
    until("every job to run", async || world.recorder.running().len() == 31).await;
    let figures = seen.figures().await.unwrap();
    assert_eq!((figures.jobs, figures.queued, figures.waiting, figures.oldest_queued), (31, 0, 0, None));
    let ids: Vec<_> = figures.workers.iter().map(|worker| Some(worker.worker)).collect();
    assert_eq!(ids, workers.iter().map(tenure_pool::Worker::id).collect::<Vec<_>>());
    for (worker, of) in workers.iter().zip(&figures.workers) {
        assert_eq!((of.jobs, of.node.as_str()), (worker.jobs(None, 100).await.unwrap().len() as u64, "a"));
    }
    let timeless = |mut figures: tenure_pool::inspect::Figures| {
        figures.workers.iter_mut().for_each(|of| of.renewed = None);
        figures
    };
    assert_eq!(timeless(node.inspect().figures().await.unwrap()), timeless(figures));
    until("both leases to be renewed", async || {
        let workers = seen.figures().await.unwrap().workers;
        workers.iter().all(|of| of.renewed.is_some_and(|renewed| renewed < PATIENCE))
    })
    .await;
    assert!(node.operate().shutdown().await.unwrap().complete);
    assert!(matches!(node.inspect().figures().await, Err(Error::PoolClosed)));
}

/// Every read, of the pool that was left alone.
async fn look_at_all(seen: &Inspector) {
    assert_eq!(seen.jobs().await.unwrap().len(), 4);
    let states: Vec<_> = seen.job_stream().map_ok(|job| job.state).try_collect().await.unwrap();
    assert_eq!(states.iter().filter(|state| **state == JobState::Running).count(), 3);
    assert_eq!(seen.job("waiting").await.unwrap().unwrap().state, JobState::Queued);
    assert_eq!(seen.explain("waiting").await.unwrap().verdict, Verdict::OnHold);
    assert_eq!(seen.explain("one").await.unwrap().checkpoint.unwrap().len, 7);
    assert_eq!(seen.figures().await.unwrap().jobs, 4);
    assert!(seen.statuses().await.unwrap().len() <= 1);
    assert!(seen.events(&tenure_pool::event::EventCursor::default(), 1_000).await.unwrap().is_last);
    assert_eq!(seen.owner("one").await.unwrap().unwrap().node.as_deref(), Some("a"));
    assert_eq!(seen.payload("two").await.unwrap().unwrap(), "payload of two");
    assert_eq!(seen.checkpoint_of("three").await.unwrap().unwrap().bytes(), "halfway");
    let notes = seen.notifications("waiting").await.unwrap();
    assert_eq!(notes.iter().map(|note| &note.body[..]).collect::<Vec<_>>(), [b"hello"]);
    let worker = &seen.workers().await.unwrap()[0];
    assert_eq!((worker.node.as_str(), worker.meta.as_str()), ("a", "zone-1"));
    assert_eq!(seen.jobs_of(worker, None, 10).await.unwrap().len(), 3);
    assert_eq!(seen.parked().await.unwrap(), []);
    assert_eq!(seen.schedules().await.unwrap(), []);
    assert_eq!(seen.nodes().await.unwrap().len(), 1);
    assert!(seen.settings().await.unwrap().hold);
    assert_eq!(seen.pool_state().await.unwrap()[0].phase, PoolPhase::Open);
    let whole = seen.overview().await.unwrap();
    assert_eq!(
        (&whole.workers, &whole.settings),
        (&seen.workers().await.unwrap(), &seen.settings().await.unwrap())
    );
    assert_eq!(
        (&whole.shards, &whole.statuses),
        (&seen.pool_state().await.unwrap(), &seen.statuses().await.unwrap())
    );
    assert_eq!((whole.figures.jobs, whole.figures.workers.len()), (4, whole.workers.len()));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_documented_rights_to_look_are_enough() {
    let world = World::on_redis();
    left_alone(&world).await;
    let rights = crate::rights::documented_rights_to_look();
    let rights: Vec<_> = rights.iter().map(String::as_str).collect();
    let url = world.server().acl_user("looker", "secret", &rights).unwrap();
    let before = world.data().await;
    let seen = Inspector::open(POOL, Client::open(&url).unwrap()).await.unwrap();
    look_at_all(&seen).await;
    let mut coming = seen.follow(seen.events(&EventCursor::default(), 1_000).await.unwrap().next);
    tokio::select! {
        event = coming.next() => panic!("{event:?}"),
        () = until("the held read alone", async || blocked(&world) == 1) => {}
    }
    // Another name has other keys, which this user may not see.
    let refused = Inspector::open("another", Client::open(&url).unwrap()).await;
    assert!(matches!(refused, Err(Error::Store(_))), "{refused:?}");
    assert_eq!(world.data().await, before);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_documented_rights_to_look_open_a_pool_of_either_form() {
    let world = World::on_redis();
    let rights = crate::rights::documented_rights_to_look();
    let of_shards: Vec<_> =
        rights.iter().map(|right| right.replace(&format!("{{{POOL}}}"), &format!("{{{POOL}#*}}"))).collect();
    let user = |name: &str, rights: &[String]| {
        let rights: Vec<_> = rights.iter().map(String::as_str).collect();
        Client::open(&world.server().acl_user(name, "secret", &rights).unwrap()).unwrap()
    };
    let (whole, sharded) = (user("whole", &rights), user("sharded", &of_shards));
    let opened = Inspector::open(POOL, &whole).await;
    assert!(matches!(opened, Err(Error::NoPool { .. })), "not a lack of rights: {opened:?}");
    let node = world.builder("a").shards(2).join().await.unwrap();
    let seen = Inspector::open(POOL, &sharded).await.unwrap();
    assert_eq!((seen.shards(), seen.jobs().await.unwrap()), (2, vec![]));
    node.abandon();
}

async fn nodes_with_workers_say_what_they_are(world: World) {
    // They say it with their renewals, a fifth of this apart.
    let world = world.with_ttl(crate::server_loss::TTL);
    let (a, b) = (world.node_with("a", 1).await, world.node_with("b", 1).await);
    let client = world.builder("client").client_only().join().await.unwrap();
    world.dispatch_placed(&client, 10).await;
    let seen = world.inspector().await;
    let said = async || {
        let said = seen.statuses().await.unwrap();
        let held: u64 = said.iter().flat_map(|of| &of.workers).map(|worker| worker.held).sum();
        (held == 10).then_some(said)
    };
    let said = until("both to have said what they hold", said).await;
    let nodes: Vec<_> = said.iter().map(|of| (of.node.as_str(), of.pid)).collect();
    assert_eq!(nodes, ["a", "b"].map(|node| (node, std::process::id())));
    assert!(said.iter().all(|of| !of.host.is_empty() && !of.version.is_empty() && of.workers.len() == 1));
    b.close().await.unwrap();
    until("its status to go with it", async || {
        seen.statuses().await.unwrap().iter().map(|of| of.node.as_str()).eq(["a"])
    })
    .await;
    drop(a);
}

async fn an_inspector_takes_over_the_pool_s_settings(world: World) {
    let settings = Settings { max_queued: 77, strikes: 9, ..Settings::default() };
    let node = world.builder("a").settings(settings).worker_ttl(PATIENCE).join().await.unwrap();
    let seen = world.inspector().await;
    assert_eq!(seen.settings().await.unwrap(), *node.settings());
    node.operate().change_settings(|settings| settings.max_attempts = 3).await.unwrap();
    assert_eq!(seen.settings().await.unwrap(), *node.settings());
}

async fn an_inspector_follows_the_pool_to_another_server(world: World) {
    let world = world.with_ttl(crate::server_loss::TTL);
    let node = world.node_with("a", 1).await;
    let seen = world.inspector().await;
    let keys = world.dispatch(&node, 10).await;
    assert_eq!(seen.jobs().await.unwrap().len(), keys.len());
    let page = node.inspect().jobs_page(None, 3).await.unwrap();
    assert!(page.next.is_some() && seen.jobs_page(page.next, 3).await.is_ok());
    world.replace_server();
    let refused = seen.jobs_page(page.next, 3).await;
    assert!(matches!(refused, Err(Error::StaleCursor)), "another process has another order: {refused:?}");
    until("the node to follow, too", async || {
        matches!(node.inspect().jobs_page(page.next, 3).await, Err(Error::StaleCursor))
    })
    .await;
    assert_eq!(seen.jobs().await.unwrap().len(), keys.len());
    assert_eq!(seen.workers().await.unwrap().len(), 1);
    world.wipe();
    until("the pool to be made again", async || seen.jobs().await.is_ok_and(|jobs| jobs.len() == keys.len()))
        .await;
    assert_eq!(seen.notifications(&*keys[0]).await.unwrap(), []);
}

async fn an_inspector_of_a_pool_that_was_shut_down_says_so(world: World) {
    let node = world.node_with("a", 1).await;
    let seen = world.inspector().await;
    world.dispatch(&node, 3).await;
    assert!(node.operate().shutdown().await.unwrap().complete);
    let read = seen.jobs().await;
    assert!(matches!(read, Err(Error::PoolClosed)), "{read:?}");
    assert_eq!(seen.pool_state().await.unwrap()[0].phase, PoolPhase::Closed);
    let opened = Inspector::open(POOL, world.backend()).await;
    assert!(matches!(opened, Err(Error::PoolClosed)), "{opened:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_address_where_nobody_listens_fails_at_once() {
    let server = RedisServer::start().unwrap();
    let client = Client::open(&server.url()).unwrap();
    server.kill().unwrap();
    let opened = tokio::time::timeout(PATIENCE / 2, Inspector::open(POOL, client)).await.unwrap();
    assert!(matches!(opened, Err(Error::Store(_))), "{opened:?}");
}

/// Each of these is named by the first look. None says that something may have been executed, or is damaged.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_look_names_why_redis_cannot_be_reached() {
    let authority = Authority::new().unwrap();
    let (plain, tls) = (
        RedisServer::builder().tcp().start().unwrap(),
        RedisServer::builder().tls(&authority).unwrap().ask_for_client_certificates().start().unwrap(),
    );
    let full = RedisServer::builder().tcp().start().unwrap();
    let mut only = redis::Client::open(full.url()).unwrap().get_connection().unwrap();
    redis::cmd("CONFIG").arg("SET").arg("maxclients").arg(1).exec(&mut only).unwrap();
    let ca = plain.dir().join("ca.pem");
    std::fs::write(&ca, authority.ca_pem()).unwrap();
    let ca = format!("?ca={}", ca.display());
    let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let other = |from: &str, to: &str| plain.url().replace(from, to);
    for (url, cause) in [
        (format!("redis://{free}"), "Connection refused"),
        ("redis://no..such.example".to_owned(), "cannot be resolved"),
        (tls.url().replace("rediss://", "redis://"), "is it a port for tls"),
        (other("redis://", "rediss://") + &ca, "answers without tls"),
        (tls.url() + &ca, "wants one"),
        (full.url(), "max number of clients"),
        (other("redis://", "redis://me:wrong@"), "WRONGPASS"),
        (other("redis://", "redis://:wrong@"), "AUTH <password>"),
        (other("redis://", "redis+cluster://"), "cluster support disabled"),
        (other("redis://", "redis+sentinel://") + "/main", "SENTINEL"),
    ] {
        let opened = tokio::time::timeout(PATIENCE / 2, Inspector::open(POOL, Client::open(&url).unwrap()));
        let text = opened.await.expect(&url).unwrap_err().to_string();
        assert!(text.contains(cause), "{url}: {text}");
        assert!(!text.contains("executed") && !text.contains("stored data"), "{url}: {text}");
    }
}

/// A look needs several connections: for commands, for reads, and to follow the maps. However many connections the server
/// refuses, the look names the cause, and does not wait for the end of its time.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_look_names_a_server_with_too_little_room_at_once() {
    let server = RedisServer::start().unwrap();
    let world = World::elsewhere(&Client::open(&server.url()).unwrap());
    let _node = world.node("a").await;
    let mut only = redis::Client::open(server.url()).unwrap().get_connection().unwrap();
    let taken = server.clients().unwrap().len();
    let mut refusals = 0;
    loop {
        redis::cmd("CONFIG").arg("SET").arg("maxclients").arg(taken + refusals).exec(&mut only).unwrap();
        let look = Inspector::open(POOL, Client::open(&server.url()).unwrap());
        let Err(error) = tokio::time::timeout(PATIENCE / 2, look).await.expect("an answer at once") else {
            break;
        };
        assert!(error.to_string().contains("max number of clients"), "{error}");
        refusals += 1;
    }
    assert!(refusals > 1, "a look without room was not refused");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_silent_server_is_named_with_the_last_trouble() {
    let silent = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let client = Client::open(&format!("redis://{}", silent.local_addr().unwrap())).unwrap();
    let nobody = Client::open("redis://127.0.0.1:1").unwrap();
    assert!(Inspector::open_within(Duration::MAX, POOL, nobody).await.is_err(), "no clock shows the end");
    let opened = Inspector::open_within(Duration::from_secs(2), POOL, client).await;
    let text = opened.unwrap_err().to_string();
    assert!(text.contains("no connection was made within 1s") && !text.contains("executed"), "{text}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_read_without_an_answer_ends_with_the_store_s_error() {
    let store = MemoryStore::new();
    let node = Node::builder(POOL, &store).assume_fresh(true).join().await.unwrap();
    let seen = Inspector::open(POOL, &store).await.unwrap();
    store.set_available(false);
    let (read, back) = tokio::join!(seen.jobs(), async {
        tokio::task::yield_now().await;
        store.set_available(true);
    });
    assert_eq!((read.unwrap(), back), (vec![], ()));
    store.set_available(false);
    let read = seen.jobs().await;
    assert!(matches!(read, Err(Error::Store(_))), "{read:?}");
    node.abandon();
}
