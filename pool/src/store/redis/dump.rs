//! The whole state of a pool as tests compare it.

use std::collections::BTreeMap;

use bytes::Bytes;
use redis::Value;
use serde::Deserialize;
use serde_bytes::ByteBuf;

use super::keys::GROUP;
use super::reply::{Values, unexpected};
use super::steps::Steps;
use crate::store::{Dump, Result, Text};

/// The entry of `outcomes` for a caller's id.
#[derive(Deserialize)]
struct Entry {
    key: ByteBuf,
    hash: ByteBuf,
    #[serde(rename = "gen")]
    id: ByteBuf,
    #[serde(default)]
    outcome: ByteBuf,
    #[serde(default)]
    at: u64,
}

pub(super) async fn dump(steps: &Steps) -> Result<Dump> {
    let mut dump = Dump::default();
    let keys = steps.command(redis::cmd("KEYS").arg(steps.keys.named("*"))).await?;
    let mut keys = Values::of("KEYS", keys)?;
    while keys.len() > 0 {
        let key = keys.text()?;
        let name = key.strip_prefix(steps.keys.prefix()).unwrap_or(&key);
        match steps.command(redis::cmd("TYPE").arg(&key)).await? {
            Value::SimpleString(kind) if kind == "hash" => hash(steps, &mut dump, &key, name).await?,
            Value::SimpleString(kind) if kind == "zset" => scores(steps, &mut dump, &key, name).await?,
            Value::SimpleString(kind) if kind == "stream" => stream(steps, &mut dump, &key, name).await?,
            // The clock that tests set, and a key that has run out since it was listed.
            Value::SimpleString(kind) if kind == "string" || kind == "none" => {}
            other => return Err(unexpected("TYPE", "the type of one of the pool's keys", &other)),
        }
    }
    Ok(dump)
}

async fn hash(steps: &Steps, dump: &mut Dump, key: &str, name: &str) -> Result<()> {
    let mut values = Values::of("HGETALL", steps.command(redis::cmd("HGETALL").arg(key)).await?)?;
    let mut fields = BTreeMap::new();
    while values.len() > 0 {
        let (field, value) = (values.bytes()?, values.bytes()?);
        let value = if name == "outcomes" { outcome(&value) } else { value };
        fields.insert(field, value);
    }
    if name == "pool" {
        // The server's process, and the stamps of the maps' revisions: the other store has neither.
        for field in ["server", "workers_revision:at", "settings_revision:at"] {
            fields.remove(field.as_bytes());
        }
    }
    dump.hash(name, fields);
    Ok(())
}

fn outcome(packed: &Bytes) -> Bytes {
    match rmp_serde::from_slice::<Entry>(packed) {
        Ok(entry) => {
            let at = ByteBuf::from(entry.at.to_string());
            [entry.key, entry.hash, entry.id, entry.outcome, at].map(ByteBuf::into_vec).join(&b'|').into()
        }
        Err(_) => packed.clone(),
    }
}

async fn scores(steps: &Steps, dump: &mut Dump, key: &str, name: &str) -> Result<()> {
    let mut command = redis::cmd("ZRANGE");
    command.arg(key).arg(0).arg(-1).arg("WITHSCORES");
    let mut values = Values::of("ZRANGE", steps.command(&command).await?)?;
    let mut members = Vec::new();
    while values.len() > 0 {
        members.push((values.bytes()?, values.number()?));
    }
    dump.scores(name, members);
    Ok(())
}

async fn stream(steps: &Steps, dump: &mut Dump, key: &str, name: &str) -> Result<()> {
    let reply = steps.command(redis::cmd("XRANGE").arg(key).arg("-").arg("+")).await?;
    let mut values = Values::of("XRANGE", reply)?;
    let mut entries = Vec::new();
    while values.len() > 0 {
        let mut entry = values.list()?;
        entry.bytes()?;
        let mut fields = entry.list()?;
        let words: Result<Vec<Bytes>> = (0..fields.len()).map(|_| fields.bytes()).collect();
        entries.push(words?.into_iter().map(Text::from).collect());
    }
    dump.entries(name, entries);
    if name == "starts" { pending(steps, dump, key).await } else { Ok(()) }
}

/// How many entries each consumer holds: none without their group.
async fn pending(steps: &Steps, dump: &mut Dump, key: &str) -> Result<()> {
    let groups = steps.command(redis::cmd("XINFO").arg("GROUPS").arg(key)).await?;
    if Values::of("XINFO GROUPS", groups)?.len() == 0 {
        return Ok(());
    }
    let reply = steps.command(redis::cmd("XPENDING").arg(key).arg(GROUP)).await?;
    let mut summary = Values::of("XPENDING", reply)?;
    for _ in 0..3 {
        summary.value()?;
    }
    let mut held = Vec::new();
    if let Value::Array(consumers) = summary.value()? {
        for consumer in consumers {
            let mut consumer = Values::of("XPENDING", consumer)?;
            held.push((consumer.bytes()?, consumer.bytes()?));
        }
    }
    dump.hash("starts.routers", held);
    Ok(())
}
