//! The steps: arguments in, answers out.

use std::collections::HashMap;
use std::sync::Arc;

use async_trait::async_trait;
use redis::Value;
use tenure_connection::{Call, Version};
use tenure_steps::Letters;
use tokio::sync::mpsc;

use super::RedisStore;
use super::listening::listen;
use super::reply::{Values, failed};
use crate::model::id::{Incarnation, JobId, NodeName, QueueName, Token};
use crate::model::queue::Settings;
use crate::model::record::Record;
use crate::store::{
    AddReply, Adding, Attesting, Booted, Ends, Extended, Figures, Hint, Lane, Listing, Page, Peeked, Request,
    Result, Seen, SettleReply, Settling, SteerReply, Store, StoreError, TakeReply, TakenJob, Taking, Ticked,
    Watching,
};

/// The size of a page when what runs in a queue has its lease anew.
const PAGE: u32 = 500;

impl RedisStore {
    async fn send(&self, name: &'static str, call: &Call) -> Result<Values> {
        Values::answer(name, self.guarded.call(call).await.map_err(failed)?)
    }

    async fn command(&self, name: &'static str, command: &redis::Cmd) -> Result<Values> {
        let value = self.guarded.command(command).await.map_err(failed)?;
        Values::of(name, value)
    }
}

/// Tokens in the order of their first use, and a byte for each execution: the number of its token.
fn tokens<'a>(executions: impl Iterator<Item = &'a Token>) -> (Vec<String>, Vec<u8>) {
    let (mut numbers, mut tokens) = (HashMap::new(), Vec::new());
    let bytes = executions.map(|token| {
        *numbers.entry(*token).or_insert_with(|| {
            tokens.push(token.to_string());
            tokens.len() as u8
        })
    });
    let bytes = bytes.collect();
    (tokens, bytes)
}

/// Whether a set can be kept on a server.
fn suits(version: Version, policy: &str) -> Result<()> {
    if version.major < 7 {
        return Err(StoreError::unusable(format!("redis {version} is too old, at least 7.0.0 is needed")));
    }
    if policy != "noeviction" {
        let reason = format!("redis runs with maxmemory-policy {policy}, jobs need noeviction");
        return Err(StoreError::unusable(reason));
    }
    Ok(())
}

#[async_trait]
impl Store for RedisStore {
    async fn boot(&self, seen: Token) -> Result<Booted> {
        let info = self.open.server_of(self.keys.prefix()).await.map_err(failed)?;
        suits(info.version, &info.maxmemory_policy)?;
        let mut call = self.scripts.boot.call(&[]);
        call.arg(seen.0).arg(&*info.identity);
        let mut values = Values::of("boot", self.open.call(&call).await.map_err(failed)?)?;
        match &*values.text()? {
            "CREATED" => Ok(Booted::Created { incarnation: Incarnation(values.number()?) }),
            _ => Ok(Booted::Exists {
                incarnation: Incarnation(values.number()?),
                // A text that is none is no server's.
                server: values.name(|text| Some(text.into()))?.unwrap_or_default(),
                recovered: values.number()? == 1,
            }),
        }
    }

    async fn recover(
        &self,
        inc: Incarnation,
        seen: Token,
        server: &str,
        hold: u64,
        grace: u64,
    ) -> Result<Incarnation> {
        let mut call = self.scripts.recover.call(&[]);
        call.arg(inc.0).arg(seen.0).arg(server).arg(hold).arg(grace);
        let mut values = Values::answer("recover", self.open.call(&call).await.map_err(failed)?)?;
        Ok(Incarnation(values.number()?))
    }

    async fn server(&self) -> Result<Box<str>> {
        Ok(self.open.server_of(self.keys.prefix()).await.map_err(failed)?.identity)
    }

    fn bless(&self, server: &str) {
        self.blessed.send_replace(Some(server.into()));
    }

    async fn declare(&self, inc: Incarnation, queue: &QueueName, settings: &Settings) -> Result<bool> {
        let mut cursor = String::new();
        loop {
            let mut call = self.scripts.declare.call(&[]);
            call.arg(inc.0).arg(queue.as_str()).arg(settings.to_string()).arg(&cursor).arg(PAGE);
            let value = self.guarded.call(&call).await.map_err(failed)?;
            if matches!(&value, Value::Array(words) if words == &[Value::BulkString(b"GROUPS".to_vec())]) {
                return Ok(false);
            }
            cursor = Values::answer("declare", value)?.text()?;
            if cursor.is_empty() {
                return Ok(true);
            }
        }
    }

