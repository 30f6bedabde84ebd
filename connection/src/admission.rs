//! The choice of the servers that a connection may talk to.

/// Decides, before every command, whether the server at the other end is the right one.
///
/// A connection with an admission reads its server's [`identity`](crate::ServerInfo::identity) first after every
/// connect, before any command of its callers. A restart, a fail-over to another server, and a promotion after a time
/// as a replica change the identity. So no command reaches data that was rolled back unseen.
///
/// One case goes unnoticed: a server that is demoted and promoted again while the connection lives and nothing is
/// written, because it closes no connections. A caller that depends on this must ask the server now and then.
///
/// The decision is made again before each command, so it must be quick and must not block. A server that is not
/// admitted is asked for its identity again, without a reconnect.
pub trait Admission: Send + Sync + 'static {
    /// Whether commands may be sent to the server with this identity.
    fn admit(&self, identity: &str) -> bool;
}

impl<F: Fn(&str) -> bool + Send + Sync + 'static> Admission for F {
    fn admit(&self, identity: &str) -> bool {
        self(identity)
    }
}
