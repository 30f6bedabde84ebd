//! The player: the node of a check. It has one host.

use std::collections::{HashMap, VecDeque};
use std::time::Duration;

use bytes::Bytes;
use serde_json::{Value, json};
use tenure_pool::JobKey;
use tokio::io::AsyncWriteExt;
use tokio::net::unix::{OwnedReadHalf, OwnedWriteHalf};
use tokio::sync::oneshot::Receiver;
use tokio::time::{Instant, sleep_until, timeout};

use crate::host::child::{Child, Launcher, first_end};
use crate::host::hosts::NoHost;
use crate::host::leases::monotonic;
use crate::host::table::{Began, End, Heard, Noted, Table, Updated, Waits};
use crate::host::wire::body::{Body, Key, State};
use crate::host::wire::codec::{Lines, line};
use crate::host::wire::down::{Done, Down, Start};
use crate::host::wire::up::{Hello, Up};
use crate::host::wire::{FEATURES, VERSION};
use crate::work::launch;

/// How long a host may take for each thing.
pub(super) const PATIENCE: Duration = Duration::from_secs(10);
/// How long a host may take to end.
const ENDING: Duration = Duration::from_secs(20);
/// The longest state, as the host is told.
pub(super) const CHECKPOINT_MAX: usize = 1_000;
/// A lease that no scenario outlives.
const LONG: u64 = 600_000;

/// A host, and all that it has said.
pub(super) struct Player {
    child: Child,
    pub(super) hello: Hello,
    /// None once this side has hung up.
    lines: Option<Lines<OwnedReadHalf>>,
    to: Option<OwnedWriteHalf>,
    table: Table<u64, u64>,
    waits: HashMap<u64, Waits>,
    /// The number that the next job has.
    next: u64,
    pings: u64,
    ponged: u64,
    /// The words of jobs, in order: `(job, word)`.
    pub(super) said: Vec<(u64, String)>,
    pub(super) states: HashMap<u64, Bytes>,
    pub(super) answers: Vec<(u64, Result<Bytes, String>)>,
    /// The asks that the job's next owner shall have.
    pub(super) moved: Vec<u64>,
    pub(super) checkpoints: VecDeque<(u64, Bytes)>,
    pub(super) requests: VecDeque<Up>,
    pub(super) wants_to_go: bool,
}

/// A job to start, in the words of a scenario.
pub(super) struct Job {
    pub(super) key: Bytes,
    pub(super) payload: Bytes,
    pub(super) token: u64,
    pub(super) lease: u64,
    pub(super) state: Option<Bytes>,
}

impl Job {
    /// A job that does this.
    pub(super) fn does(does: &Value) -> Self {
        Self::with(does.to_string())
    }

    /// A job with this payload.
    pub(super) fn with(payload: impl Into<Bytes>) -> Self {
        Self { key: "acme".into(), payload: payload.into(), token: 7, lease: 1, state: None }
    }

    pub(super) fn key(self, key: impl Into<Bytes>) -> Self {
        Self { key: key.into(), ..self }
    }

    pub(super) fn lease(self, lease: u64) -> Self {
        Self { lease, ..self }
    }

    pub(super) fn state(self, state: &'static str) -> Self {
        Self { state: Some(state.into()), ..self }
    }
}

impl Player {
    /// Starts a host, and welcomes it.
    pub(super) async fn open(launcher: &Launcher, hello: Duration) -> Result<Self, String> {
        let (child, (hello, lines, to)) = launcher.greeted(0, hello).await.map_err(|why| match why {
            NoHost::Unfit(why) | NoHost::NotRun(why) | NoHost::Failed(why) => why,
        })?;
        Ok(Self {
            child,
            hello,
            lines: Some(lines),
            to: Some(to),
            table: Table::new(),
            waits: HashMap::new(),
            next: 1,
            pings: 0,
            ponged: 0,
            said: Vec::new(),
            states: HashMap::new(),
            answers: Vec::new(),
            moved: Vec::new(),
            checkpoints: VecDeque::new(),
            requests: VecDeque::new(),
            wants_to_go: false,
        })
    }

    pub(super) fn has(&self, feature: &str) -> bool {
        self.hello.features.iter().any(|has| has == feature)
    }

    /// Welcomes the host, and gives it a lease that lasts.
    pub(super) async fn welcome(&mut self) -> Result<(), String> {
        if !self.hello.v.contains(&VERSION) {
            return Err(format!("it does not speak version {VERSION}: {:?}", self.hello.v));
        }
        let hello = Down::Hello {
            v: VERSION,
            pool: "check".to_owned(),
            node: "check".to_owned(),
            worker: 0,
            ttl_ms: 10_000,
            checkpoint_max: CHECKPOINT_MAX as u64,
            features: FEATURES.map(str::to_owned).into(),
            tenure: env!("CARGO_PKG_VERSION").to_owned(),
        };
        self.tell(&hello).await?;
        self.lease(1, LONG).await
    }

    pub(super) async fn lease(&mut self, lease: u64, left_ms: u64) -> Result<(), String> {
        self.tell(&Down::Lease { lease, left_ms, until_ms: monotonic() + left_ms }).await
    }

