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
use super::losses::Losses;
use super::{Line, Lines, Stream, Target};
use crate::out::when;

/// The keys of a place that all share.
const ALL: &str = "all";
/// How long the writer may take for the last lines.
const LAST_LINES: Duration = Duration::from_secs(2);

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
            write_all(&from, to);
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

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }

    /// Whether each key has a place of its own, and so troubles of its own.
    fn is_per_key(&self) -> bool {
        false
    }
}

fn write_all(from: &Receiver<Line>, mut to: Box<dyn To>) {
    let mut losses = Losses::default();
    let mut lost = |key: &str, error: &io::Error| {
        let cause = error.to_string();
        if let Some((key, lines)) = losses.add(key, &cause, Instant::now()) {
            tracing::warn!(key, error = cause, lines, "the output of programs cannot be written, it is lost");
        }
    };
    while let Ok(first) = from.recv() {
        for line in std::iter::once(first).chain(from.try_iter()) {
            if let Err(error) = to.write(&line) {
                lost(if to.is_per_key() { &line.source.key } else { ALL }, &error);
            }
        }
        if let Err(error) = to.flush() {
            lost(ALL, &error);
        }
    }
}

/// Each line after its key, on the stream that it came from.
struct Prefix {
    colours: bool,
    hasher: RandomState,
    out: io::BufWriter<io::Stdout>,
}

impl Prefix {
    fn new() -> Self {
        let colours = io::stdout().is_terminal()
            && anstream::AutoStream::choice(&io::stdout()) != anstream::ColorChoice::Never;
        Self { colours, hasher: RandomState::new(), out: io::BufWriter::new(io::stdout()) }
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

impl To for Prefix {
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
            Stream::Out => write_line(&mut self.out, head.as_bytes(), &line.bytes),
            Stream::Err => {
                self.out.flush()?;
                write_line(&mut io::stderr().lock(), head.as_bytes(), &line.bytes)
            }
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
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
