//! One live connection per tenant.
//!
//! ```text
//!  tenants.csv ─► conductor ──submit, stop, notify──► pool ◄──join── node-1 … node-4, two workers each
//!                     │  starts, drains, kills ─────────────────────►  │ one connection per job, with its token
//!                     └──── marks, stats ───► feed server, the judge ◄─┘
//! ```
//!
//! The feed server knows nothing of the pool. It sees connections, tokens and heartbeats. From these alone it decides
//! whether a tenant ever had two connections that both acted, and how long each change of hands took. The conductor
//! takes the pool through its life, and compares the pool's answers with the judge's observations.

pub mod attendance;
pub mod cli;
pub mod conductor;
pub mod failed;
pub mod fleet;
pub mod handler;
pub mod judge;
pub mod keyspace;
pub mod link;
pub mod node;
pub mod progress;
pub mod report;
pub mod server;
pub mod session;
pub mod stage;
pub mod stats;
pub mod step;
pub mod story;
pub mod subscription;
pub mod tenants;
pub mod view;
pub mod wire;