    /// Says something to the host.
    pub(super) async fn tell(&mut self, message: &Down) -> Result<(), String> {
        let line = line(message).ok_or("the message of this scenario is too long")?;
        self.write(&line).await
    }

    /// Says something that is no message of this version.
    pub(super) async fn tell_other(&mut self, message: &Value) -> Result<(), String> {
        self.write(format!("{message}\n").as_bytes()).await
    }

    async fn write(&mut self, line: &[u8]) -> Result<(), String> {
        let mut to = self.to.take().ok_or("the connection is closed")?;
        let mut writing = std::pin::pin!(to.write_all(line));
        let until = Instant::now() + PATIENCE;
        // A host may say so much meanwhile that it listens only when it is heard.
        let written = loop {
            tokio::select! {
                written = &mut writing => break written.map_err(|error| format!("it does not listen: {error}")),
                heard = self.hear() => if let Err(why) = heard {
                    break Err(why);
                },
                () = sleep_until(until) => break Err("it does not read what it is told".to_owned()),
            }
        };
        self.to = Some(to);
        written
    }

    /// Closes the connection.
    pub(super) fn hang_up(&mut self) {
        self.to = None;
        self.lines = None;
    }

    /// Gives a job to the host, and returns its number.
    pub(super) async fn start(&mut self, job: Job) -> Result<u64, String> {
        let (number, message) = self.add(job)?;
        self.tell(&message).await?;
        Ok(number)
    }

    /// The message that starts a job.
    pub(super) fn add(&mut self, job: Job) -> Result<(u64, Down), String> {
        let Job { key, payload, token, lease, state } = job;
        let (number, waits) = self.table.add(self.next);
        self.next = number + 1;
        self.waits.insert(number, waits);
        let key = JobKey::new(key.to_vec()).map_err(|error| error.to_string())?;
        let start = Start {
            job: number,
            key: Key::of(&key),
            token,
            lease,
            id: format!("check.{number}"),
            attempt: 1,
            within_ms: 30_000,
            kind: None,
            body: Body::of(&payload),
            state: state.map(|state| State::of(&state)).unwrap_or_default(),
            trace: None,
        };
        Ok((number, Down::Start(Box::new(start))))
    }

    /// Starts a job, and waits until it runs.
    pub(super) async fn run(&mut self, job: Job) -> Result<u64, String> {
        let number = self.start(job).await?;
        match self.began(number).await? {
            Began::Started => Ok(number),
            other => Err(format!("the job {number} did not start: {other:?}")),
        }
    }

    pub(super) async fn stop(&mut self, job: u64) -> Result<(), String> {
        self.table.stop(job);
        self.tell(&Down::Stop { job, why: "stopped".to_owned(), within_ms: 10_000 }).await
    }

    /// Stops a job, and waits until it has ended as it was told to.
    pub(super) async fn stopped(&mut self, job: u64) -> Result<(), String> {
        self.stop(job).await?;
        match self.ended(job).await? {
            End::Stopped => Ok(()),
            other => Err(format!("the job {job} was told to stop, and has {other:?}")),
        }
    }

    pub(super) async fn note(
        &mut self,
        job: u64,
        refusals: u32,
        text: &str,
    ) -> Result<Receiver<Noted>, String> {
        let (n, noted) = self.table.note(job).ok_or("the job has ended")?;
        let body = Body::of(text.as_bytes());
        self.tell(&Down::Notify { job, n, refusals, body }).await?;
        Ok(noted)
    }

    /// Gives a job a notification, and waits until it is done.
    pub(super) async fn noted(&mut self, job: u64, text: &str) -> Result<(), String> {
        let mut noted = self.note(job, 0, text).await?;
        let noted = self.until("an ack", |_| noted.try_recv().ok()).await?;
        let done = Noted { retry: None, error: None };
        if noted == done { Ok(()) } else { Err(format!("the notification is not done: {noted:?}")) }
    }

    pub(super) async fn ask(&mut self, job: u64, text: &str) -> Result<u64, String> {
        let n = self.table.ask(job, self.answers.len() as u64 + 1, |_| true);
        let n = n.map_err(|_| "the job has ended".to_owned())?;
        let body = Body::of(text.as_bytes());
        let (id, asker) = (format!("ask-{n}"), "check".to_owned());
        self.tell(&Down::Ask { job, n, id, asker, within_ms: 10_000, body }).await?;
        Ok(n)
    }

    pub(super) async fn update(&mut self, job: u64, text: &str) -> Result<Updated, String> {
        let (n, mut updated) = self.table.update(job).ok_or("the job has ended")?;
        self.tell(&Down::Update { job, n, kind: None, body: Body::of(text.as_bytes()) }).await?;
        self.until("updated", |_| updated.try_recv().ok()).await
    }

    pub(super) async fn ok(&mut self, rid: u64, done: Done) -> Result<(), String> {
        self.tell(&Down::Ok { rid, done }).await
    }

