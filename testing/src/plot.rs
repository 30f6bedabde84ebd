//! Curves as SVG, for those who measure: panels side by side, all of which start at 0, so that what looks flat is flat.

use std::fmt::Write;

/// Around the curves of a panel: room for the title above, for the numbers at the left, and for half a number at the
/// right.
const INSET: (f64, f64) = (64.0, 26.0);
const MARGIN: f64 = 28.0;
/// How wide a digit is, about.
const DIGIT: f64 = 6.5;
/// A curve of at most so many points shows them.
const FEW: usize = 12;
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
    /// Numbers that are written below it, from left to right; one that has no room is left out.
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
    /// How far from the left a number lies, in units that are the panel's own.
    fn place(&self, number: f64) -> f64 {
        match self.across {
            Across::Even => number,
            Across::Decades => number.max(1.0).log10(),
        }
    }
}

/// A number of the kind 1, 2, 5, 10, 20, 50 … that `most` has at most five of.
fn step(most: f64) -> f64 {
    let least = if most > 0.0 { most / 5.0 } else { 1.0 };
    let magnitude = 10_f64.powf(least.log10().floor());
    let steps = [1.0, 2.0, 5.0].map(|step| step * magnitude);
    steps.into_iter().find(|&step| step >= least).unwrap_or(10.0 * magnitude)
}

/// A number as it is read: `50,000`, `0.2`.
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
    fn lines_lie_at_round_numbers_up_to_the_first_that_is_above_all() {
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
    fn a_number_that_has_no_room_below_is_left_out() {
        let curves = vec![curve(&[(0.0, 1.0), (200_000.0, 1.0)])];
        let svg = svg(Panel { marks: vec![0.0, 10_000.0, 200_000.0], curves, ..Panel::default() });
        assert!(svg.contains(">200,000<") && !svg.contains(">10,000<"), "{svg}");
    }
}
