//! The table of scripts, one for each file under `lua/`. The header of a file names the `KEYS`. The keys of calls and the Lua
//! locals come from the header, and cannot disagree.

use tenure_connection::{KeyedScript, Script, ScriptFile, scripts};
use tenure_steps::{Parts, ScriptPatch, parts};

use super::keys::{Keys, NAMES};
use crate::store::{AddReply, SettleReply, SteerReply};

/// The source of the scripts' time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Clock {
    /// The server's clock.
    Server,
    /// The set's key `clock`, for tests that compare two stores.
    #[cfg(feature = "sim")]
    Key,
}

scripts! {
    /// All scripts of one set.
    pub(super) struct Scripts in "../lua/" {
        add = "add-14" answers AddReply,
        attest = "attest-13" answers SettleReply,
        boot = "boot-1",
        declare = "declare-10",
        extend = "extend-4" answers SettleReply,
        figures = "figures-5",
        peek = "peek-8",
        recover = "recover-1",
        settle = "settle-14" answers SettleReply,
        steer = "steer-13" answers SteerReply,
        take = "take-13",
        tick = "tick-13",
        watch = "watch-4",
    }
}

impl Scripts {
    /// The scripts of the set with these keys.
    pub(super) fn new(keys: &Keys, clock: Clock, patches: &[ScriptPatch]) -> Self {
        Self::made_by(|file| {
            let name = file.file().script();
            let text = tenure_steps::patched(name, of_set(file, keys, clock), patches);
            let shared = file.file().keys().into_iter().filter(|name| NAMES.contains(name));
            let shared = shared.map(|name| keys.named(name)).collect();
            KeyedScript::new(Script::new(&format!("jobs.{name}"), &text), shared)
        })
    }
}

const PARTS: Parts = parts! {
    "../lua/parts/":
    base, clock, counts, duty, ends, groups, head, lane, mends, places, queues, records, wake, whole, words
};

/// The text for a server. The statement with the keys and the channels of the set follows the first line.
fn of_set(file: &ScriptFile, keys: &Keys, clock: Clock) -> String {
    let channels = format!("'{}'", keys.channels());
    let locals = file.file().key_locals(&[("CHANNEL", &channels)]);
    let (first, rest) = file.text(&PARTS).split_once('\n').unwrap_or_default();
    let text = format!("{first}\n{locals}{rest}");
    match clock {
        Clock::Server => text,
        #[cfg(feature = "sim")]
        Clock::Key => PARTS.with_clock_key(&text, &keys.named("clock")),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use tenure_steps::File;

    use super::*;
    use crate::model::id::SetName;

    fn scripts() -> Scripts {
        Scripts::new(&Keys::new(&SetName::new("s").unwrap()), Clock::Server, &[])
    }

    #[test]
    fn each_script_declares_as_many_keys_as_its_name_says() {
        for file in Scripts::FILES {
            let (_, count) = file.name().rsplit_once('-').unwrap();
            let (file, declared) = (file.name(), file.keys());
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
            let flagged = Scripts::FILES.iter().filter(|file| file.source().lines().next() == Some(&first));
            flagged.map(File::script).collect()
        };
        // They bring jobs in, begin some, or make queues: they are refused before they write.
        assert_eq!(with(""), ["add", "boot", "declare", "take"]);
        let without_memory = ["attest", "extend", "recover", "settle", "steer", "tick", "watch"];
        assert_eq!(with(" flags=allow-oom"), without_memory);
        assert_eq!(with(" flags=no-writes"), ["figures", "peek"]);
    }

    #[test]
    fn each_script_uses_the_keys_that_it_declares() {
        for (file, script) in Scripts::FILES.iter().zip(scripts().all()) {
            assert!(
                file.source().starts_with("#!lua") && file.source().contains("\n-- Returns: "),
                "{file:?}"
            );
            let lines = script.source().lines();
            let code: String = lines.map(|line| line.split("--").next().unwrap_or_default()).collect();
            for name in file.keys() {
                let used = code.matches(&name.to_uppercase()).count();
                assert!(used > 1, "{} does not use {name}", file.name());
            }
            let undeclared = NAMES.iter().filter(|name| !file.keys().contains(name));
            for name in undeclared {
                let word = name.to_uppercase();
                let used =
                    code.split(|c: char| !c.is_ascii_uppercase() && c != '_').any(|found| found == word);
                assert!(!used, "{} uses {name}, which it does not declare", file.name());
            }
        }
    }

    #[test]
    fn headers_name_the_declared_letters_of_answers() {
        assert_eq!(tenure_steps::strange_letters(Scripts::FILES), Vec::<String>::new());
    }

    #[test]
    fn no_script_changes_by_accident() {
        let scripts = scripts();
        let list = concat!(env!("CARGO_MANIFEST_DIR"), "/src/store/lua/pins.txt");
        let texts = scripts.all().into_iter().map(|script| (script.name(), script.source()));
        tenure_testing::pins::check(list.as_ref(), texts);
    }

    #[test]
    fn every_part_is_used_and_none_is_missing() {
        let parts = PARTS.0.iter().map(|(_, text)| *text);
        let texts: Vec<_> = Scripts::FILES.iter().map(File::source).chain(parts).collect();
        let used =
            |part: &str| texts.iter().any(|text| text.lines().any(|line| line == format!("--@{part}")));
        for (part, _) in PARTS.0 {
            assert!(used(part), "{part}");
        }
        for line in texts.iter().flat_map(|text| text.lines()).filter_map(|line| line.strip_prefix("--@")) {
            assert!(PARTS.get(line).is_some(), "{line}");
        }
    }
}
