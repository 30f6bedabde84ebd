//! Dedicated-worker pool on Redis: every job key has one worker, and moves safely.

mod core;
mod error;
pub mod id;
pub mod member;
pub mod record;
pub mod settings;
mod stop;
pub mod store;
mod ticket;

pub use error::{BoxError, DispatchError, Error};
pub use stop::StopReason;
pub use ticket::Ticket;
/// Stand-ins.
pub trait JobHandler {
    /// Stop.
    fn stop(&self);
}
/// Stand-in.
pub struct Node;
