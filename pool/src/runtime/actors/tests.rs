//! The promises of job tasks; and an idle job has no task.
#![allow(clippy::unwrap_used)]

use std::future::Future;
use std::pin::Pin;
use std::sync::Mutex;
use std::task::{Context, Poll};

use bytes::Bytes;
use tokio::sync::Semaphore;

use super::*;
use crate::clock;
use crate::core::ctx::Purpose;
use crate::core::lease::Timing;
use crate::error::BoxError;
use crate::job::checkpoint::Savers;
use crate::job::handler::{JobHandler, Start};
use crate::job::verdict::{JobEnd, NotYet};
use crate::model::id::{Incarnation, NodeName};
use crate::model::policy::FencePolicy;
use crate::model::settings::{Given, Settings};
use crate::model::wire::{self, Envelope};
use crate::mutation::Mutations;

const WORKER: WorkerId = WorkerId(1);

/// The events, in order.
type Log = Arc<Mutex<Vec<String>>>;

/// The driver as jobs see it.
struct Bench {
    actors: Actors,
    leases: Arc<Leases>,
    events: mpsc::UnboundedReceiver<Input>,
}

impl Bench {
    /// A worker whose lease holds.
    fn new() -> Self {
        Self::broken(Mutations::default())
    }

    /// The same, with a line broken.
    fn broken(broken: Mutations) -> Self {
        let settings = Settings::default();
        let config = Config {
            node: NodeName::new("n").unwrap(),
            nonce: 0,
            timing: Timing::of(Duration::from_secs(600)),
            settings,
            given: Given::default(),
            drawn_keys: (1, 2),
            stable_after: Duration::ZERO,
            handoff_parallel: 1,
            start_timeout: Duration::from_secs(600),
            stop_timeout: Duration::from_secs(600),
            plan_timeout: Duration::from_secs(600),
            abort_grace: Duration::from_secs(600),
            start_permits: 1,
            starts_per_second: None,
            moves_per_second: None,
            client_only: false,
            assume_fresh: false,
            must_exist: false,
            address: String::new(),
            purpose: Purpose::default(),
            broken: Mutations::default(),
        };
        let leases = Arc::new(Leases::new(config.node.clone(), config.timing, broken));
        leases.hold(Incarnation(1), WORKER, clock::now());
        let (inputs, events) = mpsc::unbounded_channel();
        Self {
            actors: Actors::new(
                &config,
                leases.clone(),
                inputs,
                Beside::default(),
                (Savers::unheard(), mpsc::unbounded_channel().1),
                Handle::current(),
            ),
            leases,
            events,
        }
    }

    fn start(&mut self, handler: impl JobHandler, token: u64) {
        let job = NewJob {
            key: key(),
            payload: wire::open(&Envelope::new(b"").seal().unwrap()).unwrap(),
            token: Token(token),
            id: "node.id".parse().unwrap(),
            attempts: 1,
            is_first: true,
            created_ms: 0,
            begun_ms: 0,
            checkpoint: None,
        };
        self.actors.start(Arc::new(handler), WORKER, job);
    }

