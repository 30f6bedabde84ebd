//! A real cluster of three masters: routing, moving slots, dying nodes.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use redis::{Cmd, Value, cmd};
use tenure_connection::{Class, Client, Connection, Error, Event, Script, Subscriber, slot};
use tenure_testing::tls::Authority;
use tenure_testing::{Cluster, Data, RedisServer, eventually};

const SOON: Duration = Duration::from_secs(30);

fn client(cluster: &Cluster) -> Client {
    Client::builder(&cluster.url()).response_timeout(SOON).connect_timeout(SOON).build().unwrap()
}

/// A cluster, a client of it, and the client's connection for commands.
async fn clustered() -> (Cluster, Client, Connection) {
    let cluster = Cluster::start().await.unwrap();
    let client = client(&cluster);
    let redis = client.commands();
    (cluster, client, redis)
}

fn incr(key: &str) -> Cmd {
    cmd("INCR").arg(key).take()
}

fn add() -> Script {
    Script::new(
        "add",
        "local n = redis.call('INCRBY', KEYS[1], 1) if KEYS[2] then redis.call('INCRBY', KEYS[2], 1) end return n",
    )
}

/// A node that does not own the slot.
async fn another(cluster: &Cluster, slot: u16) -> usize {
    (cluster.owner(slot).await.unwrap() + 1) % 3
}

async fn next(subscriber: &mut Subscriber) -> Event {
    tokio::time::timeout(SOON, subscriber.next()).await.expect("an event in time")
}

#[tokio::test]
async fn commands_and_pipelines_reach_the_owners_of_their_slots() {
    let (cluster, _client, redis) = clustered().await;
    let keys: Vec<_> = (0..300).map(|n| format!("key:{n}")).collect();
    for key in &keys[..3] {
        redis.command(cmd("SET").arg(key).arg(key)).await.unwrap();
    }
    let (add, mut pipeline) = (add(), redis.pipeline());
    for key in &keys {
        pipeline.command(cmd("SET").arg(key).arg(key).take());
        pipeline.call(add.call(&[format!("{{{key}}}:n"), format!("{{{key}}}:m")]));
        pipeline.command(cmd("GET").arg(key).take());
    }
    let results = pipeline.send().await;
    for (key, results) in keys.iter().zip(results.chunks(3)) {
        assert!(matches!(&results[0], Ok(Value::Okay)), "{key}: {:?}", results[0]);
        assert!(matches!(&results[1], Ok(Value::Int(1))), "{key}: {:?}", results[1]);
        assert!(matches!(&results[2], Ok(Value::BulkString(value)) if *value == key.as_bytes()), "{key}");
    }
    let owners: BTreeSet<_> = {
        let mut owners = BTreeSet::new();
        for node in 0..3 {
            owners.insert(cluster.node(node).keys().unwrap().len());
        }
        owners
    };
    assert!(!owners.contains(&0), "each node has some of the keys");
    assert_eq!(redis.command(&cmd("PING")).await.unwrap(), Value::SimpleString("PONG".into()));
    assert!(redis.pipeline().send().await.is_empty());
}

#[tokio::test]
async fn a_cluster_may_ask_for_tls_and_a_password() {
    let authority = Authority::new().unwrap();
    let cluster = Cluster::builder().tls(&authority).unwrap().password("secret").start().await.unwrap();
    assert!(cluster.url().starts_with("rediss+cluster://"));
    let client = Client::builder(&cluster.url()).response_timeout(SOON).ca_certificate(authority.ca_pem());
    let client = client.build().unwrap();
    let mut pipeline = client.commands().pipeline();
    for key in ["a", "b", "c", "d", "e"] {
        pipeline.command(incr(key));
    }
    for result in pipeline.send().await {
        assert_eq!(result.unwrap(), Value::Int(1));
    }
    let mut subscriber = client.subscriber(["a"]);
    assert!(matches!(next(&mut subscriber).await, Event::Subscribed));
}

