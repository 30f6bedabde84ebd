//! Every scenario runs, and its last line has the promised figures. No test asserts a speed.
#![allow(clippy::unwrap_used)]

use std::process::{Command, Output};

use serde_json::{Map, Value};

/// The figures of every load of calls.
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

/// Asserts that all of these exist and are above zero.
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
fn dispatch_reports_jobs_and_floor_with_and_without_held_jobs() {
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

#[test]
fn jobs_report_their_speed_and_their_cost() {
    let figures = figures("jobs", &[]);
    for slots in ["1", "16", "256", "1k"] {
        let names = [format!("jobs_per_s_{slots}_slots"), format!("redis_us_per_job_{slots}_slots")];
        assert_measured(&figures, &names.each_ref().map(String::as_str));
    }
    let others = [
        "group_jobs_per_s",
        "wakeup_ms_p50",
        "ping_ms_p50",
        "delayed_jobs_per_s",
        "redis_bytes_per_waiting_job",
    ];
    assert_measured(&figures, &others);
    assert!(figures.contains_key("idle_commands_per_s") && figures.contains_key("flow_redis_us_per_stage"));
}

/// Also covers the parts that the other tests leave out: the scenario that runs all in turn, and its files.
#[test]
fn all_scenarios_are_written_to_a_folder() {
    let folder = tempfile::tempdir().unwrap();
    bench(&["all", "--quick", "--folder", folder.path().to_str().unwrap()]);
    let read = |name: &str| std::fs::read_to_string(folder.path().join(name)).unwrap();
    let results: Value = serde_json::from_str(&read("results.json")).unwrap();
    for scenario in [
        "dispatch",
        "stop",
        "notify",
        "ask",
        "checkpoint",
        "failover",
        "rebalance",
        "deploy",
        "idle",
        "held",
        "rmap",
        "streaming",
        "sequence",
        "jobs",
    ] {
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
fn requests_count_the_calls_that_handlers_have_heard_of() {
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
fn asks_are_answered_also_while_their_jobs_move() {
    let figures = figures("ask", &["--unix"]);
    for suffix in ["", "_1_caller", "_16_callers"] {
        assert_measured(&figures, &[&format!("asks_per_s{suffix}")]);
        assert_costs(&figures, suffix, "ask");
    }
    assert_measured(&figures, &["p50_to_dispatch_1_caller", "drain_asks", "drain_worst_ms", "drain_ms"]);
    assert_eq!(figures["drain_unknown"].as_f64(), Some(0.0));
}

#[test]
fn checkpoints_are_kept_also_while_their_jobs_move() {
    let figures = figures("checkpoint", &["--unix"]);
    assert_measured(&figures, &["checkpoints_per_s", "redis_us_per_checkpoint"]);
    assert_measured(&figures, &["drain_ms", "drain_ms_without", "drain_redis_us_per_job"]);
}

#[test]
fn jobs_of_a_killed_process_and_a_drained_worker_run_again() {
    let figures = figures("failover", &["--aof"]);
    assert_measured(&figures, &["jobs_killed_ttl_1s", "running_again_ms_ttl_1s", "moved_share_ttl_1s"]);
    assert_measured(&figures, &["jobs_drained", "drain_ms", "gap_p99_ms_drain"]);
    // The jobs of a killed process are free only when its leases have run out.
    assert!(figures["running_again_ms_ttl_1s"].as_f64().unwrap() > 500.0);
}

#[test]
fn a_new_worker_takes_its_share_and_no_other_job_moves() {
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
fn idle_and_held_report_the_cost_of_jobs() {
    let idle = ["commands_per_s", "commands_per_s_without_jobs", "commands_per_s_4_nodes"];
    assert_measured(&figures("idle", &[]), &idle);
    assert_measured(&figures("held", &[]), &["redis_bytes_per_job"]);
}

#[test]
fn idle_fleets_report_what_a_second_costs() {
    let folder = tempfile::tempdir().unwrap();
    let of_both = figures("idle-fleets", &["--folder", folder.path().to_str().unwrap()]);
    assert!(folder.path().join("idle-fleets.md").exists());
    let names = ["redis_us_per_s", "commands_per_s"];
    for suffix in ["_2_nodes", "_6_nodes"] {
        assert_measured(
            &of_both,
            &names.map(|name| format!("{name}{suffix}")).each_ref().map(|name| &**name),
        );
        // The system counts the time of a process in ticks, and two idle nodes may take less than one.
        assert!(of_both[&format!("workers_us_per_s{suffix}")].is_number(), "{of_both:?}");
    }
    // Each of six nodes renews and looks at the others, as each of two does.
    assert!(of_both["commands_per_s_6_nodes"].as_f64() > of_both["commands_per_s_2_nodes"].as_f64());
    assert!(!figures("idle-fleets", &["--nodes", "6"]).contains_key("commands_per_s_2_nodes"));
}

#[test]
fn a_fleet_reports_its_loads_and_the_jobs_it_holds() {
    let folder = tempfile::tempdir().unwrap();
    let figures = figures("fleet", &["--folder", folder.path().to_str().unwrap()]);
    let written = std::fs::read_to_string(folder.path().join("fleet.json")).unwrap();
    let written: Value = serde_json::from_str(&written).unwrap();
    assert_eq!(written["fleet"].as_object(), Some(&figures));
    assert!(written["machine"].is_string() && folder.path().join("fleet.md").exists());
    for suffix in ["_2_nodes", "_6_nodes"] {
        assert_measured(&figures, &[&format!("jobs_per_s{suffix}")]);
        assert_costs(&figures, suffix, "job");
        assert_measured(&figures, &[&format!("scripts_per_job{suffix}")]);
        let offered = ["share_of_offered", "p99_ms", "redis_us_per_job"];
        assert_measured(
            &figures,
            &offered.map(|name| format!("{name}{suffix}_500_per_s")).each_ref().map(|n| &**n),
        );
    }
    assert_measured(&figures, &["held_fill_per_s", "held_redis_bytes_per_job"]);
    assert_measured(&figures, &["held_node_comes_moved_share", "held_node_goes_moved_share"]);
}

#[test]
fn maps_and_streams_are_reported_with_their_floors() {
    let map =
        ["set_per_s", "set_per_s_64_callers", "propagation_ms_p99", "join_2k_ms", "bytes_per_entry_floor"];
    assert_measured(&figures("rmap", &[]), &map);
    let stream = ["add_per_s", "add_per_s_64_callers", "sink_events_per_s_64_ackers", "wakeup_ms_p50_floor"];
    assert_measured(&figures("streaming", &[]), &stream);
}

#[test]
fn a_sequence_is_reported_beside_a_bare_loop() {
    let figures = figures("sequence", &[]);
    for concurrency in [1, 16, 256] {
        let name = format!("us_per_job_{concurrency}");
        assert_measured(&figures, &[&name, &format!("{name}_floor")]);
        assert!(figures.contains_key(&format!("overhead_{name}")));
    }
    assert_eq!(figures["hole_done_ahead"].as_f64(), Some(5_000.0));
    assert!(figures.contains_key("hole_bytes"));
}
