//! Stops and notifications that are lost, or reach the wrong worker: a26 to a30.

use tenure_protocol::mutation::{Mutation, ScriptPatch};

use crate::ground::{cases, lines, patch, scripts};

/// A release that hands a job off does not check whether the job must end.
const HANDS_ON_STOPPED: ScriptPatch =
    patch("release", "mode == 'd' or to_stop or stopping", "mode == 'd' or stopping");
/// A stop does not find a job that nobody runs.
const STOPS_ONLY_RUNNING: ScriptPatch =
    patch("stop", "  if not owned then\n", "  if not owned then\n    do return 'N' end\n");
/// Every job of a lost worker runs again.
const REAPS_STOPPED: ScriptPatch =
    patch("reap", "elseif p.state == 'S' or stopping then", "elseif stopping then");
/// A notification is dropped if nobody runs its job at that moment.
const NOTIFIES_ONLY_RUNNING: ScriptPatch = patch(
    "notify",
    "  if state == 'S' then return 'N' end\n",
    "  if state == 'S' then return 'N' end\n  if state ~= 'R' then return 'K' end\n",
);

/// The end of `job-0` is reported, and its data are left for a later step.
const DELETES_LATER: ScriptPatch =
    patch("release", "  if p then\n    delete(", "  if key == 'job-0' then\n  elseif p then\n    delete(");

cases! {
    a26_a_stop_in_the_midst_of_a_hand_off_counts: scripts(&[HANDS_ON_STOPPED]), "job-0 to be gone";
    a27_a_stop_that_overtakes_the_start_counts: scripts(&[STOPS_ONLY_RUNNING]), "job-0 to be gone";
    a28_a_stopped_job_does_not_come_back_with_a_crash: scripts(&[REAPS_STOPPED]), "job-0 to be gone";
    a28_a_job_whose_worker_died_with_its_end_is_no_orphan: scripts(&[DELETES_LATER]), "job-0 ";
    a29_a_stop_handler_that_fails_ends_its_job:
        lines(&[Mutation::FailedStopKeepsJob]), r#"["its stop fails", "its stop panics", "its own end fails"] stay"#,
        a29_a_stop_handler_that_fails_is_logged: lines(&[Mutation::FailedStopUntold]), "the failure to be logged";
    a30_notifications_keep_their_order_and_none_is_lost_on_the_way:
        scripts(&[NOTIFIES_ONLY_RUNNING]), "all of them in order";
}

mod cases {
    use std::fmt::Write as _;
    use std::sync::{Arc, Mutex, OnceLock};
    use std::time::Duration;

    use futures::future::join_all;
    use tenure_pool::{BoxError, Error, Job, JobHandler, JobState, Node, Start, StopReason};
    use tenure_protocol::mutation::ScriptPatch;
    use tenure_testing::{Proxy, eventually};
    use tokio::sync::Notify;
    use tracing_subscriber::layer::{Context, Layer, SubscriberExt};

    use crate::ground::{Ground, beside, patch, workers_of};
    use crate::recorder::{Act, Recorder, SlowEnd};

    /// Keeps `job-0` running after it was asked to end, until it is told. All other jobs end at once.
    fn slow_to_end(ground: &Ground) -> (Recorder, Arc<SlowEnd>) {
        let slow = Arc::new(SlowEnd::default());
        let end = slow.clone();
        let handler = ground.recorder.acting(move |job| match job.key().as_bytes() {
            b"job-0" => Act::EndWhenTold(end.clone()),
            _ => Act::Run,
        });
        (handler, slow)
    }

    async fn gone(ground: &Ground, node: &Node, key: &str) {
        let what = format!("{key} to be gone");
        eventually(ground.patience, &what, async || {
            node.inspect().job(key).await.is_ok_and(|job| job.is_none())
        })
        .await;
    }

