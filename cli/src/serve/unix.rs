//! A socket in the file system, which only its user reaches.

use std::fs::{Metadata, symlink_metadata};
use std::io;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::fs::Mode;
use tokio::net::{UnixListener, UnixStream};
use tokio::time::timeout;

use crate::exit::{Code, Failure};
use crate::turn::Turn;

/// How long a server at the same socket may take to show life.
const PATIENCE: Duration = Duration::from_secs(5);

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
    let told = |why: &dyn std::fmt::Display| format!("nobody can be served at {}: {why}", path.display());
    let refused = |why: &dyn std::fmt::Display| Failure::usage(told(why));
    // This may pass.
    let cannot = |why: &dyn std::fmt::Display| Failure::new(Code::Failed, told(why));
    // Until this one listens.
    let _turn = Turn::at(path).await.map_err(|error| cannot(&error))?;
    match symlink_metadata(path) {
        Ok(found) if !found.file_type().is_socket() => {
            return Err(refused(&"there is something that is no socket"));
        }
        Ok(_) => match timeout(PATIENCE, UnixStream::connect(path)).await {
            Ok(Err(error)) if error.kind() == io::ErrorKind::ConnectionRefused => {
                std::fs::remove_file(path).map_err(|error| refused(&error))?;
            }
            Ok(Err(error)) if error.kind() != io::ErrorKind::WouldBlock => return Err(refused(&error)),
            _ => return Err(cannot(&"somebody serves there already")),
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
