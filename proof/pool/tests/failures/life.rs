//! Ends that hang, leftovers, the cost of steps, and upgrades: a35 to a44, a53.

use tenure_protocol::mutation::{Mutation, ScriptPatch};

use crate::ground::{Broken, cases, lines, patch, scripts};

const CLEANS_UP_FIRST: ScriptPatch =
    patch("cleanup", "if members > 0 then return { 'MEMBERS', members } end\n", "");
/// Sweepers take turns under a name that all pools share.
const SWEEPS_IN_TURN: ScriptPatch = patch(
    "sweep",
    "local t, limit, kick = now()",
    "if not call('SET', 'sweeper', '1', 'NX', 'PX', 600000) then
      return { 'OK', 0, '', num(now()), {}, {}, {}, {}, 0, 0, 0 }
    end
    local t, limit, kick = now()",
);
const TELLS_EVERYTHING: ScriptPatch = patch(
    "started",
    "finish(5, of_entries, of_finished, workers)",
    "call('SPUBLISH', 'tenure:{failures}:changes', cmsgpack.pack(call('HKEYS', JOBS)))
    finish(5, of_entries, of_finished, workers)",
);
const KEEPS_EVENTS: ScriptPatch =
    patch("route", "  call('XDEL', STARTS, unpack(argv, 5, 4 + entries))\n", "");
const REMEMBERS_ROUTERS: ScriptPatch =
    patch("prune_consumers", "call('XGROUP', 'DELCONSUMER', STARTS, 'routers', consumer.name)", "");
const TOUCHES_ANOTHER_SLOT: ScriptPatch = patch(
    "dispatch",
    "local of_hashes = 7 + workers",
    "call('GET', 'elsewhere')\nlocal of_hashes = 7 + workers",
);
/// The newer version that is being deployed.
const NEWER: ScriptPatch = patch("", "local LEVEL = 1", "local LEVEL = 2");
const ANY_LEVEL: ScriptPatch = patch("", "if level_of(head[6]) > LEVEL then", "if false then");
/// No node checks whether it missed the message.
const NOBODY_POLLS: Broken =
    Broken { maps: &[tenure_rmap::Mutation::NoResync], ..lines(&[Mutation::FlagNotPolled]) };

/// A worker that joins a pool with jobs takes a slot beyond all others, though a lower one is free.
const TAKES_A_NEW_SLOT: ScriptPatch = patch(
    "join",
    "  if not slot and empty then
    slot = 0
",
    "  if not empty then slot = 6 end
  if not slot then
    slot = 0
",
);

cases! {
    a35_a_shutdown_that_cannot_be_written_says_so_and_goes_on:
        lines(&[Mutation::ShutdownAskedOnce]), "an answer in time";
    a36_a_node_that_missed_the_shutdown_ends_all_the_same: NOBODY_POLLS, "the end of a";
    a37_the_last_one_cleans_up_and_whoever_asked_may_die: scripts(&[CLEANS_UP_FIRST]), "while b is stopping";
    a38_a_node_that_closes_with_events_in_hand_ends: lines(&[Mutation::LeavingStopsDraining]), "it has not left";
    a39_a_lost_group_is_made_again: lines(&[Mutation::GroupStaysLost]), "every job to be started";
    a40_pools_on_one_server_share_nothing: scripts(&[SWEEPS_IN_TURN]), "its lost event to be repaired";
    a41_a_step_costs_the_same_however_many_jobs_are_held: scripts(&[TELLS_EVERYTHING]), "bytes";
    a42_a_worker_that_goes_moves_only_its_own_keys: scripts(&[TAKES_A_NEW_SLOT]), "its keys to come back";
    a43_nothing_piles_up:
        scripts(&[KEEPS_EVENTS]), "nothing but what was there",
        a43_routers_that_have_left_are_forgotten: scripts(&[REMEMBERS_ROUTERS]), "nothing but what was there";
    a44_a_pool_lives_on_a_cluster: scripts(&[TOUCHES_ANOTHER_SLOT]), "non local key";
    a53_a_node_that_missed_an_upgrade_stays_out: scripts(&[ANY_LEVEL]), "the old node to hear";
}

