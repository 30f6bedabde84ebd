//! The names and numbers of the protocol. Each has its own type, so a token is never passed for a worker id.
//!
//! Names are checked here **and** in the scripts. Every value built here is valid everywhere.

use std::borrow::Borrow;
use std::cmp::Ordering;
use std::convert::Infallible;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::str::FromStr;
use std::sync::Arc;

use bytes::Bytes;

/// Why a name, key or number was refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum IdError {
    /// The text is empty.
    #[error("{what} is empty")]
    Empty {
        /// The kind of name or key.
        what: &'static str,
    },
    /// The text is longer than allowed.
    #[error("{what} has {len} bytes, at most {max} are allowed")]
    TooLong {
        /// The kind of name or key.
        what: &'static str,
        /// Length found, in bytes.
        len: usize,
        /// Longest length allowed, in bytes.
        max: usize,
    },
    /// The text has a character outside the alphabet of names.
    #[error("{what} {text:?} has {found:?}, allowed are {allowed}")]
    Character {
        /// The kind of name or key.
        what: &'static str,
        /// The text.
        text: String,
        /// The first character that is not allowed.
        found: char,
        /// The alphabet.
        allowed: &'static str,
    },
    /// The text is not a number of this kind.
    #[error("{what} is not a number")]
    Number {
        /// The kind of number.
        what: &'static str,
    },
    /// The text is not a dispatch id.
    #[error("{text:?} is not a dispatch id")]
    Dispatch {
        /// The text.
        text: String,
    },
}

const NAME_MAX: usize = 64;

/// Refuses a text that is empty, too long, or no name; `dot` says whether the name may have a dot.
///
/// # Errors
/// The text is none.
pub fn check_name(what: &'static str, text: &str, dot: bool) -> Result<(), IdError> {
    if text.is_empty() {
        return Err(IdError::Empty { what });
    }
    if text.len() > NAME_MAX {
        return Err(IdError::TooLong { what, len: text.len(), max: NAME_MAX });
    }
    // The fold has no early end, so the compiler checks many bytes at a time. Every record that is read has two
    // names.
    if text.bytes().fold(true, |valid, byte| valid & is_of_names(byte, dot)) {
        return Ok(());
    }
    let allowed = if dot { "A-Z a-z 0-9 _ : - ." } else { "A-Z a-z 0-9 _ : -" };
    match text.chars().find(|&c| !u8::try_from(c).is_ok_and(|byte| is_of_names(byte, dot))) {
        Some(found) => Err(IdError::Character { what, text: text.to_owned(), found, allowed }),
        None => Ok(()),
    }
}

fn is_of_names(byte: u8, dot: bool) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b':' | b'-') || dot && byte == b'.'
}

/// Checks the text that a worker's owner gives it.
///
/// # Errors
/// The text is too long, or has a character that is not allowed.
pub fn check_meta(text: &str) -> Result<(), IdError> {
    if text.is_empty() { Ok(()) } else { check_name("a worker's text", text, true) }
}

macro_rules! number {
    ($(#[$doc:meta])* $name:ident, $what:literal) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(pub u64);

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.fmt(f)
            }
        }

        impl FromStr for $name {
            type Err = IdError;
            fn from_str(text: &str) -> Result<Self, IdError> {
                text.parse().map(Self).map_err(|_| IdError::Number { what: $what })
            }
        }
    };
}

number!(
    /// The id of a worker in its pool. An id is created once and never used again. A worker that joins again after a
    /// fence gets a new one.
    WorkerId, "worker id"
);
number!(
    /// A fencing token. Successive owners of one key have strictly increasing tokens. Pass it to the outside
    /// resource, and let the resource refuse a token below the highest that it has seen.
    Token, "token"
);
impl Token {
    /// The highest number that a pool gives to a token, a worker or a turn: 2^53 − 2^20. Redis scripts count exactly
    /// up to 2^53. A caller that claims to have seen a higher one is not believed.
    pub const LAST: Self = Self((1 << 53) - (1 << 20));
}
number!(
    /// One life of a pool's data, in milliseconds and strictly increasing. A loss of data begins a new one.
    Incarnation, "incarnation"
);
impl Incarnation {
    /// The highest incarnation that a pool can have: 2^53 − 2^20, as for [tokens](Token::LAST). A higher one in the
    /// data is damage: the next recovery replaces it, and no node counts from it.
    pub const LAST: Self = Self(Token::LAST.0);

