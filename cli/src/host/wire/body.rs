//! Bytes in a message: as text where they are UTF-8, else in base 64 under another name.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use serde::{Deserialize, Serialize};
use tenure_pool::JobKey;

/// The bytes of a message: `body`, or `body64` in base 64.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(in crate::host) struct Body {
    #[serde(skip_serializing_if = "Option::is_none")]
    body: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    body64: Option<String>,
}

/// The state that a job has left: `checkpoint`, or `checkpoint64` in base 64. Neither, if there is none.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(in crate::host) struct State {
    #[serde(skip_serializing_if = "Option::is_none")]
    checkpoint: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    checkpoint64: Option<String>,
}

/// A job's key: `key`, or `key64` in base 64.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(in crate::host) struct Key {
    #[serde(skip_serializing_if = "Option::is_none")]
    key: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    key64: Option<String>,
}

/// Text up to this length stands as it is, for people, however JSON escapes it.
const READABLE: usize = 4 << 10;

fn split(bytes: &[u8]) -> (Option<String>, Option<String>) {
    match std::str::from_utf8(bytes) {
        Ok(text) if bytes.len() <= READABLE || escaped(bytes) <= bytes.len().div_ceil(3) * 4 => {
            (Some(text.to_owned()), None)
        }
        _ => (None, Some(STANDARD.encode(bytes))),
    }
}

/// The length of text in JSON.
fn escaped(text: &[u8]) -> usize {
    let lengths = text.iter().map(|byte| match byte {
        b'"' | b'\\' | b'\n' | b'\r' | b'\t' | 0x08 | 0x0c => 2,
        0..0x20 => 6,
        _ => 1,
    });
    lengths.sum()
}

fn joined(name: &str, text: Option<String>, base64: Option<String>) -> Result<Option<Bytes>, String> {
    match (text, base64) {
        (None, None) => Ok(None),
        (Some(text), None) => Ok(Some(text.into())),
        (None, Some(base64)) => match STANDARD.decode(base64) {
            Ok(bytes) => Ok(Some(bytes.into())),
            Err(error) => Err(format!("{name}64 is no base 64: {error}")),
        },
        (Some(_), Some(_)) => Err(format!("{name} and {name}64 are given both")),
    }
}

impl Body {
    pub(in crate::host) fn of(bytes: &[u8]) -> Self {
        let (body, body64) = split(bytes);
        Self { body, body64 }
    }

    /// The bytes; empty if there are none.
    ///
    /// # Errors
    /// They cannot be read.
    pub(in crate::host) fn bytes(self) -> Result<Bytes, String> {
        Ok(joined("body", self.body, self.body64)?.unwrap_or_default())
    }
}

impl State {
    pub(in crate::host) fn of(bytes: &[u8]) -> Self {
        let (checkpoint, checkpoint64) = split(bytes);
        Self { checkpoint, checkpoint64 }
    }

    /// The bytes, if there are any.
    ///
    /// # Errors
    /// They cannot be read.
    pub(in crate::host) fn bytes(self) -> Result<Option<Bytes>, String> {
        joined("checkpoint", self.checkpoint, self.checkpoint64)
    }
}

impl Key {
    pub(in crate::host) fn of(key: &JobKey) -> Self {
        let (key, key64) = split(key.as_bytes());
        Self { key, key64 }
    }

    /// The key.
    ///
    /// # Errors
    /// There is none, or it is not valid.
    pub(in crate::host) fn job_key(self) -> Result<JobKey, String> {
        let bytes = joined("key", self.key, self.key64)?.ok_or("there is no key")?;
        JobKey::new(bytes.to_vec()).map_err(|error| error.to_string())
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn bytes_come_back_as_they_were() {
        for bytes in [&b""[..], b"text \n\0", b"\xff\0"] {
            assert_eq!(Body::of(bytes).bytes().unwrap(), bytes);
            assert_eq!(State::of(bytes).bytes().unwrap().unwrap(), bytes);
        }
        assert_eq!(State::default().bytes(), Ok(None));
        assert_eq!(serde_json::to_string(&Body::of(b"\xff")).unwrap(), r#"{"body64":"/w=="}"#);
        let both = Body { body: Some(String::new()), body64: Some(String::new()) };
        assert!(both.bytes().is_err() && Key::default().job_key().is_err());
    }

    #[test]
    fn long_text_is_never_longer_than_in_base_64() {
        for (byte, is_text) in [(b'x', true), (b'"', false), (0, false)] {
            let bytes = vec![byte; 512 << 10];
            let body = Body::of(&bytes);
            assert_eq!(body.body.is_some(), is_text, "{byte}");
            assert!(serde_json::to_string(&body).unwrap().len() < 800_000);
            assert_eq!(body.bytes().unwrap(), bytes);
        }
        let every: String = (0..=0x7f).map(char::from).collect();
        assert_eq!(escaped(every.as_bytes()) + 2, serde_json::to_string(&every).unwrap().len());
    }
}