mod cases {
    use std::collections::{BTreeMap, BTreeSet};
    use std::sync::Arc;
    use std::time::Duration;

    use tenure_pool::health::Unhealthy;
    use tenure_pool::store::{
        CleanUp, PruneConsumers, RaiseLevel, Raised, ReadIdentity, Refusal, StoreError,
    };
    use tenure_pool::{DispatchError, JobSpec, JobState, Node};
    use tenure_protocol::mutation::ScriptPatch;
    use tenure_testing::proxy::Direction;
    use tenure_testing::{Cluster, Proxy, RedisServer, eventually};
    use tokio::time::timeout;

    use super::NEWER;
    use crate::ground::{Bystander, Ground, POOL, beside, key as key_of, patch};
    use crate::recorder::{Act, SlowEnd};

    const PAGE: usize = 256;

    /// The owners of the jobs.
    async fn owners(node: &Node) -> BTreeMap<String, u64> {
        let jobs = node.inspect().jobs().await.unwrap_or_default().into_iter();
        let running = jobs.filter(|job| job.state == JobState::Running);
        running.filter_map(|job| Some((job.key.to_string(), job.owner?.0))).collect()
    }

    /// How often the server has executed a command.
    fn calls(redis: &mut redis::Connection, command: &str) -> u64 {
        let stats: String = redis::cmd("INFO").arg("commandstats").query(redis).unwrap();
        let line = stats.lines().find_map(|line| line.strip_prefix(&format!("cmdstat_{command}:calls=")));
        line.map_or(0, |line| line.split(',').next().unwrap().parse().unwrap())
    }

    /// The flag cannot be written while Redis cannot be reached. The caller is told in time, and the flag is written
    /// as soon as possible.
    pub(super) async fn a35_a_shutdown_that_cannot_be_written_says_so_and_goes_on(ground: Ground) {
        let proxy = Proxy::start(&ground.server).await.unwrap();
        let a = ground.builder_on("a", ground.store_by(&proxy.url(), &[])).join().await.unwrap();
        ground.add_worker(&a).await;
        let b = ground.node_with("b", 1).await;
        let keys = ground.dispatch(&b, 4).await;
        proxy.refuse().await;
        proxy.kill_all();
        let report =
            a.operate().shutdown().within(Duration::from_millis(300)).await.expect("an answer in time");
        assert!(!report.complete);
        proxy.accept().await;
        for node in [&a, &b] {
            timeout(ground.patience, node.closed()).await.expect("the end of the pool");
        }
        ground.assert_starts(&keys, 1);
        assert!(ground.recorder.running().is_empty());
    }

    /// The flag is written, and the message about it never comes.
    pub(super) async fn a36_a_node_that_missed_the_shutdown_ends_all_the_same(ground: Ground) {
        const UNHEARD: ScriptPatch = patch(
            "shutdown",
            "'settings_revision', CHANGES, argv[1], { 'shutdown', changed }",
            "'settings_revision', CHANGES .. '?', argv[1], { 'shutdown', changed }",
        );
        let a = ground.node_with("a", 1).await;
        let b =
            ground.builder_on("b", ground.store_by(&ground.server.url(), &[UNHEARD])).join().await.unwrap();
        ground.dispatch(&a, 4).await;
        let asked = tokio::spawn(async move { b.operate().shutdown().drop_queued().await });
        timeout(ground.patience, a.closed()).await.expect("the end of a");
        assert!(asked.await.unwrap().unwrap().complete);
        assert!(ground.recorder.running().is_empty());
    }

