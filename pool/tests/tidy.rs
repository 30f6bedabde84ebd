//! The house rules that no lint checks: the core stays pure, and no file grows long.
#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::fs;
use std::path::{Path, PathBuf};

/// The core must not name these: clocks, randomness, the runtime, the network, logs, and types without a fixed order.
const IMPURE: [&str; 8] =
    ["tokio", "redis", "tracing", "std::time::Instant", "SystemTime", "HashMap", "HashSet", "rand"];

/// The folders and files of the pool, from the bottom: each imports only those before it.
const LAYERS: [&str; 9] = ["model", "store", "error", "core", "clock", "job", "runtime", "api", "proof"];

/// The longest file outside tests, in lines.
const LONGEST: usize = 500;

fn rust_files(folder: &Path, into: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            rust_files(&path, into);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            into.push(path);
        }
    }
}

fn files_under(folder: &Path) -> Vec<PathBuf> {
    let mut files = Vec::new();
    rust_files(folder, &mut files);
    files.sort();
    files
}

/// The line without its comment.
fn code(line: &str) -> &str {
    line.split("//").next().unwrap_or_default()
}

/// Whether the line names `path` as a whole, not as a part of a longer word.
fn names(line: &str, path: &str) -> bool {
    let is_word = |c: char| c.is_alphanumeric() || c == '_';
    line.match_indices(path).any(|(at, found)| {
        let (before, after) = (&line[..at], &line[at + found.len()..]);
        !before.ends_with(is_word) && !after.starts_with(is_word)
    })
}

#[test]
fn whole_words_are_found_and_comments_are_not() {
    assert!(names("use tokio::sync;", "tokio"));
    assert!(!names("let operand = 1;", "rand"));
    assert!(!names(code("let x = 1; // tokio"), "tokio"));
}

#[test]
fn the_core_is_pure() {
    let core = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/core");
    let files = files_under(&core);
    assert!(files.len() > 20, "{files:?}");
    let mut found = Vec::new();
    for file in files {
        for (number, line) in fs::read_to_string(&file).unwrap().lines().enumerate() {
            let named = IMPURE.iter().filter(|path| names(code(line), path));
            found.extend(named.map(|path| format!("{}:{}: {path}", file.display(), number + 1)));
        }
    }
    assert!(found.is_empty(), "the core names what it must not:\n{}", found.join("\n"));
}

#[test]
fn a_layer_imports_only_those_below_it() {
    let sources = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let layer = |name: &str| LAYERS.iter().position(|layer| *layer == name);
    let (mut seen, mut found) = (0, Vec::new());
    for file in files_under(&sources) {
        let part = file.strip_prefix(&sources).unwrap().iter().next().and_then(|part| part.to_str());
        let Some(own) = part.and_then(|part| layer(part.trim_end_matches(".rs"))) else { continue };
        for (number, line) in fs::read_to_string(&file).unwrap().lines().enumerate() {
            let imports = code(line).split("crate::").skip(1).map(|path| {
                let end = path.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(path.len());
                &path[..end]
            });
            for imported in imports.filter_map(layer) {
                seen += 1;
                if imported > own {
                    found.push(format!("{}:{}: {}", file.display(), number + 1, LAYERS[imported]));
                }
            }
        }
    }
    assert!(seen > 500, "{seen} imports were seen");
    assert!(found.is_empty(), "these import what lies above them:\n{}", found.join("\n"));
}

#[test]
fn no_file_is_long() {
    let workspace = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let mut found = Vec::new();
    for entry in fs::read_dir(workspace).unwrap() {
        let crate_folder = entry.unwrap().path();
        let sources = crate_folder.join("src");
        if !crate_folder.join("Cargo.toml").is_file() || !sources.is_dir() {
            continue;
        }
        let in_tests = |file: &Path| file.iter().any(|part| part == "tests" || part == "tests.rs");
        for file in files_under(&sources) {
            let lines = fs::read_to_string(&file).unwrap().lines().count();
            if lines > LONGEST && !in_tests(file.strip_prefix(&sources).unwrap()) {
                found.push(format!("{}: {lines} lines", file.display()));
            }
        }
    }
    assert!(found.is_empty(), "files of more than {LONGEST} lines:\n{}", found.join("\n"));
}
