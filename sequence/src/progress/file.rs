//! Progress in a file on disk, by an embedded store with transactions (`redb`).

use std::path::Path;
use std::sync::Arc;

use redb::{Database, ReadableTable, TableDefinition, TableError};
use tokio::sync::Semaphore;
use tokio::task::spawn_blocking;

use crate::error::ProgressError;
use crate::progress::Progress;

const PROGRESS: TableDefinition<'_, &str, u64> = TableDefinition::new("progress");

/// A file with the progress of any number of consumers of this process. Cheap to clone.
///
/// Its calls wait for each other. A save returns when it is on the disk: it survives a crash of the process and of the machine. Only one process can
/// have the file open, which keeps a second consumer away.
#[derive(Clone, Debug)]
pub struct FileStore(Arc<Kept>);

#[derive(Debug)]
struct Kept {
    file: Database,
    disk: Disk,
}

impl FileStore {
    /// Opens the file, or makes it.
    ///
    /// # Errors
    /// [`ProgressError::Broken`]: the folder or the file cannot be used, or another process has it open.
    ///
    /// # Cancel safety
    /// The file may have been made.
    pub async fn open(path: impl AsRef<Path>) -> Result<Self, ProgressError> {
        let path = path.as_ref().to_owned();
        let disk = Disk::new();
        let file = disk.wait_for(move || Database::create(path).map_err(ProgressError::broken)).await?;
        Ok(Self(Arc::new(Kept { file, disk })))
    }

    /// The progress of the consumer with this name.
    pub fn progress(&self, name: impl Into<Arc<str>>) -> FileProgress {
        FileProgress { kept: self.0.clone(), name: name.into() }
    }
}

/// The progress of one consumer in a [`FileStore`].
#[derive(Clone, Debug)]
pub struct FileProgress {
    kept: Arc<Kept>,
    name: Arc<str>,
}

impl FileProgress {
    /// Stores what `next` makes of the stored progress, and returns that. Nothing is written if it is the same.
    async fn change(
        &self,
        next: impl FnOnce(Option<u64>) -> u64 + Send + 'static,
    ) -> Result<u64, ProgressError> {
        let Self { kept, name } = self.clone();
        let change = move || {
            change(&kept.file, &name, next).map_err(|error: redb::Error| ProgressError::broken(error))
        };
        self.kept.disk.wait_for(change).await
    }
}

#[allow(clippy::result_large_err, reason = "the error is the library's, and is boxed by the caller")]
fn change(file: &Database, name: &str, next: impl FnOnce(Option<u64>) -> u64) -> Result<u64, redb::Error> {
    let writing = file.begin_write()?;
    let mut table = writing.open_table(PROGRESS)?;
    let before = table.get(name)?.map(|kept| kept.value());
    let after = next(before);
    if before == Some(after) {
        drop(table);
        writing.abort()?;
        return Ok(after);
    }
    table.insert(name, after)?;
    drop(table);
    writing.commit()?;
    Ok(after)
}

#[allow(clippy::result_large_err, reason = "the error is the library's, and is boxed by the caller")]
fn read(file: &Database, name: &str) -> Result<Option<u64>, redb::Error> {
    match file.begin_read()?.open_table(PROGRESS) {
        Ok(table) => Ok(table.get(name)?.map(|kept| kept.value())),
        Err(TableError::TableDoesNotExist(_)) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

/// The disk: one thing at a time, on a thread for what blocks. So one that hangs takes one such thread, however often its
/// callers give up and try again.
#[derive(Debug)]
struct Disk(Arc<Semaphore>);

impl Disk {
    fn new() -> Self {
        Self(Arc::new(Semaphore::new(1)))
    }

    async fn wait_for<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> Result<T, ProgressError> + Send + 'static,
    ) -> Result<T, ProgressError> {
        let turn = self.0.clone().acquire_owned().await.map_err(ProgressError::broken)?;
        let work = move || {
            let _turn = turn;
            work()
        };
        match spawn_blocking(work).await {
            Ok(result) => result,
            // It has panicked, or the runtime ends.
            Err(error) => Err(ProgressError::broken(error)),
        }
    }
}

impl Progress for FileProgress {
    async fn load(&self) -> Result<Option<u64>, ProgressError> {
        let Self { kept, name } = self.clone();
        self.kept.disk.wait_for(move || read(&kept.file, &name).map_err(ProgressError::broken)).await
    }

    async fn init(&self, default: u64) -> Result<u64, ProgressError> {
        self.change(move |stored| stored.unwrap_or(default)).await
    }

    async fn save(&self, index: u64) -> Result<(), ProgressError> {
        self.change(move |stored| stored.map_or(index, |stored| stored.max(index))).await.map(drop)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::sync::mpsc;

    use futures::FutureExt;

    use super::*;

    #[tokio::test]
    async fn a_disk_that_hangs_takes_one_thread() {
        let (disk, began) = (Disk::new(), Arc::new(AtomicUsize::new(0)));
        let (says, hangs) = tokio::sync::oneshot::channel();
        let (frees, free) = mpsc::channel::<()>();
        let count = began.clone();
        let hung = disk.wait_for(move || {
            count.fetch_add(1, Ordering::SeqCst);
            says.send(()).unwrap();
            let _ = free.recv();
            Ok(())
        });
        let mut hung = Box::pin(hung);
        assert!((&mut hung).now_or_never().is_none());
        hangs.await.unwrap();
        // Its caller gives up, and tries again.
        drop(hung);
        let again = || {
            let count = began.clone();
            disk.wait_for(move || Ok(count.fetch_add(1, Ordering::SeqCst)))
        };
        for _ in 0..100 {
            assert!(again().now_or_never().is_none());
        }
        frees.send(()).unwrap();
        assert_eq!(again().await.unwrap(), 1, "none of those that gave up has begun");
    }
}
