//! Writes the lines of all programs.

use std::collections::hash_map::RandomState;
use std::fs;
use std::hash::BuildHasher;
use std::io::{self, IsTerminal, Write};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::sync::{Arc, atomic::AtomicUsize};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant, SystemTime};

use anstyle::{AnsiColor, Style};
use serde::Serialize;

use super::files::Files;
use super::losses::{Losses, QUIET, Told};
use super::{Line, Lines, Stream, Target};
use crate::out::when;

/// The keys of a place that all share.
const ALL: &str = "all";
/// How long the writer may take for the last lines.
const LAST_LINES: Duration = Duration::from_secs(2);
/// After how many lines the writer flushes and tells of losses, also when more lines wait.
const BATCH: usize = 1_024;
/// How many bytes of lines are written together.
const KEPT: usize = 8 << 10;

/// The thread that writes.
#[derive(Debug)]
pub(crate) struct Writer {
    thread: JoinHandle<()>,
    over: Receiver<()>,
}

impl Writer {
    /// Starts it. None if there is nothing to write.
    ///
    /// # Errors
    /// The folder cannot be made, or there is no thread.
    pub(crate) fn start(target: &Target, log_max: u64) -> io::Result<Option<(Self, Lines)>> {
        let to: Box<dyn To> = match target {
            Target::Inherit | Target::Null => return Ok(None),
            Target::Prefix => Box::new(Prefix::new()),
            Target::Json => Box::new(Json),
            Target::Folder(folder) => {
                fs::create_dir_all(folder)?;
                Box::new(Files::new(folder.clone(), log_max))
            }
        };
        let (lines, from) = mpsc::channel();
        let (ends, over) = mpsc::channel();
        let run = move || {
            write_all(&from, to, Losses::new(QUIET), |Told { key, cause, lines }| {
                tracing::warn!(
                    key,
                    error = cause,
                    lines,
                    "lines of programs could not be written, they are lost"
                );
            });
            drop(ends);
        };
        let thread = thread::Builder::new().name("logs".to_owned()).spawn(run)?;
        let waiting = Arc::new(AtomicUsize::new(0));
        Ok(Some((Self { thread, over }, Lines { to: lines, waiting })))
    }

    /// Waits a little for the last lines. All [`Lines`] must be dropped before.
    pub(crate) fn end(self) {
        if self.over.recv_timeout(LAST_LINES) == Err(RecvTimeoutError::Disconnected) {
            let _ = self.thread.join();
        }
    }
}

/// A place for lines.
pub(super) trait To: Send {
    fn write(&mut self, line: &Line) -> io::Result<()>;

    /// Writes what [`write`](Self::write) has kept.
    ///
    /// # Errors
    /// The number of kept lines that are lost since the last flush, and the reason.
    fn flush(&mut self) -> Result<(), (u64, io::Error)> {
        Ok(())
    }

    /// Whether each key has a place of its own, and so troubles of its own.
    fn is_per_key(&self) -> bool {
        false
    }
}

/// Writes all lines, and tells of lost ones.
fn write_all(from: &Receiver<Line>, mut to: Box<dyn To>, mut losses: Losses, mut tell: impl FnMut(Told)) {
    loop {
        let first = match losses.wait(Instant::now()) {
            Some(wait) => from.recv_timeout(wait),
            None => from.recv().map_err(RecvTimeoutError::from),
        };
        if matches!(first, Err(RecvTimeoutError::Disconnected)) {
            break;
        }
        let mut lost = |key: &str, lines: u64, error: &io::Error| {
            losses.add(key, &error.to_string(), lines, Instant::now()).into_iter().for_each(&mut tell);
        };
        for line in first.into_iter().chain(from.try_iter().take(BATCH)) {
            if let Err(error) = to.write(&line) {
                lost(if to.is_per_key() { &line.source.key } else { ALL }, 1, &error);
            }
        }
        if let Err((lines, error)) = to.flush() {
            lost(ALL, lines, &error);
        }
        losses.due(Instant::now()).into_iter().for_each(&mut tell);
    }
    losses.rest().into_iter().for_each(tell);
}

/// Each line after its key, on the program's own stream. A trouble of one stream costs no line of the other.
struct Prefix<O, E> {
    colours: bool,
    hasher: RandomState,
    out: O,
    err: E,
    /// Lines for `out`, which are written together, and their number.
    kept: Vec<u8>,
    count: u64,
    /// How many lines `out` has not taken since the last flush, and why.
    lost: Option<(u64, io::Error)>,
}

impl Prefix<io::Stdout, io::Stderr> {
    fn new() -> Self {
        let colours = io::stdout().is_terminal()
            && anstream::AutoStream::choice(&io::stdout()) != anstream::ColorChoice::Never;
        Self::to(io::stdout(), io::stderr(), colours)
    }
}

impl<O: Write, E: Write> Prefix<O, E> {
    fn to(out: O, err: E, colours: bool) -> Self {
        Self { colours, hasher: RandomState::new(), out, err, kept: Vec::new(), count: 0, lost: None }
    }

    /// Writes the kept lines.
    fn pour(&mut self) {
        if self.kept.is_empty() {
            return;
        }
        let poured = self.out.write_all(&self.kept).and_then(|()| self.out.flush());
        self.kept.clear();
        let count = std::mem::take(&mut self.count);
        if let Err(error) = poured {
            let before = self.lost.take().map_or(0, |(before, _)| before);
            self.lost = Some((before + count, error));
        }
    }
}

