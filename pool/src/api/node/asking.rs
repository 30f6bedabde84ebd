//! Asks: questions to the owner of a job.

use std::future::IntoFuture;
use std::marker::PhantomData;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use bytes::Bytes;
use futures::future::{BoxFuture, FutureExt};
use tokio::sync::{Semaphore, SemaphorePermit};

use super::calls::MARGIN;
use super::starting::{Pauses, ToStart};
use super::{Node, Shard};
use crate::clock;
use crate::core::input::{Answer, Command, NewAsk, ReplyTo};
use crate::error::{AskError, Error, NotHandled};
use crate::job::spec::JobSpec;
use crate::job::typed::{self, Request};
use crate::model::id::{IdError, JobKey, check_name};
use crate::runtime::driver::Message;
use crate::store::ASK_MAX;

/// How long an ask waits for its answer by default.
const PATIENCE: Duration = Duration::from_secs(5);
/// The most asks that are open at a node's shard, and the most bytes of their bodies. The next ones wait their turn.
const OPEN_MAX: usize = 16_384;
const OPEN_BYTES: usize = 16 << 20;

/// The places of open asks.
#[derive(Debug)]
pub(super) struct Places {
    asks: Semaphore,
    bytes: Semaphore,
}

impl Default for Places {
    fn default() -> Self {
        Self { asks: Semaphore::new(OPEN_MAX), bytes: Semaphore::new(OPEN_BYTES) }
    }
}

impl Places {
    /// Waits for a place. `None` never comes: nobody closes them.
    async fn take(&self, bytes: usize) -> Option<(SemaphorePermit<'_>, SemaphorePermit<'_>)> {
        let one = self.asks.acquire().await.ok()?;
        let rest = self.bytes.acquire_many(u32::try_from(bytes).ok()?).await.ok()?;
        Some((one, rest))
    }
}

/// The way from an answer's bytes to what the caller gets.
type Read<A> = fn(Bytes) -> Result<A, AskError>;

/// An ask, made by [`Node::ask`] and [`Node::ask_as`]. Await it.
///
/// # Cancel safety
/// A dropped future forgets the answer. Its handler may be given the ask all the same, and a job to start may be
/// started.
#[derive(Debug)]
#[must_use = "nobody is asked until it is awaited"]
pub struct AskOwner<A = Bytes> {
    shard: Shard,
    key: Result<JobKey, IdError>,
    body: Result<Bytes, AskError>,
    id: Option<String>,
    idempotent: bool,
    start: Option<JobSpec>,
    patience: Duration,
    read: Read<A>,
    answer: PhantomData<fn() -> A>,
}

impl Node {
    /// Asks the owner of a job, whichever worker that is, and returns what its handler answers
    /// ([`JobHandler::ask`](crate::JobHandler::ask), [`Job::asked`](crate::Job::asked)). Body and answer have at most
    /// 64 KiB each.
    ///
    /// The ask waits while the job waits to start or moves to another worker. Its handler is given it at most once,
    /// unless it is [idempotent](AskOwner::idempotent).
    ///
    /// ```no_run
    /// # use std::time::Duration;
    /// # async fn example(node: tenure_pool::Node) -> Result<(), tenure_pool::AskError> {
    /// use tenure_pool::AskError;
    ///
    /// let status = node.ask("acme", "status").idempotent().await?;
    /// match node.ask("acme", "take 3").deadline(Duration::from_secs(1)).await {
    ///     Ok(left) => println!("{left:?} are left"),
    ///     Err(AskError::NotHandled(why)) => println!("nothing was done, ask again: {why}"),
    ///     Err(AskError::Refused(why)) => println!("the handler says no: {why}"),
    ///     Err(AskError::Unknown { id }) => println!("perhaps it was done; the handler knows it as {id}"),
    ///     Err(other) => return Err(other),
    /// }
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// - [`AskError::NotHandled`]: there is no such job, it is parked or paused, it takes no asks, too many wait, or its time was
    ///   over. No handler was given the ask, nor will be.
    /// - [`AskError::Refused`]: the handler refused it.
    /// - [`AskError::Unknown`]: there is no answer, and a handler may have been given the ask.
    /// - [`AskError::Failed`]: the key or the id is not valid, the body is too long, the record of the job cannot be read,
    ///   or the node is closed. No handler was given the ask.
    pub fn ask<K>(&self, key: K, body: impl Into<Bytes>) -> AskOwner
    where
        K: TryInto<JobKey>,
        K::Error: Into<IdError>,
    {
        self.asking(key, Ok(body.into()), Ok)
    }

