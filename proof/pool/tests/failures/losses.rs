//! Jobs that are lost, or dropped without a word to their callers: a12 to a22, a47 to a49.

use tenure_protocol::mutation::{Mutation, ScriptPatch};

use crate::ground::{cases, lines, patch, scripts};

/// The pool's stream loses its oldest entries.
const TRIMS_EVENTS: ScriptPatch =
    patch("dispatch", "call('XADD', STARTS, '*',", "call('XADD', STARTS, 'MAXLEN', 1000, '*',");
/// A start older than two minutes is dropped.
const DROPS_OLD_STARTS: ScriptPatch = patch(
    "route",
    "local event = events[x]\n",
    "if find(r, pattern) and t - parse(r).created > 120000 then
        call('HDEL', JOBS, key)
        call('ZREM', QUEUE, key)
        r = ''
      end
      local event = events[x]\n",
);
/// A silent router is forgotten, together with the events that it was given.
const FORGETS_SILENT_ROUTERS: ScriptPatch = patch("prune_consumers", "consumer.pending == 0 and", "");
/// A router is forgotten unless there is a sign of life from it. It gives that sign elsewhere, and later.
const FORGETS_NEW_ROUTERS: ScriptPatch = patch(
    "prune_consumers",
    "consumer.pending == 0 and",
    "call('EXISTS', (string.gsub(POOL, ':pool$', ':alive:')) .. consumer.name) == 0 and",
);
/// The entries of a router are claimed before it is forgotten. It is forgotten even if the claim fails.
const FORGETS_AFTER_CLAIMING: ScriptPatch = patch(
    "prune_consumers",
    "  if consumer.pending == 0 and",
    "  pcall(call, 'XAUTOCLAIM', STARTS, 'routers', 'heir', 0, '0', 'COUNT', 1000)
  if consumer.name ~= 'heir' and",
);
/// An assignment lasts until it is begun.
const TRUSTS_ASSIGNMENTS: ScriptPatch = patch(
    "sweep",
    "elseif p.state == 'A' then",
    "elseif p.state == 'A' then
    call('ZREM', QUEUE, key)
  elseif p.state == 'none' then",
);
/// A refused job leaves its payload behind.
const REFUSAL_DROPS_PAYLOAD: ScriptPatch =
    patch("release", "elseif mode == 'r' then", "elseif mode == 'r' then\n    call('HDEL', PAYLOADS, key)");
/// Only the first job of a batch is given up, and all are reported as given up.
const RELEASES_THE_FIRST: ScriptPatch = patch(
    "release",
    "letters[i] = r and not seen[key] and",
    "letters[i] = r and i > 1 and 'Q' or r and not seen[key] and",
);
/// The jobs of a worker that has left are not looked for.
const REAPS_NOTHING: ScriptPatch = patch("reap", "'LIMIT', 0, limit)", "'LIMIT', 0, 0)");
/// A later step writes the list of a worker's jobs.
const ASSIGNS_WITHOUT_LIST: ScriptPatch = patch("", "call('ZADD', OWNERS, unpack(owned))", "");
/// No node checks whether the former members are still there.
const FORGOTTEN_MEMBERS: [ScriptPatch; 2] =
    [patch("renew", "sign('m', not sized, sized)", ""), patch("join", "return { 'LOST', 'm' }", "")];

