//! The search for a `redis-server` or `valkey-server` binary.
//!
//! The order is: `$REDIS_SERVER_BIN`, `PATH`, the cache folder, and last `scripts/redis-server`, which fetches one.

use std::{
    env,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    sync::Mutex,
};

use crate::Error;

const SCRIPT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../scripts/redis-server");

/// The binary to run, looked up once per process.
pub(crate) fn find() -> Result<PathBuf, Error> {
    static FOUND: Mutex<Option<PathBuf>> = Mutex::new(None);
    // Held during the search, so that parallel tests fetch once.
    let mut found = FOUND.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    if let Some(path) = &*found {
        return Ok(path.clone());
    }
    let path = look(env::var_os("REDIS_SERVER_BIN").map(PathBuf::from))?;
    *found = Some(path.clone());
    Ok(path)
}

fn look(named: Option<PathBuf>) -> Result<PathBuf, Error> {
    if let Some(named) = named {
        return if named.components().count() > 1 { Some(named.clone()) } else { on_path(&named) }
            .filter(|path| is_executable(path))
            .ok_or_else(|| {
                Error::NoBinary(format!("REDIS_SERVER_BIN names {}, which cannot be run", named.display()))
            });
    }
    ["redis-server", "valkey-server"]
        .iter()
        .find_map(|name| on_path(Path::new(name)))
        .or_else(cached)
        .map_or_else(fetch, Ok)
}

fn on_path(name: &Path) -> Option<PathBuf> {
    let path = env::var_os("PATH")?;
    env::split_paths(&path).map(|dir| dir.join(name)).find(|path| is_executable(path))
}

fn cached() -> Option<PathBuf> {
    let cache = env::var_os("XDG_CACHE_HOME")
        .map(PathBuf::from)
        .or_else(|| Some(PathBuf::from(env::var_os("HOME")?).join(".cache")))?;
    Some(cache.join("tenure/redis/redis-server")).filter(|path| is_executable(path))
}

fn fetch() -> Result<PathBuf, Error> {
    let output =
        Command::new(SCRIPT).arg("--path").stdin(Stdio::null()).output().map_err(|error| {
            Error::NoBinary(format!("none is on PATH, and {SCRIPT} cannot be run: {error}"))
        })?;
    let path = PathBuf::from(String::from_utf8_lossy(&output.stdout).trim());
    if output.status.success() && is_executable(&path) {
        return Ok(path);
    }
    Err(Error::NoBinary(String::from_utf8_lossy(&output.stderr).trim().to_owned()))
}

fn is_executable(path: &Path) -> bool {
    path.metadata().is_ok_and(|data| data.is_file() && data.permissions().mode() & 0o111 != 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_named_binary_that_cannot_run_is_an_error() {
        let error = look(Some("/nowhere/redis-server".into())).err().map(|error| error.to_string());
        assert!(error.is_some_and(|text| text.contains("/nowhere/redis-server, which cannot be run")));
    }

    #[test]
    fn a_named_binary_may_be_a_bare_name_on_path() {
        assert!(look(Some("sh".into())).is_ok_and(|path| path.ends_with("sh")));
    }
}