    /// This incarnation, or `None` if no pool can have it.
    #[doc(hidden)]
    pub fn sound(self) -> Option<Self> {
        (self <= Self::LAST).then_some(self)
    }
}
number!(
    /// The revision of a replicated map. The revision of the members' map is also the version of the ring.
    Revision, "revision"
);
impl Revision {
    /// The highest revision that a map can have: 2^53 − 2^20, as for [tokens](Token::LAST). A higher one in the data
    /// is damage: the next recovery starts a new count.
    pub const LAST: Self = Self(Token::LAST.0);
    /// Stands for a revision that cannot be read.
    pub const UNREADABLE: Self = Self(u64::MAX);

    /// Whether a map can have this revision.
    #[doc(hidden)]
    pub fn is_sound(self) -> bool {
        self <= Self::LAST
    }
}

number!(
    /// One node's turn to plan a schedule, and the fencing number of all that it does in that turn. Successive turns
    /// of a schedule have strictly increasing numbers.
    Term, "term"
);
number!(
    /// One life of a schedule. A schedule that is created again after its end has a new one.
    ScheduleId, "schedule id"
);

macro_rules! name {
    ($(#[$doc:meta])* $name:ident, $what:literal, $dot:literal) => {
        $(#[$doc])*
        #[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(Arc<str>);

        impl $name {
            /// Checks and keeps the name.
            ///
            /// # Errors
            /// Empty, over 64 bytes, or a character outside the alphabet.
            pub fn new(text: impl AsRef<str>) -> Result<Self, IdError> {
                check_name($what, text.as_ref(), $dot)?;
                Ok(Self(text.as_ref().into()))
            }

            /// The name as text.
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }
    };
}

name!(
    /// The name of a pool: `[A-Za-z0-9_:.-]{1,64}`.
    PoolName, "pool name", true
);
name!(
    /// The name of a node, unique among the living nodes of its pool: `[A-Za-z0-9_:-]{1,64}`.
    NodeName, "node name", false
);
name!(
    /// Tells one join of a worker from another, so that a repeated join gets its first answer.
    Nonce, "nonce", true
);

name!(
    /// The name of a schedule or of a ticker: `[A-Za-z0-9_:.-]{1,64}`. A schedule and a ticker may have the same
    /// name: they are independent.
    ScheduleName, "schedule name", true
);

impl PoolName {
    /// The name of one shard of the pool. A pool with one shard cannot have such a name, because `#` is not in the
    /// alphabet.
    #[must_use]
    pub fn of_shard(&self, index: u32) -> Self {
        Self(format!("{self}#{index}").into())
    }
}

/// The key of a job: any 1 to 512 bytes.
#[derive(Clone)]
pub struct JobKey(Bytes);

impl JobKey {
    /// The longest key, in bytes.
    pub const MAX_LEN: usize = 512;

    /// Checks and keeps the key.
    ///
    /// # Errors
    /// Empty, or over 512 bytes.
    pub fn new(key: impl Into<Bytes>) -> Result<Self, IdError> {
        let key = key.into();
        if key.is_empty() {
            return Err(IdError::Empty { what: "job key" });
        }
        if key.len() > Self::MAX_LEN {
            return Err(IdError::TooLong { what: "job key", len: key.len(), max: Self::MAX_LEN });
        }
        Ok(Self(key))
    }

    /// The key's bytes.
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    /// The key as text, if it is UTF-8. `Display` shows any key, as in `key = %job.key()` for `tracing`.
    pub fn as_str(&self) -> Option<&str> {
        std::str::from_utf8(&self.0).ok()
    }

    /// The key's bytes, without a copy.
    pub fn bytes(&self) -> &Bytes {
        &self.0
    }
}

// Nothing is compared more often than keys. The comparisons of `Bytes` are in another crate and are not inlined.
impl PartialEq for JobKey {
    fn eq(&self, other: &Self) -> bool {
        self.as_bytes() == other.as_bytes()
    }
}

impl Eq for JobKey {}

impl PartialEq<&str> for JobKey {
    fn eq(&self, other: &&str) -> bool {
        self.as_bytes() == other.as_bytes()
    }
}

impl PartialEq<JobKey> for &str {
    fn eq(&self, other: &JobKey) -> bool {
        other == self
    }
}

impl PartialOrd for JobKey {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for JobKey {
    fn cmp(&self, other: &Self) -> Ordering {
        self.as_bytes().cmp(other.as_bytes())
    }
}

impl Hash for JobKey {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.as_bytes().hash(state);
    }
}

impl Borrow<[u8]> for JobKey {
    fn borrow(&self) -> &[u8] {
        &self.0
    }
}

impl AsRef<[u8]> for JobKey {
    fn as_ref(&self) -> &[u8] {
        &self.0
    }
}

/// Converts the error of a conversion that cannot fail: from a key to a key.
impl From<Infallible> for IdError {
    fn from(never: Infallible) -> Self {
        match never {}
    }
}

impl TryFrom<&str> for JobKey {
    type Error = IdError;
    fn try_from(key: &str) -> Result<Self, IdError> {
        Self::new(Bytes::copy_from_slice(key.as_bytes()))
    }
}

impl TryFrom<String> for JobKey {
    type Error = IdError;
    fn try_from(key: String) -> Result<Self, IdError> {
        Self::new(key)
    }
}

impl TryFrom<&String> for JobKey {
    type Error = IdError;
    fn try_from(key: &String) -> Result<Self, IdError> {
        Self::try_from(key.as_str())
    }
}

impl TryFrom<&[u8]> for JobKey {
    type Error = IdError;
    fn try_from(key: &[u8]) -> Result<Self, IdError> {
        Self::new(Bytes::copy_from_slice(key))
    }
}

impl TryFrom<Bytes> for JobKey {
    type Error = IdError;
    fn try_from(key: Bytes) -> Result<Self, IdError> {
        Self::new(key)
    }
}

impl TryFrom<&JobKey> for JobKey {
    type Error = IdError;
    fn try_from(key: &JobKey) -> Result<Self, IdError> {
        Ok(key.clone())
    }
}

impl fmt::Display for JobKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0.escape_ascii(), f)
    }
}

