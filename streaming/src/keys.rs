//! Every name and key: what names may look like, and the keys beside a stream.

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

/// Where publishers' ids are kept: what they were used for, and until when they are known.
#[derive(Clone, Debug)]
pub(crate) struct OnceKeys {
    pub(crate) ids: String,
    pub(crate) due: String,
}

impl OnceKeys {
    /// The keys beside a stream; none when its name leaves no room for keys in the same slot.
    pub(crate) fn of(stream: &str) -> Option<Self> {
        Some(Self { ids: same_slot(stream, ":once")?, due: same_slot(stream, ":once:due")? })
    }
}

/// A key that Redis Cluster puts where it puts `name`: the name's own hash tag, or the whole name made one.
fn same_slot(name: &str, suffix: &str) -> Option<String> {
    let tagged = name
        .split_once('{')
        .and_then(|(_, rest)| rest.split_once('}'))
        .is_some_and(|(tag, _)| !tag.is_empty());
    if tagged {
        Some(format!("{name}{suffix}"))
    } else if name.contains('}') {
        None
    } else {
        Some(format!("{{{name}}}{suffix}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn siblings_share_the_hash_tag_of_their_stream() {
        assert_eq!(same_slot("orders", ":x").as_deref(), Some("{orders}:x"));
        assert_eq!(same_slot("a{b}c{d}", ":x").as_deref(), Some("a{b}c{d}:x"));
        assert_eq!(same_slot("a{b", ":x").as_deref(), Some("{a{b}:x"));
        for none in ["a}b", "{}a", "}{"] {
            assert_eq!(same_slot(none, ":x"), None, "{none}");
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
