//! The book of leases: until when each job's processes may run. The node writes it, and each keeper reads its own line,
//! even while the node hangs.

use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use rustix::fs::{MemfdFlags, memfd_create};
use tenure_pool::LeaseGuard;

use super::clock;

/// The length of a line: a number of milliseconds since boot.
const LINE: u64 = 8;

/// The book of a node, in memory that other processes can read.
#[derive(Debug)]
pub(crate) struct Book {
    file: File,
    /// The time from the lease's end to that of the last process: 0.2 of the worker TTL.
    extra: Duration,
    lines: Mutex<Lines>,
}

#[derive(Debug, Default)]
struct Lines {
    terms: Vec<Vec<Term>>,
    free: Vec<usize>,
}

/// A lease that a line rests on.
#[derive(Debug)]
struct Term {
    number: u64,
    lease: LeaseGuard,
    until: u64,
}

/// The time of a line without a lease, when its processes have no job.
const FAR: u64 = 1 << 50;

/// The end of the lease that ends first.
fn first_end(terms: &[Term]) -> u64 {
    terms.iter().map(|term| term.until).min().unwrap_or(FAR)
}

/// A line of the book. It is free again when this is dropped.
#[derive(Debug)]
pub(crate) struct Line {
    book: Arc<Book>,
    at: usize,
}

impl Book {
    /// An empty book for leases of this worker TTL.
    ///
    /// # Errors
    /// There is no memory for it.
    pub(crate) fn new(ttl: Duration) -> io::Result<Self> {
        let file = memfd_create("tenure-leases", MemfdFlags::CLOEXEC)?.into();
        // A lease ends at 0.6 T, and handlers must be dead soon after 0.8 T.
        Ok(Self { file, extra: ttl / 5, lines: Mutex::default() })
    }

    /// Where other processes find it, while this one lives.
    pub(crate) fn path(&self) -> PathBuf {
        path_of(self.file.as_raw_fd())
    }

    fn lines(&self) -> MutexGuard<'_, Lines> {
        self.lines.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A line for a job under this lease. None if the lease is over.
    ///
    /// # Errors
    /// There is no memory for it.
    pub(crate) fn enter(self: &Arc<Self>, lease: &LeaseGuard) -> io::Result<Option<Line>> {
        let Some(until) = self.until(lease) else { return Ok(None) };
        self.line(vec![Term { number: 0, lease: lease.clone(), until }]).map(Some)
    }

    /// A line for processes that have no job, and may have jobs under several leases.
    ///
    /// # Errors
    /// There is no memory for it.
    pub(crate) fn open(self: &Arc<Self>) -> io::Result<Line> {
        self.line(Vec::new())
    }

    fn line(self: &Arc<Self>, terms: Vec<Term>) -> io::Result<Line> {
        let mut lines = self.lines();
        let until = first_end(&terms);
        let at = lines.free.pop().unwrap_or_else(|| {
            lines.terms.push(Vec::new());
            lines.terms.len() - 1
        });
        lines.terms[at] = terms;
        let line = Line { book: self.clone(), at };
        let written = self.file.write_all_at(&until.to_le_bytes(), at as u64 * LINE);
        // A line that is dropped takes the lock.
        drop(lines);
        written.map(|()| line)
    }

    /// Writes the book anew. A lease that is over keeps its time.
    ///
    /// # Errors
    /// It cannot be written. Its times are then too early, never too late.
    pub(crate) fn renew(&self) -> io::Result<()> {
        let mut lines = self.lines();
        for term in lines.terms.iter_mut().flatten() {
            if let Some(later) = self.until(&term.lease) {
                term.until = later.max(term.until);
            }
        }
        let bytes: Vec<_> = lines.terms.iter().flat_map(|terms| first_end(terms).to_le_bytes()).collect();
        self.file.write_all_at(&bytes, 0)
    }

    /// Until when processes may run under this lease. None if it is over.
    fn until(&self, lease: &LeaseGuard) -> Option<u64> {
        // The clock is read first: what comes between makes the time earlier.
        let now = clock::now();
        let left = lease.remaining();
        let left = u64::try_from((left + self.extra).as_millis()).ok().filter(|_| !left.is_zero())?;
        Some(now + left)
    }
}

impl Line {
    pub(crate) fn number(&self) -> usize {
        self.at
    }

    /// The line rests on this lease, too, which the caller knows by this number. False: the lease is over, and nothing has
    /// changed. The line may now end sooner, which its reader has to be told.
    ///
    /// # Errors
    /// It cannot be written.
    pub(crate) fn add(&self, number: u64, lease: &LeaseGuard) -> io::Result<bool> {
        let Some(until) = self.book.until(lease) else { return Ok(false) };
        let mut lines = self.book.lines();
        lines.terms[self.at].push(Term { number, lease: lease.clone(), until });
        self.write(&lines).map(|()| true)
    }

    /// The line rests on the lease of this number no longer.
    ///
    /// # Errors
    /// It cannot be written. Its time is then too early, never too late.
    pub(crate) fn remove(&self, number: u64) -> io::Result<()> {
        let mut lines = self.book.lines();
        lines.terms[self.at].retain(|term| term.number != number);
        self.write(&lines)
    }

    fn write(&self, lines: &Lines) -> io::Result<()> {
        let until = first_end(&lines.terms[self.at]);
        self.book.file.write_all_at(&until.to_le_bytes(), self.at as u64 * LINE)
    }
}

impl Drop for Line {
    fn drop(&mut self) {
        let mut lines = self.book.lines();
        lines.terms[self.at] = Vec::new();
        lines.free.push(self.at);
    }
}

/// A keeper's view of its line.
#[derive(Debug)]
pub(crate) struct Reader {
    file: File,
    at: u64,
}

impl Reader {
    /// Opens the line of this number.
    ///
    /// # Errors
    /// The node has gone, or its book may not be read.
    pub(crate) fn open(book: &Path, line: usize) -> io::Result<Self> {
        Ok(Self { file: File::open(book)?, at: line as u64 * LINE })
    }

    /// Until when the job's processes may run. Zero, if the book cannot be read.
    pub(crate) fn until(&self) -> u64 {
        let mut bytes = [0; 8];
        self.file.read_exact_at(&mut bytes, self.at).map_or(0, |()| u64::from_le_bytes(bytes))
    }
}

/// Bytes in memory that a child can open as a file.
///
/// # Errors
/// There is no memory for them.
pub(crate) fn in_memory(bytes: &[u8]) -> io::Result<(OwnedFd, PathBuf)> {
    let file = File::from(memfd_create("tenure-input", MemfdFlags::CLOEXEC)?);
    file.write_all_at(bytes, 0)?;
    let path = path_of(file.as_raw_fd());
    Ok((file.into(), path))
}

fn path_of(fd: i32) -> PathBuf {
    format!("/proc/{}/fd/{fd}", std::process::id()).into()
}
