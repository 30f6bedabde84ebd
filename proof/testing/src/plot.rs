//! Curves as SVG, for measurements: panels side by side whose axes all start at 0, so that a flat curve looks flat.

use std::fmt::Write;

/// The space around a panel's curves: for the title above, for the numbers at the left, and for half a number at the
/// right.
const INSET: (f64, f64) = (64.0, 26.0);
const MARGIN: f64 = 28.0;
/// The approximate width of a digit.
const DIGIT: f64 = 6.5;
/// A curve of at most this many points marks them.
const FEW: usize = 12;
const HEAD: f64 = 34.0;
const COLORS: [&str; 4] = ["#1764ab", "#c8553d", "#3a7d44", "#7b4b94"];

/// One curve.
#[derive(Clone, Debug, Default)]
pub struct Curve {
    /// The curve's name; empty for the only one of its panel.
    pub name: String,
    /// Its points, from left to right.
    pub points: Vec<(f64, f64)>,
}

/// The scale of the numbers across a panel.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Across {
    /// From 0, evenly.
    #[default]
    Even,
    /// From 1, with decades of equal width.
    Decades,
}

/// Curves over the same numbers.
#[derive(Clone, Debug, Default)]
pub struct Panel {
    /// The title above it.
    pub title: String,
    /// The scale across it.
    pub across: Across,
    /// The numbers below it, from left to right; a number without room is left out.
    pub marks: Vec<f64>,
    /// The curves of the panel.
    pub curves: Vec<Curve>,
}

/// Panels in rows, all of one size.
#[derive(Clone, Copy, Debug)]
pub struct Sheet {
    /// The number of panels in a row.
    pub columns: usize,
    /// Width and height of a panel.
    pub panel: (f64, f64),
}

impl Sheet {
    /// Draws these panels under a title.
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
        let (width, height) = (self.panel.0 - INSET.0 - MARGIN, self.panel.1 - INSET.1 - 18.0);
        let bottom = top + height;
        let points = || panel.curves.iter().flat_map(|curve| &curve.points);
        let step = step(points().map(|point| point.1).fold(0.0, f64::max));
        let lines = points().map(|point| (point.1 / step).ceil()).fold(1.0, f64::max);
        let end = panel.place(points().map(|point| point.0).fold(1.0, f64::max)).max(f64::MIN_POSITIVE);
        let across = |number: f64| left + width * panel.place(number) / end;
        let up = |number: f64| bottom - height * number / (lines * step);
        let above = top - 10.0;
        let names = panel.curves.iter().zip(COLORS.iter().cycle());
        let names: Vec<_> = names
            .map(|(curve, color)| format!("<tspan fill=\"{color}\" dx=\"10\">{}</tspan>", curve.name))
            .collect();
        // Writing to a string does not fail.
        let _ = writeln!(
            svg,
            "<text x=\"{:.1}\" y=\"{above:.1}\">{}</text>\n\
             <text x=\"{:.1}\" y=\"{above:.1}\" text-anchor=\"end\">{}</text>",
            x + 12.0,
            panel.title,
            left + width,
            names.concat(),
        );
        for line in 0..=lines as usize {
            let number = step * line as f64;
            let (y, right) = (up(number), left + width);
            let shade = if line == 0 { "#999" } else { "#e4e4e4" };
            let _ = writeln!(
                svg,
                "<path d=\"M{left} {y:.1}H{right:.1}\" stroke=\"{shade}\"/>\n\
                 <text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"end\" fill=\"#555\">{}</text>",
                left - 6.0,
                y + 4.0,
                grouped(number),
            );
        }
        let mut free = f64::NEG_INFINITY;
        for &mark in &panel.marks {
            let (x, text) = (across(mark), grouped(mark));
            let half = DIGIT * text.len() as f64 / 2.0;
            if x - half < free {
                continue;
            }
            free = x + half;
            let y = bottom + 15.0;
            let _ = writeln!(
                svg,
                "<text x=\"{x:.1}\" y=\"{y:.1}\" text-anchor=\"middle\" fill=\"#555\">{text}</text>"
            );
        }
        for (curve, color) in panel.curves.iter().zip(COLORS.iter().cycle()) {
            let places: Vec<_> = curve.points.iter().map(|&(x, y)| (across(x), up(y))).collect();
            let line: Vec<_> = places.iter().map(|(x, y)| format!("{x:.1},{y:.1}")).collect();
            let _ = writeln!(
                svg,
                "<polyline points=\"{}\" fill=\"none\" stroke=\"{color}\" stroke-width=\"1.6\"/>",
                line.join(" ")
            );
            if places.len() <= FEW {
                for (x, y) in places {
                    let _ = writeln!(svg, "<circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"2.6\" fill=\"{color}\"/>");
                }
            }
        }
    }
}

