//! Why a job is where it is: a letter and the number of its former worker, in the second field behind the plan of its
//! record. A step writes it where it changes the record anyway, so a job that starts, runs and ends has none. A refusal also
//! has its reason there.

use std::fmt;

use serde::Serialize;

use super::id::WorkerId;
use super::paused::Paused;
use super::record::{JobState, Record, decimal};

/// How much of a refusal's reason a record keeps, bytes.
pub const REFUSAL_MAX: usize = 200;

/// The start of a text, cut between two characters to at most this many bytes.
pub fn start_of(text: &str, most: usize) -> &str {
    let end = (0..=text.len().min(most)).rev().find(|&end| text.is_char_boundary(end));
    text.get(..end.unwrap_or_default()).unwrap_or_default()
}

/// Why a job left its former worker, or came out of the queue or the park.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Cause {
    /// `m`: the ring gave its key to another worker.
    Moved,
    /// `g`: its worker left, and handed it on.
    Drained,
    /// `l`: its worker was lost.
    Lost,
    /// `n`: its worker did not have it after a loss of data.
    Missing,
    /// `f`: it failed there, or its handler gave it up.
    Failed,
    /// `r`: the worker refused it, or was full.
    Refused,
    /// `t`: the worker did not begin it in time.
    NotBegun,
    /// `u`: an operator unparked it.
    Unparked,
    /// `b`: an operator had it leave its worker.
    Bounced,
    /// `p`: an operator parked it.
    Parked,
    /// `z`: an operator paused it.
    Paused,
    /// `y`: an operator resumed it.
    Resumed,
    /// `w`: its pause was over.
    PauseOver,
    /// `a`: its worker reported it after a loss of data.
    Attested,
    /// `c`: its run ended, so that it starts again with another payload.
    Updated,
    /// `e`: its run ended well, and its policy starts it again.
    Restarted,
    /// `o`: it had begun twice or more, its rest was over, and a router found no worker for it.
    NoWorker,
}

impl Cause {
    /// All causes.
    pub const ALL: [Self; 17] = [
        Self::Moved,
        Self::Drained,
        Self::Lost,
        Self::Missing,
        Self::Failed,
        Self::Refused,
        Self::NotBegun,
        Self::Unparked,
        Self::Bounced,
        Self::Parked,
        Self::Paused,
        Self::Resumed,
        Self::PauseOver,
        Self::Attested,
        Self::Updated,
        Self::Restarted,
        Self::NoWorker,
    ];

    /// Its letter in records and steps.
    #[must_use]
    pub fn letter(self) -> &'static str {
        match self {
            Self::Moved => "m",
            Self::Drained => "g",
            Self::Lost => "l",
            Self::Missing => "n",
            Self::Failed => "f",
            Self::Refused => "r",
            Self::NotBegun => "t",
            Self::Unparked => "u",
            Self::Bounced => "b",
            Self::Parked => "p",
            Self::Paused => "z",
            Self::Resumed => "y",
            Self::PauseOver => "w",
            Self::Attested => "a",
            Self::Updated => "c",
            Self::Restarted => "e",
            Self::NoWorker => "o",
        }
    }

    /// Whether a job goes from one worker to another because of it.
    #[must_use]
    pub fn is_a_move(self) -> bool {
        use Cause::{Bounced, Drained, Lost, Missing, Moved, NotBegun, Refused};
        matches!(self, Moved | Drained | Lost | Missing | Refused | NotBegun | Bounced)
    }

    /// The cause with this letter.
    #[doc(hidden)]
    pub fn of(letter: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|cause| cause.letter() == letter)
    }
}

/// Why a job is where it is: the last thing that took it from a worker, out of the queue or out of the park. Its text says
/// it in words.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Why {
    /// The cause.
    pub cause: Cause,
    /// The worker that had the job last. `None` if none had it, or it is not known.
    pub former: Option<WorkerId>,
}

