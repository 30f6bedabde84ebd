//! A runtime with one thread, which a handler can block.

use tokio::runtime::{Builder, Handle};
use tokio::sync::oneshot;

pub(crate) struct OneThread {
    pub(crate) runtime: Handle,
    /// The runtime ends when this is dropped.
    end: Option<oneshot::Sender<()>>,
    thread: Option<std::thread::JoinHandle<()>>,
}

impl OneThread {
    pub(crate) fn start() -> Self {
        let runtime = Builder::new_current_thread().enable_all().build().unwrap();
        let handle = runtime.handle().clone();
        let (end, ended) = oneshot::channel::<()>();
        let thread = std::thread::spawn(move || {
            let _ = runtime.block_on(ended);
        });
        Self { runtime: handle, end: Some(end), thread: Some(thread) }
    }
}

impl Drop for OneThread {
    fn drop(&mut self) {
        drop(self.end.take());
        let ended = self.thread.take().unwrap().join();
        assert!(ended.is_ok() || std::thread::panicking());
    }
}
