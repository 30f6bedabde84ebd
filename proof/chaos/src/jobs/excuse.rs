//! The judges' excuses: after a loss of data a job that was accepted before may be gone, unless a living node ran it through.

use std::collections::BTreeMap;
use std::time::Duration;

use super::node::{Kind, LEASE};
use super::over::{Again, Cancellation, End};
use crate::losses::Loss;
use crate::resource::Run;

/// When nodes have attested what they run: the hold of 2 s, and a margin.
const ATTESTED: Duration = Duration::from_secs(3);
/// A node whose process ended later than this after a loss has attested what it ran.
const LIVED: Duration = Duration::from_secs(10);
/// A node remembers for a little longer what has ended there.
const JOURNAL: Duration = Duration::from_secs(15);

/// A job that was accepted. Moments are in nanoseconds of `CLOCK_BOOTTIME`.
#[derive(Clone, Copy, Debug)]
pub(super) struct Accepted {
    pub(super) kind: Kind,
    /// When it was added.
    pub(super) asked: u64,
    /// When the answer was there.
    pub(super) answered: u64,
    pub(super) cancelled: Option<Cancellation>,
    pub(super) again: Option<Again>,
    /// The first end that was seen.
    pub(super) ended: Option<End>,
}

impl Accepted {
    pub(super) fn new(kind: Kind, asked: u64, answered: u64) -> Self {
        Self { kind, asked, answered, cancelled: None, again: None, ended: None }
    }

    /// When it was asked for last, and when that was answered.
    fn wanted(&self) -> (u64, u64) {
        let again = self.again.and_then(|again| Some((again.asked, again.answered?)));
        again.unwrap_or((self.asked, self.answered))
    }
}

/// The losses of a run, and what else the judge has to know about its faults.
#[derive(Debug, Default)]
pub(super) struct Losses {
    all: Vec<Loss>,
    /// When nodes ended, by name.
    ended: BTreeMap<String, u64>,
    /// When something that stood still went on: this node, or Redis.
    resumed: Vec<(Option<String>, u64)>,
}

impl Losses {
    pub(super) fn add(&mut self, loss: Loss) {
        self.all.push(loss);
    }

    pub(super) fn node_ends(&mut self, name: &str, at: u64) {
        self.ended.insert(name.to_owned(), at);
    }

    pub(super) fn goes_on(&mut self, node: Option<&str>, at: u64) {
        self.resumed.push((node.map(str::to_owned), at));
    }

    /// Whether a job may be gone that this execution was the last to run.
    pub(super) fn excuse(&self, job: &Accepted, run: Option<&Run>) -> bool {
        let (asked, answered) = job.wanted();
        let mut losses = self.all.iter().filter(|loss| forgets(loss, asked, answered));
        losses.any(|loss| !run.is_some_and(|run| self.outlives(loss, run) || self.runs_on(loss, job, run)))
    }

    /// Whether a word from outside may be forgotten that was said and answered at these moments.
    pub(super) fn forget(&self, asked: u64, answered: u64) -> bool {
        self.all.iter().any(|loss| forgets(loss, asked, answered))
    }

    /// The same, when the execution began that was not to be.
    pub(super) fn had_forgotten(&self, (asked, answered): (u64, u64), then: &Run) -> bool {
        self.before(then).any(|loss| forgets(loss, asked, answered))
    }

    /// Whether the end that a job came to by this execution may have been forgotten, when another one began.
    pub(super) fn had_forgotten_end(&self, end: &End, run: &Run, then: &Run) -> bool {
        self.before(then).any(|loss| forgets(loss, run.to, end.seen) && !self.tells_again(loss, run))
    }

    /// The losses that came before an execution began.
    fn before(&self, run: &Run) -> impl Iterator<Item = &Loss> {
        self.all.iter().filter(|loss| loss.lost <= run.from)
    }

    /// Whether the node of an execution has told its end again after a loss.
    fn tells_again(&self, loss: &Loss, run: &Run) -> bool {
        let around = loss.lost..=loss.back + nanos(LIVED);
        let concerns = |who: &Option<String>| who.as_deref().is_none_or(|who| who == node_of(run));
        let stood = self.resumed.iter().any(|(who, at)| concerns(who) && around.contains(at));
        self.lived(loss, run) && !stood && loss.back - loss.since < nanos(JOURNAL)
    }

    /// Whether the node of an execution has lived through a loss.
    fn lived(&self, loss: &Loss, run: &Run) -> bool {
        self.ended.get(node_of(run)).is_none_or(|end| *end > loss.back + nanos(LIVED))
    }

