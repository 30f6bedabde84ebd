//! Bytes that belong to users: payloads, checkpoints, notifications, answers.

use std::fmt;

use serde::Serialize;
use serde_json::Value;

use crate::out::shown;

/// Bytes as they are printed: as JSON or text where they are that, and else in base 64.
#[derive(Debug, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Payload {
    Json(Value),
    Text(String),
    Base64(String),
}

impl Payload {
    pub(crate) fn of(bytes: &[u8]) -> Self {
        let text = std::str::from_utf8(bytes);
        let json = text.ok().and_then(|text| serde_json::from_str(text).ok());
        match (json, text) {
            (Some(json @ (Value::Object(_) | Value::Array(_))), _) => Self::Json(json),
            (_, Ok(text)) => Self::Text(text.to_owned()),
            (_, Err(_)) => Self::Base64(shown::base64(bytes)),
        }
    }

    /// Them as lines of a terminal: as they are displayed, but for the ends of lines, which stay.
    pub(crate) fn lines(&self) -> String {
        match self {
            Self::Text(text) => text.lines().map(shown::plain).collect::<Vec<_>>().join("\n"),
            Self::Json(_) | Self::Base64(_) => self.to_string(),
        }
    }
}

impl fmt::Display for Payload {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Json(json) => json.fmt(f),
            Self::Text(text) => f.write_str(&shown::plain(text)),
            Self::Base64(text) => write!(f, "base64:{text}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn bytes_are_printed_as_what_they_are() {
        assert_eq!(Payload::of(br#"{"plan":"gold"}"#), Payload::Json(json!({"plan": "gold"})));
        assert_eq!(Payload::of(b"17"), Payload::Text("17".into()));
        assert_eq!(Payload::of(b"\xff\xfe"), Payload::Base64("//4=".into()));
        assert_eq!(Payload::of(b"a\x1bb").to_string(), "a\\u{1b}b");
        assert_eq!(Payload::of(b"a\x1bb\nc\n").lines(), "a\\u{1b}b\nc");
    }
}
