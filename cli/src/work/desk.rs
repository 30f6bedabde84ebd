//! A job's desk: the socket at which its processes say that they are ready, take notifications and leave checkpoints.
//!
//! Each job has a desk of its own, with bounds of its own. So a program that floods it hurts its own key only.

use std::fmt::Display;
use std::io;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde::{Deserialize, Serialize};
use tenure_pool::{Job, JobKey, Node};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{UnixDatagram, UnixListener, UnixStream};
use tokio::sync::{Notify, Semaphore};
use tokio::task::JoinSet;
use tokio::time::timeout;

use super::clock;
use super::folder::Folder;
use super::notes::Notes;

/// The name of the socket in the job's folder, and of that for systemd's notifications.
pub(super) const SOCKET: &str = "desk";
pub(super) const NOTIFY_SOCKET: &str = "notify";
/// How many of a job's processes may talk at once. Others wait.
const TALKS: usize = 16;
/// How long a question may take to arrive.
const ARRIVAL: Duration = Duration::from_secs(5);
/// The longest question: a checkpoint of the longest kind in base 64, and some room.
const QUESTION_MAX: u64 = 2 << 20;
/// The longest status.
const STATUS_MAX: usize = 256;

/// A question of a job's process, as one line of JSON. One connection asks one.
#[derive(Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "op", rename_all = "snake_case")]
pub(super) enum Question {
    /// The program is ready.
    Ready {},
    /// A text for people.
    Status { text: String },
    /// The program is alive.
    Progress {},
    /// Take the next notification; the one before is done.
    Next {
        /// How long to wait, in milliseconds. For ever, if it is not said.
        wait_ms: Option<u64>,
    },
    /// The notification that was taken is done.
    Ack {},
    /// Keep this state.
    Checkpoint { body64: String },
    /// How long the lease lasts.
    Lease {},
    /// Dispatch a job of the pool.
    Dispatch { key64: String, body64: String },
    /// Leave a notification for a job of the pool.
    Notify { key64: String, body64: String },
}

/// The answer.
#[derive(Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) struct Answer {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) error: Option<String>,
    /// A notification.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) body64: Option<String>,
    /// How long the lease lasts, in milliseconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) left_ms: Option<u64>,
    /// Nothing came in time.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(super) late: bool,
}

/// The state that a job's processes and its handler share.
#[derive(Debug)]
pub(super) struct Talk {
    pub(super) job: Job,
    /// The pool.
    node: Node,
    pub(super) notes: Notes,
    is_ready: AtomicBool,
    ready: Notify,
    status: Mutex<String>,
    /// When it last gave a sign of life, by the clock of leases.
    alive_at: AtomicU64,
    /// Until when it may start, if it has asked for more time.
    more_until: AtomicU64,
    /// It says that it is broken.
    gives_up: AtomicBool,
    given_up: Notify,
}

impl Talk {
    pub(super) fn new(job: Job, node: Node) -> Self {
        Self {
            job,
            node,
            notes: Notes::default(),
            is_ready: AtomicBool::new(false),
            ready: Notify::new(),
            status: Mutex::default(),
            alive_at: AtomicU64::new(clock::now()),
            more_until: AtomicU64::new(0),
            gives_up: AtomicBool::new(false),
            given_up: Notify::new(),
        }
    }

    /// Waits until it is ready.
    ///
    /// # Cancel safety
    /// Safe.
    pub(super) async fn ready(&self) {
        let mut ready = std::pin::pin!(self.ready.notified());
        ready.as_mut().enable();
        if !self.is_ready.load(Ordering::Acquire) {
            ready.await;
        }
    }

    /// How much more time it has asked for. Zero, if it has not, or the time is over.
    pub(super) fn more_time(&self) -> Duration {
        Duration::from_millis(self.more_until.load(Ordering::Relaxed).saturating_sub(clock::now()))
    }

