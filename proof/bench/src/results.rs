//! The results of all scenarios as files: a table, the figures as JSON, and plots.

use std::fs;
use std::path::Path;

use serde_json::{Map, Value};
use tenure_testing::plot::{Across, Curve, Panel, Sheet};

use crate::Error;
use crate::report::Report;

const SHEET: Sheet = Sheet { columns: 2, panel: (440.0, 240.0) };
/// The loads of the scenario `dispatch`: the suffix of a figure's name, and the number of callers.
const CALLERS: [(&str, f64); 4] =
    [("_1_caller", 1.0), ("_16_callers", 16.0), ("_256_callers", 256.0), ("", 1_000.0)];
/// The held jobs of that scenario: the suffix, and their number.
const HELD: [(&str, f64); 4] = [("", 0.0), ("_held_10k", 1e4), ("_held_50k", 5e4), ("_held_200k", 2e5)];

/// Writes all files.
pub(crate) fn write(folder: &Path, machine: &str, reports: &[Report]) -> Result<(), Error> {
    figures(folder, "results", machine, reports)?;
    if let Some(dispatch) = reports.iter().find(|report| report.scenario == "dispatch") {
        fs::write(folder.join("throughput.svg"), throughput(machine, dispatch))?;
        fs::write(folder.join("latency.svg"), latency(machine, dispatch))?;
    }
    Ok(())
}

/// Writes the figures of one scenario: a table and JSON, named after it.
pub(crate) fn write_one(folder: &Path, machine: &str, report: &Report) -> Result<(), Error> {
    figures(folder, report.scenario, machine, std::slice::from_ref(report))
}

/// Writes figures as a table and as JSON.
fn figures(folder: &Path, name: &str, machine: &str, reports: &[Report]) -> Result<(), Error> {
    fs::create_dir_all(folder)?;
    let mut figures = Map::new();
    figures.insert("machine".into(), machine.into());
    figures.extend(reports.iter().map(|report| (report.scenario.to_owned(), report.json())));
    let json = serde_json::to_string_pretty(&Value::Object(figures))? + "\n";
    fs::write(folder.join(name).with_extension("json"), json)?;
    let tables: Vec<_> = reports.iter().map(Report::table).collect();
    let title =
        format!("# Benchmarks\n\nOn {machine}. Medians, with the least and the most of all repetitions.\n\n");
    fs::write(folder.join(name).with_extension("md"), title + &tables.join("\n"))?;
    Ok(())
}

/// The jobs in a second, by the number of held jobs.
fn throughput(machine: &str, dispatch: &Report) -> String {
    let over_held = |what: &str, callers: &str, name: &str| {
        let places = HELD.map(|(held, jobs)| (format!("{what}{callers}{held}"), jobs));
        curve(dispatch, name, &places)
    };
    let panel = |title: &str, what: &str| Panel {
        title: title.to_owned(),
        marks: HELD.map(|held| held.1).to_vec(),
        curves: vec![over_held(what, "", "1000 callers"), over_held(what, "_16_callers", "16 callers")],
        ..Panel::default()
    };
    let panels = [
        panel("jobs started in a second, over jobs held", "jobs_per_s"),
        panel("CPU of Redis for a job, in µs, over jobs held", "redis_us_per_job"),
    ];
    SHEET.svg(machine, &panels)
}

/// The time until a job is started, by the number of callers.
fn latency(machine: &str, dispatch: &Report) -> String {
    let over_callers = |what: &str, name: &str| {
        curve(dispatch, name, &CALLERS.map(|(suffix, callers)| (format!("{what}{suffix}"), callers)))
    };
    let panel = |title: &str, curves| Panel {
        title: title.to_owned(),
        across: Across::Decades,
        marks: CALLERS.map(|callers| callers.1).to_vec(),
        curves,
    };
    let panels = [
        panel(
            "until a job is started, in ms, over callers",
            vec![over_callers("p50_ms", "p50"), over_callers("p99_ms", "p99")],
        ),
        panel("jobs started in a second, over callers", vec![over_callers("jobs_per_s", "")]),
    ];
    SHEET.svg(machine, &panels)
}

/// A curve through the existing medians.
fn curve(report: &Report, name: &str, places: &[(String, f64)]) -> Curve {
    let points = places.iter().filter_map(|(figure, across)| Some((*across, report.median(figure)?)));
    Curve { name: name.to_owned(), points: points.collect() }
}
