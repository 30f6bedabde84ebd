//! The handler of a node's workers: each job is a run of the program.

use std::collections::HashMap;
use std::future::Future;
use std::io;
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use rustix::process::Pid;
use tenure_pool::job::NotYet;
use tenure_pool::{Ask, BoxError, Job, JobEnd, JobHandler, JobKey, Node, Start, Token};
use tokio::sync::Semaphore;
use tokio::task::JoinHandle;

use super::able::Able;
use super::book::Book;
use super::cgroup::Groups;
use super::desk::{Desk, Talk};
use super::folder::Folder;
use super::launch::{End, Word};
use super::logs::{self, Last, Lines, Source, Stream, Target, gather};
use super::options::Work;
use super::plan::{self, Facts, NoProgram};
use super::process::{Output, Processes, Program, blocking};
use super::run::Run;
use crate::out::shown;

/// The pause after the first failure of a command for a notification. It doubles with each one.
const PAUSE: Duration = Duration::from_secs(1);
const PAUSE_MAX: Duration = Duration::from_secs(60);

/// An answer may have this many bytes. A longer one is not read to its end.
const ANSWER_MAX: usize = 64 << 10;

/// The parts that all runs of a node share.
pub(super) struct Handler {
    pub(super) work: Arc<Work>,
    pub(super) facts: Facts,
    pub(super) book: Arc<Book>,
    pub(super) groups: Option<Groups>,
    pub(super) guard: Pid,
    pub(super) folder: PathBuf,
    pub(super) target: Target,
    pub(super) lines: Option<Lines>,
    /// How many processes are started at once.
    pub(super) starts: Semaphore,
    pub(super) numbers: AtomicU64,
    pub(super) talks: Talks,
    pub(super) able: Arc<Able>,
    pub(super) node: Node,
}

/// The jobs that run, for their notifications.
#[derive(Debug, Default)]
pub(super) struct Talks(Mutex<HashMap<JobKey, Place>>);

/// Where a job's processes talk.
type Place = (Arc<Talk>, Arc<Folder>);

impl Talks {
    fn all(&self) -> MutexGuard<'_, HashMap<JobKey, Place>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn of(&self, job: &Job) -> Option<Place> {
        self.all().get(job.key()).filter(|(talk, _)| talk.job.token() == job.token()).cloned()
    }
}

/// Removes the job when its run is over.
struct Entry {
    handler: Arc<Handler>,
    key: JobKey,
    token: Token,
}

impl Drop for Entry {
    fn drop(&mut self) {
        let mut all = self.handler.talks.all();
        if all.get(&self.key).is_some_and(|(talk, _)| talk.job.token() == self.token) {
            all.remove(&self.key);
        }
    }
}

/// A handler that its runs can hold.
pub(super) struct Shared(pub(super) Arc<Handler>);

impl JobHandler for Shared {
    async fn start(&self, job: Job) -> Start {
        let run = match self.0.begin(&job).await {
            Ok(run) => run,
            Err(NoProgram::Job(why)) => return Start::Failed(JobEnd::Park(why).into()),
            Err(NoProgram::Machine(error)) => {
                let why = error.to_string();
                self.0.able.refused(&job, &why);
                tracing::warn!(key = %job.key(), %error, "a job's processes cannot be started here, another worker is asked");
                return Start::Unable { why };
            }
        };
        let (talk, folder) = (run.talk.clone(), run.folder.clone());
        self.0.talks.all().insert(job.key().clone(), (talk, folder));
        let entry = Entry { handler: self.0.clone(), key: job.key().clone(), token: job.token() };
        match run.start().await {
            Start::Running(body) => Start::Running(Box::pin(async move {
                let _entry = entry;
                body.await
            })),
            start => start,
        }
    }

    async fn notify(&self, job: &Job, body: Bytes) -> Result<(), BoxError> {
        // A job that has ended takes nothing: its next owner does.
        let Some((talk, folder)) = self.0.talks.of(job) else { return std::future::pending().await };
        match &self.0.work.start.on_notify {
            None => {
                talk.notes.offer(body).await;
                Ok(())
            }
            Some(command) => {
                let Err(Undone { why, .. }) = self.0.run_for(command, job, &folder, &body, None).await else {
                    return Ok(());
                };
                let pause = PAUSE.saturating_mul(1 << job.refusals().min(10)).min(PAUSE_MAX);
                tracing::warn!(key = %job.key(), why, ?pause, "the command for a notification failed, it comes again");
                Err(NotYet::after(pause).because(why).into())
            }
        }
    }

    async fn ask(&self, job: &Job, ask: Ask) {
        let Some(command) = &self.0.work.start.on_ask else {
            return ask.unhandled();
        };
        // A job that has ended takes nothing. This ask is told as moved.
        let Some((_, folder)) = self.0.talks.of(job) else { return std::future::pending().await };
        let mut answer = Vec::new();
        let answering = self.0.run_for(command, job, &folder, ask.body(), Some(&mut answer));
        // Nobody hears a later answer.
        let Ok(done) = tokio::time::timeout(ask.left(), answering).await else { return };
        match done {
            Ok(()) if answer.len() <= ANSWER_MAX => ask.answer(answer),
            Ok(()) => ask.refuse(format_args!("the answer has more than {ANSWER_MAX} bytes")),
            Err(Undone { status: Some(MOVED), .. }) => ask.moved(),
            Err(Undone { why, .. }) => ask.refuse(why),
        }
    }
}

