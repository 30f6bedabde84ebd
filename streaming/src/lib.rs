#![doc = include_str!("../README.md")]

mod cursor;
mod entry;
mod error;
mod reader;
mod reply;
mod sink;
mod stream;

pub use cursor::{Cursors, EntryId, EntryIdError};
pub use entry::{Batch, Entry};
pub use error::Error;
pub use reader::{Reader, ReaderHandle};
pub use sink::{Sink, SinkOptions};
pub use stream::{AddOptions, Start, Stream};