    /// The initiator finishes and dies while another node is still ending its jobs.
    pub(super) async fn a37_the_last_one_cleans_up_and_whoever_asked_may_die(ground: Ground) {
        let (a, b) = (ground.node("a").await, ground.node("b").await);
        let slow = Arc::new(SlowEnd::default());
        let end = slow.clone();
        let handler = ground.recorder.acting(move |_| Act::EndWhenTold(end.clone()));
        let mut redis = ground.redis();
        ground.add_worker_with(&b, handler).await;
        let keys = ground.dispatch(&a, 1).await;
        let asking = beside(&a, |a| async move { a.operate().shutdown().drop_queued().await });
        timeout(ground.patience, slow.asked.notified()).await.expect("the job to be asked to end");
        let bystander = ground.bystander().await;
        let incarnation = redis::cmd("HGET")
            .arg(key_of("pool"))
            .arg("incarnation")
            .query::<Option<u64>>(&mut redis)
            .unwrap();
        let incarnation = tenure_protocol::model::id::Incarnation(
            incarnation.expect("the pool's data while b is stopping"),
        );
        let early = bystander.store.run(incarnation, &CleanUp { tombstone: Duration::from_secs(60) }).await;
        let is_refused = matches!(early, Err(StoreError::Refused(Refusal::Members(1))));
        assert!(is_refused, "cleaned up while b is stopping: {early:?}");
        a.abandon();
        asking.abort();
        slow.told.notify_one();
        timeout(ground.patience, b.closed()).await.expect("the end of b");
        assert!(ground.recorder.running().is_empty());
        ground.assert_starts(&keys, 1);
        // The node that renewed the stream of `a` is gone, and no other deletes that stream. So it must expire.
        let left: BTreeSet<_> = ground.server.keys().unwrap().into_iter().collect();
        assert!(left.is_subset(&[key_of("pool"), key_of("node:a")].into()), "{left:?}");
        let c = ground.node_with("c", 1).await;
        ground.dispatch_one(&c, "after").await;
    }

    /// The server has sent the node an event that the node has not seen when it closes.
    pub(super) async fn a38_a_node_that_closes_with_events_in_hand_ends(ground: Ground) {
        let proxy = Proxy::start(&ground.server).await.unwrap();
        let a = ground.builder_on("a", ground.store_by(&proxy.url(), &[])).join().await.unwrap();
        let client = ground.builder("client").client_only().join().await.unwrap();
        let reads = || ground.server.clients().unwrap().iter().any(|client| client.command == "xreadgroup");
        eventually(ground.patience, "a to read", async || reads()).await;
        proxy.pause_one_way(Direction::ToClient);
        ground.submit(&client, "job-0").await;
        let mut redis = ground.redis();
        eventually(ground.patience, "the event to be handed out", async || {
            let mut pending = redis::cmd("XPENDING");
            pending.arg(key_of("starts")).arg("routers").arg("-").arg("+").arg(10);
            pending.query::<Vec<redis::Value>>(&mut redis).unwrap().len() == 1
        })
        .await;
        let closing = tokio::spawn({
            let (a, patience) = (a.clone(), ground.patience);
            async move { a.close_within(patience).await }
        });
        eventually(ground.patience, "a to read no more", async || !reads()).await;
        proxy.resume();
        assert!(closing.await.unwrap().is_ok_and(|report| report.complete), "it has not left");
        let b = ground.node_with("b", 1).await;
        ground.started(&["job-0".to_owned()], 1).await;
        ground.events_handled().await;
        b.close().await.unwrap();
    }

    /// The group is destroyed, and then the whole stream is.
    pub(super) async fn a39_a_lost_group_is_made_again(ground: Ground) {
        let ground = ground.routed();
        let node = ground.node_with("a", 1).await;
        let mut redis = ground.redis();
        let before = calls(&mut redis, "xreadgroup");
        let (mut group, mut stream) = (redis::cmd("XGROUP"), redis::cmd("DEL"));
        group.arg("DESTROY").arg(key_of("starts")).arg("routers");
        stream.arg(key_of("starts"));
        for (i, loss) in [group, stream].iter().enumerate() {
            loss.exec(&mut redis).unwrap();
            let keys: Vec<_> = (0..4).map(|job| format!("job-{i}-{job}")).collect();
            for key in &keys {
                ground.submit(&node, key).await;
            }
            ground.started(&keys, 1).await;
        }
        let reads = calls(&mut redis, "xreadgroup") - before;
        assert!(reads < 100, "it asked {reads} times");
        ground.assert_clean();
    }

