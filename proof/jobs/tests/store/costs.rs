//! The cost of a step does not grow with the jobs that wait, are delayed or are kept.

use std::collections::BTreeMap;

use tenure_jobs::store::{
    Adding, Kind, Listing, NewJob, ReadFigures, Request, ScriptPatch, Settle, SettleJobs, Settling, Steer,
};
use tenure_testing::RedisServer;

use super::lab::{Lab, PATCHES, SERVERS, Which, done, group, id, queue, retry, with_result};

/// Adds jobs of a kind, a hundred a call.
async fn add(lab: &Lab, of: &str, prefix: &str, count: usize, kind: Kind) {
    let kind = std::sync::Arc::new(kind);
    let names: Vec<_> = (0..count).map(|n| id(&format!("{prefix}{n}"))).collect();
    for names in names.chunks(100) {
        let jobs = names.iter().map(|name| NewJob::new(name.clone(), "body", kind.clone()));
        lab.add_all(&Adding::new(jobs.collect())).await;
        if of == "kept" {
            lab.take(of).await;
            let settlings: Vec<_> = names
                .iter()
                .map(|name| Settling::new(name.clone(), lab.token.get(), with_result("r")))
                .collect();
            lab.run(SettleJobs(lab.lane("s"), settlings)).await;
        }
    }
}

/// Counts the commands that Redis runs for a round of all steps beside other jobs of each kind, and the keys that it looks up.
async fn round_beside(others: usize) -> BTreeMap<String, u64> {
    let server = RedisServer::start().unwrap();
    SERVERS.set(Some((server.url(), server.url())));
    let lab = Lab::new(Which::Redis, &[("a", ""), ("g", "g glimit=5/1000"), ("kept", ""), ("b", "")]).await;
    SERVERS.set(None);
    let (mut grouped, mut delayed, mut kept) =
        (Kind::new(queue("g")), Kind::new(queue("a")), Kind::new(queue("kept")));
    let later = lab.now() + 1_000_000;
    (grouped.group, delayed.due, kept.keep) = (group("t"), later, Some(1_000_000));
    add(&lab, "a", "waits", others, Kind::new(queue("a"))).await;
    add(&lab, "g", "grouped", others, grouped).await;
    add(&lab, "a", "delayed", others, delayed).await;
    add(&lab, "kept", "kept", others, kept).await;
    lab.listen("n1").await;
    lab.tick().await;
    server.query::<()>(redis::cmd("CONFIG").arg("RESETSTAT")).unwrap();

    lab.add("a", &["plain"]).await;
    lab.add_one("a", "found", |kind| (kind.deadline, kind.keep) = (later, Some(1_000))).await;
    for settle in [done(), with_result("r"), retry(500, "busy"), retry(0, "busy")] {
        lab.take_n("a", 1).await;
        let job = lab.jobs.borrow()[0].id.clone();
        lab.extend(job.as_str(), lab.token.get()).await;
        lab.settle(job.as_str(), settle).await;
    }
    lab.take_n("g", 1).await;
    let job = lab.jobs.borrow()[0].id.clone();
    let on = Settle::MoveOn {
        queue: queue("b"),
        priority: None,
        group: None,
        data: tenure_jobs::store::Data::Keep,
    };
    lab.settle(job.as_str(), on).await;
    lab.watch("n1", "plain").await;
    lab.steer("plain", Steer::Cancel("no".into())).await;
    for paused in [true, false] {
        lab.request(Request::PauseQueue(queue("a"), paused)).await;
        lab.request(Request::PauseGroup(queue("g"), group("t"), paused)).await;
    }
    lab.steer("found", Steer::Remove).await;
    lab.peek("waits50").await;
    lab.run(ReadFigures(vec![queue("a"), queue("kept")])).await;
    lab.list(Listing::Ready(queue("a")), None, 10).await;
    lab.tick_after(500).await;

    let stats: String = server.query(redis::cmd("INFO").arg("all")).unwrap();
    let calls = stats.lines().filter_map(|line| {
        let (name, rest) = line.split_once(':')?;
        if name.starts_with("cmdstat_") {
            let calls = rest.strip_prefix("calls=")?.split(',').next()?;
            return Some((name.to_owned(), calls.parse().ok()?));
        }
        name.starts_with("keyspace_").then(|| Some((name.to_owned(), rest.trim().parse().ok()?)))?
    });
    calls.filter(|(name, _)| name != "cmdstat_ping" && name != "cmdstat_info").collect()
}

/// A tick that looks at all jobs that are ready.
const LOOKS_AT_ALL: &[ScriptPatch] = &[ScriptPatch {
    script: "tick",
    from: "if t >= grace then",
    to: "for _, member in ipairs(call('ZRANGE', READY, 0, -1)) do call('ZSCORE', READY, member) end\nif t >= grace then",
}];

#[tokio::test]
async fn a_step_that_looks_at_all_jobs_is_noticed() {
    PATCHES.set(LOOKS_AT_ALL);
    let (few, many) = (round_beside(100).await, round_beside(300).await);
    PATCHES.set(&[]);
    assert!(many["cmdstat_zscore"] > few["cmdstat_zscore"], "{few:?} {many:?}");
}

#[tokio::test]
async fn steps_cost_the_same_beside_100_and_10_000_jobs() {
    let (few, many) = (round_beside(100).await, round_beside(10_000).await);
    assert!(few["cmdstat_evalsha"] > 20 && few["keyspace_hits"] > 100, "{few:?}");
    assert_eq!(few, many);
}
