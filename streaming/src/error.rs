//! Why a stream could not be read or written.

use std::sync::Arc;

use crate::EntryId;

/// What went wrong with a stream.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A name of a stream, a group, a consumer or a topic, or a publisher's id, is empty or too long. Nothing was sent.
    #[error("a {what} has 1 to {limit} bytes, not {bytes}; nothing was sent")]
    Name {
        /// What is named.
        what: &'static str,
        /// How long the name is.
        bytes: usize,
        /// How long it may be.
        limit: usize,
    },
    /// Ids of publishers are kept beside the stream, in its cluster slot. A name that has a `}` but no hash tag
    /// (`{…}` with something between) has no such neighbours. Nothing was sent.
    #[error("nothing can be kept in the slot of the stream {stream}, nothing was sent")]
    NoSibling {
        /// The stream.
        stream: String,
    },
    /// A setting cannot be used. Nothing was sent.
    #[error("{what}, nothing was sent")]
    Config {
        /// What is wrong.
        what: &'static str,
    },
    /// The group runs with another value of a setting that all its sinks share. Nothing was written.
    #[error(
        "the group {group} of {stream} runs with {name} = {theirs}, this sink was given {ours}; nothing was written"
    )]
    SettingMismatch {
        /// The stream.
        stream: Arc<str>,
        /// The group.
        group: Arc<str>,
        /// The setting, by its name in [`SinkBuilder`](crate::SinkBuilder).
        name: String,
        /// The group's value.
        theirs: String,
        /// This sink's value.
        ours: String,
    },
    /// An entry has at least one field. Nothing was sent.
    #[error("an entry without fields, nothing was added")]
    NoFields,
    /// A field has the name that topics travel under, [`TOPIC_FIELD`](crate::TOPIC_FIELD). Nothing was sent.
    #[error("a field has the reserved name of topics, nothing was added")]
    ReservedField,
    /// More than an entry, a batch or the filters of a sink may hold. Nothing was sent.
    #[error("{is} {what}, of which at most {limit} are allowed; nothing was added")]
    TooLarge {
        /// What is counted.
        what: &'static str,
        /// How many there are.
        is: usize,
        /// How many there may be.
        limit: usize,
    },
    /// The publisher's id was used for an entry with other content or another topic. Nothing was added.
    #[error("the publisher's id was used for other content, nothing was added")]
    Conflict {
        /// The entry that was added for it.
        entry: EntryId,
    },
    /// A reader's cursor lies ahead of all that its stream ever had: the stream was deleted and begun anew with lower
    /// ids, or a fail-over lost its end. What is added with ids up to the cursor is not handed out. It is told once
    /// for each place of the cursor; [`ReaderHandle::set_cursor`](crate::ReaderHandle::set_cursor) puts it elsewhere.
    #[error("the cursor of {stream} is at {cursor}, ahead of {last} where the stream ends; it has not moved")]
    CursorAhead {
        /// The stream.
        stream: Arc<str>,
        /// Where the reader is.
        cursor: EntryId,
        /// The last id that the stream has given.
        last: EntryId,
    },
    /// The reader was closed. Its cursors have not moved.
    #[error("the reader was closed, no cursor has moved")]
    Closed,
    /// Redis did not do it, or did not say whether it did: its error knows which.
    #[error("redis did not complete the call")]
    Redis(#[from] tenure_connection::Error),
    /// The reply is not what the command returns. The call was executed.
    #[error("the reply is no {expected}, the call was executed")]
    Malformed {
        /// What was expected.
        expected: &'static str,
    },
}

impl Error {
    /// Whether the same call may succeed later without anybody changing the call or the settings.
    pub fn is_transient(&self) -> bool {
        matches!(self, Self::Redis(error) if error.is_transient())
    }

    /// Whether what was asked for may have been done all the same.
    pub fn may_have_executed(&self) -> bool {
        match self {
            Self::Redis(error) => error.may_have_executed(),
            Self::Malformed { .. } => true,
            _ => false,
        }
    }

    /// The code of the server's answer, such as `WRONGTYPE`, when it was the server that said no.
    pub fn code(&self) -> Option<&str> {
        match self {
            Self::Redis(error) => error.code(),
            _ => None,
        }
    }
}
