//! Names and keys: the rules for names, and the keys beside a stream.

use tenure_connection::same_slot;

use crate::Error;

/// The longest name of a stream, a group, a consumer or a topic, and the longest id of a publisher, in bytes.
pub const MAX_NAME: usize = 512;

/// Refuses names that are empty or too long.
pub(crate) fn check(what: &'static str, name: impl AsRef<[u8]>) -> Result<(), Error> {
    match name.as_ref().len() {
        1..=MAX_NAME => Ok(()),
        bytes => Err(Error::Name { what, bytes, limit: MAX_NAME }),
    }
}

/// The keys for publishers' ids: the content of each, and the end of its window.
#[derive(Clone, Debug)]
pub(crate) struct OnceKeys {
    pub(crate) ids: String,
    pub(crate) due: String,
}

impl OnceKeys {
    /// The keys beside a stream; `None` when its name allows no keys in the same slot.
    pub(crate) fn of(stream: &str) -> Option<Self> {
        // `orders` and `{orders}` are two streams, which would share the keys.
        let tagged = same_slot(stream, "")? == stream;
        let (ids, due) = if tagged { (":tagged:once", ":tagged:once:due") } else { (":once", ":once:due") };
        Some(Self { ids: same_slot(stream, ids)?, due: same_slot(stream, due)? })
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn the_keys_beside_a_stream_are_in_its_slot() {
        for stream in ["orders", "a{b}c{d}", "a{b"] {
            let keys = OnceKeys::of(stream).unwrap();
            for key in [&keys.ids, &keys.due] {
                assert_eq!(tenure_connection::slot(key), tenure_connection::slot(stream), "{key}");
            }
            assert_ne!(keys.ids, keys.due);
        }
        assert!(OnceKeys::of("a}b").is_none());
    }

    #[test]
    fn no_two_streams_share_a_key() {
        let mut keys = std::collections::BTreeSet::new();
        let streams =
            ["orders", "{orders}", "{orders}:tagged", "{orders}:once", "a{orders}", "{{orders}", "{orders"];
        for stream in streams {
            let OnceKeys { ids, due } = OnceKeys::of(stream).unwrap();
            assert!(keys.insert(ids) && keys.insert(due), "{stream}");
        }
    }

    #[test]
    fn names_have_bounds() {
        assert!(check("stream", "a").is_ok() && check("stream", "a".repeat(MAX_NAME)).is_ok());
        for bad in [String::new(), "a".repeat(MAX_NAME + 1)] {
            assert!(matches!(check("stream", &bad), Err(Error::Name { what: "stream", .. })));
        }
    }
}