    /// Waits until it says that it is broken.
    ///
    /// # Cancel safety
    /// Safe.
    pub(super) async fn given_up(&self) {
        let mut given_up = std::pin::pin!(self.given_up.notified());
        given_up.as_mut().enable();
        if !self.gives_up.load(Ordering::Acquire) {
            given_up.await;
        }
    }

    /// How long ago it gave a sign of life.
    pub(super) fn silent_for(&self) -> Duration {
        Duration::from_millis(clock::now().saturating_sub(self.alive_at.load(Ordering::Relaxed)))
    }

    /// The last text that it had for people.
    pub(super) fn status(&self) -> String {
        self.status.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn is_ready(&self) {
        self.is_alive();
        self.is_ready.store(true, Ordering::Release);
        self.ready.notify_waiters();
    }

    pub(super) fn is_alive(&self) {
        self.alive_at.store(clock::now(), Ordering::Relaxed);
        self.job.progress();
    }

    fn says(&self, text: &str) {
        let text: String = text.chars().take(STATUS_MAX).collect();
        tracing::debug!(key = %self.job.key(), status = text, "a job's status");
        *self.status.lock().unwrap_or_else(PoisonError::into_inner) = text;
    }
}

/// The sockets of a job, served until this is dropped.
#[derive(Debug)]
pub(super) struct Desk {
    _tasks: JoinSet<()>,
}

impl Desk {
    /// Opens the desk in the job's folder, and the socket for systemd's notifications if `takes_sd_notify`.
    ///
    /// # Errors
    /// A socket cannot be made.
    pub(super) fn open(folder: &Folder, talk: &Arc<Talk>, takes_sd_notify: bool) -> io::Result<Self> {
        let mut tasks = JoinSet::new();
        let listener = UnixListener::bind(folder.path(SOCKET))?;
        tasks.spawn(serve(listener, talk.clone()));
        if takes_sd_notify {
            let socket = UnixDatagram::bind(folder.path(NOTIFY_SOCKET))?;
            tasks.spawn(hear(socket, talk.clone()));
        }
        Ok(Self { _tasks: tasks })
    }
}

async fn serve(listener: UnixListener, talk: Arc<Talk>) {
    let talks = Arc::new(Semaphore::new(TALKS));
    // The talks end with this task.
    let mut tasks = JoinSet::new();
    while let Ok(permit) = talks.clone().acquire_owned().await {
        let Ok((stream, _)) = listener.accept().await else {
            // The machine has no files left for the moment.
            tokio::time::sleep(Duration::from_millis(100)).await;
            continue;
        };
        while tasks.try_join_next().is_some() {}
        let talk = talk.clone();
        tasks.spawn(async move {
            let _permit = permit;
            // A process that does not listen to its answer hurts itself.
            let _ = converse(stream, &talk).await;
        });
    }
}

async fn converse(mut stream: UnixStream, talk: &Talk) -> io::Result<()> {
    let question = match timeout(ARRIVAL, read(&mut stream)).await {
        Ok(read) => read?,
        Err(_) => return refuse(&mut stream, "the question did not arrive in time").await,
    };
    let question = match serde_json::from_slice(&question) {
        Ok(question) => question,
        Err(error) => return refuse(&mut stream, &format!("this is no question: {error}")).await,
    };
    let Question::Next { wait_ms } = question else {
        return tell(&mut stream, &answer(question, talk).await).await;
    };
    let wait = wait_ms.map_or(Duration::MAX, Duration::from_millis);
    let next = tokio::select! {
        next = timeout(wait, talk.notes.next()) => next,
        () = left(&stream) => return Ok(()),
    };
    let Ok(body) = next else {
        return tell(&mut stream, &Answer { late: true, ..Answer::default() }).await;
    };
    let given = Answer { body64: Some(STANDARD.encode(&body)), ..Answer::default() };
    tell(&mut stream, &given).await.inspect_err(|_| talk.notes.give_back())
}

/// Waits until the one who asks has gone. It has nothing more to say.
async fn left(stream: &UnixStream) {
    while stream.readable().await.is_ok() {
        match stream.try_read(&mut [0]) {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            _ => return,
        }
    }
}

async fn answer(question: Question, talk: &Talk) -> Answer {
    let mut answer = Answer::default();
    match question {
        Question::Ready {} => talk.is_ready(),
        Question::Status { text } => talk.says(&text),
        Question::Progress {} => talk.is_alive(),
        Question::Next { .. } => {}
        Question::Ack {} => talk.notes.done(),
        Question::Checkpoint { body64 } => {
            answer.error = match STANDARD.decode(body64) {
                Ok(body) => talk.job.checkpoint(body).await.err().map(|error| error.to_string()),
                Err(error) => Some(error.to_string()),
            };
        }
        Question::Lease {} => {
            answer.left_ms =
                Some(u64::try_from(talk.job.lease().remaining().as_millis()).unwrap_or(u64::MAX));
        }
        Question::Dispatch { key64, body64 } => {
            let dispatch = async |key, body: Vec<u8>| talk.node.dispatch((key, body)).await.map(drop);
            answer.error = say(&key64, &body64, dispatch).await.err();
        }
        Question::Notify { key64, body64 } => {
            let notify = async |key, body: Vec<u8>| talk.node.notify(&key, body).await;
            answer.error = say(&key64, &body64, notify).await.err();
        }
    }
    answer
}

/// Says something to the pool, of this key and these bytes.
///
/// # Errors
/// They cannot be read, or the pool refuses.
async fn say<E: Display>(
    key64: &str,
    body64: &str,
    say: impl AsyncFnOnce(JobKey, Vec<u8>) -> Result<(), E>,
) -> Result<(), String> {
    let key = STANDARD.decode(key64).map_err(|error| error.to_string())?;
    let key = JobKey::try_from(key.as_slice()).map_err(|error| error.to_string())?;
    let body = STANDARD.decode(body64).map_err(|error| error.to_string())?;
    say(key, body).await.map_err(|error| error.to_string())
}

/// Reads a line.
async fn read(stream: &mut UnixStream) -> io::Result<Vec<u8>> {
    let mut stream = tokio::io::BufReader::with_capacity(512, stream.take(QUESTION_MAX));
    let mut line = Vec::new();
    tokio::io::AsyncBufReadExt::read_until(&mut stream, b'\n', &mut line).await?;
    Ok(line)
}

async fn refuse(stream: &mut UnixStream, why: &str) -> io::Result<()> {
    tell(stream, &Answer { error: Some(why.to_owned()), ..Answer::default() }).await
}

async fn tell(stream: &mut UnixStream, answer: &Answer) -> io::Result<()> {
    let mut line = serde_json::to_vec(answer)?;
    line.push(b'\n');
    match timeout(ARRIVAL, stream.write_all(&line)).await {
        Ok(written) => written,
        Err(late) => Err(late.into()),
    }
}

/// Hears the notifications of systemd's protocol.
async fn hear(socket: UnixDatagram, talk: Arc<Talk>) {
    let mut bytes = vec![0; 4096];
    while let Ok(len) = socket.recv(&mut bytes).await {
        for line in String::from_utf8_lossy(&bytes[..len]).lines() {
            match line.split_once('=') {
                Some(("READY", "1")) => talk.is_ready(),
                Some(("WATCHDOG", "1")) => talk.is_alive(),
                Some(("WATCHDOG", "trigger")) => {
                    talk.gives_up.store(true, Ordering::Release);
                    talk.given_up.notify_waiters();
                }
                Some(("EXTEND_TIMEOUT_USEC", micros)) => {
                    // A value that is no number is passed over, as all that the protocol does not have.
                    let more = micros.parse().map_or(0, |micros| Duration::from_micros(micros).as_millis());
                    let until = clock::now().saturating_add(u64::try_from(more).unwrap_or(u64::MAX));
                    talk.more_until.fetch_max(until, Ordering::Relaxed);
                }
                Some(("STATUS", text)) => talk.says(text),
                // The protocol has more, and programs may say it.
                _ => {}
            }
        }
    }
}
