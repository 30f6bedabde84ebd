//! The handler of a worker: each job goes into the hands of its host.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use tenure_pool::{
    Ask, BoxError, Job, JobEnd, JobHandler, JobKey, NewPayload, Node, NotYet, Restart, Start, StopReason,
    Token,
};
use tokio::sync::watch;
use tokio::time::{Instant, sleep, sleep_until, timeout};

use super::link::{Held, Link, NotHeld, Wish};
use super::table::{Began, End, Waits};
use super::wire::body::{Body, Key, State};
use super::wire::down::{self, Down, Trace};

/// How long a job waits for the host that takes the place of one that has gone.
const RETURN: Duration = Duration::from_secs(5);

/// The host of a worker.
#[derive(Clone)]
pub(super) enum Gate {
    /// It comes in a moment.
    Coming,
    Ready(Arc<Link>),
    /// There is none: other workers shall have its jobs.
    Away,
}

/// The times of jobs.
#[derive(Clone, Copy, Debug)]
pub(super) struct Times {
    pub(super) ttl: Duration,
    /// How long a start may take.
    pub(super) start: Duration,
    /// How long a stop may take.
    pub(super) grace: Duration,
}

/// The handler of a worker.
pub(super) struct Handler {
    pub(super) node: Node,
    pub(super) gate: watch::Receiver<Gate>,
    pub(super) times: Times,
    pub(super) places: Mutex<HashMap<JobKey, Place>>,
}

/// Where a job is.
#[derive(Clone)]
pub(super) struct Place {
    token: Token,
    link: Arc<Link>,
    number: u64,
}

/// Forgets the place of a job when its run is over.
struct Entry {
    handler: Arc<Handler>,
    key: JobKey,
    token: Token,
}

impl Drop for Entry {
    fn drop(&mut self) {
        let mut places = self.handler.places();
        if places.get(&self.key).is_some_and(|place| place.token == self.token) {
            places.remove(&self.key);
        }
    }
}

/// A handler that its runs can hold.
pub(super) struct Shared(pub(super) Arc<Handler>);

impl JobHandler for Shared {
    async fn start(&self, job: Job) -> Start {
        let handler = &self.0;
        let Some(link) = handler.link().await else { return Start::Elsewhere };
        let permit = tokio::select! {
            biased;
            () = job.cancelled() => return Start::Failed(TOLD_EARLY.into()),
            permit = link.starting.acquire() => permit,
        };
        // It has gone.
        let Ok(_permit) = permit else { return Start::Elsewhere };
        let Ok(shard) = handler.node.shard_of(job.key()) else { return Start::Elsewhere };
        let (held, waits, lease) = match link.hold((shard, job.worker()), &job) {
            Ok(held) => held,
            Err(NotHeld::Over) => return Start::Elsewhere,
            Err(NotHeld::Full) => return Start::Refused { backoff: None },
        };
        let place = Place { token: job.token(), link: link.clone(), number: held.number };
        let entry = Entry { handler: handler.clone(), key: job.key().clone(), token: job.token() };
        handler.places().insert(job.key().clone(), place);
        handler.begin(Run { job, held, waits, _entry: entry, times: handler.times }, lease).await
    }

    async fn notify(&self, job: &Job, body: Bytes) -> Result<(), BoxError> {
        // A job that has ended takes nothing: its next owner does.
        let ended = || Err(NotYet::after(Duration::ZERO).because("the job has ended").into());
        let Some(Place { link, number, .. }) = self.0.place(job) else { return ended() };
        let given = link.table().note(number);
        let Some((n, noted)) = given else { return ended() };
        let message = Down::Notify { job: number, n, refusals: job.refusals(), body: Body::of(&body) };
        if !link.send(&message) {
            return Err("the notification does not fit into a line, the host was not given it".into());
        }
        let Ok(noted) = noted.await else { return ended() };
        match (noted.retry, noted.error) {
            (Some(pause), Some(why)) => Err(NotYet::after(pause).because(why).into()),
            (Some(pause), None) => Err(NotYet::after(pause).into()),
            (None, Some(why)) => Err(why.into()),
            (None, None) => Ok(()),
        }
    }

    async fn ask(&self, job: &Job, ask: Ask) {
        let Some(Place { link, number, .. }) = self.0.place(job) else { return };
        if !link.has("ask") {
            return ask.refuse("its host takes no asks");
        }
        let (id, asker, body) = (ask.id().to_owned(), ask.asker().to_string(), Body::of(ask.body()));
        let within_ms = u64::try_from(ask.left().as_millis()).unwrap_or(u64::MAX);
        let given = link.table().ask(number, ask, |ask| !ask.left().is_zero());
        match given {
            Ok(n) => {
                link.send(&Down::Ask { job: number, n, id, asker, within_ms, body });
            }
            Err(ask) => ask.refuse("its host has too many asks in hand"),
        }
    }

