//! The life of a job up to its assignment: dispatch and route, and the reads of jobs.

use async_trait::async_trait;
use bytes::Bytes;
use redis::Value;
use tenure_streaming::EntryId;

use super::RedisStore;
use super::explaining;
use super::figures;
use super::reply::{Values, unexpected};
use super::schedules;
use super::steps::{Steps, Targets, column};
use crate::model::id::{DispatchId, Incarnation, JobKey, Revision, WorkerId};
use crate::model::record::Record;
use crate::store::{
    Counts, DispatchItem, DispatchReply, Evidence, Jobs, JobsPage, Lookup, Result, RouteReply, Turn,
};

#[async_trait]
impl Jobs for RedisStore {
    async fn dispatch(
        &self,
        inc: Incarnation,
        ring: Revision,
        items: &[DispatchItem],
    ) -> Result<Vec<DispatchReply>> {
        dispatch(&self.steps, inc, None, Some(ring), items).await
    }

    async fn dispatch_planned(
        &self,
        inc: Incarnation,
        turn: &Turn,
        items: &[DispatchItem],
    ) -> Result<Vec<DispatchReply>> {
        dispatch(&self.steps, inc, Some(turn), None, items).await
    }

    async fn route(
        &self,
        inc: Incarnation,
        ring: Revision,
        entries: &[EntryId],
        jobs: &[(JobKey, Option<WorkerId>)],
    ) -> Result<Vec<RouteReply>> {
        let mut targets = Targets::new();
        let numbers: Vec<_> = jobs.iter().map(|(_, worker)| targets.number(*worker)).collect();
        let mut call = self.steps.scripts.route.call(&targets.keys(|worker| self.steps.keys.worker(*worker)));
        call.arg(inc.0).arg(ring.0).arg(entries.len()).arg(targets.iter().len());
        call.args(entries.iter().map(ToString::to_string));
        call.args(targets.iter().map(|worker| worker.0));
        call.arg(column(numbers)?).args(jobs.iter().map(|(key, _)| key.as_bytes()));
        let mut values = self.steps.run("route", call).await?.ok()?;
        values.letters(jobs.len(), "routes' answers", |letter, _| {
            Ok(Some(match letter {
                b'R' => RouteReply::Routed,
                b'D' => RouteReply::Done,
                b'W' => RouteReply::Waiting,
                b'X' => RouteReply::Bad,
                _ => return Ok(None),
            }))
        })
    }

    async fn lookup(&self, items: &[(JobKey, Option<DispatchId>)]) -> Result<Vec<Lookup>> {
        if items.is_empty() {
            return Ok(Vec::new());
        }
        if items.iter().all(|(_, id)| id.is_none()) {
            return records(&self.steps, items).await;
        }
        let mut call = self.steps.scripts.lookup.call(&[]);
        for (key, id) in items {
            call.arg(key.as_bytes()).arg(id.as_ref().map_or("", DispatchId::as_str));
        }
        let mut values = self.steps.run("lookup", call).await?.items(items.len())?;
        items.iter().map(|_| values.list().and_then(|mut list| found(&mut list))).collect()
    }

    async fn payload(&self, key: &JobKey) -> Result<Option<Bytes>> {
        let mut command = redis::cmd("HGET");
        command.arg(self.steps.keys.named("payloads")).arg(key.as_bytes());
        match self.steps.command(&command).await? {
            Value::BulkString(bytes) => Ok(Some(bytes.into())),
            Value::Nil => Ok(None),
            other => Err(unexpected("HGET", "bytes", &other)),
        }
    }

    async fn explain(&self, key: &JobKey, id: Option<&DispatchId>) -> Result<Evidence> {
        explaining::explain(&self.steps, key, id).await
    }

    async fn figures(&self, look: usize, workers: &[WorkerId]) -> Result<Counts> {
        figures::figures(&self.steps, look, workers).await
    }

    async fn jobs_page(&self, cursor: u64, limit: usize) -> Result<JobsPage> {
        let mut command = redis::cmd("HSCAN");
        command.arg(self.steps.keys.named("jobs")).arg(cursor).arg("COUNT").arg(limit.max(1));
        let mut values = Values::of("HSCAN", self.steps.command(&command).await?)?;
        let next = values.number()?;
        let jobs = values.groups(2, |job| Ok((job.key()?, Record::parse(&job.bytes()?))))?;
        self.steps.tell(&values);
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
    call.args(items.iter().map(|item| item.key.as_bytes())).args(items.iter().map(|item| item.id.as_str()));
    call.args(items.iter().map(|item| item.not_after)).args(items.iter().map(|item| &*item.payload));
    let mut values = steps.run("dispatch", call).await?.ok()?;
    values.letters(items.len(), "dispatches' answers", dispatch_reply)
}

fn dispatch_reply(letter: u8, outcomes: &mut Values) -> Result<Option<DispatchReply>> {
    Ok(Some(match letter {
        b'A' => DispatchReply::Accepted,
        b'E' => DispatchReply::Exists,
        b'P' => DispatchReply::Parked,
        b'Y' => DispatchReply::Paused,
        b'B' => DispatchReply::Full,
        b'T' => DispatchReply::Ended,
        b'C' => DispatchReply::Conflict,
        b'O' => DispatchReply::Outcome(outcomes.text()?),
        b'L' => DispatchReply::Late,
        b'R' => DispatchReply::Recovering,
        b'Z' => DispatchReply::ShuttingDown,
        b'N' => DispatchReply::OutOfTokens,
        b'X' => DispatchReply::Bad,
        _ => return Ok(None),
    }))
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
    if values.len() > 0 { Err(unexpected("HMGET", "no more values", &values.value()?)) } else { found }
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
