//! Jobs that somebody takes, and whose end somebody tells, from wherever.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use futures::{Stream, StreamExt};
use tokio::sync::{mpsc, watch};
use tokio_util::sync::WaitForCancellationFutureOwned;

use crate::consumer::delivery::Delivery;
use crate::consumer::handler::Handler;
use crate::consumer::shared::{Life, Shared};
use crate::error::{BoxError, Error, Irrecoverable};

/// Where the word that a job is done meets the job: whether it was said. It is kept with the running job, outlives its
/// attempts, and goes when the job has counted.
pub(crate) type Word = watch::Sender<bool>;

/// Waits until the word is said; for ever where there is none.
pub(crate) async fn said(word: Option<watch::Receiver<bool>>) {
    if let Some(mut word) = word
        && word.wait_for(|said| *said).await.is_ok()
    {
        return;
    }
    std::future::pending::<()>().await;
}

/// Waits until the job does not run any more.
async fn counted(mut word: watch::Receiver<bool>) {
    while word.changed().await.is_ok() {}
}

/// The jobs of a consumer without a handler, as a stream. There are never more than may run at once. It ends with the
/// consumer. When it is dropped, the next job ends the consumer.
///
/// A job that has missed its deadline may still come, and then comes again with its next attempt.
#[derive(Debug)]
pub struct Jobs<J> {
    jobs: mpsc::Receiver<Delivery<J>>,
    ended: Pin<Box<WaitForCancellationFutureOwned>>,
}

impl<J> Jobs<J> {
    /// The next job; `None` when the consumer has ended.
    ///
    /// # Cancel safety
    /// Safe: a job is taken only when it is returned.
    pub async fn next(&mut self) -> Option<Delivery<J>> {
        StreamExt::next(self).await
    }
}

impl<J> Stream for Jobs<J> {
    type Item = Delivery<J>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Delivery<J>>> {
        if self.ended.as_mut().poll(cx).is_ready() {
            return Poll::Ready(None);
        }
        self.jobs.poll_recv(cx)
    }
}

/// Tells a consumer without a handler that jobs are done. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Finisher {
    shared: Arc<Shared>,
}

impl Finisher {
    /// The job of this index is done. Returns the progress. An index that does not run, or is done already, changes nothing.
    ///
    /// A consumer that stops still takes it, and stores what comes of it.
    ///
    /// # Errors
    /// [`Error::Ended`]: the consumer has ended. It has not taken this, and takes nothing any more.
    ///
    /// # Cancel safety
    /// It is told all the same.
    pub async fn finish(&self, index: u64) -> Result<u64, Error> {
        let word = self.shared.say(index);
        let is_taken = match word {
            None => *self.shared.life.borrow() != Life::Ended,
            Some(word) => {
                tokio::select! {
                    () = counted(word) => {}
                    () = self.shared.ended.cancelled() => {}
                }
                !self.shared.lock().core.is_running(index)
            }
        };
        if is_taken { Ok(self.shared.lock().core.progress()) } else { Err(Error::Ended) }
    }
}

/// Hands each job out, and waits until somebody says that it is done.
pub(crate) struct Manual<J> {
    jobs: mpsc::Sender<Delivery<J>>,
}

impl<J: Send + Sync + 'static> Manual<J> {
    /// For at most this many jobs at once.
    pub(crate) fn new(concurrency: usize) -> (Self, impl FnOnce(Arc<Shared>) -> (Jobs<J>, Finisher)) {
        let (sender, jobs) = mpsc::channel(concurrency);
        let ends = move |shared: Arc<Shared>| {
            let ended = Box::pin(shared.ended.clone().cancelled_owned());
            (Jobs { jobs, ended }, Finisher { shared })
        };
        (Self { jobs: sender }, ends)
    }
}

impl<J: Send + Sync + 'static> Handler<J> for Manual<J> {
    async fn handle(&self, delivery: Delivery<J>) -> Result<(), BoxError> {
        let word = delivery.word();
        // It waits only behind attempts that have missed their deadline, and that nobody has taken.
        let hand_out = async {
            match self.jobs.send(delivery).await {
                Ok(()) => std::future::pending().await,
                Err(_) => Irrecoverable::new("nobody takes the jobs any more"),
            }
        };
        tokio::select! {
            biased;
            () = said(word) => Ok(()),
            error = hand_out => Err(error.into()),
        }
    }
}
