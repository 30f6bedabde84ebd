#![allow(clippy::unwrap_used, clippy::expect_used)]

mod letters;
mod limits;

use std::collections::BTreeSet;

use tenure_steps::File;

use super::*;
use crate::model::id::PoolName;
use crate::store::NODE_STREAM_MAX;

fn keys() -> Keys {
    Keys::new(&PoolName::new("p").unwrap())
}

fn scripts() -> Scripts {
    Scripts::new(&keys(), Clock::Server, &[])
}

fn file(script: &str) -> &'static File {
    Scripts::FILES.iter().find(|file| file.script() == script).unwrap()
}

/// The commands of the scripts that write.
const WRITES: &str =
    "DEL HDEL HINCRBY HSET PEXPIRE PEXPIREAT SPUBLISH UNLINK XACK XADD XDEL XGROUP ZADD ZREM";

/// The script with all parts.
fn text(script: &str) -> String {
    PARTS.assemble(file(script))
}

/// Names of keys that occur in a script as it is sent, outside comments and strings.
fn used_keys(spliced: &str) -> BTreeSet<String> {
    let known: BTreeSet<_> = NAMES.iter().copied().chain(["worker"]).map(str::to_uppercase).collect();
    let mut used = BTreeSet::new();
    for line in spliced.lines().filter(|line| !line.contains("= KEYS[1]")) {
        let code = line.split("--").next().unwrap_or_default();
        for (i, outside) in code.split('\'').enumerate() {
            if i % 2 == 0 {
                used.extend(
                    outside
                        .split(|c: char| !c.is_ascii_alphanumeric() && c != '_')
                        .filter(|word| known.contains(*word))
                        .map(str::to_owned),
                );
            }
        }
    }
    used
}

#[test]
fn file_names_carry_the_script_and_its_key_count() {
    for (script, file) in scripts().all().into_iter().zip(Scripts::FILES) {
        assert_eq!(script.name(), file.script());
        let (_, count) = file.name().rsplit_once('-').unwrap();
        assert_eq!(count.trim_end_matches('+').parse(), Ok(file.keys().len()), "{}", file.name());
        assert_eq!(count.ends_with('+'), file.words_of("KEYS").any(|word| word == "then"), "{}", file.name());
    }
}

#[test]
fn headers_say_what_goes_in_and_out() {
    for (name, source) in Scripts::FILES.iter().map(|file| (file.name(), file.source())) {
        let shebang = source.lines().next().unwrap();
        assert!(["#!lua", "#!lua flags=allow-oom", "#!lua flags=no-writes"].contains(&shebang), "{name}");
        assert!(source.lines().nth(1).unwrap().starts_with("-- "), "{name} says no purpose");
        for line in ["-- KEYS: ", "-- ARGV: ", "-- Returns: "] {
            assert_eq!(source.lines().filter(|l| l.starts_with(line)).count(), 1, "{name}: {line}");
        }
        let publishes = text(name.rsplit_once('-').unwrap().0).contains("SPUBLISH");
        assert_eq!(source.contains("\n-- Publishes: "), publishes, "{name}");
    }
}

#[test]
fn headers_and_answers_have_the_same_letters() {
    assert_eq!(tenure_steps::strange_letters(Scripts::FILES), Vec::<String>::new());
}

#[test]
fn these_scripts_run_without_memory_and_only_readers_write_none() {
    let with = |flags: &str| -> Vec<_> {
        let first = format!("#!lua flags={flags}");
        let flagged = Scripts::FILES.iter().filter(|file| file.source().lines().next() == Some(&first));
        flagged.map(File::script).collect()
    };
    let without_memory = [
        "attend",
        "attest",
        "cleanup",
        "cordon",
        "drain",
        "drop_notifications",
        "expire",
        "open_normal",
        "prune_consumers",
        "purge",
        "reap",
        "recover",
        "release",
        "renew",
        "reply",
        "sched",
        "shutdown",
        "started",
        "stop",
        "take",
        "term",
        "tick",
    ];
    assert_eq!(with("allow-oom"), without_memory);
    let writes = |file: &&File| {
        let text = PARTS.assemble(file);
        WRITES.split(' ').any(|command| text.contains(&format!("'{command}'")))
    };
    let readers: Vec<_> = Scripts::FILES.iter().filter(|file| !writes(file)).map(File::script).collect();
    assert_eq!(with("no-writes"), readers);
    // The simulator goes by the same lines.
    let refused = Scripts::FILES.iter().map(File::script).filter(|name| needs_memory(name) == Some(true));
    let others = Scripts::FILES.iter().map(File::script);
    let others = others.filter(|name| !without_memory.contains(name) && !readers.contains(name));
    assert_eq!(refused.collect::<Vec<_>>(), others.collect::<Vec<_>>());
}

