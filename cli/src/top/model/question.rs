//! A change of the pool that waits for a yes.

use tenure_pool::JobKey;

use super::Forecast;
use crate::act::Verb;
use crate::args::Named;
use crate::out::shown;

/// A change of the pool.
#[derive(Clone, Debug, PartialEq)]
pub(in crate::top) enum Act {
    Drain(Named),
    Cordon { node: String, on: bool },
    Jobs { verb: Verb, keys: Vec<JobKey> },
}

impl Act {
    /// Its name, in a few words.
    pub(in crate::top) fn title(&self) -> String {
        match self {
            Self::Drain(named) => format!("drain {named}"),
            Self::Cordon { node, on: true } => format!("cordon node {node}"),
            Self::Cordon { node, on: false } => format!("uncordon node {node}"),
            Self::Jobs { verb, keys } => match &keys[..] {
                [key] => format!("{} {}", verb.word(), shown::key(key)),
                keys => format!("{} {} jobs", verb.word(), keys.len()),
            },
        }
    }
}

/// How a yes is said.
#[derive(Clone, Debug, PartialEq)]
pub(in crate::top) enum Answer {
    /// By `y`.
    Yes,
    /// By a word that is typed out.
    Word { word: String, typed: String },
}

#[derive(Clone, Debug)]
pub(in crate::top) struct Question {
    pub(in crate::top) act: Act,
    pub(in crate::top) text: Vec<String>,
    pub(in crate::top) answer: Answer,
}

impl Question {
    /// Drains take jobs from where they run, so a word has to be typed.
    pub(super) fn drain(named: Named, workers: usize, jobs: u64) -> Self {
        let word = match &named {
            Named::Worker { id, .. } => id.to_string(),
            Named::Node(name) => name.clone(),
        };
        let gone = format!("workers that leave the ring: {workers}; jobs that move: {jobs}");
        let text = vec![gone, "where they go is being counted".to_owned()];
        Self { act: Act::Drain(named), text, answer: Answer::Word { word, typed: String::new() } }
    }

    pub(super) fn cordon(node: String, on: bool) -> Self {
        let text = if on { "it keeps its jobs and gets no other" } else { "it gets new jobs again" };
        Self { act: Act::Cordon { node, on }, text: vec![text.to_owned()], answer: Answer::Yes }
    }

    /// Many jobs take a typed number.
    pub(super) fn jobs(verb: Verb, keys: Vec<JobKey>) -> Self {
        let (text, answer) = match keys.len() {
            1 => (format!("it {}", verb.means()), Answer::Yes),
            count => {
                let word = count.to_string();
                (format!("each of them {}", verb.means()), Answer::Word { word, typed: String::new() })
            }
        };
        Self { act: Act::Jobs { verb, keys }, text: vec![text], answer }
    }

    /// Takes the forecast of a drain, if it is about this one.
    pub(super) fn learn(&mut self, named: &Named, forecast: Result<Forecast, String>) {
        if self.act != Act::Drain(named.clone()) {
            return;
        }
        self.text.truncate(1);
        self.text.push(match forecast {
            Ok(Forecast { gets, more }) => {
                let to = |(worker, jobs): &(Option<u64>, u64)| match worker {
                    Some(worker) => format!("{worker} +{jobs}"),
                    None => format!("{jobs} wait"),
                };
                let list: Vec<_> = gets.iter().take(8).map(to).collect();
                let rest = gets.len().saturating_sub(8);
                let rest = if rest > 0 { format!("  and {rest} more") } else { String::new() };
                let of = if more { "of the first jobs: " } else { "" };
                if list.is_empty() {
                    "no job moves".to_owned()
                } else {
                    format!("{of}{}{rest}", list.join("  "))
                }
            }
            Err(error) => format!("where they go is not known: {error}"),
        });
    }
}
