//! Two workers run one key: a01 to a11, and a45.

use tenure_protocol::mutation::{Mutation, ScriptPatch};

use crate::ground::{Broken, cases, lines, patch, scripts};

/// A job that was assigned twice, or freed and still listed, makes `owners` larger than `jobs`. On a slow machine a
/// renewal takes the difference for a loss of records, and the pool recovers before anything runs twice.
const COUNTS_NOTHING: ScriptPatch =
    patch("renew", "sign('r', jobs and owned and owned > jobs,", "sign('r', false,");
/// A router assigns every job that it hears of, even one that already runs.
const ROUTES_ANYTHING: [ScriptPatch; 2] =
    [patch("route", "'^1|Q||%d+('", "'^1|[QAR]|%d*|%d+('"), COUNTS_NOTHING];
/// A router assigns by any view of the members.
const ROUTES_BY_ANY_RING: ScriptPatch =
    patch("route", "if head[3] ~= argv[2] then return { 'STALERING', head[3] } end", "");
/// A reap does not take a job from the dead worker's list. It checks neither the present owner nor whether the worker
/// must still be reaped.
const REAPS_AGAIN: [ScriptPatch; 5] = [
    patch("reap", "if not dead then return { 'GONE' } end", "dead = dead or '0|'"),
    patch("reap", "p.state == 'R' and suspect(key, p, heard, stable_ms, ttl) or 0", "0"),
    patch("reap", "if not p or p.owner ~= wid then", "if not p then"),
    patch("reap", "if p.owner ~= '' then released[#released + 1] = p.owner .. ':' .. key end", ""),
    COUNTS_NOTHING,
];
/// An existing job keeps others out for 40 s by the dispatcher's clock.
const GUARDS_BY_CLOCK: ScriptPatch =
    patch("dispatch", "if r then", "if r and t < tonumber(parse(r).since) + 40000 then");
/// A worker writes down its time, and a node compares it with its own time. The node does not suspect its own
/// workers.
const LIVES_BY_CLOCK: [ScriptPatch; 2] = [
    patch(
        "renew",
        "if entry then beat(argv[i]) end",
        "if entry then call('HSET', HEARTBEATS, argv[i], call('TIME')[1] * 1000) end",
    ),
    patch(
        "sweep",
        "local dead = call('HKEYS', EXPIRED)",
        "local WORKERS, HEARTBEATS = (string.gsub(POOL, ':pool$', ':workers')), (string.gsub(POOL, ':pool$', ':heartbeats'))
        for _, wid in ipairs(call('HKEYS', HEARTBEATS)) do
          local entry = call('HGET', WORKERS, wid)
          if entry and not find(entry, '|observer|', 1, true)
            and now() - call('HGET', HEARTBEATS, wid) > tonumber(call('HGET', SETTINGS, 'worker_ttl')) then
            call('HDEL', WORKERS, wid)
            call('HDEL', HEARTBEATS, wid)
            call('HSET', EXPIRED, wid, num(now()) .. '|')
            call('HINCRBY', POOL, 'workers_revision', 1)
          end
        end
        local dead = call('HKEYS', EXPIRED)",
    ),
];

/// These lines of scripts, and the worker's check of the jobs that it holds. Either is enough if both starts reach
/// it.
const fn twice(patches: &'static [ScriptPatch]) -> Broken {
    Broken { lines: &[Mutation::StartsWhatItHolds], ..scripts(patches) }
}

cases! {
    a01_a_start_event_that_comes_again_starts_nothing: twice(&ROUTES_ANYTHING), "started 2 times";
    a02_a_job_is_handed_off_only_when_its_handler_has_stopped: lines(&[Mutation::HandOffBeforeStop]), "both ran";
    a03_a_worker_that_was_given_up_ends_its_jobs_for_good:
        lines(&[Mutation::NoSelfFence, Mutation::FencedForgets]), "every job to run once";
    a04_a_worker_that_cannot_renew_ends_its_jobs_before_others_begin_them: lines(&[Mutation::NoSelfFence]), "both ran";
    a05_many_start_events_of_one_key_start_it_once: twice(&ROUTES_ANYTHING), "both ran";
    a06_routers_with_different_views_of_the_ring_place_a_key_once:
        scripts(&[ROUTES_ANYTHING[0], ROUTES_ANYTHING[1], ROUTES_BY_ANY_RING]), "both ran";
    a07_many_who_clear_away_one_dead_worker_free_its_jobs_once:
        twice(&REAPS_AGAIN), "both ran";
    a08_half_a_clearing_away_is_continued_not_repeated: twice(&REAPS_AGAIN), "both ran";
    a09_a_dispatch_that_timed_out_keeps_its_key: twice(&[DISPATCHES_OVER]), "both ran";
    a10_a_dispatcher_whose_clock_is_ahead_finds_the_key_taken: twice(&[GUARDS_BY_CLOCK]), "both ran";
    a11_an_observer_whose_clock_is_ahead_takes_nobody_for_dead: scripts(&LIVES_BY_CLOCK), "was started";
    a45_a_record_that_is_lost_alone_doubles_no_job: lines(&[Mutation::FormerRunKept]), "every job to be started";
}

