//! The output of commands: tables for people, versioned JSON and CSV for programs.

mod list;
pub(crate) mod progress;
pub(crate) mod shown;
mod table;
pub(crate) mod when;

use std::io::{self, BufWriter, IsTerminal, Stdout, Write};

use clap::ValueEnum;
use serde::Serialize;

pub(crate) use list::{List, Row};
pub(crate) use table::{Cell, Column, Tone};

/// The version of the JSON that commands print.
pub(crate) const VERSION: u32 = 1;

/// How to print.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    /// A table for people
    #[default]
    Table,
    /// A table with every column
    Wide,
    /// One JSON document
    Json,
    /// A JSON document on each line
    Jsonl,
    /// Comma-separated values with a line of names
    Csv,
    /// The names alone, one on each line
    Name,
}

impl Format {
    /// Whether errors are JSON, too.
    pub(crate) fn is_json(self) -> bool {
        matches!(self, Self::Json | Self::Jsonl)
    }

    /// Whether programs read it.
    pub(crate) fn is_data(self) -> bool {
        matches!(self, Self::Json | Self::Jsonl | Self::Csv)
    }
}

/// A JSON document with its version.
#[derive(Serialize)]
pub(crate) struct Document<'a, T> {
    v: u32,
    #[serde(flatten)]
    content: &'a T,
}

impl<'a, T: Serialize> Document<'a, T> {
    pub(crate) fn of(content: &'a T) -> Self {
        Self { v: VERSION, content }
    }
}

/// Where a command prints.
pub(crate) struct Out {
    pub(crate) format: Format,
    pub(crate) utc: bool,
    /// Colours are wanted.
    pub(crate) colour: bool,
    /// The terminal's width. None where the output is no terminal: nothing is cut there.
    pub(crate) width: Option<usize>,
    to: BufWriter<Stdout>,
}

impl Out {
    pub(crate) fn new(format: Format, utc: bool) -> Self {
        let stdout = io::stdout();
        let is_terminal = stdout.is_terminal();
        let colour = anstream::AutoStream::choice(&stdout) != anstream::ColorChoice::Never;
        let width = if is_terminal { terminal_width() } else { None };
        Self { format, utc, colour, width, to: BufWriter::new(stdout) }
    }

    /// One thing: its document for programs, else this text.
    pub(crate) fn one<T: Serialize>(&mut self, content: &T, text: impl std::fmt::Display) -> io::Result<()> {
        if self.format.is_data() { self.document(content) } else { self.line(text) }
    }

    /// A JSON document: over several lines if it stands alone.
    pub(crate) fn document<T: Serialize>(&mut self, content: &T) -> io::Result<()> {
        let document = Document::of(content);
        match self.format {
            Format::Jsonl => serde_json::to_writer(&mut self.to, &document)?,
            _ => serde_json::to_writer_pretty(&mut self.to, &document)?,
        }
        self.to.write_all(b"\n")
    }

    pub(crate) fn line(&mut self, text: impl std::fmt::Display) -> io::Result<()> {
        writeln!(self.to, "{text}")
    }

    /// Clears the terminal, to print the same thing anew.
    pub(crate) fn clear(&mut self) -> io::Result<()> {
        if self.width.is_some() { self.to.write_all(b"\x1b[H\x1b[2J\x1b[3J") } else { Ok(()) }
    }

    /// Everything has to be seen now.
    pub(crate) fn flush(&mut self) -> io::Result<()> {
        self.to.flush()
    }
}

impl Write for Out {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.to.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.to.flush()
    }
}

fn terminal_width() -> Option<usize> {
    let size = rustix::termios::tcgetwinsize(io::stdout()).ok()?;
    Some(usize::from(size.ws_col)).filter(|columns| *columns > 0)
}
