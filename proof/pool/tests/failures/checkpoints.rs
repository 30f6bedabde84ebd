//! The next owner of a job begins where the former one has left: b04 to b06.

use tenure_protocol::mutation::{Mutation, ScriptPatch};

use crate::ground::{cases, lines, patch, scripts};

const STATES_STAY: ScriptPatch = patch("", "  delete_checkpoints()\n", "");
const STRAYS_ARE_GIVEN: ScriptPatch =
    patch("begin", "        if news == 1 then\n", "        if false then\n");
const ANYBODY_SAVES: ScriptPatch = patch("save", "find(r, running, 1, true) == 1 or", "true or");

/// In sound and broken runs alike: the server keeps no checkpoint while this key is there.
const KEEPS_NONE: ScriptPatch = patch(
    "save",
    "local _, most = settings('checkpoint_max')\n",
    "local _, most = settings('checkpoint_max')
    if call('EXISTS', 'tenure:{failures}:keeps-none') == 1 then return redis.error_reply('BUSY for now') end\n",
);

cases! {
    b04_the_last_state_before_a_failure_is_kept: lines(&[Mutation::ReleaseBeforeCheckpoint]), "the next run was given None";
    b05_a_new_job_is_given_no_former_ones_state: scripts(&[STATES_STAY, STRAYS_ARE_GIVEN]), "the new job was given";
    b06_a_former_owner_overwrites_nothing: scripts(&[ANYBODY_SAVES]), "the next owner was given";
}

mod cases {
    use std::sync::{Arc, Mutex};

    use bytes::Bytes;
    use redis::Commands;
    use tenure_pool::store::{Save, SaveItem};
    use tenure_pool::{Job, JobHandler, JobSpec, Node, RestartPolicy};
    use tenure_protocol::model::id::{Token, WorkerId};
    use tenure_testing::eventually;
    use tokio::sync::Notify;

    use super::KEEPS_NONE;
    use crate::ground::{Ground, key};
    use crate::one_thread::OneThread;

    /// The checkpoint that a run was given, and its token.
    type Given = (Option<String>, WorkerId, Token);

    /// The runs of all jobs, in their order.
    #[derive(Clone, Default)]
    struct Runs(Arc<Mutex<Vec<Given>>>);

    impl Runs {
        fn begins(&self, job: &Job) -> usize {
            let text = |bytes: &Bytes| String::from_utf8_lossy(bytes).into_owned();
            let given = job.checkpointed().map(|kept| text(kept.bytes()));
            let mut runs = self.0.lock().unwrap();
            runs.push((given, job.worker(), job.token()));
            runs.len()
        }

        /// Waits for the run of this number, from 1.
        async fn run(&self, ground: &Ground, number: usize) -> Given {
            eventually(ground.patience, "the job to run", async || self.0.lock().unwrap().len() >= number)
                .await;
            self.0.lock().unwrap()[number - 1].clone()
        }

        /// A handler whose runs keep this before they go on. It is told when they have.
        fn keeping(&self, state: &'static str) -> (impl JobHandler + use<>, Arc<Notify>) {
            let (runs, kept) = (self.clone(), Arc::new(Notify::new()));
            let tells = kept.clone();
            let handler = tenure_pool::run(move |job: Job| {
                let (runs, tells) = (runs.clone(), tells.clone());
                async move {
                    runs.begins(&job);
                    job.checkpoint(state).await?;
                    tells.notify_one();
                    job.cancelled().await;
                    Ok(())
                }
            });
            (handler, kept)
        }
    }

    async fn is_kept(ground: &Ground, kept: &Notify) {
        tokio::time::timeout(ground.patience, kept.notified()).await.expect("a checkpoint to be kept");
    }

    async fn is_gone(ground: &Ground, node: &Node, key: &str) {
        eventually(ground.patience, "the job to be gone", async || {
            node.inspect().job(key).await.is_ok_and(|job| job.is_none())
        })
        .await;
    }

    /// A future of a job has ended when this is dropped.
    struct Ends(Arc<Notify>);

