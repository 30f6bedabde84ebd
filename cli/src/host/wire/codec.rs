//! Lines on a socket. One that is too long, or has no end, is an error of its own.

use std::io;

use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::io::{AsyncRead, AsyncReadExt};

use super::LINE_MAX;

/// How much is read at a time.
const CHUNK: usize = 64 << 10;
/// How much of a bad line an error shows.
const SHOWN: usize = 120;

/// Why nothing more is read.
#[derive(Debug, thiserror::Error)]
pub(in crate::host) enum BadLine {
    /// The line has more bytes than any may have.
    #[error("a line has more than {LINE_MAX} bytes")]
    TooLong,
    /// The other side closed in the middle of a line.
    #[error("the last line has no end")]
    Cut,
    /// It is no message.
    #[error("a line is no message: {why}: {line}")]
    NoMessage { why: serde_json::Error, line: String },
    #[error("the socket failed: {0}")]
    Io(io::Error),
}

/// Reads messages.
#[derive(Debug)]
pub(in crate::host) struct Lines<R> {
    from: R,
    /// Bytes that were read. Those before `at` were taken.
    bytes: Vec<u8>,
    at: usize,
    /// There is no end of a line before this place.
    seen: usize,
}

impl<R: AsyncRead + Unpin> Lines<R> {
    pub(in crate::host) fn new(from: R) -> Self {
        Self { from, bytes: Vec::new(), at: 0, seen: 0 }
    }

    /// The next message. None at the end.
    ///
    /// # Errors
    /// There will be no further message.
    ///
    /// # Cancel safety
    /// Safe: a message is taken only when it is returned.
    pub(in crate::host) async fn next<M: DeserializeOwned>(&mut self) -> Result<Option<M>, BadLine> {
        loop {
            if let Some(len) = self.bytes[self.seen..].iter().position(|byte| *byte == b'\n') {
                let end = self.seen + len;
                let line = &self.bytes[self.at..end];
                if line.len() >= LINE_MAX {
                    return Err(BadLine::TooLong);
                }
                let message = serde_json::from_slice(line)
                    .map_err(|why| BadLine::NoMessage { why, line: shown(line) })?;
                (self.at, self.seen) = (end + 1, end + 1);
                return Ok(Some(message));
            }
            self.bytes.drain(..self.at);
            (self.at, self.seen) = (0, self.bytes.len());
            if self.bytes.len() >= LINE_MAX {
                return Err(BadLine::TooLong);
            }
            self.bytes.shrink_to(CHUNK);
            self.bytes.reserve(CHUNK);
            match self.from.read_buf(&mut self.bytes).await {
                Ok(0) if self.bytes.is_empty() => return Ok(None),
                Ok(0) => return Err(BadLine::Cut),
                Ok(_) => {}
                // The other process was killed before it had read all.
                Err(error) if error.kind() == io::ErrorKind::ConnectionReset => return Ok(None),
                Err(error) => return Err(BadLine::Io(error)),
            }
        }
    }
}

/// The line of a message. None if it is too long.
pub(in crate::host) fn line(message: &impl Serialize) -> Option<Vec<u8>> {
    let mut line = serde_json::to_vec(message).ok()?;
    line.push(b'\n');
    (line.len() <= LINE_MAX).then_some(line)
}

/// The beginning of a line, for an error.
fn shown(line: &[u8]) -> String {
    let text = String::from_utf8_lossy(&line[..line.len().min(SHOWN)]);
    crate::out::shown::plain(&text)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use serde_json::{Value, json};

    use super::*;

    async fn all(bytes: &[u8]) -> (Vec<Value>, Option<BadLine>) {
        let (mut lines, mut read) = (Lines::new(bytes), Vec::new());
        loop {
            match lines.next().await {
                Ok(Some(value)) => read.push(value),
                Ok(None) => return (read, None),
                Err(bad) => return (read, Some(bad)),
            }
        }
    }

    #[tokio::test]
    async fn lines_are_messages() {
        let long = format!("\"{}\"", "x".repeat(LINE_MAX - 3));
        let text = format!("{{\"a\":1}}\n[]\n{long}\n");
        let (read, bad) = all(text.as_bytes()).await;
        assert!(bad.is_none());
        assert_eq!((read.len(), &read[0]), (3, &json!({"a": 1})));
    }

    #[tokio::test]
    async fn a_line_that_is_none_is_named() {
        let endless = vec![b'x'; 2 << 20];
        let (read, bad) = all(&endless).await;
        assert!(read.is_empty() && matches!(bad, Some(BadLine::TooLong)));
        let long = format!("\"{}\"\n", "x".repeat(LINE_MAX));
        assert!(matches!(all(long.as_bytes()).await.1, Some(BadLine::TooLong)));
        let (read, bad) = all(b"1\n{\"op\"").await;
        assert!(read.len() == 1 && matches!(bad, Some(BadLine::Cut)));
        let (_, bad) = all(b"GET / HTTP/1.1\n").await;
        assert!(bad.unwrap().to_string().ends_with("GET / HTTP/1.1"));
        assert!(matches!(all(b"\xff\n").await.1, Some(BadLine::NoMessage { .. })));
    }

    #[test]
    fn a_message_that_is_too_long_has_no_line() {
        assert_eq!(line(&json!({})).unwrap(), b"{}\n");
        assert!(line(&"x".repeat(LINE_MAX)).is_none());
    }
}