cases! {
    a12_a_burst_beyond_every_bound_drops_nothing_that_was_accepted:
        scripts(&[TRIMS_EVENTS]), "every start event is still there";
    a13_a_start_may_wait_for_any_time: scripts(&[DROPS_OLD_STARTS]), "every job to be started";
    a14_starts_that_a_dead_pool_had_read_are_found_again:
        scripts(&[FORGETS_SILENT_ROUTERS]), "what it was given is still there";
    a15_a_router_that_has_just_come_keeps_what_it_was_given:
        scripts(&[FORGETS_NEW_ROUTERS]), "what it was given is still there";
    a16_claims_that_fail_leave_the_events_where_they_are:
        scripts(&[FORGETS_AFTER_CLAIMING]), "what it was given is still there";
    a17_an_assignment_that_never_arrives_is_taken_back: scripts(&[TRUSTS_ASSIGNMENTS]), "every job to be started";
    a18_a_start_that_comes_again_leaves_record_and_payload_alone:
        lines(&[Mutation::RedeliveredStartRefused]), "every job to be started";
    a19_a_refused_job_is_tried_again_with_its_payload: scripts(&[REFUSAL_DROPS_PAYLOAD]), "the caller is told";
    a20_a_leaving_worker_counts_only_what_is_given_up: scripts(&[RELEASES_THE_FIRST]), "every job to be started";
    a20_what_a_leaving_worker_has_not_given_up_is_looked_for: scripts(&[REAPS_NOTHING]), "every job to be started";
    a21_what_was_assigned_just_before_a_crash_runs_elsewhere:
        scripts(&[ASSIGNS_WITHOUT_LIST, TRUSTS_ASSIGNMENTS]), "what it did not know of to be started";
    a22_a_worker_whose_handlers_panic_goes_on:
        lines(&[Mutation::PanicUntold]), "the panic is told";
    a47_members_that_are_lost_alone_cost_no_job: scripts(&FORGOTTEN_MEMBERS), "was started 2 times";
    a48_a_worker_that_dies_with_its_counter_leaves_its_jobs_to_others:
        lines(&[Mutation::UncountedLive]), "every job to be started";
    a49_a_worker_that_dies_with_all_that_told_of_it_leaves_its_jobs_to_others:
        lines(&[Mutation::NeverInspects]), "every job to be started";
}

mod cases {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::time::Duration;

    use futures::FutureExt;
    use futures::future::join_all;
    use tenure_pool::inspect::MemberState;
    use tenure_pool::store::{PruneConsumers, Route, RouteReply};
    use tenure_pool::{DispatchError, Node, WorkerId};
    use tenure_protocol::model::id::JobKey;
    use tenure_protocol::mutation::ScriptPatch;
    use tenure_testing::proxy::Direction;
    use tenure_testing::{Proxy, eventually};

    use crate::ground::{Gate, Ground, SHORT, beside, key as key_of, workers_of};
    use crate::recorder::Act;

    /// There is no router for a while, and more jobs than a stream's usual bound, each with its own event.
    pub(super) async fn a12_a_burst_beyond_every_bound_drops_nothing_that_was_accepted(ground: Ground) {
        const JOBS: usize = 1_200;
        let ground = ground.with(|settings| settings.max_queued = JOBS as u64);
        let client = ground.builder("client").client_only().join().await.unwrap();
        let keys: Vec<_> = (0..JOBS).map(|i| format!("job-{i}")).collect();
        for key in &keys {
            // One after the other, because jobs that wait together would share an event.
            ground.submit(&client, key).await;
        }
        let events: usize = redis::cmd("XLEN").arg(key_of("starts")).query(&mut ground.redis()).unwrap();
        assert_eq!(events, JOBS, "every start event is still there");
        // A job beyond the limit is refused. It is not accepted and then dropped.
        let beyond = client.submit(("one more", "")).await;
        assert!(matches!(beyond, Err(DispatchError::PoolFull)), "{beyond:?}");
        let _node = ground.node_with("a", 1).await;
        ground.started(&keys, 1).await;
        ground.assert_starts(&keys, 1);
        ground.assert_clean();
    }

    /// The start events are older than any pool. By the router's clock, the jobs are ten minutes old.
    pub(super) async fn a13_a_start_may_wait_for_any_time(ground: Ground) {
        let client = ground.builder("client").client_only().join().await.unwrap();
        let keys = submitted(&ground, &client, 20).await;
        redis::Script::new(
            "local entries = redis.call('XRANGE', KEYS[1], '-', '+')
            redis.call('DEL', KEYS[1])
            for i, entry in ipairs(entries) do redis.call('XADD', KEYS[1], '1-' .. i, unpack(entry[2])) end
            redis.call('XGROUP', 'CREATE', KEYS[1], 'routers', '0')",
        )
        .key(key_of("starts"))
        .invoke::<()>(&mut ground.redis())
        .unwrap();
        ground.set_own_clock(Duration::from_secs(600));
        let node = ground.builder_on("a", ground.store_with_own_clock()).join().await.unwrap();
        ground.add_worker(&node).await;
        ground.started(&keys, 1).await;
        ground.each_runs_once(&keys).await;
        ground.assert_clean();
    }

    /// The only router dies with all its events. The next node first forgets routers that are gone.
    pub(super) async fn a14_starts_that_a_dead_pool_had_read_are_found_again(ground: Ground) {
        let client = ground.builder("client").client_only().join().await.unwrap();
        let keys = submitted(&ground, &client, 20).await;
        read_by_a_dead_router(&ground);
        forget_silent_routers(&ground, "dead", &ground.server.url()).await;
        let _node = ground.node_with("a", 1).await;
        ground.started(&keys, 1).await;
        ground.assert_starts(&keys, 1);
        ground.assert_clean();
    }

