//! The folder of a node, with the sockets and files of jobs. Only the user of the node may look or write there.
//!
//! Guard and node lock a file in the folder for life. So the next guard of this user knows the folders of killed processes, and
//! removes the folders with all payloads.

use std::env;
use std::ffi::OsString;
use std::fs::{self, File, OpenOptions, Permissions};
use std::io::{self, ErrorKind};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::Path;

use rustix::fs::{FlockOperation, OFlags, flock};
use tempfile::TempDir;

/// The beginning of the folder's name.
const PREFIX: &str = "tenure-";
/// The file that guard and node lock. No other program uses the name, so no folder of another program is taken for a node's.
const LOCK: &str = ".tenure-node";
/// How often another guard may remove a new folder as left behind, between the making of the lock and the locking.
const TRIES: usize = 8;

/// Marks the folder as in use, until the file is dropped.
///
/// # Errors
/// The folder cannot be locked, or another guard removes it.
pub(crate) fn lock(folder: &Path) -> io::Result<File> {
    let nofollow = i32::try_from(OFlags::NOFOLLOW.bits()).unwrap_or(0);
    // NFS has shared locks for readers, and exclusive locks for writers.
    let mut options = OpenOptions::new();
    let options =
        options.read(true).write(true).create(true).truncate(false).mode(0o600).custom_flags(nofollow);
    let file = options.open(folder.join(LOCK))?;
    flock(&file, FlockOperation::NonBlockingLockShared)?;
    if file.metadata()?.nlink() == 0 {
        return Err(ErrorKind::NotFound.into());
    }
    Ok(file)
}

/// Makes a folder for the node of this guard, and locks the folder. Removes the folders of killed processes.
///
/// # Errors
/// The folder cannot be made.
pub(super) fn make() -> io::Result<(TempDir, File)> {
    let place = place();
    clear(Path::new(&place));
    let make = || {
        // A umask changes nothing here.
        let private = Permissions::from_mode(0o700);
        let folder = tempfile::Builder::new().prefix(PREFIX).permissions(private).tempdir_in(&place)?;
        lock(folder.path()).map(|lock| (folder, lock))
    };
    let mut made = make();
    for _ in 1..TRIES {
        if made.is_ok() {
            break;
        }
        made = make();
    }
    made
}

/// The parent of the folder: paths of sockets must be short.
fn place() -> OsString {
    let runtime = env::var_os("XDG_RUNTIME_DIR").filter(|folder| Path::new(folder).is_dir());
    runtime.unwrap_or_else(|| env::temp_dir().into_os_string())
}

/// Removes the folders of guards and nodes of this user that have all ended.
fn clear(place: &Path) {
    let Ok(entries) = fs::read_dir(place) else { return };
    let names = entries.flatten().filter(|it| it.file_name().to_string_lossy().starts_with(PREFIX));
    for entry in names {
        // A folder that cannot be removed hurts nobody.
        let _ = remove_left(&entry.path());
    }
}

/// Removes a folder whose lock nobody holds.
fn remove_left(folder: &Path) -> io::Result<()> {
    let found = fs::symlink_metadata(folder)?;
    if !found.is_dir() || found.uid() != rustix::process::geteuid().as_raw() {
        return Ok(());
    }
    let nofollow = i32::try_from((OFlags::NOFOLLOW | OFlags::NONBLOCK).bits()).unwrap_or(0);
    let lock = OpenOptions::new().write(true).custom_flags(nofollow).open(folder.join(LOCK))?;
    flock(&lock, FlockOperation::NonBlockingLockExclusive)?;
    // A process that locks the file meanwhile finds that the file has no name any more.
    fs::remove_dir_all(folder)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::time::Duration;

    use tenure_testing::eventually;

    use super::*;

    /// A process that another test starts has all files of this one for a moment, locks included.
    async fn cleared(place: &Path, folder: &Path) {
        eventually(Duration::from_secs(20), "the folder to be removed", async || {
            clear(place);
            !folder.exists()
        })
        .await;
    }

    #[tokio::test]
    async fn only_folders_that_nobody_uses_are_removed() {
        let place = tempfile::tempdir().unwrap();
        let folder = |name: &str| {
            let path = place.path().join(name);
            fs::create_dir(&path).unwrap();
            fs::write(path.join("payload"), "secret").unwrap();
            path
        };
        let foreign = folder("tenure-foreign");
        fs::write(foreign.join("lock"), "").unwrap();
        let (used, left) = (folder("tenure-used"), folder("tenure-left"));
        let (other, unlocked) = (folder("other"), folder("tenure-unlocked"));
        drop(lock(&left).unwrap());
        drop(lock(&other).unwrap());
        let mut in_use = lock(&used).unwrap();
        io::Read::read(&mut in_use, &mut [0]).unwrap();
        std::os::unix::fs::symlink(&other, place.path().join("tenure-link")).unwrap();
        cleared(place.path(), &left).await;
        for kept in [&used, &other, &unlocked, &foreign] {
            assert!(kept.join("payload").exists(), "{kept:?}");
        }
        drop(in_use);
        cleared(place.path(), &used).await;
    }
}
