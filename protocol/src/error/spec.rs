//! Why a job that a user describes cannot be stored.

use std::sync::Arc;

use super::{DispatchError, Error};
use crate::model::id::IdError;
use crate::model::settings::InvalidSetting;

/// The fault of a `JobSpec`.
#[derive(Clone, Debug)]
#[expect(missing_docs, reason = "the fields are those of the public errors")]
pub enum SpecError {
    /// Its key.
    Key(IdError),
    /// Its payload is too long.
    TooLong { len: usize, max: usize },
    /// One of its options.
    Option(InvalidSetting),
    /// Its payload, of this type, cannot be encoded.
    Encode { kind: &'static str, error: Arc<rmp_serde::encode::Error> },
}

impl From<SpecError> for DispatchError {
    fn from(error: SpecError) -> Self {
        match error {
            SpecError::Key(error) => Self::Key(error),
            SpecError::TooLong { len, max } => Self::PayloadTooLong { len, max },
            SpecError::Option(error) => Self::Option(error),
            SpecError::Encode { kind, error } => Self::Encode { kind, error },
        }
    }
}

impl From<SpecError> for Error {
    fn from(error: SpecError) -> Self {
        match error {
            SpecError::Key(error) => Self::Name(error),
            SpecError::TooLong { len, max } => Self::TooLong { what: "the payload", len, max },
            SpecError::Option(error) => Self::Setting(error),
            SpecError::Encode { error, .. } => Self::Encode { what: "the payload", error },
        }
    }
}
