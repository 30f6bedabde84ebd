//! Where a map lives in Redis.

use crate::Error;

/// The names that make up one replicated map. Several maps may share the meta hash and the channel. The keys and the
/// channel are in one slot of a cluster: they have the same `{hash tag}`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Layout {
    /// The map's name in messages.
    pub name: String,
    /// Key of the hash with the entries.
    pub hash: String,
    /// Key of the hash with incarnation and revision.
    pub meta: String,
    /// The field of `meta` that holds the incarnation, a decimal number. Without it there is no map.
    pub inc_field: String,
    /// The field of `meta` that holds the revision, a decimal number. Two more fields append `:at` and `:ttl` to its
    /// name: they hold the stamp of the revision and the life of the map.
    pub rev_field: String,
    /// Key of the sorted set with the deadlines of the entries that end; `None` for a map whose entries are all
    /// permanent. The copies of a map with this key delete due entries.
    pub deadlines: Option<String>,
    /// The channel on which changes are published.
    pub channel: String,
}

impl Layout {
    /// The longest key of an entry, in bytes.
    pub const MAX_KEY: usize = 512;
    /// The longest value in bytes, and the longest list: every change travels to every copy.
    pub const MAX_VALUE: usize = 1 << 20;
    /// The most items of a list: each change of a list handles all of them.
    pub const MAX_ITEMS: usize = 1 << 16;
    /// The most keys that one call may change.
    pub const MAX_MANY: usize = 10_000;
    /// The most bytes of all keys, values or items of one call.
    pub const MAX_CALL: usize = 4 << 20;

    const MAX_NAME: usize = 64;

    /// The keys of a map by itself: `tenure:map:{name}:…`, all in one slot of a cluster.
    ///
    /// # Errors
    /// [`Error::Name`] if the name is not 1 to 64 characters of `A-Z a-z 0-9 _ : . -`.
    pub fn stand_alone(name: &str) -> Result<Self, Error> {
        let fits = (1..=Self::MAX_NAME).contains(&name.len());
        if !fits || !name.bytes().all(|b| b.is_ascii_alphanumeric() || b"_:.-".contains(&b)) {
            return Err(Error::Name { name: name.chars().take(80).collect() });
        }
        Ok(Self {
            name: name.to_owned(),
            hash: format!("tenure:map:{{{name}}}:entries"),
            meta: format!("tenure:map:{{{name}}}:meta"),
            inc_field: "inc".to_owned(),
            rev_field: "rev".to_owned(),
            deadlines: Some(format!("tenure:map:{{{name}}}:deadlines")),
            channel: format!("tenure:map:{{{name}}}:changes"),
        })
    }

    /// The cluster slots of the keys and the channel.
    pub(crate) fn slots(&self) -> impl Iterator<Item = u16> {
        let names = [&self.meta, &self.hash, &self.channel].into_iter().chain(&self.deadlines);
        names.map(tenure_connection::slot)
    }

    pub(crate) fn check_key(key: &[u8]) -> Result<(), Error> {
        match key.len() {
            1..=Self::MAX_KEY => Ok(()),
            len => Err(Error::Key { len, max: Self::MAX_KEY }),
        }
    }

    /// Checks the number and size of the keys or items of one call.
    pub(crate) fn check_many(count: usize, bytes: usize) -> Result<(), Error> {
        if count > Self::MAX_MANY || bytes > Self::MAX_CALL {
            return Err(Error::TooMany { count, bytes });
        }
        Ok(())
    }

    pub(crate) fn check_value(value: &[u8]) -> Result<(), Error> {
        match value.len() {
            len if len > Self::MAX_VALUE => Err(Error::Value { len, max: Self::MAX_VALUE }),
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn names_and_keys_are_checked() {
        assert_eq!(Layout::stand_alone("a.b").unwrap().hash, "tenure:map:{a.b}:entries");
        for name in ["", "a{b", "a b", "é", &"x".repeat(65)] {
            assert!(matches!(Layout::stand_alone(name), Err(Error::Name { .. })), "{name}");
        }
        assert!(matches!(Layout::check_key(b""), Err(Error::Key { len: 0, .. })));
        assert!(matches!(Layout::check_key(&[0; 513]), Err(Error::Key { len: 513, .. })));
        assert!(Layout::check_key(&[0xff; 512]).is_ok());
        assert!(matches!(Layout::check_value(&vec![0; (1 << 20) + 1]), Err(Error::Value { .. })));
    }
}
