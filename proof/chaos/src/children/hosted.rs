//! The program of `tenure host`: it speaks the host protocol, and runs many jobs. Each holds the lock of its key, and writes to
//! the world outside until it has ended.

use std::collections::HashMap;
use std::env;
use std::ffi::OsString;
use std::fs::File;
use std::io::{self, BufRead, BufReader, Write};
use std::os::unix::net::UnixStream;
use std::process::ExitCode;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use rustix::time::{ClockId, clock_gettime};
use serde::Deserialize;
use serde_json::{Value, json};

use super::program::{BEAT, LONGEST_END_MS, Outside, daemon, given};
use super::traces::Traces;
use crate::Result;

/// The hidden command of the program. Its arguments are those of a job's.
pub(super) const HOST: &str = "__hosted";
/// How often it looks for what has to end.
const LOOK: Duration = Duration::from_millis(25);

/// A message of the node. Each has the fields of its own kind.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Down {
    op: String,
    job: u64,
    key: String,
    token: u64,
    lease: u64,
    until_ms: u64,
    n: u64,
    why: String,
}

struct Hosted {
    key: String,
    token: u64,
    lease: u64,
    /// When it ends, and the word that says so.
    ends: Option<(Instant, Value)>,
    /// Free again when this is dropped.
    _lock: Option<File>,
}

/// The state that the threads share.
struct Host {
    node: Mutex<UnixStream>,
    jobs: Mutex<HashMap<u64, Hosted>>,
    leases: Mutex<HashMap<u64, u64>>,
    outside: Mutex<Outside>,
    traces: Traces,
    name: String,
    /// It ends jobs at the end of their leases. Another one leaves that to its keeper.
    is_prompt: bool,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Runs as a host.
pub(super) fn run(args: &[OsString]) -> ExitCode {
    match host(args) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            let _ = writeln!(io::stderr(), "a host failed: {error}");
            ExitCode::FAILURE
        }
    }
}

fn host(args: &[OsString]) -> Result<()> {
    let (outside, traces) = given(args)?;
    let node = UnixStream::connect(env::var("TENURE_SOCKET")?)?;
    let lines = BufReader::new(node.try_clone()?).lines();
    let (id, name) = (std::process::id(), env::var("TENURE_NODE")?);
    let host = Arc::new(Host {
        node: Mutex::new(node),
        jobs: Mutex::default(),
        leases: Mutex::default(),
        outside: Mutex::new(outside),
        traces,
        name: format!("{name}/{id}"),
        is_prompt: id.is_multiple_of(2),
    });
    daemon(None)?;
    let living = host.clone();
    // It ends with the process.
    thread::spawn(move || {
        if living.live().is_err() {
            std::process::exit(1);
        }
    });
    host.say(&json!({"op": "hello", "v": [1], "sdk": "chaos", "features": []}))?;
    for line in lines {
        let down: Down = serde_json::from_str(&line?)?;
        if !host.hear(down)? {
            break;
        }
    }
    Ok(())
}

impl Host {
    fn say(&self, word: &Value) -> io::Result<()> {
        lock(&self.node).write_all(format!("{word}\n").as_bytes())
    }

    /// Hears a message. False: there is nothing more to do.
    fn hear(&self, down: Down) -> Result<bool> {
        let Down { op, job, key, token, lease, until_ms, n, why } = down;
        match op.as_str() {
            "start" => {
                let name = format!("{}/{job}", self.name);
                let held = self.traces.lock(&key, token, &name)?;
                if !lock(&self.outside).write(&key, token, &name)? {
                    self.say(&json!({"op": "refused", "job": job, "retry_ms": 1_000}))?;
                    return Ok(true);
                }
                let hosted = Hosted { key, token, lease, ends: None, _lock: held };
                // Said before it can end.
                self.say(&json!({"op": "started", "job": job}))?;
                lock(&self.jobs).insert(job, hosted);
            }
            "stop" => {
                if let Some(hosted) = lock(&self.jobs).get_mut(&job) {
                    let longest = Duration::from_millis(hosted.token % LONGEST_END_MS);
                    let after = if why == "lease_lost" { Duration::ZERO } else { longest };
                    hosted.ends = Some((Instant::now() + after, json!({"op": "stopped", "job": job})));
                }
            }
            "lease" => {
                lock(&self.leases).insert(lease, until_ms);
            }
            "ping" => self.say(&json!({"op": "pong", "n": n}))?,
            "refused" => return Err(why.into()),
            "bye" => return Ok(false),
            _ => {}
        }
        Ok(true)
    }

    /// Writes for all jobs, and ends those that have to end.
    fn live(&self) -> io::Result<()> {
        let mut beat_at = Instant::now();
        loop {
            thread::sleep(LOOK);
            if Instant::now() >= beat_at {
                beat_at = Instant::now() + BEAT;
                let jobs = lock(&self.jobs);
                for (job, hosted) in jobs.iter() {
                    let name = format!("{}/{job}", self.name);
                    lock(&self.outside).beat(&hosted.key, hosted.token, &name)?;
                }
            }
            for word in self.ended() {
                self.say(&word)?;
            }
        }
    }

    /// Ends the jobs that have to end, and returns the words that say so.
    fn ended(&self) -> Vec<Value> {
        let (now, monotonic) = (Instant::now(), monotonic_ms());
        let leases = lock(&self.leases).clone();
        let mut jobs = lock(&self.jobs);
        let mut words = Vec::new();
        jobs.retain(|job, hosted| {
            let until = leases.get(&hosted.lease).copied().unwrap_or(u64::MAX);
            match &hosted.ends {
                Some((at, word)) if now >= *at => words.push(word.clone()),
                _ if self.is_prompt && monotonic >= until => {
                    words.push(
                        json!({"op": "ended", "job": job, "error": "the lease was over", "lost": true}),
                    );
                }
                _ => return true,
            }
            false
        });
        words
    }
}

fn monotonic_ms() -> u64 {
    let now = clock_gettime(ClockId::Monotonic);
    u64::try_from(now.tv_sec).unwrap_or(0) * 1_000 + u64::try_from(now.tv_nsec).unwrap_or(0) / 1_000_000
}
