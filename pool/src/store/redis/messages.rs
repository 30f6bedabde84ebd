//! Messages to the owner of a job: stop and notify, and the owner's take.

use bytes::Bytes;
use tenure_steps::letters;

use super::RedisStore;
use super::ownership::{owner, tokens};
use super::reply::Values;
use super::schedules;
use super::steps::{Steps, Targets, column};
use crate::model::id::{Incarnation, NodeName};
use crate::store::{
    DropNotifications, Notify, NotifyOrStart, NotifyOrStartReply, NotifyReply, OnRedis, ReadNotifications,
    Result, Stop, StopItem, StopReply, Take, Taken, Turn, Waiting,
};

impl OnRedis for Stop {
    async fn on_redis(&self, store: &RedisStore, inc: Incarnation) -> Result<Vec<StopReply>> {
        let &Self { ref turn, repeat, ref waiting, ref items } = self;
        let turn = turn.as_ref();
        let waiting = waiting.as_ref();
        stop(&store.steps, inc, turn, repeat, waiting, items).await
    }
}

impl OnRedis for Notify {
    async fn on_redis(&self, store: &RedisStore, inc: Incarnation) -> Result<Vec<NotifyReply>> {
        let Self { items } = self;
        if items.is_empty() {
            return Ok(Vec::new());
        }
        let mut targets = Targets::new();
        let numbers: Vec<_> = items.iter().map(|item| targets.number(item.guess)).collect();
        let mut call =
            store.steps.scripts.notify.call(&targets.keys(|worker| store.steps.keys.worker(*worker)));
        call.arg(inc.0).arg(targets.iter().len()).arg(column(numbers)?);
        call.args(targets.iter().map(|worker| worker.0));
        call.args(items.iter().map(|item| item.key.as_bytes())).args(items.iter().map(|item| &*item.body));
        store.steps.run("notify", call).await?.ok()?.letters(items.len(), "notifications' answers")
    }
}

impl OnRedis for NotifyOrStart {
    async fn on_redis(&self, store: &RedisStore, inc: Incarnation) -> Result<Vec<NotifyOrStartReply>> {
        let &Self { ring, ref items } = self;
        if items.is_empty() {
            return Ok(Vec::new());
        }
        let mut targets = Targets::new();
        let guesses: Vec<_> = items.iter().map(|item| targets.number(item.guess)).collect();
        let workers: Vec<_> = items.iter().map(|item| targets.number(item.start.worker)).collect();
        let script = &store.steps.scripts.notify_or_start;
        let mut call = script.call(&targets.keys(|worker| store.steps.keys.worker(*worker)));
        call.arg(inc.0).arg(ring.0).arg(targets.iter().len()).arg(column(guesses)?).arg(column(workers)?);
        call.args(targets.iter().map(|worker| worker.0));
        let starts = || items.iter().map(|item| &item.start);
        call.args(starts().map(|start| start.key.as_bytes())).args(starts().map(|start| start.id.as_str()));
        call.args(starts().map(|start| start.not_after)).args(starts().map(|start| &*start.payload));
        call.args(items.iter().map(|item| &*item.body));
        store.steps.run("notify_or_start", call).await?.ok()?.letters(items.len(), "notifications' answers")
    }
}

impl OnRedis for Take {
    async fn on_redis(&self, store: &RedisStore, inc: Incarnation) -> Result<Vec<Option<Taken>>> {
        let &Self { worker, ref finished, ref items } = self;
        let mut call = store.steps.scripts.take.call(&[store.steps.keys.worker(worker)]);
        owner(&mut call, inc, worker, finished);
        tokens(&mut call, items.iter().map(|item| item.token))?;
        call.args(items.iter().map(|item| item.key.as_bytes())).args(items.iter().map(|item| item.ack));
        let mut values = store.steps.run("take", call).await?.ok()?;
        let took: Vec<Took> = values.letters(items.len(), "takes' answers")?;
        took.into_iter().map(Took::taken).collect()
    }
}

impl OnRedis for ReadNotifications {
    async fn on_redis(&self, store: &RedisStore, _: Incarnation) -> Result<Waiting> {
        let &Self { ref key, from } = self;
        let mut call = store.steps.scripts.notifications.call(&[]);
        call.arg(key.as_bytes()).arg(from);
        let reply = store.steps.run("notifications", call).await?;
        match reply.code() {
            b"NONE" => Ok(Waiting::Absent),
            b"BAD" => Ok(Waiting::Bad),
            _ => {
                let mut values = reply.ok()?;
                let (more, first) = (values.number()? == 1, values.number()?);
                let bodies = (0..values.len()).map(|_| values.bytes()).collect::<Result<_>>()?;
                Ok(Waiting::Page { first, bodies, more })
            }
        }
    }
}

impl OnRedis for DropNotifications {
    async fn on_redis(&self, store: &RedisStore, inc: Incarnation) -> Result<Option<u64>> {
        let &Self { ref key, through } = self;
        let mut call = store.steps.scripts.drop_notifications.call(&[]);
        call.arg(inc.0).arg(key.as_bytes()).arg(through);
        let reply = store.steps.run("drop_notifications", call).await?;
        if reply.code() == b"NONE" { Ok(None) } else { reply.ok()?.number().map(Some) }
    }
}

pub(super) async fn stop(
    steps: &Steps,
    inc: Incarnation,
    turn: Option<&Turn>,
    repeat: bool,
    waiting: Option<&NodeName>,
    items: &[StopItem],
) -> Result<Vec<StopReply>> {
    if items.is_empty() {
        return Ok(Vec::new());
    }
    let mut targets = Targets::new();
    let numbers: Vec<_> = items.iter().map(|item| targets.number(item.guess)).collect();
    let mut call = steps.scripts.stop.call(&targets.keys(|worker| steps.keys.worker(*worker)));
    call.arg(inc.0);
    schedules::turn(&mut call, turn);
    call.arg(u8::from(repeat)).arg(waiting.map_or("", NodeName::as_str));
    let mut forbids = String::new();
    if items.iter().any(|item| item.forbid) {
        forbids.extend(items.iter().map(|item| if item.forbid { '1' } else { '0' }));
    }
    call.arg(targets.iter().len()).arg(forbids).arg(column(numbers)?);
    call.args(targets.iter().map(|worker| worker.0));
    call.args(items.iter().map(|item| item.key.as_bytes())).args(items.iter().map(|item| item.id.as_str()));
    steps.run("stop", call).await?.ok()?.letters(items.len(), "stops' answers")
}

letters! {
    /// take's answer for one job.
    pub(super) enum Took {
        /// Nothing waits.
        b'E': Nothing,
        /// The number of a notification, and the notification.
        b'O': One(u64, Bytes),
        /// The number of the first of several notifications, and the notifications.
        b'M': Several(Values),
        /// The caller is not the owner.
        b'S': Stale,
    }
}

impl Took {
    fn taken(self) -> Result<Option<Taken>> {
        let (first, bodies) = match self {
            Self::Stale => return Ok(None),
            Self::Nothing => (0, Vec::new()),
            Self::One(first, body) => (first, vec![body]),
            Self::Several(mut values) => {
                (values.number()?, (0..values.len()).map(|_| values.bytes()).collect::<Result<_>>()?)
            }
        };
        Ok(Some(Taken { first, bodies }))
    }
}
