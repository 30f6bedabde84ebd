//! How far a long command has come, on a terminal's stderr.

use std::io::{self, IsTerminal, Write};
use std::time::{Duration, Instant};

/// The least time between two prints.
const PAUSE: Duration = Duration::from_millis(100);

/// A line that is written anew as work is done. On anything but a terminal there is none.
#[derive(Debug)]
pub(crate) struct Progress {
    shown: bool,
    next: Instant,
}

impl Progress {
    pub(crate) fn new() -> Self {
        Self { shown: io::stderr().is_terminal(), next: Instant::now() + PAUSE }
    }

    /// Shows this text in place of the one before.
    pub(crate) fn show(&mut self, text: impl FnOnce() -> String) {
        let now = Instant::now();
        if self.shown && now >= self.next {
            self.next = now + PAUSE;
            // There is nobody left to tell if this fails.
            let _ = write!(io::stderr(), "\r\x1b[K{}", text());
        }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        if self.shown {
            let _ = write!(io::stderr(), "\r\x1b[K");
        }
    }
}
