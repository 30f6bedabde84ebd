//! Parked jobs: retries and listings. And what operators want of single jobs.

use tenure_connection::Letters as _;

use super::RedisStore;
use super::steps::{Targets, column};
use crate::model::id::{Incarnation, JobKey};
use crate::model::record::Record;
use crate::store::{
    ListParked, OnRedis, Parked, ParkedPage, Pause, ReadDue, ReadPauses, Result, Steer, SteerReply, Unpark,
    UnparkReply,
};

impl OnRedis for Unpark {
    async fn on_redis(&self, store: &RedisStore, inc: Incarnation) -> Result<Vec<UnparkReply>> {
        let Self { jobs } = self;
        if jobs.is_empty() {
            return Ok(Vec::new());
        }
        let mut call = store.steps.scripts.unpark.call(&[]);
        call.arg(inc.0);
        for (key, id) in jobs {
            call.arg(key.as_bytes()).arg(id.as_str());
        }
        let mut values = store.steps.run("unpark", call).await?.items(jobs.len())?;
        jobs.iter().map(|_| values.letter("an unpark's answer")).collect()
    }
}

impl OnRedis for Steer {
    async fn on_redis(&self, store: &RedisStore, inc: Incarnation) -> Result<Vec<SteerReply>> {
        let Self { items } = self;
        if items.is_empty() {
            return Ok(Vec::new());
        }
        let mut targets = Targets::new();
        let numbers: Vec<_> = items.iter().map(|item| targets.number(item.guess)).collect();
        let mut call =
            store.steps.scripts.steer.call(&targets.keys(|worker| store.steps.keys.worker(*worker)));
        call.arg(inc.0).arg(targets.iter().len()).arg(column(numbers)?);
        call.arg(items.iter().map(|item| item.way.letter()).collect::<Vec<_>>());
        call.args(targets.iter().map(|worker| worker.0));
        call.args(items.iter().map(|item| item.key.as_bytes()));
        call.args(items.iter().map(|item| item.id.as_str()));
        call.args(items.iter().map(|item| item.token.0)).args(items.iter().map(|item| item.since));
        call.args(items.iter().map(|item| &*item.reason));
        store.steps.run("steer", call).await?.ok()?.letters(items.len(), "a steer's answers")
    }
}

impl OnRedis for ListParked {
    async fn on_redis(&self, store: &RedisStore, _: Incarnation) -> Result<ParkedPage> {
        let &Self { cursor, limit } = self;
        let mut call = store.steps.scripts.parked.call(&[]);
        call.arg(cursor).arg(limit.max(1));
        let mut values = store.steps.run("parked", call).await?.ok()?;
        let next = values.number()?;
        let jobs = values.groups(3, |job| {
            let (key, error) = (job.key()?, String::from_utf8_lossy(&job.bytes()?).into_owned());
            Ok(Parked { key, error, record: Record::parse(&job.bytes()?) })
        })?;
        store.steps.tell(&values);
        Ok(ParkedPage { next: (next != 0).then_some(next), jobs })
    }
}

impl OnRedis for ReadPauses {
    async fn on_redis(&self, store: &RedisStore, _: Incarnation) -> Result<Vec<Pause>> {
        let Self { keys } = self;
        if keys.is_empty() {
            return Ok(Vec::new());
        }
        let mut call = store.steps.scripts.pauses.call(&[]);
        call.args(keys.iter().map(JobKey::as_bytes));
        let mut values = store.steps.run("pauses", call).await?.items(2 * keys.len())?;
        let pauses = keys.iter().map(|_| {
            let (until, error) = (values.number_or_empty()?, values.bytes()?);
            let error = (!error.is_empty()).then(|| String::from_utf8_lossy(&error).into_owned());
            Ok(Pause { until, error })
        });
        pauses.collect()
    }
}

impl OnRedis for ReadDue {
    async fn on_redis(&self, store: &RedisStore, _: Incarnation) -> Result<Vec<(JobKey, Option<Record>)>> {
        let mut call = store.steps.scripts.due.call(&[]);
        call.arg(self.limit);
        let mut values = store.steps.run("due", call).await?.ok()?;
        let jobs = values.groups(2, |job| Ok((job.key()?, Record::parse(&job.bytes()?))))?;
        store.steps.tell(&values);
        Ok(jobs)
    }
}
