//! A plot of all series, one panel each, as SVG.

use std::fmt::Write;

use super::sample::{SERIES, Sample};

const COLUMNS: usize = 2;
const PANEL: (f64, f64) = (440.0, 130.0);
/// Around the curve of a panel: room for the title above, and for the numbers at the left.
const INSET: (f64, f64) = (64.0, 26.0);
const HEAD: f64 = 34.0;

/// The curves of these samples. Every panel starts at 0, so that what looks flat is flat.
pub fn svg(title: &str, samples: &[Sample]) -> String {
    let rows = SERIES.len().div_ceil(COLUMNS);
    let (width, height) = (PANEL.0 * COLUMNS as f64, HEAD + PANEL.1 * rows as f64 + 8.0);
    let minutes = samples.last().map_or(0.0, |sample| sample.at.as_secs_f64() / 60.0);
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {height}\" font-family=\"sans-serif\" \
         font-size=\"11\">\n<rect width=\"{width}\" height=\"{height}\" fill=\"white\"/>\n\
         <text x=\"12\" y=\"22\" font-size=\"15\">{title}, {minutes:.0} minutes</text>\n"
    );
    for (index, series) in SERIES.iter().enumerate() {
        let (x, y) = (PANEL.0 * (index % COLUMNS) as f64, HEAD + PANEL.1 * (index / COLUMNS) as f64);
        panel(&mut svg, (x, y), series.title, samples, index);
    }
    svg + "</svg>\n"
}

fn panel(svg: &mut String, (x, y): (f64, f64), title: &str, samples: &[Sample], index: usize) {
    let (left, top) = (x + INSET.0, y + INSET.1);
    let (width, height) = (PANEL.0 - INSET.0 - 16.0, PANEL.1 - INSET.1 - 18.0);
    let bottom = top + height;
    let highest = samples.iter().map(|sample| sample.values[index]).fold(0.0, f64::max);
    let full = round_up(highest);
    let end = samples.last().map_or(1.0, |sample| sample.at.as_secs_f64()).max(1.0);
    let points: Vec<_> = samples
        .iter()
        .map(|sample| {
            let across = left + width * sample.at.as_secs_f64() / end;
            format!("{across:.1},{:.1}", bottom - height * sample.values[index] / full)
        })
        .collect();
    // Writing to a string does not fail.
    let _ = write!(
        svg,
        "<text x=\"{left}\" y=\"{:.1}\">{title}</text>\n\
         <path d=\"M{left} {top}V{bottom}H{:.1}\" fill=\"none\" stroke=\"#999\"/>\n\
         <text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"end\" fill=\"#555\">{full}</text>\n\
         <text x=\"{:.1}\" y=\"{bottom:.1}\" text-anchor=\"end\" fill=\"#555\">0</text>\n\
         <polyline points=\"{}\" fill=\"none\" stroke=\"#1764ab\" stroke-width=\"1.3\"/>\n",
        top - 7.0,
        left + width,
        left - 6.0,
        top + 9.0,
        left - 6.0,
        points.join(" "),
    );
}

/// The next number of the kind 1, 2, 5, 10, 20, 50 …
fn round_up(value: f64) -> f64 {
    let magnitude = 10_f64.powf(value.max(1.0).log10().floor());
    let steps = [1.0, 2.0, 5.0, 10.0];
    steps.map(|step| step * magnitude).into_iter().find(|&full| full >= value).unwrap_or(10.0 * magnitude)
}
