//! The handler of the jobs under faults. It records its starts, payloads, notifications, asks, checkpoints and ends, and
//! writes to the world outside. It hangs when it is asked to.

mod answering;
mod hanging;

use std::future::pending;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use bytes::Bytes;
use tenure_pool::job::{NewPayload, Restart};
use tenure_pool::{Ask, BoxError, Job, JobHandler, Start};
use tenure_testing::history::{Event, History, boottime_ns};
use tokio::time::{MissedTickBehavior, interval, sleep};

pub(crate) use self::hanging::Hanging;
use crate::resource::Access;

/// The interval of a job's writes to the world outside.
const BEAT: Duration = Duration::from_millis(500);
/// The interval of a job's checkpoints.
const KEEPS: Duration = Duration::from_millis(300);
/// The pause after which a job that was refused outside is tried again.
const REFUSED: Duration = Duration::from_secs(1);

/// The handler of one worker.
#[derive(Clone, Debug)]
pub(crate) struct Recorder {
    /// The worker's name, unique to this life of its node.
    pub(crate) worker: String,
    pub(crate) history: Arc<History>,
    /// The world outside, if there is one.
    pub(crate) access: Option<Access>,
    /// The upper bound of the time that a job takes to end.
    pub(crate) longest_end_ms: u64,
    pub(crate) hanging: Hanging,
}

/// One run of a job: it begins before the first effect, and ends after the last one, for any reason.
struct Run {
    recorder: Recorder,
    key: String,
    token: u64,
    /// The number of the checkpoint that it was given.
    brought: u64,
}

impl Run {
    fn begin(recorder: &Recorder, job: &Job) -> Self {
        let (key, token) = (job.key().to_string(), job.token().0);
        let brought = job.checkpointed().and_then(|kept| number(kept.bytes())).unwrap_or_default();
        let run = Self { recorder: recorder.clone(), key, token, brought };
        recorder.history.record(Event::Begun {
            key: run.key.clone(),
            token: run.token,
            executed: in_boottime(job.begun_at()),
        });
        recorder.history.record(Event::CheckpointGiven {
            key: run.key.clone(),
            dispatch: job.dispatch_id().to_string(),
            token: run.token,
            number: brought,
        });
        recorder.has_payload(job, &job.payload());
        recorder.history.started(&run.key, run.token, &recorder.worker);
        run
    }

    async fn write(&self) -> bool {
        match &self.recorder.access {
            Some(access) => access.write(&self.key, self.token, &self.recorder.worker).await,
            None => true,
        }
    }

    /// Gives checkpoints for as long as the job runs, each when the one before is kept.
    async fn keep(&self, job: &Job) {
        let mut number = self.brought;
        loop {
            sleep(KEEPS).await;
            number += 1;
            if job.checkpoint(number.to_string()).await.is_ok() {
                let (key, dispatch) = (self.key.clone(), job.dispatch_id().to_string());
                let kept = Event::CheckpointKept { key, dispatch, token: self.token, number };
                self.recorder.history.record(kept);
            }
        }
    }

    async fn go_on(self, job: Job) -> Result<(), BoxError> {
        let mut beats = interval(BEAT);
        beats.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut keeping = Box::pin(self.keep(&job));
        loop {
            tokio::select! {
                () = job.cancelled() => break,
                () = &mut keeping => {}
                _ = beats.tick(), if self.recorder.access.is_some() => {
                    if self.recorder.hanging.take(&self.key, self.token) && job.progress_timeout().is_some() {
                        drop(keeping);
                        return self.hang(&job).await;
                    }
                    job.progress();
                    self.recorder.beat(&self.key, self.token);
                }
            }
        }
        drop(keeping);
        self.told_to_end(&job);
        sleep(Duration::from_millis(self.token % self.recorder.longest_end_ms)).await;
        Ok(())
    }
}

impl Run {
    /// Makes no progress until it must end. Every second run does not end by itself even then.
    async fn hang(&self, job: &Job) -> Result<(), BoxError> {
        self.recorder.history.record(Event::Hangs { key: self.key.clone(), token: self.token });
        job.cancelled().await;
        self.told_to_end(job);
        if self.token.is_multiple_of(2) {
            pending::<()>().await;
        }
        Ok(())
    }

    fn told_to_end(&self, job: &Job) {
        let why = job.stop_reason().map(|why| format!("{why:?}")).unwrap_or_default();
        let (key, worker) = (self.key.clone(), self.recorder.worker.clone());
        self.recorder.history.record(Event::ToldToEnd { key, token: self.token, worker, why });
    }
}

impl Drop for Run {
    fn drop(&mut self) {
        self.recorder.history.stopped(&self.key, self.token, &self.recorder.worker);
    }
}

/// A moment of the wall clock, which Redis on this machine shares, in the time of histories; never too late.
fn in_boottime(moment: SystemTime) -> u64 {
    // Time that passes between the two readings makes the result earlier.
    let now = boottime_ns();
    let ago = SystemTime::now().duration_since(moment).unwrap_or_default();
    now.saturating_sub(u64::try_from(ago.as_nanos()).unwrap_or(u64::MAX))
}

/// The number that these bytes are, if they are one.
fn number(bytes: &Bytes) -> Option<u64> {
    std::str::from_utf8(bytes).ok()?.parse().ok()
}

impl Recorder {
    /// The run has this payload from now on.
    fn has_payload(&self, job: &Job, payload: &Bytes) {
        let Some(number) = number(payload) else { return };
        let (key, dispatch) = (job.key().to_string(), job.dispatch_id().to_string());
        self.history.record(Event::PayloadGiven { key, dispatch, token: job.token().0, number });
    }

    fn beat(&self, key: &str, token: u64) {
        if let Some(access) = &self.access {
            access.beat(key, token, &self.worker);
        }
    }
}

impl JobHandler for Recorder {
    async fn start(&self, job: Job) -> Start {
        let run = Run::begin(self, &job);
        let taken = tokio::select! {
            taken = run.write() => taken,
            () = job.cancelled() => false,
        };
        if taken {
            Start::Running(Box::pin(run.go_on(job)))
        } else {
            Start::Refused { backoff: Some(REFUSED) }
        }
    }

    async fn ask(&self, job: &Job, ask: Ask) {
        self.take(job, ask);
    }

    /// Takes two of three payloads in place.
    async fn update(&self, job: &Job, new: NewPayload) -> Result<(), BoxError> {
        if number(new.payload()).is_none_or(|number| number.is_multiple_of(3)) {
            return Err(Restart.into());
        }
        self.has_payload(job, new.payload());
        Ok(())
    }

    async fn notify(&self, job: &Job, body: Bytes) -> Result<(), BoxError> {
        let number = std::str::from_utf8(&body)?.parse()?;
        self.history.record(Event::Notified { key: job.key().to_string(), number });
        self.beat(&job.key().to_string(), job.token().0);
        Ok(())
    }
}
