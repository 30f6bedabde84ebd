//! Asks: in some runs users ask the owners of jobs, and handlers answer at once, late, never, refuse, or send them on. No ask
//! comes to too many handlers (S14), or before earlier notifications (S16), and those that are answered are told (L9).

use std::collections::BTreeMap;

use super::judge::Judge;
use super::world::MS;
use tenure_protocol::core::call::{Call, Done};
use tenure_protocol::core::effect::HandedAsk;
use tenure_protocol::error::AskError;
use tenure_protocol::model::id::{DispatchId, JobKey, Token};
use tenure_protocol::model::record::{JobState, Record};
use tenure_protocol::step::{Ask, AskId, AskItem, AskReply, Reply, ReplyItem, ReplyReply, Said};

/// How long an answer may take to its asker where nothing is in its way.
const LATE: u64 = 1_500 * MS;

/// All that is known of asks.
#[derive(Debug, Default)]
pub(super) struct Asks {
    questions: BTreeMap<String, Question>,
    attempts: BTreeMap<AskId, Accepted>,
    /// How often an ask came to a handler after another call had sent it on.
    pub(super) sent_on: u64,
}

/// One ask of a user.
#[derive(Debug)]
struct Question {
    key: JobKey,
    idempotent: bool,
    since: u64,
    /// An engine has given it to a job's task.
    left_engine: bool,
    /// The calls of handlers with it.
    handed: Vec<Handed>,
    /// The words of handlers to it, under which token, and when.
    answers: Vec<(Token, Said, u64)>,
    /// Its asker was told that nobody was asked.
    refused: Option<String>,
}

#[derive(Debug)]
struct Handed {
    attempt: AskId,
    token: Token,
    /// The handler has dropped it.
    dropped: bool,
    /// When the handler sends it on.
    sent_on: Option<u64>,
}

impl Handed {
    /// The handler may have acted on it: it has not sent it on by now.
    fn counts(&self, now: u64) -> bool {
        self.sent_on.is_none_or(|at| now < at)
    }
}

/// An attempt that stands in a stream, or stood there.
#[derive(Clone, Debug)]
struct Accepted {
    token: Token,
    /// The dispatch that ran, and its notifications so far.
    dispatch: DispatchId,
    after: Place,
}

/// A place among the notifications of a dispatch: how often these were lost, and how many were kept since.
pub(super) type Place = (u32, usize);

/// The circumstances in which an ask ends.
#[derive(Clone, Copy, Debug)]
pub(super) struct End {
    pub(super) now: u64,
    /// By the clock of the asker's node.
    pub(super) in_time: bool,
    /// Nothing has disturbed the pool so far.
    pub(super) undisturbed: bool,
    /// Nothing has disturbed the pool since the ask.
    pub(super) calm: bool,
    /// The asker's node stays, and so does the pool.
    pub(super) stays: bool,
}

impl Judge {
    pub(super) fn asks(&mut self, name: &str, key: &JobKey, idempotent: bool, now: u64) {
        let (key, since) = (key.clone(), now);
        let (handed, answers) = (Vec::new(), Vec::new());
        let question =
            Question { key, idempotent, since, left_engine: false, handed, answers, refused: None };
        self.asks.questions.insert(name.to_owned(), question);
    }

    /// Data were lost since.
    fn lost_since(&self, since: u64) -> bool {
        self.is_lossy() || self.lost_at.is_some_and(|at| at >= since)
    }

    fn record_under(&self, key: &JobKey, token: Token) -> Option<&Record> {
        self.records.get(key).and_then(Option::as_ref).filter(|record| record.token == token)
    }

    /// The store has carried out asks and replies.
    pub(super) fn saw_asks(&mut self, call: &Call, done: &Done) {
        match (call, done) {
            (Call::Ask(Ask { items, .. }), Done::Ask(_, Ok(replies))) => {
                for (item, _) in items.iter().zip(replies).filter(|(_, reply)| **reply == AskReply::Sent) {
                    self.accepted(item);
                }
            }
            (Call::Reply(Reply { worker, items, .. }), Done::Reply(_, Ok(replies))) => {
                for (item, _) in items.iter().zip(replies).filter(|(_, reply)| **reply == ReplyReply::Told) {
                    let ReplyItem { key, token, said, .. } = item;
                    let owns = |record: &Record| {
                        record.owner == Some(*worker)
                            && matches!(record.state, JobState::Running | JobState::Stopping)
                    };
                    if said.is_the_owners() && !self.record_under(key, *token).is_some_and(owns) {
                        let what =
                            format!("S14: {worker} tells {said:?} of {key}, which is not its under {token}");
                        self.violations.push(what);
                    }
                }
            }
            _ => {}
        }
    }

