//! A waiting notification, as an operator sees it.

use bytes::Bytes;

use crate::id::Incarnation;

/// A notification that is kept until the job's owner has taken it.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct WaitingNotification {
    /// Its number, which rises with each notification of the job. After a loss of data the numbers may begin again.
    pub number: u64,
    /// Its bytes.
    pub body: Bytes,
    /// The incarnation that the number belongs to, or an earlier one.
    pub(crate) incarnation: Incarnation,
}
