//! Waits until the servers of a group agree.

use std::time::Duration;

use redis::{AsyncConnectionConfig, Client, Cmd, FromRedisValue};
use tokio::time::Instant;

use crate::Error;

/// A server that does not answer within this time is asked again.
const ANSWER: Duration = Duration::from_secs(1);
const POLL: Duration = Duration::from_millis(10);

/// Looks until there is a value, or until `deadline` has passed: then the error names the last state seen.
pub(crate) async fn settled<T>(
    deadline: Duration,
    what: &'static str,
    mut look: impl AsyncFnMut() -> Result<T, String>,
) -> Result<T, Error> {
    let end = Instant::now() + deadline;
    loop {
        match look().await {
            Ok(value) => return Ok(value),
            Err(seen) if Instant::now() > end => {
                return Err(Error::Unsettled { what, after: deadline, seen });
            }
            Err(_) => tokio::time::sleep(POLL).await,
        }
    }
}

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