/// A dispatch takes a key that already has a job.
const DISPATCHES_OVER: ScriptPatch = patch("dispatch", "if r then", "if r and false then");

mod cases {
    use std::sync::Arc;
    use std::time::Duration;

    use futures::future::join_all;
    use tenure_pool::store::{Reap, Refusal, Route, StoreError};
    use tenure_pool::{DispatchError, Node};
    use tenure_protocol::model::id::JobKey;
    use tenure_testing::{Proxy, eventually};
    use tokio::sync::Notify;

    use crate::ground::{Gate, Ground, beside, key as key_of, workers_of};
    use crate::recorder::{Act, Recorder};

    /// The router dies after it has assigned the job and before it hears that the job runs. Its event is claimed and
    /// routed again, while the start is still in progress.
    pub(super) async fn a01_a_start_event_that_comes_again_starts_nothing(ground: Ground) {
        let node = ground.node("a").await;
        let told = Arc::new(Notify::new());
        let worker = ground.add_worker_with(&node, slow_start(&ground, "job-0", &told)).await;
        let keys = vec!["job-0".to_owned()];
        let ticket = node.submit(("job-0", "")).await.unwrap();
        ground.started(&keys, 1).await;
        ground.leave_to_a_dead_router(&["job-0"]);
        ground.events_handled().await;
        ground.worker_events_handled(worker.id().unwrap()).await;
        ground.goes_on(&node, "another").await;
        ground.assert_starts(&keys, 1);
        told.notify_one();
        node.wait(&ticket).await.unwrap();
        ground.assert_starts(&keys, 1);
        ground.assert_clean();
    }

    /// A node leaves, and its handlers stop slowly.
    pub(super) async fn a02_a_job_is_handed_off_only_when_its_handler_has_stopped(ground: Ground) {
        let a = ground.node("a").await;
        let gate = Gate::default();
        a.add_worker(gate.before_stops_of(&ground.recorder)).await.unwrap();
        let keys = ground.dispatch(&a, 10).await;
        let b = ground.node_with("b", 1).await;
        let closing = beside(&a, |a| async move { a.close().await });
        gate.reached(&ground, keys.len()).await;
        ground.goes_on(&b, "another").await;
        gate.open();
        assert!(closing.await.unwrap().unwrap().complete);
        ground.started(&keys, 2).await;
        ground.assert_clean();
        ground.assert_starts(&keys, 2);
    }

    /// A node is cut off until its peers have taken over. Then it comes back.
    pub(super) async fn a03_a_worker_that_was_given_up_ends_its_jobs_for_good(ground: Ground) {
        let ground = ground.expiring();
        let (b, proxy) = (ground.node_with("b", 1).await, Proxy::start(&ground.server).await.unwrap());
        let a = ground.builder_on("a", ground.store_by(&proxy.url(), &[]));
        // It hears that it was expired before it would move anything.
        let a = a.stable_after(Duration::from_secs(60)).join().await.unwrap();
        ground.add_worker(&a).await;
        let keys = ground.dispatch(&b, 20).await;
        let (cut_off, here) = (workers_of(&a).await, ground.keys_on(&a).await);
        assert!(!here.is_empty());
        proxy.pause();
        eventually(ground.patience, "the cut off worker to be given up", async || {
            !b.inspect().workers().await.unwrap().iter().any(|worker| cut_off.contains(&worker.id))
        })
        .await;
        ground.started(&here, 2).await;
        proxy.resume();
        eventually(ground.patience, "the node to be back", async || {
            workers_of(&a).await.iter().any(|worker| !cut_off.contains(worker))
        })
        .await;
        // It has its old slot, to which its jobs return.
        ground.started(&here, 3).await;
        ground.each_runs_once(&keys).await;
        ground.assert_clean();
    }

