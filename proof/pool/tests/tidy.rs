//! The house rules that no lint checks: the cores stay pure, and no file grows long.
#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::fs;
use std::path::{Path, PathBuf};

/// What the protocol may depend on: no runtime, no network, no logs, no randomness.
const PURE: [&str; 9] = [
    "bytes",
    "jumphash",
    "rmp-serde",
    "serde",
    "serde_bytes",
    "tenure-steps",
    "thiserror",
    "ulid",
    "xxhash-rust",
];

/// A core must not name these: clocks, randomness, the runtime, locks, the network, logs, and types without a fixed order.
const IMPURE: [&str; 12] = [
    "tokio",
    "tokio_util",
    "redis",
    "tracing",
    "metrics",
    "std::time::Instant",
    "SystemTime",
    "since_boot",
    "Mutex",
    "HashMap",
    "HashSet",
    "rand",
];

/// The folders and files of a crate, from the bottom: each imports only those before it.
const LAYERS: [(&str, &[&str]); 3] = [
    ("protocol", &["model", "step", "error", "memory", "core"]),
    ("pool", &["model", "error", "core", "store", "clock", "job", "runtime", "api"]),
    ("jobs", &["model", "store", "error", "data", "core", "runtime", "api", "layers", "on_pool", "cron"]),
];

/// Public types that users may match or build in full, by crate and name, and why.
const EXHAUSTIVE: [(&str, &str, &str); 22] = [
    ("connection", "Version", "the three numbers of a version"),
    ("protocol", "Ask", "only the store and proofs see the step of this name"),
    ("protocol", "Client", "only the store and proofs see the type of this name"),
    ("protocol", "Dispatch", "only the store and proofs see the step of this name"),
    ("protocol", "Steer", "only the store and proofs see the step of this name"),
    ("protocol", "Ticket", "a key and an id: whoever kept both makes it again"),
    ("protocol", "Update", "only the store and proofs see the step of this name"),
    ("protocol", "Failure", "only the engine and its shell see the type of this name"),
    ("protocol", "Settings", "users give some, and `..Settings::default()`"),
    ("rmap", "Exchange", "a conditional write is done or not, there is no third outcome"),
    ("rmap", "Layout", "the caller names all places of a map"),
    ("rmap", "Mutation", "only proofs see it"),
    ("steps", "EntryId", "the two numbers of a Redis id"),
    ("steps", "ScriptPatch", "a row of the caller's table"),
    ("proof/testing", "Curve", "the caller draws it"),
    ("proof/testing", "Expect", "the caller says what holds in its test"),
    ("proof/testing", "Holder", "a worker and a token: tests compare with it"),
    ("proof/testing", "Mutant", "a row of the caller's table"),
    ("proof/testing", "Panel", "the caller draws it"),
    ("proof/testing", "Percentiles", "the three figures: tests compare with them"),
    ("proof/testing", "Sheet", "the caller draws it"),
    ("proof/testing", "Trial", "a test ends in no other way"),
];

/// The longest file outside tests, in lines.
const LONGEST: usize = 500;

fn workspace() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap()
}

/// The folders of crates, and some others.
fn crates() -> Vec<PathBuf> {
    let folders = [workspace(), workspace().join("proof")];
    let entries = folders.iter().flat_map(|folder| fs::read_dir(folder).unwrap());
    entries.map(|entry| entry.unwrap().path()).collect()
}

/// The most public methods of a node, and the most public names in the root of the pool's crate.
const METHODS: usize = 40;
const NAMES: usize = 50;

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
fn the_protocol_depends_on_nothing_that_acts() {
    for (part, pure) in [("protocol", &PURE[..]), ("steps", &["thiserror"])] {
        let manifest = fs::read_to_string(workspace().join(part).join("Cargo.toml")).unwrap();
        let listed = manifest.split("\n[dependencies]\n").nth(1).unwrap().split("\n[").next().unwrap();
        let names: Vec<_> = listed.lines().filter_map(|line| line.split_once('.')).collect();
        assert_eq!(names.iter().map(|(name, _)| *name).collect::<Vec<_>>(), pure, "{part}");
    }
}

