//! Scripts under their names and hashes, as a list in a file: no script changes by accident.
//!
//! A list has one line for each script: the name, and the SHA-1 of the text as Redis gets the text, without comment lines
//! and blank lines.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::Path;

use crate::mutants::WHOLE;

/// With this environment variable a check writes the list instead.
pub const RENEW: &str = "PIN";

/// Compares scripts, as names and texts, with the list in the file. With [`RENEW`] in the environment, the scripts become
/// the list.
///
/// A run with a script that is broken on purpose ([`WHOLE`]) is no change, and passes.
///
/// # Panics
/// Scripts differ from the list, or the file cannot be read or written. The message has the new lines.
pub fn check<'a>(list: &Path, scripts: impl IntoIterator<Item = (&'a str, &'a str)>) {
    if std::env::var_os(WHOLE).is_some() {
        return;
    }
    let found = pinned(scripts);
    if std::env::var_os(RENEW).is_some() {
        let written = std::fs::write(list, &found);
        return written.unwrap_or_else(|why| panic!("{} cannot be written: {why}", list.display()));
    }
    let pinned = std::fs::read_to_string(list);
    let pinned = pinned.unwrap_or_else(|why| panic!("{} cannot be read: {why}", list.display()));
    let changed = changes(&pinned, &found);
    assert!(
        changed.is_empty(),
        "{} differs from the scripts:\n{}\nIf the Lua changed on purpose, run this test once with {RENEW}=1, and commit \
         the list with the reason.",
        list.display(),
        changed.join("\n")
    );
}

/// The list of these scripts.
fn pinned<'a>(scripts: impl IntoIterator<Item = (&'a str, &'a str)>) -> String {
    let hashes: BTreeMap<_, _> = scripts.into_iter().map(|(name, text)| (name, hash(text))).collect();
    hashes.iter().fold(String::new(), |mut list, (name, hash)| {
        let _ = writeln!(list, "{name} {hash}");
        list
    })
}

/// The hash of a script's code.
fn hash(text: &str) -> String {
    let code = |line: &&str| !line.trim().is_empty() && !line.trim_start().starts_with("--");
    let code: String = text.lines().filter(code).flat_map(|line| [line, "\n"]).collect();
    redis::Script::new(&code).get_hash().to_owned()
}

/// The lines of either list that the other list lacks: `-` before lines that are gone, `+` before new lines.
fn changes(before: &str, after: &str) -> Vec<String> {
    let lacks = |list: &str, line: &str| list.lines().all(|other| other != line);
    let gone = before.lines().filter(|line| lacks(after, line)).map(|line| format!("- {line}"));
    let new = after.lines().filter(|line| lacks(before, line)).map(|line| format!("+ {line}"));
    gone.chain(new).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const SET: (&str, &str) = ("set", "#!lua\n-- Sets.\nlocal n = 1 -- one\n\n  return n\n");

    #[test]
    fn a_script_is_pinned_by_its_code() {
        let rewritten = ("set", "#!lua\n  -- Sets a number.\nlocal n = 1 -- one\n  return n\n");
        assert_eq!(pinned([SET]), pinned([rewritten]));
        for text in ["#!lua\nlocal n = 1 -- one\nreturn n\n", "#!lua\nlocal n = 2 -- one\n  return n\n"] {
            assert_ne!(pinned([SET]), pinned([("set", text)]), "{text}");
        }
        // printf '#!lua\nlocal n = 1 -- one\n  return n\n' | sha1sum
        assert_eq!(pinned([SET]), "set ac268559243f1abd7007a94d8e86d413c0334bbb\n");
    }

    #[test]
    fn changed_new_and_lost_scripts_are_listed() {
        let (get, del) = (("get", "return 1"), ("del", "return 2"));
        let before = pinned([get, SET]);
        assert!(changes(&before, &pinned([SET, get])).is_empty());
        let after = pinned([("get", "return 3"), del]);
        let lines: Vec<_> = changes(&before, &after).iter().map(|line| line[..5].to_owned()).collect();
        assert_eq!(lines, ["- get", "- set", "+ del", "+ get"]);
    }
}