    /// An attempt, or a poke after it, goes to the owner that it names.
    fn accepted(&mut self, AskItem { key, guess, ask }: &AskItem) {
        let runs = |record: &&Record| record.state == JobState::Running && record.owner == *guess;
        let Some(record) = self.record_under(key, ask.token).filter(runs) else {
            let (name, token) = (&ask.name, ask.token);
            let record = self.records.get(key).and_then(Option::as_ref).map(ToString::to_string);
            self.violations
                .push(format!("S14: {name} goes to {guess:?} under {token}, and {key} is {record:?}"));
            return;
        };
        let after = self.life(&record.id).map(|life| life.notes.place());
        let Some(after) = after.filter(|_| !ask.poke) else { return };
        let accepted = Accepted { token: ask.token, dispatch: record.id.clone(), after };
        self.asks.attempts.entry(ask.id).or_insert(accepted);
    }

    /// An engine gives a job an ask.
    pub(super) fn leaves_engine(&mut self, ask: &HandedAsk) {
        if let Some(question) = self.asks.questions.get_mut(&ask.name) {
            question.left_engine = true;
        }
    }

    /// A handler is called with an ask.
    pub(super) fn handed(&mut self, ask: &HandedAsk, token: Token, now: u64) {
        let wrong = self.objects_to(ask, token, now);
        let Some(question) = self.asks.questions.get_mut(&ask.name) else { return };
        self.asks.sent_on += u64::from(question.handed.iter().any(|handed| !handed.counts(now)));
        question.handed.push(Handed { attempt: ask.id, token, dropped: false, sent_on: None });
        let key = &question.key;
        self.violations.extend(wrong.map(|(what, wrong)| format!("{what}: {} of {key} {wrong}", ask.name)));
    }

    /// The property that is violated when a handler is called with this, and how.
    fn objects_to(&self, ask: &HandedAsk, token: Token, now: u64) -> Option<(&'static str, String)> {
        let question = self.asks.questions.get(&ask.name)?;
        let lost = self.lost_since(question.since);
        let attempt = self.asks.attempts.get(&ask.id).filter(|attempt| attempt.token == token);
        let Some(attempt) = attempt else {
            let (id, wrong) = (ask.id, "is given to a handler, and was never sent to it");
            return (!lost).then(|| ("S14", format!("{wrong}: {id} under {token}")));
        };
        if let Some(error) = question.refused.as_ref().filter(|_| !lost) {
            return Some(("S14", format!("is given to a handler after '{error}'")));
        }
        let mut earlier = question.handed.iter().filter(|handed| handed.counts(now));
        let under = |handed: &&Handed| handed.token == token && !handed.dropped;
        let before = if question.idempotent { earlier.find(under) } else { earlier.next() };
        if let Some(before) = before.filter(|_| !lost) {
            let wrong = format!("is given to handlers twice, under {} and {token}", before.token);
            return Some(("S14", wrong));
        }
        let notes = &self.life(&attempt.dispatch)?.notes;
        let early = !self.is_lossy() && !notes.reached(attempt.after);
        early.then(|| ("S16", format!("comes before notifications that were kept first: {notes:?}")))
    }

    /// A handler says this to an ask, now or later.
    pub(super) fn says_to_ask(&mut self, ask: &HandedAsk, token: Token, said: Said, at: u64) {
        let Some(question) = self.asks.questions.get_mut(&ask.name) else { return };
        if let Some(handed) = question.handed.iter_mut().rfind(|handed| handed.attempt == ask.id) {
            handed.dropped |= said == Said::Dropped;
            handed.sent_on = handed.sent_on.or((said == Said::Moved).then_some(at));
        }
        question.answers.push((token, said, at));
    }

