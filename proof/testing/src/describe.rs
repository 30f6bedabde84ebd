//! Errors for a reader of a terminal.

use std::error::Error;
use std::fmt;

/// An error with its chain of causes, as text.
pub fn describe(error: &(dyn Error + 'static)) -> String {
    let causes = std::iter::successors(error.source(), |&cause| cause.source());
    causes.fold(error.to_string(), |text, cause| format!("{text}: {cause}"))
}

/// The error of a `main` function: any error. The process then prints the error with its causes, and exits with 1.
///
/// ```
/// # use tenure_testing::Failure;
/// fn main() -> Result<(), Failure> {
///     "17".parse::<u8>()?;
///     Ok(())
/// }
/// ```
pub struct Failure(Box<dyn Error>);

impl<E: Into<Box<dyn Error>>> From<E> for Failure {
    fn from(error: E) -> Self {
        Self(error.into())
    }
}

/// The standard library prints the error of `main` with this.
impl fmt::Debug for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&describe(&*self.0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failure_of_main_is_printed_in_words_with_its_causes() {
        let source = std::io::Error::other("the disk is full");
        let failure: Failure = crate::Error::Process { name: "node-1".into(), source }.into();
        assert_eq!(format!("{failure:?}"), "node-1: the process cannot be handled: the disk is full");
        assert_eq!(format!("{:?}", Failure::from("no tenants")), "no tenants");
    }
}