    /// A new router gets events before other nodes know it. They forget routers that they do not know. Then it dies.
    pub(super) async fn a15_a_router_that_has_just_come_keeps_what_it_was_given(ground: Ground) {
        let ground = ground.routed();
        let client = ground.builder("client").client_only().join().await.unwrap();
        let proxy = Proxy::start(&ground.server).await.unwrap();
        let fresh = ground.builder_on("fresh", ground.store_by(&proxy.url(), &[])).join().await.unwrap();
        let worker = ground.add_worker(&fresh).await.id().unwrap();
        let mut redis = ground.redis();
        eventually(ground.patience, "the new router to read", async || {
            let clients: String = redis::cmd("CLIENT").arg("LIST").query(&mut redis).unwrap();
            clients.contains("cmd=xreadgroup")
        })
        .await;
        // It receives messages, and its own do not arrive.
        proxy.pause_one_way(Direction::ToServer);
        let keys = submitted(&ground, &client, 20).await;
        eventually(ground.patience, "the new router to be given an event", async || {
            let pending: Vec<redis::Value> =
                redis::cmd("XPENDING").arg(key_of("starts")).arg("routers").query(&mut redis).unwrap();
            pending[0] != redis::Value::Int(0)
        })
        .await;
        forget_silent_routers(&ground, "fresh", &ground.server.url()).await;
        fresh.abandon();
        fresh.closed().await;
        left_for_long(&ground, "fresh");
        ground.bystander().await.bury(worker).await;
        let _node = ground.node_with("a", 1).await;
        ground.started(&keys, 1).await;
        ground.assert_starts(&keys, 1);
        ground.assert_clean();
    }

    /// A node may not claim for a while, and still forgets silent routers.
    pub(super) async fn a16_claims_that_fail_leave_the_events_where_they_are(ground: Ground) {
        let client = ground.builder("client").client_only().join().await.unwrap();
        let keys = submitted(&ground, &client, 20).await;
        read_by_a_dead_router(&ground);
        let rights = ["~*", "&*", "+@all", "-xautoclaim"];
        let url = ground.server.acl_user("limited", "secret", &rights).unwrap();
        let node = ground.builder_on("a", ground.store_by(&url, &[])).join().await.unwrap();
        let mut redis = ground.redis();
        eventually(ground.patience, "a claim to fail", async || {
            let log: redis::Value = redis::cmd("ACL").arg("LOG").query(&mut redis).unwrap();
            format!("{log:?}").contains("xautoclaim")
        })
        .await;
        forget_silent_routers(&ground, "dead", &url).await;
        redis::cmd("ACL").arg(&["SETUSER", "limited", "+xautoclaim"]).exec(&mut redis).unwrap();
        ground.add_worker(&node).await;
        ground.started(&keys, 1).await;
        ground.assert_starts(&keys, 1);
        ground.assert_clean();
    }

    /// The stream with the router's message to the worker is lost before the worker has read it.
    pub(super) async fn a17_an_assignment_that_never_arrives_is_taken_back(ground: Ground) {
        let ground = ground.routed().with(|settings| {
            settings.assign_timeout = Duration::from_secs(1);
            // A granted job stays with its worker: b11 and b12 are about its news.
            settings.grant_max = 0;
        });
        let client = ground.builder("client").client_only().join().await.unwrap();
        let proxy = Proxy::start(&ground.server).await.unwrap();
        let a = ground.builder_on("a", ground.store_by(&proxy.url(), &[])).join().await.unwrap();
        let worker = ground.add_worker(&a).await.id().unwrap();
        proxy.pause();
        let keys = submitted(&ground, &client, 5).await;
        assign(&ground, &keys, worker).await;
        let stream = key_of(&format!("worker:{}", worker.0));
        redis::cmd("DEL").arg(stream).exec(&mut ground.redis()).unwrap();
        // All earlier reads must have ended.
        let (open, cut) = (proxy.counts().open, proxy.counts().cut);
        proxy.kill_all();
        eventually(ground.patience, "its connections to be cut", async || proxy.counts().cut >= cut + open)
            .await;
        proxy.resume();
        ground.started(&keys, 1).await;
        ground.assert_starts(&keys, 1);
        ground.assert_clean();
    }

