//! Commands and scripts: deadlines, reconnects, error classes.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use futures::FutureExt;
use redis::{Value, cmd};
use tenure_connection::{Client, Connection, Error, Script};
use tenure_testing::{Data, RedisServer, eventually};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;

const SOON: Duration = Duration::from_secs(20);

fn client(server: &RedisServer, response: Duration) -> Client {
    Client::builder(&server.url()).response_timeout(response).build().unwrap()
}

async fn ping(redis: &Connection) -> Result<Value, Error> {
    redis.command(&cmd("PING")).await
}

async fn client_id(redis: &Connection) -> i64 {
    match redis.command(cmd("CLIENT").arg("ID")).await.unwrap() {
        Value::Int(id) => id,
        other => panic!("{other:?}"),
    }
}

#[test]
fn an_unusable_url_or_setting_is_refused_without_a_network() {
    for url in
        ["", "nonsense", "http://localhost", "rediss+unix:///a", "redis://", "redis://localhost/notanumber"]
    {
        assert!(matches!(Client::open(url), Err(Error::Config { .. })), "{url}");
    }
    let zero = Client::builder("redis://localhost").connect_timeout(Duration::ZERO).build();
    assert!(matches!(zero, Err(Error::Config { source: None, .. })));
    for url in ["redis://localhost", "redis+unix:///tmp/no.sock", "unix:///tmp/no.sock"] {
        assert!(Client::open(url).is_ok(), "{url}");
    }
}

#[tokio::test]
async fn a_call_to_a_paused_server_ends_at_its_deadline() {
    let server = RedisServer::start().unwrap();
    let redis = client(&server, Duration::from_millis(200)).commands();
    ping(&redis).await.unwrap();
    server.pause().unwrap();
    let error = tokio::time::timeout(SOON, ping(&redis)).await.expect("bounded").unwrap_err();
    assert!(matches!(error, Error::TimedOut(_)), "{error}");
    assert!(error.may_have_executed() && error.is_transient());
    server.resume().unwrap();
    eventually(SOON, "an answer of the resumed server", async || ping(&redis).await).await;
}

#[tokio::test]
async fn a_call_may_have_another_deadline_than_its_client() {
    let server = RedisServer::start().unwrap();
    let redis = client(&server, Duration::from_secs(600)).commands();
    server.pause().unwrap();
    let hasty = redis.clone().with_response_timeout(Duration::from_millis(100));
    assert!(tokio::time::timeout(SOON, ping(&hasty)).await.expect("bounded").is_err());
    server.resume().unwrap();
    ping(&redis).await.unwrap();
}

#[tokio::test]
async fn a_call_to_a_dead_server_waits_until_its_deadline_unsent() {
    let server = RedisServer::start().unwrap();
    let hasty = client(&server, Duration::from_millis(300)).commands();
    ping(&hasty).await.unwrap();
    server.kill().unwrap();
    let error = eventually(SOON, "the lost connection to be noticed", async || match ping(&hasty).await {
        Err(error @ Error::Unreachable(_)) => Some(error),
        _ => None,
    })
    .await;
    assert!(!error.may_have_executed() && error.is_transient());

    let patient = client(&server, Duration::from_secs(60)).commands();
    let calls: Vec<_> = (0..8)
        .map(|_| {
            let patient = patient.clone();
            tokio::spawn(async move { ping(&patient).await })
        })
        .collect();
    server.restart(Data::Wipe).unwrap();
    for call in calls {
        assert_eq!(call.await.unwrap().unwrap(), Value::SimpleString("PONG".into()));
    }
    eventually(SOON, "the first connection to be back", async || ping(&hasty).await).await;
}

#[tokio::test]
async fn a_closed_idle_connection_is_replaced_before_it_is_used() {
    let server = RedisServer::start().unwrap();
    let client = client(&server, Duration::from_secs(60));
    let (redis, other) = (client.commands(), client.dedicated());
    let id = client_id(&redis).await;
    other.command(cmd("CLIENT").arg("KILL").arg("ID").arg(id)).await.unwrap();
    // The runtime must see the end of the stream once.
    eventually(SOON, "a new connection", async || ping(&redis).await).await;
    assert_ne!(client_id(&redis).await, id);
}

