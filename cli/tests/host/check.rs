//! `tenure host --check`: the SDKs pass, and a host with one thing broken fails where it is broken.

use std::process::Stdio;

use futures::future::join_all;
use serde_json::Value;
use tokio::process::Command;

use super::world::{project, python};

/// The names of the scenarios that fail, and the exit status.
async fn failures(only: Option<&str>, command: &[String]) -> (Vec<String>, Option<i32>) {
    let folder = tempfile::tempdir().unwrap();
    let mut check = Command::new(snapbox::cmd::cargo_bin!("tenure"));
    check.args(["host", "--check", "-o", "jsonl", "--log-level", "error"]);
    if let Some(only) = only {
        check.args(["--only", only]);
    }
    check.arg("--").args(command).env("TMPDIR", folder.path()).env_remove("XDG_RUNTIME_DIR");
    let output =
        check.stdin(Stdio::null()).stderr(Stdio::inherit()).kill_on_drop(true).output().await.unwrap();
    let lines = String::from_utf8(output.stdout).unwrap();
    let lines = lines.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    let failed = lines.filter(|line| line["passed"] == false);
    (failed.map(|line| line["scenario"].as_str().unwrap().to_owned()).collect(), output.status.code())
}

#[tokio::test]
async fn the_sdk_for_python_keeps_to_the_protocol() {
    assert_eq!(failures(None, &python()).await, (vec![], Some(0)));
}

#[tokio::test]
async fn a_broken_host_fails_where_it_is_broken() {
    let broken = project().join("cli/tests/host/broken.py");
    let cases = [
        ("says started twice", "starts a job"),
        ("never pongs", "answers pings"),
        ("forgets the sdk", "says hello first, with the version"),
        ("acks one too high", "acknowledges a notification after its work"),
        ("acks at once", "acknowledges a notification after its work"),
        ("spoils bytes", "gets a payload of bytes"),
        ("drops the last state", "leaves a state when a job is stopped"),
        ("leaves any state", "leaves no state that is longer than the pool keeps"),
        ("passes over bounds", "leaves no state that is longer than the pool keeps"),
        ("dies of lost states", "hears that a state it has left is not kept"),
        ("stops twice", "stops a job"),
        ("ignores stops", "stops a job"),
        ("fails on unknown words", "passes over words that it does not know"),
        ("answers after the end", "answers for a job before its last word, or not at all"),
        ("trusts late leases", "goes by the clock when a renewal comes late"),
        ("ignores leases", "ends the jobs of a lease that is over, and no others"),
        ("stays after bye", "ends with status 0 when there is nothing more to do"),
    ];
    let play = async |what: &str, scenario: &str| {
        let command = ["python3".to_owned(), broken.display().to_string(), what.to_owned()];
        let (failed, status) = failures(Some(scenario), &command).await;
        assert!(failed.iter().any(|it| it == scenario), "{what}: {failed:?}");
        assert_eq!(status, Some(8), "{what}");
        // It is otherwise whole.
        let (failed, status) = failures(Some("fails a start"), &command).await;
        assert_eq!((failed, status), (vec![], Some(0)), "{what}");
    };
    // At once: most of them wait.
    join_all(cases.map(|(what, scenario)| play(what, scenario))).await;
}

#[tokio::test]
async fn a_program_that_is_no_host_fails_every_scenario() {
    let (failed, status) = failures(Some("ping"), &["true".to_owned()]).await;
    assert_eq!((failed.len(), status), (2, Some(8)));
}

#[tokio::test]
async fn a_scenario_that_does_not_exist_is_wrong_usage() {
    assert_eq!(failures(Some("no such"), &["true".to_owned()]).await, (vec![], Some(2)));
}
