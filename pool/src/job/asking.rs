//! An ask in the hands of a job's handler.

use std::collections::VecDeque;
use std::fmt::{self, Display};
use std::marker::PhantomData;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use tokio::sync::{Notify, mpsc};

use crate::clock;
use crate::core::effect::HandedAsk;
use crate::core::input::{HandlerEvent, Input};
use crate::error::{cut, whole};
use crate::job::typed::{self, DecodeError, Request};
use crate::model::id::{JobKey, NodeName, Token, WorkerId};
use crate::store::{ASK_MAX, Said};

/// A question to the owner of a job, from [`Node::ask`](crate::Node::ask). Answer or refuse it, here or in a task of
/// your own, or send it on as [moved](Self::moved). One that is dropped has no answer: its asker hears that it may have been handled.
pub struct Ask {
    asked: HandedAsk,
    place: (WorkerId, JobKey, Token),
    inputs: mpsc::UnboundedSender<Input>,
    /// The word that its asker hears if no other is said; none once one was.
    left_unsaid: Option<Said>,
}

/// The means to answer a typed ask: see [`Ask::take`]. A dropped reply leaves the asker without an answer, as a dropped [`Ask`] does.
pub struct Answering<R> {
    ask: Ask,
    of: PhantomData<fn() -> R>,
}

impl<R: Request> Answering<R> {
    /// Answers with a value. A value that cannot be encoded is told as a refusal, and so is one of more than 64 KiB.
    pub fn answer(self, answer: &R::Answer) {
        match typed::seal(R::TYPE, answer) {
            Ok(bytes) => self.ask.answer(bytes),
            Err(error) => self.ask.refuse(format_args!("the answer cannot be encoded: {error}")),
        }
    }

    /// Refuses it, with these words for its caller. They are cut after 1 KiB.
    pub fn refuse(self, why: impl Display) {
        self.ask.refuse(why);
    }

    /// The ask, whose question has been taken: for its id, its caller, and [`Ask::moved`].
    pub fn into_ask(self) -> Ask {
        self.ask
    }
}

impl<R> fmt::Debug for Answering<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Answering").field(&self.ask).finish()
    }
}

impl Ask {
    pub(crate) fn new(
        asked: HandedAsk,
        place: (WorkerId, JobKey, Token),
        inputs: mpsc::UnboundedSender<Input>,
    ) -> Self {
        Self { asked, place, inputs, left_unsaid: Some(Said::Moved) }
    }

    /// The question.
    pub fn body(&self) -> &Bytes {
        &self.asked.body
    }

    /// The name of the question's type, for an ask from [`Node::ask_as`](crate::Node::ask_as). `None` for plain bytes.
    pub fn request_type(&self) -> Option<String> {
        typed::kind_of(self.body())
    }

    /// Takes the question as a value, for an ask from [`Node::ask_as`](crate::Node::ask_as), and what answers that with a value
    /// of its type. [`request_type`](Self::request_type) tells questions of several types apart.
    ///
    /// # Errors
    /// The body is of another type, or cannot be read as this one. The ask is refused, with the error.
    pub fn take<R: Request>(self) -> Result<(R, Answering<R>), DecodeError> {
        match typed::open(R::TYPE, self.body()) {
            Ok(question) => Ok((question, Answering { ask: self, of: PhantomData })),
            Err(error) => {
                self.refuse(whole(&error));
                Err(error)
            }
        }
    }

    /// The id of the ask: that of its caller ([`AskOwner::id`](crate::node::AskOwner::id)), or one that the node gave it. An
    /// idempotent ask has the same id each time that it comes.
    pub fn id(&self) -> &str {
        &self.asked.name
    }

    /// The node that asks.
    pub fn asker(&self) -> &NodeName {
        &self.asked.asker
    }

    /// How long its caller still waits, by this node's clock.
    pub fn left(&self) -> Duration {
        self.asked.deadline.since(clock::now())
    }

    /// Answers with at most 64 KiB. A longer answer is told as a refusal that says so. Nobody hears an answer that comes
    /// after the end of the job.
    pub fn answer(self, answer: impl Into<Bytes>) {
        let answer = answer.into();
        if answer.len() > ASK_MAX {
            let len = answer.len();
            return self.refuse(format_args!("the answer has {len} bytes, at most {ASK_MAX} are allowed"));
        }
        self.say(Said::Answer(answer));
    }

    /// Refuses it, with these words for its caller. They are cut after 1 KiB.
    pub fn refuse(self, why: impl Display) {
        let words = cut(why.to_string());
        self.say(Said::Refused(words.into()));
    }

    /// Says that this handler takes no asks: its caller hears [`NotHandled::TakesNone`](crate::error::NotHandled::TakesNone).
    pub fn unhandled(self) {
        self.say(Said::Unhandled);
    }

