//! The end of an engine that was asked something.

use std::sync::Arc;

use super::{DispatchError, Error};

/// The engine answers no more.
pub struct Gone {
    /// The text of its panic, if that was why.
    pub panic: Option<Arc<str>>,
}

impl From<Gone> for Error {
    fn from(gone: Gone) -> Self {
        gone.panic.map_or(Self::NodeClosed, Self::NodeFailed)
    }
}

impl From<Gone> for DispatchError {
    fn from(gone: Gone) -> Self {
        gone.panic.map_or(Self::NodeClosed, Self::NodeFailed)
    }
}