    async fn name(&self, inc: Incarnation, queue: &QueueName) -> Result<()> {
        let mut call = self.scripts.declare.call(&[]);
        call.arg(inc.0).arg(queue.as_str()).arg(Settings::named().to_string()).arg("n").arg(PAGE);
        self.send("declare", &call).await.map(drop)
    }

    async fn add(&self, inc: Incarnation, lane: &Lane, adding: &Adding) -> Result<Vec<AddReply>> {
        let mut call = self.scripts.add.call(&[self.keys.lane(&lane.name)]);
        let token = adding.token.map(|token| token.to_string()).unwrap_or_default();
        call.arg(inc.0).arg(lane.number).arg(&[adding.mode.letter()][..]).arg(token);
        let (mut numbers, mut kinds) = (HashMap::new(), Vec::new());
        let kind_of: Vec<u8> = adding
            .jobs
            .iter()
            .map(|job| {
                *numbers.entry(&*job.kind).or_insert_with(|| {
                    kinds.push(job.kind.text());
                    kinds.len() as u8
                })
            })
            .collect();
        call.arg(kinds.len()).args(&kinds);
        call.arg(adding.jobs.iter().map(|job| job.lookups.len()).sum::<usize>());
        for (at, job) in adding.jobs.iter().enumerate() {
            for lookup in &job.lookups {
                call.arg(at + 1).arg(lookup);
            }
        }
        call.arg(&kind_of[..]);
        call.args(adding.jobs.iter().map(|job| job.id.as_str()));
        call.args(adding.jobs.iter().map(|job| &job.body[..]));
        self.send("add", &call).await?.letters(adding.jobs.len())
    }

    async fn take(&self, inc: Incarnation, lane: &Lane, taking: &Taking) -> Result<TakeReply> {
        let mut call = self.scripts.take.call(&[self.keys.lane(&lane.name)]);
        call.arg(inc.0).arg(lane.number).arg(taking.node.as_str());
        call.arg(taking.registration.as_deref().unwrap_or_default()).arg(taking.want).arg(taking.slots);
        call.arg(taking.until.map(|ms| ms.to_string()).unwrap_or_default());
        for (queue, most) in &taking.queues {
            match &taking.group {
                Some(group) => call.arg(format!("{queue}/{group}")),
                None => call.arg(queue.as_str()),
            };
            call.arg(*most);
        }
        let value = self.guarded.call(&call).await.map_err(failed)?;
        if let Value::Array(words) = &value
            && words.first() == Some(&Value::BulkString(b"HOLD".to_vec()))
        {
            let mut values = Values::of("take", value)?;
            values.value()?;
            return Ok(TakeReply::Hold(values.number()?));
        }
        let mut values = Values::answer("take", value)?;
        values.value()?;
        let registration = Some(values.text()?).filter(|text| !text.is_empty()).map(Into::into);
        let more = !values.bytes()?.is_empty();
        let mut jobs = Vec::with_capacity(values.len() / 4);
        while values.len() > 0 {
            let (id, record) = (values.name(|text| JobId::new(text).ok())?, values.record());
            let ((body, notes), terms) = (values.body()?, values.terms());
            match (id, record, terms) {
                (Some(id), Ok(Some(record)), Ok((lease, terms))) => {
                    jobs.push(TakenJob { id, record, body, notes, lease, terms });
                }
                // Its lease runs out. The other jobs need not wait for the end of theirs.
                (id, record, _) => {
                    let error = record.err().map(tracing::field::display);
                    tracing::warn!(?id, error, "took a job that cannot be read, and leaves it alone");
                }
            }
        }
        Ok(TakeReply::Taken { jobs, registration, more })
    }

    async fn settle(&self, inc: Incarnation, lane: &Lane, jobs: &[Settling]) -> Result<Vec<SettleReply>> {
        let mut call = self.scripts.settle.call(&[self.keys.lane(&lane.name)]);
        let (tokens, token_of) = tokens(jobs.iter().map(|job| &job.token));
        let words: Vec<_> = jobs.iter().map(|job| job.settle.words()).collect();
        call.arg(inc.0).arg(lane.number).arg(tokens.len()).args(&tokens).arg(&token_of[..]);
        call.arg(words.iter().map(|(mode, ..)| mode).collect::<String>());
        call.args(jobs.iter().map(|job| job.id.as_str()));
        for (_, first, second) in &words {
            call.arg(&first[..]).arg(&second[..]);
        }
        self.send("settle", &call).await?.letters(jobs.len())
    }

