//! Another payload for a job that runs.

use tracing::Instrument;

use super::{Body, Ended, Task, beside, caught, chain, panicked};
use crate::core::input::{HandlerEvent, NotTaken};
use crate::job::payload::NewPayload;
use crate::job::verdict::{Restart, TakesNone};

/// Gives the handler another payload, while the body goes on. The job has it before that is reported. Returns the body's
/// result, if it ended, and the report. There is none for a job that must end: its next run has the payload.
pub(super) async fn update(
    task: &Task,
    new: NewPayload,
    body: &mut Option<Body>,
) -> (Option<Ended>, Option<HandlerEvent>) {
    let Task { job, handler, grace, .. } = task;
    if job.is_ending() {
        return (None, None);
    }
    let generation = new.generation();
    let updating = caught(job, || handler.update(job, new.clone()));
    let updating = updating.instrument(tracing::info_span!("update", generation));
    let (ended, done) = beside(body, updating, job, *grace).await;
    let result = match done {
        Some(Ok(Ok(()))) => {
            job.takes(new);
            Ok(())
        }
        Some(Ok(Err(error))) if error.is::<TakesNone>() => Err(NotTaken::Never),
        Some(Ok(Err(error))) if error.is::<Restart>() => Err(NotTaken::Restart),
        Some(Ok(Err(error))) => Err(NotTaken::Failed(chain(&*error))),
        Some(Err(panic)) => Err(NotTaken::Failed(panicked(&*panic))),
        None => {
            tracing::warn!(key = %job.key(), generation, "an update's handler did not end with its job, it was dropped");
            return (ended, None);
        }
    };
    (ended, Some(HandlerEvent::Updated { generation, result }))
}