    /// One failed renewal costs nothing. When all renewals fail, even handlers that do not react have ended before
    /// others begin.
    pub(super) async fn a04_a_worker_that_cannot_renew_ends_its_jobs_before_others_begin_them(
        ground: Ground,
    ) {
        let ground = ground.expiring();
        let (b, proxy) = (ground.node_with("b", 1).await, Proxy::start(&ground.server).await.unwrap());
        let a = ground.builder_on("a", ground.store_by(&proxy.url(), &[])).join().await.unwrap();
        ground.add_worker_with(&a, ground.recorder.acting(|_| Act::HangStop)).await;
        let keys = ground.dispatch(&b, 20).await;
        let here = ground.keys_on(&a).await;
        assert!(!here.is_empty());
        let mut redis = ground.redis();
        let cut_off = workers_of(&a).await[0].0;
        let mut beat = || -> u64 {
            redis::cmd("HGET").arg(key_of("heartbeats")).arg(cut_off).query(&mut redis).unwrap()
        };
        let before = beat();
        proxy.drop_replies();
        eventually(ground.patience, "the answer to a renewal to be lost", async || beat() > before).await;
        proxy.resume();
        let lost = beat();
        eventually(ground.patience, "a renewal after the one that failed", async || beat() > lost).await;
        ground.goes_on(&a, "another").await;
        ground.assert_clean();
        ground.assert_starts(&keys, 1);
        proxy.pause();
        ground.started(&here, 2).await;
        ground.assert_clean();
        proxy.resume();
    }

    /// Every node finds the same job without a worker and reports it. There are as many events as nodes, and all
    /// nodes route them.
    pub(super) async fn a05_many_start_events_of_one_key_start_it_once(ground: Ground) {
        let a = ground.node_with("a", 1).await;
        let _b = ground.node_with("b", 1).await;
        let _c = ground.node_with("c", 1).await;
        let mut redis = ground.redis();
        let mut report = |key: &String| {
            let mut events = redis::pipe();
            for _ in 0..16 {
                events.cmd("XADD").arg(key_of("starts")).arg("*").arg("s").arg(key);
            }
            events.exec(&mut redis).unwrap();
        };
        let keys: Vec<_> = (0..20).map(|i| format!("job-{i}")).collect();
        for key in &keys {
            ground.submit(&a, key).await;
            report(key);
        }
        ground.started(&keys, 1).await;
        // Some nodes have looked before the start, and report after it.
        keys.iter().for_each(report);
        ground.events_handled().await;
        for info in a.inspect().workers().await.unwrap() {
            ground.worker_events_handled(info.id).await;
        }
        ground.goes_on(&a, "another").await;
        ground.assert_clean();
        ground.assert_starts(&keys, 1);
    }

    /// A router that has not heard of the second worker places keys that run there.
    pub(super) async fn a06_routers_with_different_views_of_the_ring_place_a_key_once(ground: Ground) {
        let a = ground.node_with("a", 1).await;
        let (first, bystander) = (workers_of(&a).await[0], ground.bystander().await);
        let (inc, outdated) = bystander.view().await;
        let b = ground.node_with("b", 1).await;
        let keys = ground.dispatch(&a, 20).await;
        let there = ground.keys_on(&b).await;
        assert!(!there.is_empty());
        let jobs: Vec<_> = there.iter().map(|key| (JobKey::new(key.clone()).unwrap(), Some(first))).collect();
        let placed = bystander
            .store
            .run(inc, &Route { ring: outdated, entries: Vec::new(), jobs: jobs.clone() })
            .await;
        ground.worker_events_handled(first).await;
        ground.goes_on(&a, "another").await;
        ground.goes_on(&b, "yet another").await;
        ground.assert_clean();
        ground.assert_starts(&keys, 1);
        assert!(matches!(placed, Err(StoreError::Refused(Refusal::StaleRing(_)))), "{placed:?}");
    }

