//! The text of an explanation: a line that says it all, and lines that say more.

use std::fmt::{self, Display, Formatter, Write};
use std::time::Duration;

use super::{CheckpointInfo, Explanation, NamedDispatch, OwnerSeen, Verdict};
use crate::model::paused::Paused;
use crate::model::record::{JobState, Record};
use crate::model::why::{Cause, Why};
use crate::store::Lookup;

/// A time in the two largest units that it has.
pub(super) struct For(pub(super) Duration);

impl Display for For {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let (ms, s) = (self.0.as_millis(), self.0.as_secs());
        match s {
            0 => write!(f, "{ms} ms"),
            1..60 => write!(f, "{s} s"),
            60..3_600 => write!(f, "{} min {} s", s / 60, s % 60),
            3_600..86_400 => write!(f, "{} h {} min", s / 3_600, s / 60 % 60),
            _ => write!(f, "{} d {} h", s / 86_400, s / 3_600 % 24),
        }
    }
}

/// A text of a handler. Characters that would break its line, move a terminal or turn the text round are escaped.
pub(super) struct Shown<'a>(pub(super) &'a str);

impl Display for Shown<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let turns =
            |c| matches!(c, '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
        self.0.chars().try_for_each(|c| {
            if c.is_control() || turns(c) { write!(f, "{}", c.escape_default()) } else { f.write_char(c) }
        })
    }
}

/// All workers that are up.
struct Workers(u32);

impl Display for Workers {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self.0 {
            1 => f.write_str("the only worker that is up has"),
            workers => write!(f, "all {workers} workers that are up have"),
        }
    }
}

/// A number of bytes.
struct Bytes(u64);

impl Display for Bytes {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self.0 {
            bytes @ 0..1_024 => write!(f, "{bytes} B"),
            bytes => write!(f, "{}.{} KiB", bytes / 1_024, bytes % 1_024 * 10 / 1_024),
        }
    }
}

impl Display for OwnerSeen {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "worker {}", self.worker)?;
        match &self.node {
            Some(node) if self.address.is_empty() => write!(f, " (node {node})"),
            Some(node) => write!(f, " (node {node}, {})", self.address),
            None => Ok(()),
        }
    }
}

impl Display for Explanation {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "{}: ", self.key)?;
        self.first_line(f)?;
        self.more(f)?;
        if let Some(opening) = &self.opening {
            write!(f, "\n  {opening}")?;
        }
        if let Some(shutdown) = &self.shutdown {
            write!(f, "\n  {shutdown}")?;
        }
        // The first line says that there is no worker, and why.
        let why = self.why.filter(|why| why.cause != Cause::NoWorker || !self.wants_a_worker());
        match (why, &self.refusal) {
            (Some(Why { former: Some(worker), .. }), Some(said)) => {
                write!(f, "\n  here because worker {worker} refused it: {}", Shown(said))?;
            }
            (Some(why), _) => write!(f, "\n  here because {why}")?,
            (None, _) => {}
        }
        self.belongings(f)
    }
}

impl Explanation {
    fn first_line(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let lasting = For(self.lasting.unwrap_or_default());
        let Self { attempts, max_attempts, .. } = self;
        match self.state {
            None => self.no_job(f),
            _ if self.verdict == Verdict::OwnerLost => {
                self.with_owner(f, "left behind by")?;
                f.write_str(", which was lost")
            }
            Some(JobState::Queued) => {
                write!(f, "queued for {lasting}")?;
                self.queued(f)
            }
            Some(JobState::Assigned) => {
                self.with_owner(f, "assigned to")?;
                write!(f, ", begun by nobody for {lasting}")
            }
            Some(JobState::Running) => {
                self.with_owner(
                    f,
                    match self.verdict {
                        Verdict::Granted => "given to",
                        Verdict::Starting => "starting on",
                        _ => "running on",
                    },
                )?;
                write!(f, ", for {lasting}, attempt {attempts}")
            }
            Some(JobState::Stopping) => self.with_owner(f, "stopping on"),
            Some(_) => {
                if let Some(Paused { by, reason, .. }) = &self.paused {
                    write!(f, "paused for {lasting}")?;
                    if !by.is_empty() {
                        write!(f, ", by {}", Shown(by))?;
                    }
                    return if reason.is_empty() { Ok(()) } else { write!(f, ": {}", Shown(reason)) };
                }
                let error = self.error();
                write!(f, "parked for {lasting}, after {attempts} of {max_attempts} attempts: {error}")
            }
        }
    }

