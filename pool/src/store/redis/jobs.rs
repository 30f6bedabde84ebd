//! The life of a job up to its assignment: dispatch and route, and the reads of jobs.

use bytes::Bytes;
use redis::Value;

use super::RedisStore;
use super::explaining;
use super::figures;
use super::reply::{Values, unexpected};
use super::schedules;
use super::steps::{Steps, Targets, column};
use crate::model::id::{DispatchId, Incarnation, JobKey, Revision};
use crate::model::record::Record;
use crate::store::{
    Counts, Dispatch, DispatchItem, DispatchReply, Evidence, Explain, JobsPage, ListJobs, LookUp, Lookup,
    OnRedis, ReadFigures, ReadPayload, Result, Route, RouteReply, Turn,
};

impl OnRedis for Dispatch {
    async fn on_redis(&self, store: &RedisStore, inc: Incarnation) -> Result<Vec<DispatchReply>> {
        let (turn, ring) = self.by.parts();
        dispatch(&store.steps, inc, turn, ring, &self.items).await
    }
}

impl OnRedis for Route {
    async fn on_redis(&self, store: &RedisStore, inc: Incarnation) -> Result<Vec<RouteReply>> {
        let &Self { ring, ref entries, ref jobs } = self;
        let mut targets = Targets::new();
        let numbers: Vec<_> = jobs.iter().map(|(_, worker)| targets.number(*worker)).collect();
        let mut call =
            store.steps.scripts.route.call(&targets.keys(|worker| store.steps.keys.worker(*worker)));
        call.arg(inc.0).arg(ring.0).arg(entries.len()).arg(targets.iter().len());
        call.args(entries.iter().map(ToString::to_string));
        call.args(targets.iter().map(|worker| worker.0));
        call.arg(column(numbers)?).args(jobs.iter().map(|(key, _)| key.as_bytes()));
        store.steps.run("route", call).await?.ok()?.letters(jobs.len(), "routes' answers")
    }
}

impl OnRedis for LookUp {
    async fn on_redis(&self, store: &RedisStore, _: Incarnation) -> Result<Vec<Lookup>> {
        let Self { items } = self;
        if items.is_empty() {
            return Ok(Vec::new());
        }
        if items.iter().all(|(_, id)| id.is_none()) {
            return records(&store.steps, items).await;
        }
        let mut call = store.steps.scripts.lookup.call(&[]);
        for (key, id) in items {
            call.arg(key.as_bytes()).arg(id.as_ref().map_or("", DispatchId::as_str));
        }
        let mut values = store.steps.run("lookup", call).await?.items(items.len())?;
        items.iter().map(|_| values.list().and_then(|mut list| found(&mut list))).collect()
    }
}

impl OnRedis for ReadPayload {
    async fn on_redis(&self, store: &RedisStore, _: Incarnation) -> Result<Option<Bytes>> {
        let Self { key } = self;
        let mut command = redis::cmd("HGET");
        command.arg(store.steps.keys.named("payloads")).arg(key.as_bytes());
        match store.steps.command(&command).await? {
            Value::BulkString(bytes) => Ok(Some(bytes.into())),
            Value::Nil => Ok(None),
            other => Err(unexpected("HGET", "bytes", &other)),
        }
    }
}

impl OnRedis for Explain {
    async fn on_redis(&self, store: &RedisStore, _: Incarnation) -> Result<Evidence> {
        let Self { key, id } = self;
        let id = id.as_ref();
        explaining::explain(&store.steps, key, id).await
    }
}

impl OnRedis for ReadFigures {
    async fn on_redis(&self, store: &RedisStore, _: Incarnation) -> Result<Counts> {
        let &Self { look, ref workers } = self;
        figures::figures(&store.steps, look, workers).await
    }
}

impl OnRedis for ListJobs {
    async fn on_redis(&self, store: &RedisStore, _: Incarnation) -> Result<JobsPage> {
        let &Self { cursor, limit } = self;
        let mut command = redis::cmd("HSCAN");
        command.arg(store.steps.keys.named("jobs")).arg(cursor).arg("COUNT").arg(limit.max(1));
        let mut values = Values::of("HSCAN", store.steps.command(&command).await?)?;
        let next = values.number()?;
        let jobs = values.groups(2, |job| Ok((job.key()?, Record::parse(&job.bytes()?))))?;
        store.steps.tell(&values);
        Ok(JobsPage { next: (next != 0).then_some(next), jobs })
    }
}

pub(super) async fn dispatch(
    steps: &Steps,
    inc: Incarnation,
    turn: Option<&Turn>,
    ring: Option<Revision>,
    items: &[DispatchItem],
) -> Result<Vec<DispatchReply>> {
    if items.is_empty() {
        return Ok(Vec::new());
    }
    let mut targets = Targets::new();
    let numbers: Vec<_> = items.iter().map(|item| targets.number(ring.and(item.worker))).collect();
    let mut call = steps.scripts.dispatch.call(&targets.keys(|worker| steps.keys.worker(*worker)));
    call.arg(inc.0);
    schedules::turn(&mut call, turn);
    call.arg(ring.map_or(0, |ring| ring.0)).arg(targets.iter().len());
    call.args(targets.iter().map(|worker| worker.0));
    let mut hashes = Targets::new();
    let of_hashes: Vec<_> =
        items.iter().map(|item| hashes.number(Some(&item.hash).filter(|h| !h.is_empty()))).collect();
    call.arg(hashes.iter().len()).args(hashes.iter());
    call.arg(column(of_hashes)?).arg(column(numbers)?);
    call.arg(items.iter().map(|item| if item.awaited { 'B' } else { 'b' }).collect::<String>());
    call.args(items.iter().map(|item| item.key.as_bytes())).args(items.iter().map(|item| item.id.as_str()));
    call.args(items.iter().map(|item| item.not_after)).args(items.iter().map(|item| &*item.payload));
    steps.run("dispatch", call).await?.ok()?.letters(items.len(), "dispatches' answers")
}

/// The records of these keys, of any dispatch. That needs no script.
async fn records(steps: &Steps, items: &[(JobKey, Option<DispatchId>)]) -> Result<Vec<Lookup>> {
    let mut command = redis::cmd("HMGET");
    command.arg(steps.keys.named("jobs"));
    for (key, _) in items {
        command.arg(key.as_bytes());
    }
    let answer = steps.command(&command).await?;
    let mut values = Values::of("HMGET", answer)?;
    let found = items.iter().map(|_| Ok(record(values.bytes_or_nil()?.as_deref()))).collect();
    values.end()?;
    found
}

/// The facts that a record alone tells.
fn record(stored: Option<&[u8]>) -> Lookup {
    let record = stored.and_then(Record::parse);
    Lookup {
        bad: stored.is_some() && record.is_none(),
        newer: stored.and_then(Record::newer_version),
        record,
        ..Lookup::default()
    }
}

pub(super) fn found(values: &mut Values) -> Result<Lookup> {
    let stored = values.bytes_or_nil()?;
    let (ended, outcome, unread) = (values.number()?, values.bytes_or_nil()?, values.number_or_empty()?);
    Ok(Lookup {
        ended: ended == 1,
        outcome: outcome.map(|text| String::from_utf8_lossy(&text).into_owned()),
        bad_id: unread.is_some(),
        newer_id: unread.filter(|&version| version > Lookup::ID_VERSION),
        ..record(stored.as_deref())
    })
}
