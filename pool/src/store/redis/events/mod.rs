//! The streams: start events of the pool, events of workers, outcomes for nodes.

use std::collections::BTreeMap;
use std::time::Duration;
use std::vec::IntoIter;

use bytes::Bytes;
use redis::{Cmd, Value};
use tenure_connection::{Error, Letters as _};
use tenure_steps::EntryId;

use super::keys::GROUP;
use super::reply::{Values, entry_id, failed, unexpected};
use super::{RedisStore, heartbeats};
use crate::model::id::{DispatchId, Incarnation, JobKey, NodeName, Token, WorkerId};
use crate::model::record::Record;
use crate::store::{
    AskEvent, AskId, BATCH_MAX, BegunJob, Checkpoint, ClaimPool, ForgetNode, Granted, GrantedJob,
    NODE_STREAM_MAX, NodeEvents, OnRedis, Outcome, PoolEvent, ReadHeartbeats, ReadNode, ReadPool, Result,
    Said, Tell, Way, WorkerEvent,
};

impl OnRedis for ReadPool {
    async fn on_redis(&self, store: &RedisStore, _: Incarnation) -> Result<Option<Vec<PoolEvent>>> {
        let &Self { ref consumer, max, block } = self;
        let mut command = redis::cmd("XREADGROUP");
        command.arg("GROUP").arg(GROUP).arg(consumer.as_str()).arg("COUNT").arg(max);
        hold(&mut command, block);
        command.arg("STREAMS").arg(store.steps.keys.named("starts")).arg(">");
        let reply = store.pool_reads.lock().await.command(&command, block).await;
        let Some(value) = unless_group_is_gone(reply)? else { return Ok(None) };
        if value == Value::Nil {
            return Ok(Some(Vec::new()));
        }
        let mut streams = Values::of("XREADGROUP", value)?;
        let mut events = Vec::new();
        while streams.len() > 0 {
            let mut stream = streams.list()?;
            stream.bytes()?;
            pool_events(&mut stream.list()?, &mut events)?;
        }
        Ok(Some(events))
    }
}

impl OnRedis for ClaimPool {
    async fn on_redis(&self, store: &RedisStore, _: Incarnation) -> Result<Option<Vec<PoolEvent>>> {
        let &Self { ref consumer, min_idle, max } = self;
        let mut events = Vec::new();
        let mut cursor = Bytes::from_static(b"0-0");
        loop {
            let mut command = redis::cmd("XAUTOCLAIM");
            command.arg(store.steps.keys.named("starts")).arg(GROUP).arg(consumer.as_str());
            command.arg(u64::try_from(min_idle.as_millis()).unwrap_or(u64::MAX)).arg(&*cursor);
            command.arg("COUNT").arg(max - events.len());
            let Some(value) = unless_group_is_gone(store.steps.connection.command(&command).await)? else {
                return Ok(None);
            };
            let mut values = Values::of("XAUTOCLAIM", value)?;
            cursor = values.bytes()?;
            pool_events(&mut values.list()?, &mut events)?;
            if events.len() >= max || &*cursor == b"0-0" {
                return Ok(Some(events));
            }
        }
    }
}

impl OnRedis for ReadNode {
    async fn on_redis(&self, store: &RedisStore, _: Incarnation) -> Result<NodeEvents> {
        let &Self { ref node, ref cursors, max, block } = self;
        let mut command = redis::cmd("XREAD");
        command.arg("COUNT").arg(max);
        hold(&mut command, block);
        command.arg("STREAMS");
        for worker in cursors.workers.keys() {
            command.arg(store.steps.keys.worker(*worker));
        }
        command.arg(store.steps.keys.node_of(node));
        for cursor in cursors.workers.values().chain([&cursors.node]) {
            command.arg(cursor.to_string());
        }
        let reply = match store.node_reads.try_lock() {
            Ok(mut reads) => reads.command(&command, block).await.map_err(failed),
            // Another read waits there for its first entry.
            Err(_) if block.is_zero() => store.steps.command(&command).await,
            Err(_) => store.node_reads.lock().await.command(&command, block).await.map_err(failed),
        };
        let mut events = NodeEvents::default();
        let mut streams = match reply? {
            Value::Nil => return Ok(events),
            value => Values::of("XREAD", value)?,
        };
        while streams.len() > 0 {
            let mut stream = streams.list()?;
            let worker = store.steps.keys.worker_of(&stream.bytes()?);
            let mut entries = stream.list()?;
            while let Some((entry, fields)) = next_entry(&mut entries)? {
                if let Some(worker) = worker {
                    events.workers.push((worker, entry, worker_event(fields)?));
                } else {
                    let outcomes = outcomes(fields, &mut events.replies)?;
                    events.outcomes.push((entry, outcomes));
                }
            }
        }
        Ok(events)
    }
}

