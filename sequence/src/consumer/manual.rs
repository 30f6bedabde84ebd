//! Jobs that somebody takes, and whose end somebody tells, from wherever.

use std::collections::HashMap;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};

use futures::Stream;
use tokio::sync::{mpsc, oneshot};

use crate::consumer::delivery::Delivery;
use crate::consumer::handler::Handler;
use crate::consumer::shared::{Life, Shared};
use crate::error::{BoxError, Error, Irrecoverable};

/// Where the word that a job is done meets the job.
#[derive(Debug)]
enum Meeting {
    /// The job waits for the word.
    Waits(oneshot::Sender<()>),
    /// The word came while the job was on its way out, or between two attempts.
    Done,
}

/// The meetings, by index.
type Waiting = Arc<Mutex<HashMap<u64, Meeting>>>;

fn lock(waiting: &Waiting) -> MutexGuard<'_, HashMap<u64, Meeting>> {
    waiting.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The jobs of a consumer without a handler, as a stream. There are never more than may run at once. It ends with the
/// consumer. When it is dropped, the next job ends the consumer.
#[derive(Debug)]
pub struct Jobs<J> {
    jobs: mpsc::UnboundedReceiver<Delivery<J>>,
}

impl<J> Jobs<J> {
    /// The next job; `None` when the consumer is gone.
    ///
    /// # Cancel safety
    /// Safe: a job is taken only when it is returned.
    pub async fn next(&mut self) -> Option<Delivery<J>> {
        self.jobs.recv().await
    }
}

impl<J> Stream for Jobs<J> {
    type Item = Delivery<J>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Delivery<J>>> {
        self.jobs.poll_recv(cx)
    }
}

/// Tells a consumer without a handler that jobs are done. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Finisher {
    shared: Arc<Shared>,
    waiting: Waiting,
}

impl Finisher {
    /// The job of this index is done. Returns the progress. An index that does not run, or is done already, changes nothing.
    ///
    /// A consumer that stops still takes it, and stores what comes of it.
    ///
    /// # Errors
    /// [`Error::Ended`]: the consumer has ended, and takes nothing any more.
    ///
    /// # Cancel safety
    /// It is told all the same.
    pub async fn finish(&self, index: u64) -> Result<u64, Error> {
        if self.tell(index) {
            self.shared.until(|state| state.core.running().all(|(running, _)| running != index)).await;
        }
        if *self.shared.life.borrow() == Life::Ended {
            return Err(Error::Ended);
        }
        Ok(self.shared.lock().core.progress())
    }

    /// Whether the job runs, and hears of it.
    fn tell(&self, index: u64) -> bool {
        let mut waiting = lock(&self.waiting);
        match waiting.remove(&index) {
            Some(Meeting::Waits(job)) => job.send(()).is_ok(),
            earlier => {
                let runs = earlier.is_some() || self.shared.lock().core.running_mut(index).is_some();
                if runs {
                    waiting.insert(index, Meeting::Done);
                }
                runs
            }
        }
    }
}

/// Hands each job out, and waits until somebody says that it is done.
pub(crate) struct Manual<J> {
    jobs: mpsc::UnboundedSender<Delivery<J>>,
    waiting: Waiting,
}

/// Takes a job back whose attempt ends without the word that it is done.
struct Registered<'a>(&'a Waiting, u64);

impl Drop for Registered<'_> {
    fn drop(&mut self) {
        lock(self.0).remove(&self.1);
    }
}

impl<J: Send + Sync + 'static> Manual<J> {
    pub(crate) fn new() -> (Self, impl FnOnce(Arc<Shared>) -> (Jobs<J>, Finisher)) {
        let (sender, jobs) = mpsc::unbounded_channel();
        let waiting = Waiting::default();
        let of_users = waiting.clone();
        let ends = move |shared| (Jobs { jobs }, Finisher { shared, waiting: of_users });
        (Self { jobs: sender, waiting }, ends)
    }
}

impl<J: Send + Sync + 'static> Handler<J> for Manual<J> {
    async fn handle(&self, delivery: Delivery<J>) -> Result<(), BoxError> {
        let index = delivery.index();
        let (told, done) = oneshot::channel();
        if let Some(Meeting::Done) = lock(&self.waiting).insert(index, Meeting::Waits(told)) {
            lock(&self.waiting).remove(&index);
            return Ok(());
        }
        let _registered = Registered(&self.waiting, index);
        if self.jobs.send(delivery).is_err() {
            return Err(Irrecoverable::new("nobody takes the jobs any more").into());
        }
        // Only this registration or the one who finishes removes the sender.
        done.await.map_err(Into::into)
    }
}