impl fmt::Display for Why {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let it = |f: &mut fmt::Formatter<'_>| match self.former {
            Some(worker) => write!(f, "worker {worker}"),
            None => f.write_str("its worker"),
        };
        match self.cause {
            Cause::Moved => f.write_str("the ring took its key from ").and_then(|()| it(f)),
            Cause::Drained => it(f).and_then(|()| f.write_str(" left, and handed it on")),
            Cause::Lost => it(f).and_then(|()| f.write_str(" was lost")),
            Cause::Missing => it(f).and_then(|()| f.write_str(" did not have it after a loss of data")),
            Cause::Failed => f.write_str("it failed on ").and_then(|()| it(f)),
            Cause::Refused => it(f).and_then(|()| f.write_str(" refused it, or was full")),
            Cause::NotBegun => it(f).and_then(|()| f.write_str(" did not begin it in time")),
            Cause::Unparked => f.write_str("it was unparked"),
            Cause::Bounced => f.write_str("an operator took it from ").and_then(|()| it(f)),
            Cause::Parked => f.write_str("an operator parked it"),
            Cause::Paused => f.write_str("an operator paused it"),
            Cause::Resumed => f.write_str("an operator resumed it"),
            Cause::PauseOver => f.write_str("its pause was over"),
            Cause::Attested => f.write_str("its worker reported it after a loss of data"),
            Cause::Updated => f.write_str("it was updated, and ended on ").and_then(|()| it(f)),
            Cause::Restarted => f.write_str("it ended well on ").and_then(|()| it(f)),
            Cause::NoWorker => f.write_str("no worker was up when it was to be assigned"),
        }
    }
}

impl Record {
    /// Why it is where it is. `None` if no worker has given it up so far, or a later version has another cause.
    pub fn why(&self) -> Option<Why> {
        let field = self.why_field();
        let (letter, former) = field.split_at_checked(1)?;
        let cause = Cause::of(letter)?;
        let former = former.split_once('+').map_or(former, |(former, _)| former);
        Some(Why { cause, former: decimal(former).map(WorkerId) })
    }

    /// Whether it is queued, and does not rest: a worker that comes may have it at once. A job that has failed more than once
    /// rests, unless a router found no worker for it since.
    pub fn waits_for_a_worker(&self) -> bool {
        self.state == JobState::Queued && (self.attempts < 2 || self.found_no_worker())
    }

    /// Whether a router found no worker for it when its rest was over.
    pub fn found_no_worker(&self) -> bool {
        self.why().is_some_and(|why| why.cause == Cause::NoWorker)
    }

    /// The score of a parked job that never goes on by itself.
    pub const NEVER: u64 = 9_000_000_000_000_000;

    /// When the pause of a paused job is over, by the store's clock, ms. `None` for one without an end.
    pub fn paused_until(&self) -> Option<u64> {
        let (_, end) = self.why_field().strip_prefix('z')?.split_once('+')?;
        decimal(end).filter(|_| end.len() < 16 && self.is_paused())
    }

    /// When a parked job goes on by itself: its score.
    pub fn wakes_at(&self) -> u64 {
        self.paused_until().unwrap_or(Self::NEVER)
    }

    /// Sets when the pause of a paused job is over.
    pub fn set_pause_end(&mut self, end: u64) {
        let why = self.why_field();
        let why = why.split_once('+').map_or(why, |(why, _)| why);
        let mut fields = self.tail.get(1..).unwrap_or_default().splitn(3, '|');
        let generation = fields.next().unwrap_or_default();
        let behind = fields.nth(1).map(|fields| format!("|{fields}")).unwrap_or_default();
        self.tail = format!("|{generation}|{why}+{end}{behind}");
    }

    /// Whether it is paused, and for as long as a pause with this text.
    pub fn is_paused_for(&self, text: &str) -> bool {
        let lasts = match (self.paused_until(), Paused::end_of(text)) {
            (None, _) => true,
            (Some(_), None) => false,
            (Some(end), Some(wanted)) => end >= wanted,
        };
        lasts && self.is_paused()
    }

    /// Whether an operator has paused it: nobody runs it before it is resumed.
    pub fn is_paused(&self) -> bool {
        self.state == JobState::Parked && self.why().is_some_and(|why| why.cause == Cause::Paused)
    }

    /// Says why it leaves its owner. One that has no owner keeps its former worker.
    pub fn set_why(&mut self, cause: Cause) {
        self.because(cause, "");
    }

