//! Figures of repeated runs.

use std::time::Duration;

/// The median of the values; 0 without values.
pub(crate) fn median(values: &[f64]) -> f64 {
    let mut values = values.to_vec();
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(0.0)
}

/// The value below which this share of the values lies; `None` without values.
pub(crate) fn percentile<T: Copy>(sorted: &[T], share: f64) -> Option<T> {
    let at = (sorted.len() as f64 * share) as usize;
    sorted.get(at.min(sorted.len().saturating_sub(1))).copied()
}

/// The duration below which this share of them lies, in ms.
pub(crate) fn percentile_ms(sorted: &[Duration], share: f64) -> f64 {
    percentile(sorted, share).map_or(0.0, |time| time.as_secs_f64() * 1e3)
}

/// A number as part of a figure's name: `200k` for 200,000.
pub(crate) fn short(number: u64) -> String {
    if number >= 1_000 && number.is_multiple_of(1_000) {
        format!("{}k", number / 1_000)
    } else {
        number.to_string()
    }
}

/// Rounded to three decimals, and below 1 to three significant digits: more would exceed the figures' precision.
pub(crate) fn rounded(value: f64) -> f64 {
    let zeros = (-value.abs().max(1e-12).log10()).floor().max(0.0);
    let scale = 10_f64.powf(3.0 + zeros);
    (value * scale).round() / scale
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_middle_and_the_shares() {
        assert_eq!((median(&[3.0, 1.0, 2.0]), median(&[])), (2.0, 0.0));
        let hundred: Vec<_> = (0..100).collect();
        assert_eq!([0.5, 0.99, 1.0].map(|share| percentile(&hundred, share)), [Some(50), Some(99), Some(99)]);
        assert_eq!(percentile::<u64>(&[], 0.5), None);
    }

    #[test]
    fn small_figures_do_not_become_zero() {
        let figures = [0.0, 117_321.123_49, 1.234_56, 0.5, 0.059_49, 0.000_312_345, -0.000_312_345];
        let shown = figures.map(|figure| rounded(figure).to_string());
        assert_eq!(shown, ["0", "117321.123", "1.235", "0.5", "0.0595", "0.000312", "-0.000312"]);
    }

    #[test]
    fn numbers_in_names_are_short() {
        assert_eq!([0, 1, 256, 1_000, 200_000, 1_500].map(short), ["0", "1", "256", "1k", "200k", "1500"]);
    }
}
