//! The settings of a queue, as the store has them.

use std::fmt;

/// The settings of a queue that the store's steps follow:
/// `flags|lease|max|keep_failed|capacity|step|concurrency|limit|window|group_limit|group_window|group_concurrency` and a
/// tail that is kept. Times in ms.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Settings {
    /// Its jobs have groups that take turns.
    pub grouped: bool,
    /// The jobs of a group are taken by the owner of the group only.
    pub pinned: bool,
    /// It gives no jobs.
    pub paused: bool,
    /// It takes no jobs and gives none.
    pub shut: bool,
    /// The time without a word after which an execution is lost.
    pub lease: u64,
    /// The most attempts of a job; 0 any number.
    pub max: u32,
    /// How long dead letters and cancelled jobs are kept; -1 for ever.
    pub keep_failed: i64,
    /// The most jobs that are ready or delayed; 0 any number.
    pub capacity: u32,
    /// The head start that a priority gives.
    pub step: u64,
    /// The most jobs that run at once; 0 any number.
    pub concurrency: u32,
    /// The most jobs that begin in each window; 0 any number.
    pub limit: u32,
    /// That window.
    pub window: u64,
    /// The most jobs of each group that begin in each window; 0 any number.
    pub group_limit: u32,
    /// That window.
    pub group_window: u64,
    /// The most jobs of each group that run at once; 0 any number.
    pub group_concurrency: u32,
    pub(crate) tail: String,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            grouped: false,
            pinned: false,
            paused: false,
            shut: false,
            lease: 30_000,
            max: 25,
            keep_failed: 7 * 24 * 60 * 60 * 1_000,
            capacity: 0,
            step: 60_000,
            concurrency: 0,
            limit: 0,
            window: 0,
            group_limit: 0,
            group_window: 0,
            group_concurrency: 0,
            tail: String::new(),
        }
    }
}

impl Settings {
    /// The settings that hold for a queue that was never declared.
    pub(crate) fn unknown() -> Self {
        Self { shut: true, max: 0, keep_failed: -1, ..Self::default() }
    }

    /// Reads settings; `None` when the text is none.
    pub fn parse(text: &str) -> Option<Self> {
        let mut fields = text.splitn(13, '|');
        let flags = fields.next()?;
        if flags.is_empty() || !flags.bytes().all(|flag| b"gopz-".contains(&flag)) {
            return None;
        }
        let mut next = || fields.next();
        Some(Self {
            grouped: flags.contains('g'),
            pinned: flags.contains('o'),
            paused: flags.contains('p'),
            shut: flags.contains('z'),
            lease: next()?.parse().ok()?,
            max: next()?.parse().ok()?,
            keep_failed: next()?.parse().ok()?,
            capacity: next()?.parse().ok()?,
            step: next()?.parse().ok()?,
            concurrency: next()?.parse().ok()?,
            limit: next()?.parse().ok()?,
            window: next()?.parse().ok()?,
            group_limit: next()?.parse().ok()?,
            group_window: next()?.parse().ok()?,
            group_concurrency: next()?.parse().ok()?,
            tail: next().map(|tail| format!("|{tail}")).unwrap_or_default(),
        })
    }
}

impl fmt::Display for Settings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let letters = [(self.grouped, 'g'), (self.pinned, 'o'), (self.shut, 'z'), (self.paused, 'p')];
        let flags: String = letters.iter().filter(|(set, _)| *set).map(|(_, letter)| letter).collect();
        let flags = if flags.is_empty() { "-" } else { &flags };
        let Self { lease, max, keep_failed, capacity, step, concurrency, limit, window, .. } = self;
        let Self { group_limit, group_window, group_concurrency, tail, .. } = self;
        write!(f, "{flags}|{lease}|{max}|{keep_failed}|{capacity}|{step}|{concurrency}|{limit}|{window}|")?;
        write!(f, "{group_limit}|{group_window}|{group_concurrency}{tail}")
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn settings_are_written_as_they_were_read() {
        for text in ["-|30000|25|604800000|0|60000|0|0|0|0|0|0", "gozp|1|2|-1|4|5|6|7|8|9|10|11|new|er"] {
            assert_eq!(Settings::parse(text).unwrap().to_string(), text);
        }
        assert_eq!(Settings::default().to_string(), "-|30000|25|604800000|0|60000|0|0|0|0|0|0");
        assert_eq!(Settings::parse("x|1|2|3|4|5|6|7|8|9|10|11"), None);
        assert_eq!(Settings::parse("-|1|2"), None);
    }
}