    /// Like [`ask`](Self::ask), with a value as the question and one as the answer. The handler takes the question, and what
    /// answers it, with [`Ask::take`](crate::Ask::take).
    ///
    /// # Errors
    /// As there. A question that cannot be encoded is not sent. An answer that cannot be read is [`AskError::Refused`].
    pub fn ask_as<R: Request>(
        &self,
        key: impl TryInto<JobKey, Error: Into<IdError>>,
        question: &R,
    ) -> AskOwner<R::Answer> {
        let refused = |error: rmp_serde::encode::Error| {
            AskError::Failed(Error::Encode { what: "the question", error: Arc::new(error) })
        };
        let read: Read<R::Answer> = |answer| {
            let read = typed::open(R::TYPE, &answer);
            read.map_err(|error| {
                AskError::Refused(format!("the answer cannot be read: {}", crate::error::whole(&error)))
            })
        };
        self.asking(key, typed::seal(R::TYPE, question).map(Bytes::from).map_err(refused), read)
    }

    fn asking<A>(
        &self,
        key: impl TryInto<JobKey, Error: Into<IdError>>,
        body: Result<Bytes, AskError>,
        read: Read<A>,
    ) -> AskOwner<A> {
        let key = key.try_into().map_err(Into::into);
        let shard = self.of(key.as_ref().ok()).clone();
        AskOwner {
            shard,
            key,
            body,
            id: None,
            idempotent: false,
            start: None,
            patience: PATIENCE,
            read,
            answer: PhantomData,
        }
    }
}

impl<A> AskOwner<A> {
    /// How long to wait for the answer. The default is 5 s.
    pub fn deadline(self, deadline: Duration) -> Self {
        Self { patience: deadline, ..self }
    }

    /// Its handler may be given it more than once. If its owner dies, or drops it without an answer, the next one is
    /// asked, until the deadline.
    pub fn idempotent(self) -> Self {
        Self { idempotent: true, ..self }
    }

    /// The id by which its handler knows it ([`Ask::id`](crate::Ask::id)): `[A-Za-z0-9_:.-]{1,64}`. It is for the handler
    /// alone: two asks with one id are two asks.
    pub fn id(self, id: impl Into<String>) -> Self {
        Self { id: Some(id.into()), ..self }
    }

    /// Starts this job if there is none with the key, as [`Node::ensure`] does, and asks it then. A job that is parked or
    /// is being stopped is an error as without this. The job has the key of the ask, and no [id](JobSpec::id) of its own.
    ///
    /// A job that ends before it is asked is started again, until the deadline. The same holds for a job that another
    /// caller starts and stops meanwhile. An ask that ends as not handled may have
    /// started its job all the same.
    ///
    /// # Errors
    /// Besides those of [`Node::ask`], in [`AskError::Failed`]:
    /// - [`Error::WrongStart`]: it has another key, or an id. Nothing was written.
    /// - [`Error::NotStarted`]: it is not valid, it failed to start, or the pool takes no more jobs.
    pub fn or_start(self, job: impl Into<JobSpec>) -> Self {
        Self { start: Some(job.into()), ..self }
    }

