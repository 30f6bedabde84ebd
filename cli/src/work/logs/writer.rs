//! Writes the lines of all programs.

use std::collections::HashMap;
use std::collections::hash_map::RandomState;
use std::fs::{self, File, OpenOptions};
use std::hash::BuildHasher;
use std::io::{self, IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::sync::{Arc, atomic::AtomicUsize};
use std::thread::{self, JoinHandle};
use std::time::{Duration, SystemTime};

use anstyle::{AnsiColor, Style};
use serde::Serialize;

use super::{Line, Lines, Stream, Target};
use crate::out::when;

/// How many files may be open at once.
const OPEN: usize = 256;
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
                Box::new(Files { folder: folder.clone(), max: log_max, open: HashMap::new() })
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
trait To: Send {
    fn write(&mut self, line: &Line) -> io::Result<()>;

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn write_all(from: &Receiver<Line>, mut to: Box<dyn To>) {
    let mut failed = false;
    while let Ok(first) = from.recv() {
        let written = std::iter::once(first).chain(from.try_iter()).try_for_each(|line| to.write(&line));
        match written.and_then(|()| to.flush()) {
            Ok(()) => failed = false,
            Err(error) if !failed => {
                failed = true;
                tracing::warn!(%error, "the output of programs cannot be written, it is lost");
            }
            Err(_) => {}
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

/// A file for each key. One that is full becomes `KEY.log.1`, and takes the place of the one before.
struct Files {
    folder: PathBuf,
    max: u64,
    open: HashMap<String, (File, u64)>,
}

impl To for Files {
    fn write(&mut self, line: &Line) -> io::Result<()> {
        let key = &line.source.key;
        let path = self.folder.join(format!("{}.log", file_name(key)));
        if !self.open.contains_key(key) {
            if self.open.len() >= OPEN {
                self.open.clear();
            }
            self.open.insert(key.clone(), open(&path)?);
        }
        let Some((file, len)) = self.open.get_mut(key) else { return Ok(()) };
        let bytes = [&line.bytes[..], b"\n"].concat();
        if *len > 0 && *len + bytes.len() as u64 > self.max {
            fs::rename(&path, self.folder.join(format!("{}.log.1", file_name(key))))?;
            (*file, *len) = open(&path)?;
        }
        *len += bytes.len() as u64;
        file.write_all(&bytes)
    }
}

fn open(path: &Path) -> io::Result<(File, u64)> {
    let file = OpenOptions::new().create(true).append(true).open(path)?;
    let len = file.metadata()?.len();
    Ok((file, len))
}

/// A key as the name of a file. Different keys have different names, unless they are very long.
fn file_name(key: &str) -> String {
    use std::fmt::Write;
    let mut name = String::new();
    for byte in key.bytes() {
        if byte.is_ascii_alphanumeric() || (b"_-.@".contains(&byte) && !name.is_empty()) {
            name.push(char::from(byte));
        } else {
            // Writing to a String cannot fail.
            let _ = write!(name, "%{byte:02x}");
        }
    }
    name.truncate(240);
    name
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::super::{Charge, Source};
    use super::*;

    fn line(key: &str, bytes: &[u8]) -> Line {
        let source = Arc::new(Source { key: key.into(), token: 7, waiting: AtomicUsize::new(0) });
        let charge = Charge::take(&source, &Arc::default(), bytes.len()).unwrap();
        Line { source, stream: Stream::Out, bytes: bytes.to_vec(), _charge: charge }
    }

    #[test]
    fn a_key_is_no_path() {
        assert_eq!(file_name("../a/b c"), "%2e.%2fa%2fb%20c");
        assert_eq!(file_name("eu-1.acme@x"), "eu-1.acme@x");
    }

    #[test]
    fn a_full_file_makes_room_for_a_new_one() {
        let folder = tempfile::tempdir().unwrap();
        let mut files = Files { folder: folder.path().into(), max: 10, open: HashMap::new() };
        for text in ["123456", "abcdef", "longer than all"] {
            files.write(&line("k", text.as_bytes())).unwrap();
        }
        let read = |name: &str| fs::read_to_string(folder.path().join(name)).unwrap();
        assert_eq!((read("k.log"), read("k.log.1")), ("longer than all\n".into(), "abcdef\n".into()));
    }
}
