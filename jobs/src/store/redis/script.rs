//! The table of scripts. Each is a file under `lua/`, named `<script>-<number of KEYS>`. Its header says what its `KEYS`
//! are; the key names here and the Lua locals of the same names come from that line, so that they cannot disagree.
//!
//! A line `--@part` stands for `lua/parts/part.lua`, which may have such lines itself. Functions of the parts that a script
//! does not call are left out: Redis makes all functions of a text anew at each call.

use std::sync::OnceLock;

use tenure_connection::{Call, Script, without_unused_functions};

use super::keys::{Keys, NAMES};

/// The source of the scripts' time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Clock {
    /// The server's clock.
    Server,
    /// The set's key `clock`, for tests that compare two stores.
    #[cfg(feature = "sim")]
    Key,
}

/// A line of a script, and its replacement: for proofs.
#[derive(Clone, Copy, Debug)]
pub struct ScriptPatch {
    /// The script's name; empty for every script that has the text.
    pub script: &'static str,
    /// The text.
    pub from: &'static str,
    /// Its replacement.
    pub to: &'static str,
}

/// A script with those of its keys that every call shares.
#[derive(Debug)]
pub(super) struct Step {
    script: Script,
    keys: Vec<String>,
}

impl Step {
    fn new(
        (file, source): (&'static str, &'static str),
        keys: &Keys,
        clock: Clock,
        patches: &[ScriptPatch],
        shared: &OnceLock<String>,
    ) -> Self {
        let name = file.rsplit_once('-').map_or(file, |(name, _)| name);
        let fixed = declared_keys(source).into_iter().filter(|name| NAMES.contains(name));
        Self {
            keys: fixed.map(|name| keys.named(name)).collect(),
            script: Script::new(
                &format!("jobs.{name}"),
                &patched(name, whole(source, keys, clock, shared), patches),
            ),
        }
    }

    /// Prepares a call without a lane.
    pub(super) fn call(&self) -> Call {
        self.script.call(&self.keys)
    }

    /// Prepares a call with the key of its lane.
    pub(super) fn call_in(&self, lane: &str) -> Call {
        let keys: Vec<&str> = self.keys.iter().map(String::as_str).chain([lane]).collect();
        self.script.call(&keys)
    }
}

macro_rules! scripts {
    ($($name:ident = $file:literal),* $(,)?) => {
        /// All scripts of one set.
        #[derive(Debug)]
        pub(super) struct Scripts {
            $(pub(super) $name: Step,)*
        }

        impl Scripts {
            pub(super) fn new(keys: &Keys, clock: Clock, patches: &[ScriptPatch]) -> Self {
                Self {
                    $($name: {
                        static SHARED: OnceLock<String> = OnceLock::new();
                        let of_file = ($file, include_str!(concat!("../lua/", $file, ".lua")));
                        Step::new(of_file, keys, clock, patches, &SHARED)
                    },)*
                }
            }

            #[cfg(any(test, feature = "sim"))]
            pub(super) fn all(&self) -> Vec<&Script> {
                vec![$(&self.$name.script,)*]
            }
        }

        #[cfg(test)]
        const FILES: &[(&str, &str)] = &[$(($file, include_str!(concat!("../lua/", $file, ".lua")))),*];
    };
}

scripts! {
    add = "add-14",
    attest = "attest-13",
    boot = "boot-1",
    declare = "declare-10",
    extend = "extend-4",
    figures = "figures-5",
    peek = "peek-8",
    recover = "recover-1",
    settle = "settle-14",
    steer = "steer-13",
    take = "take-13",
    tick = "tick-13",
    watch = "watch-4",
}

const SERVER_CLOCK: &str = include_str!("../lua/parts/clock.lua");

const PARTS: &[(&str, &str)] = &[
    ("base", include_str!("../lua/parts/base.lua")),
    ("clock", SERVER_CLOCK),
    ("counts", include_str!("../lua/parts/counts.lua")),
    ("duty", include_str!("../lua/parts/duty.lua")),
    ("ends", include_str!("../lua/parts/ends.lua")),
    ("groups", include_str!("../lua/parts/groups.lua")),
    ("head", include_str!("../lua/parts/head.lua")),
    ("lane", include_str!("../lua/parts/lane.lua")),
    ("mends", include_str!("../lua/parts/mends.lua")),
    ("places", include_str!("../lua/parts/places.lua")),
    ("queues", include_str!("../lua/parts/queues.lua")),
    ("records", include_str!("../lua/parts/records.lua")),
    ("wake", include_str!("../lua/parts/wake.lua")),
    ("whole", include_str!("../lua/parts/whole.lua")),
    ("words", include_str!("../lua/parts/words.lua")),
];

/// The keys that the line `-- KEYS: meta queues …` of the header names.
fn declared_keys(source: &str) -> Vec<&str> {
    let line = source.lines().find_map(|line| line.strip_prefix("-- KEYS: "));
    line.unwrap_or_default().split_whitespace().collect()
}

