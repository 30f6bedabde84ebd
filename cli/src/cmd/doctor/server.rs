//! The checks of the Redis server.

use std::collections::BTreeMap;
use std::time::{Duration, Instant, SystemTime};

use redis::{Value, cmd};
use tenure_pool::Inspector;

use super::{Finding, Unit};
use crate::connect::Place;
use crate::exit::{Code, Failure};

/// How many round trips are measured.
const TRIPS: usize = 50;

/// Checks the server that has the first shard of the pool.
///
/// # Errors
/// The server does not answer.
pub(super) async fn check(place: &Place, pool: &Inspector) -> Result<Vec<Finding>, Failure> {
    let settings = pool.settings().await?;
    let mut server = Server::of(place, pool.shards());
    let info = parse(&server.text(cmd("INFO")).await?);
    let of = |name: &str| info.get(name).map_or("", String::as_str);
    let number = |name: &str| of(name).parse::<u64>().unwrap_or_default();
    let mut findings = vec![version(of("redis_version")), eviction(of("maxmemory_policy"))];
    findings.push(memory(number("used_memory"), number("maxmemory")));
    findings.push(persistence(of("aof_enabled"), of("aof_last_write_status"), of("rdb_last_bgsave_status")));
    findings.push(replicas(
        of("role"),
        number("connected_slaves"),
        server.setting("min-replicas-to-write").await,
    ));
    findings.push(server.trips(settings.worker_ttl).await?);
    findings.push(server.clock().await?);
    Ok(findings)
}

/// The fields of `INFO`.
fn parse(info: &str) -> BTreeMap<String, String> {
    let fields = info.lines().filter_map(|line| line.trim_end().split_once(':'));
    fields.map(|(name, value)| (name.to_owned(), value.to_owned())).collect()
}

fn version(version: &str) -> Finding {
    const CHECK: &str = "server.version";
    let major = version.split('.').next().and_then(|major| major.parse::<u32>().ok()).unwrap_or_default();
    if major < 7 {
        return Finding::fail(CHECK, format!("the server is Redis {version}"), "run Redis 7.0 or newer");
    }
    Finding::ok(CHECK, format!("Redis {version}"))
}

fn eviction(policy: &str) -> Finding {
    const CHECK: &str = "server.eviction";
    if policy != "noeviction" {
        return Finding::fail(
            CHECK,
            format!("the server may drop keys when its memory is full: {policy}"),
            "CONFIG SET maxmemory-policy noeviction, and in redis.conf",
        );
    }
    Finding::ok(CHECK, "the server drops no key")
}

fn memory(used: u64, most: u64) -> Finding {
    const CHECK: &str = "server.memory";
    let mib = |bytes: u64| bytes >> 20;
    if most == 0 {
        let text = format!("{} MiB are used, without a limit", mib(used));
        return Finding::ok(CHECK, text).count(used, Unit::Bytes);
    }
    let text = format!("{} of {} MiB are used", mib(used), mib(most));
    let finding = match used {
        used if used >= most => Finding::fail(CHECK, format!("{text}: jobs are refused"), "raise maxmemory"),
        used if used.saturating_mul(5) >= most.saturating_mul(4) => {
            Finding::warn(CHECK, text, "raise maxmemory before it is full: then jobs are refused")
        }
        _ => Finding::ok(CHECK, text),
    };
    finding.count(used, Unit::Bytes)
}

fn persistence(aof: &str, aof_written: &str, rdb_saved: &str) -> Finding {
    const CHECK: &str = "server.persistence";
    let remedy = "look at the server's log and its disk";
    if aof == "1" && aof_written != "ok" {
        return Finding::fail(CHECK, "the server cannot write its append-only file", remedy);
    }
    if rdb_saved != "ok" && !rdb_saved.is_empty() {
        return Finding::fail(CHECK, "the server cannot write its snapshot", remedy);
    }
    if aof != "1" {
        return Finding::warn(
            CHECK,
            "the server keeps no append-only file: a restart loses jobs that nobody runs",
            "CONFIG SET appendonly yes, and in redis.conf",
        );
    }
    Finding::ok(CHECK, "the server keeps an append-only file")
}

/// `least`: the server's `min-replicas-to-write`, where it may be asked.
fn replicas(role: &str, count: u64, least: Option<u64>) -> Finding {
    const CHECK: &str = "server.replicas";
    if role != "master" {
        return Finding::fail(
            CHECK,
            "the server is a replica: it takes no writes",
            "name the primary in --url",
        );
    }
    match (count, least) {
        (0, _) => Finding::ok(CHECK, "the server has no replica"),
        (_, Some(0)) => Finding::warn(
            CHECK,
            format!("{count} replicas follow, and none has to have a write"),
            "CONFIG SET min-replicas-to-write 1, so that a fail-over loses less",
        ),
        _ => Finding::ok(CHECK, format!("{count} replicas follow")),
    }
}