#[tokio::test]
async fn a_server_that_hangs_up_is_not_hammered() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("redis://{}", listener.local_addr().unwrap());
    let accepted = Arc::new(AtomicUsize::new(0));
    let count = accepted.clone();
    let server = tokio::spawn(async move {
        loop {
            drop(listener.accept().await.unwrap());
            count.fetch_add(1, Ordering::SeqCst);
        }
    });
    let redis =
        Client::builder(&url).response_timeout(Duration::from_millis(200)).build().unwrap().commands();
    let start = Instant::now();
    while start.elapsed() < Duration::from_millis(600) {
        assert!(ping(&redis).await.unwrap_err().is_transient());
    }
    // The pauses are at least 10, 20, 40, 80, 160 and 250 ms: the slowest machine makes fewer attempts.
    assert!(accepted.load(Ordering::SeqCst) <= 10, "{accepted:?}");
    server.abort();
}

#[tokio::test]
async fn a_server_that_accepts_and_is_silent_gets_no_command() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("redis://{}", listener.local_addr().unwrap());
    let redis =
        Client::builder(&url).response_timeout(Duration::from_millis(100)).build().unwrap().commands();
    let error = tokio::time::timeout(SOON, ping(&redis)).await.expect("bounded").unwrap_err();
    assert!(matches!(error, Error::Unreachable(_)) && !error.may_have_executed(), "{error:?}");
}

#[tokio::test]
async fn a_login_that_is_not_understood_is_not_repeated_in_the_error() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("redis://me:secret@{}", listener.local_addr().unwrap());
    let client = Client::builder(&url).response_timeout(SOON).build().unwrap();
    let server = async {
        let (mut stream, _) = listener.accept().await.unwrap();
        let repeated = b"-ERR unknown command 'AUTH', with args beginning with: 'me' 'secret' \r\n";
        stream.write_all(repeated).await.unwrap();
        std::future::pending::<()>().await;
    };
    let redis = client.commands();
    tokio::select! {
        reply = ping(&redis) => {
            let error = reply.unwrap_err();
            assert_eq!(error.code(), Some("ERR"));
            assert!(!format!("{error} {error:?}").contains("secret"), "{error:?}");
        }
        () = server => {}
    }
}

#[tokio::test]
async fn an_attempt_to_connect_needs_no_waiter_but_its_client() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("redis://{}", listener.local_addr().unwrap());
    let alive = || tokio::runtime::Handle::current().metrics().num_alive_tasks();
    let before = alive();
    let client = Client::builder(&url).connect_timeout(10 * SOON).response_timeout(SOON).build().unwrap();
    // Polled once, and dropped.
    assert!(ping(&client.commands()).now_or_never().is_none());
    let (mut stream, _) = listener.accept().await.unwrap();
    stream.write_all(b"*2\r\n$4\r\nrole\r\n$6\r\nmaster\r\n").await.unwrap();
    let mut heard = [0; 1024];
    let hello = tokio::time::timeout(SOON, stream.read(&mut heard)).await.unwrap().unwrap();
    assert!(hello > 0);
    // The connection was made meanwhile: it carries the command next, and no other connection was tried.
    let redis = client.commands();
    let command = cmd("PING");
    let (reply, ()) = tokio::join!(ping(&redis), async {
        let length = command.get_packed_command().len();
        tokio::time::timeout(SOON, stream.read_exact(&mut heard[..length])).await.unwrap().unwrap();
        stream.write_all(b"+PONG\r\n").await.unwrap();
    });
    assert!(reply.is_ok(), "{reply:?}");
    drop((stream, redis));
    assert!(ping(&client.commands().with_response_timeout(Duration::from_millis(50))).await.is_err());
    drop(client);
    eventually(SOON, "no task", async || alive() <= before).await;
}

