//! Schedules: sched, term, tick, and the jobs of a plan.

use std::time::Duration;

use tenure_connection::Call;

use super::RedisStore;
use super::reply::Values;
use crate::model::id::{Incarnation, JobKey};
use crate::model::record::Record;
use crate::store::{
    ChangeSchedule, HoldTurns, ListPlanned, OnRedis, PlannedPage, ReadSchedules, Result, ScheduleChange,
    ScheduleEntry, ScheduleKey, ScheduleState, TakeTick, TermItem, Terms, TickReply, Turn,
};

impl OnRedis for ReadSchedules {
    async fn on_redis(
        &self,
        store: &RedisStore,
        _: Incarnation,
    ) -> Result<Vec<(ScheduleKey, ScheduleEntry)>> {
        let mut command = redis::cmd("HGETALL");
        command.arg(store.steps.keys.named("schedules"));
        let mut values = Values::of("HGETALL", store.steps.command(&command).await?)?;
        let mut schedules = Vec::with_capacity(values.len() / 2);
        while values.len() > 0 {
            let (name, entry) = (values.bytes()?, values.bytes()?);
            let text = |bytes| std::str::from_utf8(bytes).ok();
            schedules.extend(
                text(&name).and_then(ScheduleKey::parse).zip(text(&entry).and_then(ScheduleEntry::parse)),
            );
        }
        Ok(schedules)
    }
}

impl OnRedis for ChangeSchedule {
    async fn on_redis(&self, store: &RedisStore, inc: Incarnation) -> Result<ScheduleState> {
        let Self { schedule, change } = self;
        let mut call = store.steps.scripts.sched.call(&[]);
        call.arg(inc.0).arg(schedule.to_string());
        match change {
            ScheduleChange::Create { period, first } => {
                call.arg("create").arg(millis(*period)).arg(millis(*first));
            }
            ScheduleChange::Period { id, revision, period } => {
                call.arg("period").arg(id.0).arg(*revision).arg(millis(*period));
            }
            ScheduleChange::End { id, term } => {
                call.arg("end").arg(id.0).arg(term.map_or(String::new(), |term| term.to_string()));
            }
        }
        let reply = store.steps.run("sched", call).await?;
        match reply.code() {
            b"NONE" => Ok(ScheduleState::Ended),
            b"BAD" => {
                let version = reply.values().text()?.parse().ok();
                Ok(ScheduleState::Bad { newer: version.filter(|version| *version > ScheduleEntry::VERSION) })
            }
            _ => {
                let mut values = reply.ok()?;
                Ok(ScheduleState::Present { now: values.number()?, entry: entry(&mut values)? })
            }
        }
    }
}

impl OnRedis for HoldTurns {
    async fn on_redis(&self, store: &RedisStore, inc: Incarnation) -> Result<Terms> {
        let Self { node, items } = self;
        let mut call = store.steps.scripts.term.call(&[]);
        call.arg(inc.0).arg(node.as_str());
        for TermItem { schedule, id, life, leave, seen } in items {
            call.arg(schedule.to_string()).arg(id.0).arg(*life);
            call.arg(if *leave { "leave" } else { "take" });
            call.arg(seen.map_or(String::new(), |(term, _)| term.to_string()));
            call.arg(seen.map_or(0, |(_, seq)| seq));
        }
        let mut values = store.steps.run("term", call).await?.items(items.len() + 1)?;
        let now = values.number()?;
        let replies = items.iter().map(|_| values.letter("a term's answer")).collect::<Result<_>>()?;
        Ok(Terms { now, replies })
    }
}

impl OnRedis for TakeTick {
    async fn on_redis(&self, store: &RedisStore, inc: Incarnation) -> Result<TickReply> {
        let &Self { ref schedule, turn: (id, term), number } = self;
        let mut call = store.steps.scripts.tick.call(&[]);
        call.arg(inc.0).arg(schedule.to_string()).arg(id.0).arg(term.0).arg(number);
        let reply = store.steps.run("tick", call).await?;
        let due = match reply.code() {
            b"DUE" => true,
            b"WAIT" => false,
            _ => return Err(reply.refused()),
        };
        let mut values = reply.values();
        Ok(TickReply { due, now: values.number()?, entry: entry(&mut values)? })
    }
}

impl OnRedis for ListPlanned {
    async fn on_redis(&self, store: &RedisStore, inc: Incarnation) -> Result<PlannedPage> {
        let &Self { ref plan, ref after, limit } = self;
        let after = after.as_ref();
        let mut call = store.steps.scripts.planned.call(&[]);
        call.arg(inc.0).arg(plan.as_str()).arg(after.map_or(&[][..], JobKey::as_bytes)).arg(limit);
        let mut values = store.steps.run("planned", call).await?.ok()?;
        let more = values.number()? == 1;
        let mut list = values.list()?;
        let mut jobs = Vec::with_capacity(list.len() / 2);
        while list.len() > 0 {
            jobs.push((list.key()?, Record::parse(&list.bytes()?)));
        }
        let next = jobs.last().filter(|_| more).map(|(key, _)| key.clone());
        Ok(PlannedPage { next, jobs })
    }
}

/// Adds the arguments that let dispatch and stop be refused once the caller's turn is over. Empty for no turn.
pub(super) fn turn(call: &mut Call, turn: Option<&Turn>) {
    match turn {
        Some(Turn { plan, id, term }) => call.arg(plan.as_str()).arg(id.0).arg(term.0),
        None => call.arg("").arg("").arg(""),
    };
}

fn entry(values: &mut Values) -> Result<ScheduleEntry> {
    values.parsed("a schedule's entry", ScheduleEntry::parse)
}

/// Whole ms, far below the limit for exact numbers in Lua and Redis.
fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).map_or(MILLIS_MAX, |ms| ms.min(MILLIS_MAX))
}

/// About 35,000 years.
const MILLIS_MAX: u64 = 1 << 50;
