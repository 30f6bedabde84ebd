//! The gateway's self-test, as a user runs it.
#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::process::Command;

#[test]
fn a_drain_and_a_kill_leave_no_request_without_its_owner() {
    let program = env!("CARGO_BIN_EXE_gateway");
    let output =
        Command::new(program).args(["--self-test", "--tenants", "100", "--clients", "4"]).output().unwrap();
    let said = String::from_utf8(output.stdout).unwrap();
    let complained = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}{complained}");
    let verdict: serde_json::Value = serde_json::from_str(said.lines().last().unwrap_or_default()).unwrap();
    for node in ["anna", "bert", "cleo"] {
        assert!(verdict["by_node"][node].as_u64().is_some_and(|answered| answered > 0), "{verdict}");
    }
}

#[test]
fn without_a_task_it_says_how_it_is_used() {
    let output = Command::new(env!("CARGO_BIN_EXE_gateway")).output().unwrap();
    assert_eq!(output.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&output.stderr).contains("--self-test"));
}
