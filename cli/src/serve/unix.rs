//! A socket in the file system, which only its user reaches.

use std::fs::{File, Metadata, symlink_metadata};
use std::io;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::fs::{FlockOperation, Mode, flock};
use rustix::io::Errno;
use tokio::net::{UnixListener, UnixStream};
use tokio::time::{Instant, sleep, timeout};

use crate::exit::Failure;

/// How long another server may take to show that it lives, and how long it may hold the folder's lock.
const PATIENCE: Duration = Duration::from_secs(5);
/// The pause between two tries to lock the folder.
const PAUSE: Duration = Duration::from_millis(20);

/// The name of a socket. It is removed with this, unless it is another one's by then.
#[derive(Debug)]
pub(super) struct Named {
    path: PathBuf,
    own: Identity,
}

/// Tells a file from all others, also from one that gets its number later: device, number, time of the last change.
type Identity = (u64, u64, i64, i64);

fn identity(file: &Metadata) -> Identity {
    (file.dev(), file.ino(), file.ctime(), file.ctime_nsec())
}

/// Listens at a path. A socket that nobody serves any more gives way.
///
/// # Errors
/// Somebody serves there, something else is there, or nothing can be made there. All that is there stays.
///
/// # Cancel safety
/// Where this is dropped, nothing was made.
pub(super) async fn listen(path: &Path) -> Result<(UnixListener, Named), Failure> {
    let refused = |why: &dyn std::fmt::Display| {
        Failure::usage(format!("nobody can be served at {}: {why}", path.display()))
    };
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    // Of two servers that find the same old socket, one would remove the other's new one.
    let lock = File::open(folder).map_err(|error| refused(&error))?;
    let patient_until = Instant::now() + PATIENCE;
    while let Err(error) = flock(&lock, FlockOperation::NonBlockingLockExclusive) {
        if error != Errno::WOULDBLOCK || Instant::now() >= patient_until {
            return Err(refused(&format!("its folder is locked by another program: {error}")));
        }
        // Servers of other sockets in this folder may start at the same time.
        sleep(PAUSE).await;
    }
    match symlink_metadata(path) {
        Ok(found) if !found.file_type().is_socket() => {
            return Err(refused(&"there is something that is no socket"));
        }
        Ok(_) => match timeout(PATIENCE, UnixStream::connect(path)).await {
            Ok(Err(error)) if error.kind() == io::ErrorKind::ConnectionRefused => {
                std::fs::remove_file(path).map_err(|error| refused(&error))?;
            }
            Ok(Err(error)) if error.kind() != io::ErrorKind::WouldBlock => return Err(refused(&error)),
            _ => return Err(refused(&"somebody serves there already")),
        },
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        Err(error) => return Err(refused(&error)),
    }
    // Nobody else can connect in between: it is made for its user alone.
    let before = rustix::process::umask(Mode::RWXG | Mode::RWXO | Mode::XUSR);
    let bound = UnixListener::bind(path);
    rustix::process::umask(before);
    let listener = bound.map_err(|error| refused(&error))?;
    let made = symlink_metadata(path).map_err(|error| refused(&error))?;
    Ok((listener, Named { path: path.to_owned(), own: identity(&made) }))
}

impl Drop for Named {
    fn drop(&mut self) {
        let is_own = |found: &Metadata| found.file_type().is_socket() && identity(found) == self.own;
        if symlink_metadata(&self.path).is_ok_and(|found| is_own(&found)) {
            // The next server at this path removes what is left.
            let _ = std::fs::remove_file(&self.path);
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use std::future::Future;
    use std::pin::pin;
    use std::task::{Context, Waker};

    use super::*;

    #[tokio::test]
    async fn a_server_waits_for_the_start_of_its_neighbour() {
        let folder = tempfile::tempdir().unwrap();
        let neighbour = File::open(folder.path()).unwrap();
        flock(&neighbour, FlockOperation::NonBlockingLockExclusive).unwrap();
        let path = folder.path().join("s");
        let mut listens = pin!(listen(&path));
        assert!(listens.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
        assert!(!path.exists(), "nothing is made meanwhile");
        drop(neighbour);
        listens.await.unwrap();
    }

    #[tokio::test(start_paused = true)]
    async fn a_folder_that_stays_locked_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let other = File::open(folder.path()).unwrap();
        flock(&other, FlockOperation::NonBlockingLockExclusive).unwrap();
        let refused = listen(&folder.path().join("s")).await.unwrap_err();
        assert!(refused.to_string().contains("locked by another program"), "{refused}");
    }
}
