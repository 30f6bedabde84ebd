//! A look at a set that makes none.

use super::RedisStore;
use super::reply::failed;
use crate::model::id::Incarnation;
use crate::store::{Result, StoreError};

impl RedisStore {
    /// Looks for the data of the set. The next steps go to their server. A set without data is [`StoreError::NoSet`], and none
    /// are made.
    pub(crate) async fn find(&self) -> Result<Incarnation> {
        let info = self.open.server_of(self.keys.prefix()).await.map_err(failed)?;
        let mut command = redis::cmd("HGET");
        command.arg(self.keys.named("meta")).arg("incarnation");
        let value = self.open.command(&command).await.map_err(failed)?;
        let found = redis::from_redis_value::<Option<String>>(value)
            .map_err(|error| StoreError::damaged(error.to_string()))?;
        let found = found.ok_or(StoreError::NoSet)?;
        let incarnation =
            found.parse().map_err(|_| StoreError::damaged(format!("the incarnation is {found:?}")))?;
        self.blessed.send_replace(Some(info.identity.as_ref().into()));
        Ok(Incarnation(incarnation))
    }
}
