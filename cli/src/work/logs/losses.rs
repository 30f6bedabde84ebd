//! Lines that could not be written. The log tells of a key and cause once a minute, with the number of lost lines.

use std::collections::HashMap;
use std::time::{Duration, Instant};

/// The time in which a cause is not told again.
const QUIET: Duration = Duration::from_secs(60);
/// How many keys and causes are told apart. The rest is told together.
const APART: usize = 256;
const OTHERS: &str = "others";

/// The losses of keys.
#[derive(Debug, Default)]
pub(super) struct Losses(HashMap<(String, String), Loss>);

#[derive(Debug)]
struct Loss {
    told: Instant,
    /// How many lines were lost since then.
    lines: u64,
}

impl Losses {
    /// A line of this key was lost for this cause. Returns the key and the number of lines to tell of, if it is time.
    pub(super) fn add<'a>(&mut self, key: &'a str, cause: &str, now: Instant) -> Option<(&'a str, u64)> {
        let of = |key: &str| (key.to_owned(), cause.to_owned());
        let key = if self.0.len() < APART || self.0.contains_key(&of(key)) { key } else { OTHERS };
        let is_over = |loss: &Loss| now.saturating_duration_since(loss.told) >= QUIET;
        match self.0.get_mut(&of(key)) {
            Some(loss) if is_over(loss) => {
                let lines = std::mem::take(&mut loss.lines) + 1;
                loss.told = now;
                Some((key, lines))
            }
            Some(loss) => {
                loss.lines += 1;
                None
            }
            None => {
                // Losses that were told in full make room.
                self.0.retain(|_, loss| loss.lines > 0 || !is_over(loss));
                self.0.insert(of(key), Loss { told: now, lines: 0 });
                Some((key, 1))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_key_and_cause_is_told_once_a_minute() {
        let (mut losses, start) = (Losses::default(), Instant::now());
        let at = |seconds| start + Duration::from_secs(seconds);
        assert_eq!(losses.add("a", "full", at(0)), Some(("a", 1)));
        for _ in 0..1_000 {
            assert_eq!(losses.add("a", "full", at(30)), None);
        }
        assert_eq!(losses.add("b", "full", at(30)), Some(("b", 1)), "another key");
        assert_eq!(losses.add("a", "gone", at(30)), Some(("a", 1)), "another cause");
        assert_eq!(losses.add("a", "full", at(60)), Some(("a", 1_001)));
        assert_eq!(losses.add("a", "full", at(61)), None);
    }

    #[test]
    fn many_keys_are_told_together() {
        let (mut losses, now) = (Losses::default(), Instant::now());
        let told = (0..10_000)
            .filter_map(|number| losses.add(&number.to_string(), "full", now).map(|(key, _)| key == OTHERS));
        let told: Vec<_> = told.collect();
        assert_eq!(told.len(), APART + 1);
        assert_eq!(told.last(), Some(&true));
        assert_eq!(losses.0.len(), APART + 1);
    }
}
