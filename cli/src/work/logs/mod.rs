//! The output of programs: read at once, cut into lines, and written by a thread of its own. A program never waits for
//! the one who reads the node's log. Lines that nobody takes in time are dropped, counted and told.

mod files;
mod losses;
mod reader;
mod writer;

use std::path::PathBuf;
use std::str::FromStr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc;

pub(crate) use reader::{Last, gather, read};
pub(crate) use writer::Writer;

/// The longest line. A longer one becomes several.
const LINE_MAX: usize = 16 << 10;
/// How much of one program's output, and of all, may wait to be written.
const WAITING: usize = 256 << 10;
const ALL_WAITING: usize = 32 << 20;
/// The memory that a line needs beside its bytes.
const LINE_COST: usize = 96;

/// Where the output of programs goes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Target {
    /// To the node's own output, each line after its key.
    Prefix,
    /// To the node's own standard output, each line as a JSON document.
    Json,
    /// To a file for each key in this folder.
    Folder(PathBuf),
    /// As it comes, to the node's own output.
    Inherit,
    /// Nowhere.
    Null,
}

impl FromStr for Target {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        Ok(match text {
            "prefix" => Self::Prefix,
            "json" => Self::Json,
            "inherit" => Self::Inherit,
            "null" => Self::Null,
            _ => match text.strip_prefix("dir:") {
                Some(folder) if !folder.is_empty() => Self::Folder(folder.into()),
                _ => return Err("one of prefix, json, dir:FOLDER, inherit, null".to_owned()),
            },
        })
    }
}

/// A stream of a program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stream {
    Out,
    Err,
}

/// A program whose output is written.
#[derive(Debug)]
pub(crate) struct Source {
    /// The key as text for people, and its bytes.
    pub(crate) key: String,
    pub(crate) name: Vec<u8>,
    pub(crate) token: u64,
    /// How much of its output waits.
    pub(crate) waiting: AtomicUsize,
}

/// A line on its way to the writer.
#[derive(Debug)]
struct Line {
    source: Arc<Source>,
    stream: Stream,
    bytes: Vec<u8>,
    _charge: Charge,
}

/// The room that a line takes until it is written.
#[derive(Debug)]
struct Charge {
    source: Arc<Source>,
    all: Arc<AtomicUsize>,
    cost: usize,
}

impl Charge {
    /// Takes the room, if there is any.
    fn take(source: &Arc<Source>, all: &Arc<AtomicUsize>, len: usize) -> Option<Self> {
        let cost = len + LINE_COST;
        let charge = Self { source: source.clone(), all: all.clone(), cost };
        let own = source.waiting.fetch_add(cost, Ordering::Relaxed);
        let others = all.fetch_add(cost, Ordering::Relaxed);
        (own + cost <= WAITING && others + cost <= ALL_WAITING).then_some(charge)
    }
}

impl Drop for Charge {
    fn drop(&mut self) {
        self.source.waiting.fetch_sub(self.cost, Ordering::Relaxed);
        self.all.fetch_sub(self.cost, Ordering::Relaxed);
    }
}

/// The way to the writer.
#[derive(Clone, Debug)]
pub(crate) struct Lines {
    to: mpsc::Sender<Line>,
    waiting: Arc<AtomicUsize>,
}

impl Lines {
    /// Hands a line over. False: there is no room for it.
    fn put(&self, source: &Arc<Source>, stream: Stream, bytes: &[u8]) -> bool {
        let Some(charge) = Charge::take(source, &self.waiting, bytes.len()) else { return false };
        let line = Line { source: source.clone(), stream, bytes: bytes.to_vec(), _charge: charge };
        self.to.send(line).is_ok()
    }
}
