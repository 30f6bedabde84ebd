//! Changes of jobs.

use std::time::Duration;

use futures::{Stream, StreamExt, stream};
use tenure_pool::operate::Steer;
use tenure_pool::{Error, JobKey, Operator};

/// How many jobs are under way at a time: as many as one step of the pool takes.
const WINDOW: usize = 128;

/// A change of a job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Verb {
    /// Perhaps waits until the handler has ended.
    Stop {
        until_stopped: bool,
    },
    Retry,
    Bounce,
    Restart,
    /// For this reason.
    Park(String),
    /// For this reason, and perhaps with an end.
    Pause(String, Option<Duration>),
    Resume,
}

impl Verb {
    /// A stop that does not wait for the handler.
    pub(crate) const STOP: Self = Self::Stop { until_stopped: false };

    /// Parks without a reason.
    pub(crate) fn park() -> Self {
        Self::Park("parked by hand".to_owned())
    }

    /// Its name, in questions, and in what a dry run says.
    pub(crate) fn word(&self) -> &'static str {
        self.words()[0]
    }

    /// The fate of the job.
    pub(crate) fn done(&self) -> &'static str {
        self.words()[1]
    }

    /// The consequence for the job, for one who is asked first.
    pub(crate) fn means(&self) -> &'static str {
        self.words()[2]
    }

    fn words(&self) -> [&'static str; 3] {
        match self {
            Self::Stop { until_stopped: true } => ["stop", "ended", "ends where it runs, and is gone"],
            Self::Stop { until_stopped: false } => ["stop", "stopped", "ends where it runs, and is gone"],
            Self::Retry => ["retry", "retried", "begins now, and its attempts count from zero"],
            Self::Bounce => ["bounce", "bounced", "ends here, and begins on the next worker of its chain"],
            Self::Restart => ["restart", "restarted", "ends where it runs, and begins anew at home"],
            Self::Park(_) => ["park", "parked", "ends where it runs, and nobody runs it before a retry"],
            Self::Pause(..) => ["pause", "paused", "ends where it runs, and nobody runs it before a resume"],
            Self::Resume => ["resume", "resumed", "begins as soon as there is a worker"],
        }
    }
}

/// A change of jobs, with the name of the person who wants it.
#[derive(Clone, Debug)]
pub(crate) struct Change {
    pub(crate) verb: Verb,
    /// Shown with a paused job, and in the pool's events. Of a pause and a resume.
    pub(crate) by: Option<String>,
    /// How long each job may take.
    pub(crate) within: Duration,
}

impl Change {
    /// Changes one job.
    ///
    /// # Errors
    /// It was not changed, or not in time.
    pub(crate) async fn one(&self, pool: &Operator, key: JobKey) -> Result<(), Error> {
        let steer = match &self.verb {
            Verb::Stop { until_stopped } => {
                let stop = pool.node().await?.stop_job(key).deadline(self.within);
                return if *until_stopped { stop.until_stopped().await } else { stop.await };
            }
            Verb::Retry => pool.retry(key),
            Verb::Bounce => pool.bounce(key),
            Verb::Restart => pool.restart(key),
            Verb::Park(reason) => pool.park(key, reason),
            Verb::Pause(reason, lasting) => {
                lasting.iter().copied().fold(self.sign(pool.pause(key, reason)), Steer::lasting)
            }
            Verb::Resume => self.sign(pool.resume(key)),
        };
        steer.within(self.within).await
    }

    /// Changes each of the jobs, many at a time, and gives what became of each as soon as it is known.
    pub(crate) fn each(
        &self,
        pool: &Operator,
        keys: Vec<JobKey>,
    ) -> impl Stream<Item = (JobKey, Result<(), Error>)> {
        let changes = keys.into_iter().map(move |key| async move {
            let done = self.one(pool, key.clone()).await;
            (key, done)
        });
        stream::iter(changes).buffer_unordered(WINDOW)
    }

    fn sign(&self, steer: Steer) -> Steer {
        self.by.iter().fold(steer, Steer::by)
    }
}
