//! The handler of all scenarios. It handles each job as the scenario says, and records what happened.

use std::collections::{BTreeMap, BTreeSet};
use std::future::pending;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use futures::future::BoxFuture;
use tenure_pool::{BoxError, Job, JobHandler, Start, StopReason};
use tenure_testing::history::{Event, History};
use tokio::sync::Notify;
use tokio::task::JoinHandle;

/// The behaviour of a start.
#[derive(Clone)]
pub(crate) enum Act {
    /// The job runs until it is cancelled.
    Run,
    /// The start never returns.
    HangStart,
    /// The start returns when it is told to, or cancelled. Then the job runs.
    StartWhenTold(Arc<Notify>),
    /// The job runs as this future.
    Body(fn(Job) -> BoxFuture<'static, Result<(), BoxError>>),
    /// The job ends when it is told to.
    #[allow(dead_code, reason = "the known failures need it")]
    EndAloneWhenTold(Arc<Notify>),
    /// The job goes on after its cancellation, and ends when it is told to.
    EndWhenTold(Arc<SlowEnd>),
    /// The job has no future: it lasts until the stop handler has ended.
    Hold,
    /// The job has no future: it runs in a task of its handler, until it is cancelled.
    HoldApart,
    /// The job runs on after its cancellation.
    HangStop,
    /// The start panics.
    Panic(&'static str),
    /// The start fails.
    Fail(&'static str),
    /// The start is refused.
    Refuse(Duration),
    /// The start sends the job to another worker.
    #[allow(dead_code, reason = "the scenarios of the public API need it")]
    Elsewhere,
    /// It refuses the start, and another worker is asked at once, for this reason.
    #[allow(dead_code, reason = "the scenarios of the public API need it")]
    Unable(&'static str),
    /// The job ends by itself at once.
    End,
    /// The job cancels its own token, and ends.
    CancelItself,
    /// The job blocks its thread until this is set.
    Block(Arc<AtomicBool>),
}

/// The end of a job that ends slowly.
#[derive(Default)]
pub(crate) struct SlowEnd {
    /// Notified when the job knows that it must end.
    pub(crate) asked: Notify,
    /// Lets the job end.
    pub(crate) told: Notify,
}

/// Frees a blocked thread when the scenario is over, however it ends.
pub(crate) struct Release(pub(crate) Arc<AtomicBool>);

impl Drop for Release {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Release);
    }
}

type Script = Arc<dyn Fn(&Job) -> Act + Send + Sync>;

/// The handler.
#[derive(Clone)]
pub(crate) struct Recorder {
    log: Arc<Log>,
    script: Script,
}

struct Log {
    history: Arc<History>,
    notes: Mutex<BTreeMap<String, Vec<String>>>,
    stops: Mutex<Vec<(String, StopReason)>>,
    payloads: Mutex<BTreeMap<String, Vec<Bytes>>>,
    held: Mutex<BTreeMap<(String, u64), Run>>,
    apart: Mutex<BTreeMap<(String, u64), JoinHandle<()>>>,
}

/// One run of a job. Its end is recorded when its last part is dropped, even if it was aborted.
struct Run {
    history: Arc<History>,
    key: String,
    token: u64,
    worker: String,
}

impl Run {
    fn begin(history: Arc<History>, job: &Job) -> Self {
        let (key, token, worker) = (job.key().to_string(), job.token().0, job.worker().0.to_string());
        history.started(&key, token, &worker);
        Self { history, key, token, worker }
    }
}

impl Drop for Run {
    fn drop(&mut self) {
        self.history.stopped(&self.key, self.token, &self.worker);
    }
}

impl Recorder {
    pub(crate) fn new(history: Arc<History>) -> Self {
        let (notes, stops, payloads, held, apart) = Default::default();
        Self {
            log: Arc::new(Log { history, notes, stops, payloads, held, apart }),
            script: Arc::new(|_| Act::Run),
        }
    }

    /// The same records with another script.
    pub(crate) fn acting(&self, script: impl Fn(&Job) -> Act + Send + Sync + 'static) -> Self {
        Self { log: self.log.clone(), script: Arc::new(script) }
    }

    pub(crate) fn history(&self) -> &History {
        &self.log.history
    }

    /// How often each key was started.
    pub(crate) fn starts(&self) -> BTreeMap<String, usize> {
        let mut starts = BTreeMap::new();
        for entry in self.log.history.entries() {
            if let Event::Started { key, .. } = entry.event {
                *starts.entry(key).or_default() += 1;
            }
        }
        starts
    }

    pub(crate) fn starts_of(&self, key: &str) -> usize {
        self.starts().get(key).copied().unwrap_or_default()
    }

    /// The keys that run at present.
    pub(crate) fn running(&self) -> BTreeSet<String> {
        let mut active: BTreeMap<String, i32> = BTreeMap::new();
        for entry in self.log.history.entries() {
            match entry.event {
                Event::Started { key, .. } => *active.entry(key).or_default() += 1,
                Event::Stopped { key, .. } => *active.entry(key).or_default() -= 1,
                _ => {}
            }
        }
        active.into_iter().filter(|(_, count)| *count > 0).map(|(key, _)| key).collect()
    }

    pub(crate) fn is_running(&self, key: &str) -> bool {
        self.running().contains(key)
    }

    pub(crate) fn notes(&self, key: &str) -> Vec<String> {
        self.log.notes.lock().unwrap().get(key).cloned().unwrap_or_default()
    }

    pub(crate) fn stops(&self, key: &str) -> Vec<StopReason> {
        let stops = self.log.stops.lock().unwrap();
        stops.iter().filter(|(stopped, _)| stopped == key).map(|(_, why)| *why).collect()
    }

    pub(crate) fn payloads(&self, key: &str) -> Vec<Bytes> {
        self.log.payloads.lock().unwrap().get(key).cloned().unwrap_or_default()
    }
}

impl JobHandler for Recorder {
    async fn start(&self, job: Job) -> Start {
        let act = (self.script)(&job);
        self.log.payloads.lock().unwrap().entry(job.key().to_string()).or_default().push(job.payload());
        let run = Run::begin(self.log.history.clone(), &job);
        match act {
            Act::Run => Start::Running(Box::pin(async move {
                let _run = run;
                job.cancelled().await;
                Ok(())
            })),
            Act::Hold => {
                self.log.held.lock().unwrap().insert((job.key().to_string(), job.token().0), run);
                Start::Started
            }
            Act::HoldApart => {
                let id = (job.key().to_string(), job.token().0);
                let task = tokio::spawn(async move {
                    let _run = run;
                    job.cancelled().await;
                });
                self.log.apart.lock().unwrap().insert(id, task);
                Start::Started
            }
            Act::EndAloneWhenTold(told) => Start::Running(Box::pin(async move {
                let _run = run;
                tokio::select! {
                    () = told.notified() => {}
                    () = job.cancelled() => {}
                }
                Ok(())
            })),
            Act::EndWhenTold(slow) => Start::Running(Box::pin(async move {
                let _run = run;
                job.cancelled().await;
                slow.asked.notify_one();
                slow.told.notified().await;
                Ok(())
            })),
            Act::HangStop => Start::Running(Box::pin(async move {
                let _run = run;
                pending().await
            })),
            Act::HangStart => pending().await,
            Act::StartWhenTold(told) => {
                tokio::select! {
                    () = told.notified() => {}
                    () = job.cancelled() => {}
                }
                Start::Running(Box::pin(async move {
                    let _run = run;
                    job.cancelled().await;
                    Ok(())
                }))
            }
            Act::Body(body) => {
                let body = body(job);
                Start::Running(Box::pin(async move {
                    let _run = run;
                    body.await
                }))
            }
            Act::Panic(text) => panic!("{text}"),
            Act::Fail(text) => Start::Failed(text.into()),
            Act::Refuse(backoff) => Start::Refused { backoff: Some(backoff) },
            Act::Elsewhere => Start::Elsewhere,
            Act::Unable(why) => Start::Unable { why: why.to_owned() },
            Act::End => Start::Running(Box::pin(async move {
                drop(run);
                Ok(())
            })),
            Act::CancelItself => Start::Running(Box::pin(async move {
                let _run = run;
                job.cancellation().cancel();
                job.cancelled().await;
                Ok(())
            })),
            Act::Block(released) => Start::Running(Box::pin(async move {
                let _run = run;
                while !released.load(Ordering::Acquire) {
                    std::thread::sleep(Duration::from_millis(1));
                }
                job.cancelled().await;
                Ok(())
            })),
        }
    }

    async fn stop(&self, job: &Job, why: StopReason) -> Result<(), BoxError> {
        self.log.stops.lock().unwrap().push((job.key().to_string(), why));
        let id = (job.key().to_string(), job.token().0);
        self.log.held.lock().unwrap().remove(&id);
        let apart = self.log.apart.lock().unwrap().remove(&id);
        if let Some(task) = apart {
            task.await?;
        }
        Ok(())
    }

    async fn notify(&self, job: &Job, body: Bytes) -> Result<(), BoxError> {
        let body = String::from_utf8_lossy(&body).into_owned();
        assert!(body != "panic", "as it was told");
        let is_refused = body == "refuse";
        self.log.notes.lock().unwrap().entry(job.key().to_string()).or_default().push(body);
        if is_refused { Err("as it was told".into()) } else { Ok(()) }
    }
}
