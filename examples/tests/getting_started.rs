//! The page for newcomers in Rust: its program, in three processes, one of which is killed.
#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::collections::BTreeMap;

use tenure_examples::PATIENCE;
use tenure_pool::{Client, Inspector, JobInfo, JobKey, JobState, Token};
use tenure_testing::{ChildProcess, RedisServer, eventually};
use tokio::process::Command;

const PAGE: &str = include_str!("../../docs/getting-started.md");
const PROGRAM: &str = include_str!("../src/bin/getting-started.rs");

#[test]
fn the_program_is_that_of_the_page() {
    let (_, block) = PAGE.split_once("```rust,no_run\n").expect("a block with the program");
    let (block, _) = block.split_once("```").expect("its end");
    let (_, program) = PROGRAM.split_once("\n\n").expect("a line about the program");
    assert_eq!(program, block);
}

fn start(name: &str, redis: &RedisServer) -> ChildProcess {
    let mut command = Command::new(env!("CARGO_BIN_EXE_getting-started"));
    command.arg(name).env("REDIS_URL", redis.url()).env("NO_COLOR", "1");
    ChildProcess::start(name, command).unwrap()
}

/// Waits for this line of the process.
async fn says(process: &mut ChildProcess, text: &str) {
    while !process.line(PATIENCE).await.unwrap().contains(text) {}
}

/// Waits until all four jobs run on nodes that are none of these, and returns their tokens.
async fn run_elsewhere(pool: &Inspector, gone: &[&str]) -> BTreeMap<JobKey, Token> {
    let is_fine = |job: &JobInfo| {
        job.state == JobState::Running && job.node.as_deref().is_some_and(|node| !gone.contains(&node))
    };
    let jobs = eventually(PATIENCE, "all four jobs to run", async || {
        pool.jobs().await.ok().filter(|jobs| jobs.len() == 4 && jobs.iter().all(is_fine))
    })
    .await;
    jobs.into_iter().map(|job| (job.key, job.token)).collect()
}

#[tokio::test]
async fn a_job_of_the_first_page_survives_a_kill_and_a_drain() {
    let redis = RedisServer::start().unwrap();
    let mut first = start("n1", &redis);
    says(&mut first, "the pool is open").await;
    for _ in ["acme", "globex", "initech", "umbrella"] {
        says(&mut first, "this job runs here").await;
    }
    let (mut second, mut third) = (start("n2", &redis), start("n3", &redis));
    let pool = Inspector::open("feeds", Client::open(&redis.url()).unwrap()).await.unwrap();
    eventually(PATIENCE, "three nodes", async || pool.nodes().await.is_ok_and(|nodes| nodes.len() == 3))
        .await;

    let of_first = run_elsewhere(&pool, &[]).await;
    first.kill().await.unwrap();
    let of_both = run_elsewhere(&pool, &["n1"]).await;
    third.leave_well(PATIENCE).await.unwrap();
    let of_second = run_elsewhere(&pool, &["n1", "n3"]).await;
    assert!(of_first.iter().all(|(key, token)| of_both[key] >= *token), "{of_first:?} {of_both:?}");
    assert!(of_both.iter().all(|(key, token)| of_second[key] >= *token), "{of_both:?} {of_second:?}");
    assert!(of_first.values().max() < of_second.values().max(), "{of_first:?} {of_second:?}");
    second.leave_well(PATIENCE).await.unwrap();
}
