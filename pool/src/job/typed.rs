//! Payloads with types.

use serde::de::{DeserializeOwned, IgnoredAny};
use serde::{Deserialize, Serialize};

/// A type for payloads of jobs. It is encoded as `MessagePack` with named fields. So versions that run side by side
/// may differ by added fields: give a new field `#[serde(default)]`. It may nest 64 levels.
///
/// ```
/// use serde::{Deserialize, Serialize};
/// use tenure_pool::Payload;
///
/// #[derive(Serialize, Deserialize)]
/// struct Feed {
///     url: String,
/// }
///
/// impl Payload for Feed {
///     const TYPE: &'static str = "feed";
/// }
/// ```
pub trait Payload: Serialize + DeserializeOwned {
    /// The name of the type. It is stored with each job, and a payload with another name is refused. Keep it when you
    /// move or rename the Rust type. Change it when old payloads must be refused.
    const TYPE: &'static str;

    /// Reads the value in the body of a notification that [`Node::notify_as`](crate::Node::notify_as) has sent, for
    /// [`JobHandler::notify`](crate::JobHandler::notify). [`Job::notified_as`](crate::Job::notified_as) does the same.
    ///
    /// # Errors
    /// The body is of another type, or cannot be read as this one.
    fn from_body(body: &[u8]) -> Result<Self, DecodeError> {
        open(Self::TYPE, body)
    }
}

/// A type for questions to the owners of jobs, with the type of the answers: [`Node::ask_as`](crate::Node::ask_as) and
/// [`Ask::take`](crate::Ask::take) agree about both, or do not compile.
///
/// ```
/// use serde::{Deserialize, Serialize};
/// use tenure_pool::Payload;
/// use tenure_pool::job::Request;
///
/// #[derive(Serialize, Deserialize)]
/// struct HowMany {
///     of: String,
/// }
///
/// impl Payload for HowMany {
///     const TYPE: &'static str = "how-many";
/// }
///
/// impl Request for HowMany {
///     type Answer = u64;
/// }
/// ```
pub trait Request: Payload {
    /// The type of the answers.
    type Answer: Serialize + DeserializeOwned;
}

/// Why a payload cannot be decoded as a type.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DecodeError {
    /// The value is of another type, or of none.
    #[error("the payload is {}, not {wanted:?}", found.as_deref().map_or_else(|| "of no type".into(), |found| format!("{found:?}")))]
    OtherType {
        /// The name of the requested type.
        wanted: &'static str,
        /// The name of the value's type; `None` for plain bytes.
        found: Option<String>,
    },
    /// The value has the right type name, but cannot be read as that type.
    #[error("the payload is marked {wanted:?} and cannot be read as that")]
    Damaged {
        /// The name of the type.
        wanted: &'static str,
        /// The decoder's error.
        #[source]
        source: rmp_serde::decode::Error,
    },
}

/// The most levels in a payload. Each level takes more of the stack to read.
const LEVELS: usize = 64;

/// A value that names its type, for messages that have no field for the name.
pub(crate) fn seal(kind: &str, value: &impl Serialize) -> Result<Vec<u8>, rmp_serde::encode::Error> {
    encode(&(kind, value))
}

/// The type of a sealed value. `None` for any other bytes.
pub(crate) fn kind_of(body: &[u8]) -> Option<String> {
    read::<(String, IgnoredAny)>(body).ok().map(|(kind, _)| kind)
}

/// Reads a sealed value of this type.
pub(crate) fn open<T: DeserializeOwned>(wanted: &'static str, body: &[u8]) -> Result<T, DecodeError> {
    let sealed: Result<(String, T), _> = decode_as(wanted, kind_of(body).as_deref(), body);
    sealed.map(|(_, value)| value)
}

pub(crate) fn encode<T: Serialize>(payload: &T) -> Result<Vec<u8>, rmp_serde::encode::Error> {
    let bytes = rmp_serde::to_vec_named(payload)?;
    match read::<IgnoredAny>(&bytes) {
        Err(rmp_serde::decode::Error::DepthLimitExceeded) => {
            Err(rmp_serde::encode::Error::DepthLimitExceeded)
        }
        _ => Ok(bytes),
    }
}

pub(crate) fn decode<T: Payload>(kind: Option<&str>, body: &[u8]) -> Result<T, DecodeError> {
    decode_as(T::TYPE, kind, body)
}

