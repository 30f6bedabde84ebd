//! One live connection per tenant.
//!
//! ```text
//!  tenants.csv ─► conductor ──submit, stop, notify──► pool ◄──join── node-1 … node-4, two workers each
//!                     │  starts, drains, kills ─────────────────────►  │ one connection per job, with its token
//!                     └──── marks, stats ───► feed server, the judge ◄─┘
//! ```
//!
//! The feed server knows nothing of the pool. It sees connections, tokens and heartbeats, and from these alone it says
//! whether a tenant ever had two connections that both acted, and how long each change of hands took. The conductor
//! takes the pool through its life and compares what the pool says with what the judge saw.

pub mod judge;
pub mod link;
pub mod report;
pub mod server;
pub mod session;
pub mod stats;
pub mod tenants;
pub mod wire;