    /// An asker hears how its ask has ended.
    pub(super) fn ask_ended(&mut self, name: &str, result: &Result<bytes::Bytes, AskError>, end: End) {
        let Some(question) = self.asks.questions.get(name) else { return };
        let lost = self.lost_since(question.since);
        let was_said =
            |said: &Said| question.answers.iter().any(|(_, known, at)| known == said && *at <= end.now);
        let wrong = match result {
            Ok(body) => (!was_said(&Said::Answer(body.clone()))).then_some("S14: no handler has said that"),
            Err(AskError::Refused(words)) => {
                let said = Said::Refused(words.clone().into());
                (!was_said(&said)).then_some("S14: no handler has said that")
            }
            Err(AskError::Unknown { .. }) => self.may_be_unknown(question, end),
            Err(_) => {
                let had_it = question.handed.iter().any(|handed| handed.counts(end.now));
                (had_it && !lost).then_some("S14: a handler was given it before that")
            }
        };
        self.violations.extend(wrong.map(|wrong| format!("{wrong}: {name} ends with {result:?}")));
        if let (Err(error @ (AskError::NotHandled(_) | AskError::Failed(_))), Some(question)) =
            (result, self.asks.questions.get_mut(name))
        {
            question.refused = Some(error.to_string());
        }
    }

    /// The objection if this ask ends, and nobody knows how.
    fn may_be_unknown(&self, question: &Question, end: End) -> Option<&'static str> {
        if end.undisturbed && end.stays && end.in_time && !question.left_engine {
            return Some("L9: nothing has disturbed the pool, and nobody was asked");
        }
        let runs_on = |token| {
            let record = self.record_under(&question.key, token);
            record.is_some_and(|record| record.state == JobState::Running)
        };
        let last = question.answers.iter().find(|(_, said, _)| matches!(said, Said::Answer(_)));
        let answered = last.is_some_and(|(token, _, at)| at + LATE < end.now && runs_on(*token));
        (end.calm && end.stays && answered && !self.lost_since(question.since))
            .then_some("L9: its handler has answered, and its job runs on")
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use bytes::Bytes;

    use super::*;
    use tenure_protocol::core::time::Time;
    use tenure_protocol::error::NotHandled;
    use tenure_protocol::model::id::{NodeName, WorkerId};
    use tenure_protocol::model::policy::RestartPolicy;
    use tenure_protocol::step::AskEvent;

    const CALM: End = End { now: 5_000 * MS, in_time: true, undisturbed: true, calm: true, stays: true };

    fn attempt(number: u64) -> AskId {
        AskId { life: 1, number }
    }

    /// A job that runs under token 3, and an ask that stands in the stream of its owner.
    fn sent(idempotent: bool) -> Judge {
        let (key, id): (JobKey, DispatchId) = ("k".try_into().unwrap(), "n.d1".parse().unwrap());
        let mut judge = Judge::default();
        judge.submitted(&key, &id, RestartPolicy::Never);
        judge.records.insert(key.clone(), Record::parse(b"1|R|1|3|1|2|2|n.d1|1|2|0|"));
        judge.asks("q1", &key, idempotent, 0);
        judge.accepted(&item(1));
        judge
    }

    fn item(number: u64) -> AskItem {
        let ask = AskEvent {
            id: attempt(number),
            name: "q1".into(),
            token: Token(3),
            not_after: 9,
            poke: false,
            body: Bytes::new(),
        };
        AskItem { key: "k".try_into().unwrap(), guess: Some(WorkerId(1)), ask }
    }

    fn handed(number: u64) -> HandedAsk {
        let (asker, body, deadline) = (NodeName::new("m").unwrap(), Bytes::new(), Time(9));
        HandedAsk { id: attempt(number), name: "q1".into(), asker, body, deadline }
    }

    fn objections(judge: &mut Judge) -> Vec<String> {
        let found = std::mem::take(&mut judge.violations);
        found.into_iter().map(|found| found.split(": ").take(2).collect::<Vec<_>>().join(": ")).collect()
    }

    fn unknown() -> Result<Bytes, AskError> {
        Err(AskError::Unknown { id: "q1".into() })
    }

    #[test]
    fn an_ask_is_given_to_one_handler() {
        let mut judge = sent(false);
        judge.handed(&handed(1), Token(3), 2);
        assert_eq!(objections(&mut judge), [""; 0]);
        judge.accepted(&item(2));
        judge.handed(&handed(2), Token(3), 2);
        let twice = "S14: q1 of k is given to handlers twice, under 3 and 3";
        assert_eq!(objections(&mut judge), [twice]);
        judge.handed(&handed(3), Token(3), 2);
        let never = "S14: q1 of k is given to a handler, and was never sent to it";
        assert_eq!(objections(&mut judge), [never]);
    }

    #[test]
    fn an_idempotent_ask_that_was_dropped_may_come_again() {
        let mut judge = sent(true);
        judge.handed(&handed(1), Token(3), 2);
        judge.says_to_ask(&handed(1), Token(3), Said::Dropped, 1);
        judge.accepted(&item(2));
        judge.handed(&handed(2), Token(3), 2);
        assert_eq!(objections(&mut judge), [""; 0]);
        judge.accepted(&item(3));
        judge.handed(&handed(3), Token(3), 2);
        assert_eq!(objections(&mut judge).len(), 1, "its owner has it");
    }

