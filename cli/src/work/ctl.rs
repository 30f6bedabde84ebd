//! `tenure ctl`: a job's program talks to its node.

use std::env;
use std::fs::File;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use clap::Subcommand;

use super::desk::{Answer, Question};
use tenure_pool::JobKey;

use crate::args::{Body, KeyArg, time};
use crate::exit::{Code, Failure};

/// Names the desk to a job's processes.
pub(super) const DESK: &str = "TENURE_SOCKET";
/// How long an answer may take, beyond what was asked for.
const PATIENCE: Duration = Duration::from_secs(30);

/// Talk to the node, from within a job of `tenure work`
#[derive(Debug, Subcommand)]
pub(crate) enum Ctl {
    /// Say that the program is ready
    Ready,
    /// Say that the program is alive
    Progress,
    /// Say how the program is
    Status {
        /// A short text
        text: String,
    },
    /// Print the next notification. The one before counts as done
    Next {
        /// Wait no longer than this. Exit status 5 says that nothing came
        #[arg(long, value_name = "TIME", value_parser = time)]
        within: Option<Duration>,
    },
    /// Say that the notification that was printed last is done
    Ack,
    /// Leave a state for the next start of the job, from standard input or a file
    Checkpoint {
        /// The file
        file: Option<PathBuf>,
    },
    /// Print how many milliseconds the lease lasts without another renewal
    Lease,
    /// Dispatch another job of the pool, and return when it runs
    Dispatch {
        /// Its key
        #[arg(value_parser = KeyArg)]
        key: JobKey,
        #[command(flatten)]
        body: Body,
    },
    /// Leave a notification for another job of the pool
    Notify {
        /// Its key
        #[arg(value_parser = KeyArg)]
        key: JobKey,
        #[command(flatten)]
        body: Body,
    },
}

impl Ctl {
    /// Asks, and prints the answer.
    ///
    /// # Errors
    /// This is no process of a job, or the node does not answer.
    pub(crate) fn run(self) -> Result<Code, Failure> {
        let mut wait = Some(PATIENCE);
        let question = match self {
            Self::Ready => Question::Ready {},
            Self::Progress => Question::Progress {},
            Self::Status { text } => Question::Status { text },
            Self::Next { within } => {
                wait = within.map(|within| within.saturating_add(PATIENCE));
                let wait_ms = within.map(|within| u64::try_from(within.as_millis()).unwrap_or(u64::MAX));
                Question::Next { wait_ms }
            }
            Self::Ack => Question::Ack {},
            Self::Checkpoint { file } => {
                let mut body = Vec::new();
                let read = match file {
                    Some(file) => File::open(file).and_then(|mut file| file.read_to_end(&mut body)),
                    None => io::stdin().read_to_end(&mut body),
                };
                read.map_err(|error| Failure::usage(format!("the state cannot be read: {error}")))?;
                Question::Checkpoint { body64: STANDARD.encode(body) }
            }
            Self::Lease => Question::Lease {},
            Self::Dispatch { key, body } => {
                // The pool's own deadline ends it.
                wait = None;
                Question::Dispatch {
                    key64: STANDARD.encode(key.as_bytes()),
                    body64: STANDARD.encode(body.read()?),
                }
            }
            Self::Notify { key, body } => Question::Notify {
                key64: STANDARD.encode(key.as_bytes()),
                body64: STANDARD.encode(body.read()?),
            },
        };
        let desk = env::var_os(DESK)
            .ok_or_else(|| Failure::usage(format!("{DESK} is not set: this is no job of `tenure work`")))?;
        let answer = ask(&PathBuf::from(desk), &question, wait)
            .map_err(|error| Failure::new(Code::Failed, format!("the node does not answer: {error}")))?;
        let Answer { error, body64, left_ms, late } = answer;
        if let Some(error) = error {
            return Err(Failure::new(Code::Refused, error));
        }
        if late {
            return Err(Failure::new(Code::Late, "no notification came"));
        }
        if let Some(body) = body64 {
            let body =
                STANDARD.decode(body).map_err(|error| Failure::new(Code::Failed, error.to_string()))?;
            io::stdout().write_all(&body)?;
        }
        if let Some(left) = left_ms {
            writeln!(io::stdout(), "{left}")?;
        }
        io::stdout().flush()?;
        Ok(Code::Done)
    }
}

fn ask(desk: &std::path::Path, question: &Question, wait: Option<Duration>) -> io::Result<Answer> {
    let mut stream = UnixStream::connect(desk)?;
    stream.set_read_timeout(wait)?;
    stream.set_write_timeout(Some(PATIENCE))?;
    let mut line = serde_json::to_vec(question)?;
    line.push(b'\n');
    stream.write_all(&line)?;
    let mut answer = String::new();
    BufReader::new(&stream).read_line(&mut answer)?;
    // It may have gone first.
    let _ = stream.shutdown(Shutdown::Both);
    if answer.is_empty() {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    Ok(serde_json::from_str(&answer)?)
}
