//! Connections cut at any byte: each reply is the right one or missing, and nothing is sent twice.

use std::time::Duration;

use redis::{Cmd, Value, cmd};
use tenure_connection::{Client, Connection, Error, Event, Script};
use tenure_testing::proxy::{Cut, Direction};
use tenure_testing::{Proxy, RedisServer, eventually};

const SOON: Duration = Duration::from_secs(20);
const BOTH: [Direction; 2] = [Direction::ToServer, Direction::ToClient];

async fn world() -> (RedisServer, Proxy, Client) {
    let server = RedisServer::builder().password("secret").start().unwrap();
    let proxy = Proxy::start(&server).await.unwrap();
    let client = Client::builder(&proxy.url()).response_timeout(SOON).connect_timeout(SOON).build().unwrap();
    (server, proxy, client)
}

fn get(key: &str) -> Cmd {
    cmd("GET").arg(key).take()
}

fn count(server: &RedisServer, key: &str) -> i64 {
    server.query::<Option<i64>>(&get(key)).unwrap().unwrap_or(0)
}

/// Sends many different commands at once; fails when a reply belongs to another command. Returns how many of the
/// counted commands were executed, and how many may have been.
async fn mix(redis: &Connection) -> (i64, i64) {
    let add = Script::new("add", "return {KEYS[1], redis.call('INCR', KEYS[2])}");
    let mut pipeline = redis.pipeline();
    pipeline
        .command(get("b"))
        .call(add.call(&["b", "n"]))
        .command(cmd("XLEN").arg("a").take())
        .command(get("c"));
    let (alone, call, of_a) = (get("a"), add.call(&["a", "n"]), get("a"));
    let (one, two, three, many) =
        tokio::join!(redis.command(&alone), redis.call(&call), redis.command(&of_a), pipeline.send(),);
    let mut executed = (0, 0);
    let mut expect_call = |result: &Result<Value, Error>, key: &str| match result {
        Ok(Value::Array(values)) => {
            assert_eq!(values[0], Value::BulkString(key.into()));
            executed.0 += 1;
        }
        Err(error) if error.may_have_executed() => executed.1 += 1,
        Err(error) => assert!(error.is_transient(), "{error:?}"),
        other => panic!("{other:?}"),
    };
    expect_call(&two, "a");
    expect_call(&many[1], "b");
    let expect_text = |result: &Result<Value, Error>, text: &str| match result {
        Ok(value) => assert_eq!(*value, Value::BulkString(text.into())),
        Err(error) => assert!(error.is_transient(), "{error:?}"),
    };
    expect_text(&one, "is a");
    expect_text(&three, "is a");
    expect_text(&many[0], "is b");
    expect_text(&many[3], "is c");
    match &many[2] {
        Ok(value) => panic!("{value:?}"),
        Err(error) => assert!(error.code() == Some("WRONGTYPE") || error.is_transient(), "{error:?}"),
    }
    executed
}

#[tokio::test]
async fn a_cut_at_any_byte_gives_no_wrong_reply_and_no_repetition() {
    let (server, proxy, client) = world().await;
    for key in ["a", "b", "c"] {
        server.query::<()>(cmd("SET").arg(key).arg(format!("is {key}"))).unwrap();
    }
    for direction in BOTH {
        let mut whole = 0;
        for bytes in 0.. {
            server.query::<()>(cmd("SCRIPT").arg("FLUSH")).unwrap();
            let (before, cuts) = (count(&server, "n"), proxy.counts().cut);
            let cut = Cut::after(direction, bytes);
            proxy.cut_next(if bytes % 2 == 0 { cut } else { cut.reset() });
            let (sure, perhaps) = mix(&client.dedicated()).await;
            let added = count(&server, "n") - before;
            assert!(
                (sure..=sure + perhaps).contains(&added),
                "{direction:?} {bytes}: {sure} {perhaps} {added}"
            );
            if proxy.counts().cut == cuts {
                whole += 1;
            }
            // Nothing was cut: the cuts have covered all bytes of the exchange.
            if whole > 2 {
                break;
            }
        }
    }
}

#[tokio::test]
async fn a_blocking_read_cut_at_any_byte_gives_an_entry_or_an_error() {
    let (server, proxy, client) = world().await;
    server.query::<()>(cmd("XADD").arg("s").arg("*").arg("field").arg("value")).unwrap();
    let read = cmd("XREAD").arg("BLOCK").arg(1000).arg("STREAMS").arg("s").arg("0").take();
    let whole = client.blocking().command(&read, Duration::from_secs(1)).await.unwrap();
    for direction in BOTH {
        for bytes in 0.. {
            let cuts = proxy.counts().cut;
            proxy.cut_next(Cut::after(direction, bytes));
            let mut blocking = client.blocking();
            match blocking.command(&read, Duration::from_secs(1)).await {
                Ok(value) => assert_eq!(value, whole, "{direction:?} {bytes}"),
                Err(error) => assert!(error.is_transient(), "{direction:?} {bytes}: {error:?}"),
            }
            if proxy.counts().cut == cuts {
                break;
            }
            // The next read finds a cut that came behind the reply.
            let again = eventually(SOON, "the next read", async || {
                blocking.command(&read, Duration::from_secs(1)).await
            });
            assert_eq!(again.await, whole);
        }
    }
}

#[tokio::test]
async fn a_subscription_cut_at_any_byte_returns_and_reports_it() {
    let (server, proxy, client) = world().await;
    let publish = |payload: &str| server.query::<i64>(cmd("SPUBLISH").arg("c").arg(payload)).unwrap();
    for direction in BOTH {
        for bytes in 0.. {
            let cuts = proxy.counts().cut;
            proxy.cut_next(Cut::after(direction, bytes));
            let mut subscriber = client.subscriber(["c"]);
            let mut next = async || tokio::time::timeout(SOON, subscriber.next()).await.expect("an event");
            let mut subscribed = false;
            loop {
                match next().await {
                    Event::Subscribed => {
                        subscribed = true;
                        publish("first");
                        publish("last");
                    }
                    Event::Disconnected(error) => {
                        assert!(error.is_transient(), "{direction:?} {bytes}: {error:?}");
                        subscribed = false;
                    }
                    Event::Message(message) => {
                        assert!(subscribed && *message.channel == *"c");
                        match &message.payload[..] {
                            b"first" => {}
                            b"last" => break,
                            other => panic!("{direction:?} {bytes}: {}", other.escape_ascii()),
                        }
                    }
                    other => panic!("{other:?}"),
                }
            }
            if proxy.counts().cut == cuts {
                break;
            }
        }
    }
}