#[tokio::test]
async fn a_call_over_several_slots_is_refused_before_it_is_sent() {
    let (cluster, _, redis) = clustered().await;
    let results = redis.pipeline().call(add().call(&["a", "b"])).command(incr("a")).send().await;
    assert!(matches!(&results[0], Err(Error::Config { .. })), "{:?}", results[0]);
    assert!(matches!(&results[1], Ok(Value::Int(1))), "the call changed nothing, the rest is done");
    let error = redis.command(cmd("MGET").arg("a").arg("b")).await.unwrap_err();
    assert_eq!((error.code(), error.is_transient()), (Some("CROSSSLOT"), false));
    assert!(matches!(redis.server().await, Err(Error::Config { .. })));
    for key in ["a", "b", "c", "d"] {
        let owner = cluster.owner(slot(key)).await.unwrap();
        let info: String = cluster.node(owner).query(cmd("INFO").arg("server")).unwrap();
        assert!(info.contains(&*redis.server_of(key).await.unwrap().run_id), "{key}");
        let Value::BulkString(id) = redis.command_at(key, cmd("CLUSTER").arg("MYID")).await.unwrap() else {
            panic!()
        };
        let myid: Vec<u8> = cluster.node(owner).query(cmd("CLUSTER").arg("MYID")).unwrap();
        assert_eq!(id, myid, "{key}");
    }
}

#[tokio::test]
async fn one_seed_is_enough_and_a_seed_that_is_down_is_passed_over() {
    let cluster = Cluster::start().await.unwrap();
    let nodes: Vec<_> = (0..3).map(|node| cluster.node(node).url().replace("redis://", "")).collect();
    for seeds in [nodes[1].clone(), format!("127.0.0.1:1,{}", nodes[2])] {
        let url = format!("redis+cluster://{seeds}");
        let redis = Client::builder(&url).response_timeout(SOON).build().unwrap().commands();
        for key in ["a", "b", "c", "d", "e"] {
            redis.command(&incr(key)).await.unwrap();
        }
    }
    let nobody =
        Client::builder("redis+cluster://127.0.0.1:1").response_timeout(Duration::from_millis(200)).build();
    let error = nobody.unwrap().commands().command(&incr("a")).await.unwrap_err();
    assert!(matches!(error, Error::Unreachable(_)), "{error:?}");
}

#[tokio::test]
async fn a_server_that_is_no_cluster_says_so_at_once() {
    let server = RedisServer::builder().tcp().start().unwrap();
    let url = server.url().replace("redis://", "redis+cluster://");
    let client = Client::builder(&url).response_timeout(SOON).build().unwrap();
    let error = client.commands().command(&incr("a")).await.unwrap_err();
    assert_eq!((error.class(), error.may_have_executed()), (Class::Refused, false));
    assert!(
        matches!(&error, Error::Unsuitable { detail, .. } if detail.contains("cluster support")),
        "{error:?}"
    );
    let error = client.blocking().command(&incr("a"), Duration::ZERO).await.unwrap_err();
    assert!(matches!(error, Error::Unsuitable { .. }), "{error:?}");
    assert!(matches!(
        next(&mut client.subscriber(["a"])).await,
        Event::Disconnected(Error::Unsuitable { .. })
    ));
}

#[tokio::test]
async fn a_dedicated_connection_needs_no_other_runtime() {
    let (_cluster, client, _) = clustered().await;
    client.commands().command(&incr("a")).await.unwrap();
    let elsewhere = client.clone();
    let work = std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async move {
            let redis = elsewhere.dedicated();
            redis.server_of("a").await.unwrap();
            let mut pipeline = redis.pipeline();
            for key in ["a", "b", "c", "d"] {
                pipeline.command(incr(key));
            }
            assert!(pipeline.send().await.iter().all(Result::is_ok));
        });
    });
    // Meanwhile this thread's runtime stands still.
    work.join().unwrap();
}