    async fn update(&self, job: &Job, new: NewPayload) -> Result<(), BoxError> {
        let Some(Place { link, number, .. }) = self.0.place(job) else { return std::future::pending().await };
        if !link.has("update") {
            return Err(Restart.into());
        }
        let given = link.table().update(number);
        let Some((n, updated)) = given else { return std::future::pending().await };
        let kind = new.payload_type().map(str::to_owned);
        if !link.send(&Down::Update { job: number, n, kind, body: Body::of(new.payload()) }) {
            return Err(Restart.into());
        }
        match updated.await {
            Ok(updated) => match updated.error {
                Some(why) => Err(why.into()),
                None if updated.restart => Err(Restart.into()),
                None => Ok(()),
            },
            Err(_) => std::future::pending().await,
        }
    }
}

const TOLD_EARLY: &str = "it was told to end before it ran";

impl Handler {
    fn places(&self) -> MutexGuard<'_, HashMap<JobKey, Place>> {
        self.places.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn place(&self, job: &Job) -> Option<Place> {
        self.places().get(job.key()).filter(|place| place.token == job.token()).cloned()
    }

    /// The host, if there is one or one comes in a moment.
    async fn link(&self) -> Option<Arc<Link>> {
        let mut gate = self.gate.clone();
        let come = timeout(RETURN, gate.wait_for(|gate| !matches!(gate, Gate::Coming))).await;
        match come {
            Ok(Ok(gate)) => match &*gate {
                Gate::Ready(link) => Some(link.clone()),
                _ => None,
            },
            _ => None,
        }
    }

    /// Gives the job to its host, and waits until it runs.
    async fn begin(&self, mut run: Run, lease: u64) -> Start {
        let Run { job, held, .. } = &run;
        let state = job.checkpointed().map(|kept| State::of(kept.bytes())).unwrap_or_default();
        let start = down::Start {
            job: held.number,
            key: Key::of(job.key()),
            token: job.token().0,
            lease,
            id: job.dispatch_id().to_string(),
            attempt: job.attempts(),
            within_ms: u64::try_from(run.times.start.as_millis()).unwrap_or(u64::MAX),
            kind: job.payload_type(),
            body: Body::of(&job.payload()),
            state,
            trace: job.trace().map(|trace| Trace {
                parent: trace.traceparent().to_owned(),
                state: trace.tracestate().to_owned(),
            }),
        };
        if !held.link.send(&Down::Start(Box::new(start))) {
            held.link.table().end(held.number, End::Stopped);
            run.held.is_over();
            return Start::Failed(JobEnd::Park(TOO_LONG.to_owned()).into());
        }
        let Some(mut began) = run.waits.began.take() else { return run.failed(HOST_GONE.into()) };
        let came = tokio::select! {
            biased;
            began = &mut began => Ok(began),
            () = run.job.cancelled() => Err(None),
            () = sleep(run.times.start) => Err(Some(StopReason::StartTimeout)),
        };
        match came {
            Ok(Ok(Began::Started)) => Start::Running(Box::pin(run.live())),
            Ok(Ok(Began::Failed { error, park: false })) => run.failed(error.into()),
            Ok(Ok(Began::Failed { error, park: true })) => run.failed(JobEnd::Park(error).into()),
            Ok(Ok(Began::Refused { elsewhere: true, .. })) => {
                run.held.is_over();
                Start::Elsewhere
            }
            Ok(Ok(Began::Refused { retry, .. })) => {
                run.held.is_over();
                Start::Refused { backoff: retry }
            }
            // It ran for no time at all.
            Ok(Ok(Began::Over(end))) => {
                run.held.is_over();
                match by_itself(end) {
                    Ok(()) => Start::Running(Box::pin(std::future::ready(Ok(())))),
                    Err(why) => Start::Failed(why),
                }
            }
            // The table holds the other end as long as the job.
            Ok(Err(_)) => run.failed(HOST_GONE.into()),
            Err(why) => {
                run.waits.began = Some(began);
                let why_so = why.or_else(|| run.job.stop_reason());
                match run.stop(why_so).await {
                    End::Ended { error: Some(error), .. } => Start::Failed(error.into()),
                    _ if why.is_some() => Start::Failed("it took too long to start".into()),
                    _ => Start::Failed(TOLD_EARLY.into()),
                }
            }
        }
    }
}

