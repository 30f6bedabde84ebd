//! The verdict of a soak on its samples.
#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::time::Duration;

use tenure_chaos::soak::{SERIES, Sample, growth, svg};

/// A sample every 10 s. `value` computes each value from the series' index and the sample's number.
fn samples(count: u64, value: impl Fn(usize, u64) -> f64) -> Vec<Sample> {
    let sample = |number| Sample {
        at: Duration::from_secs(10 * number),
        values: std::array::from_fn(|index| value(index, number)),
    };
    (0..count).map(sample).collect()
}

fn grown(samples: &[Sample]) -> Vec<String> {
    growth(samples, 12).iter().filter(|change| change.grows()).map(ToString::to_string).collect()
}

#[test]
fn a_wavering_series_is_flat_and_a_rising_one_is_not() {
    assert_eq!(grown(&samples(360, |_, number| 100.0 + (number % 7) as f64)), Vec::<String>::new());
    for (rising, series) in SERIES.iter().enumerate() {
        let value = |index, number| if index == rising { 1_000.0 + 3.0 * number as f64 } else { 1_000.0 };
        let grown = grown(&samples(360, value));
        assert!(grown.len() == 1 && grown[0].starts_with(series.name), "{grown:?}");
    }
}

#[test]
fn a_series_that_only_fills_up_at_the_beginning_is_flat() {
    let fills = |_, number: u64| 10_000.0 * (number.min(50) as f64) / 50.0;
    assert_eq!(grown(&samples(360, fills)), Vec::<String>::new());
}

#[test]
fn a_few_samples_are_not_judged() {
    assert!(growth(&samples(11, |_, number| number as f64), 12).is_empty());
    assert_eq!(growth(&samples(12, |_, number| number as f64), 12).len(), SERIES.len());
}

#[test]
fn the_plot_has_a_curve_for_each_series_within_its_panel() {
    let plot = svg("20 jobs", &samples(5, |index, number| (index as f64 + 1.0) * 37.0 * number as f64));
    assert_eq!(plot.matches("<polyline").count(), SERIES.len());
    for series in SERIES {
        assert!(plot.contains(series.title), "{}", series.title);
    }
    let first = plot.split("points=\"").nth(1).unwrap().split('"').next().unwrap();
    // 148 of 150 at the end of the first panel, whose curve is 86 high and begins at its foot.
    assert_eq!(
        (first.split(' ').next(), first.split(' ').next_back()),
        (Some("64.0,146.0"), Some("412.0,61.1"))
    );
}
