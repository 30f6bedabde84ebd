//! The byte stream under a connection. This crate opens it, and not the redis crate, so that it owns the driver. It
//! sees when the stream ends, can end it, and knows when it was last heard.

use std::future::pending;
use std::io;
use std::net::SocketAddr;
use std::path::Path;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, ReadBuf};
use tokio::net::{TcpStream, UnixStream};
use tokio::time::sleep;

use crate::pulse::Pulse;
use crate::tls::Tls;

/// Any stream that can carry the protocol.
pub(crate) trait Transport: AsyncRead + AsyncWrite + Unpin + Send {}

impl<S: AsyncRead + AsyncWrite + Unpin + Send> Transport for S {}

/// A stream of some kind.
pub(crate) type Stream = Box<dyn Transport>;

/// One place where a server may listen.
pub(crate) enum Place {
    /// An address of this host.
    Tcp(Arc<str>, SocketAddr),
    Unix(Arc<Path>),
}

/// Opens a stream to the place. The caller bounds the time, to `within`.
pub(crate) async fn open(place: &Place, tls: Option<&Tls>, within: Duration) -> io::Result<Stream> {
    match place {
        Place::Tcp(host, address) => {
            let stream = TcpStream::connect(address).await?;
            stream.set_nodelay(true)?;
            let Some(tls) = tls else { return Ok(Box::new(stream)) };
            tokio::select! {
                shaken = tls.connect(host, stream) => Ok(Box::new(shaken?)),
                () = speaks_without_tls(*address, within.mul_f64(0.75)) => Err(io::Error::new(
                    io::ErrorKind::InvalidData,
                    "the port answers without tls: its url begins with redis, not with rediss",
                )),
            }
        }
        Place::Unix(path) => Ok(Box::new(UnixStream::connect(path).await?)),
    }
}

/// Returns when the server answers in plain text. A server without TLS reads a handshake as the beginning of a line, and
/// waits in silence for the end. So the question is asked when the handshake has taken this long.
async fn speaks_without_tls(address: SocketAddr, after: Duration) {
    let answer = async {
        sleep(after).await;
        let mut stream = TcpStream::connect(address).await?;
        stream.write_all(b"PING\r\n").await?;
        stream.read_u8().await
    };
    if !matches!(answer.await, io::Result::Ok(b'+' | b'-')) {
        pending::<()>().await;
    }
}

/// A stream that notes in its pulse when bytes arrive.
pub(crate) struct Heard {
    pub(crate) stream: Stream,
    pub(crate) pulse: Arc<Pulse>,
}

impl AsyncRead for Heard {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buf.filled().len();
        let result = Pin::new(&mut self.stream).poll_read(cx, buf);
        if buf.filled().len() > before {
            self.pulse.heard();
        }
        result
    }
}

impl AsyncWrite for Heard {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(cx, buf)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write_vectored(cx, bufs)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}
