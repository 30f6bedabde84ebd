//! A proxy before a private server, in the test's own process, that makes the faults of networks.
//!
//! Invariants: nothing that passed is ever wrong, doubled or out of order, and a connection that lost bytes in its
//! middle never passes a later one. After a switch's method has returned, no byte passes against it.
//!
//! A test that cuts at every byte goes on until a whole conversation was shorter than the cut:
//!
//! ```
//! use tenure_testing::{Proxy, RedisServer, proxy::{Cut, Direction}};
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # async fn converse(url: String) { let _ = redis::Client::open(url).unwrap().get_multiplexed_async_connection().await; }
//! let server = RedisServer::start()?;
//! let proxy = Proxy::start(&server).await?;
//! for bytes in 0.. {
//!     let cuts = proxy.counts().cut;
//!     proxy.cut_next(Cut::after(Direction::ToClient, bytes).reset());
//!     converse(proxy.url()).await;
//!     if proxy.counts().cut == cuts {
//!         break;
//!     }
//! }
//! # assert!(proxy.counts().cut > 5);
//! # Ok(())
//! # }
//! ```
//!
//! `switches.rs` says what may pass, `connection.rs` moves the bytes, `scripts.rs` finds calls of scripts in them, and
//! `socket.rs` is one end of a connection.

mod connection;
mod scripts;
mod socket;
mod switches;

use std::{collections::BTreeMap, net::Ipv4Addr, sync::Arc};

use tokio::{
    net::{TcpListener, TcpSocket},
    sync::watch,
    task::{JoinHandle, JoinSet},
};

use crate::{
    Error, RedisServer,
    address::{Address, Login},
    port::Port,
};

use connection::Open;
pub use switches::{Counts, Cut, Direction};
use switches::{Flow, Switches};

/// How many connections may wait to be accepted.
const BACKLOG: u32 = 1024;

/// A proxy on a port of 127.0.0.1; its tasks and connections end when it is dropped.
///
/// It starts with every byte passing.
pub struct Proxy {
    switches: Arc<Switches>,
    address: Address,
    login: Option<Login>,
    /// Whether somebody listens on the port at this moment.
    listens: watch::Receiver<bool>,
    task: JoinHandle<()>,
    _port: Arc<Port>,
}

impl Proxy {
    /// Starts a proxy before `server`, whose restarts it does not mind.
    ///
    /// # Errors
    /// When no port can be had.
    ///
    /// # Cancel safety
    /// Nothing is left of a start that is dropped.
    pub async fn start(server: &RedisServer) -> Result<Self, Error> {
        let port = Arc::new(Port::reserve()?);
        let switches = Arc::new(Switches::new(server.address().clone()));
        let (sender, mut listens) = watch::channel(false);
        let listener = listen(&port)?;
        let task = tokio::spawn(accept(Arc::clone(&switches), Arc::clone(&port), listener, sender));
        let proxy = Self {
            address: server.address().at_port(port.number()),
            login: server.login().cloned(),
            switches,
            listens: listens.clone(),
            task,
            _port: port,
        };
        // The sender lives as long as the task, which ends with the proxy.
        let _ = listens.wait_for(|&listens| listens).await;
        Ok(proxy)
    }

    /// The address of the server behind, by way of the proxy: `redis://` or `rediss://`.
    pub fn url(&self) -> String {
        self.address.url(self.login.as_ref())
    }

    /// The same for another user, such as one of [`RedisServer::acl_user`].
    pub fn url_of_user(&self, name: &str, password: &str) -> String {
        self.address.url(Some(&Login { user: name.to_owned(), password: password.to_owned() }))
    }

    /// The port of 127.0.0.1 that it listens on.
    pub fn port(&self) -> u16 {
        self.address.port().unwrap_or_default()
    }

    /// Brings connections that come from now on to `server`; those that are open stay where they are.
    pub fn redirect(&self, server: &RedisServer) {
        self.switches.redirect(server.address().clone());
    }

    /// Cuts the connection that comes next, and none after it.
    pub fn cut_next(&self, cut: Cut) {
        self.switches.cut_next(Some(cut));
    }

