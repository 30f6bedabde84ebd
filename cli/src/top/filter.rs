//! The filter of jobs that one types: words that a job must fit.

use std::time::{Duration, SystemTime};

use clap::ValueEnum;

use super::picture::Job;
use crate::args::{Named, Pattern, StateArg, time, worker};

/// A filter, made of its text.
#[derive(Clone, Debug, Default)]
pub(super) struct Filter {
    states: Vec<StateArg>,
    pattern: Option<Pattern>,
    worker: Option<Named>,
    node: Option<String>,
    plan: Option<String>,
    older: Option<Duration>,
    failing: bool,
}

/// Said where a filter is typed.
pub(super) const WORDS: &str = "KEY, GLOB*, state:queued, worker:17, node:NAME, plan:NAME, older:5m, failing";

impl Filter {
    /// Reads the words.
    ///
    /// # Errors
    /// A word means nothing: says which, and why.
    pub(super) fn parse(text: &str) -> Result<Self, String> {
        let mut filter = Self::default();
        for word in text.split_whitespace() {
            match word.split_once(':') {
                Some(("state", names)) => {
                    for name in names.split(',') {
                        let state =
                            StateArg::from_str(name, false).map_err(|_| format!("{name} is no state"))?;
                        filter.states.push(state);
                    }
                }
                Some(("worker", id)) => filter.worker = Some(worker(id)?),
                Some(("node", name)) => filter.node = Some(name.to_owned()),
                Some(("plan", name)) => filter.plan = Some(name.to_owned()),
                Some(("older", age)) => filter.older = Some(time(age)?),
                _ if word == "failing" => filter.failing = true,
                _ if filter.pattern.is_some() => {
                    return Err(format!("one pattern of keys, and not {word} too"));
                }
                _ => filter.pattern = Some(pattern(word)?),
            }
        }
        Ok(filter)
    }

    /// The worker or node whose jobs alone have to be read.
    pub(super) fn owner(&self) -> Option<Named> {
        self.worker.clone().or_else(|| self.node.clone().map(Named::Node))
    }

    /// Whether a job is meant.
    pub(super) fn means(&self, job: &Job, now: SystemTime) -> bool {
        let is_old = |older| now.duration_since(job.since).is_ok_and(|age| age > older);
        let is_of = |named: &Named| match named {
            Named::Worker { shard, id } => {
                job.worker == Some(id.0) && shard.is_none_or(|shard| shard == job.shard)
            }
            Named::Node(name) => job.node.as_ref() == Some(name),
        };
        (self.states.is_empty() || self.states.iter().any(|state| state.is(job.state, job.paused.is_some())))
            && self.pattern.as_ref().is_none_or(|pattern| pattern.fits(job.key.as_bytes()))
            && self.worker.as_ref().is_none_or(is_of)
            && self.node.as_ref().is_none_or(|node| job.node.as_ref() == Some(node))
            && self.plan.as_ref().is_none_or(|plan| job.plan.as_ref() == Some(plan))
            && self.older.is_none_or(is_old)
            && (!self.failing || job.error.is_some())
    }
}

/// A word without signs of a pattern is a part of the key.
fn pattern(word: &str) -> Result<Pattern, String> {
    if word.contains(['*', '?', '[', '{', '\\']) { word.parse() } else { format!("*{word}*").parse() }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use tenure_pool::JobState;

    use super::*;

    fn job(key: &str) -> Job {
        Job {
            key: tenure_pool::JobKey::new(key.to_owned()).unwrap(),
            state: JobState::Running,
            worker: Some(17),
            shard: 1,
            node: Some("n1".to_owned()),
            token: 9,
            attempts: 1,
            since: SystemTime::UNIX_EPOCH,
            plan: None,
            error: None,
            refusal: None,
            paused: None,
        }
    }

    fn means(text: &str, job: &Job) -> bool {
        Filter::parse(text).unwrap().means(job, SystemTime::UNIX_EPOCH + Duration::from_secs(60))
    }

    #[test]
    fn every_word_of_a_filter_has_to_fit() {
        let acme = job("eu/acme-1");
        for text in ["", "acme", "eu/*", "state:running", "worker:17", "worker:1:17", "node:n1", "older:59s"]
        {
            assert!(means(text, &acme), "{text}");
        }
        let paused = Job {
            state: JobState::Parked,
            paused: Some(("anna".to_owned(), String::new(), None)),
            ..acme.clone()
        };
        assert!(means("state:paused", &paused) && !means("state:parked", &paused));
        for text in ["hooli", "acme", "state:parked,queued", "worker:18", "worker:0:17", "node:n", "failing"]
        {
            assert!(!means(text, &job("us/hool")), "{text}");
        }
        assert!(!means("acme state:queued", &acme) && !means("older:1m", &acme) && !means("plan:p", &acme));
        let refused = Job { refusal: Some("no program".to_owned()), ..acme.clone() };
        assert!(!means("failing", &refused), "a refused job has not failed");
        assert!(means("failing", &Job { error: Some("x".to_owned()), ..acme }));
    }

    #[test]
    fn a_word_without_a_meaning_is_named() {
        for (text, error) in [
            ("state:odd", "odd is no state"),
            ("worker:n1", "a worker is ID, or SHARD:ID"),
            ("one two", "one pattern of keys, and not two too"),
        ] {
            assert_eq!(Filter::parse(text).unwrap_err(), error);
        }
        assert!(Filter::parse("[").is_err() && Filter::parse("older:x").is_err());
    }
}
