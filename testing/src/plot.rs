//! Curves as SVG, for those who measure: panels side by side, all of which start at 0, so that what looks flat is flat.

use std::fmt::Write;

/// Around the curves of a panel: room for the title above, and for the numbers at the left.
const INSET: (f64, f64) = (64.0, 26.0);
const HEAD: f64 = 34.0;
const COLORS: [&str; 4] = ["#1764ab", "#c8553d", "#3a7d44", "#7b4b94"];

/// One curve.
#[derive(Clone, Debug, Default)]
pub struct Curve {
    /// What it is; empty where its panel has no other.
    pub name: String,
    /// Its points, from left to right.
    pub points: Vec<(f64, f64)>,
}

/// How numbers lie across a panel.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Across {
    /// From 0, evenly.
    #[default]
    Even,
    /// From 1, each ten times as far as wide as the one before.
    Decades,
}

/// Curves over the same numbers.
#[derive(Clone, Debug, Default)]
pub struct Panel {
    /// What is above it.
    pub title: String,
    /// How the numbers lie across it.
    pub across: Across,
    /// Numbers that are written below it.
    pub marks: Vec<f64>,
    /// What it shows.
    pub curves: Vec<Curve>,
}

/// Panels in rows of so many, each so wide and high.
#[derive(Clone, Copy, Debug)]
pub struct Sheet {
    /// Panels in a row.
    pub columns: usize,
    /// Width and height of a panel.
    pub panel: (f64, f64),
}

impl Sheet {
    /// These panels under a title.
    pub fn svg(&self, title: &str, panels: &[Panel]) -> String {
        let rows = panels.len().div_ceil(self.columns);
        let (width, height) = (self.panel.0 * self.columns as f64, HEAD + self.panel.1 * rows as f64 + 8.0);
        let mut svg = format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {height}\" font-family=\"sans-serif\" \
             font-size=\"11\">\n<rect width=\"{width}\" height=\"{height}\" fill=\"white\"/>\n\
             <text x=\"12\" y=\"22\" font-size=\"15\">{title}</text>\n"
        );
        for (index, panel) in panels.iter().enumerate() {
            let (column, row) = (index % self.columns, index / self.columns);
            self.draw(&mut svg, (self.panel.0 * column as f64, HEAD + self.panel.1 * row as f64), panel);
        }
        svg + "</svg>\n"
    }

    fn draw(&self, svg: &mut String, (x, y): (f64, f64), panel: &Panel) {
        let (left, top) = (x + INSET.0, y + INSET.1);
        let (width, height) = (self.panel.0 - INSET.0 - 16.0, self.panel.1 - INSET.1 - 18.0);
        let bottom = top + height;
        let points = || panel.curves.iter().flat_map(|curve| &curve.points);
        let full = round_up(points().map(|point| point.1).fold(0.0, f64::max));
        let end = panel.place(points().map(|point| point.0).fold(1.0, f64::max)).max(f64::MIN_POSITIVE);
        let across = |number: f64| left + width * panel.place(number) / end;
        // Writing to a string does not fail.
        let _ = write!(
            svg,
            "<text x=\"{left}\" y=\"{:.1}\">{}</text>\n\
             <path d=\"M{left} {top}V{bottom}H{:.1}\" fill=\"none\" stroke=\"#999\"/>\n\
             <text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"end\" fill=\"#555\">{full}</text>\n\
             <text x=\"{:.1}\" y=\"{bottom:.1}\" text-anchor=\"end\" fill=\"#555\">0</text>\n",
            top - 7.0,
            panel.title,
            left + width,
            left - 6.0,
            top + 9.0,
            left - 6.0,
        );
        for &mark in &panel.marks {
            let (x, y) = (across(mark), bottom + 13.0);
            let _ = writeln!(
                svg,
                "<text x=\"{x:.1}\" y=\"{y:.1}\" text-anchor=\"middle\" fill=\"#555\">{mark}</text>"
            );
        }
        for (index, curve) in panel.curves.iter().enumerate() {
            let color = COLORS[index % COLORS.len()];
            let place = |&(x, y): &(f64, f64)| format!("{:.1},{:.1}", across(x), bottom - height * y / full);
            let places: Vec<_> = curve.points.iter().map(place).collect();
            let _ = writeln!(
                svg,
                "<polyline points=\"{}\" fill=\"none\" stroke=\"{color}\" stroke-width=\"1.3\"/>",
                places.join(" ")
            );
            if !curve.name.is_empty() {
                let (x, y) = (left + 8.0, top + 14.0 * (index + 1) as f64);
                let _ =
                    writeln!(svg, "<text x=\"{x:.1}\" y=\"{y:.1}\" fill=\"{color}\">{}</text>", curve.name);
            }
        }
    }
}

impl Panel {
    /// How far from the left a number lies, in units that are the panel's own.
    fn place(&self, number: f64) -> f64 {
        match self.across {
            Across::Even => number,
            Across::Decades => number.max(1.0).log10(),
        }
    }
}

/// The next number of the kind 1, 2, 5, 10, 20, 50 …
fn round_up(value: f64) -> f64 {
    let magnitude = 10_f64.powf(value.max(1.0).log10().floor());
    let steps = [1.0, 2.0, 5.0, 10.0];
    steps.map(|step| step * magnitude).into_iter().find(|&full| full >= value).unwrap_or(10.0 * magnitude)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn decades_are_equally_wide_and_all_curves_share_the_height() {
        let curve = |points: &[(f64, f64)]| Curve { name: "a".into(), points: points.to_vec() };
        let curves = vec![curve(&[(1.0, 0.0), (10.0, 1.0), (100.0, 2.0)]), curve(&[(1.0, 50.0)])];
        let panel = Panel { across: Across::Decades, marks: vec![10.0], curves, ..Panel::default() };
        let svg = Sheet { columns: 1, panel: (180.0, 144.0) }.svg("t", &[panel]);
        assert!(svg.contains("points=\"64.0,160.0 114.0,158.0 164.0,156.0\""), "{svg}");
        assert!(svg.contains("points=\"64.0,60.0\"") && svg.contains(">50</text>"), "{svg}");
        assert!(svg.contains("<text x=\"114.0\" y=\"173.0\" text-anchor=\"middle\" fill=\"#555\">10</text>"));
    }
}
