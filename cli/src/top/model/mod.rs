//! The state of `top`: all that it knows and shows. A message changes it, and asks for at most one effect. It reads no
//! clock and does nothing itself, so every screen is a function of the messages.

mod choice;
mod heard;
mod keys;
mod question;
mod rows;
#[cfg(test)]
mod tests;

use std::collections::VecDeque;
use std::time::{Duration, SystemTime};

use crossterm::event::KeyCode;
use tenure_pool::JobKey;

use self::choice::Choice;
pub(super) use self::choice::Id;
use self::heard::Heard;
pub(super) use self::question::{Act, Answer, Question};
pub(super) use self::rows::If;
use super::picture::{Happening, Picture, Supposed, Wanted};
use crate::args::Named;
use crate::out::Tone;

/// How many events are kept.
const EVENTS: usize = 1_000;
/// How many figures the little curve has, at most.
const CURVE: usize = 60;
/// How long an answer stands below.
const SAID: Duration = Duration::from_secs(10);

/// A screen. Their numbers are the keys that lead to them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Screen {
    #[default]
    Pool,
    Jobs,
    Parked,
    Events,
    Ring,
    Simulate,
}

impl Screen {
    pub(super) const ALL: [Self; 6] =
        [Self::Pool, Self::Jobs, Self::Parked, Self::Events, Self::Ring, Self::Simulate];

    pub(super) fn word(self) -> &'static str {
        match self {
            Self::Pool => "pool",
            Self::Jobs => "jobs",
            Self::Parked => "parked",
            Self::Events => "events",
            Self::Ring => "ring",
            Self::Simulate => "moves",
        }
    }
}

/// Something that happens to `top`.
#[derive(Debug)]
pub(super) enum Msg {
    Key(KeyCode),
    /// The time, now and then.
    Tick(SystemTime),
    /// The terminal has this many lines.
    Lines(u16),
    Read(Box<Picture>),
    /// The pool cannot be read, for this reason.
    Silent(String),
    /// How many jobs each worker gets if the drain that is asked about is done.
    Forecast(Named, Result<Forecast, String>),
    /// An act has ended: what was done, or why not.
    Done(Result<String, String>),
}

/// Where the jobs of workers go that drain.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Forecast {
    /// The workers that get jobs, and how many. `None`: those have to wait.
    pub(super) gets: Vec<(Option<u64>, u64)>,
    /// There are more jobs than were looked at.
    pub(super) more: bool,
}

/// Something that the loop has to do.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Effect {
    Quit,
    Suspend,
    Forecast(Named),
    Act(Act),
}

/// A text that is being typed.
#[derive(Clone, Debug, Default)]
pub(super) struct Prompt {
    pub(super) typed: String,
    pub(super) error: Option<String>,
}

/// Why the picture is old.
#[derive(Clone, Debug)]
pub(super) struct Silence {
    pub(super) since: SystemTime,
    pub(super) why: String,
}

/// How `top` was called.
#[derive(Clone, Debug)]
pub(super) struct Called {
    pub(super) pool: String,
    pub(super) every: Duration,
    pub(super) read_only: bool,
}

/// All that is known and shown.
#[derive(Debug)]
pub(super) struct Model {
    pub(super) called: Called,
    pub(super) now: SystemTime,
    pub(super) screen: Screen,
    pub(super) picture: Option<Picture>,
    /// When the picture was read.
    pub(super) read: Option<SystemTime>,
    pub(super) silence: Option<Silence>,
    pub(super) paused: bool,
    /// The newest first.
    pub(super) events: VecDeque<(u64, Happening)>,
    /// How many jobs waited for a worker, picture by picture.
    pub(super) waiting: VecDeque<u64>,
    /// Events that nodes had to forget.
    pub(super) dropped: u64,
    /// The first screen lists nodes, not workers.
    pub(super) by_node: bool,
    /// The order of each screen: its list of orders has more or fewer of them.
    pub(super) sorts: [usize; 6],
    pub(super) filters: [String; 6],
    /// The key whose chain the ring shows.
    pub(super) chain: Option<JobKey>,
    /// The supposition of the last screen.
    pub(super) supposed: Supposed,
    pub(super) prompt: Option<Prompt>,
    /// The job that is explained.
    pub(super) detail: Option<JobKey>,
    pub(super) question: Option<Question>,
    /// The change that is under way.
    pub(super) acting: Option<String>,
    pub(super) said: Option<(SystemTime, Tone, String)>,
    pub(super) help: bool,
    choices: [Choice; 6],
    heard: Heard,
    number: u64,
    lines: u16,
    /// A quit was asked while something is being done.
    leaving: bool,
}

