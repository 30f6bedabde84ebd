//! How many jobs there are.

use super::steps::Steps;
use crate::model::id::WorkerId;
use crate::store::{Counts, Result};

pub(super) async fn figures(steps: &Steps, look: usize, workers: &[WorkerId]) -> Result<Counts> {
    let mut call = steps.scripts.figures.call(&[]);
    call.arg(look).args(workers.iter().map(|worker| worker.0));
    let mut values = steps.run("figures", call).await?.items(8 + workers.len())?;
    Ok(Counts {
        now: values.number()?,
        jobs: values.number()?,
        queued: values.number()?,
        owned: values.number()?,
        parked: values.number()?,
        oldest: values.number_or_empty()?,
        more: values.number()? == 1,
        returned: values.number()?,
        of_workers: workers.iter().map(|_| values.number()).collect::<Result<_>>()?,
    })
}