#[test]
fn a_script_declares_exactly_the_keys_that_it_uses() {
    for file in Scripts::FILES {
        let declared: BTreeSet<_> = file.keys().iter().map(|name| name.to_uppercase()).collect();
        assert_eq!(used_keys(&PARTS.assemble(file)), declared, "{}", file.name());
    }
}

#[test]
fn parts_are_known_and_spliced_at_most_once() {
    for file in Scripts::FILES {
        let mut seen = BTreeSet::new();
        for name in file.source().lines().filter_map(|line| line.strip_prefix("--@")) {
            assert!(PARTS.get(name).is_some(), "{}: {name}", file.name());
            assert!(seen.insert(name), "{}: {name} twice", file.name());
        }
    }
}

#[test]
fn a_script_makes_no_function_that_it_does_not_call() {
    let started = text("started");
    assert!(started.contains("local function settle("), "it writes outcomes");
    assert!(!started.contains("local function is_former("), "it asks for no outcome");
}

#[test]
fn the_streams_of_nodes_have_one_bound() {
    let bound = format!("'MAXLEN', '~', '{NODE_STREAM_MAX}',");
    let files = Scripts::FILES.iter().map(|file| (file.name(), file.source()));
    let texts = PARTS.0.iter().copied().chain(files);
    let bounding: Vec<_> = texts.filter(|(_, text)| text.contains("MAXLEN")).collect();
    assert_eq!(bounding.iter().map(|(name, _)| *name).collect::<Vec<_>>(), ["tell", "note-2", "reply-3+"]);
    assert!(bounding[0].1.contains(&bound));
    // Replies are as long as their handlers make them: long ones keep the stream shorter.
    assert!(bounding[2].1.contains(&format!("and {NODE_STREAM_MAX} or")));
}

#[test]
fn no_script_changes_by_accident() {
    let scripts = scripts();
    let list = concat!(env!("CARGO_MANIFEST_DIR"), "/src/store/lua/pins.txt");
    let texts = scripts.all().into_iter().map(|script| (script.name(), script.source()));
    tenure_testing::pins::check(list.as_ref(), texts);
}

#[test]
fn the_clock_can_be_a_key() {
    // The stamps of the maps' revisions always use the server's time.
    let of_the_server = tenure_rmap::lua::CHANGE.matches("'TIME'").count();
    assert_eq!(text("expire").matches("'TIME'").count(), of_the_server + 1);
    let by_key = Scripts::new(&keys(), Clock::Key, &[]);
    let text = by_key.expire.script().source();
    assert!(text.contains("'tenure:{p}:clock'"));
    assert_eq!(text.matches("'TIME'").count(), of_the_server);
}

#[test]
fn calls_carry_the_shared_keys_first() {
    let scripts = scripts();
    assert_eq!(scripts.owned.keys(), ["tenure:{p}:pool", "tenure:{p}:owners", "tenure:{p}:jobs"]);
    assert_eq!(scripts.begin.keys().len(), 9, "the worker's stream comes with the call");
}

#[test]
fn pools_share_the_texts_of_scripts_that_nobody_broke() {
    let others = Keys::new(&PoolName::new("q").unwrap());
    let patch = ScriptPatch { script: "expire", from: "#!lua", to: "#!lua " };
    let expire =
        |keys: &Keys, clock, patches: &[_]| Scripts::new(keys, clock, patches).expire.script().clone();
    let first = expire(&keys(), Clock::Server, &[]);
    assert!(std::ptr::eq(expire(&others, Clock::Server, &[]).source(), first.source()));
    assert_ne!(expire(&keys(), Clock::Server, &[patch]).source(), first.source());
    assert_ne!(expire(&others, Clock::Key, &[]).source(), first.source());
    assert_eq!(expire(&others, Clock::Server, &[]).source(), first.source());
}
