//! A job's folder, with its sockets and files.

use std::fs;
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::PathBuf;

/// The node's folder for a job's sockets and files: removed when this is dropped.
#[derive(Debug)]
pub(crate) struct Folder(PathBuf);

impl Folder {
    /// Makes it, for this user alone.
    ///
    /// # Errors
    /// It cannot be made.
    pub(crate) fn make(path: PathBuf) -> io::Result<Self> {
        fs::DirBuilder::new().mode(0o700).create(&path)?;
        Ok(Self(path))
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }

    /// Writes a file that only this user may read, perhaps anew.
    ///
    /// # Errors
    /// It cannot be written.
    pub(crate) fn write(&self, name: &str, bytes: &[u8]) -> io::Result<PathBuf> {
        let path = self.path(name);
        fs::OpenOptions::new()
            .write(true)
            .create(true)
            .truncate(true)
            .mode(0o600)
            .open(&path)?
            .write_all(bytes)?;
        Ok(path)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    /// A command for a notification gets the checkpoint of its job, which the job's program has got before.
    #[test]
    fn a_file_is_written_again_for_its_user_alone() {
        let place = tempfile::tempdir().unwrap();
        let folder = Folder::make(place.path().join("1")).unwrap();
        for text in ["a longer one", "short"] {
            let path = folder.write("checkpoint", text.as_bytes()).unwrap();
            assert_eq!(fs::read_to_string(&path).unwrap(), text);
            assert_eq!(fs::metadata(path).unwrap().permissions().mode() & 0o777, 0o600);
        }
        drop(folder);
        assert!(!place.path().join("1").exists());
    }
}