    /// Waits until the job's handler knows that it must end.
    async fn asked_to_end(ground: &Ground, slow: &SlowEnd) {
        tokio::time::timeout(ground.patience, slow.asked.notified())
            .await
            .expect("the job to be asked to end");
    }

    async fn stop(ground: &Ground, node: &Node, key: &str) {
        ground.history().stop_requested(key);
        node.stop_job(key).await.unwrap();
        ground.history().stop_acknowledged(key);
    }

    /// The owner is handing the job off when the stop comes, and never learns of the stop.
    pub(super) async fn a26_a_stop_in_the_midst_of_a_hand_off_counts(ground: Ground) {
        const LOSES_EVENTS: ScriptPatch = patch("stop", "send(KEYS[15 + x], event)", "");
        let a = ground.node("a").await;
        let (handler, slow) = slow_to_end(&ground);
        ground.add_worker_with(&a, handler).await;
        let keys = ground.dispatch(&a, 2).await;
        let b = ground.store_by(&ground.server.url(), &[LOSES_EVENTS]);
        let b = ground.builder_on("b", b).join().await.unwrap();
        ground.add_worker(&b).await;
        let closing = beside(&a, |a| async move { a.close().await });
        asked_to_end(&ground, &slow).await;
        ground.history().stop_requested("job-0");
        b.stop_job("job-0").await.unwrap();
        slow.told.notify_one();
        assert!(closing.await.unwrap().unwrap().complete);
        gone(&ground, &b, "job-0").await;
        ground.history().stop_acknowledged("job-0");
        // The jobs that move with it go on elsewhere.
        ground.started(&keys[1..], 2).await;
        ground.assert_starts(&keys[..1], 1);
        ground.assert_clean();
    }

    /// The job is queued, because there is no worker. Later it is assigned to a worker that receives nothing yet.
    pub(super) async fn a27_a_stop_that_overtakes_the_start_counts(ground: Ground) {
        // A granted job is its worker's at once, and its stop asks the worker.
        let ground = ground.with(|settings| settings.grant_max = 0);
        let a = ground.node("a").await;
        ground.submit(&a, "job-0").await;
        stop(&ground, &a, "job-0").await;
        gone(&ground, &a, "job-0").await;

        let proxy = Proxy::start(&ground.server).await.unwrap();
        let b = ground.builder_on("b", ground.store_by(&proxy.url(), &[])).join().await.unwrap();
        ground.add_worker(&b).await;
        ground.dispatch_one(&a, "before").await;
        // An event of the router behind the proxy is not routed. The next event goes to another router.
        proxy.pause();
        let mut assigned = None;
        for i in 1..20 {
            let key = format!("job-{i}");
            ground.submit(&a, &key).await;
            let routed = tokio::time::timeout(Duration::from_secs(1), async {
                eventually(ground.patience, "the assignment", async || {
                    a.inspect().job(&*key).await.unwrap().is_some_and(|job| job.state == JobState::Assigned)
                })
                .await;
            });
            let is_assigned = routed.await.is_ok();
            stop(&ground, &a, &key).await;
            if is_assigned {
                assigned = Some(key);
                break;
            }
        }
        proxy.resume();
        let assigned = assigned.expect("an assignment that its worker has not heard of");
        gone(&ground, &a, &assigned).await;
        ground.dispatch_one(&a, "after").await;
        ground.assert_starts(&["job-0".to_owned(), assigned], 0);
        ground.assert_clean();
    }

    /// The owner dies after the stop was recorded and before the job has ended.
    pub(super) async fn a28_a_stopped_job_does_not_come_back_with_a_crash(ground: Ground) {
        let a = ground.node("a").await;
        let (handler, _slow) = slow_to_end(&ground);
        ground.add_worker_with(&a, handler).await;
        let keys = ground.dispatch(&a, 2).await;
        let b = ground.node("b").await;
        stop(&ground, &b, "job-0").await;
        let worker = workers_of(&a).await[0];
        a.abandon();
        a.closed().await;
        ground.bystander().await.bury(worker).await;
        ground.add_worker(&b).await;
        ground.started(&keys[1..], 2).await;
        gone(&ground, &b, "job-0").await;
        ground.assert_starts(&keys[..1], 1);
        ground.assert_clean();
    }

