//! The figures of a scenario, and their form.

use std::fmt::Write;

use serde_json::{Map, Value, json};

use crate::figures::{median, rounded};

/// The figures of one scenario, in order.
#[derive(Debug)]
pub(crate) struct Report {
    pub(crate) scenario: &'static str,
    figures: Vec<Figure>,
}

#[derive(Debug)]
struct Figure {
    name: String,
    /// One value for each repetition.
    values: Vec<f64>,
    /// The floor of the same server in the same minute, one for each repetition.
    floor: Option<Vec<f64>>,
}

impl Report {
    pub(crate) fn new(scenario: &'static str) -> Self {
        Self { scenario, figures: Vec::new() }
    }

    /// Adds a figure with its repetitions.
    pub(crate) fn figure(&mut self, name: impl Into<String>, values: Vec<f64>) {
        self.figures.push(Figure { name: name.into(), values, floor: None });
    }

    /// Adds a figure with its floor.
    pub(crate) fn beside(&mut self, name: impl Into<String>, values: Vec<f64>, floor: Vec<f64>) {
        self.figures.push(Figure { name: name.into(), values, floor: Some(floor) });
    }

    /// The median of a figure.
    pub(crate) fn median(&self, name: &str) -> Option<f64> {
        self.figures.iter().find(|figure| figure.name == name).map(|figure| median(&figure.values))
    }

    /// The median of a figure `x` under `x`, the least and most of several under `x_spread`, the floor's median under
    /// `x_floor`.
    pub(crate) fn json(&self) -> Value {
        let mut line = Map::new();
        line.insert("scenario".into(), self.scenario.into());
        for Figure { name, values, floor } in &self.figures {
            line.insert(name.clone(), rounded(median(values)).into());
            if values.len() > 1 {
                let (least, most) = spread(values);
                line.insert(format!("{name}_spread"), json!([rounded(least), rounded(most)]));
            }
            if let Some(floor) = floor {
                line.insert(format!("{name}_floor"), rounded(median(floor)).into());
            }
        }
        Value::Object(line)
    }

    /// The figures as a Markdown table.
    pub(crate) fn table(&self) -> String {
        let mut table = format!(
            "| {} | median | least | most | floor | ratio |\n|---|---:|---:|---:|---:|---:|\n",
            self.scenario
        );
        for Figure { name, values, floor } in &self.figures {
            let (least, most) = spread(values);
            let middle = median(values);
            let floor = floor.as_ref().map(|floor| median(floor));
            let [floor, ratio] =
                floor.map_or([String::new(), String::new()], |floor| [shown(floor), shown(middle / floor)]);
            // Writing to a string does not fail.
            let _ = writeln!(
                table,
                "| {name} | {} | {} | {} | {floor} | {ratio} |",
                shown(middle),
                shown(least),
                shown(most)
            );
        }
        table
    }

    /// Prints one JSON line, or the table.
    pub(crate) fn print(&self, as_json: bool) {
        if as_json {
            println!("{}", self.json());
        } else {
            println!("{}", self.table());
        }
    }
}

fn spread(values: &[f64]) -> (f64, f64) {
    let least = values.iter().copied().fold(f64::INFINITY, f64::min);
    let most = values.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    if values.is_empty() { (0.0, 0.0) } else { (least, most) }
}

/// The value with its significant digits.
fn shown(value: f64) -> String {
    match value.abs() {
        1_000.0.. => format!("{value:.0}"),
        10.0.. => format!("{value:.1}"),
        _ => format!("{value:.3}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_figure_is_shown_with_its_spread_and_its_floor() {
        let mut report = Report::new("adding");
        report.beside("adds_per_s", vec![3_000.0, 1_000.0, 2_000.0], vec![4_000.0]);
        report.figure("p50_ms", vec![0.5]);
        let line = r#"{"adds_per_s":2000.0,"adds_per_s_floor":4000.0,"adds_per_s_spread":[1000.0,3000.0],"p50_ms":0.5,"scenario":"adding"}"#;
        assert_eq!(report.json().to_string(), line);
        assert!(report.table().ends_with(
            "| adds_per_s | 2000 | 1000 | 3000 | 4000 | 0.500 |\n| p50_ms | 0.500 | 0.500 | 0.500 |  |  |\n"
        ));
    }
}
