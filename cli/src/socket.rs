//! A socket in the file system. The permissions of the file say who reaches the socket.

use std::fmt::Display;
use std::fs::{self, Permissions};
use std::io::{self, ErrorKind};
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::fs::{Mode, fchmod};
use tokio::net::{UnixListener, UnixSocket, UnixStream};
use tokio::time::timeout;

use crate::exit::{Code, Failure};
use crate::turn::Turn;

/// How many connections may wait to be taken.
const BACKLOG: u32 = 128;
/// How long another process at the socket may take to show.
const KNOCK: Duration = Duration::from_secs(2);

/// The file of a socket that listens. It is removed when this is dropped, unless another has taken its place.
#[derive(Debug)]
pub(crate) struct Socket {
    path: PathBuf,
    id: Id,
}

/// The file of a name: device, number and time of making. A number alone is soon another file's.
type Id = (u64, u64, i64, i64);

impl Socket {
    /// Makes the socket, with these permissions. One that nobody listens at is replaced, and nothing else is.
    ///
    /// # Errors
    /// There is another file, somebody listens already, or it cannot be made. A stale socket may have gone, and nothing else has
    /// changed.
    ///
    /// # Cancel safety
    /// A stale socket may have gone.
    pub(crate) async fn bind(path: &Path, mode: u32) -> Result<(Self, UnixListener), Failure> {
        let cannot = |error: io::Error| Failure::new(Code::Failed, nobody_at(path, error));
        // Until this one listens.
        let _turn = Turn::at(path).await.map_err(cannot)?;
        make_way(path).await?;
        let socket = UnixSocket::new_stream().map_err(cannot)?;
        // Before it has a name, so that it is never open to more than these.
        fchmod(&socket, Mode::from_raw_mode(mode)).map_err(|error| cannot(error.into()))?;
        socket.bind(path).map_err(cannot)?;
        let id = id_of(path).map_err(cannot)?;
        let file = Self { path: path.to_owned(), id };
        // The process's mask may have taken more away.
        fs::set_permissions(path, Permissions::from_mode(mode)).map_err(cannot)?;
        let listener = socket.listen(BACKLOG).map_err(cannot)?;
        Ok((file, listener))
    }

    /// Looks whether the file still has its name.
    ///
    /// # Errors
    /// It has gone, or another has taken its place: nobody finds this one.
    pub(crate) fn is_there(&self) -> Result<(), String> {
        let shown = self.path.display();
        match id_of(&self.path) {
            Ok(id) if id == self.id => Ok(()),
            Ok(_) => Err(format!("another file has taken the place of the socket {shown}")),
            Err(error) if error.kind() == ErrorKind::NotFound => {
                Err(format!("the socket {shown} was removed"))
            }
            // Nobody knows. It may well be there.
            Err(_) => Ok(()),
        }
    }
}

impl Drop for Socket {
    fn drop(&mut self) {
        if id_of(&self.path).is_ok_and(|id| id == self.id) {
            let _ = fs::remove_file(&self.path);
        }
    }
}

fn id_of(path: &Path) -> io::Result<Id> {
    let file = fs::symlink_metadata(path)?;
    // Nobody writes to a socket's file, so this is the time of its making.
    Ok((file.dev(), file.ino(), file.mtime(), file.mtime_nsec()))
}

/// Removes a socket that nobody listens at.
async fn make_way(path: &Path) -> Result<(), Failure> {
    let file = match fs::symlink_metadata(path) {
        Ok(file) => file,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(Failure::usage(nobody_at(path, error))),
    };
    if !file.file_type().is_socket() {
        let why = "there is something that is no socket, it is left as it is";
        return Err(Failure::usage(nobody_at(path, why)));
    }
    let why = match timeout(KNOCK, UnixStream::connect(path)).await {
        Ok(Err(error)) if error.kind() == ErrorKind::ConnectionRefused => {
            let Err(error) = fs::remove_file(path) else { return Ok(()) };
            format!("the stale socket cannot be removed: {error}")
        }
        _ => "somebody serves there already, or may do so".to_owned(),
    };
    Err(Failure::new(Code::Failed, nobody_at(path, why)))
}

fn nobody_at(path: &Path, why: impl Display) -> String {
    format!("nobody can be served at {}: {why}", path.display())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[tokio::test]
    async fn only_a_stale_socket_is_replaced() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("socket");
        fs::write(&path, "mine").unwrap();
        let refused = Socket::bind(&path, 0o600).await.unwrap_err();
        assert_eq!(refused.code, Code::Usage);
        assert_eq!(fs::read_to_string(&path).unwrap(), "mine");
        fs::remove_file(&path).unwrap();
        let (first, listener) = Socket::bind(&path, 0o660).await.unwrap();
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o660);
        let refused = Socket::bind(&path, 0o600).await.unwrap_err();
        assert_eq!(refused.code, Code::Failed);
        drop(listener);
        let (_second, _listener) = Socket::bind(&path, 0o600).await.unwrap();
        // The first one's name is another's now.
        drop(first);
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
    }

    #[tokio::test]
    async fn no_socket_is_removed_while_another_node_makes_one() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("socket");
        let other = Turn::at(&path).await.unwrap();
        // It has a name, and does not listen yet.
        let socket = UnixSocket::new_stream().unwrap();
        socket.bind(&path).unwrap();
        let id = id_of(&path).unwrap();
        let mut binding = std::pin::pin!(Socket::bind(&path, 0o600));
        assert!(timeout(Duration::from_millis(100), &mut binding).await.is_err());
        assert_eq!(id_of(&path).unwrap(), id);
        let _listener = socket.listen(BACKLOG).unwrap();
        drop(other);
        assert_eq!(binding.await.unwrap_err().code, Code::Failed);
        assert_eq!(id_of(&path).unwrap(), id);
    }

    #[tokio::test]
    async fn a_socket_that_has_lost_its_name_says_so() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("socket");
        let (socket, _listener) = Socket::bind(&path, 0o600).await.unwrap();
        socket.is_there().unwrap();
        fs::remove_file(&path).unwrap();
        assert!(socket.is_there().unwrap_err().contains("was removed"));
        fs::write(&path, "").unwrap();
        assert!(socket.is_there().unwrap_err().contains("another file"));
    }

    #[tokio::test]
    async fn the_file_goes_with_its_node() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("socket");
        drop(Socket::bind(&path, 0o600).await.unwrap());
        assert!(!path.exists());
        let long = folder.path().join("x".repeat(200));
        assert_eq!(Socket::bind(&long, 0o600).await.unwrap_err().code, Code::Failed);
        assert!(!long.exists());
    }
}
