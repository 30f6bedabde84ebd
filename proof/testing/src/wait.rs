//! Waits for a condition with a deadline, instead of sleeping and hoping.

use std::{fmt::Debug, time::Duration};

use tokio::time::Instant;

use crate::Error;

/// The pause between two looks. After a look that took long it is longer, for the sake of what is looked at.
const PAUSE: (Duration, Duration) = (Duration::from_millis(5), Duration::from_millis(20));

/// The result of a look. `bool` and `Option` say whether the wait is over; a `Result` also says what was seen while it
/// is not.
pub trait Outcome {
    /// The result of the wait.
    type Value;
    /// The part of the last look that is shown when the wait runs out of time.
    type Seen: Debug;

    /// Returns the value, or the state seen instead.
    ///
    /// # Errors
    /// When the condition does not hold yet.
    fn into_result(self) -> Result<Self::Value, Self::Seen>;
}

impl Outcome for bool {
    type Value = ();
    type Seen = bool;

    fn into_result(self) -> Result<(), bool> {
        if self { Ok(()) } else { Err(self) }
    }
}

impl<T> Outcome for Option<T> {
    type Value = T;
    type Seen = Option<()>;

    fn into_result(self) -> Result<T, Option<()>> {
        self.ok_or(None)
    }
}

impl<T, E: Debug> Outcome for Result<T, E> {
    type Value = T;
    type Seen = E;

    fn into_result(self) -> Result<T, E> {
        self
    }
}

/// Looks every few milliseconds until `look` returns `true`, `Some` or `Ok`, and returns its value.
///
/// A look that itself outlasts the deadline is cancelled, and counts as one that saw nothing. At least one look begins,
/// even if the deadline is zero.
///
/// # Errors
/// [`Error::Late`] when `deadline` has passed. It names the condition and the last state seen.
///
/// # Cancel safety
/// As `look`.
pub async fn within<O: Outcome>(
    deadline: Duration,
    what: &str,
    mut look: impl AsyncFnMut() -> O,
) -> Result<O::Value, Error> {
    let end = Instant::now() + deadline;
    let mut seen = None;
    loop {
        let began = Instant::now();
        let left = end.saturating_duration_since(began);
        match tokio::time::timeout(left, look()).await.map(O::into_result) {
            Ok(Ok(value)) => return Ok(value),
            Ok(Err(now)) => seen = Some(now),
            Err(_) => {}
        }
        if Instant::now() >= end {
            let seen = seen.as_ref().map_or("nothing".to_owned(), |seen| format!("{seen:?}"));
            return Err(Error::Late { what: what.to_owned(), after: deadline, seen });
        }
        tokio::time::sleep(began.elapsed().clamp(PAUSE.0, PAUSE.1)).await;
    }
}

/// As [`within`], for tests.
///
/// # Panics
/// When `deadline` has passed. The message names the condition and the last state seen.
#[track_caller]
pub fn eventually<O, F>(deadline: Duration, what: &str, look: F) -> impl Future<Output = O::Value>
where
    O: Outcome,
    F: AsyncFnMut() -> O,
{
    let caller = std::panic::Location::caller();
    async move { within(deadline, what, look).await.unwrap_or_else(|late| panic!("{caller}: {late}")) }
}
