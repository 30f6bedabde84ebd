//! The steps: arguments in, answers out.

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::Arc;

use futures::future::BoxFuture;
use tenure_connection::{Call, Version};
use tenure_steps::{Letters, Step};
use tokio::sync::mpsc;

use super::RedisStore;
use super::listening::listen;
use super::reply::{Values, answer, body, failed, letters, name, names, parsed_or_nil, record, terms};
use crate::model::id::{Incarnation, JobId, NodeName, QueueName, Token};
use crate::model::queue::Settings;
use crate::model::record::Record;
use crate::store::{
    AddJobs, AddReply, Answer, AttestJobs, Boot, Booted, Declare, Ends, ExtendJobs, Extended, Figures, Hint,
    Kind, Known, ListJobs, ListQueues, Page, PeekJobs, Peeked, ReadFigures, ReadServer, ReadTime, Recover,
    Request, Result, ScanJobs, Seen, SettleJobs, SettleReply, SteerJobs, SteerReply, Store, StoreError,
    TakeJobs, TakeReply, TakenJob, Tick, Ticked, WatchJobs,
};

/// The size of a page when what runs in a queue has its lease anew.
const PAGE: u32 = 500;

/// The call of a step on Redis, and the reading of the reply.
pub trait OnRedis: Step {
    /// Performs the step.
    ///
    /// # Errors
    /// [`StoreError`].
    ///
    /// # Cancel safety
    /// A dropped call may have been carried out.
    fn send(&self, store: &RedisStore, inc: Incarnation)
    -> impl Future<Output = Result<Self::Answer>> + Send;
}

impl RedisStore {
    /// The values of a script's answer behind `OK`.
    async fn ask(&self, name: &'static str, call: &Call) -> Result<Values> {
        Ok(self.ask_or(name, call, "").await?.1)
    }

    /// The values behind `OK` or behind another word, and whether that one came.
    async fn ask_or(&self, name: &'static str, call: &Call, other: &str) -> Result<(bool, Values)> {
        answer(name, self.guarded.call(call).await.map_err(failed)?, other)
    }

    async fn command(&self, name: &'static str, command: &redis::Cmd) -> Result<Values> {
        let value = self.guarded.command(command).await.map_err(failed)?;
        Values::of(name, value)
    }
}

impl Store for RedisStore {
    fn perform<'a>(&'a self, inc: Incarnation, step: &'a dyn Known) -> BoxFuture<'a, Result<Answer>> {
        step.with_redis(self, inc)
    }

    fn bless(&self, server: &str) {
        self.blessed.send_replace(Some(server.into()));
    }

    fn listen(&self, node: &NodeName) -> mpsc::UnboundedReceiver<Hint> {
        listen(&self.client, self.keys.channel(node))
    }

    fn apart(&self) -> Arc<dyn Store> {
        let (client, keys) = (self.client.clone(), self.keys.clone());
        Arc::new(Self::over(client, keys, self.scripts.clone(), self.blessed.clone()))
    }
}

