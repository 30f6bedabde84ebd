//! Sentinel: every role finds the master, and follows a change of it.

use std::time::Duration;

use redis::{Value, cmd};
use tenure_connection::{Client, Connection, Error, Event, Subscriber};
use tenure_testing::tls::Authority;
use tenure_testing::{Sentinels, eventually};

const SOON: Duration = Duration::from_secs(60);

fn client(url: &str) -> Client {
    Client::builder(url).response_timeout(Duration::from_secs(2)).build().unwrap()
}

async fn next(subscriber: &mut Subscriber) -> Event {
    tokio::time::timeout(SOON, subscriber.next()).await.expect("an event in time")
}

async fn run_id(redis: &Connection) -> Result<Box<str>, Error> {
    Ok(redis.server().await?.run_id)
}

/// The commands, the blocking reads and the subscription of a client, each of which has been used.
struct Roles {
    redis: Connection,
    blocking: tenure_connection::Blocking,
    subscriber: Subscriber,
}

impl Roles {
    async fn start(client: &Client) -> Self {
        let mut roles = Self {
            redis: client.commands(),
            blocking: client.blocking(),
            subscriber: client.subscriber(["c"]),
        };
        assert!(matches!(next(&mut roles.subscriber).await, Event::Subscribed));
        roles.work().await.unwrap();
        roles
    }

    /// Pushes, pops and publishes, each with its role.
    async fn work(&mut self) -> Result<(), Error> {
        self.redis.command(cmd("RPUSH").arg("list").arg("v")).await?;
        let popped = self.blocking.command(cmd("BLPOP").arg("list").arg(1), Duration::from_secs(1)).await?;
        assert!(matches!(popped, Value::Array(_) | Value::Nil), "{popped:?}");
        self.redis.command(cmd("SPUBLISH").arg("c").arg("m")).await?;
        match tokio::time::timeout(Duration::from_secs(1), self.subscriber.next()).await {
            Ok(Event::Disconnected(error)) => Err(error),
            Ok(Event::Message(_)) => Ok(()),
            _ => Err(Error::TimedOut(Duration::ZERO)),
        }
    }
}

#[tokio::test]
async fn every_role_follows_an_ordered_fail_over() {
    let sentinels = Sentinels::start().await.unwrap();
    let client = client(&sentinels.url());
    let mut roles = Roles::start(&client).await;
    let before = run_id(&roles.redis).await.unwrap();
    sentinels.fail_over().await.unwrap();
    eventually(SOON, "all roles at the new master", async || {
        roles.work().await?;
        // The old master accepts writes until it is told.
        if run_id(&roles.redis).await? == before { Err(Error::TimedOut(Duration::ZERO)) } else { Ok(()) }
    })
    .await;
    assert!(roles.redis.server().await.unwrap().is_master);
}

#[tokio::test]
async fn every_role_follows_a_dead_master_with_tls_and_passwords() {
    let authority = Authority::new().unwrap();
    let sentinels =
        Sentinels::builder().tls(&authority).unwrap().password("secret").sentinel_password("watch");
    let sentinels = sentinels.start().await.unwrap();
    assert!(sentinels.url().starts_with("rediss+sentinel://"));
    let client = Client::builder(&sentinels.url())
        .ca_certificate(authority.ca_pem())
        .sentinel_credentials("", "watch")
        .build()
        .unwrap();
    let mut roles = Roles::start(&client).await;
    let before = run_id(&roles.redis).await.unwrap();
    let old = sentinels.kill_master().await.unwrap();
    sentinels.await_new_master(old).await.unwrap();
    eventually(SOON, "all roles at the new master", async || roles.work().await).await;
    assert_ne!(run_id(&roles.redis).await.unwrap(), before);
}

#[tokio::test]
async fn every_role_follows_when_the_master_hangs() {
    let sentinels = Sentinels::start().await.unwrap();
    let client = client(&sentinels.url());
    let mut roles = Roles::start(&client).await;
    let before = run_id(&roles.redis).await.unwrap();
    let old = sentinels.master().await.unwrap();
    old.pause().unwrap();
    sentinels.await_new_master(old).await.unwrap();
    eventually(SOON, "all roles at the new master", async || roles.work().await).await;
    assert_ne!(run_id(&roles.redis).await.unwrap(), before);
}

#[tokio::test]
async fn a_sentinel_that_is_down_or_silent_is_passed_over() {
    let sentinels = Sentinels::start().await.unwrap();
    sentinels.sentinels()[0].kill().unwrap();
    sentinels.sentinels()[1].pause().unwrap();
    for _ in 0..3 {
        let redis = client(&sentinels.url()).commands().with_response_timeout(SOON);
        redis.command(&cmd("PING")).await.unwrap();
    }
}

#[tokio::test]
async fn a_service_that_the_sentinels_do_not_name_is_not_reached() {
    let sentinels = Sentinels::start().await.unwrap();
    let unknown = sentinels.url().replace("/mymaster", "/nobody");
    let redis = client(&unknown).commands().with_response_timeout(Duration::from_millis(500));
    let error = redis.command(&cmd("PING")).await.unwrap_err();
    assert!(matches!(error, Error::Unreachable(_)) && error.is_transient(), "{error:?}");
    assert!(!error.may_have_executed());

    // The sentinels need no password: a login to them is refused at once.
    let url = format!("{}?sentinel_user=nobody&sentinel_password=x", sentinels.url());
    let redis = client(&url).commands().with_response_timeout(SOON);
    let error = redis.command(&cmd("PING")).await.unwrap_err();
    assert!(matches!(error, Error::Auth(_)), "{error:?}");
}

#[tokio::test]
async fn a_server_that_is_no_master_is_refused() {
    let sentinels = Sentinels::start().await.unwrap();
    let master = sentinels.master().await.unwrap();
    // Demoted behind the backs of the sentinels, which name it until they notice.
    let redis = client(&sentinels.url()).commands().with_response_timeout(SOON);
    redis.command(cmd("SET").arg("k").arg("v")).await.unwrap();
    let replica = sentinels.replica().await.unwrap().url();
    let port = replica.rsplit_once(':').unwrap().1.trim_end_matches('/');
    master.query::<()>(cmd("REPLICAOF").arg("127.0.0.1").arg(port)).unwrap();
    let error = redis.command(cmd("SET").arg("k").arg("v")).await.unwrap_err();
    assert_eq!(error.code(), Some("READONLY"));
    // It is named and connected to again, but gets no command until some server is a master.
    redis.command(cmd("SET").arg("k").arg("v")).await.unwrap();
    assert!(redis.server().await.unwrap().is_master);
}
