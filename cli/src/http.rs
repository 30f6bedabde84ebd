//! A small HTTP server: its connections are few, and each ends in time, whatever its caller does.

use std::convert::Infallible;
use std::error::Error;
use std::io;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use axum::serve::{Listener, ListenerExt};
use hyper::body::{Body, Incoming};
use hyper::server::conn::http1;
use hyper::service::Service;
use hyper::{Request, Response};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::TcpListener;
use tokio::sync::Semaphore;
use tokio::time::timeout;
use tokio_io_timeout::TimeoutStream;

/// The most bytes and lines of a request's head.
const HEAD: usize = 16 * 1_024;
const LINES: usize = 64;

/// The bounds of a server.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Bounds {
    /// How many connections are served at once. Others wait.
    pub(crate) connections: usize,
    /// How long the head of a request may take to come. Where connections are kept, also how long one may be idle.
    pub(crate) head: Duration,
    /// How long a caller may take nothing of an answer that waits for it.
    pub(crate) stall: Duration,
    /// How long a connection lives.
    pub(crate) life: Duration,
    /// How long a connection may take to end what it has begun, when its time is over.
    pub(crate) rest: Duration,
    /// A connection takes more than one request.
    pub(crate) keep_alive: bool,
}

/// The connections of a listener that does not block.
///
/// # Errors
/// It cannot be used.
pub(crate) fn tcp(listener: std::net::TcpListener) -> io::Result<impl Listener> {
    // Answers are short, and some are parts of a stream.
    Ok(TcpListener::from_std(listener)?.tap_io(|stream| drop(stream.set_nodelay(true))))
}

/// Serves, and never ends by itself.
pub(crate) async fn serve<L, S, B>(mut listener: L, bounds: Bounds, service: S) -> Infallible
where
    L: Listener,
    S: Service<Request<Incoming>, Response = Response<B>, Error = Infallible> + Clone + Send + 'static,
    S::Future: Send,
    B: Body + Send + 'static,
    B::Data: Send,
    B::Error: Into<Box<dyn Error + Send + Sync>>,
{
    let room = Arc::new(Semaphore::new(bounds.connections));
    loop {
        let permit = room.clone().acquire_owned().await;
        let (stream, _) = listener.accept().await;
        let mut stream = TimeoutStream::new(stream);
        stream.set_write_timeout(Some(bounds.stall));
        let service = service.clone();
        tokio::spawn(async move {
            let _permit = permit;
            let mut builder = http1::Builder::new();
            builder.keep_alive(bounds.keep_alive).timer(TokioTimer::new()).header_read_timeout(bounds.head);
            builder.max_buf_size(HEAD).max_headers(LINES);
            let mut connection = pin!(builder.serve_connection(TokioIo::new(Box::pin(stream)), service));
            // A caller that breaks off hurts itself.
            if timeout(bounds.life, connection.as_mut()).await.is_err() {
                connection.as_mut().graceful_shutdown();
                let _ = timeout(bounds.rest, connection).await;
            }
        });
    }
}
