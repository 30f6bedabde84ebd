//! Runnable stories of Tenure.
//!
//! - [`feeds`]: one live connection per tenant, spread over nodes that come, go and crash; an outside judge watches.

pub mod feeds;

/// The programs in the project's README compile.
#[cfg(doctest)]
#[doc = include_str!("../../README.md")]
pub struct Readme;
