//! The cost of work, as differences of the counters of Redis and the kernel.

use std::fs;

use redis::aio::MultiplexedConnection;

use crate::Error;

/// Commands that no script of the pool runs: all that Redis counts of them came from clients.
const OF_CLIENTS: [&str; 7] = ["evalsha", "eval", "xread", "xreadgroup", "xautoclaim", "ping", "hscan"];
/// The first of them call scripts.
const SCRIPTS: usize = 2;
/// The kernel shows CPU times of processes in hundredths of a second.
const TICKS_PER_S: f64 = 100.0;

/// The usage so far, or between two moments.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Usage {
    /// CPU time of Redis, µs.
    pub(crate) redis_us: f64,
    /// Commands from clients, without those that scripts run.
    pub(crate) commands: f64,
    /// Those of them that call a script.
    pub(crate) scripts: f64,
    /// Bytes that Redis has received and sent.
    pub(crate) bytes: f64,
    /// CPU time of this process, µs.
    pub(crate) producer_us: f64,
    /// CPU time of the worker processes, µs.
    pub(crate) workers_us: f64,
}

impl Usage {
    /// The usage up to now.
    pub(crate) async fn now(redis: &mut MultiplexedConnection, workers: &[u32]) -> Result<Self, Error> {
        let info: String = redis::cmd("INFO").arg("everything").query_async(redis).await?;
        let of_clients = OF_CLIENTS.map(|name| calls(&info, name));
        Ok(Self {
            redis_us: (field(&info, "used_cpu_user") + field(&info, "used_cpu_sys")) * 1e6,
            commands: of_clients.into_iter().sum(),
            scripts: of_clients[..SCRIPTS].iter().sum(),
            bytes: field(&info, "total_net_input_bytes") + field(&info, "total_net_output_bytes"),
            producer_us: cpu_us(std::process::id())?,
            workers_us: workers.iter().map(|&pid| cpu_us(pid)).sum::<Result<_, _>>()?,
        })
    }

    /// The usage since an earlier moment, divided by the number of operations.
    pub(crate) fn each(&self, since: &Self, operations: u64) -> Self {
        let each = |of: fn(&Self) -> f64| (of(self) - of(since)) / operations.max(1) as f64;
        Self {
            redis_us: each(|usage| usage.redis_us),
            commands: each(|usage| usage.commands),
            scripts: each(|usage| usage.scripts),
            bytes: each(|usage| usage.bytes),
            producer_us: each(|usage| usage.producer_us),
            workers_us: each(|usage| usage.workers_us),
        }
    }
}

/// The CPU time that Redis has used so far, in µs.
pub(crate) async fn redis_us(redis: &mut MultiplexedConnection) -> Result<f64, Error> {
    let info: String = redis::cmd("INFO").arg("cpu").query_async(redis).await?;
    Ok((field(&info, "used_cpu_user") + field(&info, "used_cpu_sys")) * 1e6)
}

/// The bytes of memory that Redis uses.
pub(crate) async fn redis_bytes(redis: &mut MultiplexedConnection) -> Result<f64, Error> {
    let info: String = redis::cmd("INFO").arg("memory").query_async(redis).await?;
    Ok(field(&info, "used_memory"))
}

/// The resident bytes of a process, as the kernel counts them.
pub(crate) fn resident(pid: u32) -> Result<u64, Error> {
    let status = fs::read_to_string(format!("/proc/{pid}/status"))?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).ok_or("no VmRSS")?;
    let kib: u64 = line.trim().trim_end_matches("kB").trim().parse()?;
    Ok(kib * 1024)
}

fn field(info: &str, name: &str) -> f64 {
    let line = info.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
    line.and_then(|value| value.trim().parse().ok()).unwrap_or(0.0)
}

/// The number of runs of a command, from a line such as `cmdstat_ping:calls=7,usec=…`.
fn calls(info: &str, command: &str) -> f64 {
    let line = info
        .lines()
        .find_map(|line| line.strip_prefix("cmdstat_")?.strip_prefix(command)?.strip_prefix(":calls="));
    line.and_then(|stats| stats.split(',').next()?.parse().ok()).unwrap_or(0.0)
}

fn cpu_us(pid: u32) -> Result<f64, Error> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat"))?;
    // The name, in parentheses, may have spaces.
    let (_, fields) = stat.rsplit_once(") ").ok_or("no process")?;
    let mut times = fields.split(' ').skip(11).map(str::parse::<f64>);
    let (Some(Ok(user)), Some(Ok(system))) = (times.next(), times.next()) else {
        return Err("no times of a process".into());
    };
    Ok((user + system) * 1e6 / TICKS_PER_S)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_and_calls_are_found_by_their_whole_names() {
        let info = "used_memory_rss:9\r\nused_memory:7\r\ncmdstat_evalsha_ro:calls=5,usec=1\r\ncmdstat_evalsha:calls=3,usec=1";
        assert_eq!((field(info, "used_memory"), field(info, "used")), (7.0, 0.0));
        assert_eq!((calls(info, "evalsha"), calls(info, "eval")), (3.0, 0.0));
    }

    #[test]
    fn this_process_has_memory_and_a_time() -> Result<(), Error> {
        assert!(cpu_us(std::process::id())? >= 0.0 && resident(std::process::id())? > 100_000);
        Ok(())
    }
}
