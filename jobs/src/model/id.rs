//! Names and numbers that appear in the store.

use std::fmt::{self, Write as _};
use std::str::FromStr;
use std::sync::Arc;

/// A text that cannot be a name or an id. Nothing was sent.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{text:?} is not {what}: {allowed}")]
#[non_exhaustive]
pub struct InvalidName {
    /// The kind of name.
    what: &'static str,
    /// The characters and the length that are allowed.
    allowed: &'static str,
    /// The text, cut off at 80 characters.
    text: String,
}

fn checked(
    text: &str,
    longest: usize,
    also: &str,
    what: &'static str,
    allowed: &'static str,
) -> Result<Arc<str>, InvalidName> {
    let allows = |c: char| c.is_ascii_alphanumeric() || also.contains(c);
    if text.is_empty() || text.len() > longest || !text.chars().all(allows) {
        return Err(InvalidName { what, allowed, text: text.chars().take(80).collect() });
    }
    Ok(text.into())
}

macro_rules! names {
    ($($(#[$doc:meta])* $name:ident($longest:literal, $also:literal, $what:literal, $allowed:literal);)*) => {
        $(
            $(#[$doc])*
            #[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
            pub struct $name(Arc<str>);

            impl $name {
                /// Checks a text.
                ///
                /// # Errors
                /// It is empty, too long, or has another character.
                pub fn new(text: impl AsRef<str>) -> Result<Self, InvalidName> {
                    checked(text.as_ref(), $longest, $also, $what, $allowed).map(Self)
                }

                /// The text.
                pub fn as_str(&self) -> &str {
                    &self.0
                }
            }

            impl fmt::Display for $name {
                fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                    f.write_str(&self.0)
                }
            }

            impl fmt::Debug for $name {
                fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                    fmt::Debug::fmt(&*self.0, f)
                }
            }

            impl FromStr for $name {
                type Err = InvalidName;

                fn from_str(text: &str) -> Result<Self, InvalidName> {
                    Self::new(text)
                }
            }

            impl PartialEq<str> for $name {
                fn eq(&self, other: &str) -> bool {
                    &*self.0 == other
                }
            }

            impl PartialEq<&str> for $name {
                fn eq(&self, other: &&str) -> bool {
                    &*self.0 == *other
                }
            }
        )*
    };
}

names! {
    /// The name of a set: all queues that share one slot of a cluster.
    SetName(64, "_:.-", "a name for a set", "1 to 64 of A-Z a-z 0-9 _ : . -");
    /// The name of a queue.
    QueueName(64, "_:.-", "a name for a queue", "1 to 64 of A-Z a-z 0-9 _ : . -");
    /// The name of a node, unique in its set.
    NodeName(64, "_:.-", "a name for a node", "1 to 64 of A-Z a-z 0-9 _ : . -");
    /// A job's id, unique in its set while the job is there.
    JobId(256, "_:.~%@/-", "an id for a job", "1 to 256 of A-Z a-z 0-9 _ : . ~ % @ / -");
    /// The name of a group within a queue: a tenant, a customer, a resource.
    GroupName(256, "_:.~%@/-", "a name for a group", "1 to 256 of A-Z a-z 0-9 _ : . ~ % @ / -");
}

/// Stands between the id of a job and the name of a child.
const OF: &str = "..";

impl JobId {
    /// The id of a child of this job: `<id>..<name>`. Bytes not allowed in ids are percent-encoded, and so are dots
    /// where the id could be the id of another child.
    ///
    /// # Errors
    /// The name is empty, or the id has more than 256 bytes.
    pub(crate) fn child(&self, name: &str) -> Result<Self, InvalidName> {
        let mut name = Self::encoded(name)?.0.replace(OF, "%2E%2E");
        if name.starts_with('.') {
            name.replace_range(..1, "%2E");
        }
        Self::new(format!("{self}{OF}{name}"))
    }

    /// Whether the id has the form of a child's. Only the parent of a child adds it.
    pub(crate) fn is_a_childs(&self) -> bool {
        self.0.contains(OF)
    }

    /// An id for any bytes: those that no id may have are percent-encoded.
    ///
    /// # Errors
    /// The bytes are none, or more than 256 when encoded.
    pub fn encoded(bytes: impl AsRef<[u8]>) -> Result<Self, InvalidName> {
        let mut text = String::with_capacity(bytes.as_ref().len());
        for &byte in bytes.as_ref() {
            if byte.is_ascii_alphanumeric() || b"_:.~@/-".contains(&byte) {
                text.push(char::from(byte));
            } else {
                let _ = write!(text, "%{byte:02X}");
            }
        }
        Self::new(text)
    }
}

/// The fencing token of an execution. Every later execution of the set has a higher one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Token(pub u64);

impl Token {
    /// The highest number that a set gives to an execution: 2^53 − 2^20. Redis scripts count exactly up to 2^53. No
    /// step believes a caller with a higher number.
    pub const LAST: Self = Self((1 << 53) - (1 << 20));
}

impl fmt::Display for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// One life of a set's data. It rises with every loss of data.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Incarnation(pub u64);

impl fmt::Display for Incarnation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn a_name_has_a_length_and_an_alphabet() {
        assert!(QueueName::new("mail.eu-1:x_y").is_ok());
        for bad in ["", "a b", "a|b", "ä", "a}", "a\n"] {
            assert!(QueueName::new(bad).is_err() && JobId::new(bad).is_err(), "{bad:?}");
        }
        assert!(QueueName::new("q".repeat(64)).is_ok() && QueueName::new("q".repeat(65)).is_err());
        let said = QueueName::new("a b").unwrap_err().to_string();
        assert_eq!(said, "\"a b\" is not a name for a queue: 1 to 64 of A-Z a-z 0-9 _ : . -");
    }

    #[test]
    fn no_two_children_have_one_id() {
        let child = |parent: &str, name: &str| JobId::new(parent).unwrap().child(name).unwrap();
        assert_eq!(child("order-7", "item.1"), "order-7..item.1");
        let ids = [
            child("a", "b"),
            child("a", ".b"),
            child("a.", "b"),
            child("a", "b.c"),
            child("a", "b..c"),
            child("a..b", "c"),
            child("a", "..b"),
            child("a..", "b"),
        ];
        let different: std::collections::BTreeSet<_> = ids.iter().collect();
        assert_eq!(different.len(), ids.len(), "{ids:?}");
        assert!(ids.iter().all(JobId::is_a_childs) && !JobId::new("cat.v1.png").unwrap().is_a_childs());
        assert!(JobId::new("a").unwrap().child("").is_err());
    }

    #[test]
    fn any_bytes_have_an_id_of_their_own() {
        assert_eq!(JobId::encoded("a b%").unwrap(), "a%20b%25");
        assert_eq!(JobId::encoded(b"\xff|").unwrap(), "%FF%7C");
        assert!(JobId::encoded("").is_err());
    }
}
