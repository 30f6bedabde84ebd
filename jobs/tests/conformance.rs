//! The contract of every store, step by step: each scenario runs on the store in memory and on Redis.

#![allow(clippy::unwrap_used, clippy::expect_used)]

/// Makes two tests of each scenario, one per store.
macro_rules! scenarios {
    ($($name:ident),* $(,)?) => {
        mod memory {
            $(#[tokio::test] async fn $name() { super::$name(crate::lab::Which::Memory).await; })*
        }
        mod redis {
            $(#[tokio::test] async fn $name() { super::$name(crate::lab::Which::Redis).await; })*
        }
    };
}

#[path = "store/again.rs"]
mod again;
#[path = "store/children.rs"]
mod children;
#[path = "store/ending.rs"]
mod ending;
#[path = "store/groups.rs"]
mod groups;
#[path = "store/lab.rs"]
mod lab;
#[path = "store/lanes.rs"]
mod lanes;
#[path = "store/losing.rs"]
mod losing;
#[path = "store/pinning.rs"]
mod pinning;
#[path = "store/steering.rs"]
mod steering;
#[path = "store/taking.rs"]
mod taking;
#[path = "store/timing.rs"]
mod timing;
#[path = "store/waking.rs"]
mod waking;
#[path = "store/watching.rs"]
mod watching;
