//! A node that only dispatches: the work that it leaves to others, and the work that it still does.

use bytes::Bytes;

use super::bench::{Bench, config, key, millis, present, secs, server, up};
use crate::core::ctx::Config;
use crate::core::input::{Command, Input};
use crate::model::id::{Incarnation, WorkerId};
use crate::model::settings::ShutdownFlag;
use crate::step::{PoolState, Refusal, StoreError};

fn client() -> Config {
    Config { client_only: true, ..config() }
}

const ROLES: [&str; 5] = ["read-pool", "claim-pool", "sweep", "prune", "heartbeats"];

#[test]
fn a_client_neither_routes_nor_sweeps_nor_watches() {
    let mut bench = Bench::attached_with(client());
    bench.members.entries.insert(WorkerId(9), up(0));
    bench.maps(1);
    bench.advance(secs(60));
    for role in ROLES {
        assert!(!bench.is_calling(role), "{role}");
    }
    assert!(bench.is_calling("read-node"), "it hears of what became of its dispatches");
    let mut bench = Bench::attached();
    bench.members.entries.insert(WorkerId(9), up(0));
    bench.maps(1);
    bench.advance(secs(60));
    for role in ["read-pool", "sweep", "heartbeats"] {
        assert!(bench.is_calling(role), "a full node: {role}");
    }
}

#[test]
fn a_client_watches_and_sweeps_while_the_pool_ends() {
    let mut bench = Bench::attached_with(client());
    bench.members.entries.insert(WorkerId(9), up(0));
    bench.maps(1);
    let mut renewal = bench.renewal();
    renewal.flag = Some(ShutdownFlag::Stopping { deadline_ms: None, by: "m".into() });
    bench.step([Input::Renewed { incarnation: Incarnation(1), workers: vec![], answer: Ok(renewal) }]);
    assert!(bench.is_calling("heartbeats") && bench.is_calling("purge"));
    assert!(bench.is_calling("sweep"), "nobody else may be left to name a worker that was not reaped");
    let mut bench = Bench::attached_with(client());
    bench.close(secs(10));
    assert!(bench.is_calling("forget-node"), "nothing that it has read is to be routed");
    bench.answer_with("forget-node", ());
}

#[test]
fn a_client_survives_the_loss_and_return_of_its_pool() {
    let mut bench = Bench::attached_with(client());
    let answer = Err(StoreError::Refused(Refusal::NoPool));
    bench.step([Input::Renewed { incarnation: Incarnation(1), workers: vec![], answer }]);
    bench.survey_of(PoolState::Absent, server("a"));
    let deadline = bench.now + secs(5);
    bench.submit("k", "n.1", true, secs(5));
    bench.command(|reply| Command::Notify {
        reply,
        key: key("k"),
        body: Bytes::new(),
        start: None,
        deadline,
    });
    bench.all();
    bench.advance(secs(6));
    assert_eq!(
        bench.of(&["reply", "dispatch", "notify"]),
        [
            "reply 1 submitted Deadline accepted=false since there is no such pool, nothing was changed",
            "reply 2 notified Store(Refused(NoPool))",
        ]
    );
    bench.submit("k", "n.2", true, secs(5));
    while !bench.is_calling("survey") {
        bench.advance(millis(100));
    }
    bench.survey(present(2, false, "a"));
    bench.all();
    bench.advance(secs(6));
    assert!(!bench.all().iter().any(|line| line.contains("since")), "it is back");
}
