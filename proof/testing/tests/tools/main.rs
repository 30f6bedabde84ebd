//! Tests of the tools that tests use.
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod cluster;
mod fetching;
mod history;
mod inspect;
mod proxy;
mod sentinels;
mod server;
mod tls;
mod wait;