    fn deliver(&mut self, token: u64, bodies: &[&'static str]) {
        self.deliver_from(token, 1, bodies);
    }

    fn deliver_from(&mut self, token: u64, first: u64, bodies: &[&'static str]) {
        let bodies = bodies.iter().map(|body| Bytes::from(*body)).collect();
        self.actors.deliver(&place(), Token(token), Taken { first, bodies });
    }

    fn stop(&mut self, token: u64) {
        self.actors.stop(&place(), Token(token), StopReason::Stopped);
    }

    fn abort(&mut self, token: u64) {
        self.actors.abort(&place(), Token(token));
    }

    /// The reports so far, without the end of a task.
    fn said(&mut self) -> Vec<String> {
        std::iter::from_fn(|| self.events.try_recv().ok()).map(name).collect()
    }

    /// The reports until a task ends, and that of its end.
    async fn next(&mut self) -> Vec<String> {
        let end = tokio::time::timeout(Duration::from_secs(60), self.actors.next()).await.unwrap();
        let mut said = self.said();
        said.extend(self.actors.ended(end).map(name));
        said
    }

    /// Jobs that have a task, and jobs that have none.
    fn counts(&self) -> (usize, usize) {
        let idle = self.actors.idle.values().map(|idle| idle.jobs.len()).sum();
        assert_eq!(self.actors.busy.len(), self.actors.tasks.len());
        (self.actors.busy.len(), idle)
    }
}

fn key() -> JobKey {
    JobKey::try_from("key").unwrap()
}

fn place() -> Place {
    (WORKER, key())
}

fn name(input: Input) -> String {
    match input {
        Input::Handler { token, event, .. } => format!("{token} {event:?}"),
        input => format!("{input:?}"),
    }
}

/// A handler that logs each of its calls, and holds a notification until the test releases it.
#[derive(Clone)]
struct Writes {
    log: Log,
    go: Arc<Semaphore>,
}

impl Writes {
    fn new(permits: usize) -> Self {
        Self { log: Log::default(), go: Arc::new(Semaphore::new(permits)) }
    }

    fn write(&self, what: impl Into<String>) {
        self.log.lock().unwrap().push(what.into());
    }

    fn log(&self) -> Vec<String> {
        std::mem::take(&mut self.log.lock().unwrap())
    }
}

impl JobHandler for Writes {
    async fn start(&self, job: Job) -> Start {
        self.write(format!("start {}", job.token()));
        Start::Started
    }

    async fn notify(&self, _: &Job, body: Bytes) -> Result<(), BoxError> {
        self.write(format!("takes {body:?}"));
        self.go.acquire().await.unwrap().forget();
        self.write(format!("has {body:?}"));
        Ok(())
    }

    async fn stop(&self, job: &Job, why: StopReason) -> Result<(), BoxError> {
        self.write(format!("stop {} {why:?} {}", job.token(), job.cancellation().is_cancelled()));
        Ok(())
    }
}

#[tokio::test]
async fn a_job_that_has_started_and_does_nothing_has_no_task() {
    let (mut bench, writes) = (Bench::new(), Writes::new(1));
    bench.start(writes.clone(), 1);
    assert_eq!((bench.counts(), bench.next().await), ((1, 0), vec!["1 Started".to_owned()]));
    assert_eq!(bench.counts(), (0, 1));
    bench.deliver(1, &["a"]);
    assert_eq!((bench.counts(), bench.next().await), ((1, 0), vec!["1 Delivered".to_owned()]));
    assert_eq!(bench.counts(), (0, 1));
    bench.stop(1);
    assert_eq!((bench.counts(), bench.next().await), ((1, 0), vec!["1 Stopped(Ok(()))".to_owned()]));
    assert_eq!((bench.counts(), bench.actors.idle.len(), bench.actors.places.len()), ((0, 0), 0, 0));
    assert_eq!(writes.log(), ["start 1", "takes b\"a\"", "has b\"a\"", "stop 1 Stopped true"]);
}

#[tokio::test]
async fn a_stop_during_a_notification_is_done_after_it() {
    let (mut bench, writes) = (Bench::new(), Writes::new(1));
    bench.start(writes.clone(), 1);
    assert_eq!(bench.next().await, ["1 Started"]);
    bench.deliver(1, &["a", "b", "c"]);
    tenure_testing::eventually(Duration::from_secs(60), "b to be taken", async || {
        tokio::task::yield_now().await;
        writes.log.lock().unwrap().iter().any(|line| line == "takes b\"b\"")
    })
    .await;
    bench.stop(1);
    writes.go.add_permits(1);
    assert_eq!(bench.next().await, ["1 Took(2)"], "the third goes to the next owner");
    assert_eq!(bench.next().await, ["1 Stopped(Ok(()))"]);
    let calls =
        ["start 1", "takes b\"a\"", "has b\"a\"", "takes b\"b\"", "has b\"b\"", "stop 1 Stopped true"];
    assert_eq!(writes.log(), calls);
}

/// Shares its job, and its calls' log.
struct Shows {
    job: Arc<Mutex<Option<Job>>>,
    writes: Writes,
}

impl JobHandler for Shows {
    async fn start(&self, job: Job) -> Start {
        *self.job.lock().unwrap() = Some(job.clone());
        JobHandler::start(&self.writes, job).await
    }

    async fn notify(&self, job: &Job, body: Bytes) -> Result<(), BoxError> {
        JobHandler::notify(&self.writes, job, body).await
    }

    async fn stop(&self, job: &Job, why: StopReason) -> Result<(), BoxError> {
        JobHandler::stop(&self.writes, job, why).await
    }
}

/// A job that runs without a future, the job as its handler has it, and the calls.
async fn shown(bench: &mut Bench) -> (Job, Writes) {
    let (job, writes) = (Arc::default(), Writes::new(0));
    bench.start(Shows { job: Arc::clone(&job), writes: writes.clone() }, 1);
    assert_eq!(bench.next().await, ["1 Started"]);
    assert_eq!(writes.log(), ["start 1"]);
    let job = job.lock().unwrap().clone().unwrap();
    (job, writes)
}

#[tokio::test]
async fn a_job_without_a_future_ends_by_its_own_word_once() {
    let ends: [(Result<(), BoxError>, &str); 4] = [
        (Ok(()), "1 Ended(Ok(()))"),
        (Err("bad".into()), "1 Ended(Err(\"bad\"))"),
        (Err(JobEnd::Lost("gone".into()).into()), "1 Lost(\"gone\")"),
        (Err(JobEnd::Park("unfit".into()).into()), "1 Park(\"unfit\")"),
    ];
    for (result, event) in ends {
        let mut bench = Bench::new();
        let (job, writes) = shown(&mut bench).await;
        bench.actors.end((job.clone(), result));
        bench.actors.end((job.clone(), Ok(())));
        assert_eq!(bench.next().await, [event]);
        bench.actors.end((job, Ok(())));
        assert_eq!((bench.counts(), bench.said().len(), bench.actors.places.len()), ((0, 0), 0, 0));
        assert_eq!(writes.log(), Vec::<String>::new(), "nothing stops it");
    }
}

#[tokio::test]
async fn a_jobs_own_word_waits_for_its_calls_in_progress() {
    let mut bench = Bench::new();
    let (job, writes) = shown(&mut bench).await;
    bench.deliver(1, &["a"]);
    bench.actors.end((job, Ok(())));
    writes.go.add_permits(1);
    assert_eq!((bench.next().await, bench.counts()), (vec!["1 Delivered".to_owned()], (1, 0)));
    assert_eq!((bench.next().await, bench.counts()), (vec!["1 Ended(Ok(()))".to_owned()], (0, 0)));
    assert_eq!(writes.log(), ["takes b\"a\"", "has b\"a\""]);
}

#[tokio::test]
async fn a_stop_that_comes_before_a_jobs_own_word_is_done() {
    for order in [["stop", "end"], ["end", "stop"]] {
        let mut bench = Bench::new();
        let (job, writes) = shown(&mut bench).await;
        // The word meets a job whose cancellation has fired, and waits for the reason.
        bench.actors.cancel(&place(), Token(1), StopReason::Stopped);
        for call in order {
            if call == "stop" { bench.stop(1) } else { bench.actors.end((job.clone(), Ok(()))) }
        }
        assert_eq!((bench.next().await, bench.counts()), (vec!["1 Stopped(Ok(()))".to_owned()], (0, 0)));
        assert_eq!(writes.log(), ["stop 1 Stopped true"]);
    }
}

#[tokio::test]
async fn a_word_said_before_the_start_has_returned_counts() {
    struct Early;
    impl JobHandler for Early {
        async fn start(&self, _: Job) -> Start {
            tokio::task::yield_now().await;
            Start::Started
        }
    }
    let mut bench = Bench::new();
    bench.start(Early, 1);
    let job = bench.actors.busy.values().next().unwrap().job.clone();
    bench.actors.end((job, Ok(())));
    assert_eq!(bench.next().await, ["1 Started"]);
    assert_eq!((bench.next().await, bench.counts()), (vec!["1 Ended(Ok(()))".to_owned()], (0, 0)));
}

#[tokio::test]
async fn no_start_is_made_for_a_worker_whose_tasks_were_aborted() {
    let (mut bench, writes) = (Bench::new(), Writes::new(1));
    bench.leases.give_up_all();
    bench.start(writes.clone(), 1);
    assert_eq!((bench.counts(), bench.said()), ((0, 0), vec!["1 NotRun".to_owned()]));
    assert_eq!(writes.log(), Vec::<String>::new());
}

#[tokio::test]
async fn a_job_hears_of_its_end_though_its_tasks_were_aborted() {
    for (mail, heard) in [("stop", "stop 1 Stopped true"), ("deliver", "stop 1 LeaseLost true")] {
        let (mut bench, writes) = (Bench::new(), Writes::new(1));
        bench.start(writes.clone(), 1);
        bench.next().await;
        bench.leases.give_up_all();
        if mail == "stop" {
            bench.stop(1);
        } else {
            bench.deliver(1, &["a"]);
        }
        // It is over at once, so nothing aborts it.
        bench.abort(1);
        bench.leases.give_up_all();
        assert_eq!((bench.counts(), bench.said().len()), ((1, 0), 0), "{mail}");
        assert_eq!((bench.next().await, bench.counts()), (vec!["1 Aborted".to_owned()], (0, 0)), "{mail}");
        assert_eq!(writes.log(), ["start 1", heard]);
    }
}

#[tokio::test]
async fn a_job_hears_of_a_lease_that_ends_during_its_call() {
    let (mut bench, writes) = (Bench::new(), Writes::new(0));
    bench.start(writes.clone(), 1);
    bench.next().await;
    bench.deliver(1, &["a"]);
    let taken = async || if writes.log.lock().unwrap().len() < 2 { Err("it has not begun") } else { Ok(()) };
    tenure_testing::eventually(Duration::from_secs(60), "the call has begun", taken).await;
    bench.leases.give_up_all();
    assert_eq!((bench.next().await, bench.counts()), (vec![], (1, 0)));
    assert_eq!((bench.next().await, bench.counts()), (vec!["1 Aborted".to_owned()], (0, 0)));
    assert_eq!(writes.log(), ["start 1", "takes b\"a\"", "stop 1 LeaseLost true"]);
}

#[tokio::test]
async fn mutants_call_handlers_of_a_worker_whose_tasks_were_aborted() {
    let mut ends = Vec::new();
    for broken in [Mutations::default(), Mutations::of([Mutation::AbortedStartsOn])] {
        let (mut bench, writes) = (Bench::broken(broken), Writes::new(1));
        bench.start(writes.clone(), 1);
        bench.next().await;
        bench.leases.give_up_all();
        bench.stop(1);
        ends.extend(bench.next().await);
    }
    assert_eq!(ends, ["1 Aborted", "1 Stopped(Ok(()))"], "the first is polled once");
}

/// A handler with one call that blocks its thread until the test lets it go on.
struct Keeps {
    call: &'static str,
    kept: Arc<Semaphore>,
    go: Mutex<std::sync::mpsc::Receiver<()>>,
    writes: Writes,
}

impl Keeps {
    fn new(call: &'static str) -> (Self, std::sync::mpsc::Sender<()>) {
        let (go, told) = std::sync::mpsc::channel();
        let keeps =
            Self { call, kept: Arc::new(Semaphore::new(0)), go: Mutex::new(told), writes: Writes::new(9) };
        (keeps, go)
    }

    fn keep(&self, call: &str) {
        if call == self.call {
            self.kept.add_permits(1);
            // An error means that the test is over.
            let _ = self.go.lock().unwrap().recv();
        }
    }
}

impl JobHandler for Keeps {
    async fn start(&self, job: Job) -> Start {
        self.keep("start");
        JobHandler::start(&self.writes, job).await
    }

    async fn notify(&self, job: &Job, body: Bytes) -> Result<(), BoxError> {
        self.keep("notify");
        JobHandler::notify(&self.writes, job, body).await
    }

    async fn stop(&self, job: &Job, why: StopReason) -> Result<(), BoxError> {
        JobHandler::stop(&self.writes, job, why).await
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn an_abort_during_a_blocking_notification_ends_the_job() {
    let (mut bench, (keeps, go)) = (Bench::new(), Keeps::new("notify"));
    let (kept, writes) = (keeps.kept.clone(), keeps.writes.clone());
    bench.start(keeps, 1);
    assert_eq!(bench.next().await, ["1 Started"]);
    bench.deliver(1, &["a"]);
    kept.acquire().await.unwrap().forget();
    bench.stop(1);
    bench.abort(1);
    go.send(()).unwrap();
    assert_eq!((bench.next().await, bench.counts()), (vec![], (1, 0)));
    assert_eq!(bench.next().await, ["1 Aborted"]);
    assert_eq!((bench.counts(), bench.said().len()), ((0, 0), 0));
    let log = ["start 1", "takes b\"a\"", "has b\"a\"", "stop 1 Stopped true"];
    assert_eq!(writes.log(), log, "the stop is polled once, so it cannot hang for ever");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_job_that_has_started_in_spite_of_its_abort_can_be_stopped() {
    let (mut bench, (keeps, go)) = (Bench::new(), Keeps::new("start"));
    let (kept, writes) = (keeps.kept.clone(), keeps.writes.clone());
    bench.start(keeps, 1);
    kept.acquire().await.unwrap().forget();
    bench.abort(1);
    go.send(()).unwrap();
    assert_eq!((bench.next().await, bench.counts()), (vec!["1 Started".to_owned()], (0, 1)));
    bench.stop(1);
    assert_eq!(bench.next().await, ["1 Stopped(Ok(()))"]);
    assert_eq!(writes.log(), ["start 1", "stop 1 Stopped true"]);
}

#[tokio::test]
async fn an_idle_job_that_is_aborted_is_over() {
    let (mut bench, writes) = (Bench::new(), Writes::new(1));
    bench.start(writes.clone(), 1);
    bench.next().await;
    bench.abort(2);
    assert_eq!((bench.counts(), bench.said().len()), ((0, 1), 0), "another run of the job");
    bench.abort(1);
    assert_eq!((bench.counts(), bench.said().len()), ((1, 0), 0));
    assert_eq!((bench.next().await, bench.counts()), (vec!["1 Aborted".to_owned()], (0, 0)));
    assert_eq!(writes.log(), ["start 1", "stop 1 Stopped true"], "its handler hears of it");
}

#[tokio::test]
async fn a_task_that_is_aborted_says_so() {
    let (mut bench, writes) = (Bench::new(), Writes::new(0));
    bench.start(writes.clone(), 1);
    bench.next().await;
    bench.deliver(1, &["a"]);
    bench.abort(1);
    assert_eq!((bench.next().await, bench.counts()), (vec![], (1, 0)));
    assert_eq!((bench.next().await, bench.counts()), (vec!["1 Aborted".to_owned()], (0, 0)));
    assert_eq!(writes.log(), ["start 1", "stop 1 Stopped true"]);
}

#[tokio::test]
async fn an_order_for_another_run_of_the_job_is_for_nobody() {
    let (mut bench, writes) = (Bench::new(), Writes::new(1));
    bench.start(writes.clone(), 1);
    bench.deliver(2, &["early"]);
    bench.next().await;
    bench.deliver(2, &["late"]);
    bench.stop(2);
    assert_eq!((bench.counts(), bench.said().len()), ((0, 1), 0));
    bench.stop(1);
    bench.next().await;
    assert_eq!(writes.log(), ["start 1", "stop 1 Stopped true"]);
}

#[tokio::test]
async fn a_jobs_cancellation_fires_with_its_end_and_its_lease() {
    struct Shows(Arc<Mutex<Option<Job>>>);
    impl JobHandler for Shows {
        async fn start(&self, job: Job) -> Start {
            *self.0.lock().unwrap() = Some(job);
            Start::Started
        }
    }
    for fence in [true, false] {
        let mut bench = Bench::new();
        let shown = Arc::default();
        bench.start(Shows(Arc::clone(&shown)), 1);
        bench.next().await;
        let job = shown.lock().unwrap().take().unwrap();
        assert!(!job.is_ending() && job.lease().check());
        assert_eq!(job.stop_reason(), None);
        let cancellation = job.cancellation().clone();
        cancellation.cancel();
        assert!(!job.is_ending(), "a handler may cancel its own");
        if fence {
            bench.leases.fence(WORKER);
        } else {
            bench.actors.cancel(&place(), Token(1), StopReason::Bounced);
        }
        assert!(job.is_ending() && job.lease().check() != fence);
        let why = if fence { StopReason::LeaseLost } else { StopReason::Bounced };
        assert_eq!(job.stop_reason(), Some(why));

        // A cancellation that is asked for only now has already fired.
        bench.start(Shows(Arc::clone(&shown)), 2);
        let said = if fence { "2 NotRun" } else { "2 Started" };
        assert_eq!(bench.next().await, [said]);
        let Some(job) = shown.lock().unwrap().take() else { continue };
        bench.leases.fence(WORKER);
        assert!(job.is_ending() && job.cancellation().is_cancelled());
    }
}

/// A future that ends at once. When it is dropped it logs the reports so far.
struct Witness {
    inputs: Arc<Mutex<mpsc::UnboundedReceiver<Input>>>,
    said: Log,
    panics: bool,
}

impl Future for Witness {
    type Output = Result<(), BoxError>;

    fn poll(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Self::Output> {
        Poll::Ready(Ok(()))
    }
}

impl Drop for Witness {
    fn drop(&mut self) {
        let mut inputs = self.inputs.lock().unwrap();
        self.said.lock().unwrap().extend(std::iter::from_fn(|| inputs.try_recv().ok()).map(name));
        drop(inputs);
        assert!(!self.panics, "in drop");
    }
}

struct Runs(Mutex<Option<Witness>>);

impl JobHandler for Runs {
    async fn start(&self, _: Job) -> Start {
        let witness = self.0.lock().unwrap().take();
        witness.map_or(Start::Started, |witness| Start::Running(Box::pin(witness)))
    }
}

/// The reports before and after the drop of the job's future.
async fn said_around_the_drop(panics: bool) -> (Vec<String>, Vec<String>) {
    let mut bench = Bench::new();
    let events = std::mem::replace(&mut bench.events, mpsc::unbounded_channel().1);
    let (inputs, said) = (Arc::new(Mutex::new(events)), Log::default());
    let witness = Witness { inputs: Arc::clone(&inputs), said: Arc::clone(&said), panics };
    bench.start(Runs(Mutex::new(Some(witness))), 1);
    let after = bench.next().await;
    assert!(inputs.lock().unwrap().try_recv().is_err());
    let before = said.lock().unwrap().clone();
    (before, after)
}

#[tokio::test]
async fn the_end_of_a_job_is_told_when_nothing_of_its_future_is_left() {
    let (before, after) = said_around_the_drop(false).await;
    assert_eq!((before, after), (vec!["1 Started".to_owned()], vec!["1 Ended(Ok(()))".to_owned()]));
}

#[tokio::test]
async fn a_future_that_panics_when_it_is_dropped_has_failed() {
    let (_, after) = said_around_the_drop(true).await;
    assert_eq!(after, ["1 Failed(\"panicked: in drop\")"]);
}

/// Its stop hangs. When that is dropped, something still runs the job for this long.
struct Outlived(Log, Duration);

struct Outlives<'a>(&'a Job, &'a Outlived);

impl Drop for Outlives<'_> {
    fn drop(&mut self) {
        self.1.0.lock().unwrap().push("dropped".to_owned());
        self.0.may_run_on(self.1.1 / 2);
        self.0.may_run_on(self.1.1);
    }
}

impl JobHandler for Outlived {
    async fn start(&self, _: Job) -> Start {
        Start::Started
    }

    async fn stop(&self, job: &Job, why: StopReason) -> Result<(), BoxError> {
        self.0.lock().unwrap().push(format!("{why:?}"));
        let _outlives = Outlives(job, self);
        std::future::pending().await
    }
}

#[tokio::test]
async fn a_stop_that_is_aborted_before_it_runs_is_heard() {
    let (mut bench, log) = (Bench::new(), Log::default());
    bench.start(Outlived(log.clone(), Duration::ZERO), 1);
    assert_eq!(bench.next().await, ["1 Started"]);
    bench.stop(1);
    bench.abort(1);
    assert_eq!(bench.next().await, [""; 0]);
    assert_eq!(bench.next().await, ["1 Aborted"]);
    assert_eq!(*log.lock().unwrap(), ["Stopped", "dropped"]);
    assert_eq!(bench.counts(), (0, 0));
}

struct PanicsInDrop;

impl Drop for PanicsInDrop {
    fn drop(&mut self) {
        panic!("in drop");
    }
}

/// Its stop blocks its thread until it is let go, and then panics when it is dropped.
struct Blocks(mpsc::UnboundedSender<()>, Mutex<std::sync::mpsc::Receiver<()>>);

impl JobHandler for Blocks {
    async fn start(&self, _: Job) -> Start {
        Start::Started
    }

    async fn stop(&self, _: &Job, _: StopReason) -> Result<(), BoxError> {
        let _panics = PanicsInDrop;
        self.0.send(()).unwrap();
        let _ = self.1.lock().unwrap().recv();
        std::future::pending().await
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stop_that_blocks_after_its_lease_is_counted() {
    let ((blocks, mut blocked), (go, goes)) = (mpsc::unbounded_channel(), std::sync::mpsc::channel());
    let mut bench = Bench::new();
    bench.start(Blocks(blocks, Mutex::new(goes)), 1);
    assert_eq!(bench.next().await, ["1 Started"]);
    bench.abort(1);
    blocked.recv().await.unwrap();
    let long_after = clock::now() + Duration::from_secs(3600);
    bench.leases.watch(long_after, FencePolicy::Report);
    assert_eq!(bench.leases.standings()[&WORKER].overdue, 1);
    bench.leases.end();
    assert!(!bench.leases.may_end());
    go.send(()).unwrap();
    // Not as failed, though its drop panics.
    assert_eq!(bench.next().await, ["1 Aborted"]);
    assert!(bench.leases.may_end());
}

#[tokio::test]
async fn a_job_that_something_still_runs_is_kept_back() {
    for heard in [true, false] {
        let time = Duration::from_millis(200);
        let (mut bench, log) = (Bench::new(), Log::default());
        bench.start(Outlived(log.clone(), time), 1);
        bench.next().await;
        bench.stop(1);
        while heard && log.lock().unwrap().is_empty() {
            tokio::task::yield_now().await;
        }
        let before = clock::now();
        bench.abort(1);
        if !heard {
            bench.next().await;
        }
        assert_eq!(bench.next().await, [""; 0]);
        assert_eq!(bench.counts(), (1, 0));
        // Neither ends it sooner.
        bench.abort(1);
        bench.stop(1);
        assert_eq!(bench.next().await, ["1 Aborted"]);
        assert!(clock::now().since(before) >= time);
        assert_eq!(*log.lock().unwrap(), ["Stopped", "dropped"]);
        assert_eq!(bench.counts(), (0, 0));
    }
}

#[tokio::test]
async fn an_end_of_the_lease_does_not_free_a_job_that_is_kept_back() {
    let (mut bench, log) = (Bench::new(), Log::default());
    bench.start(Outlived(log.clone(), Duration::from_millis(200)), 1);
    bench.next().await;
    bench.stop(1);
    while log.lock().unwrap().is_empty() {
        tokio::task::yield_now().await;
    }
    let before = clock::now();
    bench.leases.give_up_all();
    assert_eq!(bench.next().await, [""; 0]);
    bench.leases.give_up_all();
    assert_eq!(bench.next().await, ["1 Aborted"]);
    assert!(clock::now().since(before) >= Duration::from_millis(200));
}

/// Refuses every notification, and says how often it has refused that one before.
struct Refuses;

impl JobHandler for Refuses {
    async fn start(&self, _: Job) -> Start {
        Start::Started
    }

    async fn notify(&self, job: &Job, _: Bytes) -> Result<(), BoxError> {
        Err(NotYet::after(Duration::ZERO).because(format!("{} before", job.refusals())).into())
    }
}

#[tokio::test]
async fn refusals_are_counted_for_each_notification() {
    let mut bench = Bench::new();
    bench.start(Refuses, 1);
    bench.next().await;
    let mut refused = Vec::new();
    for first in [5, 5, 5, 6] {
        bench.deliver_from(1, first, &["a", "b"]);
        refused.extend(bench.next().await);
    }
    let before = refused.iter().map(|said| said.split('"').nth(1).unwrap_or(said));
    assert_eq!(before.collect::<Vec<_>>(), ["0 before", "1 before", "2 before", "0 before"]);
}