#[tokio::test]
async fn a_moving_slot_loses_and_repeats_no_command() {
    let (cluster, client, _) = clustered().await;
    let script = add();
    let counting = |kind: usize, redis: Connection| {
        let script = script.clone();
        async move {
            let (mut count, key) = (0, format!("{{k}}:{kind}"));
            loop {
                let result = match kind % 3 {
                    0 => redis.command(&incr(&key)).await,
                    1 => redis.call(&script.call(&[&key])).await,
                    _ => redis.pipeline().command(incr(&key)).command(cmd("PING")).send().await.remove(0),
                };
                count += 1;
                // A lost or repeated command would change the count.
                assert_eq!(result.unwrap(), Value::Int(count), "{key}");
            }
        }
    };
    let counters = futures::future::join_all((0..6).map(|kind| counting(kind, client.commands())));
    let moves = async {
        let tag = slot("{k}");
        for _ in 0..4 {
            let to = another(&cluster, tag).await;
            let migration = cluster.begin_migration(tag, to).await.unwrap();
            while migration.move_keys(1).unwrap() > 0 {
                tokio::task::yield_now().await;
            }
            migration.finish().await.unwrap();
        }
    };
    tokio::select! {
        _ = counters => unreachable!("they count for ever"),
        () = moves => {}
    }
}

#[tokio::test]
async fn a_call_with_keys_on_both_ends_of_a_move_waits_for_its_end() {
    let (cluster, _client, redis) = clustered().await;
    let call = add().call(&["{k}1", "{k}2"]);
    redis.call(&call).await.unwrap();
    let migration = cluster.begin_migration(slot("k"), another(&cluster, slot("k")).await).await.unwrap();
    assert_eq!(migration.move_keys(1).unwrap(), 1);
    let hasty = redis.clone().with_response_timeout(Duration::from_millis(200));
    let error = hasty.call(&call).await.unwrap_err();
    assert_eq!(error.code(), Some("TRYAGAIN"), "{error}");
    assert!(error.is_transient() && !error.may_have_executed());
    let refusals = || {
        let told = |node| cluster.node(node).query::<String>(cmd("INFO").arg("errorstats")).unwrap();
        let count = |info: String| -> Option<u64> {
            info.lines().find_map(|line| line.strip_prefix("errorstat_TRYAGAIN:count=")?.trim().parse().ok())
        };
        (0..3).filter_map(|node| count(told(node))).sum::<u64>()
    };
    let before = refusals();
    let absent = add().call(&["{k}3", "{k}4"]);
    // Absent keys are asked for at the other end, which refuses in its turn, however often.
    let (reply, other, ()) = tokio::join!(redis.call(&call), redis.call(&absent), async {
        eventually(SOON, "both calls to be refused often", async || refusals() > before + 24).await;
        migration.move_keys(10).unwrap();
        migration.finish().await.unwrap();
    });
    assert_eq!(reply.unwrap(), Value::Int(2), "executed exactly once");
    assert_eq!(other.unwrap(), Value::Int(1), "executed exactly once");
}

#[tokio::test]
async fn nodes_that_disagree_are_given_time() {
    let (cluster, _, redis) = clustered().await;
    let key = slot("k");
    redis.server_of("k").await.unwrap();
    let (from, to) = (cluster.owner(key).await.unwrap(), another(&cluster, key).await);
    let id: String = cluster.node(to).query(cmd("CLUSTER").arg("MYID")).unwrap();
    let give = |node: usize| {
        let give = cmd("CLUSTER").arg("SETSLOT").arg(key).arg("NODE").arg(&id).take();
        cluster.node(node).query::<()>(&give).unwrap();
    };
    let refusals = || -> u64 {
        let told: String = cluster.node(from).query(cmd("INFO").arg("errorstats")).unwrap();
        let line = told.lines().find_map(|line| line.strip_prefix("errorstat_MOVED:count="));
        line.map_or(0, |count| count.trim().parse().unwrap())
    };
    // Each node says that the other one owns the slot.
    give(from);
    let command = incr("k");
    let (reply, ()) = tokio::join!(redis.command(&command), async {
        eventually(SOON, "redirects in a circle", async || refusals() >= 2).await;
        give(to);
    });
    assert_eq!(reply.unwrap(), Value::Int(1));
}

