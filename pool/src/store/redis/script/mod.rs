//! The table of scripts. Each is a file under `lua/`, named `<script>-<number of KEYS>`, with a `+` when the streams
//! of workers or nodes follow. Its header says what its `KEYS` are; the key names here and the Lua locals of the same
//! names come from that line, so that they cannot disagree.
//!
//! A line `--@part` stands for `lua/parts/part.lua`, or for the Lua of the replicated map. Functions of the parts that a
//! script does not call are left out: Redis makes all functions of a text anew at each call.

use std::sync::OnceLock;

use tenure_connection::{Call, Script, without_unused_functions};

use super::keys::{Keys, NAMES};
use crate::mutation::ScriptPatch;

/// The source of the scripts' time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Clock {
    /// The server's clock.
    Server,
    /// The pool's key `clock`, for tests that compare two stores.
    Key,
}

/// The text of a file, and the script that it is with the server's clock. A process makes both once, for all pools.
struct Shared {
    text: OnceLock<String>,
    script: OnceLock<Script>,
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
        shared: &Shared,
    ) -> Self {
        let name = file.rsplit_once('-').map_or(file, |(name, _)| name);
        let fixed = declared_keys(source).into_iter().filter(|name| NAMES.contains(name));
        let text = shared.text.get_or_init(|| without_unused_functions(&spliced(source)));
        Self {
            keys: fixed.map(|name| keys.named(name)).collect(),
            script: match clock {
                Clock::Server if patches.is_empty() => {
                    shared.script.get_or_init(|| Script::new(name, text)).clone()
                }
                _ => Script::new(name, &patched(name, with_clock(text, keys, clock), patches)),
            },
        }
    }

    /// Prepares a call; `streams` follow the keys that every call shares.
    pub(super) fn call(&self, streams: &[String]) -> Call {
        let mut keys = Vec::with_capacity(self.keys.len() + streams.len());
        keys.extend(self.keys.iter().map(String::as_str));
        keys.extend(streams.iter().map(String::as_str));
        self.script.call(&keys)
    }
}

macro_rules! scripts {
    ($($name:ident = $file:literal),* $(,)?) => {
        /// All scripts of one pool.
        #[derive(Debug)]
        pub(super) struct Scripts {
            $(pub(super) $name: Step,)*
        }

        impl Scripts {
            #[cfg(any(test, feature = "sim"))]
            pub(super) fn all(&self) -> Vec<&Script> {
                vec![$(&self.$name.script,)*]
            }

            pub(super) fn new(keys: &Keys, clock: Clock, patches: &[ScriptPatch]) -> Self {
                Self {
                    $($name: {
                        static SHARED: Shared = Shared { text: OnceLock::new(), script: OnceLock::new() };
                        let of_file = ($file, include_str!(concat!("../../lua/", $file, ".lua")));
                        Step::new(of_file, keys, clock, patches, &SHARED)
                    },)*
                }
            }
        }

        /// The scripts by name. The simulator of the pool asks for their marks.
        #[cfg(any(test, feature = "sim"))]
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        #[allow(non_camel_case_types, reason = "the names of the files")]
        #[cfg_attr(not(test), allow(dead_code, reason = "no engine calls the scripts of inspectors"))]
        pub(crate) enum ScriptName {
            $($name,)*
        }

        #[cfg(any(test, feature = "sim"))]
        impl ScriptName {
            /// All of them.
            #[cfg(test)]
            const ALL: &[Self] = &[$(Self::$name),*];

            const fn source(self) -> &'static str {
                match self {
                    $(Self::$name => include_str!(concat!("../../lua/", $file, ".lua")),)*
                }
            }
        }

        #[cfg(test)]
        const FILES: &[(&str, &str, &str)] =
            &[$((stringify!($name), $file, include_str!(concat!("../../lua/", $file, ".lua")))),*];
    };
}

scripts! {
    ask = "ask-4+",
    attend = "attend-15",
    attest = "attest-18",
    begin = "begin-9+",
    bootstrap = "bootstrap-4",
    change_settings = "change_settings-3",
    cleanup = "cleanup-21",
    cordon = "cordon-3",
    dispatch = "dispatch-11+",
    drain = "drain-3",
    drop_notifications = "drop_notifications-3",
    expire = "expire-6",
    explain = "explain-11",
    figures = "figures-5",
    history = "history-2",
    inspect = "inspect-9",
    join = "join-7",
    lookup = "lookup-3",
    note = "note-2",
    notifications = "notifications-2",
    notify = "notify-5+",
    notify_or_start = "notify_or_start-10+",
    open_normal = "open_normal-4",
    owned = "owned-3",
    parked = "parked-3",
    pauses = "pauses-2",
    planned = "planned-3",
    prune_consumers = "prune_consumers-2",
    purge = "purge-13",
    raise_level = "raise_level-3",
    reap = "reap-16",
    recover = "recover-3",
    release = "release-15+",
    renew = "renew-10+",
    reply = "reply-3+",
    restore_group = "restore_group-2",
    route = "route-6+",
    save = "save-4",
    sched = "sched-3",
    settle = "settle-4",
    shutdown = "shutdown-3",
    started = "started-5+",
    steer = "steer-9+",
    stop = "stop-15+",
    sweep = "sweep-11",
    take = "take-4",
    unpark = "unpark-8",
    term = "term-2",
    tick = "tick-3",
    update = "update-6+",
}

