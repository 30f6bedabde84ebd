//! The progress that a person sees while the story runs: in a terminal one changing line, elsewhere plain lines.

use std::io::{self, IsTerminal, Write};

/// Writes to standard output; a reader that has gone is no error.
#[derive(Debug)]
pub struct Progress {
    terminal: bool,
    shown: String,
}

impl Default for Progress {
    fn default() -> Self {
        Self { terminal: io::stdout().is_terminal(), shown: String::new() }
    }
}

impl Progress {
    /// Shows the present activity; only in a terminal.
    pub fn now(&mut self, text: &str) {
        if self.terminal && self.shown != text {
            text.clone_into(&mut self.shown);
            write(&format!("\r\x1b[2K{text}"));
        }
    }

    /// Reports completed work, for good.
    pub fn done(&mut self, text: &str) {
        self.shown.clear();
        if self.terminal {
            write(&format!("\r\x1b[2K{text}\n"));
        } else {
            write(&format!("{text}\n"));
        }
    }
}

fn write(text: &str) {
    let mut output = io::stdout().lock();
    let _ = output.write_all(text.as_bytes()).and_then(|()| output.flush());
}