    async fn extend(&self, inc: Incarnation, jobs: &[(JobId, Token)]) -> Result<Extended> {
        let mut call = self.scripts.extend.call(&[]);
        let (tokens, token_of) = tokens(jobs.iter().map(|(_, token)| token));
        call.arg(inc.0).arg(tokens.len()).args(&tokens).arg(&token_of[..]);
        call.args(jobs.iter().map(|(id, _)| id.as_str()));
        let mut values = self.send("extend", &call).await?;
        let lease = values.number()?;
        Ok(Extended { lease, replies: values.letters(jobs.len())? })
    }

    async fn attest(&self, inc: Incarnation, jobs: &[Attesting]) -> Result<Extended> {
        let mut call = self.scripts.attest.call(&[]);
        call.arg(inc.0).arg(jobs.len()).args(jobs.iter().map(|job| job.id.as_str()));
        call.args(jobs.iter().map(|job| job.record.to_string()));
        for job in jobs {
            match &job.body {
                Some(body) if job.notes.is_empty() => call.arg(&[b"b", &body[..]].concat()[..]),
                Some(body) => {
                    let head = format!("n{}|", job.notes.len());
                    call.arg(&[head.as_bytes(), &job.notes[..], &body[..]].concat()[..])
                }
                None => call.arg(""),
            };
        }
        let mut values = self.send("attest", &call).await?;
        let lease = values.number()?;
        Ok(Extended { lease, replies: values.letters(jobs.len())? })
    }

    async fn tick(
        &self,
        inc: Incarnation,
        node: &NodeName,
        most: u32,
        pause: u64,
        grace: u64,
        off_duty: bool,
    ) -> Result<Ticked> {
        let mut call = self.scripts.tick.call(&[]);
        call.arg(inc.0).arg(node.as_str()).arg(most).arg(pause).arg(grace);
        call.arg(if off_duty { "1" } else { "" });
        let value = self.guarded.call(&call).await.map_err(failed)?;
        if let Value::Array(words) = &value
            && words.first() == Some(&Value::BulkString(b"DUTY".to_vec()))
        {
            let mut values = Values::of("tick", value)?;
            values.value()?;
            return Ok(Ticked::OnDuty(values.number()?));
        }
        let mut values = Values::answer("tick", value)?;
        Ok(Ticked::Done {
            next: values.number()?,
            lost: values.number()?,
            promoted: values.number()?,
            gone: values.number()?,
        })
    }

    async fn steer(&self, inc: Incarnation, requests: &[Request]) -> Result<Vec<SteerReply>> {
        let mut call = self.scripts.steer.call(&[]);
        call.arg(inc.0);
        for (letter, of, argument) in requests.iter().map(Request::words) {
            call.arg(letter.to_string()).arg(of).arg(argument);
        }
        self.send("steer", &call).await?.letters(requests.len())
    }

    async fn watch(
        &self,
        inc: Incarnation,
        node: &NodeName,
        watching: Watching,
        number: u64,
        ids: &[JobId],
    ) -> Result<Vec<Option<Seen>>> {
        let mut call = self.scripts.watch.call(&[]);
        let how = match watching {
            Watching::Begin => 1,
            Watching::Again => 2,
            Watching::End => 0,
        };
        call.arg(inc.0).arg(node.as_str()).arg(number).arg(how).args(ids.iter().map(JobId::as_str));
        let mut values = self.send("watch", &call).await?;
        let mut jobs = Vec::with_capacity(values.len() / 4);
        while values.len() > 0 {
            jobs.push(seen(&mut values)?);
        }
        Ok(jobs)
    }

    async fn peek(&self, inc: Incarnation, ends: &Ends, ids: &[JobId]) -> Result<Vec<Option<Peeked>>> {
        let mut call = self.scripts.peek.call(&[]);
        let (how, behind) = match ends {
            Ends::Without => ("", ""),
            Ends::With => ("1", ""),
            Ends::Behind(child) => ("2", &**child),
        };
        call.arg(inc.0).arg(how).arg(behind).args(ids.iter().map(JobId::as_str));
        let mut values = self.send("peek", &call).await?;
        let mut jobs = Vec::with_capacity(values.len() / 7);
        while values.len() > 0 {
            let found = seen(&mut values)?;
            let begins_at = values.number()?;
            let mut list = values.list()?;
            let mut children = Vec::with_capacity(list.len() / 3);
            while list.len() > 0 {
                let id = list.name(|text| JobId::new(text).ok())?;
                let (end, result) = (list.name(|text| text.chars().next())?, list.bytes()?);
                children.extend(id.map(|id| (id, end.unwrap_or('X'), result)));
            }
            let more = values.text_or_nil()?.map(String::into_boxed_str);
            jobs.push(found.map(|seen| Peeked { seen, begins_at, children, more }));
        }
        Ok(jobs)
    }

