//! Cancellations and ends, as somebody outside knows them: from then on no execution begins, unless somebody asks for the job
//! again.

use crate::resource::Run;

/// How a cancellation was answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Answer {
    /// It had not begun, and ended.
    AtOnce,
    /// Its execution was asked to end.
    Asked,
    /// It had ended before, perhaps by this call, or there was no answer.
    Unknown,
}

/// A cancellation of a job. Moments are in nanoseconds of `CLOCK_BOOTTIME`.
#[derive(Clone, Copy, Debug)]
pub(super) struct Cancellation {
    pub(super) answer: Answer,
    pub(super) asked: u64,
    pub(super) answered: u64,
    /// The last token of the job, read after the answer. No execution with a higher one may begin.
    pub(super) token: Option<u64>,
}

/// Somebody has asked for the job again after its cancellation.
#[derive(Clone, Copy, Debug)]
pub(super) struct Again {
    pub(super) asked: u64,
    /// `None`: it is open whether it is pending again.
    pub(super) answered: Option<u64>,
}

/// The end of a job, as somebody has seen it.
#[derive(Clone, Copy, Debug)]
pub(super) struct End {
    pub(super) token: u64,
    pub(super) seen: u64,
}

impl End {
    /// The first execution that began although the job had ended.
    pub(super) fn broken_by<'a>(&self, again: Option<&Again>, runs: &'a [Run]) -> Option<&'a Run> {
        begun_after(self.token, again, runs)
    }
}

impl Cancellation {
    /// The first execution that began although the job was cancelled.
    pub(super) fn broken_by<'a>(&self, again: Option<&Again>, runs: &'a [Run]) -> Option<&'a Run> {
        let token = self.token.filter(|_| self.answer != Answer::Unknown)?;
        begun_after(token, again, runs)
    }
}

/// The first execution with a token above this one, before somebody asked for the job again.
fn begun_after<'a>(token: u64, again: Option<&Again>, runs: &'a [Run]) -> Option<&'a Run> {
    let before = |run: &&Run| again.is_none_or(|again| run.from < again.asked);
    runs.iter().filter(before).find(|run| run.token > token)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_execution_after_a_cancellation_or_an_end_breaks_it() {
        let run = |token: u64| Run {
            token,
            holder: format!("n1/work/{token}"),
            from: 10 * token,
            to: 10 * token,
            writes: 1,
        };
        let runs = [run(5), run(7), run(9)];
        let cancelled =
            |token| Cancellation { answer: Answer::Asked, asked: 60, answered: 61, token: Some(token) };
        let broken_by = |token: u64, again: Option<u64>| {
            let again = again.map(|asked| Again { asked, answered: None });
            cancelled(token).broken_by(again.as_ref(), &runs).map(|run| run.token)
        };
        assert_eq!(broken_by(9, None), None, "the execution that was asked to end");
        assert_eq!(broken_by(7, None), Some(9));
        assert_eq!(broken_by(7, Some(85)), None, "somebody has asked for it again");
        assert_eq!(broken_by(5, Some(85)), Some(7), "the run after the next one hides nothing");
        let unknown = Cancellation { answer: Answer::Unknown, ..cancelled(5) };
        assert_eq!(unknown.broken_by(None, &runs), None);
        let ended = |token| End { token, seen: 75 };
        assert!(ended(9).broken_by(None, &runs).is_none() && ended(7).broken_by(None, &runs).is_some());
    }
}
