//! The envelope of a payload: a `MessagePack` map, version first, body last. Fields of a later version are passed
//! over when it is read, and stand untouched in the store.

use bytes::Bytes;
use serde::{Deserialize, Serialize};

/// The version of envelopes that this crate writes.
pub(crate) const VERSION: u8 = 1;

#[derive(Serialize, Deserialize)]
struct Envelope<'a> {
    v: u8,
    #[serde(with = "serde_bytes", borrow)]
    body: &'a [u8],
}

/// Why an envelope cannot be read.
#[derive(Debug, thiserror::Error)]
pub(crate) enum EnvelopeError {
    #[error("the payload's envelope is damaged")]
    Damaged(#[source] rmp_serde::decode::Error),
    #[error("the payload's envelope has version {0}, this node reads up to {VERSION}")]
    Newer(u8),
}

/// Wraps a payload.
pub(crate) fn seal(body: &[u8]) -> Result<Bytes, rmp_serde::encode::Error> {
    rmp_serde::to_vec_named(&Envelope { v: VERSION, body }).map(Bytes::from)
}

/// Takes a payload out of its envelope, without a copy.
pub(crate) fn open(envelope: &Bytes) -> Result<Bytes, EnvelopeError> {
    let Envelope { v, body } = rmp_serde::from_slice(envelope).map_err(EnvelopeError::Damaged)?;
    if v > VERSION {
        return Err(EnvelopeError::Newer(v));
    }
    Ok(envelope.slice_ref(body))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn golden_bytes() {
        let sealed = seal(b"hi").unwrap_or_default();
        assert_eq!(&sealed[..], b"\x82\xa1v\x01\xa4body\xc4\x02hi");
        assert_eq!(open(&sealed).ok(), Some(Bytes::from_static(b"hi")));
    }

    #[test]
    fn unknown_fields_are_passed_over_and_a_newer_version_is_named() {
        let more = Bytes::from_static(b"\x83\xa1v\x01\xa5trace\xa1t\xa4body\xc4\x02hi");
        assert_eq!(open(&more).ok(), Some(Bytes::from_static(b"hi")));
        let newer = Bytes::from_static(b"\x82\xa1v\x02\xa4body\xc4\x02hi");
        assert!(matches!(open(&newer), Err(EnvelopeError::Newer(2))));
        assert!(matches!(open(&Bytes::from_static(b"x")), Err(EnvelopeError::Damaged(_))));
    }
}