#[tokio::test]
async fn a_node_that_hangs_delays_no_command_of_the_others() {
    let cluster = Cluster::builder().config("cluster-node-timeout", "15000").start().await.unwrap();
    let client = Client::builder(&cluster.url()).response_timeout(Duration::from_secs(2)).build().unwrap();
    let redis = client.commands();
    let owner = async |key: &str| cluster.owner(slot(key)).await.unwrap();
    let from = owner("k").await;
    let mut silent = None;
    for key in ["a", "b", "c", "d", "e", "f"] {
        redis.command(&incr(key)).await.unwrap();
        if owner(key).await != from {
            silent = Some(key);
        }
    }
    let silent = silent.unwrap();
    let hanging = owner(silent).await;
    cluster.migrate_slot(slot("k"), 3 - from - hanging).await.unwrap();
    cluster.node(hanging).pause().unwrap();
    // The first command is redirected before the second is given up.
    let results = redis.pipeline().command(incr("k")).command(incr(silent)).send().await;
    assert!(matches!(&results[0], Ok(Value::Int(1))), "{results:?}");
    assert!(matches!(&results[1], Err(Error::TimedOut(_))), "{results:?}");
    cluster.node(hanging).resume().unwrap();
}

#[tokio::test]
async fn an_error_raised_after_a_write_is_no_redirect() {
    let (_cluster, _, redis) = clustered().await;
    for (number, raised) in [
        "return redis.error_reply('TRYAGAIN mine')",
        "return redis.error_reply('CLUSTERDOWN mine')",
        "return redis.error_reply('NOSCRIPT mine')",
        "error({err = 'TRYAGAIN Multiple keys request'})",
        "error({err = 'MOVED 1 127.0.0.1:1'})",
        "error({err = 'ASK 1 127.0.0.1:1'})",
        "error({err = 'NOSCRIPT No matching script'})",
    ]
    .iter()
    .enumerate()
    {
        let (script, key) =
            (Script::new("raise", &format!("redis.call('INCR', KEYS[1]) {raised}")), format!("n{number}"));
        let error = redis.call(&script.call(&[&key])).await.unwrap_err();
        assert!(matches!(error, Error::Server { .. }), "{raised}: {error:?}");
        let value = redis.command(cmd("GET").arg(&key)).await.unwrap();
        assert_eq!(value, Value::BulkString(b"1".to_vec()), "{raised}");
    }
}

#[tokio::test]
async fn a_command_without_a_key_goes_to_each_node_or_a_chosen_one() {
    let (cluster, _, redis) = clustered().await;
    let myid = cmd("CLUSTER").arg("MYID").take();
    let text = |value: Value| redis::from_redis_value::<String>(value).unwrap();
    let mut seen = BTreeSet::new();
    for _ in 0..3 {
        seen.insert(text(redis.command(&myid).await.unwrap()));
    }
    assert_eq!(seen.len(), 3, "{seen:?}");
    let to = another(&cluster, slot("k")).await;
    cluster.migrate_slot(slot("k"), to).await.unwrap();
    let owner: String = cluster.node(to).query(&myid).unwrap();
    assert_eq!(text(redis.command_at("k", &myid).await.unwrap()), owner);
}

#[tokio::test]
async fn a_key_that_moves_to_another_node_is_followed() {
    let (cluster, _, redis) = clustered().await;
    redis.command(&incr("k")).await.unwrap();
    let migration = cluster.begin_migration(slot("k"), another(&cluster, slot("k")).await).await.unwrap();
    assert_eq!(migration.move_keys(10).unwrap(), 1);
    // The slot is still at its owner, which redirects requests for this key and for new ones.
    assert_eq!(redis.command(&incr("k")).await.unwrap(), Value::Int(2));
    let results =
        redis.pipeline().command(incr("k")).command(incr("{k}new")).call(add().call(&["k"])).send().await;
    let values: Vec<_> = results.into_iter().map(Result::unwrap).collect();
    assert_eq!(values, [Value::Int(3), Value::Int(1), Value::Int(4)]);
    migration.finish().await.unwrap();
    assert_eq!(redis.command(&incr("k")).await.unwrap(), Value::Int(5));
}

