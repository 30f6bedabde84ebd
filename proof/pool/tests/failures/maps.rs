//! Copies of maps that differ from their originals: a31 to a34.

use tenure_protocol::mutation::Mutation as Later;
use tenure_rmap::Mutation;

use crate::ground::{cases, lines, maps};

cases! {
    a31_a_change_after_a_gap_is_not_taken_for_the_next: maps(&[Mutation::GapsApplied]), "the change in the gap";
    a32_a_copy_catches_up_after_its_subscription_was_cut: maps(&[Mutation::NoResync]), "what was missed";
    a33_revisions_that_begin_anew_are_followed: maps(&[Mutation::RevisionsOnly]), "Deadline",
        a33_what_was_kept_is_not_started_again: lines(&[Later::AttendBeforeAttested]), "is started again";
    a34_a_change_that_comes_while_another_is_handled_is_told:
        maps(&[Mutation::WatchesAnew]), "what came meanwhile";
}

mod cases {
    use tenure_rmap::{Layout, View, lua};
    use tenure_testing::{Proxy, eventually};

    use crate::ground::{Ground, patient};

    const CHANNEL: &str = "{map}:channel";

    /// The test's own map.
    struct Original {
        redis: redis::Connection,
        put: redis::Script,
    }

    impl Original {
        fn new(ground: &Ground) -> Self {
            let mut redis = ground.redis();
            redis::cmd("HSET").arg("{map}:meta").arg("inc").arg(1).exec(&mut redis).unwrap();
            let put = redis::Script::new(&format!(
                "#!lua\n{}\nlocal inc = redis.call('HGET', KEYS[2], 'inc')
                mapput('map', KEYS[1], KEYS[2], 'rev', ARGV[1], inc, {{ ARGV[2], ARGV[3] }})",
                lua::CHANGE
            ));
            Self { redis, put }
        }

        /// Sets an entry, and announces it on this channel.
        fn set_on(&mut self, channel: &str, key: &str) {
            let mut put = self.put.prepare_invoke();
            put.key("{map}:hash").key("{map}:meta").arg(channel).arg(key).arg("value");
            put.invoke::<()>(&mut self.redis).unwrap();
        }

        fn set(&mut self, key: &str) {
            self.set_on(CHANNEL, key);
        }
    }

    async fn joined(ground: &Ground, url: &str) -> View {
        let layout = Layout {
            name: "map".into(),
            hash: "{map}:hash".into(),
            meta: "{map}:meta".into(),
            inc_field: "inc".into(),
            rev_field: "rev".into(),
            deadlines: None,
            channel: CHANNEL.into(),
        };
        // A join makes only one attempt.
        let client = patient(url);
        let [view] = View::join_broken(&client, [layout], ground.broken_maps()).await.unwrap();
        view
    }

    async fn has(ground: &Ground, view: &View, key: &str, what: &str) {
        eventually(ground.patience, what, async || view.contains(key)).await;
    }

    /// The message with revision 6 is lost, and the one with revision 7 arrives.
    pub(super) async fn a31_a_change_after_a_gap_is_not_taken_for_the_next(ground: Ground) {
        let mut original = Original::new(&ground);
        let view = joined(&ground, &ground.server.url()).await;
        for i in 1..6 {
            original.set(&format!("key-{i}"));
        }
        has(&ground, &view, "key-5", "the changes before").await;
        original.set_on("{map}:nowhere", "key-6");
        original.set("key-7");
        has(&ground, &view, "key-7", "the change after the gap").await;
        has(&ground, &view, "key-6", "the change in the gap").await;
        assert_eq!((view.len(), view.snapshot().revision()), (7, 7));
    }

    /// No later change reveals the missed one.
    pub(super) async fn a32_a_copy_catches_up_after_its_subscription_was_cut(ground: Ground) {
        let mut original = Original::new(&ground);
        let proxy = Proxy::start(&ground.server).await.unwrap();
        let view = joined(&ground, &proxy.url()).await;
        original.set("before");
        has(&ground, &view, "before", "the change before").await;
        proxy.refuse().await;
        proxy.kill_all();
        eventually(ground.patience, "the connections to be gone", async || proxy.counts().open == 0).await;
        original.set("missed");
        proxy.accept().await;
        has(&ground, &view, "missed", "what was missed").await;
    }

    /// The members and the settings have high revisions when Redis forgets everything. The new ones begin low.
    pub(super) async fn a33_revisions_that_begin_anew_are_followed(ground: Ground) {
        let ground = ground.losing();
        let (a, b) = (ground.node_with("a", 1).await, ground.node_with("b", 1).await);
        let keys = ground.dispatch(&a, 4).await;
        for round in 0..8 {
            a.operate().change_settings(|settings| settings.max_queued = 1_000 + round).await.unwrap();
            let worker = ground.add_worker(&b).await;
            worker.drain().await.unwrap();
        }
        ground.each_runs_once(&keys).await;
        let before = ground.recorder.starts();
        redis::cmd("FLUSHALL").exec(&mut ground.redis()).unwrap();
        for (node, key) in [(&a, "from a"), (&b, "from b")] {
            ground.history().submitted(key);
            node.dispatch((key, "")).deadline(ground.patience).await.unwrap();
            ground.history().accepted(key);
        }
        for key in &keys {
            a.ensure((&**key, "")).deadline(ground.patience).await.unwrap();
        }
        for node in [&a, &b] {
            eventually(ground.patience, "both workers to be known", async || {
                node.inspect().workers().await.unwrap().len() == 2
            })
            .await;
        }
        // Their workers kept them and reported them, so they do not start a second time.
        for key in &keys {
            assert_eq!(ground.recorder.starts_of(key), before[key], "{key} is started again");
        }
        eventually(ground.patience, "every job to run", async || ground.recorder.running().len() == 6).await;
        ground.assert_clean();
    }

    /// A watcher of a map is busy with one change when the next one comes, which is the last.
    pub(super) async fn a34_a_change_that_comes_while_another_is_handled_is_told(ground: Ground) {
        let mut original = Original::new(&ground);
        let view = joined(&ground, &ground.server.url()).await;
        let mut watcher = view.watch();
        original.set("first");
        tokio::time::timeout(ground.patience, watcher.changed()).await.expect("the first").unwrap();
        original.set("last");
        has(&ground, &view, "last", "the last").await;
        tokio::time::timeout(ground.patience, watcher.changed()).await.expect("what came meanwhile").unwrap();
        assert!(watcher.snapshot().get("last").is_some());
    }
}
