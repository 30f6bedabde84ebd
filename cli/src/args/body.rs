//! Bytes on the command line: payloads, notifications, questions.

use std::ffi::OsString;
use std::fs;
use std::io::{self, Read};
use std::os::unix::ffi::OsStringExt;
use std::path::PathBuf;

use clap::Args;

use crate::exit::Failure;

/// Bytes, as an argument or in a file.
#[derive(Args, Clone, Debug)]
pub(crate) struct Body {
    /// The bytes. Without them and a file: none
    #[arg(value_name = "TEXT", conflicts_with = "body_file")]
    text: Option<OsString>,
    /// Read the bytes from this file; `-` for stdin
    #[arg(long, value_name = "FILE")]
    body_file: Option<PathBuf>,
}

impl Body {
    /// Whether any are named.
    pub(crate) fn is_given(&self) -> bool {
        self.text.is_some() || self.body_file.is_some()
    }

    /// Reads them.
    ///
    /// # Errors
    /// The file cannot be read.
    pub(crate) fn read(self) -> Result<Vec<u8>, Failure> {
        match self {
            Self { text: Some(text), .. } => Ok(text.into_vec()),
            Self { body_file: Some(path), .. } => {
                let read = if path.as_os_str() == "-" {
                    let mut bytes = Vec::new();
                    io::stdin().lock().read_to_end(&mut bytes).map(|_| bytes)
                } else {
                    fs::read(&path)
                };
                read.map_err(|error| Failure::usage(format!("{} cannot be read: {error}", path.display())))
            }
            Self { text: None, body_file: None } => Ok(Vec::new()),
        }
    }
}