impl Panel {
    /// The distance of a number from the left, in the panel's own units.
    fn place(&self, number: f64) -> f64 {
        match self.across {
            Across::Even => number,
            Across::Decades => number.max(1.0).log10(),
        }
    }
}

/// The smallest of 1, 2, 5, 10, 20, 50 … that `most` has at most five of.
fn step(most: f64) -> f64 {
    let least = if most > 0.0 { most / 5.0 } else { 1.0 };
    let magnitude = 10_f64.powf(least.log10().floor());
    let steps = [1.0, 2.0, 5.0].map(|step| step * magnitude);
    steps.into_iter().find(|&step| step >= least).unwrap_or(10.0 * magnitude)
}

/// A number in readable form: `50,000`, `0.2`.
fn grouped(number: f64) -> String {
    if number.abs() < 1_000.0 {
        return format!("{}", (number * 1e6).round() / 1e6);
    }
    let digits = format!("{number:.0}");
    let mut text = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn curve(points: &[(f64, f64)]) -> Curve {
        Curve { name: "a".into(), points: points.to_vec() }
    }

    fn svg(panel: Panel) -> String {
        Sheet { columns: 1, panel: (192.0, 144.0) }.svg("t", &[panel])
    }

    #[test]
    fn decades_are_equally_wide_and_all_curves_share_the_height() {
        let curves = vec![curve(&[(1.0, 0.0), (10.0, 1.0), (100.0, 2.0)]), curve(&[(1.0, 50.0)])];
        let panel = Panel { across: Across::Decades, marks: vec![10.0], curves, ..Panel::default() };
        let svg = svg(panel);
        assert!(svg.contains("points=\"64.0,160.0 114.0,158.0 164.0,156.0\""), "{svg}");
        assert!(svg.contains("points=\"64.0,60.0\"") && svg.contains(">50</text>"), "{svg}");
        assert!(svg.contains("<text x=\"114.0\" y=\"175.0\" text-anchor=\"middle\" fill=\"#555\">10</text>"));
    }

    #[test]
    fn lines_lie_at_round_numbers_up_to_the_first_above_all() {
        let svg = svg(Panel { curves: vec![curve(&[(0.0, 70_729.0), (1.0, 3.0)])], ..Panel::default() });
        for line in ["20,000", "40,000", "60,000", "80,000"] {
            assert!(svg.contains(&format!(">{line}</text>")), "{svg}");
        }
        assert!(!svg.contains(">100,000<"), "{svg}");
        for (most, is) in [(0.0, 1.0), (0.9, 0.2), (5.0, 1.0), (5.1, 2.0), (26.0, 10.0), (1e6, 200_000.0)] {
            assert!((step(most) - is).abs() < 1e-9, "{most}: {}", step(most));
        }
    }

    #[test]
    fn a_number_without_room_below_is_left_out() {
        let curves = vec![curve(&[(0.0, 1.0), (200_000.0, 1.0)])];
        let svg = svg(Panel { marks: vec![0.0, 10_000.0, 200_000.0], curves, ..Panel::default() });
        assert!(svg.contains(">200,000<") && !svg.contains(">10,000<"), "{svg}");
    }
}
