//! What the front knows about keys: owners that the ring does not name, and the highest token of each.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tenure_pool::JobKey;

/// The maximum number of keys. With more, all are forgotten: they are learnt again at the cost of a read each.
const KEYS_MAX: usize = 65_536;
/// How long an exception counts. The ring may name the owner again by then.
const EXCEPTION: Duration = Duration::from_secs(30);

/// The front's memory.
#[derive(Debug, Default)]
pub struct Routes {
    keys: Mutex<HashMap<JobKey, Known>>,
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
        self.of(key, |known| known.exception = Some((address.to_owned(), Instant::now())));
    }

    /// The exception was wrong.
    pub fn forget(&self, key: &JobKey) {
        if let Some(known) = self.keys().get_mut(key) {
            known.exception = None;
        }
    }

    /// The highest token of an answer for this key so far.
    pub fn token(&self, key: &JobKey) -> u64 {
        self.keys().get(key).map_or(0, |known| known.token)
    }

    /// An answer carries this token.
    pub fn saw(&self, key: &JobKey, token: u64) {
        self.of(key, |known| known.token = known.token.max(token));
    }

    fn of<T>(&self, key: &JobKey, change: impl FnOnce(&mut Known) -> T) -> T {
        let mut keys = self.keys();
        if keys.len() >= KEYS_MAX && !keys.contains_key(key) {
            keys.clear();
        }
        change(keys.entry(key.clone()).or_default())
    }

    fn keys(&self) -> MutexGuard<'_, HashMap<JobKey, Known>> {
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
    fn its_memory_is_bounded() {
        let routes = Routes::default();
        for number in 0..=KEYS_MAX {
            routes.saw(&JobKey::new(format!("tenant-{number}")).unwrap(), 1);
        }
        assert!(routes.keys().len() <= KEYS_MAX);
    }
}