    /// The job has ended by itself, and its worker has released it. The worker never gets the answer, and dies.
    pub(super) async fn a28_a_job_whose_worker_died_with_its_end_is_no_orphan(ground: Ground) {
        const NOTES_IT: ScriptPatch =
            patch("release", "if n > 0 then\n", "if n > 0 then\n  call('SET', 'released', 1)\n");
        let (proxy, told) = (Proxy::start(&ground.server).await.unwrap(), Arc::new(Notify::new()));
        let a = ground.builder_on("a", ground.store_by(&proxy.url(), &[NOTES_IT])).join().await.unwrap();
        let end = told.clone();
        let handler = ground.recorder.acting(move |job| match job.key().as_bytes() {
            b"job-0" => Act::EndAloneWhenTold(end.clone()),
            _ => Act::Run,
        });
        ground.add_worker_with(&a, handler).await;
        let b = ground.node("b").await;
        // After this the server knows the scripts that are sent while no answer comes.
        b.dispatch(("first", "")).await.unwrap();
        b.stop_job("first").until_stopped().await.unwrap();
        redis::cmd("DEL").arg("released").exec(&mut ground.redis()).unwrap();
        // It ends by itself, so that the history does not expect it to run.
        b.dispatch(("job-0", "")).await.unwrap();
        ground.dispatch_one(&b, "job-1").await;
        let worker = workers_of(&a).await[0];
        proxy.drop_replies();
        told.notify_one();
        let mut redis = ground.redis();
        eventually(ground.patience, "the worker to have given it up", async || {
            redis::cmd("EXISTS").arg("released").query::<bool>(&mut redis).unwrap()
        })
        .await;
        a.abandon();
        a.closed().await;
        ground.bystander().await.bury(worker).await;
        ground.add_worker(&b).await;
        ground.started(&["job-1".to_owned()], 2).await;
        ground.goes_on(&b, "another").await;
        ground.assert_starts(&["job-0".to_owned()], 1);
        gone(&ground, &b, "job-0").await;
        ground.assert_clean();
    }

    /// Stop handlers fail and panic, and a job's own end fails. Nothing else fails: every caller learns that the job
    /// is gone, and of the error.
    pub(super) async fn a29_a_stop_handler_that_fails_ends_its_job(ground: Ground) {
        let node = ground.node("a").await;
        let fails = ground.recorder.acting(|job| match kind(job) {
            "its own end fails" => Act::Body(|job| {
                Box::pin(async move {
                    job.cancelled().await;
                    Err("as it was told".into())
                })
            }),
            _ => Act::Run,
        });
        let warnings = warnings();
        node.add_worker(StopsBadly(fails)).await.unwrap();
        // Other runs use the same log.
        let own = ground.server.pid().unwrap();
        let kinds = ["its stop fails", "its stop panics", "its own end fails"];
        let stays = join_all(kinds.map(async |kind| {
            let key = &*format!("{kind} {own}");
            ground.dispatch_one(&node, key).await;
            ground.history().stop_requested(key);
            let stopped = node.stop_job(key).until_stopped().deadline(ground.patience).await;
            (!matches!(stopped, Err(Error::StopFailed { .. }))).then_some(kind)
        }));
        let stay: Vec<_> = stays.await.into_iter().flatten().collect();
        assert!(stay.is_empty(), "{stay:?} stay");
        for kind in kinds {
            let key = &*format!("{kind} {own}");
            ground.history().stop_acknowledged(key);
            assert!(node.inspect().job(key).await.unwrap().is_none());
            ground.dispatch_one(&node, key).await;
            ground.assert_starts(&[key.to_owned()], 2);
            eventually(ground.patience, "the failure to be logged", async || {
                let logged = warnings.lock().unwrap();
                logged.iter().any(|line| line.contains(key))
            })
            .await;
        }
        ground.assert_clean();
    }