    /// Cuts every connection that comes from now on, until [`resume`](Self::resume).
    pub fn cut_each(&self, cut: Cut) {
        self.switches.cut_each(Some(cut));
    }

    /// Cuts every connection that is open; its bytes are counted from now.
    pub fn cut_open(&self, cut: Cut) {
        self.switches.cut_open(cut);
    }

    /// Resets every connection that is open.
    pub fn kill_all(&self) {
        self.cut_open(Cut::after(Direction::ToServer, 0).reset());
    }

    /// Holds every byte back: connections are accepted and stay open, and nothing comes through.
    pub fn pause(&self) {
        self.switches.set_flow(&[Direction::ToServer, Direction::ToClient], Flow::Hold);
    }

    /// Holds the bytes of one direction back.
    pub fn pause_one_way(&self, direction: Direction) {
        self.switches.set_flow(&[direction], Flow::Hold);
    }

    /// Loses all that the server sends: commands are executed and never answered.
    pub fn drop_replies(&self) {
        self.switches.set_flow(&[Direction::ToClient], Flow::Lose);
    }

    /// Loses the reply to the next call of each of these scripts, named by their hashes, and of no others: the call is
    /// carried out, nothing comes back, and its connection is reset a moment later. Calls are seen only without TLS.
    pub fn lose_reply_to(&self, hashes: impl IntoIterator<Item = String>) {
        self.switches.lose_reply_to(hashes.into_iter().collect());
    }

    /// How many calls of which script have passed whose replies were lost.
    pub fn lost_replies(&self) -> BTreeMap<String, u64> {
        self.switches.lost_replies()
    }

    /// Turns pauses, losses and the cuts of later connections off. What was held back passes; connections that lost
    /// something are reset. A refusal stays.
    pub fn resume(&self) {
        self.switches.cut_next(None);
        self.switches.cut_each(None);
        self.switches.set_flow(&[Direction::ToServer, Direction::ToClient], Flow::Pass);
    }

    /// Refuses connections from now on, as a port does on which nobody listens. Open ones stay.
    ///
    /// # Cancel safety
    /// When dropped, the refusal takes effect a moment later.
    pub async fn refuse(&self) {
        self.set_refusing(true).await;
    }

    /// Accepts connections again.
    ///
    /// # Cancel safety
    /// When dropped, connections are accepted a moment later.
    pub async fn accept(&self) {
        self.set_refusing(false).await;
    }

    /// What has passed so far.
    pub fn counts(&self) -> Counts {
        self.switches.counts()
    }

    async fn set_refusing(&self, refusing: bool) {
        self.switches.set_refusing(refusing);
        let _ = self.listens.clone().wait_for(|&listens| listens != refusing).await;
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.task.abort();
    }
}

fn listen(port: &Port) -> Result<TcpListener, Error> {
    let listen = || {
        let socket = TcpSocket::new_v4()?;
        socket.set_reuseaddr(true)?;
        socket.bind((Ipv4Addr::LOCALHOST, port.number()).into())?;
        socket.listen(BACKLOG)
    };
    listen().map_err(Error::Proxy)
}

/// Accepts connections and owns them. Ends when it is aborted, or when its port is lost.
async fn accept(
    switches: Arc<Switches>,
    port: Arc<Port>,
    listener: TcpListener,
    listens: watch::Sender<bool>,
) {
    let mut changes = switches.changes();
    let mut connections = JoinSet::new();
    let mut listener = Some(listener);
    loop {
        match (switches.is_refusing(), &listener) {
            (true, Some(_)) => listener = None,
            (false, None) => match listen(&port) {
                Ok(new) => listener = Some(new),
                Err(_) => return,
            },
            _ => {}
        }
        listens.send_replace(listener.is_some());
        let client = async {
            match &listener {
                Some(listener) => listener.accept().await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            biased;
            _ = changes.changed() => {}
            Some(_) = connections.join_next() => {}
            accepted = client => {
                if let Ok((client, _)) = accepted {
                    let open = Open::new(Arc::clone(&switches));
                    connections.spawn(connection::run(open, client));
                }
            }
        }
    }
}
