//! A proxy passes everything unchanged, and causes exactly the ordered faults.

use std::{io, time::Duration};

use redis::AsyncConnectionConfig;
use tenure_testing::{
    Data, Proxy, RedisServer, eventually,
    proxy::{Cut, Direction},
};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
    time::timeout,
};

const SOON: Duration = Duration::from_secs(20);
/// Long enough for a forbidden byte to arrive.
const NEVER: Duration = Duration::from_millis(100);

const PING: &[u8] = b"PING\r\n";
const PONG: &[u8] = b"+PONG\r\n";

async fn connect(proxy: &Proxy) -> TcpStream {
    TcpStream::connect(("127.0.0.1", proxy.port())).await.unwrap()
}

async fn started() -> (RedisServer, Proxy) {
    let server = RedisServer::start().unwrap();
    let proxy = Proxy::start(&server).await.unwrap();
    (server, proxy)
}

async fn ask(connection: &mut TcpStream, command: &[u8], reply: &[u8]) {
    connection.write_all(command).await.unwrap();
    let mut read = vec![0; reply.len()];
    timeout(SOON, connection.read_exact(&mut read)).await.unwrap().unwrap();
    assert_eq!(read, reply);
}

/// All bytes until the end, and whether the end was a reset.
async fn rest(connection: &mut TcpStream) -> (Vec<u8>, bool) {
    let mut all = Vec::new();
    match timeout(SOON, connection.read_to_end(&mut all)).await.unwrap() {
        Ok(_) => (all, false),
        Err(error) => {
            assert_eq!(error.kind(), io::ErrorKind::ConnectionReset);
            (all, true)
        }
    }
}

async fn nothing_comes(connection: &mut TcpStream) {
    assert!(timeout(NEVER, connection.read_u8()).await.is_err());
}

#[tokio::test]
async fn every_byte_passes_both_ways_whatever_the_server_listens_on() {
    for builder in [RedisServer::builder(), RedisServer::builder().tcp().password("p@ss")] {
        let server = builder.start().unwrap();
        let proxy = Proxy::start(&server).await.unwrap();
        let client = redis::Client::open(proxy.url()).unwrap();
        let config =
            AsyncConnectionConfig::new().set_connection_timeout(Some(SOON)).set_response_timeout(Some(SOON));
        let mut connection = client.get_multiplexed_async_connection_with_config(&config).await.unwrap();
        let value: Vec<u8> = (0..3_000_000_u32).map(|number| (number % 251) as u8).collect();
        redis::cmd("SET").arg("key").arg(&value).exec_async(&mut connection).await.unwrap();
        let back: Vec<u8> = redis::cmd("GET").arg("key").query_async(&mut connection).await.unwrap();
        assert!(back == value);
        let counts = proxy.counts();
        assert!(
            counts.to_server > 3_000_000 && counts.to_client > 3_000_000 && counts.lost == 0,
            "{counts:?}"
        );
        assert_eq!((counts.accepted, counts.open, counts.cut), (1, 1, 0));
    }
}

#[tokio::test]
async fn replies_are_cut_after_the_exact_number_of_bytes() {
    let (_server, proxy) = started().await;
    for bytes in 0..=PONG.len() {
        for reset in [false, true] {
            let cut = Cut::after(Direction::ToClient, bytes as u64);
            proxy.cut_next(if reset { cut.reset() } else { cut });
            let mut connection = connect(&proxy).await;
            let _ = connection.write_all(PING).await;
            let (got, was_reset) = rest(&mut connection).await;
            assert_eq!(got, PONG[..bytes]);
            // A connection that is cut before the command was read cannot end in good order.
            assert!(was_reset == reset || bytes == 0, "after {bytes} bytes, reset: {was_reset}");
        }
    }
    assert_eq!(proxy.counts().cut, 2 * (PONG.len() as u64 + 1));
    let mut spared = connect(&proxy).await;
    ask(&mut spared, PING, PONG).await;
    ask(&mut spared, PING, PONG).await;
}

