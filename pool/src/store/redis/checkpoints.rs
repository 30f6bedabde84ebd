//! Checkpoints.

use super::RedisStore;
use super::reply::Values;
use super::steps::{Targets, column};
use crate::model::id::Incarnation;
use crate::store::{Checkpoint, OnRedis, ReadCheckpoint, Result, Save, SaveReply};

impl OnRedis for Save {
    async fn on_redis(&self, store: &RedisStore, inc: Incarnation) -> Result<Vec<SaveReply>> {
        let &Self { worker, ref items } = self;
        if items.is_empty() {
            return Ok(Vec::new());
        }
        let (mut tokens, mut givens) = (Targets::new(), Targets::new());
        let token_of: Vec<_> = items.iter().map(|item| tokens.number(Some(item.token))).collect();
        let given_of: Vec<_> = items.iter().map(|item| givens.number(Some(item.given))).collect();
        let mut call = store.steps.scripts.save.call(&[]);
        call.arg(inc.0).arg(worker.0);
        for (of, column_of) in [(&tokens, token_of), (&givens, given_of)] {
            call.arg(of.iter().len()).args(of.iter().map(|token| token.0)).arg(column(column_of)?);
        }
        call.args(items.iter().map(|item| item.key.as_bytes()));
        call.args(items.iter().map(|item| item.number)).args(items.iter().map(|item| &*item.bytes));
        store.steps.run("save", call).await?.ok()?.letters(items.len(), "saves' answers")
    }
}

impl OnRedis for ReadCheckpoint {
    async fn on_redis(&self, store: &RedisStore, _: Incarnation) -> Result<Option<Checkpoint>> {
        let Self { key } = self;
        let field = |kind: &[u8]| [kind, key.as_bytes()].concat();
        let mut command = redis::cmd("HMGET");
        command.arg(store.steps.keys.named("checkpoints")).arg(field(b"h:")).arg(field(b"b:"));
        let mut values = Values::of("HMGET", store.steps.command(&command).await?)?;
        let (Some(header), Some(bytes)) = (values.bytes_or_nil()?, values.bytes_or_nil()?) else {
            return Ok(None);
        };
        Ok(Checkpoint::parse(&header, bytes))
    }
}
