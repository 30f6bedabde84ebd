//! One ask of a node: it goes to the owner of a job in attempts, each with a number and a token. Calls about it are late or
//! get lost, and so do the words of workers. Its time may be over at any moment.

use std::collections::BTreeMap;

use bytes::Bytes;
use tenure_protocol::model::id::{Token, WorkerId};
use tenure_protocol::model::record::{JobState, Record};
use tenure_protocol::step::{
    Ask, AskEvent, AskId, AskItem, AskReply, DispatchReply, Reply, ReplyItem, ReplyReply, Said,
};

use super::act::Act;
use super::scope::Lapse;
use super::world::{Call, Hand, NOW, Pool, Worker, World, node};

/// The ask of a scope. Its job has the first key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Kind {
    pub(crate) idempotent: bool,
    /// It starts its job if there is none. In the model it does so once: the real one starts another job when it was told
    /// that the one before has ended.
    pub(crate) starts: bool,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) enum Stage {
    #[default]
    Unasked,
    Open,
    Answered,
    NotHandled,
    Unknown,
}

/// The asker, and the judge's knowledge of what became of its ask.
#[derive(Clone, Debug, Default, Hash)]
pub(crate) struct Asked {
    stage: Stage,
    /// The present attempt. It never goes to another worker, nor under another token.
    number: u8,
    target: Option<(WorkerId, Token)>,
    /// The present attempt may stand in a stream: it is not sent again, and a poke asks what became of it.
    sent: bool,
    /// An earlier attempt may have been handled.
    doubtful: bool,
    /// There is no job, so its start is due.
    absent: bool,
    started: bool,
    starts: u8,
    /// The tokens under which handlers were given it, and whether each has dropped it.
    handed: BTreeMap<Token, bool>,
    /// The jobs that were started for it.
    jobs: u8,
}

/// A worker's word to an attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Word {
    Answer,
    /// Its handler had it, and nobody will answer.
    Dropped,
    Moved,
    Missed,
    Busy,
}

impl Word {
    fn said(self) -> Said {
        match self {
            Self::Answer => Said::Answer(Bytes::new()),
            Self::Dropped => Said::Dropped,
            Self::Moved => Said::Moved,
            Self::Missed => Said::Missed,
            Self::Busy => Said::Busy,
        }
    }
}

/// An attempt, or a poke after it, on its way to a worker.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Attempt {
    pub(crate) number: u8,
    pub(crate) poke: bool,
}

/// A call with it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Sending {
    attempt: Attempt,
    target: Option<(WorkerId, Token)>,
}

/// A worker's knowledge of an attempt, which names this token.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum At {
    Waits(Token),
    Handed(Token),
    Said(Token, Word),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Asking {
    Ask,
    /// The present attempt, or a poke. Late: its caller has no answer, and the call is executed later or never.
    Send {
        late: bool,
    },
    Look,
    Start {
        late: bool,
    },
    Hear(Word),
    /// Its time is over.
    Over,
    HandOver {
        worker: usize,
        number: u8,
    },
    /// The worker does not hand it over: too many wait, its time is over, or the handler takes none.
    TurnAway {
        worker: usize,
        number: u8,
    },
    Answer {
        worker: usize,
        number: u8,
    },
    /// The worker says its word, again and again.
    Tell {
        worker: usize,
        number: u8,
    },
}

impl Asked {
    pub(crate) fn is_answered(&self) -> bool {
        self.stage == Stage::Answered
    }

    pub(crate) fn is_refused(&self) -> bool {
        self.stage == Stage::NotHandled
    }

    pub(crate) fn is_unknown(&self) -> bool {
        self.stage == Stage::Unknown
    }

    /// How many owners were given it.
    pub(crate) fn owners(&self) -> usize {
        self.handed.len()
    }

    pub(crate) fn has_started_its_job(&self) -> bool {
        self.jobs > 0
    }

    /// A job was accepted for it. Returns whether it is the first one.
    pub(crate) fn has_job(&mut self) -> bool {
        self.jobs += 1;
        self.jobs == 1
    }
}

