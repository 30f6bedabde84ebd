//! The life of a pool and of its workers: from bootstrap to reap.

use std::collections::BTreeMap;

use bytes::Bytes;

use super::RedisStore;
use super::reply::{Values, entry_id};
use super::server::POLICY;
use super::steps::Steps;
use crate::model::id::{Incarnation, NodeName, Revision, Token, WorkerId};
use crate::model::member::{Member, MemberState};
use crate::model::settings::ShutdownFlag;
use crate::store::{
    Bootstrap, Bootstrapped, ChangeSettings, Cordon, Drain, Expire, Expired, Join, OnRedis, OpenNormal,
    RaiseLevel, Raised, ReadStatuses, Reap, Reaped, Recover, Renew, Renewal, Result, Seat, SettingChange,
    Settle, StoreError, WhenFull, WorkerStream,
};

impl OnRedis for Bootstrap {
    async fn on_redis(&self, store: &RedisStore, _: Incarnation) -> Result<Bootstrapped> {
        let &Self { seen, ref run_id, ref settings } = self;
        let mut call = store.open.scripts.bootstrap.call(&[]);
        call.arg(seen.token.0).arg(seen.incarnation.0).arg(run_id).arg(seen.closed.0).arg(seen.floor);
        for (name, value) in settings.fields() {
            call.arg(name).arg(value);
        }
        let reply = store.open.run("bootstrap", call).await?;
        let created = match reply.code() {
            b"CREATED" => true,
            b"EXISTS" => false,
            _ => return Err(reply.refused()),
        };
        Ok(Bootstrapped { incarnation: Incarnation(reply.values().number()?), created })
    }
}

impl OnRedis for Recover {
    async fn on_redis(&self, store: &RedisStore, inc: Incarnation) -> Result<Incarnation> {
        let &Self { seen, ref run_id, ref lost } = self;
        let mut call = store.open.scripts.recover.call(&[]);
        call.arg(inc.0)
            .arg(seen.token.0)
            .arg(seen.incarnation.0)
            .arg(run_id)
            .arg(seen.closed.0)
            .arg(lost)
            .arg(seen.floor);
        Ok(Incarnation(store.open.run("recover", call).await?.ok()?.number()?))
    }
}

impl OnRedis for OpenNormal {
    async fn on_redis(&self, store: &RedisStore, inc: Incarnation) -> Result<Option<WorkerId>> {
        let mut call = store.steps.scripts.open_normal.call(&[]);
        call.arg(inc.0);
        let reply = store.steps.run("open_normal", call).await?;
        match reply.code() {
            b"WAIT" => Ok(Some(WorkerId(reply.values().number()?))),
            _ => reply.ok().map(|_| None),
        }
    }
}

impl OnRedis for ChangeSettings {
    async fn on_redis(&self, store: &RedisStore, inc: Incarnation) -> Result<Revision> {
        let Self { changes } = self;
        let mut call = store.steps.scripts.change_settings.call(&[]);
        call.arg(inc.0);
        for SettingChange { name, from, to } in changes {
            call.arg(name).arg(from).arg(to);
        }
        Ok(Revision(store.steps.run("change_settings", call).await?.ok()?.number()?))
    }
}

impl OnRedis for Join {
    async fn on_redis(&self, store: &RedisStore, inc: Incarnation) -> Result<Seat> {
        let Self { request } = self;
        let mut call = store.steps.scripts.join.call(&[]);
        let preferred = request.preferred.map(|slot| slot.to_string()).unwrap_or_default();
        call.arg(inc.0)
            .arg(request.nonce.as_str())
            .arg(request.node.as_str())
            .arg(&request.meta)
            .arg(&request.address)
            .arg(preferred);
        for (name, value) in request.settings.fields() {
            call.arg(name).arg(value);
        }
        let mut values = store.steps.run("join", call).await?.ok()?;
        let worker = WorkerId(values.number()?);
        seat(worker, &mut values)
    }
}

impl OnRedis for Cordon {
    async fn on_redis(&self, store: &RedisStore, inc: Incarnation) -> Result<()> {
        let &Self { seen, ref node, on } = self;
        let mut call = store.steps.scripts.cordon.call(&[]);
        call.arg(inc.0).arg(seen.0).arg(node.as_str()).arg(u8::from(on));
        store.steps.run("cordon", call).await?.ok()?;
        Ok(())
    }
}

impl OnRedis for RaiseLevel {
    async fn on_redis(&self, store: &RedisStore, inc: Incarnation) -> Result<Raised> {
        let &Self { level } = self;
        let mut call = store.steps.scripts.raise_level.call(&[]);
        call.arg(inc.0).arg(level);
        let reply = store.steps.run("raise_level", call).await?;
        match reply.code() {
            b"BELOW" => {
                let mut values = reply.values();
                Ok(Raised::Below { worker: WorkerId(values.number()?), level: values.level()? })
            }
            _ => Ok(Raised::Floor(reply.ok()?.level()?)),
        }
    }
}

impl OnRedis for Settle {
    async fn on_redis(&self, store: &RedisStore, inc: Incarnation) -> Result<Seat> {
        let &Self { worker } = self;
        let mut call = store.steps.scripts.settle.call(&[]);
        call.arg(inc.0).arg(worker.0);
        seat(worker, &mut store.steps.run("settle", call).await?.ok()?)
    }
}

