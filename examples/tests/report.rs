//! The report: the line of JSON, and a fault for each forbidden event.
#![allow(clippy::unwrap_used, clippy::expect_used)]

use tenure_examples::feeds::report::{Change, Closing, Report, StepReport};
use tenure_examples::feeds::stats::Move;

fn moves(gaps_us: &[u64]) -> Vec<Move> {
    let to_move = |&gap_us: &u64| Move { tenant: "a".into(), from: "n1".into(), to: "n2".into(), gap_us };
    gaps_us.iter().map(to_move).collect()
}

fn good() -> Report {
    let step = |name, change, expected, gaps: &[u64]| StepReport {
        name,
        change,
        expected,
        connected: expected,
        moves: moves(gaps),
        fewest: gaps.len(),
    };
    Report {
        tenants: 3,
        steps: vec![
            step("submit", Change::None, 3, &[]),
            step("add", Change::HandOff, 3, &[1_000, 9_400]),
            step("kill", Change::Crash, 3, &[2_500_900]),
            step("stop", Change::None, 2, &[]),
        ],
        closing: Closing::default(),
        failures: vec![],
    }
}

#[test]
fn a_good_run_has_no_faults_and_says_so_in_one_line() {
    let report = good();
    assert_eq!(report.faults(), Vec::<String>::new());
    assert_eq!(
        report.json(),
        r#"{"tenants":3,"connected":3,"duplicates":0,"stale_tokens_accepted":0,"lost":0,"moved":3,"moved_minimum":3,"crash_gap_ms_p99":2501,"handoff_gap_ms_p99":9,"keys_left":0}"#
    );
    let table = report.to_string();
    let add = table.lines().find(|line| line.starts_with("add")).unwrap();
    let fields: Vec<_> = add.split_whitespace().collect();
    assert_eq!(fields, ["add", "3", "2", "2", "1.0", "9.4", "9.4"]);
}

#[test]
fn each_fault_is_named() {
    type Breakage = fn(&mut Report);
    let cases: [(&str, Breakage); 7] = [
        ("add: 2 tenants were connected, not 3", |r| r.steps[1].connected = 2),
        ("add: tenants moved 2 times where 1 would do", |r| r.steps[1].fewest = 1),
        ("tenants had two acting connections 1 times", |r| r.closing.duplicates = 1),
        ("1 messages with a stale token had an effect", |r| r.closing.stale_accepted = 1),
        ("1 accepted tenants were lost", |r| r.closing.lost = 1),
        ("the pool left 1 keys behind, such as jobs", |r| r.closing.keys_left.push("jobs".into())),
        ("add: waited for nothing", |r| r.failures.push("add: waited for nothing".into())),
    ];
    for (fault, break_it) in cases {
        let mut report = good();
        break_it(&mut report);
        assert_eq!(report.faults(), [fault]);
    }
}

#[test]
fn tenants_missing_after_a_step_are_missing_in_the_sum() {
    let mut report = good();
    report.steps[2].connected = 1;
    report.steps[3].connected = 1;
    assert!(report.json().contains(r#""connected":1,"#));
    report.steps.clear();
    assert!(report.json().contains(r#""connected":0,"#));
}
