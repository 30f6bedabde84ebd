//! The steps of a job's owner: begin, started, release, owned.

use std::time::Duration;

use redis::Value;
use tenure_connection::Call;
use tenure_streaming::EntryId;

use super::RedisStore;
use super::reply::{Reply, Values, unexpected};
use super::steps::{Targets, column};
use crate::model::id::{Incarnation, JobKey, Token, WorkerId};
use crate::model::record::Record;
use crate::store::{
    Begin, BeginReply, Checkpoint, ListOwned, OnRedis, OwnedPage, Refusal, Release, ReleaseMode,
    ReleaseReply, Result, Started, WorkerBegins, WorkerBegun,
};

impl OnRedis for Begin {
    async fn on_redis(&self, store: &RedisStore, inc: Incarnation) -> Result<Vec<WorkerBegun>> {
        let Self { begins } = self;
        if begins.is_empty() {
            return Ok(Vec::new());
        }
        let streams: Vec<_> = begins.iter().map(|of| store.steps.keys.worker(of.worker)).collect();
        let mut call = store.steps.scripts.begin.call(&streams);
        call.arg(inc.0).arg(begins.len()).args(begins.iter().map(|of| of.worker.0));
        call.args(begins.iter().map(|of| of.finished.len())).args(begins.iter().map(|of| of.jobs.len()));
        let jobs = || begins.iter().flat_map(|of| &of.jobs);
        tokens(&mut call, jobs().map(|(_, token)| *token))?;
        call.args(begins.iter().flat_map(|of| &of.finished).map(ToString::to_string));
        call.args(jobs().map(|(key, _)| key.as_bytes()));
        begun_all(store.steps.run("begin", call).await?, begins)
    }
}

impl OnRedis for Started {
    async fn on_redis(&self, store: &RedisStore, inc: Incarnation) -> Result<Vec<bool>> {
        let Self { starts } = self;
        let items: Vec<_> = starts.iter().flat_map(|of| &of.items).collect();
        if items.is_empty() {
            return Ok(Vec::new());
        }
        let mut targets = Targets::new();
        let numbers: Vec<_> = items.iter().map(|item| targets.number(item.tell.as_ref())).collect();
        let mut call = store.steps.scripts.started.call(&targets.keys(|node| store.steps.keys.node_of(node)));
        call.arg(inc.0).arg(starts.len()).args(starts.iter().map(|of| of.worker.0));
        call.args(starts.iter().map(|of| of.items.len()));
        tokens(&mut call, items.iter().map(|item| item.token))?;
        call.arg(column(numbers)?).args(items.iter().map(|item| item.key.as_bytes()));
        let mut values = store.steps.run("started", call).await?.ok()?;
        values.letters(items.len(), "starts' answers", |letter, _| {
            Ok(match letter {
                b'K' => Some(true),
                b'S' => Some(false),
                _ => None,
            })
        })
    }
}

impl OnRedis for Release {
    async fn on_redis(&self, store: &RedisStore, inc: Incarnation) -> Result<Vec<ReleaseReply>> {
        let &Self { worker, ref finished, ref items } = self;
        let mut targets = Targets::new();
        let numbers: Vec<_> = items
            .iter()
            .map(|item| (targets.number(item.tell.as_ref()), targets.number(item.tell_stopper.as_ref())))
            .collect();
        let mut streams = vec![store.steps.keys.worker(worker)];
        streams.extend(targets.keys(|node| store.steps.keys.node_of(node)));
        // Most jobs of a call leave in the same way, so it is named once.
        let mut ways = Targets::new();
        let way_of: Vec<_> = items
            .iter()
            .zip(numbers)
            .map(|(item, (dispatcher, stopper))| {
                let delay = match item.mode {
                    ReleaseMode::Elsewhere { workers } => workers.into(),
                    _ => millis(item.delay),
                };
                let mode = mode_letter(item.mode);
                let (result, rests) = (item.result.as_str(), item.rests.as_str());
                ways.number(Some((mode, item.cause, delay, dispatcher, stopper, result, item.ran, rests)))
            })
            .collect();
        let mut call = store.steps.scripts.release.call(&streams);
        owner(&mut call, inc, worker, finished);
        call.arg(ways.iter().len());
        for &(mode, cause, delay, dispatcher, stopper, result, ran, rests) in ways.iter() {
            call.arg(mode).arg(cause.letter()).arg(delay).arg(dispatcher).arg(stopper).arg(result);
            call.arg(ran.map_or_else(String::new, |generation| generation.to_string())).arg(rests);
        }
        tokens(&mut call, items.iter().map(|item| item.token))?;
        call.arg(column(way_of)?).args(items.iter().map(|item| item.key.as_bytes()));
        let mut values = store.steps.run("release", call).await?.ok()?;
        values.letters(items.len(), "releases' answers", |letter, _| {
            Ok(Some(match letter {
                b'D' => ReleaseReply::Deleted,
                b'Q' => ReleaseReply::Queued,
                b'P' => ReleaseReply::Parked,
                b'S' => ReleaseReply::Stale,
                b'X' => ReleaseReply::Bad,
                b'L' => ReleaseReply::Later,
                _ => return Ok(None),
            }))
        })
    }
}

