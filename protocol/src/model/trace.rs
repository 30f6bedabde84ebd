//! The caller's trace, which travels with a job.

use serde::{Deserialize, Serialize};

use crate::model::id::IdError;

/// A W3C trace context: the values of the headers `traceparent` and `tracestate`. The pool carries them with the job
/// from its dispatcher to its worker, and does not interpret them.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct TraceContext {
    traceparent: Box<str>,
    #[serde(default, skip_serializing_if = "str::is_empty")]
    tracestate: Box<str>,
}

impl TraceContext {
    /// The longest `traceparent`, in bytes.
    pub const PARENT_MAX: usize = 128;
    /// The longest `tracestate`, in bytes.
    pub const STATE_MAX: usize = 512;

    /// Keeps the values of the two headers. The second may be empty.
    ///
    /// # Errors
    /// The first is empty, or one of them is too long.
    pub fn new(traceparent: &str, tracestate: &str) -> Result<Self, IdError> {
        if traceparent.is_empty() {
            return Err(IdError::Empty { what: "traceparent" });
        }
        for (what, text, max) in
            [("traceparent", traceparent, Self::PARENT_MAX), ("tracestate", tracestate, Self::STATE_MAX)]
        {
            if text.len() > max {
                return Err(IdError::TooLong { what, len: text.len(), max });
            }
        }
        Ok(Self { traceparent: traceparent.into(), tracestate: tracestate.into() })
    }

    /// The value of `traceparent`.
    pub fn traceparent(&self) -> &str {
        &self.traceparent
    }

    /// The value of `tracestate`, or empty.
    pub fn tracestate(&self) -> &str {
        &self.tracestate
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_keeps_to_its_bounds() {
        assert_eq!(TraceContext::new("", "x"), Err(IdError::Empty { what: "traceparent" }));
        let long = TraceContext::new("00-1-2-01", &"s".repeat(513));
        assert_eq!(long, Err(IdError::TooLong { what: "tracestate", len: 513, max: 512 }));
        let whole = TraceContext::new(&"p".repeat(128), &"s".repeat(512)).map(|t| t.tracestate().len());
        assert_eq!(whole, Ok(512));
    }
}
