//! Steps without an incarnation, and what performs a step.

pub(super) use tenure_steps::step;

use super::{Result, Step};
use crate::model::id::Incarnation;

/// A step without an incarnation: a read, a hint, or the birth of a pool.
pub trait Read: Step {}

/// A performer of a step.
pub trait Performs<S: Step> {
    /// Performs the step in this incarnation.
    ///
    /// # Errors
    /// [`StoreError`](super::StoreError).
    ///
    /// # Cancel safety
    /// After a dropped step it is not known whether it was executed.
    fn perform(&self, inc: Incarnation, step: &S) -> impl Future<Output = Result<S::Answer>> + Send;
}

/// Makes a step without an incarnation of a struct.
macro_rules! read {
    ($step:ident: $name:literal -> $answer:ty) => {
        $crate::step::performing::step!($step: $name -> $answer);
        impl $crate::step::Read for $step {}
    };
}

pub(super) use read;