    /// Each of many pools loses a start event, and each repairs that without the others.
    pub(super) async fn a40_pools_on_one_server_share_nothing(ground: Ground) {
        const LOSES_EVENTS: ScriptPatch = patch("dispatch", "call('XADD', STARTS, '*', unpack(starts))", "");
        let ground = ground.routed().with(|settings| settings.route_timeout = Duration::from_millis(200));
        let pools: Vec<_> = (0..5).map(|i| format!("pool-{i}")).collect();
        let url = ground.server.url();
        let mut nodes = Vec::new();
        for pool in &pools {
            let store = ground.store_of(pool, &url, &[LOSES_EVENTS]);
            let node = ground.builder_of(pool, &format!("of-{pool}"), store).join().await.unwrap();
            ground.add_worker(&node).await;
            nodes.push(node);
        }
        for (node, pool) in nodes.iter().zip(&pools) {
            ground.submit(node, &format!("job of {pool}")).await;
        }
        eventually(ground.patience, "each pool, its lost event to be repaired", async || {
            ground.recorder.running().len() == pools.len()
        })
        .await;
        let tags: Vec<_> = pools.iter().map(|pool| format!("tenure:{{{pool}}}:")).collect();
        for key in ground.server.keys().unwrap() {
            assert!(tags.iter().any(|tag| key.starts_with(tag)), "{key} is no pool's");
        }
        for (pool, tag) in pools.iter().zip(&tags) {
            let names = routers(&mut ground.redis(), &format!("{tag}starts"));
            assert_eq!(names, [format!("of-{pool}")]);
        }
        ground.assert_clean();
    }

    /// The traffic of all nodes for a dispatch, a notification and a stop.
    pub(super) async fn a41_a_step_costs_the_same_however_many_jobs_are_held(ground: Ground) {
        let proxy = Proxy::start(&ground.server).await.unwrap();
        let a = ground.builder_on("a", ground.store_by(&proxy.url(), &[])).join().await.unwrap();
        ground.add_worker(&a).await;
        let b = ground.builder_on("b", ground.store_by(&proxy.url(), &[])).join().await.unwrap();
        let mut redis = ground.redis();
        let mut measure = async || {
            let bytes = || proxy.counts().to_server + proxy.counts().to_client;
            let commands = |redis: &mut redis::Connection| {
                ["hget", "hmget", "hset", "hgetall", "zadd", "xadd"]
                    .map(|name| calls(redis, name))
                    .iter()
                    .sum()
            };
            let before: (u64, u64) = (bytes(), commands(&mut redis));
            for _ in 0..20 {
                b.dispatch(("extra", "")).await.unwrap();
                b.notify("extra", "hello").await.unwrap();
                b.stop_job("extra").until_stopped().await.unwrap();
            }
            (bytes() - before.0, commands(&mut redis) - before.1)
        };
        let fill = async |jobs: std::ops::Range<usize>| {
            for page in jobs.clone().collect::<Vec<_>>().chunks(PAGE) {
                let specs: Vec<_> = page.iter().map(|i| JobSpec::new(format!("job-{i}"), "")).collect();
                for ticket in b.submit_many(specs).await {
                    ticket.unwrap();
                }
            }
            eventually(ground.patience * 3, "all to run", async || {
                a.inspect().jobs().await.is_ok_and(|all| {
                    all.iter().filter(|job| job.state == JobState::Running).count() == jobs.end
                })
            })
            .await;
        };
        fill(0..10).await;
        // After this the server knows all scripts.
        measure().await;
        let few = measure().await;
        fill(10..2_000).await;
        let many = measure().await;
        assert!(many.0 < few.0 * 2, "bytes: {few:?} with few, {many:?} with many");
        assert!(many.1 < few.1 * 2, "commands: {few:?} with few, {many:?} with many");
    }

