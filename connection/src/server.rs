//! A server's description of itself in `INFO`.

use std::collections::HashMap;
use std::fmt;
use std::time::Duration;

use redis::{Cmd, Value};

use crate::Error;

/// A server's version. Valkey reports the Redis version that it is compatible with.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Version {
    /// Major version.
    pub major: u32,
    /// Minor version.
    pub minor: u32,
    /// Patch level.
    pub patch: u32,
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}.{}", self.major, self.minor, self.patch)
    }
}

/// The identity of a server, and the settings that a deployment depends on.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ServerInfo {
    /// Names the server process: it changes with every restart and fail-over.
    pub run_id: Box<str>,
    /// Names one life of the data in that process: it also changes with every promotion. It begins with the `run_id`,
    /// and equals it if the process was never promoted.
    pub identity: Box<str>,
    /// Its version.
    pub version: Version,
    /// The time that the process has been running, to the second.
    pub uptime: Duration,
    /// The server's replication id before its promotion; all zeros if it was never promoted.
    pub master_replid2: Box<str>,
    /// The policy for a full memory.
    pub maxmemory_policy: Box<str>,
    /// Whether `FLUSHALL`, `FLUSHDB` or `SWAPDB` was called since the process started.
    pub flushed: bool,
    /// The number of replicas that follow it now.
    pub connected_replicas: u32,
    /// Whether it is a master.
    pub is_master: bool,
    /// Whether it writes an append-only file.
    pub appendonly: bool,
}

impl ServerInfo {
    /// Whether the server was promoted from a replica since it started, or began with the data of a master that had
    /// replicas.
    pub fn was_promoted(&self) -> bool {
        is_set(&self.master_replid2)
    }

    /// Reads the reply of `INFO all`.
    pub(crate) fn parse(reply: &Value) -> Result<Self, Error> {
        let fields = fields(reply)?;
        let text = |name: &'static str| fields.get(name).copied().unwrap_or_default();
        Ok(Self {
            run_id: required(&fields, "run_id")?.into(),
            identity: life(&fields)?,
            version: version(required(&fields, "redis_version")?)?,
            uptime: Duration::from_secs(text("uptime_in_seconds").parse().unwrap_or_default()),
            master_replid2: text("master_replid2").into(),
            maxmemory_policy: text("maxmemory_policy").into(),
            flushed: ["cmdstat_flushall", "cmdstat_flushdb", "cmdstat_swapdb"]
                .iter()
                .any(|name| fields.contains_key(name)),
            connected_replicas: text("connected_slaves").parse().unwrap_or_default(),
            is_master: text("role") == "master",
            appendonly: text("aof_enabled") == "1",
        })
    }
}

/// The command whose reply [`identity`] reads.
pub(crate) fn who() -> Cmd {
    redis::cmd("INFO").arg("server").arg("replication").take()
}

/// [`ServerInfo::identity`] in the reply to [`who`].
pub(crate) fn identity(reply: &Value) -> Result<Box<str>, Error> {
    life(&fields(reply)?)
}

/// A promotion records the server's former replication id, and how far that went; both stay while it is the master.
/// They go when it drops its backlog, because no replica has followed it for long: that looks like another life, too.
fn life(fields: &HashMap<&str, &str>) -> Result<Box<str>, Error> {
    let run_id = required(fields, "run_id")?;
    let before = fields.get("master_replid2").filter(|id| is_set(id));
    Ok(match before {
        Some(id) => {
            let offset = fields.get("second_repl_offset").copied().unwrap_or_default();
            format!("{run_id}+{id}.{offset}").into()
        }
        None => run_id.into(),
    })
}

fn is_set(replication_id: &str) -> bool {
    replication_id.bytes().any(|b| b != b'0')
}

fn fields(reply: &Value) -> Result<HashMap<&str, &str>, Error> {
    let text = match reply {
        Value::BulkString(bytes) => std::str::from_utf8(bytes).ok(),
        Value::VerbatimString { text, .. } | Value::SimpleString(text) => Some(text.as_str()),
        _ => None,
    };
    let text = text.ok_or(Error::Reply { expected: "the text of INFO" })?;
    Ok(text.lines().filter_map(|line| line.split_once(':')).collect())
}

fn required<'a>(fields: &HashMap<&str, &'a str>, name: &'static str) -> Result<&'a str, Error> {
    match fields.get(name) {
        Some(value) if !value.is_empty() => Ok(value),
        _ => Err(Error::Reply { expected: "an INFO with run_id and redis_version" }),
    }
}

fn version(text: &str) -> Result<Version, Error> {
    let mut parts = text.split('.').map(str::parse::<u32>);
    match (parts.next(), parts.next()) {
        (Some(Ok(major)), Some(Ok(minor))) => {
            Ok(Version { major, minor, patch: parts.next().and_then(Result::ok).unwrap_or_default() })
        }
        _ => Err(Error::Reply { expected: "a version of the form 7.0.15" }),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn info(text: &str) -> Result<ServerInfo, Error> {
        ServerInfo::parse(&Value::BulkString(text.as_bytes().to_vec()))
    }

    #[test]
    fn reads_what_a_deployment_depends_on() {
        let parsed = info(
            "# Server\r\nredis_version:7.0.15\r\nrun_id:abc\r\nuptime_in_seconds:42\r\n\r\n# Memory\r\n\
             maxmemory_policy:noeviction\r\nrole:master\r\nconnected_slaves:2\r\naof_enabled:1\r\n\
             master_replid2:0000\r\ncmdstat_flushdb:calls=1,usec=3\r\n",
        )
        .unwrap();
        assert_eq!((&*parsed.run_id, parsed.uptime), ("abc", Duration::from_secs(42)));
        assert_eq!(parsed.version, Version { major: 7, minor: 0, patch: 15 });
        assert_eq!((parsed.connected_replicas, parsed.appendonly, parsed.is_master), (2, true, true));
        assert_eq!(&*parsed.maxmemory_policy, "noeviction");
        assert!(parsed.flushed && !parsed.was_promoted());
        assert_eq!(&*parsed.identity, "abc");
    }

    #[test]
    fn a_promotion_is_part_of_the_identity() {
        let of = |text: &str| identity(&Value::BulkString(text.as_bytes().to_vec())).unwrap();
        let server = |id: &str, offset: &str| {
            format!("run_id:abc\r\nmaster_replid2:{id}\r\nsecond_repl_offset:{offset}\r\n")
        };
        assert_eq!(&*of(&server("0000", "-1")), "abc");
        assert_eq!(&*of(&server("0f00", "141")), "abc+0f00.141");
        assert_eq!(
            &*info(&format!("redis_version:7.0.1\r\n{}", server("0f00", "9"))).unwrap().identity,
            "abc+0f00.9"
        );
    }

    #[test]
    fn an_old_version_is_read_and_a_nameless_server_is_an_error() {
        assert_eq!(info("redis_version:6.2\r\nrun_id:a").unwrap().version.to_string(), "6.2.0");
        assert!(matches!(info("redis_version:7.0.1"), Err(Error::Reply { .. })));
        assert!(matches!(info("redis_version:x\r\nrun_id:a"), Err(Error::Reply { .. })));
        assert!(matches!(ServerInfo::parse(&Value::Nil), Err(Error::Reply { .. })));
    }
}