#[tokio::test]
async fn even_a_reset_cuts_a_long_reply_after_the_exact_bytes() {
    let (server, proxy) = started().await;
    server.query::<()>(redis::cmd("SETRANGE").arg("key").arg(2_000_000).arg("x")).unwrap();
    for bytes in [1, 65_536, 1_234_567] {
        proxy.cut_next(Cut::after(Direction::ToClient, bytes).reset());
        let mut connection = connect(&proxy).await;
        connection.write_all(b"GET key\r\n").await.unwrap();
        let (got, was_reset) = rest(&mut connection).await;
        assert_eq!((got.len() as u64, was_reset), (bytes, true));
    }
}

#[tokio::test]
async fn a_client_that_reads_late_gets_all_that_passed_before_the_end() {
    let (server, proxy) = started().await;
    server.query::<()>(redis::cmd("SETRANGE").arg("key").arg(2_000_000).arg("x")).unwrap();
    for reset in [false, true] {
        let passed = proxy.counts().to_client;
        let cut = Cut::after(Direction::ToClient, 1_000_000);
        proxy.cut_next(if reset { cut.reset() } else { cut });
        let socket = tokio::net::TcpSocket::new_v4().unwrap();
        socket.set_recv_buffer_size(64 * 1024).unwrap();
        let mut connection = socket.connect(([127, 0, 0, 1], proxy.port()).into()).await.unwrap();
        connection.write_all(b"GET key\r\n").await.unwrap();
        // The kernel holds the bytes for which the client has no room.
        eventually(SOON, "the last byte to have passed", async || {
            proxy.counts().to_client == passed + 1_000_000 && proxy.counts().open == 0
        })
        .await;
        connection.write_all(PING).await.unwrap();
        let (got, was_reset) = rest(&mut connection).await;
        assert_eq!((got.len(), was_reset), (1_000_000, reset));
    }
}

#[tokio::test]
async fn an_end_in_good_order_is_no_reset_while_the_client_sends() {
    let (_server, proxy) = started().await;
    let mut connection = connect(&proxy).await;
    ask(&mut connection, PING, PONG).await;
    proxy.pause_one_way(Direction::ToServer);
    connection.write_all(&PING.repeat(20_000)).await.unwrap();
    proxy.cut_open(Cut::after(Direction::ToClient, 0));
    assert_eq!(rest(&mut connection).await, (vec![], false));
}

#[tokio::test]
async fn commands_are_cut_after_the_exact_number_of_bytes() {
    let (server, proxy) = started().await;
    let command = b"INCR n\r\n";
    for bytes in 0..=command.len() {
        for reset in [false, true] {
            let before: Option<u64> = server.query(redis::cmd("GET").arg("n")).unwrap();
            let cut = Cut::after(Direction::ToServer, bytes as u64);
            proxy.cut_next(if reset { cut.reset() } else { cut });
            let mut connection = connect(&proxy).await;
            let _ = connection.write_all(command).await;
            rest(&mut connection).await;
            eventually(SOON, "the server to have seen the end", async || {
                server.clients().unwrap().is_empty() && proxy.counts().open == 0
            })
            .await;
            let executed = u64::from(bytes == command.len());
            let after: Option<u64> = server.query(redis::cmd("GET").arg("n")).unwrap();
            assert_eq!(after.unwrap_or(0), before.unwrap_or(0) + executed, "after {bytes} bytes");
        }
    }
}

#[tokio::test]
async fn each_connection_is_cut_until_the_cuts_are_turned_off() {
    let (_server, proxy) = started().await;
    proxy.cut_each(Cut::after(Direction::ToClient, 3));
    for _ in 0..3 {
        let mut connection = connect(&proxy).await;
        connection.write_all(PING).await.unwrap();
        assert_eq!(rest(&mut connection).await.0, PONG[..3]);
    }
    proxy.resume();
    ask(&mut connect(&proxy).await, PING, PONG).await;
}

