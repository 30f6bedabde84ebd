//! The steps of a job's owner: begin, started, release, owned.

use std::time::Duration;

use bytes::Bytes;
use redis::Value;
use tenure_connection::Call;
use tenure_steps::EntryId;
use tenure_steps::letters;

use super::RedisStore;
use super::reply::{Reply, unexpected};
use super::steps::{Targets, column};
use crate::model::id::{Incarnation, JobKey, Token, WorkerId};
use crate::model::record::Record;
use crate::store::{
    Begin, BeginReply, BegunJob, Checkpoint, ListOwned, OnRedis, OwnedPage, Refusal, Release, ReleaseMode,
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
        let mut streams: Vec<_> = starts.iter().map(|of| store.steps.keys.worker(of.worker)).collect();
        streams.extend(targets.keys(|node| store.steps.keys.node_of(node)));
        let mut call = store.steps.scripts.started.call(&streams);
        call.arg(inc.0).arg(starts.len()).args(starts.iter().map(|of| of.worker.0));
        call.args(starts.iter().map(|of| of.finished.len())).args(starts.iter().map(|of| of.items.len()));
        tokens(&mut call, items.iter().map(|item| item.token))?;
        call.arg(column(numbers)?);
        call.args(starts.iter().flat_map(|of| &of.finished).map(ToString::to_string));
        call.args(items.iter().map(|item| item.key.as_bytes()));
        let mut values = store.steps.run("started", call).await?.ok()?;
        let noted: Vec<Noted> = values.letters(items.len(), "starts' answers")?;
        Ok(noted.into_iter().map(|noted| noted == Noted::Yes).collect())
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
        store.steps.run("release", call).await?.ok()?.letters(items.len(), "releases' answers")
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

letters! {
    /// started's answer for one job.
    #[derive(PartialEq)]
    pub(super) enum Noted {
        /// It is noted.
        b'K': Yes,
        /// The caller is not the owner.
        b'S': Stale,
    }
}

letters! {
    /// begin's answer for one worker.
    #[derive(Clone, Copy)]
    pub(super) enum Heard {
        /// An answer for each job follows.
        b'O': Yes,
        /// The worker is no member.
        b'F': Fenced,
        /// The pool is shutting down.
        b'Z': ShuttingDown,
    }
}

letters! {
    /// begin's answer for one job, with the record and the payload, and with a checkpoint that can be read.
    pub(super) enum Begun {
        /// The worker runs the job.
        b'B': Plain(Bytes, Bytes),
        /// The worker runs the job, and notifications wait.
        b'N': Waiting(Bytes, Bytes),
        /// The worker runs the job, which has a checkpoint.
        b'C': Saved(Bytes, Bytes, Option<Box<Checkpoint>>),
        /// The worker runs the job, which has a checkpoint, and notifications wait.
        b'D': SavedWaiting(Bytes, Bytes, Option<Box<Checkpoint>>),
        /// The answer is full.
        b'L': Full,
        /// The worker does not own the job under the token.
        b'S': Refused,
    }
}

/// The answer of `begin` to these. A record of another worker or token is no valid answer: the job would start, and
/// nothing would ever stop it.
pub(super) fn begun_all(reply: Reply, begins: &[WorkerBegins]) -> Result<Vec<WorkerBegun>> {
    let mut values = reply.ok()?;
    let heard: Vec<Heard> = values.some_letters(begins.len(), "begins' answers to workers")?;
    let granted = begins.iter().zip(&heard).filter(|(_, heard)| matches!(heard, Heard::Yes));
    let row = values.row(granted.map(|(of, _)| of.jobs.len()).sum(), "begins' answers")?;
    let mut letters = row.iter();
    let of_worker = |(of, heard): (&WorkerBegins, Heard)| match heard {
        Heard::Yes => {
            let asked = of.jobs.iter().zip(&mut letters);
            let read = asked.map(|((_, token), letter)| {
                begun(values.behind(*letter, &row, "begins' answers")?, (of.worker, *token))
            });
            Ok(Ok(read.collect::<Result<_>>()?))
        }
        Heard::Fenced => Ok(Err(Refusal::Fenced)),
        Heard::ShuttingDown => Ok(Err(Refusal::ShuttingDown)),
    };
    let all = begins.iter().zip(heard).map(of_worker).collect::<Result<_>>()?;
    values.end()?;
    Ok(all)
}

/// `asked`: the worker and the token of the job.
fn begun(answer: Begun, asked: (WorkerId, Token)) -> Result<BeginReply> {
    let (waiting, stored, payload, checkpoint) = match answer {
        Begun::Plain(record, payload) => (false, record, payload, None),
        Begun::Waiting(record, payload) => (true, record, payload, None),
        Begun::Saved(record, payload, checkpoint) => (false, record, payload, checkpoint),
        Begun::SavedWaiting(record, payload, checkpoint) => (true, record, payload, checkpoint),
        Begun::Full => return Ok(BeginReply::Full),
        Begun::Refused => return Ok(BeginReply::Refused),
    };
    let Some(record) = Record::parse(&stored) else { return Ok(BeginReply::Refused) };
    if record.owner.map(|owner| (owner, record.token)) != Some(asked) {
        return Err(unexpected(
            "begin",
            "the record that was asked for",
            &Value::BulkString(stored.to_vec()),
        ));
    }
    Ok(BeginReply::Begun(BegunJob { record, waiting, payload, checkpoint }))
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
