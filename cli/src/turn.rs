//! A turn to make a socket at a path. Two processes may find a stale socket, and the slower process would remove the new socket of
//! the faster. So processes take turns.
//!
//! The lock is a file beside the socket, and only this user can open the file. Everybody who may read the folder could lock
//! the folder.

use std::ffi::OsString;
use std::fs::{self, File, OpenOptions};
use std::io::{self, ErrorKind};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::fs::{FlockOperation, OFlags, flock};
use rustix::io::Errno;
use tokio::time::{Instant, sleep};

/// How long another process may take for its turn.
const PATIENCE: Duration = Duration::from_secs(10);
/// The pause between two attempts.
const AGAIN: Duration = Duration::from_millis(20);

/// The turn of this process, until the value is dropped.
#[derive(Debug)]
pub(crate) struct Turn {
    lock: PathBuf,
    _file: File,
}

impl Turn {
    /// Waits for the turn to make a socket at this path.
    ///
    /// # Errors
    /// The file of the lock cannot be made, or another process of this user keeps it.
    ///
    /// # Cancel safety
    /// Safe.
    pub(crate) async fn at(socket: &Path) -> io::Result<Self> {
        let mut name = OsString::from(".");
        name.push(socket.file_name().ok_or(ErrorKind::InvalidFilename)?);
        name.push(".lock");
        let (lock, until) = (socket.with_file_name(name), Instant::now() + PATIENCE);
        loop {
            if let Some(file) = take(&lock)? {
                return Ok(Self { lock, _file: file });
            }
            if Instant::now() >= until {
                let text = format!("another process keeps the lock {}", lock.display());
                return Err(io::Error::new(ErrorKind::ResourceBusy, text));
            }
            sleep(AGAIN).await;
        }
    }
}

/// Takes the lock, if the lock is free. The file has a name as long as somebody holds the lock.
fn take(lock: &Path) -> io::Result<Option<File>> {
    // A pipe of this name would keep the thread until somebody reads.
    let nofollow = i32::try_from((OFlags::NOFOLLOW | OFlags::NONBLOCK).bits()).unwrap_or(0);
    let mut options = OpenOptions::new();
    let file =
        options.write(true).create(true).truncate(false).mode(0o600).custom_flags(nofollow).open(lock)?;
    match flock(&file, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => {}
        Err(Errno::WOULDBLOCK) => return Ok(None),
        Err(error) => return Err(error.into()),
    }
    // The process before may have removed the file between the two calls.
    let named = match fs::symlink_metadata(lock) {
        Ok(named) => Some((named.dev(), named.ino())),
        Err(error) if error.kind() == ErrorKind::NotFound => None,
        Err(error) => return Err(error),
    };
    let own = file.metadata()?;
    Ok((named == Some((own.dev(), own.ino()))).then_some(file))
}

impl Drop for Turn {
    fn drop(&mut self) {
        // The next turn takes a file that is left.
        let _ = fs::remove_file(&self.lock);
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::future::Future;
    use std::os::unix::fs::PermissionsExt;
    use std::pin::pin;
    use std::task::{Context, Waker};

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn turns_come_one_after_the_other_and_leave_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("s");
        let first = Turn::at(&path).await.unwrap();
        let mode = fs::metadata(&first.lock).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600, "no other user can open it");
        let mut second = pin!(Turn::at(&path));
        assert!(second.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
        drop(first);
        drop(second.await.unwrap());
        assert_eq!(fs::read_dir(&folder).unwrap().count(), 0);
        let _kept = Turn::at(&path).await.unwrap();
        let late = Turn::at(&path).await.unwrap_err();
        assert!(late.to_string().contains("another process keeps the lock"), "{late}");
    }

    #[tokio::test(start_paused = true)]
    async fn a_pipe_in_place_of_the_lock_keeps_nobody() {
        let folder = tempfile::tempdir().unwrap();
        let pipe = folder.path().join(".s.lock");
        rustix::fs::mknodat(rustix::fs::CWD, &pipe, rustix::fs::FileType::Fifo, 0o600.into(), 0).unwrap();
        Turn::at(&folder.path().join("s")).await.unwrap_err();
    }

    #[tokio::test(start_paused = true)]
    async fn a_lock_of_the_folder_is_nobodys_turn() {
        let folder = tempfile::tempdir().unwrap();
        let reader = File::open(folder.path()).unwrap();
        flock(&reader, FlockOperation::NonBlockingLockExclusive).unwrap();
        Turn::at(&folder.path().join("s")).await.unwrap();
    }
}