    /// All nodes, and many more, take a dead worker's jobs away at once. One of them does it again much later.
    pub(super) async fn a07_many_who_clear_away_one_dead_worker_free_its_jobs_once(ground: Ground) {
        let (a, b) = (ground.node_with("a", 1).await, ground.node_with("b", 1).await);
        let _c = ground.node_with("c", 1).await;
        let keys = ground.dispatch(&b, 30).await;
        let (dead, orphans) = (workers_of(&a).await[0], ground.keys_on(&a).await);
        assert!(!orphans.is_empty());
        a.abandon();
        a.closed().await;
        let bystander = ground.bystander().await;
        let (inc, _) = bystander.view().await;
        bystander.bury(dead).await;
        let reap = Reap { worker: dead, limit: 256 };
        let reaps = (0..16).map(|_| bystander.store.run(inc, &reap));
        join_all(reaps).await.into_iter().for_each(|reaped| assert!(reaped.unwrap().done));
        ground.started(&orphans, 2).await;
        bystander.store.run(inc, &Reap { worker: dead, limit: 256 }).await.unwrap();
        ground.goes_on(&b, "another").await;
        ground.assert_clean();
        ground.assert_starts(&orphans, 2);
        ground.assert_starts(&keys.into_iter().filter(|key| !orphans.contains(key)).collect::<Vec<_>>(), 1);
    }

    /// A node that reaps a dead worker dies after it has freed some of its jobs.
    pub(super) async fn a08_half_a_clearing_away_is_continued_not_repeated(ground: Ground) {
        let (a, b) = (ground.node_with("a", 1).await, ground.node_with("b", 1).await);
        ground.dispatch(&b, 30).await;
        let (dead, orphans) = (workers_of(&a).await[0], ground.keys_on(&a).await);
        assert!(orphans.len() > 3);
        a.abandon();
        a.closed().await;
        let bystander = ground.bystander().await;
        let (inc, _) = bystander.view().await;
        bystander.bury(dead).await;
        let reaped = bystander.store.run(inc, &Reap { worker: dead, limit: 3 }).await.unwrap();
        assert!(reaped.done || reaped.count == 3);
        eventually(ground.patience, "the first of its jobs to run elsewhere", async || {
            orphans.iter().filter(|key| ground.recorder.starts_of(key) == 2).count() >= 3
        })
        .await;
        bystander.store.run(inc, &Reap { worker: dead, limit: 256 }).await.unwrap();
        ground.started(&orphans, 2).await;
        ground.goes_on(&b, "another").await;
        ground.assert_clean();
        ground.assert_starts(&orphans, 2);
    }

    /// The caller's deadline passes while the job is starting, and the caller tries again.
    pub(super) async fn a09_a_dispatch_that_timed_out_keeps_its_key(ground: Ground) {
        let node = ground.node("a").await;
        let told = Arc::new(Notify::new());
        let worker = ground.add_worker_with(&node, slow_start(&ground, "job-0", &told)).await;
        let keys = vec!["job-0".to_owned()];
        // Long enough for the acceptance, even on a busy machine.
        let soon = Duration::from_secs(2);
        let first = node.dispatch(("job-0", "")).deadline(soon).await;
        assert!(matches!(first, Err(DispatchError::Deadline { accepted: true, .. })), "{first:?}");
        ground.started(&keys, 1).await;
        let again = dispatched_again(&ground, &node).await;
        ground.events_handled().await;
        ground.worker_events_handled(worker.id().unwrap()).await;
        ground.goes_on(&node, "another").await;
        ground.assert_clean();
        assert!(matches!(again, Err(DispatchError::JobExists { .. })), "{again:?}");
        told.notify_one();
        ground.each_runs_once(&keys).await;
        ground.assert_starts(&keys, 1);
        // A caller that does not want the job to start stops it.
        node.stop_job("job-0").until_stopped().await.unwrap();
        let late = node.dispatch(("job-0", "")).deadline(soon).cancel_on_deadline().await;
        assert!(matches!(late, Err(DispatchError::Cancelled { .. })), "{late:?}");
        eventually(ground.patience, "it to be gone", async || {
            node.inspect().job("job-0").await.unwrap().is_none()
        })
        .await;
        assert!(!ground.recorder.is_running("job-0"));
    }

