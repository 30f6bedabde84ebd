//! A failure of the demo, with its cause.

use tenure_pool::BoxError;

/// A failed act of the demo, and the cause if there is one.
#[derive(Debug, thiserror::Error)]
#[error("{what}")]
pub struct Failed {
    what: String,
    source: Option<BoxError>,
}

impl Failed {
    /// A failure without a cause.
    pub fn new(what: impl Into<String>) -> Self {
        Self { what: what.into(), source: None }
    }
}

/// Says of an error what has failed by it.
pub(super) trait Context<T> {
    fn context(self, what: impl Into<String>) -> Result<T, Failed>;
}

impl<T, E: Into<BoxError>> Context<T> for Result<T, E> {
    fn context(self, what: impl Into<String>) -> Result<T, Failed> {
        self.map_err(|error| Failed { what: what.into(), source: Some(error.into()) })
    }
}
