//! All that is known of one job.

use bytes::Bytes;

use super::jobs::found;
use super::steps::Steps;
use crate::model::id::{DispatchId, JobKey, WorkerId};
use crate::model::settings::ShutdownFlag;
use crate::store::{Checkpoint, CheckpointSeen, Evidence, Pause, Result};

pub(super) async fn explain(steps: &Steps, key: &JobKey, id: Option<&DispatchId>) -> Result<Evidence> {
    let mut call = steps.scripts.explain.call(&[]);
    call.arg(key.as_bytes()).arg(id.map_or("", DispatchId::as_str));
    let mut values = steps.run("explain", call).await?.items(13)?;
    let (now, recovering) = (values.number()?, &*values.bytes()? == b"R");
    let flag = ShutdownFlag::parse(&String::from_utf8_lossy(&values.bytes()?));
    let found = found(&mut values.list()?)?;
    let (until, error) = (values.number_or_empty()?, values.bytes()?);
    let error = (!error.is_empty()).then(|| String::from_utf8_lossy(&error).into_owned());
    let notifications = values.number()?;
    let (header, len) = (values.bytes_or_nil()?, values.number()?);
    let header = header.and_then(|header| Checkpoint::parse(&header, Bytes::new()));
    let checkpoint = header.map(|Checkpoint { token, at, .. }| CheckpointSeen { token, at, len });
    let (heard, expired) = (values.number_or_empty()?, values.number()? == 1);
    let freshest = values.number_or_empty()?;
    let attested = values.groups(1, |of| Ok(WorkerId(of.number()?)))?.into_iter().collect();
    let pause = Pause { until, error };
    Ok(Evidence {
        now,
        recovering,
        attested,
        flag,
        found,
        pause,
        notifications,
        checkpoint,
        heard,
        expired,
        freshest,
    })
}
