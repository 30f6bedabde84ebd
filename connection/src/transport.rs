//! The byte stream under a connection. This crate opens it, and not the redis crate, so that it owns the driver. It
//! sees when the stream ends, can end it, and knows when it was last heard.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpStream, UnixStream};

use crate::address::Address;
use crate::pulse::Pulse;
use crate::tls::Tls;

/// Any stream that can carry the protocol.
pub(crate) trait Transport: AsyncRead + AsyncWrite + Unpin + Send {}

impl<S: AsyncRead + AsyncWrite + Unpin + Send> Transport for S {}

/// A stream of some kind.
pub(crate) type Stream = Box<dyn Transport>;

/// Opens a stream to the address. The caller bounds the time.
pub(crate) async fn open(address: &Address, tls: Option<&Tls>) -> io::Result<Stream> {
    match address {
        Address::Tcp(host, port) => {
            let stream = TcpStream::connect((&**host, *port)).await?;
            stream.set_nodelay(true)?;
            Ok(match tls {
                Some(tls) => Box::new(tls.connect(host, stream).await?),
                None => Box::new(stream),
            })
        }
        Address::Unix(path) => Ok(Box::new(UnixStream::connect(path).await?)),
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