impl Handler {
    /// Starts the processes of a job.
    async fn begin(&self, job: &Job) -> Result<Run, NoProgram> {
        let number = self.numbers.fetch_add(1, Ordering::Relaxed);
        let folder = Arc::new(Folder::make(self.folder.join(number.to_string()))?);
        let program = plan::program(&self.work, &self.facts, job, &folder)?;
        let talk = Arc::new(Talk::new(job.clone(), self.node.clone()));
        let desk = Desk::open(&folder, &talk, plan::takes_sd_notify(&self.work))?;
        let (processes, readers, last) = self.launch(program, job, number, None).await?;
        let (work, ttl) = (self.work.clone(), self.facts.ttl);
        let able = self.able.clone();
        Ok(Run { processes, talk, last, readers, work, ttl, able, _desk: desk, folder })
    }

    /// Starts a program for the job, and the readers of its output. `out` takes its standard output instead, if it is
    /// given.
    async fn launch(
        &self,
        program: Program,
        job: &Job,
        number: u64,
        out: Option<&mut Option<OwnedFd>>,
    ) -> io::Result<(Processes, Vec<JoinHandle<()>>, Arc<Last>)> {
        let _permit = self.starts.acquire().await.map_err(io::Error::other)?;
        let over = || io::Error::other("its lease is over");
        let line = self.book.enter(job.lease())?.ok_or_else(over)?;
        let memory = program.confines.memory;
        let cgroup = self.groups.as_ref().map(|groups| groups.add(number, memory)).transpose()?;
        let usual = match (&self.lines, &self.target) {
            (Some(_), _) => Output::Read,
            (None, Target::Inherit) => Output::Inherit,
            (None, _) => Output::Null,
        };
        let to = if out.is_some() { &Output::Read } else { &usual };
        let started = blocking(|| {
            Processes::start(program, (&self.book, line.into()), cgroup, (to, &usual), self.guard)
        });
        let (processes, (mut stdout, stderr)) = started?;
        if let Some(out) = out {
            *out = stdout.take();
        }
        let last = Arc::new(Last::default());
        let mut readers = Vec::new();
        if let Some(lines) = &self.lines {
            let (key, token) = (shown::key(job.key()), job.token().0);
            let name = job.key().as_bytes().to_vec();
            let source = Arc::new(Source { key, name, token, waiting: AtomicUsize::new(0) });
            let streams = [(stdout, Stream::Out, None), (stderr, Stream::Err, Some(last.clone()))];
            for (from, stream, last) in streams {
                let Some(from) = from else { continue };
                let reading = logs::read(from, stream, source.clone(), lines.clone(), last);
                readers.push(tokio::spawn(told_of_failure(reading)));
            }
        }
        Ok((processes, readers, last))
    }

    /// Runs a command for a message to the job, to its end. `answer` takes its standard output, if it is given.
    ///
    /// # Errors
    /// Why it failed.
    async fn run_for(
        &self,
        command: &str,
        job: &Job,
        folder: &Folder,
        body: &Bytes,
        answer: Option<&mut Vec<u8>>,
    ) -> Result<(), Undone> {
        let program = plan::on_message(command, (&self.work, &self.facts), job, folder, body.to_vec());
        let program = program.map_err(|no| no.to_string())?;
        let number = self.numbers.fetch_add(1, Ordering::Relaxed);
        let mut out = None;
        let taken = answer.is_some().then_some(&mut out);
        let launched = self.launch(program, job, number, taken).await;
        let (mut processes, readers, last) = launched.map_err(|error| error.to_string())?;
        let ending = async {
            let word = loop {
                match processes.next().await {
                    Word::Started(_) => {}
                    word => break word,
                }
            };
            processes.finish().await;
            word
        };
        let word = match (answer, out) {
            // It has at most the bytes of the longest answer and one more. The rest is read and dropped.
            (Some(answer), Some(out)) => {
                let (word, read) = tokio::join!(ending, gather(out, ANSWER_MAX + 1));
                *answer = read.map_err(|error| format!("the answer cannot be read: {error}"))?;
                word
            }
            _ => ending.await,
        };
        for reader in readers {
            let _ = tokio::time::timeout(Duration::from_secs(1), reader).await;
        }
        match word {
            Word::Ended(End::Exit(0)) => Ok(()),
            Word::Ended(end) => {
                let status = if let End::Exit(status) = end { Some(status) } else { None };
                Err(Undone { status, why: processes.told(end, &last.text()) })
            }
            Word::NotStarted(why) => Err(why.into()),
            _ => Err("it was killed".to_owned().into()),
        }
    }
}

/// The exit status of a command that sends its ask to the key's next owner: `EX_TEMPFAIL`.
const MOVED: i32 = 75;

/// A command for a message that has not done it.
struct Undone {
    /// Its exit status, if it has ended by itself.
    status: Option<i32>,
    why: String,
}

impl From<String> for Undone {
    fn from(why: String) -> Self {
        Self { status: None, why }
    }
}

async fn told_of_failure(reading: impl Future<Output = io::Result<()>>) {
    if let Err(error) = reading.await {
        tracing::warn!(%error, "a program's output cannot be read any more");
    }
}
