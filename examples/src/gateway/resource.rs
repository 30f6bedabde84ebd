//! A resource outside the pool: it remembers the highest token of each tenant, and takes no write with a lower one.

use std::collections::HashMap;

use redis::{FromRedisValue, Value, cmd};
use tenure_connection::{Client, Connection, Error, Script};

/// KEYS: tokens of tenants, counts of orders. ARGV: tenant, token, order or ''.
/// Returns 1, or 0 if the token is too low: then nothing is written.
const WRITE: &str = "
    local seen = tonumber(redis.call('HGET', KEYS[1], ARGV[1]) or 0)
    if tonumber(ARGV[2]) < seen then return 0 end
    redis.call('HSET', KEYS[1], ARGV[1], ARGV[2])
    if ARGV[3] ~= '' then redis.call('HINCRBY', KEYS[2], ARGV[3], 1) end
    return 1";
const TOKENS: &str = "{tenants}:tokens";
const ORDERS: &str = "{tenants}:orders";

/// The resource, in Redis.
#[derive(Clone, Debug)]
pub struct Resource {
    connection: Connection,
    write: Script,
}

impl Resource {
    /// The resource on this server. It connects when it is used, and again after a broken connection.
    pub fn on(client: &Client) -> Self {
        Self { connection: client.commands(), write: Script::new("write", WRITE) }
    }

    /// Writes an order of this tenant, if there is one, under the token of its owner. False if a later owner has been
    /// here before: then nothing is written.
    ///
    /// # Errors
    /// The server does not answer: the order may be written.
    ///
    /// # Cancel safety
    /// After a dropped call the order may be written.
    pub async fn write(&self, tenant: &str, token: u64, order: Option<&str>) -> Result<bool, Error> {
        let args = [tenant, &token.to_string(), order.unwrap_or_default()];
        let written = self.connection.script(&self.write, &[TOKENS, ORDERS], &args).await?;
        Ok(written == Value::Int(1))
    }

    /// How often each order is written.
    ///
    /// # Errors
    /// The server does not answer.
    ///
    /// # Cancel safety
    /// Safe to drop at any time.
    pub async fn orders(&self) -> Result<HashMap<String, u64>, Box<dyn std::error::Error>> {
        Ok(FromRedisValue::from_redis_value(self.connection.command(cmd("HGETALL").arg(ORDERS)).await?)?)
    }
}