impl fmt::Debug for JobKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "\"{self}\"")
    }
}

/// One dispatch of a job: `<node>.<ulid>`, or `<node>.!<id>` when the caller gave the id.
///
/// It identifies one life of a job: a stop names it, and so never ends a later job of the same key. It also says
/// which node waits for the outcome.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct DispatchId(Arc<str>);

impl DispatchId {
    /// An id that the node made. `unique` is a ULID, or another name that is never used twice.
    ///
    /// # Errors
    /// `unique` is not a valid name.
    pub fn of_node(node: &NodeName, unique: &str) -> Result<Self, IdError> {
        check_name("dispatch id", unique, true)?;
        Ok(Self([node.as_str(), ".", unique].concat().into()))
    }

    /// An id that the caller gave. A retry with the same id gets the first outcome.
    ///
    /// # Errors
    /// `id` is not a valid name.
    pub fn of_caller(node: &NodeName, id: &str) -> Result<Self, IdError> {
        check_name("dispatch id", id, true)?;
        Ok(Self([node.as_str(), ".!", id].concat().into()))
    }

    /// The id as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The node that made the dispatch.
    pub fn node(&self) -> &str {
        self.0.split_once('.').map_or("", |(node, _)| node)
    }

    /// Whether both ids name the same dispatch. An id that the caller gave is the same from every node.
    pub fn is_same(&self, other: &Self) -> bool {
        self == other || self.caller_id().is_some_and(|id| other.caller_id() == Some(id))
    }

    /// The id that the caller gave, if it gave one.
    pub fn caller_id(&self) -> Option<&str> {
        self.0.split_once('.').and_then(|(_, id)| id.strip_prefix('!'))
    }
}

impl fmt::Display for DispatchId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl FromStr for DispatchId {
    type Err = IdError;
    fn from_str(text: &str) -> Result<Self, IdError> {
        let bad = || IdError::Dispatch { text: text.chars().take(160).collect() };
        let (node, id) = text.split_once('.').ok_or_else(bad)?;
        check_name("node name", node, false).map_err(|_| bad())?;
        check_name("dispatch id", id.strip_prefix('!').unwrap_or(id), true).map_err(|_| bad())?;
        Ok(Self(text.into()))
    }
}

#[cfg(test)]
mod tests;