    pub(super) async fn error(&mut self, rid: u64, code: &str) -> Result<(), String> {
        self.tell(&Down::Error { rid, code: code.to_owned(), text: "because".to_owned() }).await
    }

    /// How a start came out.
    pub(super) async fn began(&mut self, job: u64) -> Result<Began, String> {
        let begun = |player: &mut Self| {
            let began = player.waits.get_mut(&job)?.began.as_mut()?.try_recv().ok()?;
            player.waits.get_mut(&job)?.began = None;
            Some(began)
        };
        self.until("an answer to start", begun).await
    }

    /// How a job ended, whether it ran or not.
    pub(super) async fn ended(&mut self, job: u64) -> Result<End, String> {
        let end = |player: &mut Self| {
            let waits = player.waits.get_mut(&job)?;
            if let Some(began) = &mut waits.began {
                match began.try_recv().ok()? {
                    Began::Started => waits.began = None,
                    Began::Over(end) => return Some(end),
                    Began::Failed { error, park } => {
                        return Some(End::Ended { error: Some(error), park, lost: false });
                    }
                    Began::Refused { .. } => return Some(End::Stopped),
                }
            }
            waits.end.try_recv().ok()
        };
        self.until("the last word on a job", end).await
    }

    /// The next status of a job.
    pub(super) async fn status(&mut self, job: u64) -> Result<String, String> {
        let take = |player: &mut Self| {
            let at = player.said.iter().position(|(of, word)| *of == job && word.starts_with("status "))?;
            Some(player.said.remove(at).1.split_off("status ".len()))
        };
        self.until("a status", take).await
    }

    /// The status must be this one.
    pub(super) async fn says(&mut self, job: u64, text: &str) -> Result<(), String> {
        let status = self.status(job).await?;
        if status == text { Ok(()) } else { Err(format!("its status is {status:?}, not {text:?}")) }
    }

    /// Pings the host, and waits for its answer. So all that it said before is heard.
    pub(super) async fn ping(&mut self) -> Result<(), String> {
        self.pings += 1;
        let n = self.pings;
        self.tell(&Down::Ping { n }).await?;
        self.until("pong", |player| (player.ponged >= n).then_some(())).await
    }

    /// Listens until there is a value.
    pub(super) async fn until<T>(
        &mut self,
        what: &str,
        mut value: impl FnMut(&mut Self) -> Option<T>,
    ) -> Result<T, String> {
        let listen = async {
            loop {
                if let Some(value) = value(self) {
                    return Ok(value);
                }
                self.hear().await?;
            }
        };
        match timeout(PATIENCE, listen).await {
            Ok(heard) => heard,
            Err(_) => Err(format!("{what} did not come within {} s", PATIENCE.as_secs())),
        }
    }

    async fn hear(&mut self) -> Result<(), String> {
        let lines = self.lines.as_mut().ok_or("the connection is closed")?;
        let up = match lines.next::<Up>().await {
            Ok(Some(up)) => up,
            Ok(None) => return Err("it closed its connection".to_owned()),
            Err(bad) => return Err(format!("it does not speak the protocol: {bad}")),
        };
        if let Up::Answer { job, .. } | Up::Updated { job, .. } = &up
            && *job < self.next
            && !self.table.has(*job)
        {
            return Err(format!("it has answered for the job {job} after its last word on it"));
        }
        match self.table.hear(up).map_err(|breach| format!("it breaks the protocol: {breach}"))? {
            Heard::Nothing => {}
            Heard::Pong(n) if n > self.pings => return Err(format!("pong {n}, which answers no ping")),
            Heard::Pong(n) => self.ponged = self.ponged.max(n),
            Heard::Bye => self.wants_to_go = true,
            Heard::Progress(job) => self.said.push((job, "progress".to_owned())),
            Heard::Status(job, text) => self.said.push((job, format!("status {text}"))),
            Heard::Last { job, state, .. } => {
                self.states.insert(job, state);
                self.table.end(job, End::Stopped);
            }
            Heard::Checkpoint { rid, state, .. } => self.checkpoints.push_back((rid, state)),
            Heard::Answer(ask, answer) => self.answers.push((ask, answer)),
            Heard::Moved(ask) => self.moved.push(ask),
            Heard::Request(request) => self.requests.push_back(request),
        }
        Ok(())
    }

    /// Waits until the process has ended, and returns its exit status.
    pub(super) async fn exited(&mut self) -> Result<launch::End, String> {
        match timeout(ENDING, first_end(&mut self.child.program.processes)).await {
            Ok(end) => end,
            Err(_) => Err(format!("it has not ended within {} s", ENDING.as_secs())),
        }
    }

    /// Ends a host whose scenario is over. It may have ended, or is killed.
    pub(super) async fn end(mut self) -> Result<(), String> {
        let heard = if self.to.is_some() && self.pings > 0 { self.ping().await } else { Ok(()) };
        self.kill().await;
        heard
    }

    pub(super) async fn kill(mut self) {
        self.child.program.processes.kill().await;
    }

    /// The JSON of a payload that runs until it is stopped.
    pub(super) fn runs() -> Job {
        Job::does(&json!({"do": "run"}))
    }
}