#[cfg(any(test, feature = "sim"))]
impl ScriptName {
    /// Whether a server with full memory refuses the script. The server goes by the flags in the first line, too.
    pub(crate) fn needs_memory(self) -> bool {
        let first = self.source().lines().next().unwrap_or_default();
        let mut flags = first.split_once("flags=").map_or("", |(_, flags)| flags).split(',');
        !flags.any(|flag| matches!(flag, "allow-oom" | "no-writes"))
    }
}

const SERVER_CLOCK: &str = include_str!("../../lua/parts/clock.lua");

/// The parts that several scripts share; `change` is the replicated map's own.
const PARTS: &[(&str, &str)] = &[
    ("accept", include_str!("../../lua/parts/accept.lua")),
    ("accept_one", include_str!("../../lua/parts/accept_one.lua")),
    ("base", include_str!("../../lua/parts/base.lua")),
    ("change", tenure_rmap::lua::CHANGE),
    ("checkpoints", include_str!("../../lua/parts/checkpoints.lua")),
    ("clock", SERVER_CLOCK),
    ("delete", include_str!("../../lua/parts/delete.lua")),
    ("generation", include_str!("../../lua/parts/generation.lua")),
    ("guard", include_str!("../../lua/parts/guard.lua")),
    ("keep", include_str!("../../lua/parts/keep.lua")),
    ("member", include_str!("../../lua/parts/member.lua")),
    ("notes", include_str!("../../lua/parts/notes.lua")),
    ("outcome", include_str!("../../lua/parts/outcome.lua")),
    ("paused", include_str!("../../lua/parts/paused.lua")),
    ("records", include_str!("../../lua/parts/records.lua")),
    ("elsewhere", include_str!("../../lua/parts/elsewhere.lua")),
    ("requeue", include_str!("../../lua/parts/requeue.lua")),
    ("why", include_str!("../../lua/parts/why.lua")),
    ("suspect", include_str!("../../lua/parts/suspect.lua")),
    ("ring", include_str!("../../lua/parts/ring.lua")),
    ("run_ends", include_str!("../../lua/parts/run_ends.lua")),
    ("living", include_str!("../../lua/parts/living.lua")),
    ("seats", include_str!("../../lua/parts/seats.lua")),
    ("send", include_str!("../../lua/parts/send.lua")),
    ("settings", include_str!("../../lua/parts/settings.lua")),
    ("tell", include_str!("../../lua/parts/tell.lua")),
    ("term", include_str!("../../lua/parts/term.lua")),
    ("tokens", include_str!("../../lua/parts/tokens.lua")),
];

/// The words of the header's lines `-- KEYS: pool settings jobs, then …`; the lines that go on are indented.
fn key_words(source: &str) -> impl Iterator<Item = &str> {
    let mut lines = source.lines().skip_while(|line| !line.starts_with("-- KEYS: "));
    let first = lines.next().into_iter().filter_map(|line| line.strip_prefix("-- KEYS: "));
    first.chain(lines.map_while(|line| line.strip_prefix("--       "))).flat_map(str::split_whitespace)
}

/// The keys that the header names, up to the first comma.
fn declared_keys(source: &str) -> Vec<&str> {
    let mut names = Vec::new();
    for word in key_words(source) {
        names.push(word.trim_end_matches(','));
        if word.ends_with(',') {
            break;
        }
    }
    names
}

/// The script as it is sent: keys under their names, parts in the place of their lines.
fn spliced(source: &str) -> String {
    let mut text = String::with_capacity(source.len() + 8 * 1024);
    for line in source.lines() {
        match line.strip_prefix("--@") {
            Some(name) => {
                if name == "base" {
                    text.push_str(&key_locals(source));
                }
                text.push_str(PARTS.iter().find(|(part, _)| *part == name).map_or("", |(_, text)| text));
            }
            None => text.push_str(line),
        }
        text.push('\n');
    }
    text
}

/// The script with this clock.
fn with_clock(text: &str, keys: &Keys, clock: Clock) -> String {
    if clock == Clock::Key {
        let key = keys.named("clock");
        let now = format!("local function now() return tonumber(redis.call('GET', '{key}')) end\n");
        return text.replacen(SERVER_CLOCK, &now, 1);
    }
    text.to_owned()
}

/// The script as a proof has broken it.
fn patched(name: &str, text: String, patches: &[ScriptPatch]) -> String {
    patches.iter().filter(|patch| patch.script.is_empty() || patch.script == name).fold(
        text,
        |text, patch| {
            assert!(patch.script.is_empty() || text.contains(patch.from), "{name} has no {:?}", patch.from);
            text.replacen(patch.from, patch.to, 1)
        },
    )
}

/// `local POOL, SETTINGS = KEYS[1], KEYS[2]`.
fn key_locals(source: &str) -> String {
    let names = declared_keys(source);
    let locals: Vec<_> = names.iter().map(|name| name.to_uppercase()).collect();
    let values: Vec<_> = (1..=names.len()).map(|i| format!("KEYS[{i}]")).collect();
    format!("local {} = {}\n", locals.join(", "), values.join(", "))
}

#[cfg(test)]
mod tests;
