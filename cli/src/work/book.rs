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
pub(super) struct Book {
    file: File,
    /// The time from the lease's end to that of the last process: 0.2 of the worker TTL.
    extra: Duration,
    lines: Mutex<Lines>,
}

#[derive(Debug, Default)]
struct Lines {
    untils: Vec<u64>,
    leases: Vec<Option<LeaseGuard>>,
    free: Vec<usize>,
}

/// A line of the book. It is free again when this is dropped.
#[derive(Debug)]
pub(super) struct Line {
    book: Arc<Book>,
    at: usize,
}

impl Book {
    /// An empty book for leases of this worker TTL.
    ///
    /// # Errors
    /// There is no memory for it.
    pub(super) fn new(ttl: Duration) -> io::Result<Self> {
        let file = memfd_create("tenure-leases", MemfdFlags::CLOEXEC)?.into();
        // A lease ends at 0.6 T, and handlers must be dead soon after 0.8 T.
        Ok(Self { file, extra: ttl / 5, lines: Mutex::default() })
    }

    /// Where other processes find it, while this one lives.
    pub(super) fn path(&self) -> PathBuf {
        path_of(self.file.as_raw_fd())
    }

    fn lines(&self) -> MutexGuard<'_, Lines> {
        self.lines.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A line for a job under this lease. None if the lease is over.
    ///
    /// # Errors
    /// There is no memory for it.
    pub(super) fn enter(self: &Arc<Self>, lease: &LeaseGuard) -> io::Result<Option<Line>> {
        let Some(until) = self.until(lease) else { return Ok(None) };
        let mut lines = self.lines();
        let at = lines.free.pop().unwrap_or_else(|| {
            lines.untils.push(0);
            lines.leases.push(None);
            lines.untils.len() - 1
        });
        lines.untils[at] = until;
        lines.leases[at] = Some(lease.clone());
        let line = Line { book: self.clone(), at };
        self.file.write_all_at(&until.to_le_bytes(), at as u64 * LINE)?;
        Ok(Some(line))
    }

    /// Writes the book anew. A lease that is over keeps its time.
    ///
    /// # Errors
    /// It cannot be written. Its times are then too early, never too late.
    pub(super) fn renew(&self) -> io::Result<()> {
        let mut lines = self.lines();
        let Lines { untils, leases, .. } = &mut *lines;
        for (until, lease) in untils.iter_mut().zip(leases.iter()) {
            if let Some(later) = lease.as_ref().and_then(|lease| self.until(lease)) {
                *until = later.max(*until);
            }
        }
        let bytes: Vec<_> = untils.iter().flat_map(|until| until.to_le_bytes()).collect();
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
    pub(super) fn number(&self) -> usize {
        self.at
    }
}

impl Drop for Line {
    fn drop(&mut self) {
        let mut lines = self.book.lines();
        lines.untils[self.at] = 0;
        lines.leases[self.at] = None;
        lines.free.push(self.at);
    }
}

/// A keeper's view of its line.
#[derive(Debug)]
pub(super) struct Reader {
    file: File,
    at: u64,
}

impl Reader {
    /// Opens the line of this number.
    ///
    /// # Errors
    /// The node has gone, or its book may not be read.
    pub(super) fn open(book: &Path, line: usize) -> io::Result<Self> {
        Ok(Self { file: File::open(book)?, at: line as u64 * LINE })
    }

    /// Until when the job's processes may run. Zero, if the book cannot be read.
    pub(super) fn until(&self) -> u64 {
        let mut bytes = [0; 8];
        self.file.read_exact_at(&mut bytes, self.at).map_or(0, |()| u64::from_le_bytes(bytes))
    }
}

/// Bytes in memory that a child can open as a file.
///
/// # Errors
/// There is no memory for them.
pub(super) fn in_memory(bytes: &[u8]) -> io::Result<(OwnedFd, PathBuf)> {
    let file = File::from(memfd_create("tenure-input", MemfdFlags::CLOEXEC)?);
    file.write_all_at(bytes, 0)?;
    let path = path_of(file.as_raw_fd());
    Ok((file.into(), path))
}

fn path_of(fd: i32) -> PathBuf {
    format!("/proc/{}/fd/{fd}", std::process::id()).into()
}
