//! A small HTTP server: its connections are few, and each ends in time, whatever its caller does.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::error::Error;
use std::io;
use std::pin::{Pin, pin};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use axum::serve::{Listener, ListenerExt};
use bytes::Bytes;
use hyper::body::{Body, Frame, Incoming, SizeHint};
use hyper::header::{CONNECTION, HeaderValue};
use hyper::server::conn::http1;
use hyper::service::{Service, service_fn};
use hyper::{Request, Response};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::TcpListener;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::task::AbortHandle;
use tokio::time::timeout;
use tokio_io_timeout::TimeoutStream;

/// The most bytes and lines of a request's head.
const HEAD: usize = 16 * 1_024;
const LINES: usize = 64;
/// The pause before another look for a silent connection.
const LOOK: Duration = Duration::from_millis(50);

/// The bounds of a server.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Bounds {
    /// How many connections are served at once.
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

/// The connections of a server, the oldest first.
#[derive(Clone, Default)]
struct Open(Arc<Mutex<VecDeque<Connection>>>);

struct Connection {
    /// The requests under way: from the head of the request until the last part of the answer was taken for sending.
    requests: Arc<AtomicUsize>,
    task: AbortHandle,
}

impl Open {
    fn lock(&self) -> MutexGuard<'_, VecDeque<Connection>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn add(&self, requests: Arc<AtomicUsize>, task: AbortHandle) {
        let mut open = self.lock();
        open.retain(|connection| !connection.task.is_finished());
        open.push_back(Connection { requests, task });
    }

    /// Closes the oldest connection without a request.
    fn close_idle(&self) {
        let mut open = self.lock();
        open.retain(|connection| !connection.task.is_finished());
        let idle = open.iter().position(|connection| connection.requests.load(Ordering::Relaxed) == 0);
        if let Some(connection) = idle.and_then(|at| open.remove(at)) {
            connection.task.abort();
        }
    }
}

/// Counts a request as under way until the drop.
struct UnderWay(Arc<AtomicUsize>);

impl UnderWay {
    fn begin(requests: &Arc<AtomicUsize>) -> Self {
        requests.fetch_add(1, Ordering::Relaxed);
        Self(requests.clone())
    }
}

