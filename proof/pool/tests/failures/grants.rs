//! Jobs that start on the news of them: b10 to b12.

use tenure_protocol::mutation::Mutation;

use crate::ground::{cases, lines};

cases! {
    b10_the_news_of_a_job_that_comes_again_starts_nothing: lines(&[Mutation::GrantTwice]), "was started 2 times";
    b11_the_news_of_a_job_is_lost_and_its_owner_hears_of_it: lines(&[Mutation::LostGrantsStay, Mutation::DeletedStreamUnnoticed]), "every job to be started";
    b12_the_news_of_a_job_that_nobody_waits_for_is_lost: lines(&[Mutation::DeletedStreamUnnoticed]), "every job to be started";
}

mod cases {
    use std::time::{Duration, Instant};

    use tenure_pool::WorkerId;
    use tenure_testing::{Proxy, eventually};

    use crate::ground::{Ground, key as key_of, workers_of};

    /// A job has run and was stopped. The entry of its grant is there again, as if the worker had passed it over.
    pub(super) async fn b10_the_news_of_a_job_that_comes_again_starts_nothing(ground: Ground) {
        let node = ground.node_with("a", 1).await;
        let keys = ground.dispatch(&node, 1).await;
        let worker = workers_of(&node).await[0];
        let again = redis::Script::new(
            "local payload = redis.call('HGET', KEYS[2], ARGV[1])
            local fields = {}
            for field in string.gmatch(redis.call('HGET', KEYS[1], ARGV[1]), '([^|]*)|') do fields[#fields + 1] = field end
            return { fields[4], redis.call('HGET', KEYS[1], ARGV[1]), payload, redis.call('HGET', KEYS[3], 'incarnation') }",
        )
        .key(key_of("jobs"))
        .key(key_of("payloads"))
        .key(key_of("pool"))
        .arg(&keys[0])
        .invoke::<Vec<Vec<u8>>>(&mut ground.redis())
        .unwrap();
        let [token, record, payload, incarnation] = again.try_into().unwrap();
        node.stop_job(keys[0].as_str()).until_stopped().await.unwrap();
        ground.history().stop_requested(&keys[0]);
        let () = redis::cmd("XADD")
            .arg(key_of(&format!("worker:{}", worker.0)))
            .arg("*")
            .arg(&[&b"g"[..], &token, b"i", &incarnation, keys[0].as_bytes(), &record, b"B", &payload])
            .query(&mut ground.redis())
            .unwrap();
        ground.worker_events_handled(worker).await;
        ground.goes_on(&node, "another").await;
        ground.assert_starts(&keys, 1);
    }

    /// Somebody deletes the stream of a worker that has not read of its job. The caller of the job waits.
    pub(super) async fn b11_the_news_of_a_job_is_lost_and_its_owner_hears_of_it(ground: Ground) {
        let ground = ground.with(|settings| settings.assign_timeout = Duration::from_secs(1));
        let proxy = Proxy::start(&ground.server).await.unwrap();
        let far = ground.builder_on("far", ground.store_by(&proxy.url(), &[])).join().await.unwrap();
        ground.add_worker(&far).await;
        let stream = key_of(&format!("worker:{}", workers_of(&far).await[0].0));
        let near = ground.node("near").await;
        eventually(ground.patience, "the ring to be known", async || near.guess("job-0").unwrap().map(drop))
            .await;
        proxy.pause();
        // A read that waits at the server would still be answered.
        let () = redis::cmd("CLIENT").arg(&["KILL", "TYPE", "normal"]).query(&mut ground.redis()).unwrap();
        let waits = near.dispatch(("job-0", "payload of job-0"));
        let lost = async {
            eventually(ground.patience, "the job to be granted", async || {
                redis::cmd("DEL").arg(&stream).query::<u32>(&mut ground.redis()).unwrap() > 0
            })
            .await;
            proxy.resume();
        };
        ground.history().submitted("job-0");
        let (started, ()) =
            tokio::join!(tokio::time::timeout(ground.patience, waits.deadline(ground.patience)), lost);
        assert!(started.is_ok_and(|started| started.is_ok()), "waited in vain for every job to be started");
        ground.history().accepted("job-0");
        ground.assert_starts(&["job-0".to_owned()], 1);
        ground.assert_clean();
    }

    /// The same, and nobody waits for the job. The first look at all records comes 3 T after the join.
    pub(super) async fn b12_the_news_of_a_job_that_nobody_waits_for_is_lost(ground: Ground) {
        let proxy = Proxy::start(&ground.server).await.unwrap();
        let joined = Instant::now();
        let far = ground.builder_on("far", ground.store_by(&proxy.url(), &[])).join().await.unwrap();
        ground.add_worker(&far).await;
        let worker = workers_of(&far).await[0];
        let stream = key_of(&format!("worker:{}", worker.0));
        let near = ground.node("near").await;
        let first = ground.dispatch(&near, 1).await;
        renewed(&ground, worker).await;
        proxy.pause();
        // A read that waits at the server would still be answered.
        let () = redis::cmd("CLIENT").arg(&["KILL", "TYPE", "normal"]).query(&mut ground.redis()).unwrap();
        ground.submit(&near, "unread").await;
        eventually(ground.patience, "the job to be granted", async || {
            redis::cmd("DEL").arg(&stream).query::<u32>(&mut ground.redis()).unwrap() > 0
        })
        .await;
        // Its node opens its connections anew.
        let (open, cut) = (proxy.counts().open, proxy.counts().cut);
        proxy.kill_all();
        eventually(ground.patience, "its connections to be cut", async || proxy.counts().cut >= cut + open)
            .await;
        proxy.resume();
        let keys = [first, vec!["unread".to_owned()]].concat();
        ground.started(&keys, 1).await;
        assert!(joined.elapsed() < Duration::from_secs(30), "only a look at all records has found it");
        ground.assert_starts(&keys, 1);
        ground.assert_clean();
    }

    /// Waits until a renewal of the worker has begun and another one has ended.
    async fn renewed(ground: &Ground, worker: WorkerId) {
        let beats = || {
            let mut read = redis::cmd("HGET");
            read.arg(key_of("heartbeats")).arg(worker.0).query::<u64>(&mut ground.redis()).unwrap()
        };
        for _ in 0..3 {
            let before = beats();
            eventually(ground.patience, "a renewal", async || beats() > before).await;
        }
    }
}
