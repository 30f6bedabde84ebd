//! Waits for a condition that should hold soon.

use std::error::Error;
use std::time::{Duration, Instant};

use tokio::time::sleep;

/// Long enough for the slowest machine.
const PATIENCE: Duration = Duration::from_secs(30);
const POLL: Duration = Duration::from_millis(20);

/// Looks again and again until the condition holds.
///
/// # Errors
/// The condition does not hold within 30 s, or cannot be checked.
///
/// # Cancel safety
/// As `holds`.
pub async fn until(
    what: &str,
    mut holds: impl AsyncFnMut() -> Result<bool, Box<dyn Error>>,
) -> Result<(), Box<dyn Error>> {
    let end = Instant::now() + PATIENCE;
    while !holds().await? {
        if Instant::now() >= end {
            return Err(format!("waited {} s in vain for {what}", PATIENCE.as_secs()).into());
        }
        sleep(POLL).await;
    }
    Ok(())
}
