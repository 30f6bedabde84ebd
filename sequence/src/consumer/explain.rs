//! How a consumer does, and why it does not go on.

use std::fmt::{self, Display, Formatter};
use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use crate::consumer::shared::{Life, Shared, State};
use crate::core::Ended;
use crate::error::whole;

/// The state of a consumer at a moment: a verdict, and figures.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Explanation {
    /// The consumer's name.
    pub name: Arc<str>,
    /// The thing that it waits for.
    pub verdict: Verdict,
    /// All jobs up to this index are done.
    pub progress: u64,
    /// All jobs up to this index are done for good: a restart begins behind it.
    pub stored: u64,
    /// The highest index that has begun.
    pub begun: u64,
    /// Jobs that are done and not part of the progress: a job below them is not done. They run again after a crash.
    pub held_up: u64,
    /// The jobs that run, from the lowest index. The first one is the head: it holds up the others.
    pub running: Vec<RunningJob>,
    /// Why the progress is not stored, if that fails.
    pub progress_error: Option<String>,
}

/// A job that runs, or waits for its next attempt.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct RunningJob {
    /// Its index.
    pub index: u64,
    /// The number of its present attempt, or of the next one while it pauses.
    pub attempt: u32,
    /// How long ago it began.
    pub age: Duration,
    /// The error of its last attempt.
    pub last_error: Option<Arc<str>>,
}

/// The thing that a consumer waits for.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Verdict {
    /// Its start.
    NotStarted,
    /// Nothing: it looks for jobs, or is about to.
    Looking,
    /// This index, which its source does not have yet.
    Waiting {
        /// The next index.
        next: u64,
    },
    /// A free slot: as many jobs run as may run at once.
    Full,
    /// The job at the head: the look-ahead allows nothing further to begin before that is done.
    HeldUp {
        /// The head.
        head: u64,
    },
    /// Its source, which fails.
    SourceFails {
        /// The error.
        error: String,
    },
    /// The end of the jobs that run: it was stopped.
    Stopping,
    /// Nothing more: it has ended.
    Ended {
        /// Why, unless it was told to.
        error: Option<String>,
    },
}

fn verdict(life: Life, state: &State) -> Verdict {
    let core = &state.core;
    match life {
        Life::New | Life::Starting => return Verdict::NotStarted,
        Life::Stopping => return Verdict::Stopping,
        Life::Ended => return Verdict::Ended { error: state.error.as_ref().map(|error| whole(error)) },
        Life::Ready => {}
    }
    if core.is_held_up()
        && let Some((head, _)) = core.running().next()
    {
        return Verdict::HeldUp { head };
    }
    if core.room() == 0 {
        return Verdict::Full;
    }
    match core.last() {
        Some(Ended::Failed) => Verdict::SourceFails {
            error: state.source_trouble.as_ref().map(|error| whole(error)).unwrap_or_default(),
        },
        Some(Ended::Missing(next)) if core.rests().is_some() => Verdict::Waiting { next },
        _ => Verdict::Looking,
    }
}

impl Explanation {
    pub(crate) fn of(shared: &Shared) -> Self {
        let (state, now) = (shared.lock(), Instant::now());
        let core = &state.core;
        let running = core.running().map(|(index, run)| RunningJob {
            index,
            attempt: run.attempts,
            age: now.saturating_duration_since(run.begun),
            last_error: run.last_error.clone(),
        });
        Self {
            name: shared.settings.name.clone(),
            verdict: verdict(*shared.life.borrow(), &state),
            progress: core.progress(),
            stored: core.stored(),
            begun: core.begun(),
            held_up: core.done_ahead(),
            running: running.collect(),
            progress_error: state.progress_trouble.as_ref().map(|error| whole(error)),
        }
    }

    /// The job that holds up the progress.
    pub fn head(&self) -> Option<&RunningJob> {
        self.running.first()
    }
}

impl Display for Verdict {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotStarted => f.write_str("it has not started"),
            Self::Looking => f.write_str("it looks for jobs"),
            Self::Waiting { next } => write!(f, "it waits for index {next}, which the source does not have"),
            Self::Full => f.write_str("as many jobs run as may run at once"),
            Self::HeldUp { head } => write!(f, "job {head} is not done, and the look-ahead ends here"),
            Self::SourceFails { error } => write!(f, "the source fails: {error}"),
            Self::Stopping => f.write_str("it stops, and waits for the jobs that run"),
            Self::Ended { error: None } => f.write_str("it has ended as it was told"),
            Self::Ended { error: Some(error) } => write!(f, "it has ended: {error}"),
        }
    }
}

impl Display for Explanation {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}: {}", self.name, self.verdict)?;
        write!(
            f,
            "  done up to {}, stored up to {}, begun up to {}",
            self.progress, self.stored, self.begun
        )?;
        if let Some(head) = self.head() {
            write!(f, "\n  {} run", self.running.len())?;
            write!(
                f,
                "; the head is {}, since {:.1} s, attempt {}",
                head.index,
                head.age.as_secs_f64(),
                head.attempt
            )?;
            if self.held_up > 0 {
                write!(f, ", and holds up {} that are done", self.held_up)?;
            }
            if let Some(error) = &head.last_error {
                write!(f, "\n  its last error: {}", error.escape_debug())?;
            }
        }
        match &self.progress_error {
            Some(error) => write!(f, "\n  the progress is not stored: {error}"),
            None => Ok(()),
        }
    }
}
