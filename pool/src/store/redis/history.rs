//! The pool's history.

use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use redis::Value;
use tenure_streaming::EntryId;

use super::RedisStore;
use super::events::hold;
use super::reply::failed;
use crate::model::id::Incarnation;
use crate::store::{History, HistoryPage, Result};

#[async_trait]
impl History for RedisStore {
    async fn note(&self, inc: Incarnation, most: u64, entry: &Bytes) -> Result<()> {
        let mut call = self.steps.scripts.note.call(&[]);
        call.arg(inc.0).arg(most).arg(&**entry);
        self.steps.run("note", call).await?.ok().map(|_| ())
    }

    async fn history(&self, after: EntryId, limit: usize) -> Result<HistoryPage> {
        let mut call = self.steps.scripts.history.call(&[]);
        call.arg(after.to_string()).arg(limit);
        let mut values = self.steps.run("history", call).await?.items(2)?;
        let oldest = values.parsed("an entry's id or nothing", |text| match text {
            "" => Some(None),
            text => text.parse().ok().map(Some),
        })?;
        let entries = values.groups(2, |entry| {
            Ok((entry.parsed("an entry's id", |text| text.parse().ok())?, entry.bytes()?))
        })?;
        Ok(HistoryPage { oldest, entries })
    }

    async fn await_history(&self, after: EntryId, block: Duration) -> Result<bool> {
        let mut command = redis::cmd("XREAD");
        command.arg("COUNT").arg(1);
        hold(&mut command, block);
        command.arg("STREAMS").arg(self.steps.keys.named("history")).arg(after.to_string());
        let reply = self.history_reads.lock().await.command(&command, block).await;
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
