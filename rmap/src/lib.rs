#![doc = include_str!("../README.md")]

mod error;
mod layout;
pub mod lua;
mod map;
mod mirror;
mod replica;
mod snapshot;
mod view;
mod wire;

pub use error::Error;
pub use layout::Layout;
pub use map::{Exchange, Map};
pub use replica::{Applied, Change, Replica};
pub use snapshot::Snapshot;
pub use view::View;