impl OnRedis for ReadStatuses {
    async fn on_redis(&self, store: &RedisStore, _: Incarnation) -> Result<BTreeMap<String, Bytes>> {
        let mut command = redis::cmd("HGETALL");
        command.arg(store.steps.keys.named("nodes"));
        let mut values = Values::of("HGETALL", store.steps.command(&command).await?)?;
        let mut statuses = BTreeMap::new();
        while values.len() > 0 {
            let (node, status) = (values.bytes()?, values.bytes()?);
            statuses.insert(String::from_utf8_lossy(&node).into_owned(), status);
        }
        Ok(statuses)
    }
}

impl OnRedis for Renew {
    async fn on_redis(&self, store: &RedisStore, inc: Incarnation) -> Result<Renewal> {
        let blessed = store.blessed.borrow().clone();
        let renewal = renew(&store.steps, inc, self).await?;
        // A server that is demoted and promoted again closes no connection.
        if blessed.as_deref() != Some(&*renewal.run_id) {
            return Err(StoreError::OtherServer { run_id: renewal.run_id });
        }
        Ok(renewal)
    }
}

impl OnRedis for Drain {
    async fn on_redis(&self, store: &RedisStore, inc: Incarnation) -> Result<Vec<Option<Member>>> {
        let Self { workers } = self;
        if workers.is_empty() {
            return Ok(Vec::new());
        }
        let mut call = store.steps.scripts.drain.call(&[]);
        call.arg(inc.0);
        for worker in workers {
            call.arg(worker.0);
        }
        let mut values = store.steps.run("drain", call).await?.ok()?;
        workers.iter().map(|_| values.some_member()).collect()
    }
}

impl OnRedis for Expire {
    async fn on_redis(&self, store: &RedisStore, inc: Incarnation) -> Result<Vec<Expired>> {
        let Self { workers } = self;
        if workers.is_empty() {
            return Ok(Vec::new());
        }
        let mut call = store.steps.scripts.expire.call(&[]);
        call.arg(inc.0);
        for (worker, seq) in workers {
            call.arg(worker.0).arg(seq.map(|seq| seq.to_string()).unwrap_or_default());
        }
        store.steps.run("expire", call).await?.ok()?.letters(workers.len(), "ends of workers")
    }
}

impl OnRedis for Reap {
    async fn on_redis(&self, store: &RedisStore, inc: Incarnation) -> Result<Reaped> {
        let &Self { worker, limit } = self;
        let mut call = store.steps.scripts.reap.call(&[store.steps.keys.worker(worker)]);
        call.arg(inc.0).arg(worker.0).arg(limit);
        let reply = store.steps.run("reap", call).await?;
        let done = match reply.code() {
            b"GONE" => return Ok(Reaped { done: true, count: 0, outcomes: Vec::new() }),
            b"DONE" => true,
            b"MORE" => false,
            _ => return Err(reply.refused()),
        };
        let mut values = reply.values();
        let reaped = Reaped { done, count: values.number()? as usize, outcomes: values.outcomes()? };
        store.steps.tell(&values);
        Ok(reaped)
    }
}

fn seat(worker: WorkerId, values: &mut Values) -> Result<Seat> {
    Ok(Seat { worker, member: values.member()?, first: values.number()? == 1 })
}

async fn renew(steps: &Steps, inc: Incarnation, step: &Renew) -> Result<Renewal> {
    let Renew { seen, node, workers, status, looks_at_memory } = step;
    let of_node = node.iter().map(|node| steps.keys.node_of(node));
    let streams: Vec<_> = of_node.chain(workers.iter().map(|worker| steps.keys.worker(*worker))).collect();
    let mut call = steps.scripts.renew.call(&streams);
    call.arg(inc.0).arg(seen.token.0).arg(seen.floor);
    call.arg(node.as_ref().map_or("", NodeName::as_str)).arg(&**status).arg(u8::from(*looks_at_memory));
    for worker in workers {
        call.arg(worker.0);
    }
    let mut values = steps.run("renew", call).await?.items(11 + 3 * workers.len())?;
    let mut renewal = Renewal {
        members: values.revision()?,
        settings: values.revision()?,
        flag: ShutdownFlag::parse(&String::from_utf8_lossy(&values.bytes()?)),
        recovering: is_recovering(&values.bytes()?),
        run_id: values.text()?,
        queued: values.number()?,
        opened: values.number()? == 1,
        damage: values.text()?,
        when_full: when_full(values.text()?),
        token: Token(values.number()?),
        floor: values.level()?,
        states: Vec::with_capacity(workers.len()),
        streams: Vec::with_capacity(workers.len()),
    };
    for _ in workers {
        renewal.states.push(member_state(&values.bytes()?));
        let oldest = values.parsed("an entry's id or nothing", |text| match text {
            "" => Some(None),
            id => entry_id(id).map(Some),
        })?;
        renewal.streams.push(WorkerStream { oldest, added: values.number()? });
    }
    Ok(renewal)
}

/// The meaning of a policy of eviction. An empty policy is an unknown one.
fn when_full(policy: String) -> WhenFull {
    match policy.as_str() {
        "" => WhenFull::Unknown,
        POLICY => WhenFull::Refuses,
        _ => WhenFull::Evicts(policy),
    }
}

/// A member whose entry cannot be read counts as absent: it joins again, and the others stay.
fn member_state(letter: &[u8]) -> Option<MemberState> {
    MemberState::from_letter(std::str::from_utf8(letter).ok()?)
}

/// Whether the scripts' answer says phase R. Any other value says phase N.
pub(super) fn is_recovering(phase: &[u8]) -> bool {
    phase == b"R"
}
