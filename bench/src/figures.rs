//! Numbers of repeated runs, and how they are shown.

use std::time::Duration;

use serde_json::{Map, Value};

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

/// What was measured, in order, each with its floor: the same work with bare pipelined commands.
#[derive(Default)]
pub(crate) struct Report(Vec<(&'static str, f64, Option<f64>)>);

impl Report {
    /// A figure beside its floor.
    pub(crate) fn figure(&mut self, name: &'static str, value: f64, floor: f64) {
        self.0.push((name, value, Some(floor)));
    }

    /// A figure about the load itself.
    pub(crate) fn load(&mut self, name: &'static str, value: f64) {
        self.0.push((name, value, None));
    }

    /// One JSON line, the floor of `x` under `x_floor`, or a table.
    pub(crate) fn print(&self, as_json: bool) {
        if as_json {
            let mut line = Map::new();
            for (name, value, floor) in &self.0 {
                line.insert((*name).to_owned(), Value::from(rounded(*value)));
                if let Some(floor) = floor {
                    line.insert(format!("{name}_floor"), Value::from(rounded(*floor)));
                }
            }
            println!("{}", Value::Object(line));
            return;
        }
        println!("{:24} {:>12} {:>12} {:>8}", "", "measured", "floor", "ratio");
        for (name, value, floor) in &self.0 {
            match floor {
                Some(floor) => println!("{name:24} {value:12.3} {floor:12.3} {:8.2}", value / floor),
                None => println!("{name:24} {value:12.3}"),
            }
        }
    }
}

/// Three digits behind the point are more than these figures are worth.
fn rounded(value: f64) -> f64 {
    (value * 1e3).round() / 1e3
}
