//! A small HTTP server: its connections are few, and each ends in time, whatever its caller does.

use std::convert::Infallible;
use std::error::Error;
use std::io;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use hyper::body::{Body, Incoming};
use hyper::server::conn::http1;
use hyper::service::Service;
use hyper::{Request, Response};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::TcpListener;
use tokio::sync::Semaphore;
use tokio::time::{sleep, timeout};

/// The most bytes and lines of a request's head.
const HEAD: usize = 16 * 1_024;
const LINES: usize = 64;
/// The pause before the next connection, when the machine has no files left for the moment.
const PAUSE: Duration = Duration::from_millis(100);

/// The bounds of a server.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Bounds {
    /// How many connections are served at once. Others wait.
    pub(crate) connections: usize,
    /// How long the head of a request may take to come. Where connections are kept, also how long one may be idle.
    pub(crate) head: Duration,
    /// How long a connection lives.
    pub(crate) life: Duration,
    /// How long a connection may take to end what it has begun, when its time is over.
    pub(crate) rest: Duration,
    /// A connection takes more than one request.
    pub(crate) keep_alive: bool,
}

/// Serves. It never ends by itself.
///
/// # Errors
/// The listener cannot be used.
pub(crate) async fn serve<S, B>(
    listener: std::net::TcpListener,
    bounds: Bounds,
    service: S,
) -> io::Result<Infallible>
where
    S: Service<Request<Incoming>, Response = Response<B>, Error = Infallible> + Clone + Send + 'static,
    S::Future: Send,
    B: Body + Send + 'static,
    B::Data: Send,
    B::Error: Into<Box<dyn Error + Send + Sync>>,
{
    let listener = TcpListener::from_std(listener)?;
    let room = Arc::new(Semaphore::new(bounds.connections));
    loop {
        let permit = room.clone().acquire_owned().await;
        let Ok((stream, _)) = listener.accept().await else {
            sleep(PAUSE).await;
            continue;
        };
        // Answers are short, and some are parts of a stream.
        let _ = stream.set_nodelay(true);
        let service = service.clone();
        tokio::spawn(async move {
            let _permit = permit;
            let mut builder = http1::Builder::new();
            builder.keep_alive(bounds.keep_alive).timer(TokioTimer::new()).header_read_timeout(bounds.head);
            builder.max_buf_size(HEAD).max_headers(LINES);
            let mut connection = pin!(builder.serve_connection(TokioIo::new(stream), service));
            // A caller that breaks off hurts itself.
            if timeout(bounds.life, connection.as_mut()).await.is_err() {
                connection.as_mut().graceful_shutdown();
                let _ = timeout(bounds.rest, connection).await;
            }
        });
    }
}
