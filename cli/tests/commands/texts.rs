//! The texts that need no pool.

use snapbox::file;
use snapbox::str;

use crate::world::{printed, tenure};

#[test]
fn the_help_of_every_command_is_as_it_was() {
    tenure(["--help"]).assert().success().stdout_eq(file!["../help/tenure.txt"]);
    let help = printed(&tenure(["--help"]).assert());
    let commands =
        help.lines().skip_while(|line| *line != "Commands:").skip(1).take_while(|line| !line.is_empty());
    // A text that is too long for its line goes on in the next one, further to the right.
    let commands = commands.filter_map(|line| line.strip_prefix("  ")).filter(|line| !line.starts_with(' '));
    for command in commands.filter_map(|line| line.split_whitespace().next()) {
        let expected = snapbox::Data::read_from(
            &std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("tests/help/{command}.txt")),
            None,
        );
        tenure([command, "--help"]).assert().success().stdout_eq(expected);
    }
}

#[test]
fn the_version_is_said() {
    tenure(["version"]).assert().success().stdout_eq(str![[r#"
tenure 0.1.0 (JSON version 1)

"#]]);
}

#[test]
fn completions_and_pages_come_from_the_same_commands() {
    for shell in ["bash", "zsh", "fish"] {
        let script = printed(&tenure(["completions", shell]).assert().success());
        assert!(script.contains("shutdown"), "{shell}");
    }
    assert!(printed(&tenure(["man"]).assert().success()).contains("tenure\\-ls(1)"));
    let folder = tempfile::tempdir().unwrap();
    let into = folder.path().join("man").to_string_lossy().into_owned();
    tenure(["man", "--into", &into]).assert().success();
    assert!(folder.path().join("man/tenure-ctx-set.1").exists());
}