    #[test]
    fn an_ask_that_was_sent_on_may_come_again() {
        for idempotent in [false, true] {
            let mut judge = sent(idempotent);
            judge.handed(&handed(1), Token(3), 2);
            judge.says_to_ask(&handed(1), Token(3), Said::Moved, 5);
            judge.accepted(&item(2));
            judge.handed(&handed(2), Token(3), 4);
            assert_eq!(objections(&mut judge).len(), 1, "it is not sent on yet");
            let mut judge = sent(idempotent);
            judge.handed(&handed(1), Token(3), 2);
            judge.says_to_ask(&handed(1), Token(3), Said::Moved, 5);
            judge.ask_ended("q1", &Err(AskError::NotHandled(NotHandled::Late)), CALM);
            assert_eq!(objections(&mut judge), [""; 0], "no handler has it");
            let mut judge = sent(idempotent);
            judge.handed(&handed(1), Token(3), 2);
            judge.says_to_ask(&handed(1), Token(3), Said::Moved, 5);
            judge.accepted(&item(2));
            judge.handed(&handed(2), Token(3), 6);
            assert_eq!((objections(&mut judge), judge.asks.sent_on), (vec![], 1));
            judge.accepted(&item(3));
            judge.handed(&handed(3), Token(3), 7);
            assert_eq!(objections(&mut judge).len(), 1, "its second owner has it");
        }
    }

    #[test]
    fn what_nobody_was_asked_comes_to_no_handler() {
        let refused = || Err(AskError::NotHandled(NotHandled::Late));
        let mut judge = sent(false);
        judge.ask_ended("q1", &refused(), CALM);
        judge.handed(&handed(1), Token(3), 2);
        let after = "S14: q1 of k is given to a handler after 'nobody was asked";
        assert_eq!(objections(&mut judge), [after]);
        judge.ask_ended("q1", &refused(), CALM);
        assert_eq!(objections(&mut judge), ["S14: a handler was given it before that"]);
    }

    #[test]
    fn an_answer_was_given_by_a_handler() {
        let mut judge = sent(false);
        judge.says_to_ask(&handed(1), Token(3), Said::Answer("yes".into()), 1);
        judge.ask_ended("q1", &Ok("yes".into()), CALM);
        assert_eq!(objections(&mut judge), [""; 0]);
        judge.ask_ended("q1", &Ok("no".into()), CALM);
        judge.ask_ended("q1", &Err(AskError::Refused("yes".into())), CALM);
        assert_eq!(objections(&mut judge), ["S14: no handler has said that"; 2]);
    }

    #[test]
    fn an_ask_that_was_answered_is_not_unknown() {
        let mut judge = sent(false);
        judge.leaves_engine(&handed(1));
        judge.says_to_ask(&handed(1), Token(3), Said::Answer("yes".into()), 1);
        let disturbed = End { undisturbed: false, calm: false, ..CALM };
        judge.ask_ended("q1", &unknown(), disturbed);
        assert_eq!(objections(&mut judge), [""; 0]);
        judge.ask_ended("q1", &unknown(), CALM);
        assert_eq!(objections(&mut judge), ["L9: its handler has answered, and its job runs on"]);
    }

    #[test]
    fn without_a_disturbance_somebody_is_asked() {
        let mut judge = sent(false);
        judge.ask_ended("q1", &unknown(), End { in_time: false, ..CALM });
        assert_eq!(objections(&mut judge), [""; 0], "its time is over");
        judge.ask_ended("q1", &unknown(), CALM);
        assert_eq!(objections(&mut judge), ["L9: nothing has disturbed the pool, and nobody was asked"]);
    }

    #[test]
    fn notifications_that_were_kept_first_come_first() {
        let key: JobKey = "k".try_into().unwrap();
        let mut judge = sent(false);
        judge.kept(&key, &"note".into());
        judge.accepted(&item(2));
        judge.handed(&handed(2), Token(3), 2);
        assert!(judge.violations[0].starts_with("S16"), "{:?}", judge.violations);
        let mut judge = sent(false);
        judge.kept(&key, &"note".into());
        judge.handed(&handed(1), Token(3), 2);
        assert_eq!(objections(&mut judge), [""; 0], "it was kept after the ask");
    }
}