#[tokio::test]
async fn open_connections_are_cut_with_their_bytes_counted_from_then() {
    let (server, proxy) = started().await;
    let (mut one, mut two) = (connect(&proxy).await, connect(&proxy).await);
    ask(&mut one, PING, PONG).await;
    ask(&mut two, PING, PONG).await;
    proxy.cut_open(Cut::after(Direction::ToClient, 9));
    let mut three = connect(&proxy).await;
    for connection in [&mut one, &mut two] {
        ask(connection, PING, PONG).await;
        connection.write_all(PING).await.unwrap();
        assert_eq!(rest(connection).await, (b"+P".to_vec(), false));
    }
    for _ in 0..3 {
        ask(&mut three, PING, PONG).await;
    }
    proxy.kill_all();
    assert_eq!(rest(&mut three).await, (vec![], true));
    eventually(SOON, "the server to be left alone", async || server.clients().unwrap().is_empty()).await;
    assert_eq!(proxy.counts().open, 0);
}

#[tokio::test]
async fn a_pause_holds_everything_back_and_loses_nothing() {
    let (_server, proxy) = started().await;
    let mut connection = connect(&proxy).await;
    ask(&mut connection, PING, PONG).await;
    proxy.pause();
    let before = proxy.counts();
    connection.write_all(PING).await.unwrap();
    nothing_comes(&mut connection).await;
    let mut late = connect(&proxy).await;
    late.write_all(PING).await.unwrap();
    nothing_comes(&mut late).await;
    let after = proxy.counts();
    assert_eq!((after.to_server, after.to_client), (before.to_server, before.to_client));
    proxy.resume();
    ask(&mut connection, b"", PONG).await;
    ask(&mut late, b"", PONG).await;
}

#[tokio::test]
async fn one_direction_alone_is_held_back() {
    let (server, proxy) = started().await;
    let mut connection = connect(&proxy).await;
    for (direction, executed) in [(Direction::ToClient, true), (Direction::ToServer, false)] {
        server.query::<()>(&redis::cmd("FLUSHALL")).unwrap();
        ask(&mut connection, PING, PONG).await;
        proxy.pause_one_way(direction);
        connection.write_all(b"INCR n\r\n").await.unwrap();
        nothing_comes(&mut connection).await;
        assert_eq!(server.keys().unwrap().len(), usize::from(executed));
        proxy.resume();
        ask(&mut connection, b"", b":1\r\n").await;
    }
}

#[tokio::test]
async fn dropped_replies_are_lost_although_the_command_was_executed() {
    let (server, proxy) = started().await;
    let mut connection = connect(&proxy).await;
    let mut bystander = connect(&proxy).await;
    ask(&mut connection, PING, PONG).await;
    ask(&mut bystander, PING, PONG).await;
    proxy.drop_replies();
    connection.write_all(b"INCR n\r\n").await.unwrap();
    eventually(SOON, "the reply to be lost", async || proxy.counts().lost == 4).await;
    assert_eq!(server.keys().unwrap(), ["n"]);
    nothing_comes(&mut connection).await;
    proxy.resume();
    // A further reply would answer a question that was not asked.
    assert_eq!(rest(&mut connection).await, (vec![], true));
    ask(&mut bystander, PING, PONG).await;
}

#[tokio::test]
async fn the_reply_to_an_executed_script_is_lost_once() {
    let (server, proxy) = started().await;
    let load = |lua: &str| server.query::<String>(redis::cmd("SCRIPT").arg("LOAD").arg(lua)).unwrap();
    let (counts, other) = (load("return redis.call('INCR', 'n')"), load("return 7"));
    let call = |hash: &str| format!("*3\r\n$7\r\nEVALSHA\r\n$40\r\n{hash}\r\n$1\r\n0\r\n");
    proxy.lose_reply_to([counts.clone()]);
    let (mut connection, mut bystander) = (connect(&proxy).await, connect(&proxy).await);
    ask(&mut bystander, call(&other).as_bytes(), b":7\r\n").await;
    connection.write_all(call(&counts).as_bytes()).await.unwrap();
    assert_eq!(rest(&mut connection).await, (vec![], true));
    assert_eq!(server.query::<u64>(redis::cmd("GET").arg("n")).unwrap(), 1);
    ask(&mut bystander, call(&counts).as_bytes(), b":2\r\n").await;
    assert_eq!(proxy.lost_replies(), [(counts.clone(), 1)].into());
    // When all replies are lost, they are counted as well.
    proxy.drop_replies();
    bystander.write_all(call(&counts).as_bytes()).await.unwrap();
    eventually(SOON, "the reply to be lost", async || proxy.counts().lost == 8).await;
    assert_eq!(proxy.lost_replies(), [(counts, 2)].into());
}

