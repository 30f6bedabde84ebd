//! The life of a pool and of its workers: from bootstrap to reap.

use super::reply::Values;
use super::steps::Steps;
use crate::model::id::{Incarnation, NodeName, Revision, Token, WorkerId};
use crate::model::member::{Member, MemberState};
use crate::model::settings::{Settings, ShutdownFlag};
use crate::store::{
    Bootstrapped, Expired, JoinRequest, Reaped, Renewal, Result, Seat, Seen, SettingChange, check_batch,
};

pub(super) async fn bootstrap(
    steps: &Steps,
    seen: Seen,
    run_id: &str,
    settings: &Settings,
) -> Result<Bootstrapped> {
    let mut call = steps.scripts.bootstrap.call(&[]);
    call.arg(seen.token.0).arg(seen.incarnation.0).arg(run_id).arg(seen.closed.0);
    for (name, value) in settings.fields() {
        call.arg(name).arg(value);
    }
    let reply = steps.run("bootstrap", call).await?;
    let created = match reply.code() {
        b"CREATED" => true,
        b"EXISTS" => false,
        _ => return Err(reply.refused()),
    };
    Ok(Bootstrapped { incarnation: Incarnation(reply.values().number()?), created })
}

pub(super) async fn recover(
    steps: &Steps,
    inc: Incarnation,
    seen: Seen,
    run_id: &str,
    lost: &str,
) -> Result<Incarnation> {
    let mut call = steps.scripts.recover.call(&[]);
    call.arg(inc.0).arg(seen.token.0).arg(seen.incarnation.0).arg(run_id).arg(seen.closed.0).arg(lost);
    Ok(Incarnation(steps.run("recover", call).await?.ok()?.number()?))
}

pub(super) async fn open_normal(steps: &Steps, inc: Incarnation) -> Result<Option<WorkerId>> {
    let mut call = steps.scripts.open_normal.call(&[]);
    call.arg(inc.0);
    let reply = steps.run("open_normal", call).await?;
    match reply.code() {
        b"WAIT" => Ok(Some(WorkerId(reply.values().number()?))),
        _ => reply.ok().map(|_| None),
    }
}

pub(super) async fn change_settings(
    steps: &Steps,
    inc: Incarnation,
    changes: &[SettingChange],
) -> Result<Revision> {
    let mut call = steps.scripts.change_settings.call(&[]);
    call.arg(inc.0);
    for SettingChange { name, from, to } in changes {
        call.arg(name).arg(from).arg(to);
    }
    Ok(Revision(steps.run("change_settings", call).await?.ok()?.number()?))
}

pub(super) async fn join(steps: &Steps, inc: Incarnation, request: &JoinRequest) -> Result<Seat> {
    let mut call = steps.scripts.join.call(&[]);
    let preferred = request.preferred.map(|slot| slot.to_string()).unwrap_or_default();
    call.arg(inc.0).arg(request.nonce.as_str()).arg(request.node.as_str()).arg(&request.meta).arg(preferred);
    for (name, value) in request.settings.fields() {
        call.arg(name).arg(value);
    }
    let mut values = steps.run("join", call).await?.ok()?;
    let worker = WorkerId(values.number()?);
    seat(worker, &mut values)
}

pub(super) async fn settle(steps: &Steps, inc: Incarnation, worker: WorkerId) -> Result<Seat> {
    let mut call = steps.scripts.settle.call(&[]);
    call.arg(inc.0).arg(worker.0);
    seat(worker, &mut steps.run("settle", call).await?.ok()?)
}

fn seat(worker: WorkerId, values: &mut Values) -> Result<Seat> {
    Ok(Seat { worker, member: values.member()?, first: values.number()? == 1 })
}

pub(super) async fn renew(
    steps: &Steps,
    inc: Incarnation,
    high_water: Token,
    node: Option<&NodeName>,
    workers: &[WorkerId],
) -> Result<Renewal> {
    let stream = node.map(|node| steps.keys.node_of(node));
    let mut call = steps.scripts.renew.call(stream.as_slice());
    call.arg(inc.0).arg(high_water.0);
    for worker in workers {
        call.arg(worker.0);
    }
    let mut values = steps.run("renew", call).await?.items(10 + workers.len())?;
    Ok(Renewal {
        members: values.revision()?,
        settings: values.revision()?,
        flag: ShutdownFlag::parse(&String::from_utf8_lossy(&values.bytes()?)),
        recovering: is_recovering(&values.bytes()?),
        run_id: values.text()?,
        queued: values.number()?,
        opened: values.number()? == 1,
        damage: values.text()?,
        evicts: Some(values.text()?).filter(|policy| policy != super::server::POLICY && !policy.is_empty()),
        token: Token(values.number()?),
        states: workers
            .iter()
            .map(|_| values.bytes().map(|state| member_state(&state)))
            .collect::<Result<_>>()?,
    })
}

/// A member whose entry cannot be read counts as absent: it joins again, and the others stay.
fn member_state(letter: &[u8]) -> Option<MemberState> {
    MemberState::from_letter(std::str::from_utf8(letter).ok()?)
}

/// Whether the scripts' answer says phase R. Any other value says phase N.
pub(super) fn is_recovering(phase: &[u8]) -> bool {
    phase == b"R"
}

pub(super) async fn drain(steps: &Steps, inc: Incarnation, worker: WorkerId) -> Result<Member> {
    let mut call = steps.scripts.drain.call(&[]);
    call.arg(inc.0).arg(worker.0);
    steps.run("drain", call).await?.ok()?.member()
}

pub(super) async fn expire(
    steps: &Steps,
    inc: Incarnation,
    workers: &[(WorkerId, Option<u64>)],
) -> Result<Vec<Expired>> {
    check_batch(workers.len())?;
    if workers.is_empty() {
        return Ok(Vec::new());
    }
    let mut call = steps.scripts.expire.call(&[]);
    call.arg(inc.0);
    for (worker, seq) in workers {
        call.arg(worker.0).arg(seq.map(|seq| seq.to_string()).unwrap_or_default());
    }
    let mut values = steps.run("expire", call).await?.ok()?;
    values.letters(workers.len(), "ends of workers", |letter, _| {
        Ok(match letter {
            b'D' => Some(Expired::Done),
            b'G' => Some(Expired::Gone),
            b'R' => Some(Expired::Renewed),
            _ => None,
        })
    })
}

pub(super) async fn reap(steps: &Steps, inc: Incarnation, worker: WorkerId, limit: usize) -> Result<Reaped> {
    let mut call = steps.scripts.reap.call(&[steps.keys.worker(worker)]);
    call.arg(inc.0).arg(worker.0).arg(limit);
    let reply = steps.run("reap", call).await?;
    let done = match reply.code() {
        b"GONE" => return Ok(Reaped { done: true, count: 0, outcomes: Vec::new() }),
        b"DONE" => true,
        b"MORE" => false,
        _ => return Err(reply.refused()),
    };
    let mut values = reply.values();
    let reaped = Reaped { done, count: values.number()? as usize, outcomes: values.outcomes()? };
    steps.tell(&values);
    Ok(reaped)
}
