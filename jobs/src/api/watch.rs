//! Following a job.

use std::fmt;
use std::time::Duration;

use bytes::Bytes;
use serde::de::DeserializeOwned;
use tokio::sync::{mpsc, oneshot};
use tokio::time::Instant;

use super::jobs::{Jobs, PATIENCE};
use super::notes::Notes;
use super::view::Ended;
use crate::core::effect::Heard;
use crate::core::input::Input;
use crate::core::subscribers::Topic;
use crate::data;
use crate::error::Error;
use crate::model::id::JobId;
use crate::model::record::State;
use crate::store::{Ends, PeekJobs, Seen, WatchJobs, Watching};

/// A job that is followed is looked at so often, in case that a message was lost.
const LOOK: Duration = Duration::from_secs(5);

/// How a job is; `None` when it is gone.
type Looked = Result<Option<Seen>, Error>;

/// A change of a job.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Change {
    /// Its state; `None` when the job is gone: removed, or forgotten.
    pub state: Option<State>,
    data: Option<Bytes>,
    /// The new ones alone.
    notes: Notes,
}

impl Change {
    /// Its new data, or those fields that the type declares; `None` when they stayed as they were.
    ///
    /// # Errors
    /// [`Error::Decode`].
    pub fn data<T: DeserializeOwned>(&self) -> Result<Option<T>, Error> {
        self.data.as_ref().map(|data| data::decode(data)).transpose()
    }

    /// The new checkpoint; `None` when the checkpoint stayed the same. The first word of an attempt tells the
    /// checkpoint once more, also an unchanged one.
    ///
    /// # Errors
    /// [`Error::Decode`].
    pub fn checkpoint<S: DeserializeOwned>(&self) -> Result<Option<S>, Error> {
        self.notes.checkpoint()
    }

    /// The new progress; `None` when the progress stayed the same. The first word of an attempt tells the progress once
    /// more.
    ///
    /// # Errors
    /// [`Error::Decode`].
    pub fn progress<P: DeserializeOwned>(&self) -> Result<Option<P>, Error> {
        self.notes.progress()
    }
}

/// A job that is followed, from [`Jobs::watch`].
pub struct Watch {
    jobs: Jobs,
    /// Its number on the node.
    subscriber: u64,
    id: JobId,
    heard: mpsc::UnboundedReceiver<Heard>,
    /// When it is looked at next: also what a call has not come to see.
    look_at: Instant,
    /// A look that is on its way: it goes on when a call is dropped.
    looking: Option<oneshot::Receiver<Looked>>,
    /// The number of the last transition that was returned.
    number: u64,
    state: Option<State>,
    body: Bytes,
    result: Bytes,
    notes: Bytes,
}

impl Watch {
    pub(crate) async fn begin(jobs: Jobs, id: JobId) -> Result<Self, Error> {
        let (subscriber, heard) = jobs.subscribe(Topic::Job(id.clone()));
        // From here on a drop takes the subscription back.
        let mut watch = Self {
            jobs,
            subscriber,
            id,
            heard,
            look_at: Instant::now() + LOOK,
            looking: None,
            number: 0,
            state: None,
            body: Bytes::new(),
            result: Bytes::new(),
            notes: Bytes::new(),
        };
        let Some(Heard::Watches(number)) = watch.heard.recv().await else { return Err(Error::Closed) };
        let (node, ids) = (watch.jobs.node().clone(), vec![watch.id.clone()]);
        let seen = watch.jobs.call(&WatchJobs { node, watching: Watching::Begin, number, ids }).await?;
        let Some(Some(Seen { record, body, result, notes })) = seen.into_iter().next() else {
            return Err(Error::NotFound(watch.id.clone()));
        };
        (watch.number, watch.state) = (record.news, Some(record.state));
        (watch.body, watch.result) = (body, result);
        watch.notes = notes;
        Ok(watch)
    }

    /// The job.
    pub fn id(&self) -> &JobId {
        &self.id
    }

    /// The data when it began.
    ///
    /// # Errors
    /// [`Error::Decode`].
    pub fn data<T: DeserializeOwned>(&self) -> Result<T, Error> {
        data::decode(&self.body)
    }

    /// The state, as of the last change that was returned; at first that of the moment when it began. `None`: it is gone.
    pub fn state(&self) -> Option<State> {
        self.state
    }