impl OnRedis for ListOwned {
    async fn on_redis(&self, store: &RedisStore, inc: Incarnation) -> Result<OwnedPage> {
        let &Self { worker, ref after, limit } = self;
        let after = after.as_ref();
        let mut call = store.steps.scripts.owned.call(&[]);
        call.arg(inc.0).arg(worker.0).arg(after.map_or(&[][..], JobKey::as_bytes)).arg(limit);
        let mut values = store.steps.run("owned", call).await?.ok()?;
        let more = values.number()? == 1;
        let jobs = values.groups(2, |job| Ok((job.key()?, Record::parse(&job.bytes()?))))?;
        store.steps.tell(&values);
        let next = jobs.last().filter(|_| more).map(|(key, _)| key.clone());
        Ok(OwnedPage { next, jobs })
    }
}

/// Adds the arguments with which all calls of an owner begin: the owner, and the finished entries of its stream.
pub(super) fn owner(call: &mut Call, inc: Incarnation, worker: WorkerId, finished: &[EntryId]) {
    call.arg(inc.0).arg(worker.0).arg(finished.len());
    call.args(finished.iter().map(ToString::to_string));
}

/// Adds the tokens of a call's jobs: how many different ones there are, each of them, and the one of each job.
pub(super) fn tokens(call: &mut Call, of_jobs: impl Iterator<Item = Token>) -> Result<()> {
    let mut tokens = Targets::new();
    let token_of: Vec<_> = of_jobs.map(|token| tokens.number(Some(token))).collect();
    call.arg(tokens.iter().len()).args(tokens.iter().map(|token| token.0)).arg(column(token_of)?);
    Ok(())
}

/// The answer of `begin` to these. A record of another worker or token is no valid answer: the job would start, and
/// nothing would ever stop it.
pub(super) fn begun_all(reply: Reply, begins: &[WorkerBegins]) -> Result<Vec<WorkerBegun>> {
    let mut values = reply.ok()?;
    let heard = values.some_letters_of(&[begins.len()], "begins' answers to workers", |letter, _| {
        Ok(match letter {
            b'O' => Some(Ok(())),
            b'F' => Some(Err(Refusal::Fenced)),
            b'Z' => Some(Err(Refusal::ShuttingDown)),
            _ => None,
        })
    })?;
    let heard: Vec<_> = heard.into_iter().flatten().collect();
    let granted: Vec<_> =
        begins.iter().zip(&heard).filter(|(_, heard)| heard.is_ok()).map(|(of, _)| of).collect();
    let sizes: Vec<_> = granted.iter().map(|of| of.jobs.len()).collect();
    let mut asked = granted.iter().flat_map(|of| of.jobs.iter().map(|(_, token)| (of.worker, *token)));
    let read = |letter, values: &mut Values| begun(letter, asked.next(), values);
    let mut replies = values.letters_of(&sizes, "begins' answers", read)?.into_iter();
    Ok(heard.into_iter().map(|heard| heard.map(|()| replies.next().unwrap_or_default())).collect())
}

/// `asked`: the worker and the token of the job.
fn begun(letter: u8, asked: Option<(WorkerId, Token)>, values: &mut Values) -> Result<Option<BeginReply>> {
    let (waiting, has_checkpoint) = match letter {
        b'B' => (false, false),
        b'N' => (true, false),
        b'C' => (false, true),
        b'D' => (true, true),
        b'L' => return Ok(Some(BeginReply::Full)),
        b'S' => return Ok(Some(BeginReply::Refused)),
        _ => return Ok(None),
    };
    let (stored, payload) = (values.bytes()?, values.bytes()?);
    let checkpoint = if has_checkpoint { Checkpoint::parse(&values.bytes()?, values.bytes()?) } else { None };
    let checkpoint = checkpoint.map(Box::new);
    let Some(record) = Record::parse(&stored) else { return Ok(Some(BeginReply::Refused)) };
    if record.owner.map(|owner| (owner, record.token)) != asked {
        return Err(unexpected(
            "begin",
            "the record that was asked for",
            &Value::BulkString(stored.to_vec()),
        ));
    }
    Ok(Some(BeginReply::Begun { record, waiting, payload, checkpoint }))
}

pub(super) fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

pub(super) fn mode_letter(mode: ReleaseMode) -> &'static str {
    match mode {
        ReleaseMode::Delete => "d",
        ReleaseMode::HandOff => "h",
        ReleaseMode::GiveBack => "b",
        ReleaseMode::Refuse => "r",
        ReleaseMode::Elsewhere { .. } => "e",
        ReleaseMode::Fail => "q",
        ReleaseMode::Park => "p",
    }
}