const COLOURS: [AnsiColor; 6] = [
    AnsiColor::Cyan,
    AnsiColor::Green,
    AnsiColor::Magenta,
    AnsiColor::Yellow,
    AnsiColor::Blue,
    AnsiColor::BrightCyan,
];

impl<O: Write + Send, E: Write + Send> To for Prefix<O, E> {
    fn write(&mut self, line: &Line) -> io::Result<()> {
        let key = &line.source.key;
        let style = if self.colours {
            let colour = COLOURS[self.hasher.hash_one(key) as usize % COLOURS.len()];
            colour.on_default()
        } else {
            Style::new()
        };
        let head = format!("{style}{key}{style:#} | ");
        match line.stream {
            Stream::Out => {
                write_line(&mut self.kept, head.as_bytes(), &line.bytes)?;
                self.count += 1;
                if self.kept.len() >= KEPT {
                    self.pour();
                }
                Ok(())
            }
            Stream::Err => {
                self.pour();
                write_line(&mut self.err, head.as_bytes(), &line.bytes)
            }
        }
    }

    fn flush(&mut self) -> Result<(), (u64, io::Error)> {
        self.pour();
        self.lost.take().map_or(Ok(()), Err)
    }
}

fn write_line(to: &mut impl Write, head: &[u8], bytes: &[u8]) -> io::Result<()> {
    to.write_all(&[head, bytes, b"\n"].concat())
}

struct Json;

#[derive(Serialize)]
struct Document<'a> {
    ts: String,
    key: &'a str,
    token: u64,
    stream: &'static str,
    line: &'a str,
}

impl To for Json {
    fn write(&mut self, line: &Line) -> io::Result<()> {
        let text = String::from_utf8_lossy(&line.bytes);
        let document = Document {
            ts: when::stamp(SystemTime::now()),
            key: &line.source.key,
            token: line.source.token,
            stream: stream_name(line.stream),
            line: &text,
        };
        write_line(&mut io::stdout().lock(), &serde_json::to_vec(&document)?, b"")
    }
}

fn stream_name(stream: Stream) -> &'static str {
    match stream {
        Stream::Out => "stdout",
        Stream::Err => "stderr",
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::super::{Charge, Source};
    use super::*;

    /// Takes no line.
    struct Full;

    impl To for Full {
        fn write(&mut self, _: &Line) -> io::Result<()> {
            Err(io::ErrorKind::StorageFull.into())
        }
    }

    fn source() -> Source {
        Source { key: "k".into(), name: b"k".to_vec(), token: 1, waiting: AtomicUsize::default() }
    }

    /// Writes this many lines into a place that takes none. Returns the way of more lines, and the numbers that are told.
    fn lost(lines: usize, quiet: Duration) -> (Lines, Receiver<u64>) {
        let (to, from) = mpsc::channel();
        let lines_to = Lines { to, waiting: Arc::default() };
        let source = Arc::new(source());
        for _ in 0..lines {
            assert!(lines_to.put(&source, Stream::Out, b"x"));
        }
        let (tell, told) = mpsc::channel();
        let tell = move |told: Told| {
            // The test is over if nobody hears.
            let _ = tell.send(told.lines);
        };
        thread::spawn(move || write_all(&from, Box::new(Full), Losses::new(quiet), tell));
        (lines_to, told)
    }

    fn next(told: &Receiver<u64>) -> u64 {
        told.recv_timeout(Duration::from_secs(60)).unwrap()
    }

    /// A stream whose reader is gone.
    struct Gone;

    impl Write for Gone {
        fn write(&mut self, _: &[u8]) -> io::Result<usize> {
            Err(io::ErrorKind::BrokenPipe.into())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn a_gone_stream_costs_its_own_lines_only() {
        let source = Arc::new(source());
        let all = Arc::default();
        let line = |stream| {
            let charge = Charge::take(&source, &all, 1).unwrap();
            Line { source: source.clone(), stream, bytes: b"x".to_vec(), _charge: charge }
        };
        let mut no_out = Prefix::to(Gone, Vec::new(), false);
        for stream in [Stream::Out, Stream::Out, Stream::Err, Stream::Out, Stream::Err] {
            no_out.write(&line(stream)).unwrap();
        }
        assert_eq!(no_out.flush().unwrap_err().0, 3);
        no_out.flush().unwrap();
        assert_eq!(no_out.err, b"k | x\nk | x\n");

        let mut no_err = Prefix::to(Vec::new(), Gone, false);
        no_err.write(&line(Stream::Out)).unwrap();
        no_err.write(&line(Stream::Err)).unwrap_err();
        no_err.flush().unwrap();
        assert_eq!(no_err.out, b"k | x\n");
    }

    #[test]
    fn lost_lines_are_told_while_no_further_line_comes() {
        let (_lines, told) = lost(10, Duration::from_millis(1));
        let mut sum = 0;
        while sum < 10 {
            sum += next(&told);
        }
        assert_eq!(sum, 10);
    }

    #[test]
    fn lost_lines_are_told_at_the_end() {
        let (lines, told) = lost(10, QUIET);
        assert_eq!(next(&told), 1);
        drop(lines);
        assert_eq!(next(&told), 9);
    }
}