#[tokio::test]
async fn a_possibly_executed_command_is_sent_to_no_other_node() {
    let (cluster, _, redis) = clustered().await;
    let owner = cluster.node(cluster.owner(slot("l")).await.unwrap());
    let command = cmd("BLPOP").arg("l").arg(600).take();
    let (reply, ()) = tokio::join!(redis.command(&command), async {
        let blocked =
            async || owner.query::<String>(cmd("INFO").arg("clients")).unwrap().contains("blocked_clients:1");
        eventually(SOON, "the command at its node", blocked).await;
        owner
            .query::<i64>(cmd("CLIENT").arg("KILL").arg("TYPE").arg("normal").arg("SKIPME").arg("yes"))
            .unwrap();
    });
    assert!(matches!(reply, Err(Error::Lost(_))), "{reply:?}");
}

#[tokio::test]
async fn a_question_that_nobody_waits_for_ends_with_its_client() {
    // Bound, and never answered.
    let silent = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("redis+cluster://{}", silent.local_addr().unwrap());
    let alive = || tokio::runtime::Handle::current().metrics().num_alive_tasks();
    let before = alive();
    let client = Client::builder(&url).connect_timeout(10 * SOON).response_timeout(Duration::from_millis(50));
    let client = client.build().unwrap();
    let error = client.commands().command(&incr("a")).await.unwrap_err();
    assert!(matches!(error, Error::Unreachable(_)), "{error:?}");
    assert!(alive() > before, "it continues for the next caller");
    drop(client);
    eventually(SOON, "no task", async || alive() <= before).await;
}

#[tokio::test]
async fn many_readers_of_a_dead_node_ask_one_question_together() {
    let cluster = Cluster::start().await.unwrap();
    let client = Client::builder(&cluster.url()).response_timeout(Duration::from_secs(2)).build().unwrap();
    let owner = cluster.owner(slot("k")).await.unwrap();
    let questions = || -> u128 {
        let told = |node| cluster.node(node).query::<String>(cmd("INFO").arg("commandstats")).unwrap();
        let count = |info: String| -> Option<u128> {
            let line = info.lines().find_map(|line| line.strip_prefix("cmdstat_cluster|slots:calls="))?;
            line.split(',').next()?.parse().ok()
        };
        (0..3).filter(|node| *node != owner).filter_map(|node| count(told(node))).sum()
    };
    let mut readers: Vec<_> = (0..100).map(|_| client.blocking()).collect();
    let read = cmd("GET").arg("k").take();
    for reader in &mut readers {
        reader.command(&read, Duration::ZERO).await.unwrap();
    }
    cluster.node(owner).kill().unwrap();
    let (before, start) = (questions(), std::time::Instant::now());
    let attempts = readers.iter_mut().map(async |reader| {
        for _ in 0..4 {
            let _ = reader.command(&read, Duration::ZERO).await;
        }
    });
    futures::future::join_all(attempts).await;
    // One question at a time, every 100 ms, and each goes to at most two nodes that answer.
    let most = 2 * (start.elapsed().as_millis() / 100 + 2);
    let asked = questions() - before;
    assert!((1..=most).contains(&asked), "{asked} of {most}");
}