    /// Sends it to the job's next owner: this one has done nothing with it, and cannot. So says a handler that finds its
    /// fencing token refused, or that is about to end. The asker looks for the owner again, after a pause of 5 to 250 ms, until
    /// its deadline. While the job is still here, the ask comes here again. Its caller hears that it was
    /// [not handled](crate::error::NotHandled::Late) where nobody answers in time.
    pub fn moved(self) {
        self.say(Said::Moved);
    }

    /// It goes to the handler now, unless its time is over.
    pub(crate) fn handed(mut self) -> Option<Self> {
        if self.left().is_zero() {
            self.say(Said::Late);
            return None;
        }
        self.left_unsaid = Some(Said::Dropped);
        Some(self)
    }

    fn say(mut self, said: Said) {
        self.left_unsaid = Some(said);
    }
}

impl Drop for Ask {
    fn drop(&mut self) {
        let Some(said) = self.left_unsaid.take() else { return };
        let (worker, key, token) = self.place.clone();
        let event = HandlerEvent::Answered(self.asked.id, said);
        // The driver is gone only if nobody hears an answer.
        let _ = self.inputs.send(Input::Handler { worker, key, token, event });
    }
}

impl fmt::Debug for Ask {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Ask").field("id", &self.id()).field("asker", self.asker()).finish_non_exhaustive()
    }
}

/// The asks for a job that runs as one future, until it takes them.
#[derive(Debug, Default)]
pub(crate) struct Asks {
    waiting: Mutex<Waiting>,
    given: Notify,
}

#[derive(Debug, Default)]
struct Waiting {
    asks: VecDeque<Ask>,
    closed: bool,
}

impl Asks {
    fn waiting(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Gives the job an ask. Once it has ended, the ask is sent back.
    pub(crate) fn give(&self, mut ask: Ask) {
        ask.left_unsaid = Some(Said::Moved);
        let mut waiting = self.waiting();
        if !waiting.closed {
            waiting.asks.push_back(ask);
            self.given.notify_one();
        }
    }

    /// Takes the next ask; never returns while there is none.
    ///
    /// # Cancel safety
    /// Yes: an ask is taken only when it is returned.
    pub(crate) async fn take(&self) -> Ask {
        loop {
            let given = self.given.notified();
            while let Some(ask) = self.next() {
                if let Some(ask) = ask.handed() {
                    return ask;
                }
            }
            given.await;
        }
    }

    fn next(&self) -> Option<Ask> {
        self.waiting().asks.pop_front()
    }

    /// The job takes no more: those that wait are sent back.
    pub(crate) fn close(&self) {
        let mut waiting = self.waiting();
        waiting.closed = true;
        waiting.asks.clear();
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt;

    use super::*;
    use crate::core::time::Time;
    use crate::store::AskId;

    fn ask(inputs: &mpsc::UnboundedSender<Input>, deadline: Time) -> Ask {
        let key = JobKey::try_from("k").unwrap_or_else(|error| panic!("{error}"));
        let asker = NodeName::new("n").unwrap_or_else(|error| panic!("{error}"));
        let id = AskId { life: 1, number: 1 };
        let asked = HandedAsk { id, name: "name".into(), asker, body: Bytes::new(), deadline };
        Ask::new(asked, (WorkerId(1), key, Token(1)), inputs.clone())
    }

    fn said(events: &mut mpsc::UnboundedReceiver<Input>) -> Vec<Said> {
        let said = std::iter::from_fn(|| events.try_recv().ok()).map(|input| match input {
            Input::Handler { event: HandlerEvent::Answered(_, said), .. } => said,
            other => panic!("{other:?}"),
        });
        said.collect()
    }

    #[test]
    fn an_ask_says_one_word() {
        let (inputs, mut events) = mpsc::unbounded_channel();
        let later = clock::now() + Duration::from_secs(60);
        let handed = || ask(&inputs, later).handed().unwrap_or_else(|| panic!("it is late"));
        handed().answer("yes");
        handed().refuse("no");
        handed().answer("x".repeat(ASK_MAX + 1));
        drop(handed());
        drop(ask(&inputs, later));
        assert!(ask(&inputs, clock::now()).handed().is_none());
        let long = "the answer has 65537 bytes, at most 65536 are allowed";
        let refused = |why: &'static str| Said::Refused(why.into());
        let expected = [
            Said::Answer("yes".into()),
            refused("no"),
            refused(long),
            Said::Dropped,
            Said::Moved,
            Said::Late,
        ];
        assert_eq!(said(&mut events), expected);
    }

    #[test]
    fn asks_that_nobody_took_are_sent_back() {
        let (inputs, mut events) = mpsc::unbounded_channel();
        let later = clock::now() + Duration::from_secs(60);
        let asks = Asks::default();
        assert!(asks.take().now_or_never().is_none());
        (0..2).for_each(|_| asks.give(ask(&inputs, later)));
        assert!(asks.take().now_or_never().is_some(), "it is dropped here");
        asks.close();
        asks.give(ask(&inputs, later));
        assert_eq!(said(&mut events), [Said::Dropped, Said::Moved, Said::Moved]);
    }
}
