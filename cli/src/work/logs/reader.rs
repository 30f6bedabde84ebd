//! Reads a stream of a program, whatever it writes and however fast.

use std::io;
use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::io::AsyncReadExt;
use tokio::net::unix::pipe::Receiver;

use super::{LINE_MAX, Lines, Source, Stream};

/// How much is read at a time.
const CHUNK: usize = 64 << 10;
/// A program whose output is dropped is read no faster than a chunk in this time, so that it does not take the node's
/// processor from others.
const PAUSE: Duration = Duration::from_millis(2);
/// How much of the end of a stream is kept for errors.
const LAST: usize = 1024;

/// The last bytes of a stream.
#[derive(Debug, Default)]
pub(crate) struct Last(Mutex<Vec<u8>>);

impl Last {
    fn add(&self, bytes: &[u8]) {
        let mut last = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        last.extend_from_slice(&bytes[bytes.len().saturating_sub(LAST)..]);
        let beyond = last.len().saturating_sub(LAST);
        last.drain(..beyond);
    }

    /// Them as text.
    pub(crate) fn text(&self) -> String {
        let last = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        String::from_utf8_lossy(&last).into_owned()
    }
}

/// Reads the stream to its end.
///
/// # Errors
/// It cannot be read.
pub(crate) async fn read(
    from: OwnedFd,
    stream: Stream,
    source: Arc<Source>,
    lines: Lines,
    last: Option<Arc<Last>>,
) -> io::Result<()> {
    let from = Receiver::from_owned_fd(from)?;
    let mut cutter = Cutter { source, stream, lines, rest: Vec::new(), dropped: Dropped::default() };
    loop {
        from.readable().await?;
        // Nothing is held while a program says nothing.
        let mut bytes = Vec::with_capacity(CHUNK);
        match from.try_read_buf(&mut bytes) {
            Ok(0) => break,
            Ok(_) => {}
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => continue,
            Err(error) => return Err(error),
        }
        if let Some(last) = &last {
            last.add(&bytes);
        }
        cutter.cut(&bytes);
        if cutter.dropped.lines > 0 {
            tokio::time::sleep(PAUSE).await;
        }
    }
    cutter.end();
    Ok(())
}

/// Reads the stream to its end, and keeps its first `most` bytes.
///
/// # Errors
/// It cannot be read.
pub(crate) async fn gather(from: OwnedFd, most: usize) -> io::Result<Vec<u8>> {
    let mut from = Receiver::from_owned_fd(from)?;
    let mut kept = Vec::new();
    let mut bytes = vec![0; 4096];
    loop {
        match from.read(&mut bytes).await? {
            0 => return Ok(kept),
            count => kept.extend_from_slice(&bytes[..count.min(most - kept.len())]),
        }
    }
}

struct Cutter {
    source: Arc<Source>,
    stream: Stream,
    lines: Lines,
    /// A line that is not complete.
    rest: Vec<u8>,
    dropped: Dropped,
}

#[derive(Default)]
struct Dropped {
    lines: u64,
    bytes: u64,
}

impl Cutter {
    fn cut(&mut self, bytes: &[u8]) {
        for part in bytes.split_inclusive(|byte| *byte == b'\n') {
            let mut part = part;
            while self.rest.len() + part.len() > LINE_MAX {
                let (now, later) = part.split_at(LINE_MAX - self.rest.len());
                self.rest.extend_from_slice(now);
                self.put();
                part = later;
            }
            self.rest.extend_from_slice(part);
            if self.rest.last() == Some(&b'\n') {
                self.rest.pop();
                self.put();
            }
        }
        self.rest.shrink_to(LINE_MAX);
    }

    fn put(&mut self) {
        if self.dropped.lines > 0 && self.tell() {
            self.dropped = Dropped::default();
        }
        if self.dropped.lines > 0 || !self.lines.put(&self.source, self.stream, &self.rest) {
            self.dropped.lines += 1;
            self.dropped.bytes += self.rest.len() as u64;
        }
        self.rest.clear();
    }

    /// Tells of what was dropped, if there is room.
    fn tell(&self) -> bool {
        let Dropped { lines, bytes } = self.dropped;
        let note = format!("[tenure: {lines} lines with {bytes} bytes were dropped here]");
        self.lines.put(&self.source, self.stream, note.as_bytes())
    }

    fn end(&mut self) {
        if !self.rest.is_empty() {
            self.put();
        }
        if self.dropped.lines > 0 && !self.tell() {
            let Dropped { lines, bytes } = self.dropped;
            tracing::warn!(key = self.source.key, lines, bytes, "the end of a program's output was dropped");
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicUsize;
    use std::sync::mpsc;

    use super::super::{Line, WAITING};
    use super::*;

    fn cutter() -> (Cutter, mpsc::Receiver<Line>) {
        let source =
            Arc::new(Source { key: "k".into(), name: b"k".to_vec(), token: 1, waiting: AtomicUsize::new(0) });
        let (to, from) = mpsc::channel();
        let lines = Lines { to, waiting: Arc::default() };
        let (rest, dropped) = (Vec::new(), Dropped::default());
        (Cutter { source, stream: Stream::Out, lines, rest, dropped }, from)
    }

    fn texts(from: &mpsc::Receiver<Line>) -> Vec<String> {
        from.try_iter().map(|line| String::from_utf8_lossy(&line.bytes).into_owned()).collect()
    }

    #[test]
    fn bytes_become_lines_and_long_lines_become_several() {
        let (mut cutter, from) = cutter();
        for bytes in [&b"a\nb"[..], b"c\n\n", &vec![b'x'; LINE_MAX + 1], b"\nlast"] {
            cutter.cut(bytes);
        }
        cutter.end();
        let texts = texts(&from);
        let lens: Vec<_> = texts.iter().map(String::len).collect();
        assert_eq!(lens, [1, 2, 0, LINE_MAX, 1, 4]);
        assert_eq!((&*texts[1], &*texts[5]), ("bc", "last"));
    }

    #[test]
    fn what_nobody_takes_is_dropped_and_told() {
        let (mut cutter, from) = cutter();
        let line = [b"y".repeat(999), b"\n".to_vec()].concat();
        for _ in 0..1_000 {
            cutter.cut(&line);
        }
        let kept = texts(&from).len();
        assert!(kept > 100 && kept * 1_000 <= WAITING, "{kept}");
        cutter.cut(b"after\n");
        let dropped = 1_000 - kept;
        let note = format!("[tenure: {dropped} lines with {} bytes were dropped here]", dropped * 999);
        assert_eq!(texts(&from), [note, "after".into()]);
    }

    #[test]
    fn the_last_bytes_are_kept() {
        let last = Last::default();
        last.add(&[b'a'; 5_000]);
        last.add(b"the end");
        let text = last.text();
        assert!(text.len() == LAST && text.ends_with("aathe end"));
    }
}
