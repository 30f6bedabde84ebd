//! The program of a job: its arguments, its environment and its input.

use std::collections::BTreeMap;
use std::env;
use std::ffi::{OsStr, OsString};
use std::io;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::time::{Duration, SystemTime};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use tenure_pool::Job;

use super::ctl::DESK;
use super::desk::{NOTIFY_SOCKET, SOCKET};
use super::folder::Folder;
use super::launch::Confines;
use super::options::{PayloadTo, Work};
use super::process::Program;

/// The longest payload that an environment takes.
const ENV_MAX: usize = 64 << 10;

/// The facts that all jobs of a node share.
#[derive(Debug)]
pub(super) struct Facts {
    pub(super) pool: String,
    pub(super) node: String,
    pub(super) ttl: Duration,
    /// The variables of the node that programs do not get.
    pub(super) unset: Vec<OsString>,
    pub(super) confines: Confines,
}

/// Why a job has no program.
#[derive(Debug, thiserror::Error)]
pub(super) enum NoProgram {
    /// The job is at fault, for this reason: no node can run it.
    #[error("{0}")]
    Job(String),
    /// This machine is at fault.
    #[error(transparent)]
    Machine(#[from] io::Error),
}

/// The variables of this process that programs do not get: where the pool's server is, and what is known of the node.
pub(crate) fn unset(passed: &[String]) -> Vec<OsString> {
    let is_ours = |name: &OsStr| {
        name.as_bytes().starts_with(b"TENURE_")
            || name == "REDIS_URL"
            || name == "REDISCLI_AUTH"
            || name == "NOTIFY_SOCKET"
            || name == "WATCHDOG_USEC"
    };
    let is_passed = |name: &OsStr| passed.iter().any(|passed| name == passed.as_str());
    env::vars_os().map(|(name, _)| name).filter(|name| is_ours(name) && !is_passed(name)).collect()
}

/// The program of a job.
///
/// # Errors
/// The key or the payload cannot be given as it is wanted, or the folder cannot be written.
pub(super) fn program(work: &Work, facts: &Facts, job: &Job, folder: &Folder) -> Result<Program, NoProgram> {
    let Facts { pool, node, ttl, unset, confines } = facts;
    let key = job.key().as_bytes();
    let line: Result<Vec<_>, _> = work.command.iter().map(|word| filled(word, job)).collect();
    let mut set = BTreeMap::new();
    let since = |time: SystemTime| time.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    if let Some(text) = job.key().as_str().filter(|text| !text.contains('\0')) {
        set.insert("TENURE_KEY", OsString::from(text));
    }
    let texts = [
        ("TENURE_KEY64", STANDARD.encode(key)),
        ("TENURE_POOL", pool.clone()),
        ("TENURE_NODE", node.clone()),
        ("TENURE_TOKEN", job.token().to_string()),
        ("TENURE_DISPATCH_ID", job.dispatch_id().to_string()),
        ("TENURE_WORKER", job.worker().to_string()),
        ("TENURE_ATTEMPT", job.attempts().to_string()),
        ("TENURE_CREATED_MS", since(job.created_at()).as_millis().to_string()),
        ("TENURE_TTL_MS", ttl.as_millis().to_string()),
    ];
    set.extend(texts.map(|(name, text)| (name, text.into())));
    set.insert(DESK, folder.path(SOCKET).into());
    if let Some(trace) = job.trace() {
        set.insert("TRACEPARENT", trace.traceparent().into());
        set.insert("TRACESTATE", trace.tracestate().into());
    }
    if takes_sd_notify(work) {
        set.insert("NOTIFY_SOCKET", folder.path(NOTIFY_SOCKET).into());
    }
    if let Some(watchdog) = work.stop.watchdog {
        set.insert("WATCHDOG_USEC", watchdog.as_micros().to_string().into());
    }
    if let Some(checkpoint) = job.checkpointed() {
        let file = folder.write("checkpoint", checkpoint.bytes())?;
        set.insert("TENURE_CHECKPOINT_FILE", file.into());
    }
    let mut input = Vec::new();
    let payload = job.payload();
    match work.start.payload {
        PayloadTo::Stdin => input = payload.to_vec(),
        PayloadTo::File => {
            set.insert("TENURE_PAYLOAD_FILE", folder.write("payload", &payload)?.into());
        }
        PayloadTo::Env if payload.len() > ENV_MAX || payload.contains(&0) => {
            return Err(NoProgram::Job("no variable can hold the payload: use --payload stdin".to_owned()));
        }
        PayloadTo::Env => {
            set.insert("TENURE_PAYLOAD", OsString::from_vec(payload.to_vec()));
        }
        PayloadTo::None => {}
    }
    let (unset, confines) = (unset.clone(), confines.clone());
    Ok(Program { name: name_of(job), line: line?, set, unset, input, confines })
}

/// A command for a message to the job: as its program, with the message as its input.
///
/// # Errors
/// As [`program`].
pub(super) fn on_message(
    command: &str,
    (work, facts): (&Work, &Facts),
    job: &Job,
    folder: &Folder,
    body: Vec<u8>,
) -> Result<Program, NoProgram> {
    let mut simple = work.clone();
    simple.command = ["/bin/sh", "-c", command].map(OsString::from).into();
    // The job's own program has the payload.
    simple.start.payload = PayloadTo::None;
    let mut program = program(&simple, facts, job, folder)?;
    program.input = body;
    Ok(program)
}

/// Whether programs may speak systemd's protocol.
pub(super) fn takes_sd_notify(work: &Work) -> bool {
    work.start.ready == super::options::Ready::Notify || work.stop.watchdog.is_some()
}

/// The name in listings of processes, which show 15 bytes of it.
fn name_of(job: &Job) -> String {
    let text = String::from_utf8_lossy(job.key().as_bytes());
    let text: String = text.chars().filter(|c| !c.is_control()).take(64).collect();
    format!("job {text}")
}

/// The word with its placeholders filled.
fn filled(word: &OsStr, job: &Job) -> Result<OsString, NoProgram> {
    let mut rest = word.as_bytes();
    let mut filled = Vec::with_capacity(rest.len());
    while let Some(at) = rest.iter().position(|byte| *byte == b'{') {
        let (before, from) = rest.split_at(at);
        filled.extend_from_slice(before);
        let (text, len) = if from.starts_with(b"{key}") {
            let key = job.key().as_str().filter(|key| !key.contains('\0'));
            let refused = "the key has bytes that no argument can hold: use TENURE_KEY64 in place of {key}";
            (key.ok_or_else(|| NoProgram::Job(refused.to_owned()))?.to_owned(), "{key}".len())
        } else if from.starts_with(b"{token}") {
            (job.token().to_string(), "{token}".len())
        } else if from.starts_with(b"{worker}") {
            (job.worker().to_string(), "{worker}".len())
        } else {
            ("{".to_owned(), 1)
        };
        filled.extend_from_slice(text.as_bytes());
        rest = &from[len..];
    }
    filled.extend_from_slice(rest);
    Ok(OsString::from_vec(filled))
}
