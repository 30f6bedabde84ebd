//! The traces that the programs of jobs leave for the judges, in files.
//!
//! A program that runs a key holds the lock of its file, and so does all that it starts. The kernel unlocks a file when the last
//! process that holds it has ended. So a program that finds its key locked runs beside another one.

use std::fs::{self, File};
use std::io::{self, Read, Seek, Write};
use std::path::{Path, PathBuf};

use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;

/// The folder of a run's traces.
#[derive(Clone, Debug)]
pub(super) struct Traces(PathBuf);

impl Traces {
    pub(super) fn make(dir: PathBuf) -> io::Result<Self> {
        fs::create_dir_all(&dir)?;
        Ok(Self(dir))
    }

    pub(super) fn at(dir: &Path) -> Self {
        Self(dir.to_owned())
    }

    pub(super) fn path(&self) -> &Path {
        &self.0
    }

    /// Locks a key for this holder. None if another one holds it; that is noted.
    pub(super) fn lock(&self, key: &str, token: u64, holder: &str) -> io::Result<Option<File>> {
        let Ok(mut file) = self.try_lock(key)? else {
            let mut other = String::new();
            File::open(self.file_of(key))?.read_to_string(&mut other)?;
            self.note("overlaps", &format!("{key}: {holder} with token {token} ran beside {other}"))?;
            return Ok(None);
        };
        file.set_len(0)?;
        file.rewind()?;
        file.write_all(format!("{holder} with token {token}").as_bytes())?;
        self.note("starts", &format!("{key} {token}"))?;
        Ok(Some(file))
    }

    /// Whether nobody holds a key.
    pub(super) fn is_free(&self, key: &str) -> io::Result<bool> {
        match self.try_lock(key)? {
            Ok(file) => unlock(&file).map(|()| true),
            Err(()) => Ok(false),
        }
    }

    /// The lines of what was noted under this name.
    pub(super) fn notes(&self, name: &str) -> io::Result<Vec<String>> {
        match fs::read_to_string(self.0.join(name)) {
            Ok(text) => Ok(text.lines().map(str::to_owned).collect()),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
            Err(error) => Err(error),
        }
    }

    fn try_lock(&self, key: &str) -> io::Result<Result<File, ()>> {
        let file = File::options().create(true).read(true).append(true).open(self.file_of(key))?;
        match flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => Ok(Ok(file)),
            Err(Errno::WOULDBLOCK) => Ok(Err(())),
            Err(error) => Err(error.into()),
        }
    }

    fn file_of(&self, key: &str) -> PathBuf {
        self.0.join(format!("lock-{key}"))
    }

    /// Adds a line. Lines of several processes do not mix.
    fn note(&self, name: &str, line: &str) -> io::Result<()> {
        let mut file = File::options().create(true).append(true).open(self.0.join(name))?;
        file.write_all(format!("{line}\n").as_bytes())
    }
}

/// Unlocks a key at once. A process that is just being started has a copy of each open file, and would hold the key until
/// its program begins.
fn unlock(file: &File) -> io::Result<()> {
    Ok(flock(file, FlockOperation::Unlock)?)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn a_key_that_two_hold_is_noted() {
        let dir = tempfile::tempdir().unwrap();
        let traces = Traces::make(dir.path().join("traces")).unwrap();
        let first = traces.lock("a", 1, "n1").unwrap();
        assert!(first.is_some() && !traces.is_free("a").unwrap() && traces.is_free("b").unwrap());
        assert!(traces.lock("a", 2, "n2").unwrap().is_none());
        assert_eq!(traces.notes("overlaps").unwrap(), ["a: n2 with token 2 ran beside n1 with token 1"]);
        unlock(&first.unwrap()).unwrap();
        assert!(traces.lock("a", 3, "n3").unwrap().is_some());
        assert_eq!(traces.notes("starts").unwrap(), ["a 1", "a 3"]);
    }
}
