//! The command lines: wrong arguments and wrong input end with status 2, before anything is started.
#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::io::Write;
use std::process::{Command, Output, Stdio};

fn feeds(args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_feeds")).args(args).stdin(Stdio::null()).output().unwrap()
}

#[track_caller]
fn assert_refused(args: &[&str], why: &str) {
    let output = feeds(args);
    let complaint = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{complaint}");
    assert!(complaint.contains(why), "{complaint}");
    assert!(output.stdout.is_empty(), "nothing was begun");
}

#[test]
fn wrong_arguments_are_refused() {
    assert_refused(&[], "Usage");
    assert_refused(&["demo", "--store", "paper"], "possible values: redis, memory");
    assert_refused(&["demo", "--seed", "x"], "--seed");
    assert_refused(&["node", "--pool", "p", "--name", "n", "--feed", "nowhere"], "--feed");
}

#[test]
fn a_wrong_input_file_is_named_with_its_line() {
    let mut file = tempfile::NamedTempFile::new().unwrap();
    file.write_all(b"id,name,region,symbol\na,A,eu,AAA\nb,B\n").unwrap();
    let path = file.path().to_str().unwrap();
    assert_refused(&["demo", "--tenants", path], &format!("{path}:3: has 2 fields, expected 4"));
    assert_refused(&["demo", "--tenants", "/nowhere/t.csv"], "/nowhere/t.csv: cannot be read: No such file");
}

#[test]
fn a_story_that_fails_says_why_in_words_and_exits_with_1() {
    let unreachable = "redis did not complete the call: redis cannot be reached, the command was not sent: ";
    for (url, why) in [("http://here", "not a usable redis url"), ("redis://127.0.0.1:1", unreachable)] {
        let output = Command::new(env!("CARGO_BIN_EXE_map-config")).env("REDIS_URL", url).output().unwrap();
        let complaint = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{complaint}");
        assert!(complaint.starts_with(&format!("Error: {why}")), "{complaint}");
    }
}

#[test]
fn a_process_of_the_story_ends_with_its_parent() {
    let mut server = Command::new(env!("CARGO_BIN_EXE_feeds"))
        .arg("server")
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    drop(server.stdin.take());
    assert_eq!(server.wait().unwrap().code(), Some(3));
}
