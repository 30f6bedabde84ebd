//! One handler or caller must not affect the others: a23 to a25, a50, a52 and b07.

use tenure_protocol::mutation::{Mutation, ScriptPatch};

use crate::ground::{cases, lines, patch, scripts};

/// All jobs of a lost worker begin again at once, and together.
const SUSPECTS_TOGETHER: ScriptPatch = patch("reap", "return spread(", "return 0 * spread(");

/// Whoever asks again after a late answer dispatches anew.
const DISPATCHES_OVER: ScriptPatch = patch("dispatch", "if r then", "if r and false then");

cases! {
    a23_a_start_that_hangs_holds_up_nothing_else: lines(&[Mutation::StartsInTurn]), "the others to be started";
    a24_an_answer_for_a_caller_that_has_gone_does_no_harm:
        scripts(&[DISPATCHES_OVER]), "Deadline";
    a25_an_answer_that_overtakes_the_acceptance_is_heard:
        lines(&[Mutation::EarlyAnswersUnheard]), "Deadline";
    a50_a_handler_that_blocks_the_only_thread_costs_no_lease:
        lines(&[Mutation::EngineAtHome]), "the lease went on";
    a52_a_job_that_kills_its_process_is_parked_alone:
        scripts(&[SUSPECTS_TOGETHER]), "who is parked beside the culprit";
    b07_a_handler_that_hangs_gives_its_key_back: lines(&[Mutation::StalledStays]), "the next run of the job";
}

mod cases {
    use std::sync::Arc;
    use std::sync::atomic::AtomicBool;
    use std::time::{Duration, Instant};

    use tenure_pool::JobState;
    use tenure_pool::inspect::{MemberState, WorkerInfo};
    use tenure_testing::{Proxy, eventually};
    use tokio::sync::Notify;

    use crate::ground::{Ground, SHORT, beside};
    use crate::one_thread::OneThread;
    use crate::recorder::{Act, Release};

    /// Starts, a notification and stops of the same worker go on beside a start that never returns. That start ends
    /// when its job is stopped.
    pub(super) async fn a23_a_start_that_hangs_holds_up_nothing_else(ground: Ground) {
        let builder = ground.builder("a").stop_timeout(Duration::from_millis(200));
        let node = builder.join().await.unwrap();
        let hangs = ground.recorder.acting(|job| match job.key().as_bytes() {
            b"hangs" => Act::HangStart,
            _ => Act::Run,
        });
        ground.add_worker_with(&node, hangs).await;
        ground.submit(&node, "hangs").await;
        ground.started(&["hangs".to_owned()], 1).await;

        let others: Vec<_> = (0..8).map(|i| format!("job-{i}")).collect();
        for key in &others {
            ground.submit(&node, key).await;
        }
        eventually(ground.patience, "the others to be started", async || {
            others.iter().all(|key| ground.recorder.is_running(key))
        })
        .await;
        node.notify("job-0", "hello").await.unwrap();
        eventually(ground.patience, "the notification", async || ground.recorder.notes("job-0") == ["hello"])
            .await;
        for key in ["job-1", "hangs"] {
            ground.history().stop_requested(key);
            node.stop_job(key).until_stopped().deadline(ground.patience).await.unwrap();
            ground.history().stop_acknowledged(key);
        }
        ground.assert_clean();
    }

    /// The caller gives up, and the answer comes at that moment, or at any moment around it.
    pub(super) async fn a24_an_answer_for_a_caller_that_has_gone_does_no_harm(ground: Ground) {
        let node = ground.node("a").await;
        let told = Arc::new(Notify::new());
        let slow = told.clone();
        let handler = ground.recorder.acting(move |job| match job.key().as_bytes() {
            b"slow" => Act::StartWhenTold(slow.clone()),
            _ => Act::Run,
        });
        ground.add_worker_with(&node, handler).await;
        let caller = ground.node("caller").await;
        let waiting = beside(&caller, |caller| async move { caller.dispatch(("slow", "")).await });
        let mut keys = vec!["slow".to_owned()];
        ground.started(&keys, 1).await;
        waiting.abort();
        assert!(waiting.await.unwrap_err().is_cancelled());
        told.notify_one();
        for i in 0..20 {
            let key = format!("hasty-{i}");
            // At the deadline the job may be accepted or not, begun or not.
            let _ = caller.dispatch((&*key, "")).deadline(Duration::from_millis(i)).await;
            keys.push(key);
            ground.dispatch_one(&caller, &format!("patient-{i}")).await;
        }
        for key in &keys {
            ground.history().submitted(key);
            caller.ensure((&**key, "")).deadline(ground.patience).await.unwrap();
            ground.history().accepted(key);
        }
        ground.assert_starts(&keys, 1);
        ground.assert_clean();
    }

