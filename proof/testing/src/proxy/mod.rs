//! A proxy before a private server, in the test's own process, that causes network faults.
//!
//! Invariants: bytes that passed are never wrong, repeated or out of order, and a connection that lost bytes in its
//! middle never passes a later one. After a switch's method has returned, no byte passes against it.
//!
//! A test that cuts at every byte continues until a whole conversation is shorter than the cut:
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
//! `switches.rs` decides what may pass, `connection.rs` forwards the bytes, `scripts.rs` finds calls of scripts in
//! them, and `socket.rs` is one end of a connection.

mod connection;
mod scripts;
mod socket;
mod switches;

use std::{collections::BTreeMap, net::Ipv4Addr, sync::Arc};

use rustix::net::{Shutdown, shutdown};
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

/// The number of connections that may wait to be accepted.
const BACKLOG: u32 = 1024;

/// A proxy on a port of 127.0.0.1. Its tasks and connections end when it is dropped.
///
/// It starts with every byte passing.
pub struct Proxy {
    switches: Arc<Switches>,
    address: Address,
    login: Option<Login>,
    /// Whether the proxy listens on the port at this moment.
    listens: watch::Receiver<bool>,
    task: JoinHandle<()>,
    _port: Arc<Port>,
}

impl Proxy {
    /// Starts a proxy before `server`, which may restart.
    ///
    /// # Errors
    /// When no port can be had.
    ///
    /// # Cancel safety
    /// A dropped start leaves nothing behind.
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

    /// The address of the server through the proxy: `redis://` or `rediss://`.
    pub fn url(&self) -> String {
        self.address.url(self.login.as_ref())
    }

    /// The same address for another user, such as one of [`RedisServer::acl_user`].
    pub fn url_of_user(&self, name: &str, password: &str) -> String {
        self.address.url(Some(&Login { user: name.to_owned(), password: password.to_owned() }))
    }

    /// The port of 127.0.0.1 that it listens on.
    pub fn port(&self) -> u16 {
        self.address.port().unwrap_or_default()
    }

    /// Forwards later connections to `server`; open ones stay where they are.
    pub fn redirect(&self, server: &RedisServer) {
        self.switches.redirect(server.address().clone());
    }

    /// Cuts the next connection, and none after it.
    pub fn cut_next(&self, cut: Cut) {
        self.switches.cut_next(Some(cut));
    }

    /// Cuts every later connection, until [`resume`](Self::resume).
    pub fn cut_each(&self, cut: Cut) {
        self.switches.cut_each(Some(cut));
    }

    /// Cuts every open connection; its bytes are counted from now.
    pub fn cut_open(&self, cut: Cut) {
        self.switches.cut_open(cut);
    }

    /// Resets every open connection.
    pub fn kill_all(&self) {
        self.cut_open(Cut::after(Direction::ToServer, 0).reset());
    }

    /// Holds every byte back: connections are accepted and stay open, and nothing gets through.
    pub fn pause(&self) {
        self.switches.set_flow(&[Direction::ToServer, Direction::ToClient], Flow::Hold);
    }

    /// Holds the bytes of one direction back.
    pub fn pause_one_way(&self, direction: Direction) {
        self.switches.set_flow(&[direction], Flow::Hold);
    }

    /// Loses everything that the server sends: commands are executed and never answered.
    pub fn drop_replies(&self) {
        self.switches.set_flow(&[Direction::ToClient], Flow::Lose);
    }

    /// Loses the reply to the next call of each of these scripts, named by their hashes, and of no others. The call is
    /// executed, no reply returns, and its connection is reset a moment later. Calls are recognised only without TLS.
    pub fn lose_reply_to(&self, hashes: impl IntoIterator<Item = String>) {
        self.switches.lose_reply_to(hashes.into_iter().collect());
    }

    /// The number of lost replies for each script.
    pub fn lost_replies(&self) -> BTreeMap<String, u64> {
        self.switches.lost_replies()
    }

    /// Turns pauses, losses and cuts of later connections off. Held bytes pass; connections that lost bytes are reset.
    /// A refusal stays.
    pub fn resume(&self) {
        self.switches.cut_next(None);
        self.switches.cut_each(None);
        self.switches.set_flow(&[Direction::ToServer, Direction::ToClient], Flow::Pass);
    }

    /// Refuses connections from now on, like a port on which nobody listens. Open ones stay.
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

    /// The traffic so far.
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
            (true, Some(open)) => {
                // A process that is being started has a copy of the socket until it runs its own program.
                let _ = shutdown(open, Shutdown::Both);
                listener = None;
            }
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
