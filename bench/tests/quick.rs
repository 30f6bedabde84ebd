//! Every scenario runs, and says in its last line what it promises. How fast anything is, no test asserts.
#![allow(clippy::unwrap_used)]

use std::process::{Command, Output};

use serde_json::{Map, Value};

/// What one of the loads that are called says of it.
const COSTS: [&str; 5] = ["p50_ms", "p99_ms", "floor_ratio", "redis_us_per_", "commands_per_"];

fn bench(args: &[&str]) -> Output {
    let output = Command::new(env!("CARGO_BIN_EXE_tenure-bench")).args(args).output().unwrap();
    assert!(output.status.success(), "{args:?}: {}", String::from_utf8_lossy(&output.stderr));
    output
}

/// The figures of a scenario at a small size.
fn figures(scenario: &str, more: &[&str]) -> Map<String, Value> {
    let args = [&[scenario, "--quick", "--json"], more].concat();
    let text = String::from_utf8(bench(&args).stdout).unwrap();
    let line: Value = serde_json::from_str(text.lines().last().unwrap()).unwrap();
    assert_eq!(line["scenario"], scenario);
    line.as_object().unwrap().clone()
}

/// All of these are there and more than nothing.
fn assert_measured(figures: &Map<String, Value>, names: &[&str]) {
    for &name in names {
        let value = figures.get(name).and_then(Value::as_f64);
        assert!(value.is_some_and(|value| value > 0.0), "{name} is {value:?}: {figures:?}");
    }
}

fn assert_costs(figures: &Map<String, Value>, suffix: &str, one: &str) {
    for cost in COSTS {
        let one = if cost.ends_with("per_") { one } else { "" };
        assert_measured(figures, &[&format!("{cost}{one}{suffix}")]);
    }
}

#[test]
fn dispatch_counts_jobs_beside_the_floor_with_jobs_held_and_without() {
    let figures = figures("dispatch", &["--runs", "2"]);
    for suffix in ["", "_1_caller", "_16_callers", "_256_callers", "_held_300", "_16_callers_held_300"] {
        assert_measured(&figures, &[&format!("jobs_per_s{suffix}"), &format!("jobs_per_s{suffix}_floor")]);
        assert_costs(&figures, suffix, "job");
    }
    let staged = ["staged_us_per_job", "staged_us_per_job_floor", "staged_ratio", "staged_jobs_per_s"];
    assert_measured(&figures, &staged);
    assert_measured(&figures, &["jobs_per_s_aof", "aof_ratio"]);
    let [least, most] = [0, 1].map(|at| figures["jobs_per_s_spread"][at].as_f64().unwrap());
    assert!(least <= most && figures["jobs_per_s"].as_f64().unwrap() >= least);
}

/// With what the other tests leave out: one that runs everything in turn, and what it writes.
#[test]
fn all_scenarios_are_written_to_a_folder() {
    let folder = tempfile::tempdir().unwrap();
    bench(&["all", "--quick", "--folder", folder.path().to_str().unwrap()]);
    let read = |name: &str| std::fs::read_to_string(folder.path().join(name)).unwrap();
    let results: Value = serde_json::from_str(&read("results.json")).unwrap();
    for scenario in
        ["dispatch", "stop", "notify", "failover", "rebalance", "deploy", "idle", "held", "rmap", "streaming"]
    {
        assert_eq!(results[scenario]["scenario"], scenario);
        assert!(read("results.md").contains(&format!("| {scenario} | median |")));
    }
    let machine = results["machine"].as_str().unwrap();
    assert!(machine.contains("cores of") && machine.contains(", Redis "), "{machine}");
    for plot in ["throughput.svg", "latency.svg"] {
        assert!(read(plot).matches("<polyline").count() >= 3, "{plot}");
    }
}

#[test]
fn requests_count_what_the_handlers_have_heard_of() {
    for (scenario, what, one) in [("stop", "stops", "stop"), ("notify", "notifications", "notification")] {
        let figures = figures(scenario, &["--unix"]);
        for suffix in ["", "_1_caller", "_16_callers"] {
            let names = [format!("delivered_per_s{suffix}"), format!("{what}_per_s{suffix}")];
            assert_measured(&figures, &names.each_ref().map(String::as_str));
            assert_costs(&figures, suffix, one);
        }
    }
}

#[test]
fn a_killed_process_and_a_drained_worker_lose_their_jobs_to_others() {
    let figures = figures("failover", &["--aof"]);
    assert_measured(&figures, &["jobs_killed_ttl_1s", "running_again_ms_ttl_1s", "moved_share_ttl_1s"]);
    assert_measured(&figures, &["jobs_drained", "drain_ms", "gap_p99_ms_drain"]);
    // A killed process's jobs are free only when its leases have run out.
    assert!(figures["running_again_ms_ttl_1s"].as_f64().unwrap() > 500.0);
}

#[test]
fn a_worker_that_comes_takes_its_share_and_nobody_else_moves() {
    let figures = figures("rebalance", &[]);
    assert_measured(&figures, &["moved_share", "settled_ms", "gap_p50_ms", "gap_p99_ms", "gap_max_ms"]);
    assert_eq!(figures["moved_to_others"].as_f64(), Some(0.0));
}

#[test]
fn a_deploy_moves_every_job() {
    let figures = figures("deploy", &[]);
    assert_measured(&figures, &["moves_per_job", "deploy_ms", "gap_p99_ms"]);
    assert_eq!(figures["not_moved"].as_f64(), Some(0.0));
}

#[test]
fn idle_and_held_say_what_jobs_take() {
    let idle = ["commands_per_s", "commands_per_s_without_jobs", "commands_per_s_4_nodes"];
    assert_measured(&figures("idle", &[]), &idle);
    assert_measured(&figures("held", &[]), &["redis_bytes_per_job"]);
}

#[test]
fn maps_and_streams_stand_beside_their_floors() {
    let map =
        ["set_per_s", "set_per_s_64_callers", "propagation_ms_p99", "join_2k_ms", "bytes_per_entry_floor"];
    assert_measured(&figures("rmap", &[]), &map);
    let stream = ["add_per_s", "add_per_s_64_callers", "sink_events_per_s_64_ackers", "wakeup_ms_p50_floor"];
    assert_measured(&figures("streaming", &[]), &stream);
}
