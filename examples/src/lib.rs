//! Runnable stories of Tenure.
//!
//! - [`feeds`]: one live connection per tenant, spread over nodes that come, go and crash; an outside judge watches.

pub mod feeds;
