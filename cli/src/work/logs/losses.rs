//! Lines that could not be written. The log tells of a key and cause at once, then once a minute and at the end, with the number of
//! lost lines. So the numbers add up to all lost lines, also when no further line is lost.

use std::collections::HashMap;
use std::time::{Duration, Instant};

/// The time in which a cause is not told again.
pub(super) const QUIET: Duration = Duration::from_secs(60);
/// How many keys and causes are told apart. The rest is told together.
const APART: usize = 256;
const OTHERS: &str = "others";

/// The losses of keys.
#[derive(Debug)]
pub(super) struct Losses {
    quiet: Duration,
    kept: HashMap<(String, String), Loss>,
    /// When the next of the kept losses is due.
    next: Option<Instant>,
}

#[derive(Debug)]
struct Loss {
    told: Instant,
    /// How many lines were lost since then.
    lines: u64,
}

/// A loss that the log has to tell of.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Told {
    pub(super) key: String,
    pub(super) cause: String,
    pub(super) lines: u64,
}

impl Losses {
    /// No losses so far. A cause is told again after the time `quiet`.
    pub(super) fn new(quiet: Duration) -> Self {
        Self { quiet, kept: HashMap::new(), next: None }
    }

    /// Lines of this key were lost for this cause. Returns what to tell at once.
    pub(super) fn add(&mut self, key: &str, cause: &str, lines: u64, now: Instant) -> Option<Told> {
        let of = |key: &str| (key.to_owned(), cause.to_owned());
        let key = if self.kept.len() < APART || self.kept.contains_key(&of(key)) { key } else { OTHERS };
        if let Some(loss) = self.kept.get_mut(&of(key)) {
            loss.lines += lines;
            return None;
        }
        self.kept.insert(of(key), Loss { told: now, lines: 0 });
        self.next.get_or_insert(now + self.quiet);
        Some(Told { key: key.to_owned(), cause: cause.to_owned(), lines })
    }

    /// How long nothing is due. None: until the next loss.
    pub(super) fn wait(&self, now: Instant) -> Option<Duration> {
        self.next.map(|next| next.saturating_duration_since(now))
    }

    /// The losses to tell of now. A loss that has grown no further is forgotten, which makes room for other keys.
    pub(super) fn due(&mut self, now: Instant) -> Vec<Told> {
        let mut due = Vec::new();
        if self.next.is_none_or(|next| now < next) {
            return due;
        }
        self.kept.retain(|of, loss| {
            if now.saturating_duration_since(loss.told) < self.quiet {
                return true;
            }
            loss.told = now;
            let told = loss.take(of);
            let has_grown = told.is_some();
            due.extend(told);
            has_grown
        });
        self.next = self.kept.values().map(|loss| loss.told + self.quiet).min();
        due
    }

    /// All that was never told.
    pub(super) fn rest(mut self) -> Vec<Told> {
        self.kept.iter_mut().filter_map(|(of, loss)| loss.take(of)).collect()
    }
}

impl Loss {
    /// The lines that were not told yet, if there are any. From now on they are.
    fn take(&mut self, (key, cause): &(String, String)) -> Option<Told> {
        let lines = std::mem::take(&mut self.lines);
        (lines > 0).then(|| Told { key: key.clone(), cause: cause.clone(), lines })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(key: &str, cause: &str, lines: u64) -> Told {
        Told { key: key.to_owned(), cause: cause.to_owned(), lines }
    }

    #[test]
    fn each_key_and_cause_is_told_once_a_minute() {
        let (mut losses, start) = (Losses::new(QUIET), Instant::now());
        let at = |seconds| start + Duration::from_secs(seconds);
        assert_eq!(losses.add("a", "full", 1, at(0)), Some(told("a", "full", 1)));
        for _ in 0..1_000 {
            assert_eq!(losses.add("a", "full", 1, at(30)), None);
        }
        assert_eq!(losses.add("b", "full", 1, at(30)), Some(told("b", "full", 1)), "another key");
        assert_eq!(losses.add("a", "gone", 1, at(30)), Some(told("a", "gone", 1)), "another cause");
        assert_eq!((losses.due(at(59)), losses.wait(at(59))), (vec![], Some(Duration::from_secs(1))));
        assert_eq!(losses.due(at(60)), [told("a", "full", 1_000)]);
        assert_eq!(losses.add("a", "full", 1, at(61)), None);
    }

    #[test]
    fn the_end_of_a_trouble_is_told_with_its_lines() {
        let (mut losses, start) = (Losses::new(QUIET), Instant::now());
        for _ in 0..4 {
            losses.add("a", "full", 1, start);
        }
        assert_eq!(losses.due(start + QUIET), [told("a", "full", 3)]);
        assert_eq!((losses.due(start + QUIET * 2), losses.wait(start)), (vec![], None));
        assert_eq!(losses.rest(), []);
    }

    #[test]
    fn what_was_never_told_is_told_at_the_end() {
        let (mut losses, now) = (Losses::new(QUIET), Instant::now());
        for lines in [1, 2, 3] {
            losses.add("a", "full", lines, now);
        }
        losses.add("b", "full", 7, now);
        assert_eq!(losses.rest(), [told("a", "full", 5)]);
    }

    #[test]
    fn many_keys_are_told_together_until_there_is_room() {
        let (mut losses, now) = (Losses::new(QUIET), Instant::now());
        let first: Vec<_> =
            (0..10_000).filter_map(|number| losses.add(&number.to_string(), "full", 1, now)).collect();
        assert_eq!(first.len(), APART + 1);
        assert_eq!(first.last(), Some(&told(OTHERS, "full", 1)));
        assert_eq!(losses.due(now + QUIET), [told(OTHERS, "full", (10_000 - APART - 1) as u64)]);
        let later = losses.add("new", "full", 1, now + QUIET);
        assert_eq!(later, Some(told("new", "full", 1)), "it is told by its own name");
    }
}
