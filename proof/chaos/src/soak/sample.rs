//! The measured series, and the way to measure them.

use std::fs;
use std::time::{Duration, Instant};

use redis::cmd;
use tenure_testing::RedisServer;

use crate::Result;

/// A measured series.
#[derive(Clone, Copy, Debug)]
pub struct Series {
    /// Its name, as the head of a column.
    pub name: &'static str,
    /// Its title in the plot.
    pub title: &'static str,
    /// The absolute growth that is allowed in any case.
    pub slack: f64,
}

const fn series(name: &'static str, title: &'static str, slack: f64) -> Series {
    Series { name, title, slack }
}

/// All series, in the order of a sample's values.
pub const SERIES: [Series; 12] = [
    series("nodes_rss_mib", "resident memory of the nodes that stay, MiB", 4.0),
    series("conductor_rss_mib", "resident memory of the client, MiB", 4.0),
    series("nodes_files", "open files of the nodes that stay", 4.0),
    series("redis_used_mib", "used memory of Redis, MiB", 1.0),
    series("redis_clients", "connections to Redis", 8.0),
    series("keys", "keys in Redis", 4.0),
    series("jobs", "jobs", 20.0),
    series("stream_entries", "entries of all streams", 64.0),
    series("pending", "entries that a router has taken and not handled", 16.0),
    series("consumers", "consumers of the routers' group", 4.0),
    series("tombstones", "dispatches that are remembered after their end", 200.0),
    series("commands_per_s", "commands a second", 50.0),
];

/// The values at one moment.
#[derive(Clone, Debug)]
pub struct Sample {
    /// The time since the beginning.
    pub at: Duration,
    /// One value for each of [`SERIES`].
    pub values: [f64; SERIES.len()],
}

/// The samples as a table, the time in seconds first.
pub(super) fn csv(samples: &[Sample]) -> String {
    let names: Vec<_> = SERIES.iter().map(|series| series.name).collect();
    let head = format!("seconds,{}\n", names.join(","));
    let line = |sample: &Sample| {
        let values: Vec<_> = sample.values.iter().map(|value| format!("{value:.2}")).collect();
        format!("{},{}\n", sample.at.as_secs(), values.join(","))
    };
    samples.iter().fold(head, |text, sample| text + &line(sample))
}

/// Takes samples.
pub(super) struct Sampler<'a> {
    redis: &'a RedisServer,
    prefix: String,
    nodes: Vec<u32>,
    before: Option<(Instant, f64)>,
}

impl<'a> Sampler<'a> {
    /// A sampler of this pool on this server, and of the processes of these nodes.
    pub(super) fn new(redis: &'a RedisServer, pool: &str, nodes: Vec<u32>) -> Self {
        Self { redis, prefix: format!("tenure:{{{pool}}}:"), nodes, before: None }
    }

    pub(super) fn take(&mut self, at: Duration) -> Result<Sample> {
        let info: String = self.redis.query(cmd("INFO").arg("everything"))?;
        let commands = field(&info, "total_commands_processed");
        let now = Instant::now();
        let before = self.before.replace((now, commands));
        let rate = before.map_or(0.0, |(then, count)| (commands - count) / (now - then).as_secs_f64());
        let keys = self.redis.keys()?;
        let is_stream = |key: &&String| {
            key.strip_prefix(&self.prefix).is_some_and(|name| {
                name == "starts" || name.starts_with("worker:") || name.starts_with("node:")
            })
        };
        let mut entries = 0.0;
        for key in keys.iter().filter(is_stream) {
            entries += self.count("XLEN", key)?;
        }
        let starts = format!("{}starts", self.prefix);
        let (pending, ..): (u64, redis::Value, redis::Value, redis::Value) =
            self.redis.query(cmd("XPENDING").arg(&starts).arg("routers"))?;
        let consumers: Vec<redis::Value> =
            self.redis.query(cmd("XINFO").arg("CONSUMERS").arg(&starts).arg("routers"))?;
        let mib = |bytes: f64| bytes / f64::from(1 << 20);
        let values = [
            self.nodes.iter().map(|&pid| rss_mib(pid)).sum::<Result<f64>>()?,
            rss_mib(std::process::id())?,
            self.nodes.iter().map(|&pid| files(pid)).sum::<Result<f64>>()?,
            mib(field(&info, "used_memory")),
            field(&info, "connected_clients"),
            keys.len() as f64,
            self.count("HLEN", &format!("{}jobs", self.prefix))?,
            entries,
            pending as f64,
            consumers.len() as f64,
            self.count("ZCARD", &format!("{}ended", self.prefix))?,
            rate,
        ];
        Ok(Sample { at, values })
    }

    fn count(&self, command: &str, key: &str) -> Result<f64> {
        Ok(self.redis.query::<u64>(cmd(command).arg(key))? as f64)
    }
}

fn field(info: &str, name: &str) -> f64 {
    let line = info.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
    line.and_then(|number| number.trim().parse().ok()).unwrap_or_default()
}

fn rss_mib(pid: u32) -> Result<f64> {
    let status = fs::read_to_string(format!("/proc/{pid}/status"))?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let kib = line.and_then(|line| line.trim().trim_end_matches("kB").trim().parse::<f64>().ok());
    kib.map(|kib| kib / 1024.0).ok_or_else(|| format!("process {pid} has no memory").into())
}

fn files(pid: u32) -> Result<f64> {
    Ok(fs::read_dir(format!("/proc/{pid}/fd"))?.count() as f64)
}
