//! All that a node needs for its hosts, looked at before it joins its pool.

use tenure_pool::Node;
use tokio::net::UnixListener;

use super::child::Launcher;
use super::hosts::Source;
use super::options::Host;
use super::peer::Door;
use crate::exit::Failure;
use crate::socket::Socket;
use crate::work::able;
use crate::work::cgroup::Groups;
use crate::work::guard::Guarded;
use crate::work::logs::Writer;
use crate::work::node::{raise_nofile, usual_target};
use crate::work::starter::{Outlet, Starter};

/// The way in which a node gets its hosts.
pub(super) enum Means {
    /// They are processes of this node.
    Children {
        groups: Option<Groups>,
        /// How many files each may have.
        nofile: Option<u64>,
        outlet: Outlet,
    },
    /// They connect to this socket.
    Peers(Socket, UnixListener),
}

impl Means {
    /// Looks at the command line. Returns the writer of the hosts' output, too: it has to be ended after them.
    ///
    /// # Errors
    /// The command line does not fit this machine.
    ///
    /// # Cancel safety
    /// A stale socket may have gone.
    pub(super) async fn of(host: &Host, guarded: &Guarded) -> Result<(Self, Option<Writer>), Failure> {
        if let Some(path) = &host.attach.attach {
            let (socket, listener) = Socket::bind(path, host.attach.socket_mode).await?;
            return Ok((Self::Peers(socket, listener), None));
        }
        able::sockets(&guarded.folder).map_err(Failure::usage)?;
        let groups = host.confine.groups(guarded.guard)?;
        let nofile = raise_nofile();
        let (outlet, writer) = Outlet::open(&host.log, usual_target)?;
        Ok((Self::Children { groups, nofile, outlet }, writer))
    }

    /// Makes the source of the hosts of this node.
    ///
    /// # Errors
    /// There is no memory or no thread for it.
    pub(super) fn source(
        self,
        host: &Host,
        guarded: Guarded,
        pool: &str,
        node: &Node,
    ) -> Result<Source, Failure> {
        let (groups, nofile, outlet) = match self {
            Self::Children { groups, nofile, outlet } => (groups, nofile, outlet),
            Self::Peers(socket, listener) => {
                let (workers, hello_timeout) = (host.place.workers, host.time.hello_timeout);
                return Ok(Source::Peers(Door::open((socket, listener), workers, hello_timeout)));
            }
        };
        let starter = Starter::new(node.settings().worker_ttl, guarded, groups, outlet)?;
        let confines = host.confine.confines(nofile);
        Ok(Source::Children(Box::new(Launcher::new(host, pool, node.name(), starter, confines))))
    }
}
