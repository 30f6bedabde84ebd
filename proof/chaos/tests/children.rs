//! Programs that outlive their leases: the judges must find them. A judge that finds nothing proves nothing.
#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::process::Command;

#[test]
fn programs_that_outlive_their_leases_are_found() {
    let arguments = ["children", "--control", "--kind", "work", "--seed", "1"];
    let output = Command::new(env!("CARGO_BIN_EXE_tenure-chaos")).args(arguments).output().unwrap();
    let (said, complained) =
        (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.code() == Some(1) && complained.contains(" ran beside "), "{said}{complained}");
}