impl Drop for UnderWay {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// The body of a request. It notes when all of it was read.
pub(crate) struct Sent {
    body: Incoming,
    is_read: Arc<AtomicBool>,
}

impl Sent {
    fn of(body: Incoming) -> Self {
        let is_read = Arc::new(AtomicBool::new(body.is_end_stream()));
        Self { body, is_read }
    }
}

impl Body for Sent {
    type Data = Bytes;
    type Error = hyper::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, hyper::Error>>> {
        let frame = Pin::new(&mut self.body).poll_frame(cx);
        if matches!(frame, Poll::Ready(None)) || self.body.is_end_stream() {
            self.is_read.store(true, Ordering::Relaxed);
        }
        frame
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

/// The body of an answer, whose request is under way until the last part is taken.
struct Answer<B> {
    body: Pin<Box<B>>,
    _under_way: UnderWay,
}

impl<B: Body> Body for Answer<B> {
    type Data = B::Data;
    type Error = B::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<B::Data>, B::Error>>> {
        self.body.as_mut().poll_frame(cx)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    // An answer of a known length says the length, and is not cut into chunks.
    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

/// Waits for a free place. The oldest silent connection makes room if no place is free.
async fn place(room: &Arc<Semaphore>, open: &Open) -> OwnedSemaphorePermit {
    loop {
        if let Ok(permit) = room.clone().try_acquire_owned() {
            return permit;
        }
        open.close_idle();
        if let Ok(Ok(permit)) = timeout(LOOK, room.clone().acquire_owned()).await {
            // The newest connections say the first request before more connections are closed.
            tokio::task::yield_now().await;
            return permit;
        }
    }
}

/// Serves without an end. When all places are taken, a new connection takes the place of the oldest connection without a
/// request. An answer says `connection: close` when room is short, and when the body of its request was left unread: the next
/// request cannot be found behind such a body.
pub(crate) async fn serve<L, S, B>(mut listener: L, bounds: Bounds, service: S) -> Infallible
where
    L: Listener,
    S: Service<Request<Sent>, Response = Response<B>, Error = Infallible> + Clone + Send + 'static,
    S::Future: Send,
    B: Body + Send + 'static,
    B::Data: Send,
    B::Error: Into<Box<dyn Error + Send + Sync>>,
{
    let room = Arc::new(Semaphore::new(bounds.connections));
    let open = Open::default();
    loop {
        let (stream, _) = listener.accept().await;
        let permit = place(&room, &open).await;
        // Nobody keeps a place between two requests while room is short.
        let is_short = room.available_permits() < bounds.connections / 4;
        let requests = Arc::<AtomicUsize>::default();
        let mut stream = TimeoutStream::new(stream);
        stream.set_write_timeout(Some(bounds.stall));
        let (service, of) = (service.clone(), requests.clone());
        let service = service_fn(move |request: Request<Incoming>| {
            let under_way = UnderWay::begin(&of);
            let request = request.map(Sent::of);
            let is_read = request.body().is_read.clone();
            let answer = service.call(request);
            async move {
                let mut answer = answer.await?;
                if is_short || !is_read.load(Ordering::Relaxed) {
                    answer.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
                }
                Ok::<_, Infallible>(answer.map(|body| Answer { body: Box::pin(body), _under_way: under_way }))
            }
        });
        let task = tokio::spawn(async move {
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
        open.add(requests, task.abort_handle());
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use http_body_util::{BodyExt, Full};
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::TcpStream;

    use super::*;

    const LONG: Duration = Duration::from_secs(3_600);
    const PATIENCE: Duration = Duration::from_secs(60);

    /// A server of four places without bounds of time. A request for `/slow` gets no answer. The body of one for `/read` is read.
    fn server() -> std::net::SocketAddr {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        listener.set_nonblocking(true).unwrap();
        let address = listener.local_addr().unwrap();
        let service = service_fn(async |request: Request<Sent>| {
            match request.uri().path() {
                "/slow" => std::future::pending::<()>().await,
                "/read" => drop(request.into_body().collect().await),
                _ => {}
            }
            Ok::<_, Infallible>(Response::new(Full::new(Bytes::from_static(b"here"))))
        });
        let bounds =
            Bounds { connections: 4, head: LONG, stall: LONG, life: LONG, rest: LONG, keep_alive: true };
        tokio::spawn(serve(tcp(listener).unwrap(), bounds, service));
        address
    }

    async fn ask(stream: &mut TcpStream, head: &str) -> String {
        stream.write_all(head.as_bytes()).await.unwrap();
        let mut answer = vec![0; 1_024];
        let read = timeout(PATIENCE, stream.read(&mut answer)).await.unwrap().unwrap();
        String::from_utf8(answer[..read].to_vec()).unwrap()
    }

    #[tokio::test]
    async fn a_request_is_answered_beside_connections_that_say_nothing() {
        let address = server();
        let mut silent = Vec::new();
        for _ in 0..300 {
            silent.push(TcpStream::connect(address).await.unwrap());
        }
        let mut caller = TcpStream::connect(address).await.unwrap();
        let answer = ask(&mut caller, "GET / HTTP/1.1\r\nhost: x\r\n\r\n").await;
        assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
        assert!(answer.contains("connection: close"), "room is short: {answer}");
        assert!(answer.contains("content-length: 4"), "the length is known: {answer}");
    }

    #[tokio::test]
    async fn a_connection_with_a_request_keeps_its_place() {
        let address = server();
        let mut waits = TcpStream::connect(address).await.unwrap();
        waits.write_all(b"GET /slow HTTP/1.1\r\nhost: x\r\n\r\n").await.unwrap();
        let mut silent = Vec::new();
        for _ in 0..20 {
            silent.push(TcpStream::connect(address).await.unwrap());
            let mut caller = TcpStream::connect(address).await.unwrap();
            let answer = ask(&mut caller, "GET / HTTP/1.1\r\nhost: x\r\n\r\n").await;
            assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
        }
        let closed = timeout(Duration::from_millis(50), waits.read(&mut [0])).await;
        assert!(closed.is_err(), "the oldest connection waits on: {closed:?}");
    }

    /// Whether an answer says that the connection ends.
    fn ends(answer: &str) -> bool {
        answer.to_lowercase().contains("connection: close")
    }

    #[tokio::test]
    async fn an_answer_to_an_unread_body_says_the_connection_ends() {
        let address = server();
        // The body is late, is there at once, or has an unknown length.
        for request in [
            "POST / HTTP/1.1\r\nhost: x\r\ncontent-length: 10\r\n\r\n",
            "POST / HTTP/1.1\r\nhost: x\r\ncontent-length: 10\r\n\r\n0123456789",
            "POST / HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\n\r\n",
        ] {
            let mut caller = TcpStream::connect(address).await.unwrap();
            let answer = ask(&mut caller, request).await;
            assert!(ends(&answer), "{request}: {answer}");
            let read = timeout(PATIENCE, caller.read(&mut [0; 16])).await.unwrap();
            assert!(matches!(read, Ok(0) | Err(_)), "{request}: {read:?}");
        }
    }

    #[tokio::test]
    async fn a_connection_whose_bodies_are_read_goes_on() {
        let mut caller = TcpStream::connect(server()).await.unwrap();
        for request in [
            "POST /read HTTP/1.1\r\nhost: x\r\ncontent-length: 3\r\n\r\nabc",
            "POST /read HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\n\r\n1\r\na\r\n0\r\n\r\n",
            "POST / HTTP/1.1\r\nhost: x\r\ncontent-length: 0\r\n\r\n",
            "GET / HTTP/1.1\r\nhost: x\r\n\r\n",
        ] {
            let answer = ask(&mut caller, request).await;
            assert!(answer.starts_with("HTTP/1.1 200") && !ends(&answer), "{request}: {answer}");
        }
    }
}
