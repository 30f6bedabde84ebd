//! A look at a set that makes none.

use redis::Value;

use super::RedisStore;
use super::reply::{Values, failed, parsed_or_nil};
use crate::model::id::Incarnation;
use crate::store::{Result, Store, StoreError};

impl RedisStore {
    /// Looks for the data of the set. The next steps go to their server. A set without data is [`StoreError::NoSet`], and none
    /// are made.
    pub(crate) async fn find(&self) -> Result<Incarnation> {
        let info = self.open.server_of(self.keys.prefix()).await.map_err(failed)?;
        let mut command = redis::cmd("HGET");
        command.arg(self.keys.named("meta")).arg("incarnation");
        let value = Value::Array(vec![self.open.command(&command).await.map_err(failed)?]);
        let mut values = Values::of("HGET", value)?;
        let found = parsed_or_nil(&mut values, "an incarnation", |text| text.parse().ok())?;
        let incarnation = found.ok_or(StoreError::NoSet)?;
        self.bless(&info.identity);
        Ok(Incarnation(incarnation))
    }
}
