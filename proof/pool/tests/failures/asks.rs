//! A question is answered by who owns its job, and once: b01 to b03.

use tenure_protocol::mutation::{Mutation, ScriptPatch};

use crate::ground::{cases, lines, patch, scripts};

const ANYBODY_ANSWERS: ScriptPatch =
    patch("reply", "not ((start == running or start == stopping) and", "not (");

cases! {
    b01_no_former_owner_answers: scripts(&[ANYBODY_ANSWERS]), "a former owner has answered";
    b02_a_deploy_leaves_no_ask_unknown: lines(&[Mutation::MovesUntold]), "the ask of a job that moves ends with Err(Unknown";
    b03_what_may_be_done_is_not_done_again: lines(&[Mutation::DoubtfulAskSentAgain]), "the command was given 2 times";
}

mod cases {
    use std::sync::{Arc, Mutex};

    use bytes::Bytes;
    use tenure_pool::store::{AskId, Reply, ReplyItem, Said};
    use tenure_pool::{Ask, AskError, BoxError, Job, JobHandler, Node, Start, StopReason};
    use tenure_protocol::model::id::{NodeName, Token, WorkerId};
    use tenure_testing::eventually;
    use tokio::sync::watch;
    use tokio::task::JoinHandle;

    use crate::ground::{Ground, beside, key};
    use crate::recorder::{Act, Recorder};

    /// Answers with its name, or keeps what it is asked. Its stops wait until they may go on.
    struct Answerer {
        recorder: Recorder,
        name: &'static str,
        keeps: bool,
        heard: Heard,
        kept: Mutex<Vec<Ask>>,
        stops: watch::Sender<bool>,
        go_on: watch::Receiver<bool>,
    }

    /// The owner that was asked, and its token.
    type Heard = Arc<Mutex<Vec<(WorkerId, Token)>>>;

    impl JobHandler for Answerer {
        async fn start(&self, job: Job) -> Start {
            self.recorder.start(job).await
        }

        async fn stop(&self, job: &Job, why: StopReason) -> Result<(), BoxError> {
            self.stops.send_replace(true);
            // A dropped case lets it go.
            let _ = self.go_on.clone().wait_for(|go_on| *go_on).await;
            self.recorder.stop(job, why).await
        }

        async fn ask(&self, job: &Job, ask: Ask) {
            self.heard.lock().unwrap().push((job.worker(), job.token()));
            if self.keeps {
                self.kept.lock().unwrap().push(ask);
            } else {
                ask.answer(self.name);
            }
        }
    }

    /// A worker of this node, in whose hands the job `key` is if it is the first one.
    struct Owner {
        heard: Heard,
        stops: watch::Receiver<bool>,
        go_on: watch::Sender<bool>,
    }

    async fn owner(ground: &Ground, node: &Node, name: &'static str, keeps: bool) -> Owner {
        let (heard, go_on) = (Heard::default(), watch::Sender::new(name != "a"));
        let stops = watch::Sender::new(false);
        let owner = Owner { heard: heard.clone(), stops: stops.subscribe(), go_on: go_on.clone() };
        let (recorder, go_on) = (ground.recorder.acting(|_| Act::Hold), go_on.subscribe());
        node.add_worker(Answerer { recorder, name, keeps, heard, kept: Mutex::default(), stops, go_on })
            .await
            .unwrap();
        owner
    }

    /// Someone asks the job, and waits for as long as anything may take.
    fn ask(ground: &Ground, node: &Node) -> JoinHandle<Result<Bytes, AskError>> {
        let ask = node.ask("key", "who?").deadline(2 * ground.patience);
        tokio::spawn(async move { ask.await })
    }

    async fn is_asked(ground: &Ground, owner: &Owner) -> (WorkerId, Token) {
        eventually(ground.patience, "it to be asked", async || !owner.heard.lock().unwrap().is_empty()).await;
        owner.heard.lock().unwrap()[0]
    }

