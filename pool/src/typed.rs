//! Payloads with a type.

use serde::Serialize;
use serde::de::DeserializeOwned;

/// A type that jobs carry as their payload: `MessagePack` with named fields, so that fields may be added between
/// versions that run side by side (give a new one `#[serde(default)]`).
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
    /// The name of the type, which stands with each job: what is decoded as another type is refused. Keep it when the
    /// Rust type moves or is renamed; change it when old payloads are to be refused.
    const TYPE: &'static str;
}

/// Why a payload is not of the type that it was to be decoded as.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DecodeError {
    /// The payload is of another type, or of none.
    #[error("the payload is {}, not {wanted:?}", found.as_deref().map_or_else(|| "of no type".into(), |found| format!("{found:?}")))]
    OtherType {
        /// The name of the type that was asked for.
        wanted: &'static str,
        /// The name of the payload's type; `None` for plain bytes.
        found: Option<String>,
    },
    /// The payload has the right type name, and cannot be read as that type.
    #[error("the payload is marked {wanted:?} and cannot be read as that")]
    Damaged {
        /// The name of the type.
        wanted: &'static str,
        /// What is wrong with it.
        #[source]
        source: rmp_serde::decode::Error,
    },
}

pub(crate) fn encode<T: Payload>(payload: &T) -> Result<Vec<u8>, rmp_serde::encode::Error> {
    rmp_serde::to_vec_named(payload)
}

pub(crate) fn decode<T: Payload>(kind: Option<&str>, body: &[u8]) -> Result<T, DecodeError> {
    let wanted = T::TYPE;
    if kind != Some(wanted) {
        return Err(DecodeError::OtherType { wanted, found: kind.map(str::to_owned) });
    }
    rmp_serde::from_slice(body).map_err(|source| DecodeError::Damaged { wanted, source })
}
