//! The handler of a worker: each job goes into the hands of its host.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use bytes::Bytes;
use tenure_pool::job::{NewPayload, NotYet, Restart};
use tenure_pool::{Ask, BoxError, Job, JobEnd, JobHandler, JobKey, Node, Start, StopReason, Token};
use tokio::sync::watch;
use tokio::time::{Instant, sleep, sleep_until, timeout};

use super::link::{Held, Link, NotHeld, Wish};
use super::table::{Began, End, OnEnd, Waits};
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
    node: Node,
    gate: watch::Receiver<Gate>,
    times: Times,
    /// The jobs that live, and do not end now.
    places: Mutex<HashMap<JobKey, Place>>,
    on_end: OnEnd<Job>,
}

/// Where a job is. It has no task and no future: a host has thousands.
struct Place {
    token: Token,
    held: Held,
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
        let Ok(shard) = handler.node.inspect().shard_of(job.key()) else { return Start::Elsewhere };
        let (held, waits, lease) = match link.hold((shard, job.worker()), &job) {
            Ok(held) => held,
            Err(NotHeld::Over) => return Start::Elsewhere,
            Err(NotHeld::Full) => return Start::Refused { backoff: None },
        };
        handler.begin(Run { job, held, waits, times: handler.times }, lease).await
    }

    async fn stop(&self, job: &Job, why: StopReason) -> Result<(), BoxError> {
        // A job that is in no place has ended by its own word.
        let Some(Place { mut held, .. }) = self.0.taken(job) else { return Ok(()) };
        let waiting = held.link.table().wait(held.number);
        let Some(end) = waiting else {
            held.is_over();
            return Ok(());
        };
        let mut run = Run { job: job.clone(), held, waits: Waits { began: None, end }, times: self.0.times };
        match run.stop(Some(why)).await {
            End::Ended { error: Some(error), .. } => Err(error.into()),
            _ => Ok(()),
        }
    }

    async fn notify(&self, job: &Job, body: Bytes) -> Result<(), BoxError> {
        // A job that has ended takes nothing: its next owner does.
        let ended = || Err(NotYet::after(Duration::ZERO).because("the job has ended").into());
        let Some((link, number)) = self.0.place(job) else { return ended() };
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
        let Some((link, number)) = self.0.place(job) else { return ask.moved() };
        if link.has_parted() {
            return ask.moved();
        }
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
            Err(ask) if link.table().has(number) => ask.refuse("its host has too many asks in hand"),
            // It has ended meanwhile, and its host was not asked.
            Err(ask) => ask.moved(),
        }
    }

    async fn update(&self, job: &Job, new: NewPayload) -> Result<(), BoxError> {
        // Its end is on the way, or its next run has the payload.
        let Some((link, number)) = self.0.place(job) else { return Err(Restart.into()) };
        if !link.has("update") {
            return Err(Restart.into());
        }
        let given = link.table().update(number);
        let Some((n, updated)) = given else { return Err(Restart.into()) };
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
            Err(_) => Err(Restart.into()),
        }
    }
}

const TOLD_EARLY: &str = "it was told to end before it ran";

impl Handler {
    pub(super) fn new(node: Node, gate: watch::Receiver<Gate>, times: Times) -> Arc<Self> {
        Arc::new_cyclic(|handler: &Weak<Self>| {
            let handler = handler.clone();
            let on_end = move |job: &Job, end| {
                if let Some(handler) = handler.upgrade() {
                    handler.has_ended(job, end);
                }
            };
            Self { node, gate, times, places: Mutex::default(), on_end: Arc::new(on_end) }
        })
    }

    /// A job that lived has ended, and its host has said its last word on it.
    fn has_ended(&self, job: &Job, end: End) {
        if let Some(mut place) = self.taken(job) {
            place.held.is_over();
        }
        // One that must end just now is in the hands of its stop, and this word comes too late.
        job.end(by_itself(end));
    }

    fn places(&self) -> MutexGuard<'_, HashMap<JobKey, Place>> {
        self.places.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The host of a job that lives, and the job's number there.
    fn place(&self, job: &Job) -> Option<(Arc<Link>, u64)> {
        let places = self.places();
        let place = places.get(job.key()).filter(|place| place.token == job.token())?;
        Some((place.held.link.clone(), place.held.number))
    }

    /// The place of a job that lives, which it has no longer.
    fn taken(&self, job: &Job) -> Option<Place> {
        let mut places = self.places();
        places.get(job.key()).filter(|place| place.token == job.token())?;
        places.remove(job.key())
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
            Ok(Ok(Began::Started)) => self.live(run),
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
            Ok(Ok(Began::Over(end))) => run.over(end),
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

    /// Lets a job that has started live on.
    fn live(&self, run: Run) -> Start {
        let Run { job, held, mut waits, .. } = run;
        let (link, number) = (held.link.clone(), held.number);
        // A former job of the key has no place: it has ended by its own word, or its stop has been heard.
        self.places().insert(job.key().clone(), Place { token: job.token(), held });
        let lives = link.table().lives_on(number, self.on_end.clone());
        if lives {
            return Start::Started;
        }
        match self.taken(&job) {
            Some(Place { mut held, .. }) => {
                held.is_over();
                let end = waits.end.try_recv().unwrap_or_else(|_| End::Gone(HOST_GONE.to_owned()));
                // Its host has said that it started: its end is that of a run.
                Start::Running(Box::pin(std::future::ready(by_itself(end))))
            }
            None => Start::Failed(JobEnd::Lost(HOST_GONE.to_owned()).into()),
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
    times: Times,
}

impl Run {
    fn failed(mut self, why: BoxError) -> Start {
        self.held.is_over();
        Start::Failed(why)
    }

    /// The job ran for no time at all.
    fn over(mut self, end: End) -> Start {
        self.held.is_over();
        match by_itself(end) {
            Ok(()) => Start::Running(Box::pin(std::future::ready(Ok(())))),
            Err(why) => Start::Failed(why),
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
