//! Nodes of background jobs that are broken on purpose: the judges must find them.
#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::process::Command;

fn finds(broken: &str, fault: &str, says: &str) {
    let arguments = ["jobs", "--minutes", "0.2", "--seed", "1", "--only", fault, "--control", broken];
    let output = Command::new(env!("CARGO_BIN_EXE_tenure-chaos")).args(arguments).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.code() == Some(1) && said.contains(says), "{said}");
}

#[test]
fn a_lost_lease_that_nobody_makes_up_for_is_found() {
    finds("lost-leases-forgotten", "kill", " is Running after ");
}

#[test]
fn executions_with_one_token_are_found() {
    finds("tokens-repeat", "pause", "writes were accepted of executions that had a follower");
}

#[test]
fn nodes_that_attest_nothing_after_a_loss_are_found() {
    finds("nothing-attested", "flush-all", " is gone, Plain, last run: ");
}

#[test]
#[ignore = "waits for the minute of grace after a loss: `make chaos-controls` runs it"]
fn nodes_that_do_not_tell_their_ends_again_are_found() {
    finds("journal-forgotten", "fail-over", " began after it had ended: ");
}

#[test]
fn a_cancelled_job_that_is_tried_again_is_found() {
    finds("cancels-forgotten", "kill", " began after it was cancelled: ");
}