impl Pool {
    pub(crate) fn starts_by_ask(&self) -> bool {
        self.scope.ask.is_some_and(|kind| kind.starts)
    }

    pub(crate) fn acts_of_asks(&self, world: &World, acts: &mut Vec<Act>) {
        if self.scope.ask.is_none() {
            return;
        }
        let mut may = |asking| acts.push(Act::Asking(asking));
        let Asked { stage, number, sent, absent, .. } = world.asked;
        let open = stage == Stage::Open;
        match stage {
            Stage::Unasked => may(Asking::Ask),
            Stage::Open => {
                let send = |late| if absent { Asking::Start { late } } else { Asking::Send { late } };
                may(send(false));
                if world.left.copies > 0 {
                    may(send(true));
                }
                if sent {
                    may(Asking::Look);
                }
                may(Asking::Over);
                world.said.iter().for_each(|word| may(Asking::Hear(*word)));
            }
            _ => {}
        }
        for (worker, state) in world.workers.iter().enumerate().filter(|(_, state)| state.lives()) {
            for (&of, at) in &state.asks {
                let number_is = of == number && open;
                match at {
                    At::Waits(_) if matches!(state.hands[0], Hand::Running(_)) => {
                        may(Asking::HandOver { worker, number: of });
                        may(Asking::TurnAway { worker, number: of });
                    }
                    At::Handed(_) => may(Asking::Answer { worker, number: of }),
                    At::Said(_, word) if number_is && !world.said.contains(word) => {
                        may(Asking::Tell { worker, number: of });
                    }
                    At::Waits(_) | At::Said(..) => {}
                }
            }
        }
    }

    pub(crate) fn asking(&self, world: &mut World, asking: Asking) -> Option<()> {
        match asking {
            Asking::Ask => {
                let record = world.store.record(&self.keys[0]);
                let target = record.and_then(|record| Some((record.owner?, record.token)));
                world.asked = Asked { stage: Stage::Open, target, ..Asked::default() };
            }
            Asking::Send { late } => {
                let Asked { number, target, sent, .. } = world.asked;
                let sending = Sending { attempt: Attempt { number, poke: sent }, target };
                if late {
                    world.left.copies -= 1;
                    world.copies.insert((world.inc, Call::Ask(sending)));
                    world.asked.sent |= target.is_some();
                } else {
                    let reply = self.call_ask(world, sending)?;
                    self.is_asked(world, reply, sent);
                }
            }
            Asking::Look => self.look(world),
            Asking::Start { late } => {
                let last = self.ids.len() - 1;
                let unnamed = self.scope.lapses(Lapse::StartsUnnamed);
                let dispatch = if unnamed { usize::from(world.asked.starts).min(last) } else { 0 };
                world.asked.starts = (world.asked.starts + 1).min(2);
                if late {
                    world.left.copies -= 1;
                    world.copies.insert((world.inc, Call::Start(dispatch)));
                } else {
                    self.start_for_ask(world, dispatch)?;
                    (world.asked.absent, world.asked.started) = (false, true);
                }
            }
            Asking::Hear(word) => self.hear(world, word),
            Asking::Over => {
                let sent = world.asked.sent && !self.scope.lapses(Lapse::SentCountsAsUnhandled);
                if sent { end(world, Stage::Unknown) } else { not_handled(world) }
            }
            Asking::HandOver { worker, number } => self.hand_over(world, worker, number)?,
            Asking::TurnAway { worker, number } => {
                let at = world.workers[worker].asks.get_mut(&number)?;
                let At::Waits(token) = *at else { return None };
                *at = At::Said(token, Word::Busy);
            }
            Asking::Answer { worker, number } => {
                let at = world.workers[worker].asks.get_mut(&number)?;
                let At::Handed(token) = *at else { return None };
                *at = At::Said(token, Word::Answer);
            }
            Asking::Tell { worker, number } => self.tell(world, worker, number)?,
        }
        Some(())
    }