/// The texts of what items have in common, in the order of their first use, and a byte for each item: the number of its
/// text.
fn numbered<'a, T: Eq + Hash + 'a>(
    items: impl Iterator<Item = &'a T>,
    text: impl Fn(&T) -> String,
) -> (Vec<String>, Vec<u8>) {
    let (mut numbers, mut texts) = (HashMap::new(), Vec::new());
    let bytes = items.map(|item| {
        *numbers.entry(item).or_insert_with(|| {
            texts.push(text(item));
            texts.len() as u8
        })
    });
    let bytes = bytes.collect();
    (texts, bytes)
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

impl OnRedis for Boot {
    async fn send(&self, store: &RedisStore, _: Incarnation) -> Result<Booted> {
        let info = store.open.server_of(store.keys.prefix()).await.map_err(failed)?;
        suits(info.version, &info.maxmemory_policy)?;
        let mut call = store.scripts.boot.call(&[]);
        call.arg(self.0.0).arg(&*info.identity);
        let mut values = Values::of(Self::NAME, store.open.call(&call).await.map_err(failed)?)?;
        match &*values.text()? {
            "CREATED" => Ok(Booted::Created { incarnation: Incarnation(values.number()?) }),
            _ => Ok(Booted::Exists {
                incarnation: Incarnation(values.number()?),
                // A text that is none is no server's.
                server: name(&mut values, |text| Some(text.into()))?.unwrap_or_default(),
                recovered: values.number()? == 1,
            }),
        }
    }
}

impl OnRedis for Recover {
    async fn send(&self, store: &RedisStore, inc: Incarnation) -> Result<Incarnation> {
        let mut call = store.scripts.recover.call(&[]);
        call.arg(inc.0).arg(self.seen.0).arg(&*self.server).arg(self.hold).arg(self.grace);
        let (_, mut values) = answer(Self::NAME, store.open.call(&call).await.map_err(failed)?, "")?;
        Ok(Incarnation(values.number()?))
    }
}

impl OnRedis for ReadServer {
    async fn send(&self, store: &RedisStore, _: Incarnation) -> Result<Box<str>> {
        Ok(store.open.server_of(store.keys.prefix()).await.map_err(failed)?.identity)
    }
}

impl OnRedis for Declare {
    async fn send(&self, store: &RedisStore, inc: Incarnation) -> Result<bool> {
        let Self(queue, settings) = self;
        let mut cursor = if settings.is_some() { "" } else { "n" }.to_owned();
        let settings = settings.as_ref().unwrap_or(&Settings::named()).to_string();
        loop {
            let mut call = store.scripts.declare.call(&[]);
            call.arg(inc.0).arg(queue.as_str()).arg(&settings).arg(&cursor).arg(PAGE);
            let (other_kind, mut values) = store.ask_or(Self::NAME, &call, "GROUPS").await?;
            if other_kind {
                return Ok(false);
            }
            cursor = values.text()?;
            if cursor.is_empty() {
                return Ok(true);
            }
        }
    }
}

impl OnRedis for AddJobs {
    async fn send(&self, store: &RedisStore, inc: Incarnation) -> Result<Vec<AddReply>> {
        let Self(lane, adding) = self;
        let mut call = store.scripts.add.call(&[store.keys.lane(&lane.name)]);
        let token = adding.token.map(|token| token.to_string()).unwrap_or_default();
        call.arg(inc.0).arg(lane.number).arg(&[adding.mode.letter()][..]).arg(token);
        let (kinds, kind_of) = numbered(adding.jobs.iter().map(|job| &*job.kind), Kind::text);
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
        letters(&mut store.ask(Self::NAME, &call).await?, adding.jobs.len())
    }
}

impl OnRedis for TakeJobs {
    async fn send(&self, store: &RedisStore, inc: Incarnation) -> Result<TakeReply> {
        let Self(lane, taking) = self;
        let mut call = store.scripts.take.call(&[store.keys.lane(&lane.name)]);
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
        let (held, mut values) = store.ask_or(Self::NAME, &call, "HOLD").await?;
        if held {
            return Ok(TakeReply::Hold(values.number()?));
        }
        values.value()?;
        let registration = Some(values.text()?).filter(|text| !text.is_empty()).map(Into::into);
        let more = !values.bytes()?.is_empty();
        let mut jobs = Vec::with_capacity(values.len() / 4);
        while values.len() > 0 {
            let (id, record) = (name(&mut values, |text| JobId::new(text).ok())?, record(&mut values));
            let ((body, notes), terms) = (body(&mut values)?, terms(&mut values));
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
}

impl OnRedis for SettleJobs {
    async fn send(&self, store: &RedisStore, inc: Incarnation) -> Result<Vec<SettleReply>> {
        let Self(lane, jobs) = self;
        let mut call = store.scripts.settle.call(&[store.keys.lane(&lane.name)]);
        let (tokens, token_of) = numbered(jobs.iter().map(|job| &job.token), Token::to_string);
        let words: Vec<_> = jobs.iter().map(|job| job.settle.words()).collect();
        call.arg(inc.0).arg(lane.number).arg(tokens.len()).args(&tokens).arg(&token_of[..]);
        call.arg(words.iter().map(|(mode, ..)| mode).collect::<String>());
        call.args(jobs.iter().map(|job| job.id.as_str()));
        for (_, first, second) in &words {
            call.arg(&first[..]).arg(&second[..]);
        }
        letters(&mut store.ask(Self::NAME, &call).await?, jobs.len())
    }
}

/// The shortest lease, and a letter for each job.
fn extended(mut values: Values, jobs: usize) -> Result<Extended> {
    Ok(Extended { lease: values.number()?, replies: letters(&mut values, jobs)? })
}

impl OnRedis for ExtendJobs {
    async fn send(&self, store: &RedisStore, inc: Incarnation) -> Result<Extended> {
        let mut call = store.scripts.extend.call(&[]);
        let (tokens, token_of) = numbered(self.0.iter().map(|(_, token)| token), Token::to_string);
        call.arg(inc.0).arg(tokens.len()).args(&tokens).arg(&token_of[..]);
        call.args(self.0.iter().map(|(id, _)| id.as_str()));
        extended(store.ask(Self::NAME, &call).await?, self.0.len())
    }
}

impl OnRedis for AttestJobs {
    async fn send(&self, store: &RedisStore, inc: Incarnation) -> Result<Extended> {
        let (Self(jobs), mut call) = (self, store.scripts.attest.call(&[]));
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
        extended(store.ask(Self::NAME, &call).await?, jobs.len())
    }
}

impl OnRedis for Tick {
    async fn send(&self, store: &RedisStore, inc: Incarnation) -> Result<Ticked> {
        let mut call = store.scripts.tick.call(&[]);
        call.arg(inc.0).arg(self.node.as_str()).arg(self.most).arg(self.pause).arg(self.grace);
        call.arg(if self.off_duty { "1" } else { "" });
        let (on_duty, mut values) = store.ask_or(Self::NAME, &call, "DUTY").await?;
        if on_duty {
            return Ok(Ticked::OnDuty(values.number()?));
        }
        Ok(Ticked::Done {
            next: values.number()?,
            lost: values.number()?,
            promoted: values.number()?,
            gone: values.number()?,
        })
    }
}

impl OnRedis for SteerJobs {
    async fn send(&self, store: &RedisStore, inc: Incarnation) -> Result<Vec<SteerReply>> {
        let mut call = store.scripts.steer.call(&[]);
        call.arg(inc.0);
        for (letter, of, argument) in self.0.iter().map(Request::words) {
            call.arg(letter.to_string()).arg(of).arg(argument);
        }
        letters(&mut store.ask(Self::NAME, &call).await?, self.0.len())
    }
}

impl OnRedis for WatchJobs {
    async fn send(&self, store: &RedisStore, inc: Incarnation) -> Result<Vec<Option<Seen>>> {
        let mut call = store.scripts.watch.call(&[]);
        call.arg(inc.0).arg(self.node.as_str()).arg(self.number).arg(self.watching as u8);
        call.args(self.ids.iter().map(JobId::as_str));
        let mut values = store.ask(Self::NAME, &call).await?;
        let mut jobs = Vec::with_capacity(values.len() / 4);
        while values.len() > 0 {
            jobs.push(seen(&mut values)?);
        }
        Ok(jobs)
    }
}

impl OnRedis for PeekJobs {
    async fn send(&self, store: &RedisStore, inc: Incarnation) -> Result<Vec<Option<Peeked>>> {
        let mut call = store.scripts.peek.call(&[]);
        let (how, behind) = match &self.0 {
            Ends::Without => ("", ""),
            Ends::With => ("1", ""),
            Ends::Behind(child) => ("2", &**child),
        };
        call.arg(inc.0).arg(how).arg(behind).args(self.1.iter().map(JobId::as_str));
        let mut values = store.ask(Self::NAME, &call).await?;
        let mut jobs = Vec::with_capacity(values.len() / 7);
        while values.len() > 0 {
            let found = seen(&mut values)?;
            let begins_at = values.number()?;
            let mut list = values.list()?;
            let mut children = Vec::with_capacity(list.len() / 3);
            while list.len() > 0 {
                let id = name(&mut list, |text| JobId::new(text).ok())?;
                let (end, result) = (name(&mut list, |text| text.chars().next())?, list.bytes()?);
                children.extend(id.map(|id| (id, end.unwrap_or('X'), result)));
            }
            let more = parsed_or_nil(&mut values, "text", |text| Some(text.into()))?;
            jobs.push(found.map(|seen| Peeked { seen, begins_at, children, more }));
        }
        Ok(jobs)
    }
}

impl OnRedis for ReadFigures {
    async fn send(&self, store: &RedisStore, inc: Incarnation) -> Result<Vec<Figures>> {
        let mut call = store.scripts.figures.call(&[]);
        call.arg(inc.0).args(self.0.iter().map(QueueName::as_str));
        let mut values = store.ask(Self::NAME, &call).await?;
        let of = |values: &mut Values| {
            Ok(Figures {
                settings: name(values, Settings::parse)?,
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
        self.0.iter().map(|_| of(&mut values)).collect()
    }
}

impl OnRedis for ListQueues {
    async fn send(&self, store: &RedisStore, _: Incarnation) -> Result<Vec<QueueName>> {
        let command = redis::cmd("HKEYS").arg(store.keys.named("queues")).clone();
        let mut queues =
            names(&mut store.command(Self::NAME, &command).await?, |text| QueueName::new(text).ok())?;
        queues.sort();
        Ok(queues)
    }
}

impl OnRedis for ListJobs {
    async fn send(&self, store: &RedisStore, _: Incarnation) -> Result<Page> {
        let (key, prefix) = self.of.place();
        let from =
            self.after.as_ref().map_or_else(|| format!("[{prefix}"), |after| format!("({prefix}{after}"));
        let mut command = redis::cmd("ZRANGE");
        let till = format!("({}}}", prefix.trim_end_matches('|'));
        command
            .arg(store.keys.named(key))
            .arg(from)
            .arg(till)
            .arg("BYLEX")
            .arg("LIMIT")
            .arg(0)
            .arg(self.size);
        let members = names(&mut store.command(Self::NAME, &command).await?, |text| Some(text.to_owned()))?;
        Ok(self.of.page(&prefix, &members, self.size))
    }
}

impl OnRedis for ScanJobs {
    async fn send(&self, store: &RedisStore, _: Incarnation) -> Result<(u64, Vec<(JobId, Record)>)> {
        let mut command = redis::cmd("HSCAN");
        command.arg(store.keys.named("jobs")).arg(self.0).arg("COUNT").arg(self.1);
        let mut values = store.command(Self::NAME, &command).await?;
        let next = values.number()?;
        let (mut list, mut jobs) = (values.list()?, Vec::new());
        while list.len() > 0 {
            let id = name(&mut list, |text| JobId::new(text).ok())?;
            jobs.extend(id.zip(name(&mut list, Record::parse)?));
        }
        Ok((next, jobs))
    }
}

impl OnRedis for ReadTime {
    async fn send(&self, store: &RedisStore, _: Incarnation) -> Result<u64> {
        let time = redis::cmd("TIME");
        let reply = store.guarded.command_at(store.keys.prefix(), &time).await.map_err(failed)?;
        let mut values = Values::of(Self::NAME, reply)?;
        Ok(values.number()?.saturating_mul(1_000) + values.number()? / 1_000)
    }
}

fn seen(values: &mut Values) -> Result<Option<Seen>> {
    // An unreadable record counts as none, as for the scripts.
    let (record, body, result, notes) =
        (record(values).ok().flatten(), values.bytes()?, values.bytes()?, values.bytes()?);
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
