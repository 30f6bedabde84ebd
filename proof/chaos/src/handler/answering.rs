//! How handlers answer asks: as the asker wants it, with a record of each ask and each word.

use std::time::Duration;

use clap::ValueEnum;
use tenure_pool::{Ask, Job};
use tenure_testing::history::{AskWord, Event};
use tokio::time::sleep;

use super::{Recorder, number};
use crate::manner::{Manner, Words};

/// The longest time until a late answer, in ms.
const LATE_MS: u64 = 900;

/// An ask in the hands of a handler.
struct InHand {
    recorder: Recorder,
    key: String,
    words: Words,
    ask: Ask,
}

impl InHand {
    fn say(self, said: AskWord) {
        let Words { id, token, .. } = &self.words;
        let event = Event::AskSaid { key: self.key, id: id.clone(), token: *token, said };
        self.recorder.history.record(event);
        match said {
            AskWord::Refusal => self.ask.refuse(self.words),
            AskWord::SentOn => self.ask.moved(),
            AskWord::Nothing => drop(self.ask),
            _ => self.ask.answer(self.words.to_string()),
        }
    }
}

impl Recorder {
    /// Takes an ask as its body wants it. One that asks for nothing of the kind is told the token.
    pub(super) fn take(&self, job: &Job, ask: Ask) {
        let (key, token) = (job.key().to_string(), job.token().0);
        let body = std::str::from_utf8(ask.body()).unwrap_or_default();
        if body == Manner::HANG {
            self.hanging.add(&key, token);
        }
        let Ok(manner) = Manner::from_str(body, false) else { return ask.answer(token.to_string()) };
        let id = ask.id().to_owned();
        let worker = self.worker.clone();
        self.history.record(Event::AskHanded { key: key.clone(), id: id.clone(), token, worker });
        let payload = number(&job.payload()).unwrap_or_default();
        let in_hand = InHand { recorder: self.clone(), key, words: Words { id, token, payload }, ask };
        match manner {
            Manner::Refuse => in_hand.say(AskWord::Refusal),
            // It comes again, perhaps at once: it has an answer in the end.
            Manner::Drop if rand::random() => in_hand.say(AskWord::Nothing),
            Manner::SendOn if rand::random() => in_hand.say(AskWord::SentOn),
            Manner::Answer | Manner::Drop | Manner::SendOn => in_hand.say(AskWord::Answer),
            Manner::Late => {
                let late = Duration::from_millis(rand::random_range(0..LATE_MS));
                tokio::spawn(async move {
                    sleep(late).await;
                    in_hand.say(AskWord::Answer);
                });
            }
        }
    }
}
