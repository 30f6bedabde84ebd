//! Connections to a real Redis, in one program: the tests mostly wait, and many can wait at once.
#![allow(missing_docs, clippy::unwrap_used, clippy::expect_used)]

mod admission;
mod blocking;
mod cluster;
mod commands;
mod cuts;
mod hurry;
mod pipeline;
mod rights;
mod sentinel;
mod subscriber;
mod tls;
