//! Other payloads for jobs that are there.

use super::steps::{Steps, Targets, column};
use super::{RedisStore, schedules};
use crate::model::id::Incarnation;
use crate::store::{OnRedis, Result, Turn, Update, UpdateItem, UpdateReply};

impl OnRedis for Update {
    async fn on_redis(&self, store: &RedisStore, inc: Incarnation) -> Result<Vec<UpdateReply>> {
        let Self { turn, items } = self;
        let turn = turn.as_ref();
        update(&store.steps, inc, turn, items).await
    }
}

async fn update(
    steps: &Steps,
    inc: Incarnation,
    turn: Option<&Turn>,
    items: &[UpdateItem],
) -> Result<Vec<UpdateReply>> {
    if items.is_empty() {
        return Ok(Vec::new());
    }
    let mut targets = Targets::new();
    let numbers: Vec<_> = items.iter().map(|item| targets.number(item.guess)).collect();
    let mut call = steps.scripts.update.call(&targets.keys(|worker| steps.keys.worker(*worker)));
    call.arg(inc.0);
    schedules::turn(&mut call, turn);
    call.arg(targets.iter().len()).arg(column(numbers)?);
    call.args(targets.iter().map(|worker| worker.0));
    call.args(items.iter().map(|item| item.key.as_bytes()));
    call.args(items.iter().map(|item| item.id.as_str())).args(items.iter().map(|item| item.generation));
    call.args(items.iter().map(|item| &*item.payload));
    steps.run("update", call).await?.ok()?.letters(items.len(), "updates' answers")
}