/// A connection to the server of the first shard.
struct Server {
    commands: tenure_connection::Connection,
    /// A key of the pool: in a cluster it names the server.
    key: Vec<u8>,
}

impl Server {
    fn of(place: &Place, shards: usize) -> Self {
        let shard = if shards > 1 { "#0" } else { "" };
        let key = format!("tenure:{{{}{shard}}}:pool", place.pool).into_bytes();
        Self { commands: place.client.commands(), key }
    }

    async fn ask(&mut self, command: redis::Cmd) -> Result<Value, Failure> {
        let answer = self.commands.command_at(&self.key, &command).await;
        answer.map_err(|error| Failure::new(Code::Redis, error.to_string()))
    }

    async fn text(&mut self, command: redis::Cmd) -> Result<String, Failure> {
        let answer = self.ask(command).await?;
        redis::from_redis_value(answer).map_err(|error| Failure::new(Code::Redis, error.to_string()))
    }

    /// A setting of the server that is a number. None if the user may not read it.
    async fn setting(&mut self, name: &str) -> Option<u64> {
        let mut command = cmd("CONFIG");
        command.arg("GET").arg(name);
        let answer: Vec<String> = redis::from_redis_value(self.ask(command).await.ok()?).ok()?;
        answer.get(1)?.parse().ok()
    }

    async fn trips(&mut self, ttl: Duration) -> Result<Finding, Failure> {
        const CHECK: &str = "server.latency";
        let mut times = Vec::with_capacity(TRIPS);
        for _ in 0..TRIPS {
            let from = Instant::now();
            // A user of the pool need not have the right to PING.
            self.ask(cmd("TIME")).await?;
            times.push(from.elapsed());
        }
        times.sort_unstable();
        let (half, worst) = (times[TRIPS / 2], times[TRIPS - 1]);
        let text = format!("a round trip takes {half:.1?}, the longest of {TRIPS} took {worst:.1?}");
        if worst > ttl / 10 {
            let remedy = "look at the network, the server's slow log and its neighbours; leases need answers";
            return Ok(Finding::warn(CHECK, text, remedy).takes(worst));
        }
        Ok(Finding::ok(CHECK, text).takes(worst))
    }

    async fn clock(&mut self) -> Result<Finding, Failure> {
        const CHECK: &str = "server.clock";
        let answer: (u64, u64) = redis::from_redis_value(self.ask(cmd("TIME")).await?)
            .map_err(|error| Failure::new(Code::Redis, error.to_string()))?;
        let theirs = SystemTime::UNIX_EPOCH + Duration::from_secs(answer.0) + Duration::from_micros(answer.1);
        let ours = SystemTime::now();
        let apart = ours.duration_since(theirs).unwrap_or_else(|later| later.duration());
        let text = format!("the clocks of the server and of this machine are {apart:.0?} apart");
        if apart > Duration::from_secs(2) {
            let remedy = "mend the clock that is wrong. The pool rests on no clock, and times in lists do";
            return Ok(Finding::warn(CHECK, text, remedy).takes(apart));
        }
        Ok(Finding::ok(CHECK, text).takes(apart))
    }
}

#[cfg(test)]
mod tests {
    use super::super::Severity;
    use super::*;

    #[test]
    fn each_state_of_a_server_has_its_severity() {
        use Severity::{Fail, Ok, Warn};
        let cases = [
            (version("7.2.4"), Ok),
            (version("6.2.0"), Fail),
            (version("10.0.1"), Ok),
            (eviction("noeviction"), Ok),
            (eviction("allkeys-lru"), Fail),
            (memory(1 << 30, 0), Ok),
            (memory(7, 10), Ok),
            (memory(8, 10), Warn),
            (memory(10, 10), Fail),
            (persistence("1", "ok", "ok"), Ok),
            (persistence("0", "ok", "ok"), Warn),
            (persistence("1", "err", "ok"), Fail),
            (persistence("1", "ok", "err"), Fail),
            (replicas("master", 0, Some(0)), Ok),
            (replicas("master", 2, Some(0)), Warn),
            (replicas("master", 2, Some(1)), Ok),
            (replicas("master", 2, None), Ok),
            (replicas("slave", 0, None), Fail),
        ];
        for (finding, severity) in cases {
            assert_eq!(finding.severity, severity, "{finding:?}");
            assert_eq!(finding.remedy.is_some(), severity > Ok, "{finding:?}");
        }
    }

    #[test]
    fn the_fields_of_info_are_read() {
        let info = parse("# Server\r\nredis_version:7.2.4\r\n\r\n# Memory\r\nused_memory:17\r\n");
        assert_eq!(info["redis_version"], "7.2.4");
        assert_eq!(info["used_memory"], "17");
    }
}
