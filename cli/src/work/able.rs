//! Whether this node can run jobs at all. Most causes show at the start, and readiness tells of later causes.

use std::env;
use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::{self, BufRead, BufReader, Read};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use rustix::fs::{Access, access};
use tenure_pool::Job;

/// The longest path of a socket.
const SOCKET_MAX: usize = 107;
/// The longest path of a socket below the folder of a node, for ten thousand million jobs.
const BELOW: &str = "/9999999999/notify";
/// How much of a first line is read. The kernel reads no more.
const SHEBANG_MAX: u64 = 256;
/// How long a failed start counts against the node.
const COUNTS: Duration = Duration::from_secs(60);

/// Looks whether sockets of jobs can have names in this folder.
///
/// # Errors
/// The paths would be too long.
pub(crate) fn sockets(folder: &Path) -> Result<(), String> {
    let (len, most) = (folder.as_os_str().len(), SOCKET_MAX - BELOW.len());
    if len <= most {
        return Ok(());
    }
    let shown = folder.display();
    Err(format!(
        "paths of sockets in {shown} would be too long: it has {len} bytes, and may have {most}. Set TMPDIR or XDG_RUNTIME_DIR to a \
         shorter path"
    ))
}

/// Looks whether a program can be found and executed. A name with a placeholder is known by job only, and passes.
///
/// # Errors
/// The reason.
pub(crate) fn program(name: &OsStr) -> Result<(), String> {
    if is_by_job(name) {
        return Ok(());
    }
    let path = found(name)?;
    let shown = path.display();
    let is_executable = |path: &Path| match fs::metadata(path) {
        Ok(file) if file.is_dir() => Err(io::ErrorKind::IsADirectory.into()),
        Ok(_) => access(path, Access::EXEC_OK).map_err(io::Error::from),
        Err(error) => Err(error),
    };
    is_executable(&path).map_err(|error| format!("{shown}: {error}"))?;
    let Some((interpreter, argument)) = interpreter(&path) else { return Ok(()) };
    let with = interpreter.display();
    // `env` takes an argument that is no option as the name of the interpreter.
    let is_named_by_env = interpreter.ends_with("env") && !argument.starts_with(b"-");
    if interpreter.as_os_str().as_bytes().ends_with(b"\r") || is_named_by_env && argument.ends_with(b"\r") {
        return Err(format!(
            "{shown}: its first line ends with a carriage return, so there is no such interpreter"
        ));
    }
    is_executable(&interpreter).map_err(|error| format!("{shown}: its interpreter {with}: {error}"))
}

/// Whether each job may have a program of its own. A fault of such a program says nothing about the node.
pub(super) fn is_by_job(name: &OsStr) -> bool {
    name.as_bytes().contains(&b'{')
}

/// The file of a program, as a shell finds it.
fn found(name: &OsStr) -> Result<PathBuf, String> {
    if name.as_bytes().contains(&b'/') {
        return Ok(name.into());
    }
    let path = env::var_os("PATH").unwrap_or_else(|| "/bin:/usr/bin".into());
    let all: Vec<_> =
        env::split_paths(&path).map(|folder| folder.join(name)).filter(|it| it.is_file()).collect();
    let runs = |path: &&PathBuf| access(path.as_path(), Access::EXEC_OK).is_ok();
    let first = all.iter().find(runs).or(all.first());
    first.cloned().ok_or_else(|| format!("{}: no program of this name in PATH", name.display()))
}

/// The interpreter of a script, and its argument. None: the file is no script, or may not be read.
fn interpreter(path: &Path) -> Option<(PathBuf, Vec<u8>)> {
    let mut line = Vec::new();
    BufReader::new(File::open(path).ok()?.take(SHEBANG_MAX)).read_until(b'\n', &mut line).ok()?;
    let rest = line.strip_prefix(b"#!")?.strip_suffix(b"\n")?.trim_ascii_start();
    let is_space = |byte: &u8| *byte == b' ' || *byte == b'\t';
    let (interpreter, rest) = rest.split_at(rest.iter().position(is_space).unwrap_or(rest.len()));
    let argument = rest.iter().copied().skip_while(is_space).collect();
    (!interpreter.is_empty()).then(|| (OsStr::from_bytes(interpreter).into(), argument))
}

/// Why the last program could not be started, and since when. The cause may be gone, and a node without jobs tries no other
/// program, so the reason counts for a while.
#[derive(Debug, Default)]
pub(super) struct Able(Mutex<Option<(Instant, String)>>);

impl Able {
    /// The program of a job could not be started. A job whose lease is over says nothing about the node.
    pub(super) fn refused(&self, job: &Job, why: &str) {
        if job.lease().remaining().is_zero() {
            return;
        }
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some((Instant::now(), why.to_owned()));
    }

    /// A program runs.
    pub(super) fn started(&self) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }

    /// The reason why jobs cannot run here. None: the last program could be started, or its failure is long ago.
    pub(super) fn lack(&self) -> Option<String> {
        let (since, why) = self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()?;
        if since.elapsed() >= COUNTS {
            return None;
        }
        Some(format!("the last program could not be started here: {why}"))
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn a_program_that_cannot_run_is_named_with_its_reason() {
        let folder = tempfile::tempdir().unwrap();
        let file = |name: &str, text: &str, mode: u32| {
            let path = folder.path().join(name);
            fs::write(&path, text).unwrap();
            fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
            path
        };
        for good in [
            file("sh", "#! /bin/sh -e\n", 0o755),
            file("plain", "echo hi\n", 0o755),
            file("empty", "", 0o755),
            file("env", "#!/usr/bin/env sh\n", 0o755),
            // This option takes a carriage return as a space.
            file("split", "#!/usr/bin/env -S sh -e\r\n", 0o755),
            "sh".into(),
            "/none/{key}".into(),
        ] {
            program(good.as_os_str()).unwrap();
        }
        for (bad, why) in [
            (file("windows", "#!/bin/sh\r\n", 0o755), "carriage return"),
            (file("windows-env", "#!/usr/bin/env sh\r\n", 0o755), "carriage return"),
            (file("windows-tab", "#! /usr/bin/env\tsh\r\n", 0o755), "carriage return"),
            (file("other", "#!/none/sh\n", 0o755), "its interpreter /none/sh: No such file"),
            (file("data", "", 0o644), "Permission denied"),
            (folder.path().into(), "directory"),
            ("/none/program".into(), "No such file"),
            ("no-such-program".into(), "no program of this name"),
        ] {
            let told = program(bad.as_os_str()).unwrap_err();
            assert!(told.contains(why), "{bad:?}: {told}");
        }
    }

    #[test]
    fn a_failed_start_counts_for_a_while() {
        let now = Instant::now();
        let able = |since| Able(Mutex::new(Some((since, "busy".to_owned()))));
        assert!(able(now).lack().is_some());
        let Some(long_ago) = now.checked_sub(COUNTS) else { return };
        assert_eq!(able(long_ago).lack(), None);
    }

    #[test]
    fn a_folder_is_measured_with_the_longest_socket() {
        let folder = |len: usize| PathBuf::from(format!("/{}", "x".repeat(len - 1)));
        let most = SOCKET_MAX - BELOW.len();
        sockets(&folder(most)).unwrap();
        assert!(sockets(&folder(most + 1)).unwrap_err().contains("TMPDIR"));
        std::os::unix::net::SocketAddr::from_pathname(folder(SOCKET_MAX)).unwrap();
    }
}
