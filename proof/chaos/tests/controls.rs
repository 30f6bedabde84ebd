//! Nodes that are broken on purpose: the judges must find them. A judge that finds nothing proves nothing.
#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::process::Command;

/// Runs nodes that are broken in this way until two handlers of a key meet, or a former owner starts after a later one.
/// How soon, and which of both comes first, depends on the machine.
fn is_found(broken: &str) {
    finds(broken, "180", &[" both ran from ", " started after "]);
}

/// Runs nodes that are broken in this way, for at most this number of seconds. The judges must say one of these.
fn finds(broken: &str, seconds: &str, says: &[&str]) {
    let arguments = ["controls", "--seconds", seconds, "--only", broken, "--seed", "1"];
    let output = Command::new(env!("CARGO_BIN_EXE_tenure-chaos")).args(arguments).output().unwrap();
    let (said, complained) =
        (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    let found = says.iter().any(|words| said.contains(words));
    assert!(output.status.success() && found, "{said}{complained}");
}

#[test]
fn a_worker_that_continues_after_its_lease_is_found() {
    is_found("no-self-fence");
}

#[test]
fn a_job_that_any_worker_may_begin_is_found() {
    is_found("begin-unchecked");
}

#[test]
fn a_job_handed_off_before_it_has_ended_is_found() {
    is_found("hand-off-before-stop");
}

#[test]
fn a_job_that_begins_without_its_checkpoint_is_found() {
    finds("checkpoints-forgotten", "15", &["was given 0"]);
}

#[test]
fn an_ask_that_is_handed_over_twice_is_found() {
    finds("doubtful-asks-sent-again", "180", &["was handed over "]);
}
