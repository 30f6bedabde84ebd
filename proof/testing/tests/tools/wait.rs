//! A wait ends with its condition, or with a message that names the missing one.

use std::{panic::AssertUnwindSafe, time::Duration};

use futures::FutureExt as _;
use tenure_testing::{eventually, within};

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
    assert!(message.starts_with(file!()), "{message}");
    let late = "waited 20ms in vain for a thousand looks; last seen: \"fewer\"";
    assert!(message.ends_with(late), "{message}");
    let message = self::message(eventually(SHORT, "the truth", async || false)).await;
    assert!(message.ends_with("for the truth; last seen: false"), "{message}");
}

#[tokio::test]
async fn a_wait_without_time_looks_once_and_says_so_as_an_error() {
    let mut looks = 0;
    let mut second = async || {
        looks += 1;
        looks == 2
    };
    let late = within(Duration::ZERO, "the second look", &mut second).await.unwrap_err();
    assert_eq!(late.to_string(), "waited 0ns in vain for the second look; last seen: false");
    within(Duration::ZERO, "the second look", &mut second).await.unwrap();
}

#[tokio::test]
async fn a_look_that_hangs_does_not_outlast_the_deadline() {
    let message = message(eventually(SHORT, "a look", async || std::future::pending::<bool>().await)).await;
    assert!(message.ends_with("for a look; last seen: nothing"), "{message}");
}
