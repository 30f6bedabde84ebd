//! A plot of all series, one panel each, as SVG.

use tenure_testing::plot::{Curve, Panel, Sheet};

use super::sample::{SERIES, Sample};

const SHEET: Sheet = Sheet { columns: 2, panel: (440.0, 130.0) };

/// The curves of these samples, over the time.
pub fn svg(title: &str, samples: &[Sample]) -> String {
    let minutes = samples.last().map_or(0.0, |sample| sample.at.as_secs_f64() / 60.0);
    let panel = |(index, series): (usize, &super::Series)| {
        let point = |sample: &Sample| (sample.at.as_secs_f64(), sample.values[index]);
        let curve = Curve { name: String::new(), points: samples.iter().map(point).collect() };
        Panel { title: series.title.to_owned(), curves: vec![curve], ..Panel::default() }
    };
    let panels: Vec<_> = SERIES.iter().enumerate().map(panel).collect();
    SHEET.svg(&format!("{title}, {minutes:.0} minutes"), &panels)
}