impl OnRedis for ReadHeartbeats {
    async fn on_redis(&self, store: &RedisStore, _: Incarnation) -> Result<BTreeMap<WorkerId, u64>> {
        let Self { workers } = self;
        let workers = workers.as_deref();
        heartbeats::read(&store.steps, workers).await
    }
}

impl OnRedis for Tell {
    async fn on_redis(&self, store: &RedisStore, _: Incarnation) -> Result<()> {
        let Self { outcomes } = self;
        let mut commands: Vec<(&str, Cmd)> = Vec::new();
        for (id, outcome) in outcomes {
            let at = commands.iter().position(|(node, _)| *node == id.node()).unwrap_or_else(|| {
                let mut command = redis::cmd("XADD");
                command.arg(store.steps.keys.node(id.node())).arg("NOMKSTREAM");
                command.arg("MAXLEN").arg("~").arg(NODE_STREAM_MAX).arg("*");
                commands.push((id.node(), command));
                commands.len() - 1
            });
            commands[at].1.arg(id.as_str()).arg(outcome);
        }
        futures::future::try_join_all(commands.iter().map(|(_, command)| store.steps.command(command)))
            .await?;
        Ok(())
    }
}

impl OnRedis for ForgetNode {
    async fn on_redis(&self, store: &RedisStore, _: Incarnation) -> Result<()> {
        let Self { node } = self;
        match store.steps.command(redis::cmd("UNLINK").arg(store.steps.keys.node_of(node))).await? {
            Value::Int(_) => Ok(()),
            other => Err(unexpected("UNLINK", "a number", &other)),
        }
    }
}

/// `None` when the stream or its group is gone, before the read or while it was held.
fn unless_group_is_gone(reply: std::result::Result<Value, Error>) -> Result<Option<Value>> {
    match reply {
        Ok(value) => Ok(Some(value)),
        Err(error) if matches!(error.code(), Some("NOGROUP" | "UNBLOCKED")) => Ok(None),
        Err(error) => Err(failed(error)),
    }
}

fn pool_events(entries: &mut Values, events: &mut Vec<PoolEvent>) -> Result<()> {
    while let Some((entry, mut fields)) = next_entry(entries)? {
        let mut jobs = Vec::with_capacity(fields.len() / 2);
        while fields.len() > 0 {
            let (field, key) = (fields.bytes()?, fields.bytes()?);
            if let (Some(strikes), Ok(key)) = (strikes(&field), JobKey::new(key)) {
                jobs.push((key, strikes));
            }
        }
        // No step writes more. A job that is left out waits in `queue`, and is announced again.
        jobs.truncate(BATCH_MAX);
        events.push(PoolEvent { entry, jobs });
    }
    Ok(())
}

/// The strikes in a start event's field, `s` or `s<strikes>`.
fn strikes(field: &[u8]) -> Option<u32> {
    match field.strip_prefix(b"s")? {
        b"" => Some(0),
        strikes => std::str::from_utf8(strikes).ok()?.parse().ok(),
    }
}

/// Lets the server hold the command for this long.
pub(super) fn hold(command: &mut Cmd, block: Duration) {
    // 0 would mean no limit.
    if let Some(ms) = u64::try_from(block.as_millis()).ok().filter(|ms| *ms > 0) {
        command.arg("BLOCK").arg(ms);
    }
}

