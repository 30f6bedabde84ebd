//! The description of a job that will be dispatched.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;

use crate::error::{DispatchError, SpecError};
use crate::job::typed::{self, Payload};
use crate::model::id::{DispatchId, IdError, JobKey, NodeName};
use crate::model::policy::RestartPolicy;
use crate::model::settings::bounds;
use crate::model::ticket::Ticket;
use crate::model::trace::TraceContext;
use crate::model::wire::{Envelope, ProgressTimeout};
use crate::store::DispatchItem;

/// A job to dispatch: its key, its payload and its options. An invalid part is reported by the dispatch, before
/// anything is written.
///
/// ```
/// use tenure_pool::{JobSpec, RestartPolicy};
///
/// let job = JobSpec::new("acme", "payload").id("order-17").restart(RestartPolicy::OnFailure);
/// # let _ = job;
/// ```
///
/// A key and a payload make one, too: `("acme", "payload").into()`.
#[derive(Clone, Debug)]
pub struct JobSpec {
    /// The key, or the first error of the job.
    key: Result<JobKey, SpecError>,
    payload: Bytes,
    kind: Option<&'static str>,
    id: Option<String>,
    restart: RestartPolicy,
    progress: Option<Duration>,
    trace: Option<TraceContext>,
}

impl<K, P> From<(K, P)> for JobSpec
where
    K: TryInto<JobKey>,
    K::Error: Into<IdError>,
    P: Into<Bytes>,
{
    fn from((key, payload): (K, P)) -> Self {
        Self::new(key, payload)
    }
}

impl JobSpec {
    /// A job with this key (1 to 512 bytes) and payload (any bytes, with their envelope at most
    /// [`payload_max`](crate::Settings::payload_max)).
    pub fn new<K>(key: K, payload: impl Into<Bytes>) -> Self
    where
        K: TryInto<JobKey>,
        K::Error: Into<IdError>,
    {
        Self {
            key: key.try_into().map_err(|error| SpecError::Key(error.into())),
            payload: payload.into(),
            kind: None,
            id: None,
            restart: RestartPolicy::Never,
            progress: None,
            trace: None,
        }
    }

    /// A job whose payload is a value. [`Job::decode`](crate::Job::decode) returns it.
    pub fn typed<K, T>(key: K, payload: &T) -> Self
    where
        K: TryInto<JobKey>,
        K::Error: Into<IdError>,
        T: Payload,
    {
        match typed::encode(payload) {
            Ok(bytes) => Self { kind: Some(T::TYPE), ..Self::new(key, bytes) },
            Err(source) => {
                let error = SpecError::Encode { kind: T::TYPE, error: Arc::new(source) };
                let job = Self::new(key, Bytes::new());
                Self { key: job.key.and(Err(error)), ..job }
            }
        }
    }

    /// Gives the dispatch the caller's own id, `[A-Za-z0-9_:.-]{1,64}`. A dispatch with the same id, from any node,
    /// is a retry and gets the first one's outcome. That holds until
    /// [`outcome_retention`](crate::Settings::outcome_retention) after the outcome. The same id with another key,
    /// payload, type, policy or progress timeout is a [`Conflict`](DispatchError::Conflict).
    #[must_use]
    pub fn id(self, id: impl Into<String>) -> Self {
        Self { id: Some(id.into()), ..self }
    }

    /// Sets whether the job is restarted when its handler ends or fails.
    #[must_use]
    pub fn restart(self, policy: RestartPolicy) -> Self {
        Self { restart: policy, ..self }
    }

    /// Takes the job for hung when it neither ends nor says [`Job::progress`](crate::Job::progress) for this long (1 s to
    /// 1 day), counted from the end of its start. Its cancellation then fires, with
    /// [`StopReason::Stalled`](crate::StopReason::Stalled) for its stop handler. A handler that does not end within
    /// [`stop_timeout`](crate::NodeBuilder::stop_timeout) is aborted. Then the job runs again after a pause, whatever
    /// its policy. The attempt counts, so the pool parks a job that hangs too often.
    ///
    /// By default a job may be silent for ever, because most jobs rightly wait for events.
    #[must_use]
    pub fn progress_timeout(self, timeout: Duration) -> Self {
        Self { progress: Some(timeout), ..self }
    }

    /// Sets the trace that the job belongs to.
    #[must_use]
    pub fn trace(self, trace: TraceContext) -> Self {
        Self { trace: Some(trace), ..self }
    }

    /// The key, if it is valid.
    pub(crate) fn key(&self) -> Option<&JobKey> {
        self.key.as_ref().ok()
    }

    /// Whether its dispatch has the caller's own id.
    pub(crate) fn has_id(&self) -> bool {
        self.id.is_some()
    }

    /// The job without the caller's own id, so that each of its dispatches is a new one.
    pub(crate) fn anonymous(self) -> Self {
        Self { id: None, ..self }
    }

    /// Length of the payload, in bytes.
    pub(crate) fn len(&self) -> usize {
        self.payload.len()
    }

    /// Makes the item that goes to the store, for a dispatch by this node.
    pub(crate) fn seal(self, node: &NodeName, max: usize) -> Result<(Ticket, DispatchItem), DispatchError> {
        let Self { key, payload, kind, id, restart: policy, progress, trace } = self;
        let key = key?;
        let envelope =
            Envelope { trace, policy, progress: checked(progress)?, kind, ..Envelope::new(&payload) };
        let sealed = sealed(&envelope, max)?;
        let (id, hash) = match id {
            Some(id) => (DispatchId::of_caller(node, &id)?, envelope.digest(&key)),
            None => (DispatchId::of_node(node, &ulid::Ulid::generate().to_string())?, String::new()),
        };
        let ticket = Ticket { key: key.clone(), id: id.clone() };
        Ok((
            ticket,
            DispatchItem { key, id, not_after: 0, hash, payload: sealed, worker: None, awaited: true },
        ))
    }

    /// The dispatch that the caller's own id names, as this node would write it.
    pub(crate) fn dispatch_of(&self, node: &NodeName) -> Result<Option<DispatchId>, IdError> {
        self.id.as_ref().map(|id| DispatchId::of_caller(node, id)).transpose()
    }

    /// Makes the key and the payload's envelope for a job that is there.
    pub(crate) fn seal_update(self, max: usize) -> Result<(JobKey, Bytes), SpecError> {
        let Self { key, payload, kind, restart: policy, progress, trace, .. } = self;
        let key = key?;
        let envelope =
            Envelope { trace, policy, progress: checked(progress)?, kind, ..Envelope::new(&payload) };
        Ok((key, sealed(&envelope, max)?))
    }
}

fn checked(progress: Option<Duration>) -> Result<Option<ProgressTimeout>, SpecError> {
    if let Some(timeout) = progress {
        bounds::check_time("progress_timeout", timeout).map_err(SpecError::Option)?;
    }
    Ok(progress.and_then(ProgressTimeout::new))
}

/// The envelope's bytes, which may be as long as the limit.
fn sealed(envelope: &Envelope<'_>, max: usize) -> Result<Bytes, SpecError> {
    let too_long = |len| SpecError::TooLong { len, max };
    let len = envelope.body.len();
    if len > max {
        return Err(too_long(len));
    }
    let sealed = envelope.seal().map_err(|_| too_long(len))?;
    if sealed.len() > max { Err(too_long(sealed.len())) } else { Ok(sealed) }
}