    /// The attempt that stands in the stream of this worker, or a poke after it.
    async fn attempt(ground: &Ground, worker: WorkerId) -> AskId {
        let mut redis = ground.redis();
        let mut found = None;
        eventually(ground.patience, "the ask to stand in a stream", async || {
            let stream = key(&format!("worker:{worker}"));
            let entries: redis::streams::StreamRangeReply =
                redis::cmd("XRANGE").arg(stream).arg("-").arg("+").query(&mut redis).unwrap();
            let texts = entries.ids.into_iter().flat_map(|entry| entry.map.into_values());
            let heads = texts.filter_map(|value| redis::from_redis_value::<String>(value).ok());
            let id = |head: String| head.split('|').nth(1)?.parse().ok();
            found = found.or(heads.into_iter().find_map(id));
            found.is_some()
        })
        .await;
        found.unwrap()
    }

    /// The owner is lost with an ask in its hands. It answers when another one has the job.
    pub(super) async fn b01_no_former_owner_answers(ground: Ground) {
        let ground = ground.expiring();
        let (a, b, caller) = (ground.node("a").await, ground.node("b").await, ground.node("caller").await);
        let owner_a = owner(&ground, &a, "a", true).await;
        ground.dispatch_one(&a, "key").await;
        let bystander = ground.bystander().await;
        let asked = ask(&ground, &caller);
        let (worker, token) = is_asked(&ground, &owner_a).await;
        let id = attempt(&ground, worker).await;
        owner(&ground, &b, "b", false).await;
        a.abandon();
        ground.started(&["key".to_owned()], 2).await;
        let (key, asker) = ("key".try_into().unwrap(), NodeName::new("caller").unwrap());
        let said = Said::Answer("the former owner".into());
        let reply = ReplyItem { key, token, asker, id, said };
        bystander.run(&Reply { worker, finished: Vec::new(), items: vec![reply] }).await.unwrap();
        match asked.await.unwrap() {
            Err(AskError::Unknown { .. }) => {}
            Ok(words) => panic!("a former owner has answered: {words:?}"),
            Err(error) => panic!("{error}"),
        }
    }

    /// The owner leaves, and its job takes a while to stop. An ask comes meanwhile.
    pub(super) async fn b02_a_deploy_leaves_no_ask_unknown(ground: Ground) {
        let (a, b, caller) = (ground.node("a").await, ground.node("b").await, ground.node("caller").await);
        let mut owner_a = owner(&ground, &a, "a", false).await;
        ground.dispatch_one(&a, "key").await;
        owner(&ground, &b, "b", false).await;
        let closing = beside(&a, |a| async move { a.close().await });
        tokio::time::timeout(ground.patience, owner_a.stops.wait_for(|stops| *stops)).await.unwrap().unwrap();
        let worker = crate::ground::workers_of(&a).await[0];
        let asked = ask(&ground, &caller);
        attempt(&ground, worker).await;
        owner_a.go_on.send_replace(true);
        assert!(closing.await.unwrap().unwrap().complete);
        let answer = asked.await.unwrap();
        assert!(
            matches!(&answer, Ok(name) if name == "b"),
            "the ask of a job that moves ends with {answer:?}"
        );
        ground.assert_starts(&["key".to_owned()], 2);
        ground.assert_clean();
    }

    /// The owner is lost when it has done what it was told, and before it could say so.
    pub(super) async fn b03_what_may_be_done_is_not_done_again(ground: Ground) {
        let ground = ground.expiring();
        let (a, b, caller) = (ground.node("a").await, ground.node("b").await, ground.node("caller").await);
        let owner_a = owner(&ground, &a, "a", true).await;
        ground.dispatch_one(&a, "key").await;
        let asked = ask(&ground, &caller);
        is_asked(&ground, &owner_a).await;
        let owner_b = owner(&ground, &b, "b", false).await;
        a.abandon();
        let answer = asked.await.unwrap();
        let times = owner_a.heard.lock().unwrap().len() + owner_b.heard.lock().unwrap().len();
        assert_eq!(times, 1, "the command was given {times} times");
        assert!(matches!(answer, Err(AskError::Unknown { .. })), "{answer:?}");
    }
}