#[tokio::test]
async fn a_server_that_never_answers_costs_no_more_than_the_deadline() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("redis://:secret@{}/3", listener.local_addr().unwrap());
    let redis =
        Client::builder(&url).response_timeout(Duration::from_millis(100)).build().unwrap().commands();
    let calls = futures::future::join_all((0..20).map(|_| ping(&redis)));
    for result in tokio::time::timeout(SOON, calls).await.expect("bounded") {
        assert!(matches!(result, Err(Error::Unreachable(_))), "{result:?}");
    }
}

#[tokio::test]
async fn a_script_is_loaded_when_the_server_does_not_know_it() {
    let server = RedisServer::start().unwrap();
    let redis = client(&server, Duration::from_secs(60)).commands();
    let script = Script::new("count", "return redis.call('INCRBY', KEYS[1], ARGV[1])");
    let mut call = script.call(&["n"]);
    call.arg(2);
    assert_eq!(redis.call(&call).await.unwrap(), Value::Int(2));
    redis.command(cmd("SCRIPT").arg("FLUSH")).await.unwrap();
    assert_eq!(redis.call(&call).await.unwrap(), Value::Int(4), "executed exactly once");
    server.restart(Data::Wipe).unwrap();
    let count =
        eventually(SOON, "the script on the new server", async || redis.script(&script, &["n"], &[5]).await)
            .await;
    assert_eq!(count, Value::Int(5));
}

#[tokio::test]
async fn codes_of_the_server_and_of_scripts_are_kept() {
    let server = RedisServer::start().unwrap();
    let redis = client(&server, Duration::from_secs(60)).commands();
    redis.command(cmd("SET").arg("k").arg("v")).await.unwrap();
    let error = redis.command(cmd("XLEN").arg("k")).await.unwrap_err();
    assert_eq!(error.code(), Some("WRONGTYPE"));
    assert!(!error.may_have_executed() && !error.is_transient());
    let fenced = Script::new("fenced", "return redis.error_reply('FENCED stale epoch')");
    let error = redis.script::<&str, &str>(&fenced, &[], &[]).await.unwrap_err();
    assert!(
        matches!(&error, Error::Server { code, detail } if &**code == "FENCED" && &**detail == "stale epoch"),
        "{error}"
    );
}

#[tokio::test]
async fn wrong_credentials_are_a_typed_error_at_once() {
    let server = RedisServer::builder().tcp().password("secret").start().unwrap();
    let (_, address) = server.url().split_once('@').map(|(a, b)| (a.to_owned(), b.to_owned())).unwrap();
    for (url, code) in [
        (format!("redis://:wrong@{address}"), "WRONGPASS"),
        (format!("redis://nobody:secret@{address}"), "WRONGPASS"),
        (format!("redis://{address}"), "NOAUTH"),
    ] {
        let redis = Client::builder(&url).response_timeout(SOON).build().unwrap().commands();
        let error = ping(&redis).await.unwrap_err();
        assert!(matches!(error, Error::Auth(_)), "{error}");
        assert_eq!(error.code(), Some(code));
        assert!(!error.may_have_executed() && !error.is_transient());
        assert!(!format!("{error:?} {redis:?}").contains("wrong"));
    }
    ping(&client(&server, SOON).commands()).await.unwrap();
}

#[tokio::test]
async fn a_database_is_selected_on_every_connection() {
    let server = RedisServer::builder().tcp().start().unwrap();
    // A protocol in the URL changes nothing: replies keep one shape.
    let redis = Client::open(&format!("{}/3?protocol=resp3", server.url())).unwrap().commands();
    redis.command(cmd("SET").arg("k").arg("v")).await.unwrap();
    redis.command(cmd("HSET").arg("h").arg("f").arg("v")).await.unwrap();
    assert!(matches!(redis.command(cmd("HGETALL").arg("h")).await.unwrap(), Value::Array(_)));
    let other = Client::open(&server.url()).unwrap().commands();
    assert_eq!(other.command(cmd("EXISTS").arg("k")).await.unwrap(), Value::Int(0));
    let missing = Client::open(&format!("{}/99", server.url())).unwrap().commands();
    assert_eq!(ping(&missing).await.unwrap_err().code(), Some("ERR"));
}