    /// A start is delivered again while its job runs; then the worker crashes.
    pub(super) async fn a18_a_start_that_comes_again_leaves_record_and_payload_alone(ground: Ground) {
        let (a, b) = (ground.node_with("a", 1).await, ground.node_with("b", 1).await);
        ground.dispatch(&b, 20).await;
        let (worker, here) = (workers_of(&a).await[0], ground.keys_on(&a).await);
        assert!(!here.is_empty());
        let mut redis = ground.redis();
        for key in &here {
            let token = b.inspect().job(key.as_str()).await.unwrap().unwrap().token;
            let mut again = redis::cmd("XADD");
            again
                .arg(key_of(&format!("worker:{}", worker.0)))
                .arg("*")
                .arg("t")
                .arg(token.0)
                .arg("s")
                .arg(key);
            again.exec(&mut redis).unwrap();
        }
        ground.leave_to_a_dead_router(&here.iter().map(String::as_str).collect::<Vec<_>>());
        ground.events_handled().await;
        ground.worker_events_handled(worker).await;
        ground.assert_starts(&here, 1);
        a.abandon();
        a.closed().await;
        ground.bystander().await.bury(worker).await;
        ground.started(&here, 2).await;
        for key in &here {
            assert_eq!(
                ground.recorder.payloads(key),
                [format!("payload of {key}"), format!("payload of {key}")]
            );
        }
        ground.assert_clean();
    }

    /// The handler refuses the job several times.
    pub(super) async fn a19_a_refused_job_is_tried_again_with_its_payload(ground: Ground) {
        let node = ground.node("a").await;
        let refused = Arc::new(AtomicUsize::new(0));
        let handler = ground.recorder.acting(move |_| {
            if refused.fetch_add(1, Ordering::SeqCst) < 4 { Act::Refuse(SHORT) } else { Act::Run }
        });
        ground.add_worker_with(&node, handler).await;
        let told = node.dispatch(("job", "its payload")).await;
        assert!(told.is_ok(), "the caller is told: {told:?}");
        assert_eq!(ground.recorder.payloads("job"), ["its payload"; 5]);
        ground.each_runs_once(&["job".to_owned()]).await;
    }

    /// A node leaves, and the answers to its releases are lost. No node looks for jobs that it kept.
    pub(super) async fn a20_a_leaving_worker_counts_only_what_is_given_up(ground: Ground) {
        leaves_while_answers_are_lost(ground, &[super::REAPS_NOTHING]).await;
    }

    /// The same, but only the first job is released.
    pub(super) async fn a20_what_a_leaving_worker_has_not_given_up_is_looked_for(ground: Ground) {
        leaves_while_answers_are_lost(ground, &[super::RELEASES_THE_FIRST]).await;
    }

    async fn leaves_while_answers_are_lost(ground: Ground, without: &[ScriptPatch]) {
        // An event that its router never received is soon sent again.
        let ground = ground.with(|settings| settings.route_timeout = Duration::from_millis(300));
        let proxy = Proxy::start(&ground.server).await.unwrap();
        let b = ground.builder_on("b", ground.store_by(&ground.server.url(), without)).join().await.unwrap();
        ground.add_worker(&b).await;
        let a = ground.builder_on("a", ground.store_by(&proxy.url(), without)).join().await.unwrap();
        // After this the server knows the scripts that are sent while no answer comes.
        b.dispatch(("first", "")).await.unwrap();
        b.stop_job("first").until_stopped().await.unwrap();
        let gate = Gate::default();
        a.add_worker(gate.before_stops_of(&ground.recorder)).await.unwrap();
        eventually(ground.patience, "both workers to be up", async || {
            b.inspect()
                .workers()
                .await
                .unwrap()
                .iter()
                .filter(|worker| worker.state == MemberState::Up)
                .count()
                == 2
        })
        .await;
        ground.dispatch(&b, 40).await;
        let here = ground.keys_on(&a).await;
        assert!(here.len() > 3);
        let closing = beside(&a, |a| async move { a.close().await });
        gate.reached(&ground, here.len()).await;
        proxy.drop_replies();
        gate.open();
        eventually(ground.patience, "some to be given up", async || {
            here.iter().any(|key| ground.recorder.starts_of(key) == 2)
        })
        .await;
        proxy.resume();
        assert!(closing.await.unwrap().unwrap().complete);
        ground.started(&here, 2).await;
        ground.goes_on(&b, "another").await;
        ground.assert_starts(&here, 2);
        ground.assert_clean();
    }

