//! Parked jobs: retries and listings.

use async_trait::async_trait;

use super::RedisStore;
use crate::model::id::{DispatchId, Incarnation, JobKey};
use crate::model::record::Record;
use crate::store::{Parked, ParkedPage, Parking, Pause, Result, UnparkReply, check_batch};

#[async_trait]
impl Parking for RedisStore {
    async fn unpark(&self, inc: Incarnation, jobs: &[(JobKey, DispatchId)]) -> Result<Vec<UnparkReply>> {
        if jobs.is_empty() {
            return Ok(Vec::new());
        }
        check_batch(jobs.len())?;
        let mut call = self.steps.scripts.unpark.call(&[]);
        call.arg(inc.0);
        for (key, id) in jobs {
            call.arg(key.as_bytes()).arg(id.as_str());
        }
        let mut values = self.steps.run("unpark", call).await?.items(jobs.len())?;
        jobs.iter()
            .map(|_| {
                values.parsed("an unpark's answer", |text| {
                    Some(match text {
                        "Q" => UnparkReply::Queued,
                        "L" => UnparkReply::Lives,
                        "N" => UnparkReply::Absent,
                        "R" => UnparkReply::Recovering,
                        "X" => UnparkReply::Bad,
                        _ => return None,
                    })
                })
            })
            .collect()
    }

    async fn parked_page(&self, cursor: u64, limit: usize) -> Result<ParkedPage> {
        let mut call = self.steps.scripts.parked.call(&[]);
        call.arg(cursor).arg(limit.max(1));
        let mut values = self.steps.run("parked", call).await?.ok()?;
        let next = values.number()?;
        let jobs = values.groups(4, |job| {
            let (key, at) = (job.key()?, job.number()?);
            let error = String::from_utf8_lossy(&job.bytes()?).into_owned();
            Ok(Parked { key, at, error, record: Record::parse(&job.bytes()?) })
        })?;
        self.steps.tell(&values);
        Ok(ParkedPage { next: (next != 0).then_some(next), jobs })
    }

    async fn pauses(&self, keys: &[JobKey]) -> Result<Vec<Pause>> {
        if keys.is_empty() {
            return Ok(Vec::new());
        }
        let mut call = self.steps.scripts.pauses.call(&[]);
        call.args(keys.iter().map(JobKey::as_bytes));
        let mut values = self.steps.run("pauses", call).await?.items(2 * keys.len())?;
        let pauses = keys.iter().map(|_| {
            let (until, error) = (values.number_or_empty()?, values.bytes()?);
            let error = (!error.is_empty()).then(|| String::from_utf8_lossy(&error).into_owned());
            Ok(Pause { until, error })
        });
        pauses.collect()
    }
}
