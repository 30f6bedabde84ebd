//! Which server a connection may talk to.

/// Decides, before every command, whether the server at the other end is the right one.
///
/// A connection that has an admission reads its server's `run_id` as the first thing after every connect, before
/// any command of its callers. A restart, and a fail-over to another server, is another process with another
/// `run_id`, so that no command reaches data that was rolled back unseen. A process that is demoted and promoted
/// again keeps its `run_id`: that is not noticed here.
///
/// The answer is asked for again before each command: it must be quick and must not block. When it changes, the
/// next call finds out, without a reconnect.
pub trait Admission: Send + Sync + 'static {
    /// Whether commands may be sent to the server process with this run id.
    fn admit(&self, run_id: &str) -> bool;
}

impl<F: Fn(&str) -> bool + Send + Sync + 'static> Admission for F {
    fn admit(&self, run_id: &str) -> bool {
        self(run_id)
    }
}
