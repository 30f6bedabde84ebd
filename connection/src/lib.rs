#![doc = include_str!("../README.md")]

mod admission;
mod backoff;
mod blocking;
mod client;
mod connection;
mod error;
mod link;
mod script;
mod server;
mod subscriber;
mod transport;

pub use admission::Admission;
pub use backoff::Backoff;
pub use blocking::Blocking;
pub use client::{Client, ClientBuilder};
pub use connection::Connection;
pub use error::Error;
pub use script::{Call, Script};
pub use server::{ServerInfo, Version};
pub use subscriber::{Event, Message, Subscriber};
