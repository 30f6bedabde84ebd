#![doc = include_str!("../README.md")]

mod address;
mod ask;
mod binary;
mod builder;
mod child;
pub mod cluster;
mod describe;
mod endpoint;
mod error;
mod guard;
pub mod history;
mod inspect;
mod lines;
pub mod logging;
pub mod mutants;
pub mod pins;
pub mod plot;
mod port;
pub mod proxy;
pub mod sentinels;
mod server;
pub mod tls;
mod wait;

pub use builder::Builder;
pub use child::{ChildProcess, end_with_parent};
pub use cluster::Cluster;
pub use describe::{Failure, describe};
pub use endpoint::Endpoint;
pub use error::Error;
pub use inspect::Connected;
pub use lines::Lines;
pub use proxy::Proxy;
pub use sentinels::Sentinels;
pub use server::{Data, RedisServer};
pub use wait::{Outcome, eventually, within};