/// The next entry and its fields.
fn next_entry(entries: &mut Values) -> Result<Option<(EntryId, Values)>> {
    if entries.len() == 0 {
        return Ok(None);
    }
    let mut entry = entries.list()?;
    Ok(Some((entry.parsed("an entry's id", entry_id)?, entry.list()?)))
}

fn worker_event(mut fields: Values) -> Result<WorkerEvent> {
    let mut all = Vec::with_capacity(fields.len() / 2);
    while fields.len() > 0 {
        all.push((fields.bytes()?, fields.bytes()?));
    }
    Ok(decoded(all.into_iter()).unwrap_or(WorkerEvent::Unknown))
}

fn decoded(mut fields: IntoIter<(Bytes, Bytes)>) -> Option<WorkerEvent> {
    match &*fields.as_slice().first()?.0 {
        b"t" => {
            let token = token(&fields.next()?.1)?;
            let keys = fields.map(|(field, key)| (&*field == b"s").then(|| JobKey::new(key).ok())?);
            Some(WorkerEvent::Start { token, keys: keys.collect::<Option<_>>()? })
        }
        b"g" => granted(fields),
        b"w" => {
            let waiting = fields.next()?.1;
            let waiting = match std::str::from_utf8(&waiting).ok()? {
                "" => None,
                name => Some(NodeName::new(name).ok()?),
            };
            Some(WorkerEvent::Stop { waiting, jobs: stops(fields)? })
        }
        b"a" => {
            let asker = NodeName::new(std::str::from_utf8(&fields.next()?.1).ok()?).ok()?;
            Some(WorkerEvent::Ask { asker, asks: asks(fields)? })
        }
        b"u" => Some(WorkerEvent::Update { jobs: updates(fields)? }),
        b"r" => Some(WorkerEvent::Steer { jobs: steers(fields)? }),
        b"n" => Some(WorkerEvent::Notify { jobs: keys_and_tokens(fields, b"n")? }),
        _ => None,
    }
}

/// Granted jobs: `g token`, `i incarnation`, then `key record` and `letter payload` of each, and the header and the bytes of its
/// checkpoint behind some letters. With a record that cannot be read, the worker asks for all jobs of the entry.
fn granted(mut fields: IntoIter<(Bytes, Bytes)>) -> Option<WorkerEvent> {
    let ((_, token_text), (i, incarnation)) = (fields.next()?, fields.next()?);
    if &*i != b"i" {
        return None;
    }
    let (token, incarnation) = (token(&token_text)?, std::str::from_utf8(&incarnation).ok()?.parse().ok()?);
    let (mut jobs, mut unread) = (Vec::with_capacity(fields.len() / 2), Vec::new());
    while let Some((key, record)) = fields.next() {
        let (letter, payload) = fields.next()?;
        let [letter] = letter[..] else { return None };
        let (waiting, saved) = match letter.to_ascii_uppercase() {
            b'B' => (false, false),
            b'N' => (true, false),
            b'C' => (false, true),
            b'D' => (true, true),
            _ => return None,
        };
        let checkpoint = if saved { Some(fields.next()?) } else { None };
        let checkpoint =
            checkpoint.and_then(|(header, bytes)| Checkpoint::parse(&header, bytes)).map(Box::new);
        let (key, record) = (JobKey::new(key).ok()?, Record::parse(&record));
        match record.filter(|record| record.token == token) {
            Some(record) => {
                let job = BegunJob { record, waiting, payload, checkpoint };
                jobs.push(GrantedJob { key, awaited: letter.is_ascii_uppercase(), job });
            }
            None => unread.push(key),
        }
    }
    if unread.is_empty() {
        return Some(WorkerEvent::Grant(Granted { token, incarnation: Incarnation(incarnation), jobs }));
    }
    let keys = jobs.into_iter().map(|of| of.key).chain(unread).collect();
    Some(WorkerEvent::Start { token, keys })
}