    /// A worker in the middle of the ring leaves, and another takes its place.
    pub(super) async fn a42_a_worker_that_goes_moves_only_its_own_keys(ground: Ground) {
        let node = ground.node("a").await;
        let mut workers = Vec::new();
        for _ in 0..6 {
            workers.push(ground.add_worker(&node).await);
        }
        let keys = ground.dispatch(&node, 120).await;
        let before = owners(&node).await;
        assert_eq!(before.len(), keys.len());
        let goes = workers[2].id().unwrap().0;
        let own: BTreeSet<_> =
            before.iter().filter(|(_, owner)| **owner == goes).map(|(key, _)| key.clone()).collect();
        assert!(!own.is_empty());
        workers[2].drain().await.unwrap();
        let elsewhere: Vec<_> = own.iter().cloned().collect();
        ground.started(&elsewhere, 2).await;
        let new = ground.add_worker(&node).await.id().unwrap().0;
        eventually(ground.patience, "its keys to come back to the one in its place", async || {
            let owners = owners(&node).await;
            let at_new = owners.iter().filter(|(_, owner)| **owner == new).map(|(key, _)| key.clone());
            let at_new: BTreeSet<_> = at_new.collect();
            if at_new == own { Ok(()) } else { Err((at_new.len(), own.len())) }
        })
        .await;
        let others: Vec<_> = keys.into_iter().filter(|key| !own.contains(key)).collect();
        ground.started(&elsewhere, 3).await;
        ground.assert_starts(&others, 1);
        ground.assert_starts(&elsewhere, 3);
        ground.assert_clean();
    }

    /// The size of each of the pool's keys.
    fn inventory(server: &RedisServer) -> BTreeMap<String, u64> {
        let mut redis = redis::Client::open(server.url()).unwrap().get_connection().unwrap();
        let size = |key: &String| {
            let kind: String = redis::cmd("TYPE").arg(key).query(&mut redis).unwrap();
            let command = match &*kind {
                "hash" => "HLEN",
                "stream" => "XLEN",
                "zset" => "ZCARD",
                _ => "STRLEN",
            };
            redis::cmd(command).arg(key).query(&mut redis).unwrap()
        };
        let keys = server.keys().unwrap();
        let sizes: Vec<u64> = keys.iter().map(size).collect();
        // Entries stay in a node's bounded stream until it is trimmed, and ended ids are kept for half a minute. The
        // history has a bound of its own.
        let bounded = [key_of("node:a"), key_of("ended"), key_of("history")];
        let mut all: BTreeMap<_, _> =
            keys.into_iter().zip(sizes).filter(|(key, _)| !bounded.contains(key)).collect();
        let others = routers(&mut redis, &key_of("starts")).into_iter().filter(|name| name != "a").count();
        all.insert("routers besides a".to_owned(), others as u64);
        all
    }

    /// The consumers of a pool's stream.
    fn routers(redis: &mut redis::Connection, stream: &str) -> Vec<String> {
        let consumers: Vec<BTreeMap<String, redis::Value>> =
            redis::cmd("XINFO").arg("CONSUMERS").arg(stream).arg("routers").query(redis).unwrap();
        consumers.iter().map(|consumer| redis::from_redis_value_ref(&consumer["name"]).unwrap()).collect()
    }

