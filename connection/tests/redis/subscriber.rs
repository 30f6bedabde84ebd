//! Subscriptions that return, and say so.

use std::time::Duration;

use redis::cmd;
use tenure_connection::{Client, Connection, Error, Event, Subscriber};
use tenure_testing::{Data, RedisServer, eventually};
use tokio::net::TcpListener;

const SOON: Duration = Duration::from_secs(20);

async fn next(subscriber: &mut Subscriber) -> Event {
    tokio::time::timeout(SOON, subscriber.next()).await.expect("an event in time")
}

async fn publish(redis: &Connection, channel: &str, payload: &[u8]) {
    redis.command(cmd("SPUBLISH").arg(channel).arg(payload)).await.unwrap();
}

async fn expect_message(subscriber: &mut Subscriber, channel: &str, payload: &[u8]) {
    match next(subscriber).await {
        Event::Message(message) => {
            assert_eq!((&*message.channel, &message.payload[..]), (channel, payload));
        }
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn messages_come_after_the_subscription_and_after_every_new_one() {
    let server = RedisServer::builder().password("secret").start().unwrap();
    let url = format!("{}&protocol=resp3", server.url());
    let client = Client::builder(&url).response_timeout(SOON).build().unwrap();
    let redis = client.commands();
    let mut subscriber = client.subscriber(["{t}a", "{t}b"]);
    assert!(matches!(next(&mut subscriber).await, Event::Subscribed));
    publish(&redis, "{t}a", b"\xff1").await;
    publish(&redis, "{t}b", b"2").await;
    expect_message(&mut subscriber, "{t}a", b"\xff1").await;
    expect_message(&mut subscriber, "{t}b", b"2").await;

    redis.command(cmd("CLIENT").arg("KILL").arg("TYPE").arg("pubsub")).await.unwrap();
    assert!(matches!(next(&mut subscriber).await, Event::Disconnected(_)));
    assert!(matches!(next(&mut subscriber).await, Event::Subscribed));
    publish(&redis, "{t}b", b"3").await;
    expect_message(&mut subscriber, "{t}b", b"3").await;
}

#[tokio::test]
async fn an_outage_is_reported_once_while_attempts_go_on() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let client = Client::open(&format!("redis://{}", listener.local_addr().unwrap())).unwrap();
    let mut subscriber = client.subscriber(["a"]);
    let hang_up = async |times: u32| {
        for _ in 0..times {
            drop(listener.accept().await.unwrap());
        }
    };
    let (event, ()) = tokio::join!(next(&mut subscriber), hang_up(1));
    assert!(matches!(event, Event::Disconnected(error) if error.is_transient()));
    tokio::select! {
        event = subscriber.next() => panic!("{event:?}"),
        () = hang_up(4) => {}
    }
}

#[tokio::test]
async fn a_server_that_comes_up_is_subscribed_to() {
    let server = RedisServer::start().unwrap();
    let client = Client::builder(&server.url()).response_timeout(SOON).build().unwrap();
    server.kill().unwrap();
    let mut subscriber = client.subscriber(["a"]);
    assert!(matches!(next(&mut subscriber).await, Event::Disconnected(error) if error.is_transient()));
    server.restart(Data::Wipe).unwrap();
    assert!(matches!(next(&mut subscriber).await, Event::Subscribed));
}

#[tokio::test]
async fn a_silent_subscription_notices_a_server_that_stops_answering() {
    let server = RedisServer::start().unwrap();
    let client = Client::builder(&server.url()).response_timeout(Duration::from_millis(300)).build().unwrap();
    let mut subscriber = client.subscriber(["a"]);
    assert!(matches!(next(&mut subscriber).await, Event::Subscribed));
    server.pause().unwrap();
    let event = next(&mut subscriber).await;
    assert!(matches!(event, Event::Disconnected(Error::TimedOut(_))), "{event:?}");
    server.resume().unwrap();
    assert!(matches!(next(&mut subscriber).await, Event::Subscribed));
}

#[tokio::test]
async fn a_silent_subscription_is_asked_and_stays() {
    let server = RedisServer::start().unwrap();
    let client = Client::builder(&server.url()).response_timeout(SOON).build().unwrap();
    let mut subscriber = client.subscriber(["a"]);
    assert!(matches!(next(&mut subscriber).await, Event::Subscribed));
    let asked = async || {
        server
            .query::<String>(cmd("CLIENT").arg("LIST").arg("TYPE").arg("pubsub"))
            .unwrap()
            .contains("cmd=hello")
    };
    tokio::select! {
        event = subscriber.next() => panic!("{event:?}"),
        () = eventually(SOON, "a question", asked) => {}
    }
    publish(&client.commands(), "a", b"m").await;
    expect_message(&mut subscriber, "a", b"m").await;
}

#[tokio::test]
async fn a_master_that_becomes_a_replica_is_left_though_it_delivers() {
    let (server, other) = (RedisServer::start().unwrap(), RedisServer::builder().tcp().start().unwrap());
    let client = Client::builder(&server.url()).response_timeout(SOON).build().unwrap();
    let mut subscriber = client.subscriber(["a"]);
    assert!(matches!(next(&mut subscriber).await, Event::Subscribed));
    let url = other.url();
    let port = url.trim_end_matches('/').rsplit_once(':').unwrap().1;
    server.query::<()>(cmd("REPLICAOF").arg("127.0.0.1").arg(port)).unwrap();
    let event = next(&mut subscriber).await;
    assert!(matches!(&event, Event::Disconnected(error) if error.is_transient()), "{event:?}");
    // A server that is a replica from the beginning is the one that the URL means.
    assert!(matches!(next(&mut subscriber).await, Event::Subscribed));
    let elsewhere = Client::open(&other.url()).unwrap().commands();
    let arrived = eventually(SOON, "the master's message", async || {
        publish(&elsewhere, "a", b"m").await;
        tokio::time::timeout(Duration::from_millis(100), subscriber.next()).await
    });
    assert!(matches!(arrived.await, Event::Message(_)));
}

#[tokio::test]
async fn an_outage_that_somebody_must_mend_is_reported_again() {
    let server = RedisServer::builder().tcp().start().unwrap();
    let client = Client::builder(&server.url()).response_timeout(SOON).build().unwrap();
    let mut subscriber = client.subscriber(["a"]);
    assert!(matches!(next(&mut subscriber).await, Event::Subscribed));
    let redis = client.commands();
    redis.command(cmd("CONFIG").arg("SET").arg("requirepass").arg("new")).await.unwrap();
    redis.command(cmd("CLIENT").arg("KILL").arg("TYPE").arg("pubsub")).await.unwrap();
    assert!(matches!(next(&mut subscriber).await, Event::Disconnected(error) if error.is_transient()));
    let event = next(&mut subscriber).await;
    assert!(matches!(event, Event::Disconnected(Error::Auth(_))), "{event:?}");
    tokio::select! {
        event = subscriber.next() => assert!(matches!(event, Event::Subscribed), "{event:?}"),
        () = eventually(SOON, "other attempts", async || {
            let info: String =
                redis::from_redis_value(redis.command(cmd("INFO").arg("errorstats")).await.unwrap()).unwrap();
            let count = info.lines().find_map(|line| line.strip_prefix("errorstat_NOAUTH:count="));
            count.is_some_and(|count| count.trim().parse::<u32>().unwrap() >= 3)
        }) => {}
    }
}

#[tokio::test]
async fn a_lagging_reader_costs_bounded_memory_and_learns_of_the_gap() {
    let limit = ("client-output-buffer-limit", "pubsub 1mb 0 0");
    let server = RedisServer::builder().config(limit.0, limit.1).start().unwrap();
    let client = Client::builder(&server.url()).response_timeout(SOON).build().unwrap();
    let redis = client.commands();
    let mut subscriber = client.subscriber(["a"]);
    assert!(matches!(next(&mut subscriber).await, Event::Subscribed));
    let payload = vec![b'x'; 64 * 1024];
    let subscribers = async || redis.command(cmd("PUBSUB").arg("SHARDNUMSUB").arg("a")).await.unwrap();
    let connected = subscribers().await;
    // Nobody polls for events: the sockets fill, and the server closes the connection.
    let mut published = 0;
    while subscribers().await == connected {
        publish(&redis, "a", &payload).await;
        published += 1;
        assert!(published < 10_000, "the server never closes it");
    }
    let mut received = 0;
    loop {
        match next(&mut subscriber).await {
            Event::Message(message) => {
                assert_eq!(message.payload.len(), payload.len());
                received += 1;
            }
            Event::Disconnected(error) => break assert!(error.is_transient(), "{error}"),
            event => panic!("{event:?}"),
        }
    }
    assert!(received < published, "{received} of {published}");
    assert!(matches!(next(&mut subscriber).await, Event::Subscribed));
    publish(&redis, "a", b"after").await;
    expect_message(&mut subscriber, "a", b"after").await;
}

#[tokio::test]
async fn a_caller_that_always_looks_elsewhere_is_still_subscribed() {
    let server = RedisServer::start().unwrap();
    let client = Client::builder(&server.url()).response_timeout(SOON).build().unwrap();
    let mut subscriber = client.subscriber(["a"]);
    let polls = async {
        loop {
            // Polled once, and dropped.
            if let Some(event) = futures::FutureExt::now_or_never(subscriber.next()) {
                return event;
            }
            tokio::task::yield_now().await;
        }
    };
    let event = tokio::time::timeout(SOON, polls).await.expect("an event in time");
    assert!(matches!(event, Event::Subscribed), "{event:?}");
}

#[tokio::test]
async fn channels_of_several_slots_are_refused_on_every_server() {
    let server = RedisServer::start().unwrap();
    let mut subscriber = Client::open(&server.url()).unwrap().subscriber(["a", "b"]);
    assert!(matches!(next(&mut subscriber).await, Event::Disconnected(Error::Config { .. })));
    let mut none = Client::open(&server.url()).unwrap().subscriber([""; 0]);
    assert!(matches!(next(&mut none).await, Event::Disconnected(Error::Config { .. })));
}