    /// A worker crashes with running jobs, and with assigned jobs that it does not know of yet.
    pub(super) async fn a21_what_was_assigned_just_before_a_crash_runs_elsewhere(ground: Ground) {
        let (b, proxy) = (ground.node_with("b", 1).await, Proxy::start(&ground.server).await.unwrap());
        let a = ground.builder_on("a", ground.store_by(&proxy.url(), &[])).join().await.unwrap();
        let worker = ground.add_worker(&a).await.id().unwrap();
        ground.dispatch(&b, 20).await;
        let here = ground.keys_on(&a).await;
        assert!(!here.is_empty());
        proxy.pause();
        let late = assigned_to(&ground, &b, worker).await;
        a.abandon();
        a.closed().await;
        ground.bystander().await.bury(worker).await;
        eventually(ground.patience, "what it did not know of to be started", async || {
            ground.recorder.starts_of(&late) == 1
        })
        .await;
        ground.started(&here, 2).await;
        ground.goes_on(&b, "another").await;
        ground.assert_starts(&here, 2);
        ground.assert_clean();
    }

    /// Submits jobs until one is assigned to this worker, which does not hear of it.
    async fn assigned_to(ground: &Ground, node: &Node, worker: WorkerId) -> String {
        for i in 0..64 {
            let key = format!("late-{i}");
            ground.submit(node, &key).await;
            let mut owner = None;
            // An event of the router that is cut off is routed when it is sent again.
            eventually(ground.patience, "the assignment", async || {
                owner = node.inspect().job(&*key).await.unwrap().and_then(|job| job.owner);
                owner.is_some()
            })
            .await;
            if owner == Some(worker) {
                return key;
            }
        }
        panic!("no job is assigned to the worker");
    }

    /// Handlers panic in every place.
    pub(super) async fn a22_a_worker_whose_handlers_panic_goes_on(ground: Ground) {
        let node = ground.builder("a").start_permits(1).join().await.unwrap();
        let handler = ground.recorder.acting(|job| match job.key().as_bytes() {
            b"panics in start" => Act::Panic("as it was told"),
            b"panics in its body" => Act::Body(|_| async { panic!("as it was told") }.boxed()),
            _ => Act::Run,
        });
        let worker = ground.add_worker_with(&node, handler).await.id();
        for round in 0..2 {
            let told = node.dispatch(("panics in start", "")).deadline(ground.patience).await;
            assert!(matches!(&told, Err(DispatchError::StartFailed(_))), "the panic is told: {told:?}");
            let next = node.dispatch((format!("next-{round}"), "")).deadline(ground.patience).await;
            assert!(next.is_ok(), "the job after a panic is started: {next:?}");
        }
        node.dispatch(("panics in its body", "")).await.unwrap();
        ground.dispatch_one(&node, "panics in notify").await;
        for body in ["before", "panic", "after"] {
            node.notify("panics in notify", body).await.unwrap();
        }
        eventually(ground.patience, "what follows the panic", async || {
            ground.recorder.notes("panics in notify") == ["before", "after"]
        })
        .await;
        eventually(ground.patience, "the job that panicked to be gone", async || {
            node.inspect().job("panics in its body").await.unwrap().is_none()
        })
        .await;
        let keys = ground.dispatch(&node, 20).await;
        ground.each_runs_once(&keys).await;
        assert_eq!(workers_of(&node).await, Vec::from_iter(worker), "it is the same worker");
        ground.assert_clean();
    }

    /// Submits this many jobs at once, and waits for no start.
    async fn submitted(ground: &Ground, node: &Node, jobs: usize) -> Vec<String> {
        let keys: Vec<_> = (0..jobs).map(|i| format!("job-{i}")).collect();
        join_all(keys.iter().map(|key| ground.submit(node, key))).await;
        keys
    }

    /// Gives all unread start events to a router that has died since.
    fn read_by_a_dead_router(ground: &Ground) {
        let mut read = redis::cmd("XREADGROUP");
        read.arg(&["GROUP", "routers", "dead", "COUNT", "1000", "STREAMS", &key_of("starts"), ">"]);
        let read: redis::Value = read.query(&mut ground.redis()).unwrap();
        assert!(read != redis::Value::Nil, "there was something to read");
        left_for_long(ground, "dead");
    }

