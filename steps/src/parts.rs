//! Scripts, put together from parts.

use crate::{File, without_unused_functions};

/// The shared texts of the scripts of a crate, by name.
///
/// A line `--@name` of a script stands for the part `name`, and a part may have parts. The line `--@keys`
/// stands for the names of the script's keys ([`File::key_locals`]). The part `clock` tells the time.
#[derive(Clone, Copy, Debug)]
pub struct Parts(pub &'static [(&'static str, &'static str)]);

impl Parts {
    /// The text of the part with this name.
    pub fn get(&self, name: &str) -> Option<&'static str> {
        self.0.iter().find(|(part, _)| *part == name).map(|(_, text)| *text)
    }

    /// The text of the script for a server: parts in the place of their lines, without unused functions. Redis makes all functions of a text anew at each call. An unknown part is nothing.
    pub fn assemble(&self, file: &File) -> String {
        let mut text = String::with_capacity(file.source().len() + 24 * 1024);
        self.splice(file, file.source(), &mut text);
        without_unused_functions(&text)
    }

    fn splice(&self, file: &File, source: &str, into: &mut String) {
        for line in source.lines() {
            match line.strip_prefix("--@") {
                Some("keys") => into.push_str(file.key_locals(&[]).trim_end()),
                Some(name) => self.splice(file, self.get(name).unwrap_or_default(), into),
                None => into.push_str(line),
            }
            into.push('\n');
        }
    }

    /// An assembled script that reads the time, in ms, from this key of Redis: for tests with a time of their own.
    #[must_use]
    pub fn with_clock_key(&self, text: &str, key: &str) -> String {
        let clock = self.get("clock").unwrap_or_default();
        let now = format!("local function now() return tonumber(redis.call('GET', '{key}')) end\n");
        text.replacen(clock, &now, 1)
    }
}

/// The [`Parts`](crate::Parts) of these names: files `name.lua` of a folder, beside the caller's file, and texts from
/// elsewhere.
///
/// ```ignore
/// const PARTS: Parts = parts!("lua/parts/": base, clock, records; change = tenure_rmap::lua::CHANGE);
/// ```
#[macro_export]
macro_rules! parts {
    ($folder:literal: $($name:ident),+ $(,)? $(; $other:ident = $text:expr)* $(;)?) => {
        $crate::Parts(&[
            $((stringify!($name), include_str!(concat!($folder, stringify!($name), ".lua"))),)+
            $((stringify!($other), $text),)*
        ])
    };
}

#[cfg(test)]
mod tests {
    use super::*;

    const PARTS: Parts = Parts(&[
        ("base", "--@keys\n--@clock\nlocal function unused() return 1 end\n"),
        ("clock", "local function now() return redis.call('TIME')[1] end\n"),
    ]);
    const FILE: File = File::new("f-1", "#!lua\n-- KEYS: pool\n--@base\n--@unknown\nreturn now() .. POOL\n");

    #[test]
    fn parts_and_names_of_keys_stand_in_the_place_of_their_lines() {
        let text = PARTS.assemble(&FILE);
        let code: Vec<_> = text.lines().filter(|line| !line.is_empty() && !line.starts_with("--")).collect();
        assert_eq!(
            code,
            [
                "#!lua",
                "local POOL = KEYS[1]",
                "local function now() return redis.call('TIME')[1] end",
                "return now() .. POOL"
            ]
        );
    }

    #[test]
    fn the_clock_can_be_a_key() {
        let text = PARTS.with_clock_key(&PARTS.assemble(&FILE), "p:clock");
        assert!(text.contains("redis.call('GET', 'p:clock')") && !text.contains("TIME"), "{text}");
    }
}
