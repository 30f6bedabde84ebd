//! The handler of a node's workers: each job is a run of the program.

use std::collections::HashMap;
use std::io;
use std::sync::atomic::AtomicUsize;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use tenure_pool::job::NotYet;
use tenure_pool::{Ask, BoxError, Job, JobEnd, JobHandler, JobKey, Node, Start, Token};
use tokio::sync::Semaphore;

use super::able::Able;
use super::desk::{Desk, Talk};
use super::folder::Folder;
use super::launch::{End, Word};
use super::logs::{Source, gather};
use super::options::Work;
use super::plan::{self, Facts, NoProgram};
use super::process::Program;
use super::run::Run;
use super::starter::{Started, Starter};
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
    pub(super) starter: Starter,
    /// How many processes are started at once.
    pub(super) starts: Semaphore,
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
        let folder = Arc::new(self.starter.folder("")?);
        let program = plan::program(&self.work, &self.facts, job, &folder)?;
        let talk = Arc::new(Talk::new(job.clone(), self.node.clone()));
        let desk = Desk::open(&folder, &talk, plan::takes_sd_notify(&self.work))?;
        let program = self.launch(program, job, false).await?;
        let (work, ttl) = (self.work.clone(), self.facts.ttl);
        let able = self.able.clone();
        Ok(Run { program, talk, work, ttl, able, _desk: desk, folder })
    }

    /// Starts a program for the job. With `takes_out`, the caller reads its standard output.
    async fn launch(&self, program: Program, job: &Job, takes_out: bool) -> io::Result<Started> {
        let _permit = self.starts.acquire().await.map_err(io::Error::other)?;
        let over = || io::Error::other("its lease is over");
        let line = self.starter.book.enter(job.lease())?.ok_or_else(over)?;
        let (key, token) = (shown::key(job.key()), job.token().0);
        let name = job.key().as_bytes().to_vec();
        let source = Source { key, name, token, waiting: AtomicUsize::new(0) };
        self.starter.start(program, line.into(), source, takes_out)
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
        let launched = self.launch(program, job, answer.is_some()).await;
        let mut program = launched.map_err(|error| error.to_string())?;
        let out = program.out.take();
        let ending = async {
            let word = loop {
                match program.processes.next().await {
                    Word::Started(_) => {}
                    word => break word,
                }
            };
            program.finish().await;
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
        match word {
            Word::Ended(End::Exit(0)) => Ok(()),
            Word::Ended(end) => {
                let status = if let End::Exit(status) = end { Some(status) } else { None };
                Err(Undone { status, why: program.told(end) })
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
