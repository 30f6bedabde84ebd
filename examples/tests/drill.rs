//! The figures of a rolling deploy and their bounds, and a small deploy of processes.
#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::process::Command;

use tenure_examples::drill::verdict::Verdict;
use tenure_testing::history::{Event, Expect, History, check};

const MS: u64 = 1_000_000;

fn start_of(token: u64) -> Event {
    Event::Started { key: "a".into(), token, worker: format!("w{token}") }
}

fn stop_of(token: u64) -> Event {
    Event::Stopped { key: "a".into(), token, worker: format!("w{token}") }
}

/// A job that is started at 1 s and moves after each of these gaps, in ms.
fn moved(gaps_ms: &[u64]) -> History {
    let history = History::new();
    history.record_at(0, Event::Accepted { key: "a".into() });
    let mut at = 1_000 * MS;
    history.record_at(at, start_of(1));
    for (token, gap) in (1..).zip(gaps_ms) {
        at += 5_000 * MS;
        history.record_at(at, stop_of(token));
        at += gap * MS;
        history.record_at(at, start_of(token + 1));
    }
    history
}

fn judged(history: &History) -> Verdict {
    Verdict::of(1, 10, &check(history, &Expect::default()))
}

#[test]
fn the_verdict_is_one_line_of_json() {
    let verdict = judged(&moved(&[12]));
    assert_eq!(verdict.faults(), Vec::<String>::new());
    assert_eq!(
        verdict.json(),
        r#"{"jobs":1,"deploys":10,"moves_per_job":1.0,"overlaps":0,"lost":0,"gap_ms_p50":12,"gap_ms_p99":12,"gap_ms_max":12}"#
    );
}

#[test]
fn each_exceeded_bound_is_a_fault() {
    assert_eq!(judged(&moved(&[1_000])).faults(), Vec::<String>::new());
    assert_eq!(judged(&moved(&[1_001])).faults(), ["a gap of 1001 ms, allowed are 1000"]);
    assert_eq!(judged(&moved(&[1, 1])).faults(), ["2 moves per job, allowed are 1.2"]);
    let lost = moved(&[]);
    lost.record_at(2_000 * MS, stop_of(1));
    assert_eq!(judged(&lost).faults(), ["1 jobs are lost"]);
    let twice = moved(&[]);
    twice.record_at(2_000 * MS, start_of(2));
    assert_eq!(judged(&twice).faults(), ["1 overlaps"]);
    let backwards = moved(&[]);
    backwards.record_at(2_000 * MS, stop_of(1));
    backwards.record_at(2_001 * MS, start_of(0));
    let faults = judged(&backwards).faults();
    assert!(faults.len() == 1 && faults[0].contains("started after"), "{faults:?}");
}

#[test]
fn a_small_deploy_of_processes_keeps_its_bound_of_moves() {
    let program = env!("CARGO_BIN_EXE_deploy-drill");
    let output = Command::new(program).args(["--jobs", "60", "--nodes", "3"]).output().unwrap();
    let said = String::from_utf8(output.stdout).unwrap();
    println!("{said}");
    let last = said.lines().last().unwrap_or_default();
    let figures: serde_json::Value = serde_json::from_str(last).unwrap_or_else(|error| {
        panic!("{error} in {said}; it complained: {}", String::from_utf8_lossy(&output.stderr))
    });
    assert_eq!([&figures["jobs"], &figures["deploys"]], [60, 3], "{last}");
    assert_eq!([&figures["overlaps"], &figures["lost"]], [0, 0], "{last}");
    // On a busy machine the gaps, and therefore the exit status, mean nothing.
    assert!(figures["moves_per_job"].as_f64().is_some_and(|moves| moves <= 1.2), "{last}");
}
