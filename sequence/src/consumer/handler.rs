//! The code that runs jobs: users write it.

use std::error::Error as StdError;
use std::future::Future;
use std::marker::PhantomData;
use std::sync::Arc;

use crate::consumer::delivery::Delivery;
use crate::error::{BoxError, Irrecoverable};

/// Runs the jobs of a consumer. An async closure that takes a [`Delivery`] is a handler.
///
/// A job runs at least once, and again after a crash: it must bear that. `Ok` says that it is done. An error or a panic is
/// a failed attempt, and [`Retry`](crate::Retry) says what comes of it. The error [`Irrecoverable`] ends the consumer.
///
/// Jobs run in tasks of their own. One that blocks its thread holds up the others on that thread, and cannot be dropped.
pub trait Handler<J>: Send + Sync + 'static {
    /// Runs a job.
    ///
    /// # Errors
    /// The attempt has failed, and the job is not done.
    ///
    /// # Cancel safety
    /// The consumer drops it after the job's deadline, and after the grace of a shutdown.
    fn handle(&self, delivery: Delivery<J>) -> impl Future<Output = Result<(), BoxError>> + Send;
}

impl<J, F, Fut, E> Handler<J> for F
where
    F: Fn(Delivery<J>) -> Fut + Send + Sync + 'static,
    Fut: Future<Output = Result<(), E>> + Send,
    E: Into<BoxError>,
{
    fn handle(&self, delivery: Delivery<J>) -> impl Future<Output = Result<(), BoxError>> + Send {
        let handled = self(delivery);
        async move { handled.await.map_err(Into::into) }
    }
}

/// A handler of another form of the jobs: see [`converted`].
#[derive(Debug)]
pub struct Converted<T, H> {
    handler: H,
    form: PhantomData<fn() -> T>,
}

/// A handler for jobs in another form, to which each is converted first. A job that cannot be converted never can be: its
/// [`ConversionError`] is irrecoverable, and ends the consumer before the job.
///
/// ```
/// use tenure_sequence::{BoxError, Delivery, converted};
///
/// struct Amount(u64);
///
/// impl TryFrom<&String> for Amount {
///     type Error = std::num::ParseIntError;
///     fn try_from(text: &String) -> Result<Self, Self::Error> {
///         text.parse().map(Self)
///     }
/// }
///
/// let handler = converted(async |amount: Delivery<Amount>| {
///     tracing::info!("{} is {}", amount.index(), amount.job().0);
///     Ok::<_, BoxError>(())
/// });
/// # fn takes(_: impl tenure_sequence::Handler<String>) {}
/// # takes(handler);
/// ```
pub fn converted<T, H: Handler<T>>(handler: H) -> Converted<T, H> {
    Converted { handler, form: PhantomData }
}

/// A job that is not of the type that its handler takes.
#[derive(Debug, thiserror::Error)]
#[error("job {index} is not of the type {wanted}")]
#[non_exhaustive]
pub struct ConversionError {
    /// The job's index.
    pub index: u64,
    /// The wanted type, by its name in Rust.
    pub wanted: &'static str,
    /// Why not.
    pub source: BoxError,
}

impl<J, T, H, E> Handler<J> for Converted<T, H>
where
    J: Send + Sync + 'static,
    T: for<'a> TryFrom<&'a J, Error = E> + Send + Sync + 'static,
    E: StdError + Send + Sync + 'static,
    H: Handler<T>,
{
    async fn handle(&self, delivery: Delivery<J>) -> Result<(), BoxError> {
        match T::try_from(delivery.job()) {
            Ok(job) => self.handler.handle(delivery.with(Arc::new(job))).await,
            Err(source) => {
                let wanted = std::any::type_name::<T>();
                let error = ConversionError { index: delivery.index(), wanted, source: source.into() };
                Err(Irrecoverable::new(error).into())
            }
        }
    }
}
