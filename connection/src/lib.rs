#![doc = include_str!("../README.md")]

mod address;
mod admission;
mod backoff;
mod blocking;
mod client;
mod connection;
mod error;
mod frame;
mod link;
mod pipeline;
mod pulse;
mod request;
mod script;
mod server;
mod shared;
mod subscriber;
mod tls;
mod transport;
mod wire;

pub use admission::Admission;
pub use backoff::Backoff;
pub use blocking::Blocking;
pub use client::{Client, ClientBuilder};
pub use connection::Connection;
pub use error::Error;
pub use pipeline::Pipeline;
pub use script::{Call, Script};
pub use server::{ServerInfo, Version};
pub use subscriber::{Event, Message, Subscriber};
