//! Why a map could not be joined, read or written.

/// What went wrong with a map.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The map's name is not 1 to 64 characters of `A-Z a-z 0-9 _ : . -`. Nothing was sent.
    #[error("{name:?} is no name for a map: 1 to 64 of A-Z a-z 0-9 _ : . -")]
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
    /// The value is too long. Nothing was sent.
    #[error("a value has at most {max} bytes, not {len}")]
    Value {
        /// Its length in bytes.
        len: usize,
        /// The longest allowed.
        max: usize,
    },
    /// Redis did not do it, or did not say whether it did: its error knows which.
    #[error("redis did not complete the call")]
    Redis(#[from] tenure_connection::Error),
    /// What is stored under the map's keys, or what was answered, is no map.
    #[error("the keys hold no map: {what}")]
    Malformed {
        /// What was found.
        what: &'static str,
    },
    /// The map was closed: its copy stays as it was, and is no longer refreshed.
    #[error("the map is closed, its copy is no longer refreshed")]
    Closed,
}
