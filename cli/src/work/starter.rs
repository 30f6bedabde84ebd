//! The means by which a node starts programs, and a running program with the readers of its output.

use std::io;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Weak};
use std::thread;
use std::time::Duration;

use tokio::task::JoinHandle;
use tokio::time::timeout;

use super::book::{Book, Line};
use super::cgroup::Groups;
use super::folder::Folder;
use super::guard::Guarded;
use super::launch::End;
use super::logs::{self, Last, Lines, Source, Stream, Target, Writer};
use super::options::Logging;
use super::process::{Output, Processes, Program, blocking};
use crate::exit::Failure;

/// How often in a worker TTL the book of leases is written.
const RENEWALS: u32 = 20;
/// How long the end of a program's output may take, when no process of it is left.
const LAST_WORDS: Duration = Duration::from_secs(1);

/// All that the programs of a node are started with.
pub(crate) struct Starter {
    pub(crate) book: Arc<Book>,
    guarded: Guarded,
    groups: Option<Groups>,
    outlet: Outlet,
    /// The number of the next folder or group.
    next: AtomicU64,
}

/// Where the output of programs goes.
pub(crate) struct Outlet {
    target: Target,
    lines: Option<Lines>,
}

impl Outlet {
    /// Opens it. The writer has to be ended after the programs.
    ///
    /// # Errors
    /// The output has no place.
    pub(crate) fn open(
        log: &Logging,
        usual: impl FnOnce() -> Target,
    ) -> Result<(Self, Option<Writer>), Failure> {
        let target = log.logs.clone().unwrap_or_else(usual);
        let writer = Writer::start(&target, log.log_max)
            .map_err(|error| Failure::usage(format!("the output of programs has no place: {error}")))?;
        let (writer, lines) = writer.unzip();
        Ok((Self { target, lines }, writer))
    }
}

impl Starter {
    /// Opens the book of leases, too, and has it written from now on.
    ///
    /// # Errors
    /// There is no memory or no thread for the book.
    pub(crate) fn new(
        ttl: Duration,
        guarded: Guarded,
        groups: Option<Groups>,
        outlet: Outlet,
    ) -> io::Result<Self> {
        let book = Arc::new(Book::new(ttl)?);
        renew(&book, ttl)?;
        Ok(Self { book, guarded, groups, outlet, next: AtomicU64::new(0) })
    }

    fn number(&self) -> u64 {
        self.next.fetch_add(1, Ordering::Relaxed)
    }

    /// Makes a folder for a program. Its name begins with this.
    ///
    /// # Errors
    /// It cannot be made.
    pub(crate) fn folder(&self, name: &str) -> io::Result<Folder> {
        Folder::make(self.guarded.folder.join(format!("{name}{}", self.number())))
    }

    /// Starts a program under the leases of this line. Its output comes from `source`; with `takes_out`, the caller reads its
    /// standard output instead.
    ///
    /// # Errors
    /// The machine cannot start it.
    pub(crate) fn start(
        &self,
        program: Program,
        line: Arc<Line>,
        source: Source,
        takes_out: bool,
    ) -> io::Result<Started> {
        let memory = program.confines.memory;
        let cgroup = self.groups.as_ref().map(|groups| groups.add(self.number(), memory)).transpose()?;
        let usual = match (&self.outlet.lines, &self.outlet.target) {
            (Some(_), _) => Output::Read,
            (None, Target::Inherit) => Output::Inherit,
            (None, _) => Output::Null,
        };
        let to = if takes_out { &Output::Read } else { &usual };
        let started = blocking(|| {
            Processes::start(program, (&self.book, line), cgroup, (to, &usual), self.guarded.guard)
        });
        let (processes, (mut stdout, stderr)) = started?;
        let out = if takes_out { stdout.take() } else { None };
        let last = Arc::new(Last::default());
        let mut readers = Vec::new();
        if let Some(lines) = &self.outlet.lines {
            let source = Arc::new(source);
            let streams = [(stdout, Stream::Out, None), (stderr, Stream::Err, Some(last.clone()))];
            for (from, stream, last) in streams {
                let Some(from) = from else { continue };
                let reading = logs::read(from, stream, source.clone(), lines.clone(), last);
                readers.push(tokio::spawn(async move {
                    if let Err(error) = reading.await {
                        tracing::warn!(%error, "a program's output cannot be read any more");
                    }
                }));
            }
        }
        Ok(Started { processes, out, last, readers })
    }
}

/// Writes the book of leases again and again, on a thread of its own: no job delays it.
///
/// # Errors
/// There is no thread.
fn renew(book: &Arc<Book>, ttl: Duration) -> io::Result<()> {
    let every = ttl / RENEWALS;
    let book: Weak<Book> = Arc::downgrade(book);
    let run = move || {
        while let Some(book) = book.upgrade() {
            if let Err(error) = book.renew() {
                tracing::error!(%error, "the book of leases cannot be written: jobs will be killed");
            }
            drop(book);
            thread::sleep(every);
        }
    };
    thread::Builder::new().name("leases".to_owned()).spawn(run).map(drop)
}

/// A program, from its start until nothing of it is left.
pub(crate) struct Started {
    pub(crate) processes: Processes,
    /// Its standard output, for a caller that takes it.
    pub(crate) out: Option<OwnedFd>,
    /// The last lines of its standard error.
    pub(crate) last: Arc<Last>,
    readers: Vec<JoinHandle<()>>,
}

impl Started {
    /// The program has ended: waits for the end of all others, and for their last output.
    pub(crate) async fn finish(&mut self) {
        self.processes.finish().await;
        self.hear_out().await;
    }

    /// Kills all processes, and waits for their last output.
    pub(crate) async fn kill(&mut self) {
        self.processes.kill().await;
        self.hear_out().await;
    }

    async fn hear_out(&mut self) {
        for reader in self.readers.drain(..) {
            // Nobody can write any more. If it takes long, its reader goes on alone.
            let _ = timeout(LAST_WORDS, reader).await;
        }
    }

    /// Its end for people, with the last of its words.
    pub(crate) fn told(&self, end: End) -> String {
        self.processes.told(end, &self.last.text())
    }
}