    impl Drop for Ends {
        fn drop(&mut self) {
            self.0.notify_one();
        }
    }

    /// A job leaves a state and fails at once, while the server keeps none. Another job of the same worker starts
    /// after it and ends after it. When that one is gone, a worker that waits for no checkpoint has given up the first one,
    /// too. Then the server keeps states again.
    pub(super) async fn b04_the_last_state_before_a_failure_is_kept(ground: Ground) {
        let (home, runs) = (OneThread::start(), Runs::default());
        let (go, failed) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
        let (of_all, goes, ends) = (runs.clone(), go.clone(), failed);
        let handler = tenure_pool::run(move |job: Job| {
            let (runs, go, ends) = (of_all.clone(), goes.clone(), ends.clone());
            async move {
                if job.key().as_bytes() == b"later" {
                    ends.notified().await;
                    return Ok(());
                }
                if runs.begins(&job) == 1 {
                    go.notified().await;
                    let _ends = Ends(ends);
                    drop(job.checkpoint("the last one"));
                    return Err("it fails".into());
                }
                job.cancelled().await;
                Ok(())
            }
        });
        let store = ground.store_by(&ground.server.url(), &[KEEPS_NONE]);
        // One thread: the first job's end is reported before the other job goes on.
        let node = home.runtime.spawn(ground.builder_on("a", store).join()).await.unwrap().unwrap();
        node.add_worker(handler).await.unwrap();
        let () = ground.redis().set(key("keeps-none"), "").unwrap();
        node.dispatch(JobSpec::new("key", "").restart(RestartPolicy::OnFailure)).await.unwrap();
        node.dispatch(("later", "")).await.unwrap();
        go.notify_one();
        is_gone(&ground, &node, "later").await;
        let () = ground.redis().del(key("keeps-none")).unwrap();
        let (given, ..) = runs.run(&ground, 2).await;
        assert_eq!(given.as_deref(), Some("the last one"), "the next run was given {given:?}");
        node.stop_job("key").until_stopped().await.unwrap();
    }

    /// A job leaves a state, and ends. Another one comes under its key.
    pub(super) async fn b05_a_new_job_is_given_no_former_ones_state(ground: Ground) {
        let (node, runs) = (ground.node("a").await, Runs::default());
        let (handler, kept) = runs.keeping("the former job's");
        node.add_worker(handler).await.unwrap();
        node.dispatch(("key", "")).await.unwrap();
        is_kept(&ground, &kept).await;
        node.stop_job("key").await.unwrap();
        is_gone(&ground, &node, "key").await;
        node.dispatch(("key", "")).await.unwrap();
        let (given, ..) = runs.run(&ground, 2).await;
        assert_eq!(given, None, "the new job was given {given:?}");
        is_kept(&ground, &kept).await;
    }

    /// An owner has stood still since before its job moved. Its checkpoint comes after its successor's.
    pub(super) async fn b06_a_former_owner_overwrites_nothing(ground: Ground) {
        let runs = Runs::default();
        let (a, b, c) = (ground.node("a").await, ground.node("b").await, ground.node("c").await);
        let ((first, kept), (second, kept_again)) =
            (runs.keeping("the first"), runs.keeping("the successor's"));
        a.add_worker(first).await.unwrap();
        a.dispatch(("key", "")).await.unwrap();
        is_kept(&ground, &kept).await;
        let (_, worker, token) = runs.run(&ground, 1).await;
        b.add_worker(second).await.unwrap();
        assert!(a.close().await.unwrap().complete);
        is_kept(&ground, &kept_again).await;
        let (key, bytes) = ("key".try_into().unwrap(), Bytes::from("a former owner's"));
        let late = SaveItem { key, token, given: token, number: 9, bytes };
        let bystander = ground.bystander().await;
        bystander.run(&Save { worker, items: vec![late] }).await.unwrap();
        c.add_worker(runs.keeping("the last").0).await.unwrap();
        assert!(b.close().await.unwrap().complete);
        let (given, ..) = runs.run(&ground, 3).await;
        assert_eq!(given.as_deref(), Some("the successor's"), "the next owner was given {given:?}");
    }
}