    /// Says that the owner refuses the job, with the owner's reason or an empty text.
    pub fn set_refusal(&mut self, reason: &str) {
        self.because(Cause::Refused, reason);
    }

    /// A refusal without a reason leaves a former one with a reason in its place.
    fn because(&mut self, cause: Cause, said: &str) {
        if cause == Cause::Refused && said.is_empty() && self.reason_of_refusal().is_some() {
            return;
        }
        let former = match self.owner {
            Some(owner) => owner.to_string(),
            None => former_of(self.why_field()).to_owned(),
        };
        let said = match said {
            "" => String::new(),
            said => {
                let said = start_of(said, REFUSAL_MAX);
                format!("+{}", said.replace(|c: char| c == '|' || c.is_ascii_control(), " "))
            }
        };
        let mut fields = self.tail.get(1..).unwrap_or_default().splitn(3, '|');
        let generation = fields.next().unwrap_or_default();
        let behind = fields.nth(1).map(|fields| format!("|{fields}")).unwrap_or_default();
        self.tail = format!("|{generation}|{}{former}{said}{behind}", cause.letter());
    }

    /// The last reason that a worker gave for a refusal, at most 200 bytes. `None` if the job does not wait for a worker, does
    /// not wait because of a refusal, or no reason was given.
    pub fn refusal(&self) -> Option<&str> {
        // A begin leaves the reason in the record, and the next worker has not refused the job.
        let waits = matches!(self.state, JobState::Queued | JobState::Assigned);
        self.reason_of_refusal().filter(|_| waits)
    }

    fn reason_of_refusal(&self) -> Option<&str> {
        let (_, reason) = self.why_field().strip_prefix('r')?.split_once('+')?;
        Some(reason).filter(|reason| !reason.is_empty())
    }

    fn why_field(&self) -> &str {
        self.tail.split('|').nth(2).unwrap_or_default()
    }
}