#[test]
fn the_cores_are_pure() {
    let cores = ["protocol", "jobs"].map(|part| files_under(&workspace().join(part).join("src/core")));
    assert!(cores.iter().all(|files| files.len() > 10), "{cores:?}");
    let files = cores.into_iter().flatten();
    let mut found = Vec::new();
    for file in files {
        for (number, line) in fs::read_to_string(&file).unwrap().lines().enumerate() {
            let named = IMPURE.iter().filter(|path| names(code(line), path));
            found.extend(named.map(|path| format!("{}:{}: {path}", file.display(), number + 1)));
        }
    }
    assert!(found.is_empty(), "a core names what it must not:\n{}", found.join("\n"));
}

#[test]
fn a_layer_imports_only_those_below_it() {
    let (mut seen, mut found) = (0, Vec::new());
    for (part, layers) in LAYERS {
        let sources = workspace().join(part).join("src");
        let layer = |name: &str| layers.iter().position(|layer| *layer == name);
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
                        found.push(format!("{}:{}: {}", file.display(), number + 1, layers[imported]));
                    }
                }
            }
        }
    }
    assert!(seen > 500, "{seen} imports were seen");
    assert!(found.is_empty(), "these import what lies above them:\n{}", found.join("\n"));
}

/// The public enums, and structs with public fields, of a file: each with whether it may grow.
fn shapes(text: &str) -> Vec<(&str, bool)> {
    let lines: Vec<_> = text.lines().collect();
    let mut found = Vec::new();
    for (at, line) in lines.iter().enumerate() {
        let Some((kind, rest)) = line.strip_prefix("pub ").and_then(|rest| rest.split_once(' ')) else {
            continue;
        };
        let body = lines[at + 1..].iter().take_while(|line| !line.starts_with('}'));
        let is_open = match kind {
            "enum" => true,
            "struct" => rest.ends_with('{') && body.into_iter().any(|line| line.starts_with("    pub ")),
            _ => false,
        };
        if is_open {
            let name = rest.split(|c: char| !c.is_alphanumeric()).next().unwrap_or_default();
            let mut above =
                lines[..at].iter().rev().take_while(|line| !line.is_empty() && !line.starts_with('}'));
            found.push((name, above.any(|line| line.contains("non_exhaustive"))));
        }
    }
    found
}

#[test]
fn a_public_type_may_grow_or_is_listed() {
    let workspace = workspace();
    let (mut seen, mut used, mut found) = (0, 0, Vec::new());
    for part in ["steps", "connection", "protocol", "rmap", "streaming", "pool", "sequence", "proof/testing"]
    {
        let sources = workspace.join(part).join("src");
        // Users of the pool take the protocol's types from the pool.
        let exporting = workspace.join(if part == "protocol" { "pool" } else { part }).join("src");
        let mut exported = fs::read_to_string(exporting.join("lib.rs")).unwrap();
        let jobs = fs::read_to_string(exporting.join("job/mod.rs")).unwrap_or_default();
        exported.extend(jobs.lines().filter(|line| line.starts_with("pub ")));
        for file in files_under(&sources) {
            let text = fs::read_to_string(&file).unwrap();
            for (name, may_grow) in shapes(&text) {
                // The crate for tests has public modules, and all that is public there can be reached.
                if part != "proof/testing" && !names(&exported, name) {
                    continue;
                }
                seen += 1;
                let is_listed = EXHAUSTIVE.iter().any(|(of, listed, _)| (*of, *listed) == (part, name));
                used += usize::from(is_listed && !may_grow);
                if !may_grow && !is_listed {
                    found.push(format!("{}: {name}", file.display()));
                }
            }
        }
    }
    assert!(seen > 50, "{seen} types were seen");
    assert_eq!(used, EXHAUSTIVE.len(), "the list names what may grow, or is gone");
    assert!(found.is_empty(), "make these non_exhaustive, or list them:\n{}", found.join("\n"));
}

/// The steps that are declared without an incarnation: they make the pool, or only read.
fn reads() -> Vec<String> {
    let files = files_under(&workspace().join("protocol/src/step"));
    let texts: Vec<_> = files.iter().map(|file| fs::read_to_string(file).unwrap()).collect();
    let declared = texts.iter().flat_map(|text| text.lines()).filter(|line| line.starts_with("read!("));
    declared.map(|line| line.split('"').nth(1).unwrap().to_owned()).collect()
}