/// The script as it is sent: keys under their names, parts in the place of their lines. A process makes what all sets share
/// once, in `shared`.
fn whole(source: &str, keys: &Keys, clock: Clock, shared: &OnceLock<String>) -> String {
    let (first, rest) = source.split_once('\n').unwrap_or((source, ""));
    let shared = shared.get_or_init(|| {
        let mut text = String::with_capacity(source.len() + 24 * 1024);
        splice(rest, &mut text);
        without_unused_functions(&text)
    });
    let names = declared_keys(source);
    let locals: Vec<_> = names.iter().map(|name| name.to_uppercase()).collect();
    let values: Vec<_> = (1..=names.len()).map(|i| format!("KEYS[{i}]")).collect();
    let (locals, values, channels) = (locals.join(", "), values.join(", "), keys.channels());
    let head = format!("{first}\nlocal {locals}, CHANNEL = {values}, '{channels}'\n");
    match clock {
        Clock::Server => head + shared,
        #[cfg(feature = "sim")]
        Clock::Key => {
            let now = format!(
                "local function now() return tonumber(redis.call('GET', '{}')) end\n",
                keys.named("clock")
            );
            head + &shared.replacen(SERVER_CLOCK, &now, 1)
        }
    }
}

/// Appends a text with its parts.
fn splice(source: &str, into: &mut String) {
    for line in source.lines() {
        if let Some(name) = line.strip_prefix("--@") {
            let part = PARTS.iter().find(|(part, _)| *part == name).map_or("", |(_, text)| text);
            splice(part, into);
        } else {
            into.push_str(line);
        }
        into.push('\n');
    }
}

/// The script as a proof has broken it.
fn patched(name: &str, text: String, patches: &[ScriptPatch]) -> String {
    let of_it = patches.iter().filter(|patch| patch.script.is_empty() || patch.script == name);
    of_it.fold(text, |text, patch| {
        assert!(patch.script.is_empty() || text.contains(patch.from), "{name} has no {:?}", patch.from);
        text.replacen(patch.from, patch.to, 1)
    })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::model::id::SetName;

    #[test]
    fn each_script_declares_as_many_keys_as_its_name_says() {
        for (file, source) in FILES {
            let (_, count) = file.rsplit_once('-').unwrap();
            let declared = declared_keys(source);
            assert_eq!(declared.len(), count.parse::<usize>().unwrap(), "{file}");
            let lane = declared.iter().position(|name| *name == "lane");
            assert!(lane.is_none_or(|at| at == declared.len() - 1), "{file}: the lane's key is the last one");
            let known = declared.iter().all(|name| *name == "lane" || NAMES.contains(name));
            assert!(known, "{file} declares {declared:?}");
        }
    }

    #[test]
    fn these_scripts_run_without_memory_and_readers_write_none() {
        let with = |flags: &str| -> Vec<_> {
            let first = format!("#!lua{flags}");
            let flagged = FILES.iter().filter(|(_, source)| source.lines().next() == Some(&first));
            flagged.map(|(file, _)| file.split('-').next().unwrap_or_default()).collect()
        };
        // They bring jobs in, begin some, or make queues: they are refused before they write.
        assert_eq!(with(""), ["add", "boot", "declare", "take"]);
        let without_memory = ["attest", "extend", "recover", "settle", "steer", "tick", "watch"];
        assert_eq!(with(" flags=allow-oom"), without_memory);
        assert_eq!(with(" flags=no-writes"), ["figures", "peek"]);
    }

    #[test]
    fn each_script_uses_the_keys_that_it_declares() {
        let keys = Keys::new(&SetName::new("s").unwrap());
        for (file, source) in FILES {
            assert!(source.starts_with("#!lua") && source.contains("\n-- Returns: "), "{file}");
            let text = whole(source, &keys, Clock::Server, &OnceLock::new());
            let code: String = text.lines().map(|line| line.split("--").next().unwrap_or_default()).collect();
            for name in declared_keys(source) {
                let used = code.matches(&name.to_uppercase()).count();
                assert!(used > 1, "{file} does not use {name}");
            }
            let undeclared = NAMES.iter().filter(|name| !declared_keys(source).contains(name));
            for name in undeclared {
                let word = name.to_uppercase();
                let used =
                    code.split(|c: char| !c.is_ascii_uppercase() && c != '_').any(|found| found == word);
                assert!(!used, "{file} uses {name}, which it does not declare");
            }
        }
    }

    #[test]
    fn no_script_changes_by_accident() {
        let scripts = Scripts::new(&Keys::new(&SetName::new("s").unwrap()), Clock::Server, &[]);
        let list = concat!(env!("CARGO_MANIFEST_DIR"), "/src/store/lua/pins.txt");
        let texts = scripts.all().into_iter().map(|script| (script.name(), script.source()));
        tenure_testing::pins::check(list.as_ref(), texts);
    }

    #[test]
    fn every_part_is_used_and_none_is_missing() {
        let texts: Vec<_> = FILES.iter().chain(PARTS).map(|(_, text)| *text).collect();
        let used =
            |part: &str| texts.iter().any(|text| text.lines().any(|line| line == format!("--@{part}")));
        for (part, _) in PARTS {
            assert!(used(part), "{part}");
        }
        for line in texts.iter().flat_map(|text| text.lines()).filter_map(|line| line.strip_prefix("--@")) {
            assert!(PARTS.iter().any(|(part, _)| *part == line), "{line}");
        }
    }
}