    /// Nodes, workers, callers and jobs come and go.
    pub(super) async fn a43_nothing_piles_up(ground: Ground) {
        let ground = ground.routed();
        let a = ground.node_with("a", 1).await;
        ground.dispatch_one(&a, "stays").await;
        // The node says what it is when it first renews.
        let before = eventually(ground.patience, "the node to say what it is", async || {
            Some(inventory(&ground.server)).filter(|all| all.contains_key(&key_of("nodes")))
        })
        .await;
        for round in 0..2 {
            let guest = ground.node_with(&format!("guest-{round}"), 1).await;
            let caller = ground.builder(&format!("caller-{round}")).client_only().join().await.unwrap();
            for i in 0..10 {
                let key = format!("job-{round}-{i}");
                caller.dispatch((&*key, "")).await.unwrap();
                caller.notify(&*key, "hello").await.unwrap();
                caller.stop_job(&*key).until_stopped().await.unwrap();
            }
            guest.close().await.unwrap();
            assert!(caller.close().await.unwrap().complete);
        }
        // Every node does this once a minute with routers that were silent for long.
        let bystander = ground.bystander().await;
        bystander.run(&PruneConsumers { idle: Duration::ZERO }).await.unwrap();
        eventually(ground.patience, "nothing but what was there", async || {
            let after = inventory(&ground.server);
            if after == before { Ok(()) } else { Err(after) }
        })
        .await;
    }

    /// A process was paused for so long that its worker is no member, and the deployment did not see it.
    pub(super) async fn a53_a_node_that_missed_an_upgrade_stays_out(ground: Ground) {
        let (url, old) = (ground.server.url(), ground.node_with("old", 1).await);
        let new = ground.builder_on("new", ground.store_by(&url, &[NEWER])).join().await.unwrap();
        let deployment = Bystander { store: ground.store_by(&url, &[NEWER]) };
        deployment.store.bless(&deployment.store.read(&ReadIdentity).await.unwrap().run_id);
        // The old worker may come back before the floor rises.
        while let Raised::Below { worker, level } = deployment.run(&RaiseLevel { level: 2 }).await.unwrap() {
            assert_eq!(level, 1);
            deployment.bury(worker).await;
        }
        eventually(ground.patience, "the old node to hear that it is too old", async || {
            old.health().reasons.iter().any(|reason| matches!(reason, Unhealthy::TooOld(_)))
        })
        .await;
        let late = old.submit(("late", "")).await;
        assert!(matches!(late, Err(DispatchError::TooOld(_))), "{late:?}");
        ground.add_worker(&new).await;
        let keys = ground.dispatch(&new, 8).await;
        assert_eq!(owners(&new).await.len(), keys.len());
        let levels: Vec<_> =
            new.inspect().workers().await.unwrap().iter().map(|worker| worker.level).collect();
        assert_eq!(levels, [2], "no older worker has joined");
        old.close().await.unwrap();
        ground.assert_clean();
    }

    pub(super) async fn a44_a_pool_lives_on_a_cluster(ground: Ground) {
        let cluster = Cluster::start().await.unwrap();
        let node = async |name: &str| {
            let store = ground.store_by(&cluster.url(), &[]);
            ground.builder_on(name, store).join().await.unwrap()
        };
        let (a, b) = (node("a").await, node("b").await);
        ground.add_worker(&a).await;
        let keys: Vec<_> = (0..8).map(|i| format!("job-{i}")).collect();
        for key in &keys {
            ground.history().submitted(key);
            b.dispatch((&**key, "")).deadline(ground.patience).await.unwrap();
            ground.history().accepted(key);
        }
        b.notify("job-0", "hello").await.unwrap();
        eventually(ground.patience, "the notification", async || ground.recorder.notes("job-0") == ["hello"])
            .await;
        ground.add_worker(&b).await;
        a.close().await.unwrap();
        eventually(ground.patience, "all to run on b", async || {
            owners(&b).await.len() == keys.len() && ground.recorder.running().len() == keys.len()
        })
        .await;
        ground.history().stop_requested("job-0");
        b.stop_job("job-0").until_stopped().await.unwrap();
        ground.history().stop_acknowledged("job-0");
        ground.assert_clean();
        assert!(b.operate().shutdown().drop_queued().await.unwrap().complete);
        let left: Vec<_> = (0..cluster.size()).flat_map(|node| cluster.node(node).keys().unwrap()).collect();
        assert_eq!(left, [format!("tenure:{{{POOL}}}:pool")], "the tombstone");
    }
}
