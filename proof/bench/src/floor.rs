//! The floor: the best that the same Redis can do in the same minute.

use std::time::{Duration, Instant};

use redis::aio::MultiplexedConnection;
use tenure_connection::Client;

use crate::Error;
use crate::figures::percentile_ms;

/// The numbers of single commands and of batches.
const SIZES: (u32, u32) = (2_000, 500);
const QUICK: (u32, u32) = (50, 5);
const PIPELINED: u32 = 100;

/// The floor.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Floor {
    /// One PING after another, p50 in ms.
    pub(crate) ping_ms: f64,
    /// XADD of 100 bytes, pipelined by 100, per second.
    pub(crate) xadd_per_s: f64,
}

/// A measurement may take any time on a slow machine: only a missing answer ends a run.
const PATIENCE: Duration = Duration::from_secs(30);

/// A client of the crates for the server.
pub(crate) fn client(url: &str) -> Result<Client, Error> {
    Ok(Client::builder(url).connect_timeout(PATIENCE).response_timeout(PATIENCE).build()?)
}

/// A bare connection.
pub(crate) async fn connect(url: &str) -> Result<MultiplexedConnection, Error> {
    let config = redis::AsyncConnectionConfig::new()
        .set_connection_timeout(Some(PATIENCE))
        .set_response_timeout(Some(PATIENCE));
    Ok(redis::Client::open(url)?.get_multiplexed_async_connection_with_config(&config).await?)
}

impl Floor {
    /// Measures the floor.
    pub(crate) async fn measure(connection: &mut MultiplexedConnection, quick: bool) -> Result<Self, Error> {
        let (count, batches) = if quick { QUICK } else { SIZES };
        let mut pings = Vec::new();
        for _ in 0..count {
            let began = Instant::now();
            redis::cmd("PING").query_async::<()>(connection).await?;
            pings.push(began.elapsed());
        }
        pings.sort_unstable();
        let body = [b'x'; 100];
        let began = Instant::now();
        for _ in 0..batches {
            let mut pipe = redis::pipe();
            for _ in 0..PIPELINED {
                pipe.cmd("XADD")
                    .arg("floor")
                    .arg("MAXLEN")
                    .arg("~")
                    .arg(10_000)
                    .arg("*")
                    .arg("d")
                    .arg(&body[..])
                    .ignore();
            }
            pipe.query_async::<()>(connection).await?;
        }
        let xadd_per_s = f64::from(batches * PIPELINED) / began.elapsed().as_secs_f64();
        redis::cmd("DEL").arg("floor").query_async::<()>(connection).await?;
        Ok(Self { ping_ms: percentile_ms(&pings, 0.5), xadd_per_s })
    }
}
