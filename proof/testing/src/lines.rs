//! The log of a test, as lines.

use std::io::Write;
use std::sync::{Arc, Mutex, PoisonError};

/// A writer that keeps what is written. Clones write to the same place: one is for a log, the other for its reader.
#[derive(Clone, Debug, Default)]
pub struct Lines(Arc<Mutex<Vec<u8>>>);

impl Lines {
    /// All lines so far; bytes that are no text are replaced.
    pub fn all(&self) -> Vec<String> {
        let written = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        String::from_utf8_lossy(&written).lines().map(str::to_owned).collect()
    }
}

impl Write for Lines {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_that_a_clone_writes_is_read_as_lines() {
        let lines = Lines::default();
        lines.clone().write_all(b"one\ntwo \xff\n").ok();
        assert_eq!(lines.all(), ["one", "two \u{fffd}"]);
    }
}