    async fn figures(&self, inc: Incarnation, queues: &[QueueName]) -> Result<Vec<Figures>> {
        let mut call = self.scripts.figures.call(&[]);
        call.arg(inc.0).args(queues.iter().map(QueueName::as_str));
        let mut values = self.send("figures", &call).await?;
        let of = |values: &mut Values| {
            Ok(Figures {
                settings: values.name(Settings::parse)?,
                ready: values.number()?,
                running: values.number()?,
                delayed: values.number()?,
                waiting: values.number()?,
                dead: values.number()?,
                done: values.number()?,
                failed: values.number()?,
                cancelled: values.number()?,
            })
        };
        queues.iter().map(|_| of(&mut values)).collect()
    }

    async fn queues(&self) -> Result<Vec<QueueName>> {
        let mut values = self.command("HKEYS", redis::cmd("HKEYS").arg(self.keys.named("queues"))).await?;
        let mut names = Vec::with_capacity(values.len());
        while values.len() > 0 {
            names.extend(values.name(|text| QueueName::new(text).ok())?);
        }
        names.sort();
        Ok(names)
    }

    async fn list(&self, listing: &Listing, after: Option<&str>, size: u32) -> Result<Page> {
        let (key, prefix) = listing.place();
        let from = after.map_or_else(|| format!("[{prefix}"), |after| format!("({prefix}{after}"));
        let mut command = redis::cmd("ZRANGE");
        let till = format!("({}}}", prefix.trim_end_matches('|'));
        command.arg(self.keys.named(key)).arg(from).arg(till).arg("BYLEX").arg("LIMIT").arg(0).arg(size);
        let mut values = self.command("ZRANGE", &command).await?;
        let mut members = Vec::with_capacity(values.len());
        while values.len() > 0 {
            members.extend(values.name(|text| Some(text.to_owned()))?);
        }
        Ok(listing.page(&prefix, &members, size))
    }

    async fn scan(&self, cursor: u64, size: u32) -> Result<(u64, Vec<(JobId, Record)>)> {
        let mut command = redis::cmd("HSCAN");
        command.arg(self.keys.named("jobs")).arg(cursor).arg("COUNT").arg(size);
        let mut values = self.command("HSCAN", &command).await?;
        let next = values.number()?;
        let (mut list, mut jobs) = (values.list()?, Vec::new());
        while list.len() > 0 {
            let (id, record) = (list.name(|text| JobId::new(text).ok())?, list.name(Record::parse)?);
            jobs.extend(id.zip(record));
        }
        Ok((next, jobs))
    }

    async fn time(&self) -> Result<u64> {
        let reply = self.guarded.command_at(self.keys.prefix(), &redis::cmd("TIME")).await.map_err(failed)?;
        let mut values = Values::of("TIME", reply)?;
        Ok(values.number()?.saturating_mul(1_000) + values.number()? / 1_000)
    }

    fn listen(&self, node: &NodeName) -> mpsc::UnboundedReceiver<Hint> {
        listen(&self.client, self.keys.channel(node))
    }

    fn apart(&self) -> Arc<dyn Store> {
        let (client, keys) = (self.client.clone(), self.keys.clone());
        Arc::new(Self::over(client, keys, self.scripts.clone(), self.blessed.clone()))
    }
}

fn seen(values: &mut Values) -> Result<Option<Seen>> {
    // An unreadable record counts as none, as for the scripts.
    let (record, body, result, notes) =
        (values.record().ok().flatten(), values.bytes()?, values.bytes()?, values.bytes()?);
    Ok(record.map(|record| Seen { record, body, result, notes }))
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    #[test]
    fn a_server_that_is_too_old_is_unusable() {
        let refusal = |major, minor| match suits(Version { major, minor, patch: 1 }, "noeviction") {
            Err(StoreError::Unusable(why)) => Some(why.to_string()),
            other => other.err().map(|error| format!("{error:?}")),
        };
        assert_eq!(refusal(6, 2).unwrap(), "redis 6.2.1 is too old, at least 7.0.0 is needed");
        assert_eq!(refusal(7, 0), None);
    }
}
