//! All that a process tells on standard error: the log, panics and the last word. A thread writes, so that no caller waits for
//! a reader, or fails when the reader has gone.
//!
//! Lines that find no room are dropped and counted, and a note says how many as soon as a write succeeds. The end of a process
//! waits for the last lines, for a bounded time.

use std::backtrace::{Backtrace, BacktraceStatus};
use std::fmt::Display;
use std::io::{self, Write};
use std::panic::{self, PanicHookInfo};
use std::sync::{Condvar, Mutex, MutexGuard, OnceLock, PoisonError};
use std::thread;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;
use rustix::stdio::stderr;

/// How many bytes of lines may wait to be written.
const WAITING: usize = 1 << 20;
/// How long the end of the process may wait for its last lines.
const LAST_LINES: Duration = Duration::from_secs(1);

/// The journal of this process, once it has one.
static JOURNAL: OnceLock<Journal> = OnceLock::new();

/// Gives this process a journal. From now on the journal takes panics, too.
///
/// # Errors
/// There is no thread.
pub(crate) fn start() -> io::Result<()> {
    let journal = JOURNAL.get_or_init(Journal::default);
    journal.begin(|| {
        thread::Builder::new().name("journal".to_owned()).spawn(|| journal.write(Stderr))?;
        panic::set_hook(Box::new(|panic| tell(told(panic))));
        Ok(())
    })
}

/// As [`start`], and the journal takes the log, too.
///
/// # Errors
/// There is no thread.
pub(crate) fn log(level: tracing::Level) -> io::Result<()> {
    start()?;
    let colours = anstream::AutoStream::choice(&io::stderr()) != anstream::ColorChoice::Never;
    let log = tracing_subscriber::fmt().with_writer(|| Entry).with_max_level(level).with_ansi(colours);
    // The subscriber would print errors of writing, and panic if the print fails.
    log.log_internal_errors(false).init();
    Ok(())
}

/// Tells something on a line. Without a thread that writes, the caller writes the line, and passes over an error.
pub(crate) fn tell(what: impl Display) {
    let line = format!("{what}\n");
    match JOURNAL.get().filter(|journal| journal.state().is_written) {
        Some(journal) => journal.put(line.as_bytes()),
        None => drop(io::stderr().write_all(line.as_bytes())),
    }
}

/// Waits a little until all lines are written.
fn end() {
    if let Some(journal) = JOURNAL.get() {
        journal.flush(LAST_LINES);
    }
}

/// Ends the process with this status and the last lines.
pub(crate) fn exit(status: u8) -> ! {
    end();
    #[expect(clippy::exit, reason = "nothing is left to tell")]
    std::process::exit(status.into())
}

/// Calls [`end`] when it is dropped.
pub(crate) struct Ends;

impl Drop for Ends {
    fn drop(&mut self) {
        end();
    }
}

/// A panic, as the standard library tells of it.
fn told(panic: &PanicHookInfo<'_>) -> String {
    let thread = thread::current();
    let text = format!("thread '{}' {panic}", thread.name().unwrap_or("<unnamed>"));
    let trace = Backtrace::capture();
    match trace.status() {
        BacktraceStatus::Captured => format!("{text}\nstack backtrace:\n{trace}"),
        _ => text,
    }
}

/// A line of the log on its way into the journal.
struct Entry;

impl Write for Entry {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        if let Some(journal) = JOURNAL.get() {
            journal.put(line);
        }
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Standard error without the lock of the standard library: the holder of the lock may be waiting for the reader.
struct Stderr;

impl Write for Stderr {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        loop {
            match rustix::io::write(stderr(), bytes) {
                // Another process with the same standard error has set the flag.
                Err(Errno::WOULDBLOCK) => {
                    poll(&mut [PollFd::from_borrowed_fd(stderr(), PollFlags::OUT)], None)?;
                }
                written => return Ok(written?),
            }
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[derive(Default)]
struct Journal {
    state: Mutex<State>,
    /// Something was told, or is written.
    changed: Condvar,
}

#[derive(Default)]
struct State {
    /// There is a thread that writes.
    is_written: bool,
    waiting: Vec<u8>,
    /// How many lines found no room after those that wait.
    dropped: u64,
    /// The thread has lines in its hands.
    is_writing: bool,
}

impl State {
    /// Nothing is left to write, and no loss to tell of. A line that is longer than all the room is such a loss.
    fn is_empty(&self) -> bool {
        self.waiting.is_empty() && self.dropped == 0
    }
}

impl Journal {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Starts the thread that writes, unless the thread runs already. `spawn` starts the thread.
    ///
    /// # Errors
    /// There is no thread.
    fn begin(&self, spawn: impl FnOnce() -> io::Result<()>) -> io::Result<()> {
        // The thread waits until this lock is free.
        let mut state = self.state();
        if !state.is_written {
            spawn()?;
            state.is_written = true;
        }
        Ok(())
    }

    /// Takes whole lines, if there is room for them.
    fn put(&self, lines: &[u8]) {
        let mut state = self.state();
        // No short line overtakes a dropped one.
        if state.dropped == 0 && state.waiting.len() + lines.len() <= WAITING {
            state.waiting.extend_from_slice(lines);
        } else {
            state.dropped += lines_in(lines);
        }
        self.changed.notify_all();
    }

    /// Waits until nothing waits, or for this time.
    fn flush(&self, within: Duration) {
        let is_busy = |state: &mut State| state.is_writing || !state.is_empty();
        drop(self.changed.wait_timeout_while(self.state(), within, is_busy));
    }

