//! The whole pool through its public API, as users see it, on both stores.
//!
//! Every scenario has its own pool ([`world`]) and one handler ([`recorder`]). The handler does what the scenario
//! says and records what happened, and the history's checker judges that. [`placement`] computes independently where
//! each key belongs.
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod asking;
mod batch;
mod capacity;
mod checkpoints;
mod clients;
mod cold_start;
mod cordoning;
mod crash;
mod deadline;
mod deployments;
mod dispatch;
mod ensure;
mod explaining;
mod faults;
mod granting;
mod hash_keys;
mod health;
mod history;
mod holding;
mod idle;
mod input;
mod inspecting;
mod joining;
mod levels;
mod life;
mod lifetime;
mod listing;
mod locate;
mod lost_replies;
#[path = "../metering/mod.rs"]
mod metering;
mod moves;
mod notify;
mod one_thread;
mod outage;
mod panic;
mod parking;
mod partial_loss;
mod paused;
mod pausing;
mod placement;
mod recorder;
mod refusals;
mod repairs;
mod restart;
mod retry;
mod rights;
mod rolling;
mod schedule;
mod server_loss;
mod settings;
mod shards;
mod shutdown;
mod stalling;
mod steering;
mod stop;
mod ticker;
mod typed;
mod updating;
mod updating_in_place;
mod versions;
mod waiting;
mod world;
