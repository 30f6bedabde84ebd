//! Random sequences of the protocol's steps on both stores: every answer and the whole state agree after each step.
//!
//! `REFINEMENT_CASES` sets how many sequences are walked, `REFINEMENT_SEED` which ones.

mod call;
mod driver;
mod op;

use proptest::test_runner::{Config, RngAlgorithm, TestCaseError, TestRng, TestRunner};
use tenure_testing::RedisServer;

use self::driver::Driver;
use self::op::Walk;
use crate::backend::{Backend, START};

fn number(variable: &str, default: u32) -> u32 {
    std::env::var(variable).ok().and_then(|text| text.parse().ok()).unwrap_or(default)
}

async fn compare(redis: &Backend, walk: &Walk) -> Result<(), String> {
    redis.wipe().await;
    redis.set_clock(START).await;
    let memory = Backend::memory().await;
    let mut driver = Driver::start(&memory, redis, walk.max_attempts).await?;
    for op in &walk.ops {
        driver.make(op).await?;
    }
    Ok(())
}

#[test]
fn both_stores_answer_and_end_alike() {
    let server = RedisServer::start().unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let redis = runtime.block_on(Backend::redis(&server, "refinement"));

    let seed = number("REFINEMENT_SEED", 1);
    let mut bytes = [0; 32];
    bytes[..4].copy_from_slice(&seed.to_le_bytes());
    let config = Config {
        cases: number("REFINEMENT_CASES", 40),
        max_shrink_iters: 400,
        failure_persistence: None,
        ..Config::default()
    };
    let mut runner = TestRunner::new_with_rng(config, TestRng::from_seed(RngAlgorithm::ChaCha, &bytes));
    let walked =
        runner.run(&op::walk(), |ops| runtime.block_on(compare(&redis, &ops)).map_err(TestCaseError::fail));
    if let Err(failure) = walked {
        panic!("REFINEMENT_SEED={seed}: {failure}");
    }
}
