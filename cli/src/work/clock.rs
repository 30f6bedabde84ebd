//! The clock of leases: time since boot, sleep included, so that a suspended machine knows how long it was away.

/// Milliseconds since boot.
pub(crate) fn now() -> u64 {
    u64::try_from(tenure_connection::since_boot().as_millis()).unwrap_or(u64::MAX)
}
