//! Types and ids: any simple key.

use std::fmt::Write as _;

use tenure_jobs::{Error, JobId, QueueName};

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
        format!("t2:{}~{}~", self.0.text(), self.1.text())
    }
}

impl<A: Key, B: Key, C: Key> Key for (A, B, C) {
    fn text(&self) -> String {
        format!("t3:{}~{}~{}~", self.0.text(), self.1.text(), self.2.text())
    }
}

/// The queue of a type. A queue's name has no `%` and no `~`: both, and the mark that stands for them, are a mark and another
/// character, each of its own.
pub(crate) fn type_of(of: &impl Key) -> Result<QueueName, Error> {
    Ok(QueueName::new(of.text().replace(':', "::").replace('%', ":-").replace('~', ":."))?)
}

pub(crate) fn prefix_of(of: &impl Key) -> Result<String, Error> {
    Ok(format!("{}/", type_of(of)?))
}

pub(crate) fn id_of(of: &impl Key, id: &impl Key) -> Result<JobId, Error> {
    let text = id.text();
    // An empty text would leave the type alone.
    Ok(JobId::new(if text.is_empty() { text } else { format!("{}{text}", prefix_of(of)?) })?)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::collections::BTreeMap;

    use proptest::prelude::*;

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

    #[test]
    fn a_number_and_a_text_are_different_types() {
        let queues = [type_of(&20u32).unwrap(), type_of(&"i ").unwrap(), type_of(&"i:20").unwrap()];
        assert_eq!(queues.each_ref().map(QueueName::as_str), ["i::20", "i:-20", "i:-3A20"]);
        assert_eq!(type_of(&20i64).unwrap(), queues[0], "a number is the same in any width");
    }

    #[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
    enum Any {
        Text(String),
        Number(i64),
        Two(Box<(Any, Any)>),
        Three(Box<(Any, Any, Any)>),
    }

    impl Key for Any {
        fn text(&self) -> String {
            match self {
                Self::Text(text) => text.text(),
                Self::Number(number) => number.text(),
                Self::Two(two) => two.text(),
                Self::Three(three) => three.text(),
            }
        }
    }

    fn keys() -> impl Strategy<Value = Any> {
        // The characters of marks and escapes, and few of them, so that many keys are neighbours.
        let leaf = prop_oneof!["[it23:~.% 0-]{0,3}".prop_map(Any::Text), (-3i64..30).prop_map(Any::Number)];
        leaf.prop_recursive(2, 6, 3, |inner| {
            let two = (inner.clone(), inner.clone()).prop_map(|two| Any::Two(Box::new(two)));
            let three = (inner.clone(), inner.clone(), inner);
            prop_oneof![two, three.prop_map(|three| Any::Three(Box::new(three)))]
        })
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(32))]
        #[test]
        fn different_keys_are_different_types_and_ids(keys in prop::collection::btree_set(keys(), 60)) {
            let (mut types, mut ids) = (BTreeMap::new(), BTreeMap::new());
            for key in &keys {
                if let Ok(queue) = type_of(key) {
                    prop_assert_eq!(types.insert(queue, key), None);
                }
                for of in ["t", "t2"] {
                    if let Ok(id) = id_of(&of, key) {
                        prop_assert_eq!(ids.insert(id, (of, key)), None);
                    }
                }
            }
        }
    }
}
