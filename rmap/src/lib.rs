#![doc = include_str!("../README.md")]

mod builder;
mod clock;
mod copy;
mod error;
mod followed;
mod layout;
pub mod lua;
mod map;
mod mirror;
#[cfg_attr(not(feature = "sim"), allow(unreachable_pub))]
mod mutation;
mod raw;
mod replica;
mod snapshot;
mod tree;
mod view;
mod watcher;
mod wire;

pub use builder::{Builder, Expiry};
pub use error::Error;
pub use layout::Layout;
pub use map::{Map, ValueWatcher};
#[cfg(feature = "sim")]
#[doc(hidden)]
pub use mutation::{Mutation, Mutations};
pub use raw::{Exchange, RawMap};
pub use snapshot::{Entries, Entry, Place, Snapshot};
pub use view::View;
pub use watcher::{KeyWatcher, Watcher};
