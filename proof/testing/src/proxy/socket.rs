//! One end of a connection through a proxy: TCP, or a unix socket.

use std::{
    fs, io,
    net::{Ipv4Addr, SocketAddr},
    sync::atomic::{AtomicU64, Ordering},
    time::Duration,
};

use tokio::{
    io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt},
    net::{TcpStream, UnixStream},
    time::{Instant, timeout},
};

use super::switches::End;
use crate::address::Address;

/// A peer that takes no byte, or does not end, for this long no longer delays a connection's end.
const PATIENCE: Duration = Duration::from_secs(1);
const POLL: Duration = Duration::from_millis(1);

/// The bytes that fit in the smallest receive buffer that Linux allows. A check of their delivery costs milliseconds,
/// too much for a test that cuts at every byte.
const AT_ONCE: u64 = 2_048;

pub(super) struct Socket {
    stream: Stream,
    written: AtomicU64,
}

enum Stream {
    Tcp(TcpStream),
    Unix(UnixStream),
}

impl Socket {
    pub(super) async fn connect(address: &Address) -> io::Result<Self> {
        match address {
            Address::Unix(path) => Ok(Self::new(Stream::Unix(UnixStream::connect(path).await?))),
            Address::Tcp(port) | Address::Tls(port) => {
                Self::tcp(TcpStream::connect((Ipv4Addr::LOCALHOST, *port)).await?)
            }
        }
    }

    pub(super) fn tcp(stream: TcpStream) -> io::Result<Self> {
        stream.set_nodelay(true)?;
        Ok(Self::new(Stream::Tcp(stream)))
    }

    fn new(stream: Stream) -> Self {
        Self { stream, written: AtomicU64::new(0) }
    }

    pub(super) async fn readable(&self) -> io::Result<()> {
        match &self.stream {
            Stream::Tcp(stream) => stream.readable().await,
            Stream::Unix(stream) => stream.readable().await,
        }
    }

    pub(super) async fn writable(&self) -> io::Result<()> {
        match &self.stream {
            Stream::Tcp(stream) => stream.writable().await,
            Stream::Unix(stream) => stream.writable().await,
        }
    }

    pub(super) fn try_read(&self, buffer: &mut [u8]) -> io::Result<usize> {
        match &self.stream {
            Stream::Tcp(stream) => stream.try_read(buffer),
            Stream::Unix(stream) => stream.try_read(buffer),
        }
    }

    pub(super) fn try_write(&self, bytes: &[u8]) -> io::Result<usize> {
        let written = match &self.stream {
            Stream::Tcp(stream) => stream.try_write(bytes),
            Stream::Unix(stream) => stream.try_write(bytes),
        };
        written.inspect(|&bytes| _ = self.written.fetch_add(bytes as u64, Ordering::Relaxed))
    }

    /// Closes the connection after the peer's machine has received every written byte.
    pub(super) async fn close(self, end: End) {
        match (end, self.stream) {
            (End::Reset, Stream::Tcp(stream)) => {
                // A reset takes undelivered bytes back.
                tokio::time::sleep(POLL).await;
                if self.written.into_inner() > AT_ONCE {
                    await_delivery(&stream).await;
                }
                // If this fails, the peer is gone.
                let _ = stream.set_zero_linger();
            }
            (End::Reset, Stream::Unix(_)) => {}
            // An error is the peer's end.
            (End::Finish, Stream::Tcp(stream)) => _ = timeout(PATIENCE, finish(stream)).await,
            (End::Finish, Stream::Unix(stream)) => _ = timeout(PATIENCE, finish(stream)).await,
        }
    }
}

/// Announces the end, and reads until the peer does so too. The peer may still be sending, and unread bytes would turn
/// the close into a reset.
async fn finish(mut stream: impl AsyncRead + AsyncWrite + Unpin) -> io::Result<()> {
    let mut unread = [0; 4096];
    stream.shutdown().await?;
    while stream.read(&mut unread).await? > 0 {}
    Ok(())
}

async fn await_delivery(stream: &TcpStream) {
    let (Ok(local), Ok(peer)) = (stream.local_addr(), stream.peer_addr()) else { return };
    let (mut left, mut since) = (undelivered(local, peer), Instant::now());
    while left.is_some() && since.elapsed() < PATIENCE {
        tokio::time::sleep(POLL).await;
        let now = undelivered(local, peer);
        if now != left {
            (left, since) = (now, Instant::now());
        }
    }
}

/// The number of bytes that the kernel still holds for the peer, in the kernel's notation; `None` for none.
fn undelivered(local: SocketAddr, peer: SocketAddr) -> Option<String> {
    let (local, peer) = (in_hex(local)?, in_hex(peer)?);
    // After a heading, a line is: number, local address, remote address, state, tx_queue:rx_queue, …
    let table = fs::read_to_string("/proc/net/tcp").ok()?;
    table.lines().find_map(|line| {
        let mut words = line.split_ascii_whitespace().skip(1);
        let is_ours = words.next()? == local && words.next()? == peer;
        let (queue, _) = words.nth(1)?.split_once(':')?;
        (is_ours && queue.contains(|digit| digit != '0')).then(|| queue.to_owned())
    })
}

/// An address in the notation of the kernel's table.
fn in_hex(address: SocketAddr) -> Option<String> {
    match address {
        SocketAddr::V4(v4) => Some(format!("{:08X}:{:04X}", u32::from_ne_bytes(v4.ip().octets()), v4.port())),
        SocketAddr::V6(_) => None,
    }
}
