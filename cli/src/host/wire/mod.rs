//! The host protocol, version 1, as plain data: one JSON object a line, in both directions. docs/host-protocol.md says what
//! the messages mean.
//!
//! `down` has those of the node to a host, `up` those of a host to the node, `body` the bytes in them, and `codec` the
//! lines.

pub(super) mod body;
pub(super) mod codec;
pub(super) mod down;
pub(super) mod up;

/// The version that this node speaks.
pub(super) const VERSION: u32 = 1;
/// The abilities of this node besides the version's own messages.
pub(super) const FEATURES: [&str; 4] = ["ask", "checkpoint", "client", "update"];
/// The longest line, with its end.
pub(super) const LINE_MAX: usize = 1 << 20;

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::collections::BTreeSet;
    use std::path::Path;

    use serde::Serialize;
    use serde::de::DeserializeOwned;
    use serde_json::Value;

    use super::down::Down;
    use super::up::Up;

    fn read<M: DeserializeOwned + Serialize>(line: &str) -> Value {
        let message: M = serde_json::from_str(line).unwrap_or_else(|error| panic!("{line}: {error}"));
        serde_json::to_value(message).unwrap()
    }

    /// A line of a transcript: whether the host says it, and the message.
    fn split(line: &str) -> (bool, &str) {
        let host = line.strip_prefix("{\"host\":");
        let message = host.or_else(|| line.strip_prefix("{\"tenure\":")).and_then(|it| it.strip_suffix('}'));
        (host.is_some(), message.unwrap_or_else(|| panic!("{line}")))
    }

    fn transcripts() -> impl Iterator<Item = (String, String)> {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/host-protocol");
        std::fs::read_dir(folder).unwrap().map(|file| {
            let path = file.unwrap().path();
            (path.display().to_string(), std::fs::read_to_string(&path).unwrap())
        })
    }

    /// All words of one side, as the error for an unknown one names them.
    fn known<M: DeserializeOwned>() -> Vec<String> {
        let error = serde_json::from_str::<M>(r#"{"op":"?"}"#).err().unwrap().to_string();
        let (_, known) = error.split_once("expected one of ").unwrap();
        known.split('`').skip(1).step_by(2).map(str::to_owned).collect()
    }

    #[test]
    fn transcripts_are_read_and_written_without_a_change() {
        let mut ops = BTreeSet::new();
        for (path, text) in transcripts() {
            for line in text.lines() {
                let (of_host, json) = split(line);
                let value: Value = serde_json::from_str(json).unwrap();
                let again = if of_host { read::<Up>(json) } else { read::<Down>(json) };
                assert_eq!(again, value, "{path}");
                ops.insert((of_host, value["op"].as_str().unwrap().to_owned()));
            }
        }
        let up = known::<Up>().into_iter().map(|op| (true, op));
        let all: BTreeSet<_> = known::<Down>().into_iter().map(|op| (false, op)).chain(up).collect();
        assert_eq!(ops, all, "each message has a transcript");
    }

    #[test]
    fn the_page_shows_the_transcripts_as_they_are() {
        let docs = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs");
        let page = std::fs::read_to_string(docs.join("host-protocol.md")).unwrap();
        for (path, text) in transcripts() {
            let shown = text.lines().map(split).map(|(of_host, json)| {
                let arrow = if of_host { '←' } else { '→' };
                format!("{arrow} {json}\n")
            });
            let shown: String = shown.collect();
            assert!(page.contains(&format!("```text\n{shown}```")), "{path}");
        }
    }

    #[test]
    fn a_field_that_nobody_knows_is_passed_over() {
        let line = r#"{"op":"started","job":1,"mood":{"a":[1]}}"#;
        assert_eq!(serde_json::from_str::<Up>(line).unwrap(), Up::Started { job: 1 });
    }
}
