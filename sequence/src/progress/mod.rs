//! Where a consumer's progress is kept: one number, up to which all is done.

#[cfg(feature = "pool")]
pub(crate) mod checkpoint;
#[cfg(feature = "file")]
pub(crate) mod file;
pub(crate) mod memory;
pub(crate) mod redis;

use std::future::Future;
use std::sync::Arc;

use crate::error::ProgressError;

/// The stored progress of one consumer.
///
/// A store never lowers it: to store a lower number, or the same one again, changes nothing and is no error. So a save
/// whose answer was lost is simply sent again.
pub trait Progress: Send + Sync + 'static {
    /// The stored progress; `None` if there is none. It claims nothing and changes nothing.
    ///
    /// # Errors
    /// It cannot be read.
    ///
    /// # Cancel safety
    /// Safe: it only reads.
    fn load(&self) -> impl Future<Output = Result<Option<u64>, ProgressError>> + Send;

    /// Takes the progress over, and returns what is stored. Only where nothing is stored, `default` is stored. In one
    /// step, and idempotent. A store with fencing refuses former owners from then on.
    ///
    /// # Errors
    /// It cannot be read or stored.
    ///
    /// # Cancel safety
    /// It may have been taken over all the same. Call it again.
    fn init(&self, default: u64) -> impl Future<Output = Result<u64, ProgressError>> + Send;

    /// Stores that all is done up to this index.
    ///
    /// # Errors
    /// It was not stored, or may not have been. A lower one may be stored.
    ///
    /// # Cancel safety
    /// It may be stored all the same.
    fn save(&self, index: u64) -> impl Future<Output = Result<(), ProgressError>> + Send;
}

impl<P: Progress> Progress for Arc<P> {
    fn load(&self) -> impl Future<Output = Result<Option<u64>, ProgressError>> + Send {
        P::load(self)
    }

    fn init(&self, default: u64) -> impl Future<Output = Result<u64, ProgressError>> + Send {
        P::init(self, default)
    }

    fn save(&self, index: u64) -> impl Future<Output = Result<(), ProgressError>> + Send {
        P::save(self, index)
    }
}
