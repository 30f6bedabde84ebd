//! Remembers recent log lines, so that a lasting trouble is logged at intervals and not each time.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::core::time::Time;

/// The pause between two lines of one cause.
const PAUSE: Duration = Duration::from_secs(30);
/// The longest pause of a line whose pauses grow.
const LONGEST: Duration = Duration::from_secs(3_600);
/// How many causes are told apart; all others share one line.
const CAUSES: usize = 64;

/// The causes, with the time of each one's last line.
#[derive(Debug, Default)]
pub(super) struct Lately(BTreeMap<String, Said>);

#[derive(Debug)]
struct Said {
    at: Time,
    pause: Duration,
    /// How often the cause has occurred since.
    unsaid: u64,
}

impl Lately {
    /// A cause has occurred. Returns its occurrences since the last line, this one included, if a line is due now. A
    /// line is due at once, and then every half minute.
    pub(super) fn say(&mut self, now: Time, cause: &str) -> Option<u64> {
        self.count(now, cause, 1)
    }

    /// The same, but each pause is twice as long as the former, up to an hour. For a cause that an operator must
    /// repair and may leave for long.
    pub(super) fn say_less_and_less(&mut self, now: Time, cause: &str) -> Option<u64> {
        self.count(now, cause, 2)
    }

    fn count(&mut self, now: Time, cause: &str, growth: u32) -> Option<u64> {
        if !self.0.contains_key(cause) && self.0.len() >= CAUSES {
            self.0.retain(|_, said| now.since(said.at) < said.pause);
        }
        let others = self.0.len() >= CAUSES && !self.0.contains_key(cause);
        let cause = if others { "" } else { cause };
        let Some(said) = self.0.get_mut(cause) else {
            self.0.insert(cause.to_owned(), Said { at: now, pause: PAUSE, unsaid: 0 });
            return Some(1);
        };
        said.unsaid += 1;
        let passed = now.since(said.at);
        if passed < said.pause {
            return None;
        }
        // The cause continues, unless it had stopped for a while.
        let goes_on = passed < said.pause * 2;
        said.pause = if goes_on { (said.pause * growth).min(LONGEST) } else { PAUSE };
        said.at = now;
        Some(std::mem::take(&mut said.unsaid))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(secs: u64) -> Time {
        Time(secs * 1_000_000_000)
    }

    #[test]
    fn one_cause_is_said_at_once_and_then_each_half_minute() {
        let mut lately = Lately::default();
        let said: Vec<_> = (0..=90).filter_map(|s| lately.say(at(s), "x").map(|n| (s, n))).collect();
        assert_eq!(said, [(0, 1), (30, 30), (60, 30), (90, 30)]);
        assert_eq!(lately.say(at(91), "y"), Some(1), "another cause");
    }

    #[test]
    fn lasting_troubles_are_logged_less_and_less() {
        let mut lately = Lately::default();
        let day = (0..86_400).filter(|s| lately.say_less_and_less(at(*s), "parked").is_some()).count();
        assert!((20..=40).contains(&day), "{day}");
    }

    #[test]
    fn many_causes_share_a_line_and_are_forgotten() {
        let mut lately = Lately::default();
        let said = (0..10_000).filter(|n| lately.say(at(0), &n.to_string()).is_some()).count();
        assert_eq!((said, lately.0.len()), (CAUSES + 1, CAUSES + 1));
        assert_eq!(lately.say(at(31), "new"), Some(1));
        assert_eq!(lately.0.len(), 1);
    }
}