    /// Two nodes dispatch one key. By the second node's clock, the first must have given up long ago.
    pub(super) async fn a10_a_dispatcher_whose_clock_is_ahead_finds_the_key_taken(ground: Ground) {
        let node = ground.node("a").await;
        let told = Arc::new(Notify::new());
        let worker = ground.add_worker_with(&node, slow_start(&ground, "job-0", &told)).await;
        ground.set_own_clock(Duration::from_secs(60));
        let ahead = ground.builder_on("ahead", ground.store_with_own_clock()).client_only();
        let ahead = ahead.join().await.unwrap();
        let keys = vec!["job-0".to_owned()];
        ground.submit(&node, "job-0").await;
        ground.started(&keys, 1).await;
        let second = dispatched_again(&ground, &ahead).await;
        ground.events_handled().await;
        ground.worker_events_handled(worker.id().unwrap()).await;
        ground.goes_on(&node, "another").await;
        ground.assert_clean();
        assert!(matches!(second, Err(DispatchError::JobExists { .. })), "{second:?}");
        told.notify_one();
        ground.assert_starts(&keys, 1);
    }

    /// The clock of one node jumps ahead by much more than the time to live.
    pub(super) async fn a11_an_observer_whose_clock_is_ahead_takes_nobody_for_dead(ground: Ground) {
        let ground = ground.expiring();
        let a = ground.node_with("a", 1).await;
        ground.set_own_clock(Duration::ZERO);
        let observer = ground.builder_on("observer", ground.store_with_own_clock()).join().await.unwrap();
        ground.add_worker(&observer).await;
        let keys = ground.dispatch(&a, 20).await;
        let members = a.inspect().workers().await.unwrap();
        ground.set_own_clock(Duration::from_secs(60));
        let mut redis = ground.redis();
        let mut beats =
            || -> Vec<u64> { redis::cmd("HVALS").arg(key_of("heartbeats")).query(&mut redis).unwrap() };
        let (before, mut seen) = (beats(), 0);
        let mut last = before.clone();
        eventually(ground.patience, "the workers to renew many times", async || {
            let now = beats();
            seen += usize::from(now != last);
            last = now;
            seen >= 10 || ground.recorder.starts().values().any(|&starts| starts > 1)
        })
        .await;
        ground.assert_starts(&keys, 1);
        assert_eq!(a.inspect().workers().await.unwrap(), members);
        ground.assert_clean();
    }

    /// Records of running jobs are lost, with their places in their worker's list. Their callers dispatch them again.
    pub(super) async fn a45_a_record_that_is_lost_alone_doubles_no_job(ground: Ground) {
        let (a, _b) = (ground.node_with("a", 1).await, ground.node_with("b", 1).await);
        let keys = ground.dispatch(&a, 10).await;
        ground.started(&keys, 1).await;
        let mut redis = ground.redis();
        let mut pipe = redis::pipe();
        for job in a.inspect().jobs().await.unwrap() {
            let place = format!("{}:{}", job.owner.unwrap().0, job.key);
            pipe.cmd("HDEL").arg(key_of("jobs")).arg(job.key.to_string());
            pipe.cmd("ZREM").arg(key_of("owners")).arg(place);
        }
        pipe.atomic().exec(&mut redis).unwrap();
        for key in &keys {
            ground.submit(&a, key).await;
        }
        ground.started(&keys, 2).await;
        ground.each_runs_once(&keys).await;
        ground.assert_clean();
        ground.assert_starts(&keys, 2);
    }

    /// The answer to a second dispatch of `job-0`, while the first one's handler is still starting. If it starts a
    /// handler too, there is no more to see.
    async fn dispatched_again(ground: &Ground, node: &Node) -> Result<(), DispatchError> {
        let again = tokio::spawn({
            let (node, patience) = (node.clone(), ground.patience);
            async move { node.dispatch(("job-0", "")).deadline(patience).await }
        });
        eventually(ground.patience, "an answer or a start", async || {
            again.is_finished() || ground.recorder.starts_of("job-0") > 1
        })
        .await;
        ground.assert_clean();
        again.await.unwrap()
    }

    /// A handler whose start of one key waits for `told`.
    fn slow_start(ground: &Ground, key: &'static str, told: &Arc<Notify>) -> Recorder {
        let told = told.clone();
        ground.recorder.acting(
            move |job| {
                if *job.key() == key { Act::StartWhenTold(told.clone()) } else { Act::Run }
            },
        )
    }
}