#[tokio::test]
async fn a_blocking_read_follows_its_key() {
    let (cluster, client, _) = clustered().await;
    let (redis, mut blocking) = (client.commands(), client.blocking());
    let mut pop = cmd("BLPOP");
    pop.arg("list").arg(600);
    let to = another(&cluster, slot("list")).await;
    let blocked = async || {
        let info: String = cluster
            .node(cluster.owner(slot("list")).await.unwrap())
            .query(cmd("INFO").arg("clients"))
            .unwrap();
        info.contains("blocked_clients:1")
    };
    let (reply, ()) = tokio::join!(blocking.command(&pop, Duration::from_secs(600)), async {
        eventually(SOON, "the read to block", blocked).await;
        cluster.migrate_slot(slot("list"), to).await.unwrap();
        eventually(SOON, "the read to block at the new owner", blocked).await;
        redis.command(cmd("RPUSH").arg("list").arg("v")).await.unwrap();
    });
    assert!(matches!(reply.unwrap(), Value::Array(_)));
    // The next read has another owner.
    redis.command(cmd("RPUSH").arg("other").arg("v")).await.unwrap();
    let reply = blocking.command(cmd("BLPOP").arg("other").arg(600), Duration::from_secs(600)).await;
    assert!(matches!(reply.unwrap(), Value::Array(_)));
    // A key that is moving already: ASK.
    let migration =
        cluster.begin_migration(slot("list"), another(&cluster, slot("list")).await).await.unwrap();
    redis.command(cmd("RPUSH").arg("list").arg("w")).await.unwrap();
    let reply = blocking.command(&pop, Duration::from_secs(600)).await;
    assert!(matches!(reply.unwrap(), Value::Array(_)));
    migration.finish().await.unwrap();
}

#[tokio::test]
async fn a_subscription_follows_its_channels() {
    let (cluster, client, redis) = clustered().await;
    let mut subscriber = client.subscriber(["{c}1", "{c}2"]);
    assert!(matches!(next(&mut subscriber).await, Event::Subscribed));
    for round in 0..2 {
        redis.command(cmd("SPUBLISH").arg("{c}2").arg(round)).await.unwrap();
        let event = next(&mut subscriber).await;
        assert!(
            matches!(&event, Event::Message(message) if message.payload == round.to_string()),
            "{event:?}"
        );
        if round == 0 {
            cluster.migrate_slot(slot("c"), another(&cluster, slot("c")).await).await.unwrap();
            assert!(
                matches!(next(&mut subscriber).await, Event::Disconnected(error) if error.is_transient())
            );
            assert!(matches!(next(&mut subscriber).await, Event::Subscribed));
        }
    }
    let mut wrong = client.subscriber(["a", "b"]);
    assert!(matches!(next(&mut wrong).await, Event::Disconnected(Error::Config { .. })));
}

#[tokio::test]
async fn the_death_and_return_of_a_node_without_replica_are_noticed() {
    let (cluster, _, redis) = clustered().await;
    redis.command(&incr("k")).await.unwrap();
    let owner = cluster.owner(slot("k")).await.unwrap();
    cluster.node(owner).kill().unwrap();
    let hasty = redis.clone().with_response_timeout(Duration::from_millis(300));
    let error =
        eventually(SOON, "the refusal", async || match hasty.command(&incr("k")).await.unwrap_err() {
            Error::Lost(_) => None,
            error => Some(error),
        })
        .await;
    assert!(error.is_transient() && !error.may_have_executed(), "{error:?}");
    cluster.await_state("fail").await.unwrap();
    let other = ["a", "b", "c", "d"];
    let mut elsewhere = None;
    for key in other {
        if cluster.owner(slot(key)).await.is_ok_and(|node| node != owner) {
            elsewhere = Some(key);
        }
    }
    redis.command(&cmd("PING")).await.expect("any node that lives");
    let error = hasty.command(&incr(elsewhere.unwrap())).await.unwrap_err();
    assert_eq!(error.code(), Some("CLUSTERDOWN"), "{error:?}");
    assert!(error.is_transient() && !error.may_have_executed());
    let command = incr("other{k}");
    let (reply, ()) = tokio::join!(redis.command(&command), async {
        cluster.node(owner).restart(Data::Keep).unwrap();
    });
    assert_eq!(reply.unwrap(), Value::Int(1), "waited for");
}