    /// The reply to the dispatch is lost, and no other can come. The news of the start comes another way.
    pub(super) async fn a25_an_answer_that_overtakes_the_acceptance_is_heard(ground: Ground) {
        let node = ground.node("a").await;
        let told = Arc::new(Notify::new());
        let slow = told.clone();
        let handler = ground.recorder.acting(move |job| match job.key().as_bytes() {
            b"before" => Act::Run,
            _ => Act::StartWhenTold(slow.clone()),
        });
        ground.add_worker_with(&node, handler).await;
        let proxy = Proxy::start(&ground.server).await.unwrap();
        let caller = ground.builder_on("caller", ground.store_by(&proxy.url(), &[]));
        let caller = caller.client_only().join().await.unwrap();
        // After this the server knows the scripts.
        ground.dispatch_one(&caller, "before").await;

        // If the connection that brings the news has also lost something, it is cut, too. The case then runs once
        // more.
        let mut keys = Vec::new();
        for i in 0..8 {
            let key = format!("job-{i}");
            proxy.drop_replies();
            let lost = proxy.counts().lost;
            let mut dispatched = tokio::spawn({
                let (caller, patience, key) = (caller.clone(), ground.patience, key.clone());
                async move { caller.dispatch((key, "")).deadline(patience).await }
            });
            keys.push(key);
            ground.started(&keys, 1).await;
            eventually(ground.patience, "the reply to be lost", async || proxy.counts().lost > lost).await;
            proxy.refuse().await;
            proxy.resume();
            told.notify_one();
            let early = tokio::time::timeout(Duration::from_secs(2), &mut dispatched).await;
            proxy.accept().await;
            let is_early = early.is_ok();
            let answer = match early {
                Ok(answer) => answer,
                Err(_) => dispatched.await,
            };
            answer.unwrap().unwrap();
            ground.assert_starts(&keys, 1);
            if is_early {
                return;
            }
        }
        panic!("the news has never come before the acceptance");
    }