fn decode_as<T: DeserializeOwned>(
    wanted: &'static str,
    kind: Option<&str>,
    body: &[u8],
) -> Result<T, DecodeError> {
    if kind != Some(wanted) {
        return Err(DecodeError::OtherType { wanted, found: kind.map(str::to_owned) });
    }
    // The decoder counts no levels of enums, so that a first pass counts the levels of all values alike.
    let depth = if body.len() > LEVELS { read::<IgnoredAny>(body).err() } else { None };
    match depth.filter(|error| matches!(error, rmp_serde::decode::Error::DepthLimitExceeded)) {
        Some(source) => Err(source),
        None => read(body),
    }
    .map_err(|source| DecodeError::Damaged { wanted, source })
}

fn read<'a, T: Deserialize<'a>>(bytes: &'a [u8]) -> Result<T, rmp_serde::decode::Error> {
    let mut deserializer = rmp_serde::Deserializer::from_read_ref(bytes);
    deserializer.set_max_depth(LEVELS + 1);
    T::deserialize(&mut deserializer)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, Serialize, Deserialize)]
    struct Chain {
        next: Option<Box<Chain>>,
    }

    impl Payload for Chain {
        const TYPE: &'static str = "chain";
    }

    #[derive(Debug, Serialize, Deserialize)]
    enum Expression {
        Not(Box<Expression>),
        True,
    }

    impl Payload for Expression {
        const TYPE: &'static str = "expression";
    }

    #[test]
    fn a_deep_enum_is_no_end_of_a_small_stack() {
        let bytes = [&b"\x81\xa3Not".repeat(100_000), &b"\xa4True"[..]].concat();
        // Dropping so deep a value would end the stack, too.
        let decoded = move || decode::<Expression>(Some("expression"), &bytes).map(std::mem::forget);
        let thread = std::thread::Builder::new().stack_size(256 << 10).spawn(decoded);
        let decoded = thread.ok().and_then(|thread| thread.join().ok());
        assert!(matches!(decoded, Some(Err(DecodeError::Damaged { .. }))), "{decoded:?}");
    }

    #[test]
    fn a_sealed_value_names_its_type() -> Result<(), Box<dyn std::error::Error>> {
        let body = seal(Chain::TYPE, &chain(2))?;
        assert!(Chain::from_body(&body)?.next.is_some());
        assert_eq!(kind_of(&body).as_deref(), Some("chain"));
        let other = Expression::from_body(&body).map(std::mem::forget);
        assert!(matches!(&other, Err(DecodeError::OtherType { found: Some(found), .. }) if found == "chain"));
        for plain in [&b"5"[..], b"", b"no type"] {
            let read = Chain::from_body(plain).map(std::mem::forget);
            assert!(matches!(read, Err(DecodeError::OtherType { found: None, .. })), "{read:?}");
        }
        Ok(())
    }

    fn chain(links: usize) -> Chain {
        (1..links).fold(Chain { next: None }, |next, _| Chain { next: Some(Box::new(next)) })
    }

    fn length(chain: &Chain) -> usize {
        std::iter::successors(Some(chain), |link| link.next.as_deref()).count()
    }

    #[test]
    fn a_payload_that_nests_too_deep_is_refused_by_both_ends() {
        let bytes = encode(&chain(LEVELS)).unwrap_or_default();
        assert_eq!(decode::<Chain>(Some("chain"), &bytes).ok().as_ref().map(length), Some(LEVELS));
        let refused = encode(&chain(LEVELS + 1));
        assert!(matches!(refused, Err(rmp_serde::encode::Error::DepthLimitExceeded)), "{refused:?}");
    }

    #[test]
    fn a_deep_payload_is_no_end_of_a_small_stack() {
        for opening in [&b"\x81\xa4next"[..], b"\x91"] {
            let bytes = [&opening.repeat(100_000), &b"\xc0"[..]].concat();
            let decoded = move || decode::<Chain>(Some("chain"), &bytes).map(|chain| length(&chain));
            let thread = std::thread::Builder::new().stack_size(256 << 10).spawn(decoded);
            let decoded = thread.ok().and_then(|thread| thread.join().ok());
            assert!(matches!(decoded, Some(Err(DecodeError::Damaged { .. }))), "{decoded:?}");
        }
    }
}
