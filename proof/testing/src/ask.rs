//! Asks the servers of a group.

use std::time::Duration;

use redis::{AsyncConnectionConfig, Client, Cmd, FromRedisValue};

/// A server that does not answer within this time is asked again.
const ANSWER: Duration = Duration::from_secs(1);

/// Asks a server on a connection of its own, without blocking the thread.
pub(crate) async fn ask<T: FromRedisValue>(url: &str, command: &Cmd) -> Result<T, String> {
    let ask = async || -> Result<T, redis::RedisError> {
        let config = AsyncConnectionConfig::new()
            .set_connection_timeout(Some(ANSWER))
            .set_response_timeout(Some(ANSWER));
        let mut connection = Client::open(url)?.get_multiplexed_async_connection_with_config(&config).await?;
        command.query_async(&mut connection).await
    };
    ask().await.map_err(|error| error.to_string())
}
