//! Which server a connection may talk to.

/// Decides, before every command, whether the server at the other end is the right one.
///
/// A connection that has an admission reads its server's [`identity`](crate::ServerInfo::identity) as the first thing
/// after every connect, before any command of its callers. A restart, a fail-over to another server, and a promotion
/// of one that was a replica meanwhile make another identity, so that no command reaches data that was rolled back
/// unseen. What is not noticed is a server that is demoted and promoted again while the connection lives and nothing
/// is written: it closes no connections. Who depends on that asks the server now and then.
///
/// The answer is asked for again before each command: it must be quick and must not block. A server that is not
/// admitted is asked again who it is, without a reconnect.
pub trait Admission: Send + Sync + 'static {
    /// Whether commands may be sent to the server with this identity.
    fn admit(&self, identity: &str) -> bool;
}

impl<F: Fn(&str) -> bool + Send + Sync + 'static> Admission for F {
    fn admit(&self, identity: &str) -> bool {
        self(identity)
    }
}
