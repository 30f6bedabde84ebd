//! The contract of every store, step by step: each scenario runs on the store in memory and on Redis.

#![allow(clippy::unwrap_used, clippy::expect_used)]

/// Makes two tests of each scenario, one per store.
macro_rules! scenarios {
    ($($name:ident),* $(,)?) => {
        mod memory {
            $(#[tokio::test] async fn $name() { super::$name(crate::lab::Kind::Memory).await; })*
        }
        mod redis {
            $(#[tokio::test] async fn $name() { super::$name(crate::lab::Kind::Redis).await; })*
        }
    };
}

#[path = "store/asking.rs"]
mod asking;
#[path = "store/attempts.rs"]
mod attempts;
#[path = "store/attending.rs"]
mod attending;
#[path = "store/attesting.rs"]
mod attesting;
#[path = "store/backend.rs"]
mod backend;
#[path = "store/bounds.rs"]
mod bounds;
#[path = "store/checkpoints.rs"]
mod checkpoints;
#[path = "store/closing.rs"]
mod closing;
#[path = "store/cordoning.rs"]
mod cordoning;
#[path = "store/damage.rs"]
mod damage;
#[path = "store/dispatching.rs"]
mod dispatching;
#[path = "store/elsewhere.rs"]
mod elsewhere;
#[path = "store/explaining.rs"]
mod explaining;
#[path = "store/figures.rs"]
mod figures;
#[path = "store/history.rs"]
mod history;
#[path = "store/inspecting.rs"]
mod inspecting;
#[path = "store/lab.rs"]
mod lab;
#[path = "store/levels.rs"]
mod levels;
#[path = "store/membership.rs"]
mod membership;
#[path = "store/notifications.rs"]
mod notifications;
#[path = "store/outcomes.rs"]
mod outcomes;
#[path = "store/ownership.rs"]
mod ownership;
#[path = "store/parking.rs"]
mod parking;
#[path = "store/pausing.rs"]
mod pausing;
#[path = "store/planning.rs"]
mod planning;
#[path = "store/recovery.rs"]
mod recovery;
#[path = "store/release.rs"]
mod release;
#[path = "store/repair.rs"]
mod repair;
#[path = "store/replicas.rs"]
mod replicas;
#[path = "store/routing.rs"]
mod routing;
#[path = "store/settings.rs"]
mod settings;
#[path = "store/starting.rs"]
mod starting;
#[path = "store/statuses.rs"]
mod statuses;
#[path = "store/steering.rs"]
mod steering;
#[path = "store/stopping.rs"]
mod stopping;
#[path = "store/streams.rs"]
mod streams;
#[path = "store/suspicion.rs"]
mod suspicion;
#[path = "store/tampering.rs"]
mod tampering;
#[path = "store/tokens.rs"]
mod tokens;
#[path = "store/updating.rs"]
mod updating;
#[path = "store/why.rs"]
mod why;