    /// Waits for the next change: every transition once, and every checkpoint, progress or update of the data during a
    /// run. Changes during an interruption of the connection come as a single change.
    ///
    /// # Errors
    /// [`Error::Store`] when the store does not answer for 10 s, and [`Error::Closed`].
    ///
    /// # Cancel safety
    /// Safe: a change that was not returned comes with a later call. So short calls one after the other miss nothing, also
    /// after an interruption.
    pub async fn next(&mut self) -> Result<Change, Error> {
        loop {
            let looked = look(&self.jobs, &self.id, &mut self.looking, self.look_at);
            let heard = tokio::select! {
                biased;
                heard = self.heard.recv() => heard.ok_or(Error::Closed)?,
                found = looked => {
                    self.looking = None;
                    self.look_at = Instant::now() + LOOK;
                    if let Some(change) = self.compare(found?) {
                        return Ok(change);
                    }
                    continue;
                }
            };
            match heard {
                Heard::News(news) if news.number > self.number || news.state.is_none() => {
                    // A look that is on its way may be older.
                    self.looking = None;
                    self.number = news.number;
                    self.state = news.state;
                    self.keep_end(news.outcome.as_ref());
                    if news.state != Some(State::Running) {
                        // The next run may tell the same once more.
                        self.notes = Bytes::new();
                    }
                    let notes = news.notes.map(|notes| self.note(notes)).unwrap_or_default();
                    return Ok(Change { state: news.state, data: news.body, notes });
                }
                Heard::News(_) | Heard::Watches(_) | Heard::Ready => {}
                // So may it be here.
                Heard::Gap => (self.looking, self.look_at) = (None, Instant::now()),
            }
        }
    }

    /// The result, or the reason, behind the letter of the end.
    fn keep_end(&mut self, outcome: Option<&Bytes>) {
        if let Some(outcome) = outcome {
            self.result = outcome.slice(1.min(outcome.len())..);
        }
    }

    /// Remembers notes, and returns the new ones. Damaged notes count as none.
    fn note(&mut self, notes: Bytes) -> Notes {
        let read = |notes: &[u8]| Notes::read(notes).unwrap_or_default();
        let new = read(&notes).since(&read(&self.notes));
        self.notes = notes;
        new
    }

    /// The change since, by a look.
    fn compare(&mut self, found: Option<Seen>) -> Option<Change> {
        let Some(Seen { record, body, result, notes }) = found else {
            let was = self.state.take();
            return was.map(|_| Change { state: None, data: None, notes: Notes::default() });
        };
        if self.state == Some(record.state) && self.number == record.news {
            return None;
        }
        (self.state, self.number) = (Some(record.state), record.news);
        let end = || [record.state.letter().to_string().as_bytes(), &result].concat();
        let outcome = record.state.is_over().then(|| end().into());
        self.keep_end(outcome.as_ref());
        let notes = self.note(notes);
        Some(Change { state: self.state, data: Some(body), notes })
    }

    /// Waits for the end of the job.
    ///
    /// # Errors
    /// [`Error::NotFound`] when it is removed, and as for [`next`](Self::next).
    ///
    /// # Cancel safety
    /// Safe: another call goes on.
    pub async fn ended(&mut self) -> Result<Ended, Error> {
        loop {
            match self.state {
                Some(state) if state.is_over() => {
                    return Ok(Ended { id: self.id.clone(), state, result: self.result.clone() });
                }
                Some(_) => {}
                None => return Err(Error::NotFound(self.id.clone())),
            }
            self.next().await?;
        }
    }

    /// Waits until the job is in this state, and skips all others. False when it is gone, or has ended in another state.
    ///
    /// # Errors
    /// As for [`next`](Self::next).
    ///
    /// # Cancel safety
    /// Safe: another call goes on.
    pub async fn until(&mut self, state: State) -> Result<bool, Error> {
        while self.state != Some(state) {
            if self.state.is_none_or(State::is_over) {
                return Ok(false);
            }
            self.next().await?;
        }
        Ok(true)
    }
}

/// Looks at a job when it is time, and goes on with a look that is on its way.
async fn look(
    jobs: &Jobs,
    id: &JobId,
    looking: &mut Option<oneshot::Receiver<Looked>>,
    at: Instant,
) -> Looked {
    if looking.is_none() {
        tokio::time::sleep_until(at).await;
    }
    let looking = looking.get_or_insert_with(|| {
        let (answer, looking) = oneshot::channel();
        let (link, id) = (jobs.shared.own.clone(), id.clone());
        jobs.shared.thread.spawn(async move {
            let found = link.call_within(PATIENCE, &PeekJobs(Ends::Without, vec![id])).await;
            let seen = found.map(|found| Some(found.into_iter().next()??.seen));
            // Nobody may wait for it any more.
            let _ = answer.send(seen);
        });
        looking
    });
    looking.await.unwrap_or(Err(Error::Closed))
}

impl Drop for Watch {
    fn drop(&mut self) {
        self.jobs.tell(Input::Unsubscribe(self.subscriber), None);
    }
}

impl fmt::Debug for Watch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Watch").field("id", &self.id).field("state", &self.state).finish_non_exhaustive()
    }
}
