//! The whole state of a store as a comparable picture, for tests: both stores draw the same one.

use std::collections::BTreeMap;
use std::fmt;

/// The content of one key: fields and values of a hash, or members and scores of a sorted set.
pub type Content = BTreeMap<String, String>;

/// The content of every key, by its name without the prefix. Bytes that are no text are escaped.
///
/// Left out: what differs between two stores that took the same steps (the server, the lanes' times to live).
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Dump(BTreeMap<String, Content>);

impl Dump {
    /// Adds a key, if it has content.
    pub fn insert<F: AsRef<[u8]>, V: AsRef<[u8]>>(
        &mut self,
        name: &str,
        content: impl IntoIterator<Item = (F, V)>,
    ) {
        let is_plain = |byte: &u8| (b' '..=b'~').contains(byte) && !b"\\'\"".contains(byte);
        let text = |bytes: &[u8]| {
            if bytes.iter().all(is_plain) {
                String::from_utf8_lossy(bytes).into_owned()
            } else {
                bytes.escape_ascii().to_string()
            }
        };
        let content: Content =
            content.into_iter().map(|(field, value)| (text(field.as_ref()), text(value.as_ref()))).collect();
        if !content.is_empty() {
            self.0.insert(name.to_owned(), content);
        }
    }

    /// The content of a key.
    pub fn get(&self, name: &str) -> Option<&Content> {
        self.0.get(name)
    }

    /// The value of a field, or the score of a member.
    pub fn value(&self, name: &str, field: &str) -> Option<&str> {
        self.0.get(name)?.get(field).map(String::as_str)
    }

    /// The names of all keys, in order.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.0.keys().map(String::as_str)
    }

    /// One line per field and member, in order.
    pub fn lines(&self) -> Vec<String> {
        let lines = |(name, content): (&String, &Content)| {
            content.iter().map(|(field, value)| format!("{name} {field} = {value}")).collect::<Vec<_>>()
        };
        self.0.iter().flat_map(lines).collect()
    }
}

impl fmt::Debug for Dump {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.lines().iter().try_for_each(|line| writeln!(f, "{line}"))
    }
}