    async fn send(self) -> Result<A, AskError> {
        let Self { shard, key, body, id: name, idempotent, start, patience, read, .. } = self;
        let (key, body) = (key.map_err(Error::from)?, body?);
        if let Some(name) = &name {
            check_name("the id of an ask", name, true).map_err(Error::from)?;
        }
        if body.len() > ASK_MAX {
            let (what, len, max) = ("the question", body.len(), ASK_MAX);
            return Err(Error::TooLong { what, len, max }.into());
        }
        let start = start.map(|job| ToStart::check(&shard, &key, job)).transpose()?;
        let deadline = clock::now() + patience;
        let place = tokio::time::timeout(patience, shard.shared.asks.take(body.len())).await;
        let Ok(Some(_place)) = place else { return Err(AskError::NotHandled(NotHandled::Late)) };
        let ask = NewAsk { key: key.clone(), body, name, idempotent, deadline };
        let answer = match start {
            Some(job) => shard.answer_or_start(ask, job).await,
            None => shard.answer_to(ask).await,
        };
        match answer {
            Ok(answer) => read(answer),
            Err(AskError::Failed(error)) => Ok(shard.named(&key, None, Err(error)).await?),
            Err(error) => Err(error),
        }
    }
}

impl Shard {
    /// Asks, and starts the job whenever there is none.
    async fn answer_or_start(&self, ask: NewAsk, job: ToStart) -> Result<Bytes, AskError> {
        let mut pauses = Pauses::default();
        loop {
            match self.answer_to(ask.clone()).await {
                Err(AskError::NotHandled(NotHandled::NoJob)) => {}
                answer => return answer,
            }
            pauses.wait(ask.deadline).await;
            job.start(self, ask.deadline).await?;
        }
    }

    async fn answer_to(&self, ask: NewAsk) -> Result<Bytes, AskError> {
        let patience = ask.deadline.since(clock::now()).saturating_add(MARGIN);
        if self.shared.messages.is_closed() {
            return Err(Error::from(self.gone().await).into());
        }
        let id = ask.name.clone().unwrap_or_else(|| "without an id".to_owned());
        let mut asking = Open { shard: self, reply: None };
        let call = self.ask(|reply| {
            asking.reply = Some(reply);
            Command::Ask { reply, ask }
        });
        let answer = tokio::time::timeout(patience, call).await;
        match answer {
            Ok(Some(Answer::Asked(answer))) => {
                asking.reply = None;
                answer
            }
            // A node that closes answers all asks that it has taken.
            Ok(_) if self.shared.left.load(Ordering::Acquire) => Err(Error::NodeClosed.into()),
            // The engine has failed or was abandoned, and with it all that it knew of the ask.
            Ok(_) | Err(_) => Err(AskError::Unknown { id }),
        }
    }
}

/// An ask whose caller waits.
struct Open<'a> {
    shard: &'a Shard,
    reply: Option<ReplyTo>,
}

impl Drop for Open<'_> {
    fn drop(&mut self) {
        if let Some(reply) = self.reply {
            // A node that is too busy for this message notices at the deadline.
            let _ = self.shard.shared.messages.try_send(Message::Unasked(reply));
        }
    }
}

impl<A: Send + 'static> IntoFuture for AskOwner<A> {
    type Output = Result<A, AskError>;
    type IntoFuture = BoxFuture<'static, Self::Output>;

    fn into_future(self) -> Self::IntoFuture {
        self.send().boxed()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn an_ask_beyond_a_bound_waits_for_a_place() {
        let places = Places::default();
        let bytes = places.take(OPEN_BYTES).await;
        assert!(places.take(1).now_or_never().is_none());
        drop(bytes);
        let mut open = Vec::new();
        for _ in 0..OPEN_MAX {
            open.push(places.take(1).await);
        }
        assert!(places.take(1).now_or_never().is_none());
        open.pop();
        assert!(places.take(1).now_or_never().is_some());
    }
}
