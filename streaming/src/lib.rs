#![doc = include_str!("../README.md")]

mod adding;
mod cursor;
mod entry;
mod error;
mod filter;
mod keys;
mod lanes;
mod lua;
mod reader;
mod reply;
mod sink;
mod start;
mod stream;

pub use adding::{AddOptions, Added};
pub use cursor::Cursors;
pub use entry::{Entry, MAX_BATCH, MAX_BATCH_BYTES, MAX_ENTRY_BYTES, MAX_FIELDS, NewEntry, TOPIC_FIELD};
pub use error::Error;
pub use filter::Filter;
pub use keys::MAX_NAME;
pub use reader::{Reader, ReaderBuilder, ReaderHandle};
pub use sink::{Sink, SinkBuilder, SinkHandle};
pub use start::Start;
pub use stream::{Stream, StreamBuilder};
pub use tenure_steps::{EntryId, EntryIdError};

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn everything_can_be_sent_to_and_shared_by_tasks() {
        fn check<T: Send + Sync + 'static>() {}
        check::<Stream>();
        check::<Reader>();
        check::<ReaderHandle>();
        check::<Sink>();
        check::<SinkHandle>();
        check::<Entry>();
        check::<Error>();
    }
}
