//! A user of Redis with exactly the rights that the documents name can do every step. With one less, a step says so.

use std::sync::Mutex;

use tenure_testing::RedisServer;

use crate::lab::{Lab, SERVERS, Which, queue};
use crate::{SUITES, Scenario};
use tenure_jobs::store::{ListQueues, ReadTime};

const DOCUMENT: &str = include_str!("../../../../docs/jobs.md");
const THREADS: usize = 4;

/// The documented rights, for all sets.
fn documented() -> Vec<String> {
    let (_, after) = DOCUMENT.split_once("```acl\n").unwrap();
    let (rights, _) = after.split_once("```").unwrap();
    rights.replace("<set>", "*").split_whitespace().map(str::to_owned).collect()
}

/// Runs a scenario as the user of this address; what it says when it fails.
fn fails(scenario: Scenario, server: &RedisServer, user: &str) -> Option<String> {
    let servers = (server.url(), user.to_owned());
    let run = move || {
        SERVERS.set(Some(servers));
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on((scenario.1)(Which::Redis));
    };
    let error = std::thread::Builder::new().name("user".into()).spawn(run).unwrap().join().err()?;
    let text = error.downcast_ref::<String>().cloned();
    Some(text.or_else(|| error.downcast_ref::<&str>().map(|text| (*text).to_owned())).unwrap_or_default())
}

/// The steps that no scenario does.
async fn the_rest(lab: Lab) {
    lab.run(ReadTime()).await;
    assert_eq!(lab.run(ListQueues()).await, [queue("a")]);
}

fn scenarios() -> Vec<Scenario> {
    let rest: Scenario = ("the_rest", |which| Box::pin(super::lab::play(the_rest, which)));
    std::iter::once(rest).chain(SUITES.iter().flat_map(|suite| suite.iter().copied())).collect()
}

/// The panics of users are what is looked for.
fn hush() {
    let report = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        if std::thread::current().name() != Some("user") {
            report(panic);
        }
    }));
}

#[test]
fn the_documented_rights_are_enough() {
    let server = RedisServer::start().unwrap();
    let rights = documented();
    let user =
        server.acl_user("node", "secret", &rights.iter().map(String::as_str).collect::<Vec<_>>()).unwrap();
    let failed = |scenario: &Scenario| Some((scenario.0, fails(*scenario, &server, &user)?));
    let failures: Vec<_> = scenarios().iter().filter_map(failed).collect();
    assert!(failures.is_empty(), "{failures:#?}");
    let denied: Vec<redis::Value> = server.query(redis::cmd("ACL").arg("LOG")).unwrap();
    assert!(denied.is_empty(), "{denied:?}");
}

#[test]
fn each_of_the_documented_rights_is_needed() {
    hush();
    let server = RedisServer::start().unwrap();
    // A node that may not subscribe does not join.
    let rights = documented();
    let tried = rights.iter().filter(|right| *right != "+ssubscribe" && !right.starts_with('&'));
    let (queue, findings) = (Mutex::new(tried.enumerate()), Mutex::new(Vec::new()));
    std::thread::scope(|scope| {
        for _ in 0..THREADS {
            scope.spawn(|| {
                loop {
                    let Some((number, right)) = queue.lock().unwrap().next() else { break };
                    let others: Vec<_> =
                        rights.iter().filter(|other| *other != right).map(String::as_str).collect();
                    let user = server.acl_user(&format!("user{number}"), "secret", &others).unwrap();
                    let said = scenarios().into_iter().find_map(|scenario| fails(scenario, &server, &user));
                    if !said.as_ref().is_some_and(|said| said.contains("Unusable(")) {
                        findings.lock().unwrap().push((right, said));
                    }
                }
            });
        }
    });
    let findings = findings.into_inner().unwrap();
    assert!(findings.is_empty(), "without these nothing fails, or unclearly: {findings:#?}");
}
