#![doc = include_str!("../README.md")]

mod builder;
mod core;
mod error;
mod handler;
pub mod id;
mod job;
mod listing;
pub mod member;
mod node;
pub mod record;
mod runtime;
mod service;
pub mod settings;
mod stop;
pub mod store;
mod ticket;
mod wire;
mod worker;

pub use builder::{Backend, FencePolicy, NodeBuilder};
pub use error::{BoxError, DispatchError, Error};
pub use handler::{JobHandler, Start, run};
pub use id::{DispatchId, JobKey, Token, WorkerId};
pub use job::Job;
pub use listing::{Cursor, JobInfo, Page, WorkerInfo};
pub use member::MemberState;
pub use node::{CloseReport, Node, ShutdownReport};
pub use record::JobState;
pub use runtime::lease::LeaseGuard;
pub use settings::Settings;
pub use stop::StopReason;
pub use store::MemoryStore;
pub use tenure_connection::Client;
pub use ticket::Ticket;
pub use worker::Worker;
