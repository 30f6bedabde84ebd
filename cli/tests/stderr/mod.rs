//! Standard errors that take nothing.

use std::fs::File;
use std::io::{self, ErrorKind, PipeReader, Write};
use std::process::Stdio;

use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};

/// Why nobody takes what is written.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Unread {
    /// Its reader is gone.
    Gone,
    /// Its reader has stopped, and nothing more fits in.
    Stopped,
    /// The device is full.
    Full,
}

impl Unread {
    pub(crate) const ALL: [Self; 3] = [Self::Gone, Self::Stopped, Self::Full];

    /// A standard error, and the reader unless the reader is gone.
    pub(crate) fn stderr(self) -> (Stdio, Option<PipeReader>) {
        if matches!(self, Self::Full) {
            let full = File::options().write(true).open("/dev/full").unwrap();
            return (full.into(), None);
        }
        let (reader, mut writer) = io::pipe().unwrap();
        if matches!(self, Self::Gone) {
            return (writer.into(), None);
        }
        let flags = fcntl_getfl(&writer).unwrap();
        fcntl_setfl(&writer, flags | OFlags::NONBLOCK).unwrap();
        let full = loop {
            if let Err(error) = writer.write(&[b'x'; 64]) {
                break error;
            }
        };
        assert_eq!(full.kind(), ErrorKind::WouldBlock);
        fcntl_setfl(&writer, flags).unwrap();
        (writer.into(), Some(reader))
    }
}