    /// Somebody deletes the hash of the members.
    pub(super) async fn a47_members_that_are_lost_alone_cost_no_job(ground: Ground) {
        let ground = ground.losing();
        let (a, b) = (ground.node_with("a", 1).await, ground.node_with("b", 1).await);
        let keys = ground.dispatch(&a, 20).await;
        let mut redis = ground.redis();
        redis::cmd("DEL").arg(key_of("workers")).exec(&mut redis).unwrap();
        eventually(ground.patience, "the members to be there again", async || {
            let members: usize = redis::cmd("HLEN").arg(key_of("workers")).query(&mut redis).unwrap();
            members > 2 && [&a, &b].iter().all(|node| node.health().is_healthy())
        })
        .await;
        ground.each_runs_once(&keys).await;
        ground.assert_starts(&keys, 1);
        ground.assert_clean();
    }

    /// A node dies, and the counters of all members are lost before any node has noticed that.
    pub(super) async fn a48_a_worker_that_dies_with_its_counter_leaves_its_jobs_to_others(ground: Ground) {
        let ground = ground.expiring();
        let (a, b) = (ground.node_with("a", 1).await, ground.node_with("b", 1).await);
        let _keys = ground.dispatch(&b, 20).await;
        let orphans = ground.keys_on(&a).await;
        assert!(!orphans.is_empty());
        a.abandon();
        a.closed().await;
        redis::cmd("DEL").arg(key_of("heartbeats")).exec(&mut ground.redis()).unwrap();
        ground.started(&orphans, 2).await;
        ground.assert_starts(&orphans, 2);
        ground.assert_clean();
    }

    /// A node dies, and its workers' entries and counters are lost. Only the records still name its workers.
    pub(super) async fn a49_a_worker_that_dies_with_all_that_told_of_it_leaves_its_jobs_to_others(
        ground: Ground,
    ) {
        let ground = ground.expiring();
        let (a, b) = (ground.node_with("a", 1).await, ground.node_with("b", 1).await);
        let _keys = ground.dispatch(&b, 20).await;
        let orphans = ground.keys_on(&a).await;
        assert!(!orphans.is_empty());
        let dead: Vec<_> = a.health().workers.iter().filter_map(|worker| worker.id).collect();
        a.abandon();
        a.closed().await;
        for worker in dead {
            for name in ["workers", "heartbeats"] {
                redis::cmd("HDEL").arg(key_of(name)).arg(worker.0).exec(&mut ground.redis()).unwrap();
            }
        }
        ground.started(&orphans, 2).await;
        ground.assert_starts(&orphans, 2);
        ground.assert_clean();
    }

    /// Makes this router look idle for an hour.
    fn left_for_long(ground: &Ground, router: &str) {
        let mut claim = redis::cmd("XCLAIM");
        claim.arg(key_of("starts")).arg("routers").arg(router).arg(0).arg(held_by(ground, router));
        claim.arg("IDLE").arg(3_600_000).arg("JUSTID").exec(&mut ground.redis()).unwrap();
    }

    /// The events that this router was given and has not acknowledged.
    fn held_by(ground: &Ground, router: &str) -> Vec<String> {
        let mut pending = redis::cmd("XPENDING");
        pending.arg(key_of("starts")).arg("routers").arg("-").arg("+").arg(1_000).arg(router);
        let pending: Vec<(String, String, u64, u64)> = pending.query(&mut ground.redis()).unwrap();
        pending.into_iter().map(|(entry, ..)| entry).collect()
    }

    /// Forgets silent routers, as every node does once a minute. This router holds events.
    async fn forget_silent_routers(ground: &Ground, router: &str, url: &str) {
        let held = held_by(ground, router);
        assert!(!held.is_empty());
        let bystander = ground.bystander_by(url).await;
        let (inc, _) = bystander.view().await;
        bystander.store.run(inc, &PruneConsumers { idle: Duration::ZERO }).await.unwrap();
        assert_eq!(held_by(ground, router), held, "what it was given is still there");
    }

    /// Assigns jobs as a router does.
    async fn assign(ground: &Ground, keys: &[String], worker: WorkerId) {
        let bystander = ground.bystander().await;
        let (inc, members) = bystander.view().await;
        let jobs: Vec<_> = keys.iter().map(|key| (JobKey::new(key.clone()).unwrap(), Some(worker))).collect();
        let routed = bystander
            .store
            .run(inc, &Route { ring: members, entries: Vec::new(), jobs: jobs.clone() })
            .await
            .unwrap();
        assert!(routed.iter().all(|reply| *reply == RouteReply::Routed), "{routed:?}");
    }
}
