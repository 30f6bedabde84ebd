//! The pool's history.

use redis::Value;

use super::RedisStore;
use super::events::hold;
use super::reply::failed;
use crate::model::id::Incarnation;
use crate::store::{AwaitHistory, HistoryPage, Note, OnRedis, ReadHistory, Result};

impl OnRedis for Note {
    async fn on_redis(&self, store: &RedisStore, inc: Incarnation) -> Result<()> {
        let &Self { most, ref entry } = self;
        let mut call = store.steps.scripts.note.call(&[]);
        call.arg(inc.0).arg(most).arg(&**entry);
        store.steps.run("note", call).await?.ok().map(|_| ())
    }
}

impl OnRedis for ReadHistory {
    async fn on_redis(&self, store: &RedisStore, _: Incarnation) -> Result<HistoryPage> {
        let &Self { after, limit } = self;
        let mut call = store.steps.scripts.history.call(&[]);
        call.arg(after.to_string()).arg(limit);
        let mut values = store.steps.run("history", call).await?.items(2)?;
        let oldest = values.parsed("an entry's id or nothing", |text| match text {
            "" => Some(None),
            text => text.parse().ok().map(Some),
        })?;
        let entries = values.groups(2, |entry| {
            Ok((entry.parsed("an entry's id", |text| text.parse().ok())?, entry.bytes()?))
        })?;
        Ok(HistoryPage { oldest, entries })
    }
}

impl OnRedis for AwaitHistory {
    async fn on_redis(&self, store: &RedisStore, _: Incarnation) -> Result<bool> {
        let &Self { after, block } = self;
        let mut command = redis::cmd("XREAD");
        command.arg("COUNT").arg(1);
        hold(&mut command, block);
        command.arg("STREAMS").arg(store.steps.keys.named("history")).arg(after.to_string());
        let reply = store.history_reads.lock().await.command(&command, block).await;
        match reply {
            // Somebody wrote something else there, which counts as an empty history.
            Err(tenure_connection::Error::Server { code, .. }) if &*code == "WRONGTYPE" => {
                tokio::time::sleep(block).await;
                Ok(false)
            }
            reply => Ok(reply.map_err(failed)? != Value::Nil),
        }
    }
}