impl Model {
    pub(super) fn new(called: Called, now: SystemTime) -> Self {
        Self {
            called,
            now,
            screen: Screen::Pool,
            picture: None,
            read: None,
            silence: None,
            paused: false,
            events: VecDeque::new(),
            waiting: VecDeque::new(),
            dropped: 0,
            by_node: false,
            sorts: [0; 6],
            filters: Default::default(),
            chain: None,
            supposed: Supposed::default(),
            prompt: None,
            detail: None,
            question: None,
            acting: None,
            said: None,
            help: false,
            choices: Default::default(),
            heard: Heard::default(),
            number: 0,
            lines: 24,
            leaving: false,
        }
    }

    /// Takes a message.
    pub(super) fn update(&mut self, msg: Msg) -> Option<Effect> {
        match msg {
            Msg::Key(key) => return self.press(key),
            Msg::Tick(now) => {
                self.now = now;
                self.said.take_if(|(at, ..)| now.duration_since(*at).is_ok_and(|age| age >= SAID));
            }
            Msg::Lines(lines) => self.lines = lines,
            Msg::Read(picture) => self.see(*picture),
            Msg::Silent(why) => {
                let since = self.read.unwrap_or(self.now);
                self.silence = Some(Silence { since, why });
            }
            Msg::Forecast(named, forecast) => {
                if let Some(question) = &mut self.question {
                    question.learn(&named, forecast);
                }
            }
            Msg::Done(done) => {
                self.acting = None;
                self.leaving = false;
                match done {
                    Ok(text) => self.say(Tone::Good, text),
                    Err(text) => self.say(Tone::Bad, text),
                }
            }
        }
        None
    }

    fn see(&mut self, mut picture: Picture) {
        // A read that was under way when the screen was frozen.
        if self.paused {
            return;
        }
        (self.read, self.silence) = (Some(self.now), None);
        self.heard.hear(&picture.workers, self.now);
        self.waiting.push_back(picture.counts.waiting);
        if self.waiting.len() > CURVE {
            self.waiting.pop_front();
        }
        for event in picture.news.drain(..) {
            self.number += 1;
            self.events.push_front((self.number, event));
        }
        self.events.truncate(EVENTS);
        self.dropped += picture.dropped;
        self.picture = Some(picture);
        self.settle();
    }

    /// The parts that the next picture needs.
    pub(super) fn wanted(&self) -> Wanted {
        let on = |screen: Screen| self.screen == screen && self.detail.is_none();
        Wanted {
            jobs: on(Screen::Jobs).then(|| self.filter(Screen::Jobs).to_owned()),
            parked: on(Screen::Parked).then(|| self.filter(Screen::Parked).to_owned()),
            explained: self.detail.clone(),
            ring: on(Screen::Ring),
            chain: self.chain.clone().filter(|_| on(Screen::Ring)),
            supposed: Some(&self.supposed)
                .filter(|supposed| on(Screen::Simulate) && !supposed.is_nothing())
                .cloned(),
            paused: self.paused,
        }
    }

    pub(super) fn filter(&self, screen: Screen) -> &str {
        &self.filters[screen as usize]
    }

    pub(super) fn say(&mut self, tone: Tone, text: impl Into<String>) {
        self.said = Some((self.now, tone, text.into()));
    }

    /// How long ago the picture was read, if that is longer than it should be.
    pub(super) fn silent_for(&self) -> Option<Duration> {
        let since = self.silence.as_ref().map(|silence| silence.since).or(self.read)?;
        let age = self.now.duration_since(since).unwrap_or_default();
        let is_late = age > self.called.every * 2 + Duration::from_secs(1);
        (!self.paused && (self.silence.is_some() || is_late)).then_some(age)
    }

    /// How long ago a worker's node was heard of. `None` before it was heard twice.
    pub(super) fn silent(&self, shard: usize, node: &str) -> Option<Duration> {
        self.heard.silent(shard, node, self.now)
    }
}
