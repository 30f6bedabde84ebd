//! All that a node needs for its hosts, looked at before it joins its pool.

use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use tenure_pool::Node;
use tokio::net::UnixListener;

use super::child::Launcher;
use super::hosts::Source;
use super::options::Host;
use super::peer::Door;
use super::socket::Socket;
use crate::exit::Failure;
use crate::work::able;
use crate::work::book::Book;
use crate::work::cgroup::Groups;
use crate::work::guard::Guarded;
use crate::work::logs::{Lines, Target, Writer};
use crate::work::node::{raise_nofile, renew, usual_target};
use crate::work::plan;

/// The way in which a node gets its hosts.
pub(super) enum Means {
    /// They are processes of this node.
    Children {
        groups: Option<Groups>,
        /// How many files each may have.
        nofile: Option<u64>,
        target: Target,
        lines: Option<Lines>,
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
        let target = host.log.logs.clone().unwrap_or_else(usual_target);
        let writer = Writer::start(&target, host.log.log_max)
            .map_err(|error| Failure::usage(format!("the output of hosts has no place: {error}")))?;
        let (writer, lines) = writer.unzip();
        Ok((Self::Children { groups, nofile, target, lines }, writer))
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
        let (groups, nofile, target, lines) = match self {
            Self::Children { groups, nofile, target, lines } => (groups, nofile, target, lines),
            Self::Peers(socket, listener) => {
                let (workers, hello_timeout) = (host.place.workers, host.time.hello_timeout);
                return Ok(Source::Peers(Door::open((socket, listener), workers, hello_timeout)));
            }
        };
        let Guarded { guard, folder } = guarded;
        let ttl = node.settings().worker_ttl;
        let book = Arc::new(Book::new(ttl)?);
        renew(&book, ttl)?;
        Ok(Source::Children(Box::new(Launcher {
            command: host.command.clone(),
            pool: pool.to_owned(),
            node: node.name().to_owned(),
            book,
            groups,
            guard,
            folder,
            unset: plan::unset(&host.pass_env),
            confines: host.confine.confines(nofile),
            target,
            lines,
            numbers: AtomicU64::new(0),
        })))
    }
}
