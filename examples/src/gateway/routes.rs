//! The front's knowledge of keys: owners that the ring does not name, and the highest token of each.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tenure_pool::JobKey;

/// The maximum number of keys. With more, half of them are forgotten: those without an answer for longest. The owner of
/// such a key is asked for again. Until it has answered, the answer of a former owner is taken for the latest.
const KEYS_MAX: usize = 65_536;
/// How long an exception counts. The ring may name the owner again by then.
const EXCEPTION: Duration = Duration::from_secs(30);

/// The front's memory.
#[derive(Debug, Default)]
pub struct Routes {
    keys: Mutex<Keys>,
}

/// Two halves: what changes moves to the new one. Where that is full, the old one is forgotten.
#[derive(Debug, Default)]
struct Keys {
    new: HashMap<JobKey, Known>,
    old: HashMap<JobKey, Known>,
}

impl Keys {
    fn get(&self, key: &JobKey) -> Option<&Known> {
        self.new.get(key).or_else(|| self.old.get(key))
    }

    fn of(&mut self, key: &JobKey) -> &mut Known {
        if self.new.len() >= KEYS_MAX / 2 && !self.new.contains_key(key) {
            let known = self.old.remove(key);
            self.old = std::mem::take(&mut self.new);
            return self.new.entry(key.clone()).or_insert(known.unwrap_or_default());
        }
        let old = &mut self.old;
        self.new.entry(key.clone()).or_insert_with(|| old.remove(key).unwrap_or_default())
    }
}

#[derive(Debug, Default)]
struct Known {
    token: u64,
    exception: Option<(String, Instant)>,
}

impl Routes {
    /// The address to which requests for this key go in place of the guess.
    pub fn exception(&self, key: &JobKey) -> Option<String> {
        let keys = self.keys();
        let (address, since) = keys.get(key)?.exception.as_ref()?;
        (since.elapsed() < EXCEPTION).then(|| address.clone())
    }

    /// The owner is here, although the ring may name another.
    pub fn except(&self, key: &JobKey, address: &str) {
        self.keys().of(key).exception = Some((address.to_owned(), Instant::now()));
    }

    /// The exception was wrong.
    pub fn forget(&self, key: &JobKey) {
        let mut keys = self.keys();
        if keys.get(key).is_some_and(|known| known.exception.is_some()) {
            keys.of(key).exception = None;
        }
    }

    /// The highest token of an answer for this key so far.
    pub fn token(&self, key: &JobKey) -> u64 {
        self.keys().get(key).map_or(0, |known| known.token)
    }

    /// An answer carries this token.
    pub fn saw(&self, key: &JobKey, token: u64) {
        let mut keys = self.keys();
        let known = keys.of(key);
        known.token = known.token.max(token);
    }

    fn keys(&self) -> MutexGuard<'_, Keys> {
        self.keys.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn the_highest_token_of_each_key_is_known() {
        let (routes, key) = (Routes::default(), JobKey::new("acme").unwrap());
        for token in [7, 9, 8] {
            routes.saw(&key, token);
        }
        assert_eq!(routes.token(&key), 9);
        assert_eq!(routes.token(&JobKey::new("globex").unwrap()), 0, "keys do not compare");
    }

    #[test]
    fn an_exception_holds_until_it_is_forgotten() {
        let (routes, key) = (Routes::default(), JobKey::new("acme").unwrap());
        assert_eq!(routes.exception(&key), None);
        routes.except(&key, "http://a");
        routes.except(&key, "http://b");
        assert_eq!(routes.exception(&key).as_deref(), Some("http://b"));
        routes.forget(&key);
        assert_eq!(routes.exception(&key), None);
    }

    #[test]
    fn its_memory_is_bounded_and_keeps_what_is_in_use() {
        let (routes, used) = (Routes::default(), JobKey::new("acme").unwrap());
        routes.saw(&used, 9);
        for number in 0..=2 * KEYS_MAX {
            routes.saw(&JobKey::new(format!("tenant-{number}")).unwrap(), 1);
            if number % 1_000 == 0 {
                routes.saw(&used, 8);
            }
        }
        let known = routes.keys();
        assert!(known.new.len() + known.old.len() <= KEYS_MAX);
        drop(known);
        assert_eq!(routes.token(&used), 9);
    }
}
