//! What the same Redis does at best, in the same minute.

use std::time::{Duration, Instant};

use redis::aio::MultiplexedConnection;

use crate::figures::percentile_ms;

type Error = Box<dyn std::error::Error>;

/// The floor.
pub(crate) struct Floor {
    /// One PING after another, p50 in ms.
    pub(crate) ping_ms: f64,
    /// XADD of 100 bytes, pipelined by 100, per second.
    pub(crate) xadd_per_s: f64,
}

/// A bare connection.
pub(crate) async fn connect(url: &str) -> Result<MultiplexedConnection, Error> {
    let config = redis::AsyncConnectionConfig::new().set_response_timeout(Some(Duration::from_secs(30)));
    Ok(redis::Client::open(url)?.get_multiplexed_async_connection_with_config(&config).await?)
}

/// Measures the floor.
pub(crate) async fn measure(connection: &mut MultiplexedConnection) -> Result<Floor, Error> {
    let mut pings = Vec::new();
    for _ in 0..2_000 {
        let began = Instant::now();
        redis::cmd("PING").query_async::<()>(connection).await?;
        pings.push(began.elapsed());
    }
    pings.sort_unstable();
    let body = [b'x'; 100];
    let began = Instant::now();
    for _ in 0..500 {
        let mut pipe = redis::pipe();
        for _ in 0..100 {
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
    let xadd_per_s = 50_000.0 / began.elapsed().as_secs_f64();
    redis::cmd("DEL").arg("floor").query_async::<()>(connection).await?;
    Ok(Floor { ping_ms: percentile_ms(&pings, 0.5), xadd_per_s })
}

/// CPU time that the server has used, and the commands that clients have sent it.
pub(crate) async fn server_use(connection: &mut MultiplexedConnection) -> Result<(f64, f64), Error> {
    let info: String = redis::cmd("INFO").arg("everything").query_async(connection).await?;
    let field = |name: &str| {
        let line = info.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
        line.and_then(|value| value.trim().parse::<f64>().ok()).unwrap_or(0.0)
    };
    Ok((field("used_cpu_user") + field("used_cpu_sys"), field("total_commands_processed")))
}
