//! The shared parts of every step: names, scripts, a connection, and the way in which a call names the data of its
//! jobs.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use redis::{Cmd, Value};
use tenure_connection::{Call, Connection};

use super::keys::Keys;
use super::reply::{Reply, Values, failed};
use super::script::Scripts;
use crate::store::{BATCH_MAX, Refusal, Result, StoreError};

/// Sends scripts and commands of one pool over one connection.
#[derive(Clone, Debug)]
pub(super) struct Steps {
    pub(super) keys: Keys,
    pub(super) scripts: Arc<Scripts>,
    pub(super) connection: Connection,
    pub(super) told: Told,
}

/// The unreadable parts of answers that were logged.
#[derive(Clone, Debug, Default)]
pub(super) struct Told(Arc<Mutex<BTreeMap<String, Instant>>>);

/// How many of them are logged within [`TOLD_FOR`], at most.
const TOLD_MAX: usize = 100;

/// Each is logged once in this time.
const TOLD_FOR: Duration = Duration::from_secs(3_600);

impl Told {
    /// The parts that must be logged now.
    fn news<'a>(&self, now: Instant, strange: &'a [String]) -> Vec<&'a String> {
        if strange.is_empty() {
            return Vec::new();
        }
        let mut told = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        told.retain(|_, at| now.saturating_duration_since(*at) < TOLD_FOR);
        let mut news = Vec::new();
        for text in strange {
            if told.len() < TOLD_MAX && !told.contains_key(text) {
                told.insert(text.clone(), now);
                news.push(text);
            }
        }
        news
    }
}

impl Steps {
    /// Logs the skipped parts of an answer.
    pub(super) fn tell(&self, values: &Values) {
        for strange in self.told.news(Instant::now(), values.strange()) {
            tracing::error!(
                keys = self.keys.prefix(),
                strange,
                "a part of the pool's data cannot be read, it is skipped"
            );
        }
    }

    /// Sends a script's call.
    pub(super) async fn run(&self, name: &'static str, call: Call) -> Result<Reply> {
        Reply::of(name, self.connection.call(&call).await.map_err(failed)?)
    }

    /// Sends a command.
    pub(super) async fn command(&self, command: &Cmd) -> Result<Value> {
        self.connection.command(command).await.map_err(failed)
    }
}

/// Data that the jobs of a call share, each named once. They are streams that the call may write to, whose keys
/// follow the script's own, or tokens. A job refers to them by number, counted from 1; 0 is none.
pub(super) struct Targets<T> {
    list: Vec<T>,
}

impl<T: PartialEq> Targets<T> {
    pub(super) fn new() -> Self {
        Self { list: Vec::new() }
    }

    /// The number of a target.
    pub(super) fn number(&mut self, target: Option<T>) -> usize {
        let Some(target) = target else { return 0 };
        if let Some(at) = self.list.iter().position(|known| *known == target) {
            return at + 1;
        }
        self.list.push(target);
        self.list.len()
    }

    /// The keys of the targets' streams, in the order of their numbers.
    pub(super) fn keys(&self, key: impl Fn(&T) -> String) -> Vec<String> {
        self.list.iter().map(key).collect()
    }

    /// The targets in the order of their numbers.
    pub(super) fn iter(&self) -> impl ExactSizeIterator<Item = &T> {
        self.list.iter()
    }
}

/// The numbers of a call's jobs, in the form that a script takes: one argument with a byte for each job. Redis and
/// Lua would make a text of each separate argument. A call with more jobs than a step takes is refused, so every
/// number is a byte.
pub(super) fn column(numbers: impl IntoIterator<Item = usize>) -> Result<Vec<u8>> {
    let byte = |number| u8::try_from(number).map_err(|_| StoreError::Refused(Refusal::BadArgument));
    let column = numbers.into_iter().map(byte).collect::<Result<Vec<_>>>()?;
    if column.len() > BATCH_MAX { Err(StoreError::Refused(Refusal::BadArgument)) } else { Ok(column) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flood_of_strange_entries_is_told_in_part_and_once_an_hour() {
        let (told, start) = (Told::default(), Instant::now());
        let strange: Vec<_> = (0..1_001).map(|i| format!("entry {i}")).collect();
        let lines = |minutes: u64| told.news(start + Duration::from_secs(60 * minutes), &strange).len();
        assert_eq!((0..120).map(lines).sum::<usize>(), 2 * TOLD_MAX);
    }

    #[test]
    fn an_unreadable_part_is_logged_once() {
        let (told, now) = (Told::default(), Instant::now());
        let strange = ["a", "b"].map(str::to_owned);
        assert_eq!(told.news(now, &strange).len(), 2);
        assert_eq!(told.clone().news(now, &strange).len(), 0);
        assert_eq!(told.news(now, &["c".to_owned()]), ["c"]);
    }

    #[test]
    fn targets_are_numbered_from_one_and_named_once() {
        let mut targets = Targets::new();
        let numbers: Vec<_> = [Some("a"), None, Some("b"), Some("a")].map(|t| targets.number(t)).into();
        assert_eq!(numbers, [1, 0, 2, 1]);
        assert_eq!(targets.keys(|t| format!("node:{t}")), ["node:a", "node:b"]);
        assert!(column(numbers).is_ok_and(|column| column == [1, 0, 2, 1]));
    }
}
