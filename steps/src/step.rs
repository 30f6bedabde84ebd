//! Steps of a protocol, as values.

use std::any::Any;
use std::fmt::Debug;

/// One atomic step of a protocol, or one read of its data, as a value. A store performs the step.
pub trait Step: Any + Clone + Debug + Send + Sync {
    /// The name in logs, in metrics, and of the script's file.
    const NAME: &'static str;
    /// The store's answer.
    type Answer: Debug + Send + 'static;
    /// The number of items. Stores bound the number.
    fn items(&self) -> usize {
        0
    }
}

/// Makes a [`Step`](crate::Step) of a struct: the name, the answer, and the number of items if there are any.
///
/// ```
/// /// Wakes jobs.
/// #[derive(Clone, Debug)]
/// struct Wake(Vec<u64>);
///
/// tenure_steps::step!(Wake: "wake" -> Vec<bool>, |step| step.0.len());
/// assert_eq!(tenure_steps::Step::items(&Wake(vec![7])), 1);
/// ```
#[macro_export]
macro_rules! step {
    ($step:ident: $name:literal -> $answer:ty $(, |$this:ident| $items:expr)?) => {
        impl $crate::Step for $step {
            const NAME: &'static str = $name;
            type Answer = $answer;
            $(fn items(&self) -> usize {
                let $this = self;
                $items
            })?
        }
    };
}

/// Declares structs that are steps: behind each struct its name and its answer.
///
/// ```
/// tenure_steps::steps! {
///     /// The time.
///     pub struct ReadTime(): "time" -> u64;
///     /// Wakes a job.
///     pub struct Wake {
///         /// The job.
///         pub id: u64,
///     }: "wake" -> bool;
/// }
/// assert_eq!(<Wake as tenure_steps::Step>::NAME, "wake");
/// ```
#[macro_export]
macro_rules! steps {
    ($(
        $(#[$meta:meta])*
        $vis:vis struct $step:ident $(($($plain:tt)*))? $({$($named:tt)*})?: $name:literal -> $answer:ty;
    )+) => {$(
        $(#[$meta])*
        #[derive(Clone, Debug)]
        $vis struct $step $(($($plain)*);)? $({$($named)*})?

        $crate::step!($step: $name -> $answer);
    )+};
}