/// The number behind the letter, whatever that is.
fn former_of(field: &str) -> &str {
    let former = field.strip_prefix(|letter: char| letter.is_ascii_lowercase()).unwrap_or_default();
    let is_end =
        |end: &str| field.starts_with('z') && !end.is_empty() && end.bytes().all(|c| c.is_ascii_digit());
    let is_said = |former: &str| field.starts_with('r') && !former.is_empty();
    let cut = former.split_once('+').filter(|(former, end)| is_end(end) || is_said(former));
    let former = cut.map_or(former, |(former, _)| former);
    if former.len() <= 20 && decimal(former).is_some() { former } else { "" }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(owner: &str, tail: &str) -> Record {
        in_state("R", owner, tail)
    }

    fn in_state(state: &str, owner: &str, tail: &str) -> Record {
        let text = format!("1|{state}|{owner}|4|1|2|1|n.i|1||0|{tail}");
        Record::parse(text.as_bytes()).unwrap_or_else(|| panic!("{text}"))
    }

    #[test]
    fn the_reason_stands_behind_the_generation() {
        for (owner, before, after, former) in [
            ("17", "", "||l17", Some(17)),
            ("17", "|3", "|3|l17", Some(17)),
            ("17", "||m4", "||l17", Some(17)),
            ("17", "|3|m4|new|er", "|3|l17|new|er", Some(17)),
            ("", "|3|m4", "|3|l4", Some(4)),
            ("", "", "||l", None),
            ("", "||x5", "||l5", Some(5)),
            ("", "|3|z5+1700000000000|x", "|3|l5|x", Some(5)),
            ("", "||z+1700000000000", "||l", None),
            ("", "||m5+17", "||l", None),
            ("17", "|3|r4+no program|x", "|3|l17|x", Some(17)),
            ("", "||r5+no program", "||l5", Some(5)),
            ("", "||r+no program", "||l", None),
            ("", "||z5+x", "||l", None),
            ("", "||rubbish|x", "||l|x", None),
            ("", "||m99999999999999999999", "||l", None),
        ] {
            let mut record = record(owner, before);
            record.set_why(Cause::Lost);
            assert_eq!(record.tail, after, "{before}");
            let why = Why { cause: Cause::Lost, former: former.map(WorkerId) };
            assert_eq!(record.why(), Some(why), "{before}");
        }
    }

    #[test]
    fn a_job_is_paused_only_where_nobody_has_it() {
        let paused = |state: &str, tail: &str| {
            let text = format!("1|{state}||4|1|2|1|n.i|1||0|{tail}");
            Record::parse(text.as_bytes()).unwrap_or_else(|| panic!("{text}")).is_paused()
        };
        for tail in ["||z", "||z5", "|3|z5", "||z5|more"] {
            assert!(paused("P", tail) && !paused("Q", tail), "{tail}");
        }
        for tail in ["", "|z", "||p5", "||p5|z"] {
            assert!(!paused("P", tail), "{tail}");
        }
    }

    #[test]
    fn a_pause_may_have_an_end() {
        let parked = |tail: &str| {
            let text = format!("1|P||4|1|2|1|n.i|1||0|{tail}");
            Record::parse(text.as_bytes()).unwrap_or_else(|| panic!("{text}"))
        };
        for (tail, end) in [
            ("||z5+1700000000000", Some(1_700_000_000_000)),
            ("|3|z+7|more", Some(7)),
            ("||z5", None),
            ("||z5+", None),
            ("||z5+x", None),
            ("||z5+1234567890123456", None),
            ("||p5+7", None),
        ] {
            let record = parked(tail);
            assert_eq!(
                (record.paused_until(), record.wakes_at()),
                (end, end.unwrap_or(Record::NEVER)),
                "{tail}"
            );
        }
        let mut record = parked("|3|z5|more");
        record.set_pause_end(7);
        assert_eq!(record.tail, "|3|z5+7|more");
        assert_eq!(record.why().and_then(|why| why.former), Some(WorkerId(5)));
        for (text, lasts) in [("a|6|", true), ("a|7|x", true), ("a|8|", false), ("a||", false), ("a", false)]
        {
            assert_eq!(record.is_paused_for(text), lasts, "{text}");
        }
        assert!(parked("||z5").is_paused_for("a||") && !parked("||p5").is_paused_for("a|7|"));
    }

    #[test]
    fn every_letter_is_that_of_one_cause() {
        for cause in Cause::ALL {
            assert_eq!(Cause::of(cause.letter()), Some(cause));
            assert!(cause.letter().len() == 1);
        }
    }

    #[test]
    fn a_reason_of_a_later_version_is_none() {
        for tail in ["", "|", "|3", "||", "||x5", "||é"] {
            assert_eq!(record("17", tail).why(), None, "{tail}");
        }
        assert_eq!(record("17", "||mé").why(), Some(Why { cause: Cause::Moved, former: None }));
    }

    #[test]
    fn a_refusal_stands_behind_the_worker_in_bounds() {
        let long = "é".repeat(REFUSAL_MAX);
        let kept = "é".repeat(REFUSAL_MAX / 2);
        for (before, reason, tail, refusal) in [
            ("", "", "||r17", None),
            ("|3|m4|more", "no program", "|3|r17+no program|more", Some("no program")),
            ("||r4+former", "a|b\nc", "||r17+a b c", Some("a b c")),
            ("||r4+former", "", "||r4+former", Some("former")),
            ("||r4", "", "||r17", None),
            ("||m4+former", "", "||r17", None),
            ("", &*long, &*format!("||r17+{kept}"), Some(&*kept)),
        ] {
            let mut record = in_state("A", "17", before);
            record.set_refusal(reason);
            assert_eq!((&*record.tail, record.refusal()), (tail, refusal), "{before}");
        }
        assert_eq!(in_state("A", "17", "||m4+17").refusal(), None);
    }

    #[test]
    fn a_job_that_does_not_wait_was_not_refused() {
        let refused = |state| in_state(state, "17", "||r4+no program").refusal().map(str::to_owned);
        assert_eq!(["Q", "A"].map(refused), [const { "no program" }; 2].map(|why| Some(why.to_owned())));
        assert_eq!(["R", "S", "P"].map(refused), [None, None, None]);
    }

    #[test]
    fn an_update_keeps_the_reason() {
        let mut moved = record("17", "||m4");
        moved.set_generation(1);
        assert_eq!(moved.tail, "|1|m4");
        assert_eq!(moved.generation(), 1);
    }
}
