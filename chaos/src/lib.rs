//! Faults on real processes, judged; and a long run under load, measured. `README.md` says how to read what they say.
//!
//! - [`soak`] runs a pool for long, with little trouble, and says whether anything grows.
//! - [`bounds`] measures how soon the jobs of a node that crashes, or that is drained, run elsewhere.
//! - [`storm`] lets faults happen to a pool, one after the other, and judges what came of it.
//! - [`poison`] damages the keys of a living pool, beside a neighbour on the same server.
//! - [`node`] is the process that all are made of, [`broken`] how one is broken on purpose, and [`process`] how the
//!   conductor holds it. [`resource`] is the world outside that its jobs write to.

pub mod bounds;
pub mod broken;
pub mod cli;
mod handler;
pub mod node;
pub mod poison;
pub mod process;
pub mod resource;
pub mod soak;
pub mod storm;

use std::future::Future;
use std::time::{Duration, Instant};

/// What a run ends with when it cannot be carried out.
pub type Result<T> = std::result::Result<T, tenure_pool::BoxError>;

const POLL: Duration = Duration::from_millis(20);

/// Looks again and again until there is a value.
///
/// # Errors
/// There is none in time.
///
/// # Cancel safety
/// As `look`.
pub async fn within<T, F: Future<Output = Option<T>>>(
    time: Duration,
    what: &str,
    mut look: impl FnMut() -> F,
) -> Result<T> {
    let end = Instant::now() + time;
    loop {
        if let Some(value) = look().await {
            return Ok(value);
        }
        if Instant::now() >= end {
            return Err(format!("waited {} s in vain for {what}", time.as_secs()).into());
        }
        tokio::time::sleep(POLL).await;
    }
}