    /// The kind in the key, without the number of the run.
    fn kind(job: &Job) -> &str {
        let key = std::str::from_utf8(job.key().as_bytes()).unwrap();
        key.rsplit_once(' ').map_or(key, |(kind, _)| kind)
    }

    /// Its jobs end. Then their stop handlers do what their keys say.
    struct StopsBadly(Recorder);

    impl JobHandler for StopsBadly {
        async fn start(&self, job: Job) -> Start {
            self.0.start(job).await
        }

        async fn stop(&self, job: &Job, why: StopReason) -> Result<(), BoxError> {
            self.0.stop(job, why).await?;
            match kind(job) {
                "its stop fails" => Err("as it was told".into()),
                "its stop panics" => panic!("as it was told"),
                _ => Ok(()),
            }
        }
    }

    type Lines = Arc<Mutex<Vec<String>>>;

    /// The log lines of the whole process about stop handlers from now on.
    fn warnings() -> Lines {
        static LINES: OnceLock<Lines> = OnceLock::new();
        let lines = LINES.get_or_init(|| {
            let lines = Lines::default();
            let subscriber = tracing_subscriber::registry().with(Warnings(lines.clone()));
            tracing::subscriber::set_global_default(subscriber).unwrap();
            lines
        });
        lines.clone()
    }

    struct Warnings(Lines);

    impl<S: tracing::Subscriber> Layer<S> for Warnings {
        fn on_event(&self, event: &tracing::Event<'_>, _: Context<'_, S>) {
            if *event.metadata().level() != tracing::Level::WARN {
                return;
            }
            let mut line = String::new();
            event.record(&mut |field: &tracing::field::Field, value: &dyn std::fmt::Debug| {
                let _ = write!(line, "{field}={value:?} ");
            });
            // A broken run of another case may log the same text in a loop.
            if line.contains("a stop handler failed") {
                self.0.lock().unwrap().push(line);
            }
        }
    }

    /// Some come while the job runs, some while its owner ends it, some while it has no owner, and some with its next
    /// owner.
    pub(super) async fn a30_notifications_keep_their_order_and_none_is_lost_on_the_way(ground: Ground) {
        let a = ground.node("a").await;
        let (handler, slow) = slow_to_end(&ground);
        ground.add_worker_with(&a, handler).await;
        let b = ground.node("b").await;
        ground.dispatch_one(&b, "job-0").await;
        let mut next = 0;
        let mut notify = async || {
            for _ in 0..8 {
                b.notify("job-0", next.to_string()).await.unwrap();
                next += 1;
            }
        };
        notify().await;
        let closing = beside(&a, |a| async move { a.close().await });
        asked_to_end(&ground, &slow).await;
        notify().await;
        slow.told.notify_one();
        assert!(closing.await.unwrap().unwrap().complete);
        let queued =
            async || b.inspect().job("job-0").await.unwrap().is_some_and(|job| job.state == JobState::Queued);
        assert!(queued().await, "nobody has it");
        notify().await;
        ground.add_worker(&b).await;
        ground.started(&["job-0".to_owned()], 2).await;
        notify().await;
        eventually(ground.patience, "the last", async || {
            ground.recorder.notes("job-0").contains(&"31".to_owned())
        })
        .await;
        let mut heard = Vec::new();
        for note in ground.recorder.notes("job-0") {
            // A notification that was being taken when the job moved comes again.
            if !heard.contains(&note) {
                heard.push(note);
            }
        }
        assert_eq!(heard, (0..32).map(|i| i.to_string()).collect::<Vec<_>>(), "all of them in order");
        ground.assert_clean();
    }
}
