//! The ends of a worker's executions, until the store knows the ends. Damaged data refuse an end for a while. The
//! worker says a refused end again alone, so a refused end holds up no others. A refused end keeps its slot, so few
//! pile up.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use super::execution::End;
use super::filling::one_call;

/// The pause before the node repeats an end that was refused alone.
const PAUSE: Duration = Duration::from_secs(1);
/// The longest grace after a loss of data. A lease and a grace after a refused end, the job runs again.
const GRACE: Duration = Duration::from_secs(60);

/// The ends in the order in which the node says them.
#[derive(Default)]
pub(crate) struct Ends {
    fresh: VecDeque<End>,
    refused: VecDeque<Refused>,
    /// The last call was about a refused end: now new ends come first.
    was_refused: bool,
}

struct Refused {
    end: End,
    since: Instant,
    /// When the worker says the end again.
    next: Instant,
}

/// The ends of one call.
#[derive(Clone)]
pub(crate) struct Said {
    pub(crate) ends: Arc<[End]>,
    /// The first refusal of a refused end.
    since: Option<Instant>,
}

impl Ends {
    pub(crate) fn push(&mut self, end: End) {
        self.fresh.push_back(end);
    }

    /// How many slots refused ends take.
    pub(crate) fn slots(&self) -> u32 {
        u32::try_from(self.refused.len()).unwrap_or(u32::MAX)
    }

    /// Whether the worker has ends to say now.
    pub(crate) fn are_due(&self, now: Instant) -> bool {
        !self.fresh.is_empty() || self.next().is_some_and(|next| next <= now)
    }

    /// When the worker says a refused end again.
    pub(crate) fn next(&self) -> Option<Instant> {
        self.refused.front().map(|refused| refused.next)
    }

    /// The ends of the next call: in turns a refused end and all new ends.
    pub(crate) fn next_call(&mut self, now: Instant) -> Said {
        let is_due = self.next().is_some_and(|next| next <= now);
        self.was_refused = is_due && (!self.was_refused || self.fresh.is_empty());
        if self.was_refused
            && let Some(refused) = self.refused.pop_front()
        {
            return Said { ends: [refused.end].into(), since: Some(refused.since) };
        }
        let count = one_call(self.fresh.iter().map(|end| end.settle.size()));
        Said { ends: self.fresh.drain(..count).collect(), since: None }
    }

    /// The store did nothing: the ends go once more, first.
    pub(crate) fn put_back(&mut self, said: &Said) {
        for end in said.ends.iter().rev() {
            self.fresh.push_front(end.clone());
        }
    }

    /// Damaged data refuse the ends, and the store did nothing. The ends of the call now go one by one, so the sound
    /// ends come through. An end refused alone goes again after a pause. Returns false when the worker gives the end
    /// up, since the job runs again.
    pub(crate) fn refuse(&mut self, said: &Said, now: Instant) -> bool {
        let since = said.since.unwrap_or(now);
        if let [end] = &*said.ends {
            let lasts = now.duration_since(since) <= end.execution.lease() + GRACE;
            if lasts {
                self.refused.push_back(Refused { end: end.clone(), since, next: now + PAUSE });
            }
            return lasts;
        }
        for end in said.ends.iter().rev() {
            self.refused.push_front(Refused { end: end.clone(), since, next: now });
        }
        true
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use bytes::Bytes;
    use tokio::sync::mpsc;

    use super::*;
    use crate::model::id::{Incarnation, JobId};
    use crate::model::queue::Terms;
    use crate::model::record::Record;
    use crate::runtime::clock;
    use crate::runtime::execution::Execution;
    use crate::store::{Settle, TakenJob};

    fn end(id: &str) -> End {
        let taken = TakenJob {
            id: JobId::new(id).unwrap(),
            record: Record::parse("1|R|7|1|n||||0|0|q||1|0|0|0|1|0|").unwrap(),
            body: Bytes::new(),
            notes: Bytes::new(),
            lease: 30_000,
            terms: Terms::default(),
        };
        let (events, _) = mpsc::unbounded_channel();
        let execution = Arc::new(Execution::new(taken, Incarnation(1), clock::now(), events));
        End { execution, settle: Settle::GiveBack }
    }

    fn ids(said: &Said) -> Vec<String> {
        said.ends.iter().map(|end| end.execution.id.to_string()).collect()
    }

    #[test]
    fn refused_ends_are_said_alone_and_hold_up_no_others() {
        let (mut ends, now) = (Ends::default(), Instant::now());
        for id in ["a", "b"] {
            ends.push(end(id));
        }
        let both = ends.next_call(now);
        assert_eq!(ids(&both), ["a", "b"]);
        assert!(ends.refuse(&both, now));
        assert_eq!(ends.slots(), 2);
        ends.push(end("c"));
        let a = ends.next_call(now);
        assert!(ends.refuse(&a, now));
        assert_eq!((ids(&a), ids(&ends.next_call(now))), (vec!["a".to_owned()], vec!["c".to_owned()]));
        assert_eq!(ids(&ends.next_call(now)), ["b"], "one that was refused alone has a pause");
        assert_eq!((ends.are_due(now), ends.slots()), (false, 1));
        assert_eq!(ids(&ends.next_call(now + PAUSE)), ["a"]);
    }

    #[test]
    fn a_refused_end_is_given_up_when_its_job_runs_again() {
        let (mut ends, now) = (Ends::default(), Instant::now());
        ends.push(end("a"));
        let mut refusals = 0;
        let mut at = now;
        while ends.are_due(at) {
            let said = ends.next_call(at);
            refusals += 1;
            if !ends.refuse(&said, at) {
                break;
            }
            at += PAUSE;
        }
        assert_eq!((at - now, refusals, ends.slots()), (Duration::from_secs(91), 92, 0));
    }
}