#[test]
fn a_step_asks_for_the_incarnation_and_the_floor() {
    let scripts = workspace().join("pool/src/store/lua");
    let (mut steps, mut unguarded) = (Vec::new(), Vec::new());
    for entry in fs::read_dir(scripts).unwrap() {
        let file = entry.unwrap().path();
        if file.extension().is_none_or(|kind| kind != "lua") {
            continue;
        }
        let name = file.file_stem().unwrap().to_string_lossy();
        steps.push(name.rsplit_once('-').unwrap().0.to_owned());
        let text = fs::read_to_string(&file).unwrap();
        let (before, after) = text
            .split_once(
                "
local head, refusal = guard(",
            )
            .unwrap_or((&text, ""));
        let returns = after.lines().nth(1) == Some("if not head then return refusal end");
        if !returns || before.contains("call(") {
            unguarded.extend(steps.last().cloned());
        }
    }
    let mut reads = reads();
    reads.retain(|read| steps.contains(read));
    unguarded.sort();
    reads.sort();
    assert!(steps.len() > 30, "{} scripts were seen", steps.len());
    assert_eq!(unguarded, reads);
}

/// The names that the root of a crate shows to its users, and what is too hard to count there.
fn root_names(root: &str) -> (Vec<&str>, Vec<&str>) {
    let (mut names, mut uncounted) = (Vec::new(), Vec::new());
    for item in root.split_inclusive([';', '{']) {
        let is_shown = !item.contains("doc(hidden)");
        let Some(declared) = item.lines().find_map(|line| line.strip_prefix("pub ")).filter(|_| is_shown)
        else {
            continue;
        };
        match declared.split_once(' ') {
            Some(("mod", name)) => names.push(name.trim_end_matches([' ', ';', '{'])),
            Some(("use", path)) if !path.ends_with('{') && !path.contains('*') => {
                names.push(path.trim_end_matches(';').rsplit("::").next().unwrap());
            }
            Some(("use", path)) if path.ends_with('{') => {
                let list = root[root.find(item).unwrap() + item.len()..].split('}').next().unwrap();
                names.extend(list.split(',').map(str::trim).filter(|name| !name.is_empty()));
            }
            _ => uncounted.push(declared),
        }
    }
    (names, uncounted)
}

#[test]
fn the_public_face_fits_one_screen() {
    let sources = workspace().join("pool/src");
    let root = fs::read_to_string(sources.join("lib.rs")).unwrap();
    let (names, uncounted) = root_names(&root);
    assert_eq!(uncounted, Vec::<&str>::new(), "these are neither a name nor a module");
    assert!(names.len() > 20 && names.contains(&"Node") && names.contains(&"inspect"), "{names:?}");
    assert!(names.len() <= NAMES, "{} names: {names:?}", names.len());
    let (mut methods, mut borrowed) = (Vec::new(), Vec::new());
    for file in files_under(&sources.join("api")) {
        let text = fs::read_to_string(&file).unwrap();
        let blocks = text.split("\nimpl Node {\n").skip(1);
        let lines = blocks.flat_map(|block| block.split("\n}\n").next().unwrap().lines());
        let shown = lines.filter_map(|line| line.strip_prefix("    pub "));
        let named = shown.filter_map(|line| line.split_once("fn ")).map(|(_, rest)| rest.to_owned());
        methods.extend(named.map(|rest| rest.split(['(', '<']).next().unwrap().to_owned()));
        borrowed.extend(text.lines().filter(|line| line.contains("Deref for Node")).map(str::to_owned));
    }
    assert!(methods.len() > 20 && methods.contains(&"dispatch".to_owned()), "{methods:?}");
    assert!(methods.len() <= METHODS, "{} methods: {methods:?}", methods.len());
    assert_eq!(borrowed, Vec::<String>::new(), "a node shows the methods of another type");
}

#[test]
fn no_file_is_long() {
    let mut found = Vec::new();
    for crate_folder in crates() {
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

#[test]
fn a_published_crate_has_its_licences_and_its_readme() {
    let (mut seen, mut found) = (0, Vec::new());
    for folder in crates() {
        let Ok(manifest) = fs::read_to_string(folder.join("Cargo.toml")) else { continue };
        if manifest.contains("publish = false") {
            continue;
        }
        seen += 1;
        let needed = ["LICENSE-APACHE", "LICENSE-MIT", "README.md"];
        found.extend(needed.map(|name| folder.join(name)).into_iter().filter(|file| !file.is_file()));
    }
    assert!(seen > 5, "{seen} crates were seen");
    assert!(found.is_empty(), "missing: {found:#?}");
}
