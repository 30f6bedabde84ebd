//! A machine gets no more than it can bear: b08 and b09.

use tenure_protocol::mutation::Mutation;

use crate::ground::{cases, lines};

cases! {
    b08_a_full_machine_gets_no_more: lines(&[Mutation::CapacityPassedOver]), "the small machine has";
    b09_the_jobs_of_a_lost_node_start_at_a_rate: lines(&[Mutation::StartsTogether]), "they have started within";
}

mod cases {
    use std::collections::BTreeSet;
    use std::sync::{Arc, Mutex};
    use std::time::{Duration, Instant};

    use tenure_testing::eventually;

    use crate::ground::Ground;
    use crate::recorder::Act;

    /// A small machine and a big one. The keys of both are as many, and the small one takes three of them.
    pub(super) async fn b08_a_full_machine_gets_no_more(ground: Ground) {
        let small = ground.node("small").await;
        small.add_worker(ground.recorder.acting(|_| Act::Hold)).capacity(3).await.unwrap();
        let big = ground.node_with("big", 1).await;
        eventually(ground.patience, "both to be up", async || {
            let up = async |node: &tenure_pool::Node| {
                let workers = node.inspect().workers().await.unwrap();
                workers.iter().filter(|w| w.slot.is_some()).count()
            };
            up(&small).await == 2 && up(&big).await == 2
        })
        .await;
        let keys = ground.dispatch(&big, 40).await;
        ground.started(&keys, 1).await;
        let has = ground.keys_on(&small).await.len();
        assert_eq!(has, 3, "the small machine has {has} jobs");
        assert!(small.health().workers[0].full && small.health().is_healthy());
        ground.assert_starts(&keys, 1);
        ground.assert_clean();
    }

    /// One node is lost. The starts of its jobs on the other one keep their distance.
    pub(super) async fn b09_the_jobs_of_a_lost_node_start_at_a_rate(ground: Ground) {
        const RATE: u32 = 40;
        let ground = ground.expiring();
        let a = ground.node_with("a", 1).await;
        let keys = ground.dispatch(&a, 100).await;
        ground.started(&keys, 1).await;
        let began = Arc::new(Mutex::new(BTreeSet::new()));
        let handler = ground.recorder.acting({
            let began = began.clone();
            move |_| {
                began.lock().unwrap().insert(Instant::now());
                Act::Hold
            }
        });
        let b = ground.builder("b").starts_per_second(RATE).join().await.unwrap();
        ground.add_worker_with(&b, handler).await;
        let before = began.lock().unwrap().len();
        a.abandon();
        let lost = keys.len() - before;
        eventually(ground.patience, "all to start again", async || began.lock().unwrap().len() >= keys.len())
            .await;
        let began: Vec<_> = began.lock().unwrap().iter().copied().skip(before).collect();
        // A load may delay the first handler more than the last one: half of the time still tells a rate from none.
        let (took, least) = (*began.last().unwrap() - began[0], Duration::from_secs(lost as u64 / 2) / RATE);
        assert!(took >= least, "they have started within {took:?}, and {least:?} is the least");
    }
}