    fn no_job(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match &self.verdict {
            Verdict::Ended { outcome: Some(outcome) } => {
                write!(f, "there is no job with this key; the dispatch has ended: {}", Shown(outcome))
            }
            Verdict::Ended { outcome: None } => f.write_str(
                "there is no job with this key; the dispatch has ended, and its outcome is not kept",
            ),
            Verdict::NotReported => {
                f.write_str("the pool is being opened, and no worker has reported this job so far")
            }
            Verdict::Unreadable { newer: Some(version) } => write!(
                f,
                "its record has version {version}, this version of tenure reads up to {}; it was left as it is",
                Record::VERSION
            ),
            Verdict::Unreadable { newer: None } => {
                f.write_str("its record cannot be read; it was left as it is")
            }
            Verdict::UnreadableDispatch { newer } => {
                f.write_str("there is no job with this key; ")?;
                match newer {
                    Some(version) => write!(
                        f,
                        "what the pool knows of the dispatch has version {version}, this version of tenure reads up to {}",
                        Lookup::ID_VERSION
                    ),
                    None => f.write_str("what the pool knows of the dispatch cannot be read"),
                }
            }
            _ => f.write_str("there is no job with this key"),
        }
    }

    /// Whether nobody could take the job now, whatever has become of it before.
    fn wants_a_worker(&self) -> bool {
        use Verdict::{AllCordoned, AllLeaving, NoWorker, NobodyLives, OnHold, Settling};
        matches!(
            self.verdict,
            NoWorker | AllCordoned | AllLeaving { .. } | Settling | OnHold | NobodyLives { .. }
        )
    }

    /// The thing that a queued job waits for.
    fn queued(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match &self.verdict {
            Verdict::Dropped => f.write_str(": the pool is being shut down, and drops it"),
            Verdict::Recovering => f.write_str(": the pool is being opened"),
            Verdict::OnHold => f.write_str(": the pool is on hold"),
            Verdict::NoWorker => f.write_str(": no worker is up"),
            Verdict::AllCordoned => f.write_str(": every node with a worker is cordoned"),
            Verdict::AllLeaving { workers: 1 } => f.write_str(": the only worker is leaving"),
            Verdict::AllLeaving { workers } => write!(f, ": all {workers} workers are leaving"),
            Verdict::Settling => f.write_str(": workers are about to take their places"),
            Verdict::BackOff => {
                let Self { attempts, max_attempts, .. } = self;
                let (due, error) = (For(self.due.unwrap_or_default()), self.error());
                write!(
                    f,
                    ", after attempt {attempts} of {max_attempts}: tried again in {due} (failed: {error})"
                )
            }
            Verdict::NoRoom { workers } => {
                let (due, who) = (For(self.due.unwrap_or_default()), Workers(*workers));
                write!(f, ": {who} no room for it, or refused it; tried again in {due}")
            }
            Verdict::PassedOver { times, next } => {
                write!(f, ": passed over {}, worker {next} is next", Times(*times))
            }
            Verdict::RanBefore { next } => write!(f, ": it has run before, worker {next} is next"),
            Verdict::Unrouted { next } => write!(f, ": it is about to be assigned to worker {next}"),
            _ => Ok(()),
        }
    }