/// Jobs to stop: `x key t token`, and `i id` after it, unless the entry is an older one.
fn stops(fields: IntoIter<(Bytes, Bytes)>) -> Option<Vec<(JobKey, Token, Option<DispatchId>)>> {
    let mut jobs = Vec::with_capacity(fields.len() / 3);
    let mut fields = fields.peekable();
    while let Some((x, key)) = fields.next() {
        let (t, number) = fields.next()?;
        if &*x != b"x" || &*t != b"t" {
            return None;
        }
        let id = match fields.next_if(|(field, _)| &**field == b"i") {
            Some((_, id)) => Some(std::str::from_utf8(&id).ok()?.parse().ok()?),
            None => None,
        };
        jobs.push((JobKey::new(key).ok()?, token(&number)?, id));
    }
    Some(jobs)
}

/// Jobs with another payload: `u key t token g generation`.
fn updates(mut fields: IntoIter<(Bytes, Bytes)>) -> Option<Vec<(JobKey, Token, u64)>> {
    let mut jobs = Vec::with_capacity(fields.len() / 3);
    while let Some((u, key)) = fields.next() {
        let ((t, number), (g, generation)) = (fields.next()?, fields.next()?);
        if [&*u, &*t, &*g] != [b"u", b"t", b"g"] {
            return None;
        }
        let generation = std::str::from_utf8(&generation).ok()?.parse().ok()?;
        jobs.push((JobKey::new(key).ok()?, token(&number)?, generation));
    }
    Some(jobs)
}

/// Jobs whose runs are to end: `r key t token w way e reason`.
fn steers(mut fields: IntoIter<(Bytes, Bytes)>) -> Option<Vec<(JobKey, Token, Way, String)>> {
    let mut jobs = Vec::with_capacity(fields.len() / 4);
    while let Some((r, key)) = fields.next() {
        let ((t, number), (w, way), (e, reason)) = (fields.next()?, fields.next()?, fields.next()?);
        if [&*r, &*t, &*w, &*e] != [b"r", b"t", b"w", b"e"] {
            return None;
        }
        let [way] = way[..] else { return None };
        let reason = String::from_utf8_lossy(&reason).into_owned();
        jobs.push((JobKey::new(key).ok()?, token(&number)?, Way::of_letter(way)?, reason));
    }
    Some(jobs)
}

/// Asks: the key and the head, then the token and the body.
fn asks(mut fields: IntoIter<(Bytes, Bytes)>) -> Option<Vec<(JobKey, AskEvent)>> {
    let mut asks = Vec::with_capacity(fields.len() / 2);
    while let Some((key, head)) = fields.next() {
        let (number, body) = fields.next()?;
        asks.push((JobKey::new(key).ok()?, AskEvent::parse(&head, token(&number)?, body)?));
    }
    Some(asks)
}

fn keys_and_tokens(mut fields: IntoIter<(Bytes, Bytes)>, kind: &[u8]) -> Option<Vec<(JobKey, Token)>> {
    let mut jobs = Vec::with_capacity(fields.len() / 2);
    while let Some((field, key)) = fields.next() {
        let (t, number) = fields.next()?;
        if *field != *kind || &*t != b"t" {
            return None;
        }
        jobs.push((JobKey::new(key).ok()?, token(&number)?));
    }
    Some(jobs)
}

fn token(text: &[u8]) -> Option<Token> {
    std::str::from_utf8(text).ok()?.parse().ok()
}

/// Outcomes for a node; what was said to its asks is added to `replies`. Skips other entries, such as the one that opens
/// the stream.
fn outcomes(mut fields: Values, replies: &mut Vec<(AskId, Said)>) -> Result<Vec<(DispatchId, Outcome)>> {
    let mut outcomes = Vec::with_capacity(fields.len() / 2);
    while fields.len() > 0 {
        let (id, outcome) = (fields.bytes()?, fields.bytes()?);
        let Ok(id) = std::str::from_utf8(&id) else { continue };
        if id.starts_with('?') {
            replies.extend(id.parse().ok().zip(Said::decode(&outcome)));
        } else if let Ok(id) = id.parse() {
            outcomes.push((id, String::from_utf8_lossy(&outcome).into_owned()));
        }
    }
    Ok(outcomes)
}

#[cfg(test)]
mod tests;
