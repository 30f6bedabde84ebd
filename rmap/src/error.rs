//! The reasons why a map could not be joined, read or written.

use std::sync::Arc;

use bytes::Bytes;

use crate::Layout;

/// A failed operation on a map.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The map's name is not 1 to 64 characters of `A-Z a-z 0-9 _ : . -`. Nothing was sent.
    #[error("{name:?} is not a name for a map: 1 to 64 of A-Z a-z 0-9 _ : . -")]
    Name {
        /// The name, cut off at 80 characters.
        name: String,
    },
    /// The key is empty or too long. Nothing was sent.
    #[error("a key has 1 to {max} bytes, not {len}")]
    Key {
        /// Its length in bytes.
        len: usize,
        /// The longest allowed.
        max: usize,
    },
    /// The value is too long, or the write would make a list too long. Nothing was written.
    #[error("a value has at most {max} bytes, not {len}")]
    Value {
        /// Its length in bytes.
        len: usize,
        /// The longest allowed.
        max: usize,
    },
    /// One call has more keys or items than [`Layout::MAX_MANY`], or more bytes than [`Layout::MAX_CALL`]. Nothing was
    /// sent.
    #[error(
        "a call has at most {} keys or items and {} bytes, not {count} and {bytes}",
        Layout::MAX_MANY,
        Layout::MAX_CALL
    )]
    TooMany {
        /// How many keys or items it has.
        count: usize,
        /// How many bytes they have.
        bytes: usize,
    },
    /// The key has a value that is not a decimal number of 64 bits. Nothing was written.
    #[error("the value of {:?} is not a number, nothing was written", key.escape_ascii().to_string())]
    NotANumber {
        /// The key.
        key: Bytes,
    },
    /// The sum has more than 64 bits. Nothing was written.
    #[error("the sum at {:?} has more than 64 bits, nothing was written", key.escape_ascii().to_string())]
    Overflow {
        /// The key.
        key: Bytes,
    },
    /// The key has a value that is not a list. Nothing was written.
    #[error("the value of {:?} is not a list, nothing was written", key.escape_ascii().to_string())]
    NotAList {
        /// The key.
        key: Bytes,
    },
    /// The list at the key would have more than [`Layout::MAX_ITEMS`] items. Nothing was written.
    #[error(
        "the list at {:?} would have {count} items, and may have {}, nothing was written",
        key.escape_ascii().to_string(),
        Layout::MAX_ITEMS
    )]
    ManyItems {
        /// The key.
        key: Bytes,
        /// How many items it would have.
        count: usize,
    },
    /// The value cannot be turned into MessagePack. Nothing was sent.
    #[error("the value cannot be encoded, nothing was sent")]
    Encode(#[source] Arc<rmp_serde::encode::Error>),
    /// The value of the key is not of the map's type. It stays as it is.
    #[error("the value of {:?} is of another type", key.escape_ascii().to_string())]
    Decode {
        /// The key.
        key: Bytes,
        /// The reason.
        #[source]
        source: Arc<rmp_serde::decode::Error>,
    },
    /// Redis did not execute the call, or did not say whether it did; its error tells which.
    #[error("redis did not complete the call")]
    Redis(#[from] tenure_connection::Error),
    /// The map's keys, or a reply, hold something that is not a map.
    #[error("the keys do not hold a map: {what}")]
    Malformed {
        /// The unexpected content.
        what: &'static str,
    },
    /// This handle's map was closed: its copy stays as it was, and no write is sent.
    #[error("the map is closed here, its copy is no longer refreshed")]
    Closed,
    /// The write was done, but the local copy could not be brought up to date; the source says why. The copy follows as
    /// soon as it can, unless the map was closed.
    #[error("the write was done, but the copy here has not seen it")]
    NotSeen(#[source] Box<Error>),
}

impl Error {
    /// Whether the write may have been done, although it failed. The documentation of each write says whether it may
    /// then simply be sent again.
    pub fn may_have_executed(&self) -> bool {
        match self {
            Self::Redis(error) => error.may_have_executed() || error.is_of_a_script(),
            Self::Malformed { .. } | Self::NotSeen(_) => true,
            _ => false,
        }
    }
}