    /// Writes all that is told.
    fn write(&self, to: impl Write) {
        let (mut lines, mut state) = (Lines { to, missing: 0, is_cut: false }, self.state());
        loop {
            while state.is_empty() {
                state.is_writing = false;
                self.changed.notify_all();
                state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
            }
            state.is_writing = true;
            let (taken, dropped) = (std::mem::take(&mut state.waiting), std::mem::take(&mut state.dropped));
            drop(state);
            lines.write(&taken, dropped);
            state = self.state();
        }
    }
}

/// Lines that may fail to be written.
struct Lines<W> {
    to: W,
    /// How many lines are missing after the last written one, and no note has said so yet.
    missing: u64,
    /// The last line was written in part.
    is_cut: bool,
}

impl<W: Write> Lines<W> {
    /// Writes lines. `dropped` is the number of dropped lines after them.
    fn write(&mut self, lines: &[u8], dropped: u64) {
        let written = if self.note() { self.bytes(lines) } else { 0 };
        self.missing += lines_in(&lines[written..]) + dropped;
        self.note();
    }

    /// Tells how many lines are missing. False: the note cannot be written.
    fn note(&mut self) -> bool {
        let end = if self.is_cut { "\n" } else { "" };
        let note = match self.missing {
            0 => end.to_owned(),
            missing => format!("{end}tenure: {missing} lines are missing here, nobody took them\n"),
        };
        let is_told = self.bytes(note.as_bytes()) == note.len();
        if is_told {
            self.missing = 0;
        }
        is_told
    }

    /// Writes as many bytes as it can, and returns how many.
    fn bytes(&mut self, bytes: &[u8]) -> usize {
        let mut written = 0;
        while written < bytes.len() {
            match self.to.write(&bytes[written..]) {
                Ok(count @ 1..) => written += count,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Ok(0) | Err(_) => break,
            }
        }
        if let Some(last) = bytes[..written].last() {
            self.is_cut = *last != b'\n';
        }
        written
    }
}

fn lines_in(bytes: &[u8]) -> u64 {
    bytes.split(|byte| *byte == b'\n').skip(1).count() as u64
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::sync::Arc;
    use std::sync::mpsc::{Receiver, Sender, channel};

    use super::*;

    /// Takes this many bytes, and fails from then on.
    struct Room(usize, Vec<u8>);

    impl Write for Room {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            let count = bytes.len().min(self.0);
            if count == 0 {
                return Err(io::ErrorKind::StorageFull.into());
            }
            self.0 -= count;
            self.1.extend_from_slice(&bytes[..count]);
            Ok(count)
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn lines_that_cannot_be_written_are_counted_and_told() {
        let mut lines = Lines { to: Room(6, Vec::new()), missing: 0, is_cut: false };
        lines.write(b"one\ntwo\nthree\n", 0);
        lines.write(b"four\n", 5);
        lines.to.0 = 1_000;
        lines.write(b"last\n", 0);
        let text = String::from_utf8(lines.to.1).unwrap();
        assert_eq!(text, "one\ntw\ntenure: 8 lines are missing here, nobody took them\nlast\n");
    }

    /// Says when it is called, and returns when it may.
    struct Slow {
        called: Sender<Vec<u8>>,
        may: Receiver<()>,
    }

    impl Write for Slow {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            // The test is over if these fail.
            let _ = self.called.send(bytes.to_vec());
            let _ = self.may.recv();
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn who_tells_never_waits_for_who_reads() {
        let journal = Arc::new(Journal::default());
        let ((called, calls), (go, may)) = (channel(), channel());
        let written = journal.clone();
        thread::spawn(move || written.write(Slow { called, may }));
        journal.put(b"first\n");
        assert_eq!(calls.recv().unwrap(), b"first\n");
        // Nothing is taken from here on.
        let line = [vec![b'x'; 1023], b"\n".to_vec()].concat();
        let fit = WAITING / line.len();
        for _ in 0..fit + 7 {
            journal.put(&line);
        }
        journal.put(b"short\n");
        journal.flush(Duration::from_millis(10));
        assert!(journal.state().is_writing, "it waits for a bounded time only");
        drop(go);
        let rest: Vec<_> = calls.iter().take(2).collect();
        assert_eq!(rest[0].len(), fit * line.len());
        assert_eq!(rest[1], b"tenure: 8 lines are missing here, nobody took them\n");
        journal.flush(Duration::from_secs(60));
        let state = journal.state();
        assert!(!state.is_writing && state.waiting.is_empty());
    }

    #[test]
    fn a_line_that_never_fits_is_told_as_missing() {
        let journal = Arc::new(Journal::default());
        let ((called, calls), (go, may)) = (channel(), channel());
        drop(go);
        let written = journal.clone();
        thread::spawn(move || written.write(Slow { called, may }));
        journal.put(&[vec![b'x'; WAITING], b"\n".to_vec()].concat());
        let note = calls.recv_timeout(Duration::from_secs(60)).unwrap();
        assert_eq!(note, b"tenure: 1 lines are missing here, nobody took them\n");
        journal.flush(Duration::from_secs(60));
        journal.put(b"short\n");
        assert_eq!(calls.recv_timeout(Duration::from_secs(60)).unwrap(), b"short\n");
    }

    #[test]
    fn without_a_thread_nothing_waits_for_one() {
        let journal = Journal::default();
        journal.begin(|| Err(io::ErrorKind::WouldBlock.into())).unwrap_err();
        assert!(!journal.state().is_written);
        journal.begin(|| Ok(())).unwrap();
        assert!(journal.state().is_written);
    }
}
