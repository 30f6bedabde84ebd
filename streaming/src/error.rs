//! The reasons why a stream could not be read or written.

use std::sync::Arc;

use crate::EntryId;

/// A failed operation on a stream.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A name of a stream, a group, a consumer or a topic, or a publisher's id, is empty or too long. Nothing was sent.
    #[error("a {what} has 1 to {limit} bytes, not {bytes}; nothing was sent")]
    Name {
        /// The kind of name.
        what: &'static str,
        /// The length of the name.
        bytes: usize,
        /// The longest length allowed.
        limit: usize,
    },
    /// Publishers' ids are kept beside the stream, in its cluster slot. A name with a `}` but without a hash tag (`{…}`
    /// with something between) has no such neighbours. Nothing was sent.
    #[error("nothing can be kept in the slot of the stream {stream}, nothing was sent")]
    NoSibling {
        /// The stream.
        stream: String,
    },
    /// A setting cannot be used. Nothing was sent.
    #[error("{what}, nothing was sent")]
    Config {
        /// The reason.
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
    /// The entry, the batch or the filters of a sink exceed a limit. Nothing was sent.
    #[error("{is} {what}, at most {limit} are allowed; nothing was added")]
    TooLarge {
        /// The thing that is counted.
        what: &'static str,
        /// The actual number.
        is: usize,
        /// The limit.
        limit: usize,
    },
    /// The publisher's id was used for an entry with other content or another topic. Nothing was added.
    #[error("the publisher's id was used for other content, nothing was added")]
    Conflict {
        /// The entry that was added for the id.
        entry: EntryId,
    },
    /// A reader's cursor lies ahead of its stream, which was deleted and begun anew with lower ids, or lost its end in
    /// a fail-over. The reader does not hand out entries that are added with ids up to the cursor. It returns this
    /// error once for each place of the cursor; [`ReaderHandle::set_cursor`](crate::ReaderHandle::set_cursor) moves the
    /// cursor.
    #[error("the cursor of {stream} is at {cursor}, ahead of {last} where the stream ends; it has not moved")]
    CursorAhead {
        /// The stream.
        stream: Arc<str>,
        /// The reader's position.
        cursor: EntryId,
        /// The last id that the stream has assigned.
        last: EntryId,
    },
    /// The reader was closed. Its cursors have not moved.
    #[error("the reader was closed, no cursor has moved")]
    Closed,
    /// Redis did not execute the call, or did not say whether it did; its error tells which.
    #[error("redis did not complete the call")]
    Redis(#[from] tenure_connection::Error),
    /// The reply is not one that the command returns. The call was executed.
    #[error("the reply is no {expected}, the call was executed")]
    Malformed {
        /// The expected kind of reply.
        expected: &'static str,
    },
}

impl Error {
    /// Whether the same call may succeed later without a change of the call or the settings.
    pub fn is_transient(&self) -> bool {
        matches!(self, Self::Redis(error) if error.is_transient())
    }

    /// Whether the call may have been executed all the same.
    pub fn may_have_executed(&self) -> bool {
        match self {
            Self::Redis(error) => error.may_have_executed(),
            Self::Malformed { .. } => true,
            _ => false,
        }
    }

    /// The code of the server's error, such as `WRONGTYPE`, if the server refused the call.
    pub fn code(&self) -> Option<&str> {
        match self {
            Self::Redis(error) => error.code(),
            _ => None,
        }
    }
}
