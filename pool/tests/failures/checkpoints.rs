//! The next owner of a job begins where the former one has left: b05 and b06.

use tenure_pool::mutation::ScriptPatch;

use crate::ground::{cases, patch, scripts};

const STATES_STAY: ScriptPatch = patch("", "  delete_checkpoints()\n", "");
const STRAYS_ARE_GIVEN: ScriptPatch =
    patch("begin", "        if news == 1 then\n", "        if false then\n");
const ANYBODY_SAVES: ScriptPatch = patch("save", "(start == running or start == stopping) and find", "find");

cases! {
    b05_a_new_job_is_given_no_former_ones_state: scripts(&[STATES_STAY, STRAYS_ARE_GIVEN]), "the new job was given";
    b06_a_former_owner_overwrites_nothing: scripts(&[ANYBODY_SAVES]), "the next owner was given";
}

mod cases {
    use std::sync::{Arc, Mutex};

    use bytes::Bytes;
    use tenure_pool::id::{Token, WorkerId};
    use tenure_pool::store::{Checkpoints, SaveItem};
    use tenure_pool::{Job, JobHandler};
    use tenure_testing::eventually;

    use crate::ground::Ground;

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
        fn keeping(&self, state: &'static str) -> (impl JobHandler + use<>, Arc<tokio::sync::Notify>) {
            let (runs, kept) = (self.clone(), Arc::new(tokio::sync::Notify::new()));
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

    async fn is_kept(ground: &Ground, kept: &tokio::sync::Notify) {
        tokio::time::timeout(ground.patience, kept.notified()).await.expect("a checkpoint to be kept");
    }

    /// A job leaves a state, and ends. Another one comes under its key.
    pub(super) async fn b05_a_new_job_is_given_no_former_ones_state(ground: Ground) {
        let (node, runs) = (ground.node("a").await, Runs::default());
        let (handler, kept) = runs.keeping("the former job's");
        node.add_worker(handler).await.unwrap();
        node.dispatch(("key", "")).await.unwrap();
        is_kept(&ground, &kept).await;
        node.stop_job("key").await.unwrap();
        eventually(ground.patience, "the job to be gone", async || {
            node.job("key").await.is_ok_and(|job| job.is_none())
        })
        .await;
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
        bystander.store.save(bystander.view().await.0, worker, &[late]).await.unwrap();
        c.add_worker(runs.keeping("the last").0).await.unwrap();
        assert!(b.close().await.unwrap().complete);
        let (given, ..) = runs.run(&ground, 3).await;
        assert_eq!(given.as_deref(), Some("the successor's"), "the next owner was given {given:?}");
    }
}