    /// Whether an execution was taken after a loss: then the data knew the job again. One that was taken before begins within
    /// its lease, or when its process goes on.
    fn outlives(&self, loss: &Loss, run: &Run) -> bool {
        let stood = self.resumed.iter().any(|(_, at)| (loss.lost..=run.from).contains(at));
        run.from > loss.back + nanos(LEASE) && !stood
    }

    /// Whether an execution had begun before a loss and must have gone on, so that its job is there again.
    fn runs_on(&self, loss: &Loss, job: &Accepted, run: &Run) -> bool {
        if run.from >= loss.lost {
            return false;
        }
        if run.to > loss.back + nanos(ATTESTED) {
            return true;
        }
        // It wrote when it began, and was cut off: a parent that waits writes once, too, and one that is told to end.
        let had_its_lease = loss.back - loss.lost < nanos(LEASE / 2)
            && self.resumed.iter().all(|(_, at)| *at < run.from || *at > loss.lost);
        let was_cut_off = run.writes == 1 && job.kind != Kind::Parent && job.cancelled.is_none();
        was_cut_off && self.lived(loss, run) && had_its_lease
    }
}

/// The name of the node of an execution.
fn node_of(run: &Run) -> &str {
    run.holder.split('/').next().unwrap_or_default()
}

fn forgets(loss: &Loss, asked: u64, answered: u64) -> bool {
    let since = if loss.wiped { 0 } else { loss.since };
    asked <= loss.back && answered >= since
}

fn nanos(time: Duration) -> u64 {
    time.as_nanos() as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: u64 = 1_000_000_000;

    #[test]
    fn a_loss_excuses_what_was_accepted_before_it_and_not_run() {
        let mut losses = Losses::default();
        losses.add(Loss { lost: 10 * SECOND, since: 10 * SECOND, back: 11 * SECOND, wiped: true });
        let job = |at: u64| Accepted::new(Kind::Plain, at * SECOND, at * SECOND);
        let run = |from: u64, to: u64, writes| Run {
            token: 7,
            holder: "n1/work/7".to_owned(),
            from: from * SECOND,
            to: to * SECOND,
            writes,
        };
        assert!(losses.excuse(&job(5), None) && losses.excuse(&job(11), None));
        assert!(!losses.excuse(&job(12), None), "it was accepted after the loss");
        assert!(losses.excuse(&job(5), Some(&run(6, 7, 2))), "it had ended");
        assert!(losses.excuse(&job(5), Some(&run(9, 11, 2))), "its end needs no job");
        assert!(!losses.excuse(&job(5), Some(&run(9, 15, 2))), "it ran on");
        assert!(!losses.excuse(&job(5), Some(&run(9, 9, 1))), "it was cut off");
        assert!(losses.excuse(&job(11), Some(&run(13, 14, 2))), "it may have been taken before");
        assert!(!losses.excuse(&job(11), Some(&run(15, 16, 2))), "it was there after the loss");
        let stood =
            Losses { all: losses.all.clone(), resumed: vec![(None, 14 * SECOND)], ..Losses::default() };
        assert!(stood.excuse(&job(11), Some(&run(15, 16, 2))), "its process stood still");
        losses.node_ends("n1", 12 * SECOND);
        assert!(losses.excuse(&job(5), Some(&run(9, 9, 1))), "it was cut off with its node");
        let parent = Accepted { kind: Kind::Parent, ..job(5) };
        let losses = Losses { ended: BTreeMap::new(), ..losses };
        assert!(losses.excuse(&parent, Some(&run(9, 9, 1))));
        let end = End { token: 7, seen: 9 * SECOND };
        let forgotten =
            |losses: &Losses, then| losses.had_forgotten_end(&end, &run(8, 9, 2), &run(then, then, 1));
        assert!(!forgotten(&losses, 20), "its node has told it again");
        for (who, is_forgotten) in [(None, true), (Some("n1"), true), (Some("n2"), false)] {
            let mut stood = Losses { all: losses.all.clone(), ..Losses::default() };
            stood.goes_on(who, 12 * SECOND);
            assert_eq!(forgotten(&stood, 20), is_forgotten, "{who:?} stood still");
        }
        let dead = Losses { ended: BTreeMap::from([("n1".to_owned(), 12 * SECOND)]), ..losses };
        assert!(forgotten(&dead, 20), "its node has died meanwhile");
        assert!(!forgotten(&dead, 9), "no loss has come before");
        let losses = Losses { ended: BTreeMap::new(), ..dead };
        let again = Again { asked: 12 * SECOND, answered: Some(12 * SECOND) };
        let wanted = Accepted { again: Some(again), ..job(5) };
        assert!(!losses.excuse(&wanted, Some(&run(6, 7, 2))), "somebody asked for it again after the loss");
        assert!(losses.forget(11 * SECOND, 11 * SECOND) && !losses.forget(12 * SECOND, 12 * SECOND));
    }
}
