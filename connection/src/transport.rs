//! The byte stream under a connection. Opened here rather than by the redis crate so that its driver is ours: we
//! see when it ends, and end it ourselves.

use std::io;

use redis::ConnectionAddr;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpStream, UnixStream};

/// Any stream that can carry the protocol.
pub(crate) trait Transport: AsyncRead + AsyncWrite + Unpin + Send {}

impl<S: AsyncRead + AsyncWrite + Unpin + Send> Transport for S {}

/// Opens a stream to the address. The caller bounds the time.
pub(crate) async fn open(addr: &ConnectionAddr) -> io::Result<Box<dyn Transport>> {
    match addr {
        ConnectionAddr::Tcp(host, port) => {
            let stream = TcpStream::connect((host.as_str(), *port)).await?;
            stream.set_nodelay(true)?;
            Ok(Box::new(stream))
        }
        ConnectionAddr::Unix(path) => Ok(Box::new(UnixStream::connect(path).await?)),
        _ => Err(io::ErrorKind::Unsupported.into()),
    }
}