    fn error(&self) -> Shown<'_> {
        Shown(self.error.as_deref().unwrap_or("no error was kept"))
    }

    fn with_owner(&self, f: &mut Formatter<'_>, doing: &str) -> fmt::Result {
        match &self.owner {
            Some(owner) => write!(f, "{doing} {owner} under token {}", owner.token),
            None => write!(f, "{doing} an unknown worker"),
        }
    }

    /// Why it is there, and how it goes on.
    fn more(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let due = For(self.due.unwrap_or_default());
        let renewed = self.owner.as_ref().and_then(|owner| owner.renewed).unwrap_or_default();
        match &self.verdict {
            Verdict::Cordoned => {
                f.write_str("\n  its node is cordoned: the job stays there, and the node gets no other")
            }
            Verdict::AtHome => f.write_str("\n  the ring gives this key to that worker"),
            Verdict::PastHome { home } => {
                write!(
                    f,
                    "\n  the ring gives this key to worker {home}; it was passed over {}, ",
                    Times(self.strikes)
                )?;
                f.write_str("and stays where it is until it is handed on")
            }
            Verdict::Moving { to, on_hold } => {
                match to {
                    Some(to) => write!(f, "\n  the ring gives this key to worker {to}: ")?,
                    None => f.write_str("\n  no worker is up: ")?,
                }
                f.write_str(match (to, on_hold) {
                    (_, true) => "nothing moves while the pool is on hold",
                    (Some(_), false) => "it moves there when the ring has been stable for a while",
                    (None, false) => "it stays where it is",
                })
            }
            Verdict::Leaving => {
                let node_leaves = self.owner.as_ref().is_some_and(|owner| owner.node_leaves);
                let who = if node_leaves { "all workers of its node are" } else { "that worker is" };
                write!(f, "\n  {who} leaving: the job is handed on")
            }
            Verdict::OwnerSilent => {
                write!(f, "\n  that worker renewed its lease {} ago: ", For(renewed))?;
                f.write_str("unless it renews it soon, it loses its jobs")
            }
            Verdict::NobodyLives { renewed } => {
                write!(f, "\n  no worker lives: the last one renewed its lease {} ago", For(*renewed))
            }
            Verdict::OwnerLost => f.write_str("\n  the pool takes the job from that worker soon"),
            Verdict::Granted => f.write_str("\n  that worker has not said that it begins the job"),
            Verdict::Starting => f.write_str("\n  its start handler has not succeeded yet"),
            Verdict::NotBegun => {
                write!(f, "\n  if that worker does not begin it within {due}, it is assigned anew")
            }
            Verdict::Stopping => {
                write!(f, "\n  its handler has not ended; the worker is told again in {due}")
            }
            Verdict::Dropped if self.state == Some(JobState::Running) => {
                f.write_str("\n  the pool is being shut down: its handler is told to end")
            }
            Verdict::Dropped if self.state != Some(JobState::Queued) => {
                f.write_str("\n  the pool is being shut down, and drops it")
            }
            Verdict::Recovering if self.state != Some(JobState::Queued) => {
                f.write_str("\n  the pool is being opened")
            }
            Verdict::Parked => f.write_str("\n  nothing tries it again before it is unparked"),
            Verdict::Paused if self.paused.as_ref().is_some_and(|pause| pause.until.is_some()) => {
                write!(f, "\n  it goes on by itself in {due}, or when it is resumed")
            }
            Verdict::Paused => f.write_str("\n  nobody runs it before it is resumed"),
            _ => Ok(()),
        }?;
        self.failures(f)
    }

    /// What has gone wrong with a queued job before.
    fn failures(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match (&self.verdict, self.state, &self.error) {
            // The record does not say whether that was before or after the error.
            (Verdict::BackOff, ..) if self.strikes > 0 => {
                write!(f, "\n  workers passed it over {}", Times(self.strikes))
            }
            (Verdict::BackOff, ..) => Ok(()),
            (_, Some(JobState::Queued), Some(error)) => {
                write!(f, "\n  its last attempt failed: {}", Shown(error))
            }
            _ => Ok(()),
        }
    }

    /// Its belongings, and where it comes from.
    fn belongings(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let (Some(node), Some(age)) = (&self.dispatched_by, self.age) else { return Ok(()) };
        f.write_str("\n  ")?;
        match self.notifications {
            0 => {}
            1 => f.write_str("1 notification waits; ")?,
            waiting => write!(f, "{waiting} notifications wait; ")?,
        }
        if let Some(CheckpointInfo { len, token, age }) = &self.checkpoint {
            write!(f, "checkpoint of {} by token {token}, {} old; ", Bytes(*len), For(*age))?;
        }
        write!(f, "accepted {} ago from node {node}", For(age))?;
        if self.generation > 0 {
            write!(f, "; payload of generation {}", self.generation)?;
        }
        if let Some(plan) = &self.plan {
            write!(f, "; wanted by the plan {plan}")?;
        }
        match &self.named {
            None => Ok(()),
            Some(NamedDispatch { id, outcome: Some(outcome), ended: true }) => {
                write!(f, "\n  the job is of another dispatch than {id}, which has ended: {}", Shown(outcome))
            }
            Some(NamedDispatch { id, ended: true, .. }) => {
                write!(f, "\n  the job is of another dispatch than {id}, which has ended")
            }
            Some(NamedDispatch { id, .. }) => {
                write!(f, "\n  the job is of another dispatch than {id}, which was not accepted or has ended")
            }
        }
    }
}

/// How often something happened.
struct Times(u32);

impl Display for Times {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self.0 {
            1 => f.write_str("once"),
            times => write!(f, "{times} times"),
        }
    }
}
