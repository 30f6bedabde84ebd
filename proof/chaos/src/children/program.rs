//! The program of a job of `tenure work`. It locks its key, and starts a process that leaves its session. It writes to the world
//! outside until it is told to end, and for a moment after that.

use std::env;
use std::ffi::OsString;
use std::fs::File;
use std::io::{self, BufRead, BufReader, Write};
use std::net::TcpStream;
use std::os::unix::net::UnixDatagram;
use std::path::Path;
use std::process::{Command, ExitCode, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use signal_hook::consts::SIGTERM;

use super::traces::Traces;
use crate::Result;
use crate::resource::{Answer, Write as Wrote, write_of};

/// The hidden command of the program. Its arguments are the address of the world outside and the folder of the traces.
pub(super) const JOB: &str = "__job";
/// How often a job writes.
pub(super) const BEAT: Duration = Duration::from_millis(150);
/// The longest time that a job goes on after it was told to end, in ms.
pub(super) const LONGEST_END_MS: u64 = 300;
/// How long the world outside may take for its answer.
const ANSWER: Duration = Duration::from_secs(10);
/// The exit status that says: not now.
const TRY_AGAIN: u8 = 75;

/// Runs as the program of a job.
pub(super) fn run(args: &[OsString]) -> ExitCode {
    match job(args) {
        Ok(code) => code,
        Err(error) => {
            let _ = writeln!(io::stderr(), "the program of a job failed: {error}");
            ExitCode::FAILURE
        }
    }
}

fn job(args: &[OsString]) -> Result<ExitCode> {
    let told = Arc::new(AtomicBool::new(false));
    signal_hook::flag::register(SIGTERM, told.clone())?;
    let (mut outside, traces) = given(args)?;
    let (key, token) = (env::var("TENURE_KEY")?, env::var("TENURE_TOKEN")?.parse()?);
    let holder = format!("{}/{}", env::var("TENURE_NODE")?, std::process::id());
    let lock = traces.lock(&key, token, &holder)?;
    // It must end with the job, and holds the key until it has.
    daemon(lock.as_ref())?;
    if !outside.write(&key, token, &holder)? {
        return Ok(ExitCode::from(TRY_AGAIN));
    }
    let node = UnixDatagram::unbound()?;
    node.send_to(b"READY=1", env::var("NOTIFY_SOCKET")?)?;
    let longest = Duration::from_millis(token % LONGEST_END_MS);
    let mut ends_at: Option<Instant> = None;
    while ends_at.is_none_or(|at| Instant::now() < at) {
        outside.beat(&key, token, &holder)?;
        thread::sleep(BEAT.min(ends_at.map_or(BEAT, |at| at.saturating_duration_since(Instant::now()))));
        if ends_at.is_none() && told.load(Ordering::Relaxed) {
            ends_at = Some(Instant::now() + longest);
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// The world outside, and the traces.
///
/// # Errors
/// One of them is not there.
pub(super) fn given(args: &[OsString]) -> Result<(Outside, Traces)> {
    match args {
        [address, traces] => {
            let address = address.to_str().ok_or("the address is no text")?;
            Ok((Outside::open(address)?, Traces::at(Path::new(traces))))
        }
        _ => Err("the arguments are an address and a folder".into()),
    }
}

/// Starts a process that leaves its session, and that holds the key, too, if there is a lock.
///
/// # Errors
/// It cannot be started.
pub(super) fn daemon(lock: Option<&File>) -> io::Result<()> {
    let held = lock.map(File::try_clone).transpose()?;
    let mut sleep = Command::new("setsid");
    sleep.args(["sleep", "100000"]).stdin(held.map_or_else(Stdio::null, Stdio::from));
    sleep.stdout(Stdio::null()).stderr(Stdio::null()).spawn().map(drop)
}

/// The connection of a program to the world outside.
#[derive(Debug)]
pub(super) struct Outside {
    out: TcpStream,
    answers: BufReader<TcpStream>,
    number: u64,
}

impl Outside {
    fn open(address: &str) -> io::Result<Self> {
        let out = TcpStream::connect(address)?;
        out.set_read_timeout(Some(ANSWER))?;
        Ok(Self { answers: BufReader::new(out.try_clone()?), out, number: 0 })
    }

    /// Writes, and returns whether the write was accepted.
    ///
    /// # Errors
    /// The world outside does not answer.
    pub(super) fn write(&mut self, key: &str, token: u64, holder: &str) -> Result<bool> {
        self.number += 1;
        self.send(&Wrote { number: Some(self.number), ..write_of(key, token, holder) })?;
        loop {
            let mut line = String::new();
            if self.answers.read_line(&mut line)? == 0 {
                return Err("the world outside has gone".into());
            }
            let answer: Answer = serde_json::from_str(&line)?;
            if answer.number == self.number {
                return Ok(answer.accepted);
            }
        }
    }

    /// Writes without waiting for an answer.
    ///
    /// # Errors
    /// The world outside has gone.
    pub(super) fn beat(&mut self, key: &str, token: u64, holder: &str) -> io::Result<()> {
        self.send(&write_of(key, token, holder))
    }

    fn send(&mut self, write: &Wrote) -> io::Result<()> {
        let mut line = serde_json::to_vec(write)?;
        line.push(b'\n');
        self.out.write_all(&line)
    }
}
