//! Which of its settings a node was given: the rest is the pool's.

use std::collections::BTreeSet;

use super::{Settings, ShardId};

/// The settings that a node was given, by their names. Only these are compared with the pool's.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Given(BTreeSet<&'static str>);

impl Given {
    /// Those of these settings that differ from the defaults.
    pub fn of(settings: &Settings) -> Self {
        let defaults = Settings::default().fields();
        let given = settings.fields().into_iter().filter(|field| !defaults.contains(field));
        Self(given.map(|(name, _)| name).collect())
    }

    /// These are given, too.
    #[must_use]
    pub fn and(mut self, names: impl IntoIterator<Item = &'static str>) -> Self {
        self.0.extend(names);
        self
    }

    /// Whether the node was given it. Each was given its protocol and its place among the shards.
    pub fn has(&self, name: &str) -> bool {
        matches!(name, "protocol" | ShardId::SETTING) || self.0.contains(name)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn settings_that_differ_from_the_defaults_count_as_given() {
        let settings = Settings { max_attempts: 25, hash_keys: Some((1, 2)), ..Settings::default() };
        let given = Given::of(&settings).and(["worker_ttl"]);
        let names = settings.fields().into_iter().map(|(name, _)| name);
        let names: Vec<_> = names.filter(|name| given.has(name)).collect();
        assert_eq!(names, ["protocol", "worker_ttl", "max_attempts", "hash_keys"]);
        assert!(given.has("shard") && !Given::default().has("worker_ttl"));
    }

    #[test]
    fn a_node_that_joins_takes_all_that_it_was_not_given() {
        let theirs = Settings {
            worker_ttl: Duration::from_secs(5),
            hash_keys: Some((1, 2)),
            max_attempts: 25,
            strikes: 7,
            ..Settings::default()
        };
        let stored = theirs.fields().into_iter().map(|(name, value)| (name.to_owned(), value)).collect();
        let ours = Settings::default();
        assert_eq!(ours.joining(&stored, &Given::default()), theirs);
        let given = Given::default().and(["worker_ttl", "strikes"]);
        let joined = ours.joining(&stored, &given);
        assert_eq!((joined.worker_ttl, joined.strikes), (ours.worker_ttl, ours.strikes));
        assert_eq!((joined.hash_keys, joined.max_attempts), (Some((1, 2)), 25));
        // Settings that leases rest on stay for the node's life; those that place jobs are the pool's.
        let later = ours.following(&stored, &Given::default());
        assert_eq!((later.worker_ttl, later.hash_keys), (ours.worker_ttl, Some((1, 2))));
        assert_eq!(ours.following(&stored, &Given::default().and(["hash_keys"])).hash_keys, ours.hash_keys);
    }
}
