//! Numbers of repeated runs.

use std::time::Duration;

/// The middle of the values; 0 of none.
pub(crate) fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(0.0)
}

/// The value below which this share of the durations lies, in ms.
pub(crate) fn percentile_ms(sorted: &[Duration], share: f64) -> f64 {
    let at = (sorted.len() as f64 * share) as usize;
    sorted.get(at.min(sorted.len().saturating_sub(1))).map_or(0.0, |d| d.as_secs_f64() * 1e3)
}
