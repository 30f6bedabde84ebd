//! The settings of a queue, as the store has them.

use std::fmt;
use std::time::Duration;

use super::backoff::Backoff;
use super::id::QueueName;

/// The terms of a queue's executions, for the nodes of its workers: `timeout,heartbeat,first,longest,next`, times in
/// ms. The text of the defaults is empty.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Terms {
    /// The whole time that an execution may take.
    pub timeout: Option<Duration>,
    /// How long an execution may go on without a heartbeat.
    pub heartbeat: Option<Duration>,
    /// The pauses between attempts.
    pub backoff: Backoff,
    /// The next queue of a job, if neither the handler nor the flow of the job names a queue.
    pub next: Option<QueueName>,
}

impl Terms {
    /// Reads terms; `None` when the text is none.
    pub fn parse(text: &str) -> Option<Self> {
        if text.is_empty() {
            return Some(Self::default());
        }
        let mut fields = text.splitn(5, ',');
        let mut time = || {
            let field = fields.next()?;
            if field.is_empty() { Some(None) } else { Some(Some(Duration::from_millis(field.parse().ok()?))) }
        };
        let (timeout, heartbeat, first, longest) = (time()?, time()?, time()??, time()??);
        let next = fields.next().filter(|next| !next.is_empty()).map(QueueName::new).transpose().ok()?;
        Some(Self { timeout, heartbeat, backoff: Backoff::new(first, longest), next })
    }
}

impl fmt::Display for Terms {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if *self == Self::default() {
            return Ok(());
        }
        let ms = |time: Option<Duration>| time.map(|time| time.as_millis().to_string()).unwrap_or_default();
        let (first, longest) = self.backoff.bounds();
        let next = self.next.as_ref().map_or("", QueueName::as_str);
        let (timeout, heartbeat) = (ms(self.timeout), ms(self.heartbeat));
        write!(f, "{timeout},{heartbeat},{},{},{next}", first.as_millis(), longest.as_millis())
    }
}

/// The settings of a queue, the same for all nodes:
/// `flags|lease|terms|max|keep_failed|keep|capacity|step|concurrency|limit|window|group_limit|group_window|group_concurrency`
/// and a tail that is kept. Times in ms.
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
    /// The terms of executions.
    pub terms: Terms,
    /// The most attempts of a job; 0 any number.
    pub max: u32,
    /// How long dead letters and cancelled jobs are kept; -1 for ever.
    pub keep_failed: i64,
    /// How long the store keeps a job that has succeeded, unless the add has set a time; 0 not at all, -1 for ever.
    pub keep: i64,
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
            terms: Terms::default(),
            max: 25,
            keep_failed: 7 * 24 * 60 * 60 * 1_000,
            keep: 0,
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

/// The end of the settings of a merely named queue.
const NAMED: &str = "|named";

impl Settings {
    /// The settings that hold for a queue that was never declared.
    pub(crate) fn unknown() -> Self {
        Self { shut: true, max: 0, keep_failed: -1, ..Self::default() }
    }

    /// The settings of a queue that was named, and not declared, by any node so far.
    pub(crate) fn named() -> Self {
        Self { tail: NAMED.to_owned(), ..Self::default() }
    }

    pub(crate) fn is_named(&self) -> bool {
        self.tail.ends_with(NAMED)
    }

    /// Reads settings; `None` when the text is none.
    pub fn parse(text: &str) -> Option<Self> {
        let mut fields = text.splitn(15, '|');
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
            terms: Terms::parse(next()?)?,
            max: next()?.parse().ok()?,
            keep_failed: next()?.parse().ok()?,
            keep: next()?.parse().ok()?,
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
        let Self { lease, terms, max, keep_failed, keep, capacity, step, concurrency, limit, window, .. } =
            self;
        let Self { group_limit, group_window, group_concurrency, tail, .. } = self;
        write!(
            f,
            "{flags}|{lease}|{terms}|{max}|{keep_failed}|{keep}|{capacity}|{step}|{concurrency}|{limit}|{window}|"
        )?;
        write!(f, "{group_limit}|{group_window}|{group_concurrency}{tail}")
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn settings_are_written_as_they_were_read() {
        for text in [
            "-|30000||25|604800000|0|0|60000|0|0|0|0|0|0",
            "gozp|1|,,0,0,|2|-1|-1|4|5|6|7|8|9|10|11|new|er",
            "-|1|300,,1000,600000,next|2|3|4|5|6|7|8|9|10|11|12",
            "-|1|,7,5,6,|2|3|4|5|6|7|8|9|10|11|12",
        ] {
            assert_eq!(Settings::parse(text).unwrap().to_string(), text);
        }
        assert_eq!(Settings::default().to_string(), "-|30000||25|604800000|0|0|60000|0|0|0|0|0|0");
        assert!(Settings::parse(&Settings::named().to_string()).unwrap().is_named());
        assert_eq!(Settings::parse("x|1||2|3|4|5|6|7|8|9|10|11|12"), None);
        assert_eq!(Settings::parse("-|1|x|2|3|4|5|6|7|8|9|10|11|12"), None);
        assert_eq!(Settings::parse("-|1||2"), None);
    }
}
