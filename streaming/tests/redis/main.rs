//! Streams, readers and sinks on a real Redis.
#![allow(missing_docs, clippy::unwrap_used, clippy::expect_used)]

mod deployments;
mod faults;
mod mutants;
mod reader;
mod rights;
mod settings;
mod sink;
mod stream;
mod support;