#[tokio::test]
async fn an_owner_that_is_not_admitted_is_looked_up_anew() {
    let cluster = Cluster::start().await.unwrap();
    let plain = client(&cluster);
    let run_id = async || plain.commands().server_of("k").await.unwrap().run_id;
    let admitted = Arc::new(Mutex::new(run_id().await));
    let asked = admitted.clone();
    // One client each: they do not share what they learn.
    let client = || {
        let asked = asked.clone();
        client(&cluster).with_admission(move |run_id: &str| **asked.lock().unwrap() == *run_id)
    };
    let (redis, mut blocking) = (client().commands(), client().blocking());
    redis.command(&incr("k")).await.unwrap();
    blocking.command(&incr("k"), Duration::ZERO).await.unwrap();
    cluster.migrate_slot(slot("k"), another(&cluster, slot("k")).await).await.unwrap();
    *admitted.lock().unwrap() = run_id().await;
    // The former owner is refused before it could name the new one.
    let read = eventually(SOON, "a read", async || blocking.command(&incr("k"), Duration::ZERO).await);
    assert_eq!(read.await, Value::Int(3));
    let written = eventually(SOON, "a command", async || redis.command(&incr("k")).await);
    assert_eq!(written.await, Value::Int(4));
}

#[tokio::test]
async fn all_roles_follow_the_replica_of_a_dead_node() {
    all_roles_follow(|node| node.kill().unwrap()).await;
}

#[tokio::test]
async fn all_roles_follow_the_replica_of_a_node_that_hangs() {
    all_roles_follow(|node| node.pause().unwrap()).await;
}

async fn all_roles_follow(fault: fn(&RedisServer)) {
    let cluster = Cluster::builder().replicas(1).start().await.unwrap();
    // One client each: they do not share what they learn.
    let client = || Client::builder(&cluster.url()).response_timeout(Duration::from_secs(1)).build().unwrap();
    let (redis, mut blocking) = (client().commands(), client().blocking());
    let mut subscriber = client().subscriber(["{k}"]);
    assert!(matches!(next(&mut subscriber).await, Event::Subscribed));
    redis.command(&incr("{k}")).await.unwrap();
    blocking.command(cmd("BLPOP").arg("{k}l").arg(0.01), Duration::from_millis(10)).await.unwrap();
    let owner = cluster.owner(slot("k")).await.unwrap();
    fault(cluster.node(owner));
    assert_ne!(cluster.await_new_owner(slot("k"), owner).await.unwrap(), owner);
    let pushed = eventually(SOON, "a command at the new owner", async || {
        redis.command(cmd("RPUSH").arg("{k}l").arg("v")).await
    });
    pushed.await;
    let popped = eventually(SOON, "the read at the new owner", async || {
        blocking.command(cmd("BLPOP").arg("{k}l").arg(0.1), Duration::from_millis(100)).await
    });
    assert!(matches!(popped.await, Value::Array(_)));
    loop {
        match next(&mut subscriber).await {
            Event::Subscribed => break,
            Event::Disconnected(error) => assert!(error.is_transient(), "{error}"),
            event => panic!("{event:?}"),
        }
    }
    redis.command(cmd("SPUBLISH").arg("{k}").arg("here")).await.unwrap();
    assert!(matches!(next(&mut subscriber).await, Event::Message(_)));
}

#[tokio::test]
async fn nothing_is_left_of_a_dropped_client() {
    let cluster = Cluster::start().await.unwrap();
    let alive = || tokio::runtime::Handle::current().metrics().num_alive_tasks();
    let before = alive();
    {
        let client = client(&cluster);
        let (redis, mut blocking) = (client.commands(), client.blocking());
        let mut subscriber = client.subscriber(["c"]);
        let mut pipeline = redis.pipeline();
        (0..100).for_each(|n| {
            pipeline.command(incr(&n.to_string()));
        });
        assert!(pipeline.send().await.iter().all(Result::is_ok));
        blocking.command(cmd("BLPOP").arg("l").arg(0.01), Duration::from_millis(10)).await.unwrap();
        assert!(matches!(next(&mut subscriber).await, Event::Subscribed));
    }
    eventually(SOON, "no connection and no task", async || {
        let clients: Vec<_> = (0..3).flat_map(|node| cluster.node(node).clients().unwrap()).collect();
        if clients.is_empty() && alive() <= before { Ok(()) } else { Err(format!("{clients:?} {}", alive())) }
    })
    .await;
}