    pub(crate) fn call_ask(
        &self,
        world: &mut World,
        Sending { attempt, target }: Sending,
    ) -> Option<AskReply> {
        let (guess, token) = (target.map(|(worker, _)| worker), target.map_or(Token(0), |(_, token)| token));
        let runs = |record: &Record| {
            record.state == JobState::Running && record.owner == guess && record.token == token
        };
        let owns = world.store.record(&self.keys[0]).is_some_and(runs);
        let id = AskId { life: 1, number: u64::from(attempt.number) };
        let (name, poke) = ("ask".to_owned(), attempt.poke);
        let ask = AskEvent { id, name, token, not_after: NOW, poke, body: Bytes::new() };
        let item = AskItem { key: self.keys[0].clone(), guess, ask };
        let reply = world.on(&Ask { asker: node(), items: vec![item] }).ok()?[0];
        if reply == AskReply::Sent && !owns {
            world.broke = Some("S14");
        }
        Some(reply)
    }

    /// The asker hears what became of its call.
    fn is_asked(&self, world: &mut World, reply: AskReply, poke: bool) {
        let asked = &mut world.asked;
        match reply {
            AskReply::Sent => asked.sent = true,
            _ if poke => {}
            AskReply::Owner(Some(owner)) => match asked.target {
                Some((_, ours)) if owner.1 < ours => {}
                Some(_) => renew(world, Some(owner)),
                None => asked.target = Some(owner),
            },
            AskReply::Absent if self.starts_by_ask() && !asked.started => asked.absent = true,
            AskReply::Absent | AskReply::Stopping | AskReply::Parked | AskReply::Paused => not_handled(world),
            _ => {}
        }
    }

    pub(crate) fn start_for_ask(&self, world: &mut World, dispatch: usize) -> Option<DispatchReply> {
        self.dispatch(world, dispatch, tenure_protocol::model::id::Revision(0), None)
    }

    /// The asker looks at the record of the job.
    fn look(&self, world: &mut World) {
        let record = world.store.record(&self.keys[0]);
        let Some((owner, token)) = world.asked.target else { return };
        if record.is_some_and(|record| record.owner == Some(owner) && record.token == token) {
            return;
        }
        let goes_on = record.is_some_and(|record| {
            matches!(record.state, JobState::Queued | JobState::Assigned | JobState::Running)
        });
        let again = self.is_idempotent() || self.scope.lapses(Lapse::DoubtfulAskSentAgain);
        if again && goes_on {
            world.asked.doubtful = true;
            renew(world, None);
        } else {
            end(world, Stage::Unknown);
        }
    }

    fn is_idempotent(&self) -> bool {
        self.scope.ask.is_some_and(|kind| kind.idempotent)
    }

    /// The asker hears a word about its present attempt.
    fn hear(&self, world: &mut World, word: Word) {
        match word {
            Word::Answer => end(world, Stage::Answered),
            Word::Busy => not_handled(world),
            Word::Moved | Word::Missed => renew(world, None),
            Word::Dropped if self.is_idempotent() => {
                world.asked.doubtful = true;
                renew(world, None);
            }
            Word::Dropped => end(world, Stage::Unknown),
        }
    }

    /// An event with it has come to a worker.
    pub(crate) fn on_ask(&self, worker: &mut Worker, key: usize, token: Token, attempt: Attempt) {
        let Attempt { number, poke } = attempt;
        let is_new = match worker.asks.get(&number) {
            None => true,
            Some(At::Said(_, Word::Missed)) => !poke && self.scope.lapses(Lapse::PokedAndHandedOver),
            Some(At::Handed(_) | At::Said(..)) => !poke && self.scope.lapses(Lapse::AsksUnremembered),
            Some(At::Waits(_)) => false,
        };
        if is_new {
            let at = if poke { At::Said(token, Word::Missed) } else { At::Waits(token) };
            worker.asks.insert(number, at);
            self.turn_away(&mut worker.asks, worker.hands[key]);
        }
    }