#[tokio::test]
async fn a_demoted_master_is_left() {
    let server = RedisServer::start().unwrap();
    let redis = client(&server, Duration::from_secs(60)).commands();
    let before = client_id(&redis).await;
    redis.command(cmd("REPLICAOF").arg("127.0.0.1").arg("1")).await.unwrap();
    let error = redis.command(cmd("SET").arg("k").arg("v")).await.unwrap_err();
    assert_eq!(error.code(), Some("READONLY"));
    assert!(error.is_transient() && !error.may_have_executed());
    assert_ne!(client_id(&redis).await, before, "another connection");
    assert!(!redis.server().await.unwrap().is_master);
}

#[tokio::test]
async fn a_lone_replica_is_not_left_at_every_write() {
    let server = RedisServer::start().unwrap();
    let redis = client(&server, Duration::from_secs(60)).commands();
    redis.command(cmd("REPLICAOF").arg("127.0.0.1").arg("1")).await.unwrap();
    let (before, start) = (client_id(&redis).await, Instant::now());
    for _ in 0..200 {
        let error = redis.command(cmd("SET").arg("k").arg("v")).await.unwrap_err();
        assert_eq!(error.code(), Some("READONLY"));
        redis.command(cmd("GET").arg("k")).await.unwrap();
    }
    // Connections are numbered; at most one is made in 500 ms.
    let made = client_id(&redis).await - before;
    let most = i64::try_from(start.elapsed().as_millis() / 500 + 2).unwrap();
    assert!((1..=most).contains(&made), "{made} of {most}");
}

#[tokio::test]
async fn the_server_tells_who_it_is_and_what_happened_to_it() {
    let server = RedisServer::builder().append_only().start().unwrap();
    let redis = client(&server, Duration::from_secs(60)).commands();
    let info = redis.server().await.unwrap();
    assert!(info.version.major >= 7, "{}", info.version);
    assert_eq!(info.run_id.len(), 40);
    assert_eq!(&*info.maxmemory_policy, "noeviction");
    assert!(info.is_master && info.appendonly && !info.flushed && !info.was_promoted());
    redis.command(&cmd("FLUSHALL")).await.unwrap();
    assert!(redis.server().await.unwrap().flushed);
}

#[tokio::test]
async fn a_dropped_connection_is_closed() {
    let server = RedisServer::start().unwrap();
    let watcher = client(&server, Duration::from_secs(60)).commands();
    let client = client(&server, Duration::from_secs(60));
    let redis = client.dedicated();
    ping(&redis).await.unwrap();
    ping(&client.commands()).await.unwrap();
    let list = async || match watcher.command(cmd("CLIENT").arg("LIST")).await.unwrap() {
        Value::BulkString(text) => String::from_utf8(text).unwrap().lines().count(),
        other => panic!("{other:?}"),
    };
    assert_eq!(list().await, 3);
    drop((redis, client));
    eventually(SOON, "only the watcher to be connected", async || list().await == 1).await;
}

#[tokio::test]
async fn connections_have_the_name_of_their_client() {
    let server = RedisServer::start().unwrap();
    let plain = client(&server, SOON);
    let named = plain.with_name("tenure:a b\n:c");
    let redis = named.commands();
    ping(&redis).await.unwrap();
    let mut subscriber = named.subscriber(["news"]);
    assert!(matches!(subscriber.next().await, tenure_connection::Event::Subscribed));
    let mut blocking = named.blocking();
    blocking.command(&cmd("PING"), SOON).await.unwrap();
    let Value::BulkString(list) = plain.commands().command(cmd("CLIENT").arg("LIST")).await.unwrap() else {
        panic!("no list")
    };
    let list = String::from_utf8(list).unwrap();
    assert_eq!(list.matches(" name=tenure:ab:c ").count(), 3, "{list}");
    assert_eq!(list.matches(" name= ").count(), 1, "{list}");
}
