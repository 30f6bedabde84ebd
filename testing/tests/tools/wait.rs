//! A wait ends with its condition, or with a message that names the missing one.

use std::{panic::AssertUnwindSafe, time::Duration};

use futures::FutureExt as _;
use tenure_testing::eventually;

const SOON: Duration = Duration::from_secs(20);
const SHORT: Duration = Duration::from_millis(20);

/// The message of the panic that ends `wait`.
async fn message(wait: impl Future<Output = ()>) -> String {
    let panic = AssertUnwindSafe(wait).catch_unwind().await.expect_err("the wait has to run out of time");
    *panic.downcast::<String>().expect("a formatted message")
}

#[tokio::test]
async fn a_wait_looks_again_until_the_condition_holds() {
    let mut looks = 0;
    eventually(SOON, "the third look", async || {
        looks += 1;
        looks == 3
    })
    .await;
    assert_eq!(looks, 3);
}

#[tokio::test]
async fn a_wait_returns_the_awaited_value() {
    assert_eq!(eventually(SOON, "a value", async || Some(7)).await, 7);
    assert_eq!(eventually(SOON, "a value", async || Ok::<_, ()>(8)).await, 8);
}

#[tokio::test]
async fn a_wait_in_vain_names_its_condition_place_and_last_look() {
    let mut looks = 0;
    let wait = eventually(SHORT, "a thousand looks", async || {
        looks += 1;
        if looks == 1000 { Ok(()) } else { Err("fewer") }
    });
    let message = message(wait).await;
    assert!(message.contains("waited 20ms in vain"), "{message}");
    assert!(message.contains(file!()), "{message}");
    assert!(message.ends_with("for: a thousand looks; last seen: \"fewer\""), "{message}");
    let message = self::message(eventually(SHORT, "the truth", async || false)).await;
    assert!(message.ends_with("for: the truth; last seen: false"), "{message}");
}

#[tokio::test]
async fn a_look_that_hangs_does_not_outlast_the_deadline() {
    let message = message(eventually(SHORT, "a look", async || std::future::pending::<bool>().await)).await;
    assert!(message.ends_with("for: a look; last seen: nothing"), "{message}");
}