    fn hand_over(&self, world: &mut World, worker: usize, number: u8) -> Option<()> {
        let Worker { hands, asks, .. } = &mut world.workers[worker];
        let (Hand::Running(held), Some(At::Waits(token))) = (hands[0], asks.get(&number).copied()) else {
            return None;
        };
        asks.insert(number, At::Handed(held.token));
        let Asked { stage, handed, .. } = &mut world.asked;
        let twice =
            if self.is_idempotent() { handed.get(&held.token) == Some(&false) } else { !handed.is_empty() };
        if held.token != token || twice || *stage == Stage::NotHandled {
            world.broke = Some("S14");
        }
        handed.insert(held.token, false);
        Some(())
    }

    fn tell(&self, world: &mut World, worker: usize, number: u8) -> Option<()> {
        let Worker { id, asks, .. } = &world.workers[worker];
        let (id, Some(At::Said(token, word))) = (*id, asks.get(&number).copied()) else { return None };
        let owns = world.store.record(&self.keys[0]).is_some_and(|record| {
            let runs = matches!(record.state, JobState::Running | JobState::Stopping);
            record.owner == Some(id) && record.token == token && runs
        });
        let attempt = AskId { life: 1, number: u64::from(number) };
        let key = self.keys[0].clone();
        let item = ReplyItem { key, token, asker: node(), id: attempt, said: word.said() };
        let owners_word = item.said.is_the_owners();
        let reply = world.on(&Reply { worker: id, finished: Vec::new(), items: vec![item] }).ok()?[0];
        if owners_word && (reply == ReplyReply::Told) != owns {
            world.broke = Some("S14");
        }
        if reply == ReplyReply::Told {
            world.said.insert(word);
        }
        Some(())
    }

    /// After each step: what workers do with the asks of a job that they no longer run.
    pub(crate) fn settle_asks(&self, world: &mut World) {
        if self.scope.ask.is_none() {
            return;
        }
        let World { workers, asked, said, .. } = world;
        for worker in workers {
            if !worker.lives() {
                worker.asks.clear();
            }
            let hand = worker.hands[0];
            self.turn_away(&mut worker.asks, hand);
            for at in worker.asks.values_mut() {
                if let At::Handed(token) = *at
                    && hand.active().is_none_or(|held| held.token != token)
                {
                    asked.handed.insert(token, true);
                    *at = At::Said(token, Word::Dropped);
                }
            }
        }
        if asked.stage != Stage::Open {
            said.clear();
        }
    }

    /// Those that wait for a job which does not come to run here, or ends, have moved.
    fn turn_away(&self, asks: &mut BTreeMap<u8, At>, hand: Hand) {
        let here = match hand {
            Hand::Beginning(_) | Hand::Begun(_) | Hand::Running(_) => hand.token(),
            _ => None,
        };
        let any = self.scope.lapses(Lapse::HandedUnderAnyToken) && here.is_some();
        for at in asks.values_mut() {
            if let At::Waits(token) = *at
                && here != Some(token)
                && !any
            {
                *at = At::Said(token, Word::Moved);
            }
        }
    }
}

/// Nothing of the present attempt is handed over from now on, or the ask is idempotent: another attempt follows.
fn renew(world: &mut World, target: Option<(WorkerId, Token)>) {
    if world.left.attempts == 0 {
        return not_handled(world);
    }
    world.left.attempts -= 1;
    world.said.clear();
    let asked = &mut world.asked;
    (asked.number, asked.target, asked.sent) = (asked.number + 1, target, false);
}

/// It ends as not handled, if nothing of it can have been.
fn not_handled(world: &mut World) {
    let stage = if world.asked.doubtful { Stage::Unknown } else { Stage::NotHandled };
    end(world, stage);
}

fn end(world: &mut World, stage: Stage) {
    world.asked.stage = stage;
    if stage == Stage::NotHandled && !world.asked.handed.is_empty() {
        world.broke = Some("S14");
    }
}
