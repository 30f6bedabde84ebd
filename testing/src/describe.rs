//! Errors for a reader of a terminal.

use std::error::Error;

/// An error with its chain of causes, as text.
pub fn describe(error: &(dyn Error + 'static)) -> String {
    let causes = std::iter::successors(error.source(), |&cause| cause.source());
    causes.fold(error.to_string(), |text, cause| format!("{text}: {cause}"))
}
