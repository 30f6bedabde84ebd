//! Subscriptions that come back, and say so.
#![allow(missing_docs, clippy::unwrap_used, clippy::expect_used)]

use std::time::Duration;

use redis::cmd;
use tenure_connection::{Client, Connection, Error, Event, Subscriber};
use tenure_testing::{Data, RedisServer};
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
async fn an_outage_is_said_once_while_attempts_go_on() {
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
async fn a_server_that_stopped_answering_is_noticed_by_a_silent_subscription() {
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