const HOST_GONE: &str = "its host has gone";
const TOO_LONG: &str = "payload and checkpoint do not fit into a line of the host protocol";

/// A job in the hands of a host.
struct Run {
    job: Job,
    held: Held,
    waits: Waits,
    _entry: Entry,
    times: Times,
}

impl Run {
    fn failed(mut self, why: BoxError) -> Start {
        self.held.is_over();
        Start::Failed(why)
    }

    /// The job's life, until it has ended.
    async fn live(mut self) -> Result<(), BoxError> {
        let end = tokio::select! {
            biased;
            end = &mut self.waits.end => Some(end),
            () = self.job.cancelled() => None,
        };
        match end {
            Some(Ok(end)) => {
                self.held.is_over();
                by_itself(end)
            }
            // The table holds the other end as long as the job.
            Some(Err(_)) => Err(JobEnd::Lost(HOST_GONE.to_owned()).into()),
            None => match self.stop(self.job.stop_reason()).await {
                End::Ended { error: Some(error), .. } => Err(error.into()),
                _ => Ok(()),
            },
        }
    }

    /// Tells the host to end the job, and waits until it has.
    async fn stop(&mut self, why: Option<StopReason>) -> End {
        let Self { job, held, waits, times, .. } = self;
        let lease = job.lease();
        let is_over = !lease.check();
        let within = if is_over { last_time(times) } else { times.grace };
        let why = if is_over { StopReason::LeaseLost } else { why.unwrap_or(StopReason::Stopped) };
        held.stop(name_of(why), within.min(times.grace));
        let mut stuck_at = Some(Instant::now() + times.grace);
        let mut kill_at = is_over.then(|| Instant::now() + within);
        let mut end = std::pin::pin!(last_word(waits));
        loop {
            if kill_at.is_none() && !lease.check() {
                kill_at = Some(Instant::now() + last_time(times));
            }
            tokio::select! {
                biased;
                ended = &mut end => {
                    held.is_over();
                    return ended;
                }
                () = at(kill_at) => {
                    held.link.kill("its lease is over, and a job of it did not end");
                    kill_at = Some(Instant::now() + times.ttl);
                }
                () = at(stuck_at) => {
                    stuck_at = None;
                    held.link.table().is_stuck(held.number);
                    held.link.wish(Wish::Stuck(job.key().clone()));
                }
                () = sleep(times.ttl / 40) => {}
            }
        }
    }
}

/// The lease is over at 0.6 T. All must be dead soon after 0.8 T.
fn last_time(times: &Times) -> Duration {
    times.ttl * 3 / 20
}

async fn at(time: Option<Instant>) {
    match time {
        Some(time) => sleep_until(time).await,
        None => std::future::pending().await,
    }
}

/// The end of a job that was told to end, whether it ran by then or not.
async fn last_word(waits: &mut Waits) -> End {
    if let Some(began) = waits.began.take() {
        match began.await {
            Ok(Began::Over(end)) => return end,
            Ok(Began::Failed { error, park }) => return End::Ended { error: Some(error), park, lost: false },
            Ok(Began::Refused { .. }) => return End::Stopped,
            Ok(Began::Started) | Err(_) => {}
        }
    }
    (&mut waits.end).await.unwrap_or_else(|_| End::Gone(String::new()))
}

/// The result of a job that was not told to end.
fn by_itself(end: End) -> Result<(), BoxError> {
    match end {
        End::Ended { error, park: true, .. } => Err(JobEnd::Park(error.unwrap_or_default()).into()),
        End::Ended { error, lost: true, .. } => Err(JobEnd::Lost(error.unwrap_or_default()).into()),
        End::Ended { error: Some(error), .. } => Err(error.into()),
        End::Stopped | End::Ended { error: None, .. } => Ok(()),
        End::Gone(why) => Err(JobEnd::Lost(format!("its host has gone: {why}")).into()),
    }
}

/// The reason as the protocol calls it.
fn name_of(why: StopReason) -> &'static str {
    match why {
        StopReason::Moved => "moved",
        StopReason::Updated => "updated",
        StopReason::Bounced => "bounced",
        StopReason::Parked => "parked",
        StopReason::Paused => "paused",
        StopReason::Draining => "draining",
        StopReason::Shutdown => "shutdown",
        StopReason::LeaseLost => "lease_lost",
        StopReason::StartTimeout => "start_timeout",
        StopReason::Stalled => "stalled",
        _ => "stopped",
    }
}
