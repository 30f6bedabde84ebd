//! Events as they come.

use serde_json::{Value, json};
use tenure_testing::{Data, RedisServer, eventually};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, Lines};
use tokio::net::TcpStream;
use tokio::time::timeout;

use super::world::{PATIENCE, World};

struct Stream {
    lines: Lines<BufReader<TcpStream>>,
    status: u16,
}

#[derive(Debug)]
struct News {
    kind: String,
    id: String,
    data: Value,
}

impl Stream {
    async fn open(world: &World, last: Option<&str>) -> Self {
        let mut stream = TcpStream::connect(&world.page.address).await.unwrap();
        let last = last.map(|id| format!("last-event-id: {id}\r\n")).unwrap_or_default();
        let request = format!("GET /v1/events/stream HTTP/1.1\r\nhost: {}\r\n{last}\r\n", world.page.address);
        stream.write_all(request.as_bytes()).await.unwrap();
        let mut lines = BufReader::new(stream).lines();
        let first = timeout(PATIENCE, lines.next_line()).await.unwrap().unwrap().unwrap();
        Self { lines, status: first.split(' ').nth(1).unwrap().parse().unwrap() }
    }

    /// The next event, past those of other kinds.
    async fn next(&mut self, wanted: &[&str]) -> News {
        let (mut kind, mut id, mut data) = (String::new(), String::new(), Value::Null);
        loop {
            let line = timeout(PATIENCE, self.lines.next_line()).await.expect("an event");
            let line = line.unwrap().expect("the stream goes on");
            match line.split_once(':') {
                Some(("event", value)) => value.trim().clone_into(&mut kind),
                Some(("id", value)) => value.trim().clone_into(&mut id),
                Some(("data", value)) => data = serde_json::from_str(value).unwrap(),
                _ if line.is_empty() && wanted.contains(&kind.as_str()) => return News { kind, id, data },
                _ => {}
            }
        }
    }
}

/// The number of an event.
fn number(id: &str) -> u64 {
    id.rsplit_once('-').unwrap().1.parse().unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stream_goes_on_behind_what_was_seen() {
    let world = World::new(1).await;
    let mut stream = Stream::open(&world, None).await;
    assert_eq!(stream.next(&["ready"]).await.kind, "ready");
    world.node.dispatch(("acme", "x")).await.unwrap();
    world.node.operate().park("acme", "one").await.unwrap();
    let mut asked = async |text: &str| loop {
        let news = stream.next(&["event"]).await;
        if news.data["text"] == json!(text) {
            return news.id;
        }
    };
    let first = asked("park: one").await;
    drop(stream);
    world.node.operate().retry("acme").await.unwrap();
    world.node.operate().park("acme", "two").await.unwrap();
    let mut again = Stream::open(&world, Some(&first)).await;
    let news = again.next(&["event", "resync", "ready"]).await;
    assert_eq!((news.kind.as_str(), number(&news.id)), ("event", number(&first) + 1));
    let mut last = news;
    while last.data["text"] != json!("park: two") {
        let news = again.next(&["event"]).await;
        assert_eq!(number(&news.id), number(&last.id) + 1, "none is left out");
        last = news;
    }
    // An id of another process, or rubbish, means to read all anew.
    for strange in ["af-7", "rubbish"] {
        let mut other = Stream::open(&world, Some(strange)).await;
        assert_eq!(other.next(&["event", "resync", "ready"]).await.kind, "resync");
    }
}

/// How many connections wait in a read that the server holds.
fn held(server: &RedisServer) -> usize {
    server.clients().unwrap().iter().filter(|client| client.flags.contains('b')).count()
}

#[tokio::test(flavor = "multi_thread")]
async fn all_who_look_share_a_read_that_the_server_holds() {
    let world = World::new(1).await;
    let mut streams = Vec::new();
    for _ in 0..3 {
        streams.push(Stream::open(&world, None).await);
    }
    for stream in &mut streams {
        assert_eq!(stream.next(&["ready"]).await.kind, "ready");
    }
    // The node's own reads end with it.
    world.node.abandon();
    world.node.closed().await;
    eventually(PATIENCE, "one held read", async || held(&world.server) == 1).await;
    let before = world.calls("xrange");
    for _ in 0..20 {
        world.json("/v1/events").await;
        world.json("/v1/moves").await;
    }
    // A look takes two. One may be under way, and another one is due every 10 s.
    let after = world.calls("xrange");
    assert!(after <= before + 4, "{before} to {after}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stream_outlives_a_restart_of_redis() {
    let world = World::new(0).await;
    let mut stream = Stream::open(&world, None).await;
    stream.next(&["ready"]).await;
    world.node.operate().cordon("x").await.unwrap();
    let mut last = stream.next(&["event"]).await;
    while last.data["text"] != json!("cordon of x") {
        last = stream.next(&["event"]).await;
    }
    world.server.restart(Data::Keep).unwrap();
    eventually(PATIENCE, "the node to write again", async || world.node.operate().uncordon("x").await).await;
    while last.data["text"] != json!("no cordon of x") {
        let news = stream.next(&["event", "resync", "ready"]).await;
        assert_eq!((news.kind.as_str(), number(&news.id)), ("event", number(&last.id) + 1));
        last = news;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn streams_are_bounded_and_leave_room_for_requests() {
    let world = World::new(0).await;
    let mut streams = Vec::new();
    for _ in 0..150 {
        streams.push(Stream::open(&world, None).await);
    }
    let taken = streams.iter().filter(|stream| stream.status == 200).count();
    let refused = streams.iter().filter(|stream| stream.status == 429).count();
    assert_eq!((taken, refused), (64, 86));
    assert_eq!(world.get("/v1/pool").await.status, 200);
    drop(streams);
    let free = async || (Stream::open(&world, None).await.status == 200).then_some(());
    eventually(PATIENCE, "room for another one", free).await;
}
