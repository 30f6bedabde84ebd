//! Types and ids: any simple key.

use std::fmt::Write as _;

use crate::error::Error;
use crate::model::id::{JobId, QueueName};

/// A simple key: a text, a number, or a tuple of keys. Different keys are different ids.
pub trait Key: Send + Sync {
    /// Its text: letters, digits, `_`, `.`, `-`, and the marks `%`, `:` and `~`.
    fn text(&self) -> String;
}

impl<K: Key + ?Sized> Key for &K {
    fn text(&self) -> String {
        (**self).text()
    }
}

impl Key for str {
    fn text(&self) -> String {
        let mut text = String::with_capacity(self.len());
        for byte in self.bytes() {
            if byte.is_ascii_alphanumeric() || b"_.-".contains(&byte) {
                text.push(char::from(byte));
            } else {
                let _ = write!(text, "%{byte:02X}");
            }
        }
        text
    }
}

impl Key for String {
    fn text(&self) -> String {
        self.as_str().text()
    }
}

macro_rules! numbers {
    ($($number:ty),*) => {
        $(
            impl Key for $number {
                fn text(&self) -> String {
                    format!("i:{self}")
                }
            }
        )*
    };
}

numbers!(u32, u64, i32, i64);

impl<A: Key, B: Key> Key for (A, B) {
    fn text(&self) -> String {
        format!("t:{}~{}~", self.0.text(), self.1.text())
    }
}

impl<A: Key, B: Key, C: Key> Key for (A, B, C) {
    fn text(&self) -> String {
        format!("t:{}~{}~{}~", self.0.text(), self.1.text(), self.2.text())
    }
}

/// The queue of a type. A queue's name has no `%` and no `~`.
pub(super) fn type_of(of: &impl Key) -> Result<QueueName, Error> {
    Ok(QueueName::new(of.text().replace('%', ":").replace('~', ":."))?)
}

pub(super) fn prefix_of(of: &impl Key) -> Result<String, Error> {
    Ok(format!("{}/", type_of(of)?))
}

pub(super) fn id_of(of: &impl Key, id: &impl Key) -> Result<JobId, Error> {
    let text = id.text();
    // An empty text would leave the type alone.
    Ok(JobId::new(if text.is_empty() { text } else { format!("{}{text}", prefix_of(of)?) })?)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn different_keys_are_different_ids() {
        let texts = [
            id_of(&"t", &"42").unwrap(),
            id_of(&"t", &42u32).unwrap(),
            id_of(&"t", &"i:42").unwrap(),
            id_of(&"t", &("a", "b")).unwrap(),
            id_of(&"t", &("a", "b", "")).unwrap(),
            id_of(&"t", &(("a", "b"), "")).unwrap(),
            id_of(&"t", &("a~b", "")).unwrap(),
            id_of(&"t/", &"a").unwrap(),
            id_of(&"t", &"/a").unwrap(),
        ];
        for (at, id) in texts.iter().enumerate() {
            assert!(!texts[..at].contains(id), "{id}");
        }
        assert_eq!(texts[0], "t/42");
        assert!(id_of(&"t", &"").is_err() && type_of(&"").is_err());
    }
}
