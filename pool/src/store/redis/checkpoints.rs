//! Checkpoints.

use async_trait::async_trait;

use super::RedisStore;
use super::reply::Values;
use super::steps::{Targets, column};
use crate::model::id::{Incarnation, JobKey, WorkerId};
use crate::store::{Checkpoint, Checkpoints, Result, SaveItem, SaveReply};

#[async_trait]
impl Checkpoints for RedisStore {
    async fn save(&self, inc: Incarnation, worker: WorkerId, items: &[SaveItem]) -> Result<Vec<SaveReply>> {
        if items.is_empty() {
            return Ok(Vec::new());
        }
        let (mut tokens, mut givens) = (Targets::new(), Targets::new());
        let token_of: Vec<_> = items.iter().map(|item| tokens.number(Some(item.token))).collect();
        let given_of: Vec<_> = items.iter().map(|item| givens.number(Some(item.given))).collect();
        let mut call = self.steps.scripts.save.call(&[]);
        call.arg(inc.0).arg(worker.0);
        for (of, column_of) in [(&tokens, token_of), (&givens, given_of)] {
            call.arg(of.iter().len()).args(of.iter().map(|token| token.0)).arg(column(column_of)?);
        }
        call.args(items.iter().map(|item| item.key.as_bytes()));
        call.args(items.iter().map(|item| item.number)).args(items.iter().map(|item| &*item.bytes));
        let mut values = self.steps.run("save", call).await?.ok()?;
        values.letters(items.len(), "saves' answers", |letter, _| {
            Ok(Some(match letter {
                b'K' => SaveReply::Kept,
                b'S' => SaveReply::Stale,
                b'R' => SaveReply::Recovering,
                b'L' => SaveReply::TooLong,
                b'X' => SaveReply::Unusable,
                _ => return Ok(None),
            }))
        })
    }

    async fn checkpoint(&self, key: &JobKey) -> Result<Option<Checkpoint>> {
        let field = |kind: &[u8]| [kind, key.as_bytes()].concat();
        let mut command = redis::cmd("HMGET");
        command.arg(self.steps.keys.named("checkpoints")).arg(field(b"h:")).arg(field(b"b:"));
        let mut values = Values::of("HMGET", self.steps.command(&command).await?)?;
        let (Some(header), Some(bytes)) = (values.bytes_or_nil()?, values.bytes_or_nil()?) else {
            return Ok(None);
        };
        Ok(Checkpoint::parse(&header, bytes))
    }
}