#[tokio::test]
async fn refused_connections_fail_at_once_and_open_ones_stay() {
    let (_server, proxy) = started().await;
    let mut connection = connect(&proxy).await;
    ask(&mut connection, PING, PONG).await;
    for _ in 0..3 {
        proxy.refuse().await;
        let refused = TcpStream::connect(("127.0.0.1", proxy.port())).await.unwrap_err();
        assert_eq!(refused.kind(), io::ErrorKind::ConnectionRefused);
        ask(&mut connection, PING, PONG).await;
        proxy.accept().await;
        ask(&mut connect(&proxy).await, PING, PONG).await;
    }
}

#[tokio::test]
async fn a_server_may_be_killed_and_replaced_behind_its_proxy() {
    let (server, proxy) = started().await;
    let mut connection = connect(&proxy).await;
    ask(&mut connection, b"SET key one\r\n", b"+OK\r\n").await;
    server.kill().unwrap();
    assert_eq!(rest(&mut connection).await.0, b"");
    let mut hopeless = connect(&proxy).await;
    assert_eq!(rest(&mut hopeless).await, (vec![], true));
    server.restart(Data::Wipe).unwrap();
    let mut connection = connect(&proxy).await;
    ask(&mut connection, b"EXISTS key\r\n", b":0\r\n").await;
    let other = RedisServer::builder().tcp().start().unwrap();
    other.query::<()>(redis::cmd("SET").arg("key").arg("two")).unwrap();
    proxy.redirect(&other);
    ask(&mut connection, b"EXISTS key\r\n", b":0\r\n").await;
    ask(&mut connect(&proxy).await, b"EXISTS key\r\n", b":1\r\n").await;
}

#[tokio::test]
async fn the_end_of_either_side_ends_the_other() {
    let (server, proxy) = started().await;
    let mut connection = connect(&proxy).await;
    connection.write_all(b"INCR n\r\n").await.unwrap();
    drop(connection);
    eventually(SOON, "the server to see that its client has gone", async || {
        proxy.counts().to_server == 8 && server.clients().unwrap().is_empty()
    })
    .await;
    assert_eq!(server.keys().unwrap(), ["n"]);
    let mut connection = connect(&proxy).await;
    ask(&mut connection, PING, PONG).await;
    server.query::<()>(redis::cmd("CLIENT").arg("KILL").arg("TYPE").arg("normal")).unwrap();
    assert_eq!(rest(&mut connection).await, (vec![], false));
}

#[tokio::test]
async fn a_dropped_proxy_leaves_no_task_and_no_connection() {
    let (server, proxy) = started().await;
    let before = tokio::runtime::Handle::current().metrics().num_alive_tasks() - 1;
    let mut connection = connect(&proxy).await;
    ask(&mut connection, PING, PONG).await;
    drop(proxy);
    rest(&mut connection).await;
    eventually(SOON, "tasks and connections to be gone", async || {
        server.clients().unwrap().is_empty()
            && tokio::runtime::Handle::current().metrics().num_alive_tasks() == before
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn no_byte_passes_after_a_switch_has_stopped_it() {
    let (_server, proxy) = started().await;
    let mut writers = tokio::task::JoinSet::new();
    for _ in 0..4 {
        let mut connection = connect(&proxy).await;
        writers.spawn(async move {
            loop {
                ask(&mut connection, PING, PONG).await;
            }
        });
    }
    for _ in 0..50 {
        let passed = proxy.counts().to_server;
        eventually(SOON, "commands to pass", async || proxy.counts().to_server > passed + 100).await;
        proxy.pause();
        let held = proxy.counts();
        // Time for bytes that are not held.
        for _ in 0..100 {
            tokio::task::yield_now().await;
        }
        assert_eq!(proxy.counts(), held);
        proxy.resume();
    }
    writers.shutdown().await;
}