    /// A job blocks the only thread of its node's handlers for three leases. The other jobs there are neither aborted
    /// nor begun elsewhere. They get their notifications when the thread is free again.
    pub(super) async fn a50_a_handler_that_blocks_the_only_thread_costs_no_lease(ground: Ground) {
        // Nothing must be late here, whatever else the machine does.
        let ground = ground.expiring_after(Duration::from_secs(7));
        let (home, b) = (OneThread::start(), ground.node_with("b", 1).await);
        let released = Arc::new(AtomicBool::new(false));
        let release = Release(released.clone());
        let a = home.runtime.spawn(ground.builder("a").join()).await.unwrap().unwrap();
        let handler = ground.recorder.acting(move |job| match job.key().as_bytes() {
            key if key.starts_with(b"blocks") => Act::Block(released.clone()),
            _ => Act::Run,
        });
        ground.add_worker_with(&a, handler).await;
        let is_up = |worker: &WorkerInfo| worker.state == MemberState::Up;
        eventually(ground.patience, "both workers to be up for the dispatcher", async || {
            b.inspect().workers().await.unwrap().iter().filter(|worker| is_up(worker)).count() == 2
        })
        .await;
        let mut keys = ground.dispatch(&b, 20).await;
        let at_a = ground.keys_on(&a).await;
        let mut blocking = Vec::new();
        while blocking.is_empty() {
            keys.push(format!("blocks-{}", keys.len()));
            ground.submit(&b, &keys[keys.len() - 1]).await;
            ground.started(&keys, 1).await;
            blocking = ground.keys_on(&a).await;
            blocking.retain(|key| key.starts_with("blocks"));
        }
        b.notify(at_a[0].as_str(), "hello").await.unwrap();
        let workers = async || {
            let all = b.inspect().workers().await.unwrap().into_iter();
            all.filter(|w| w.node == "a").map(|w| w.id).collect::<Vec<_>>()
        };
        // A lease runs out after one time to live, and others notice that a little after two.
        let (before, since, leases) = (workers().await, Instant::now(), 3 * b.settings().worker_ttl);
        while since.elapsed() < leases {
            assert_eq!(workers().await, before, "the lease went on: {:?}", a.health());
            tokio::time::sleep(SHORT).await;
        }
        assert_eq!(a.health().blocked_jobs.len(), 1, "{:?}", a.health());
        assert_eq!(ground.recorder.notes(&at_a[0]), Vec::<String>::new(), "its thread is blocked");
        drop(release);
        eventually(ground.patience, "what was said meanwhile", async || {
            ground.recorder.notes(&at_a[0]) == ["hello"]
        })
        .await;
        ground.assert_starts(&keys, 1);
        ground.assert_clean();
    }
    /// A process dies whenever it starts a certain job, and another process replaces it at once.
    pub(super) async fn a52_a_job_that_kills_its_process_is_parked_alone(ground: Ground) {
        const LOOP: Duration = Duration::from_secs(90);
        let ground = ground.with(|settings| {
            settings.worker_ttl = Duration::from_millis(1_500);
            settings.stable_run = Duration::from_secs(1);
            settings.max_attempts = 8;
        });
        let watcher = ground.builder("watcher").client_only().join().await.unwrap();
        let neighbours: Vec<_> = (0..4).map(|i| format!("tenant-{i}")).collect();
        for key in &neighbours {
            ground.submit(&watcher, key).await;
        }
        watcher.submit(("culprit", "")).await.unwrap();
        let mut process = ground.node("process-0").await;
        process.add_worker(ground.recorder.clone()).await.unwrap();
        let mut crashes = 0;
        eventually(LOOP, "the culprit to be parked", async || {
            if ground.recorder.starts_of("culprit") > crashes {
                crashes += 1;
                process.abandon();
                process = ground.node(&format!("process-{crashes}")).await;
                process.add_worker(ground.recorder.clone()).await.unwrap();
            }
            matches!(watcher.inspect().job("culprit").await, Ok(Some(job)) if job.state == JobState::Parked)
        })
        .await;
        let parked = watcher.inspect().parked().await.unwrap().into_iter().map(|job| job.key.to_string());
        let beside: Vec<_> = parked.filter(|key| key != "culprit").collect();
        assert_eq!(beside, [""; 0], "who is parked beside the culprit, after {crashes} crashes");
        // A process that is slow to join may lose a lease, which counts as a crash before the handler ran.
        assert!((6..=8).contains(&crashes), "{crashes} crashes");
        ground.each_runs_once(&neighbours).await;
        ground.assert_clean();
    }

    /// It does not even hear that it must end. Its worker goes on, with its other jobs.
    pub(super) async fn b07_a_handler_that_hangs_gives_its_key_back(ground: Ground) {
        let node = ground.builder("a").stop_timeout(Duration::from_millis(200)).join().await.unwrap();
        let handler = ground.recorder.acting(|job| match job.key().as_bytes() {
            b"hangs" if job.attempts() == 1 => Act::HangStop,
            _ => Act::Hold,
        });
        ground.add_worker_with(&node, handler).await;
        ground.dispatch_one(&node, "beside").await;
        node.dispatch(("hangs", "")).progress_timeout(Duration::from_secs(1)).await.unwrap();
        eventually(ground.patience, "the next run of the job", async || {
            ground.recorder.starts_of("hangs") > 1
        })
        .await;
        assert_eq!(ground.recorder.starts_of("beside"), 1);
        ground.assert_clean();
    }
}
