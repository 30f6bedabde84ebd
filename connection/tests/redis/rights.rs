//! A user with exactly the rights that the README lists.

use std::time::Duration;

use redis::{Value, cmd};
use tenure_connection::{Class, Client, Error, Event, Script, slot};
use tenure_testing::{Cluster, RedisServer, Sentinels, eventually};

const SOON: Duration = Duration::from_secs(30);
/// The rights that the commands of this test need themselves.
const COMMANDS: [&str; 5] = ["~app:*", "+incr", "+spublish", "+blpop", "+ping"];
const EVERYWHERE: [&str; 5] = ["&app:*", "+evalsha", "+script|load", "+ssubscribe", "+info"];

fn rights(more: &[&'static str]) -> Vec<&'static str> {
    [&COMMANDS[..], &EVERYWHERE[..], more].concat()
}

fn client(url: &str) -> Client {
    Client::builder(url).response_timeout(SOON).connect_timeout(SOON).build().unwrap()
}

/// Everything that a client can do.
async fn all_of_it(client: &Client) {
    let admitted = client.with_admission(|_: &str| true);
    let (redis, script) = (admitted.commands(), Script::new("n", "return redis.call('INCR', KEYS[1])"));
    redis.command(cmd("INCR").arg("app:n")).await.unwrap();
    redis.script::<_, &str>(&script, &["app:n"], &[]).await.unwrap();
    let results = redis.pipeline().call(script.call(&["app:n"])).command(cmd("PING")).send().await;
    assert!(results.iter().all(Result::is_ok), "{results:?}");
    redis.server_of("app:n").await.unwrap();
    let read = cmd("BLPOP").arg("app:l").arg(0.01).take();
    assert_eq!(admitted.blocking().command(&read, Duration::from_millis(10)).await.unwrap(), Value::Nil);
    let mut subscriber = client.subscriber(["app:c"]);
    let first = tokio::time::timeout(SOON, subscriber.next()).await.unwrap();
    assert!(matches!(first, Event::Subscribed), "{first:?}");
    redis.command(cmd("SPUBLISH").arg("app:c").arg("m")).await.unwrap();
    assert!(matches!(subscriber.next().await, Event::Message(_)));
}

#[tokio::test]
async fn one_server_needs_few_rights() {
    let server = RedisServer::builder().tcp().start().unwrap();
    let url = server.acl_user("app", "p@ss/word", &rights(&["+select"])).unwrap();
    all_of_it(&client(&url)).await;
    all_of_it(&client(&format!("{url}/3"))).await;
    let redis = client(&url).commands();
    for refused in [cmd("GET").arg("app:n"), cmd("INCR").arg("other"), &mut cmd("FLUSHALL")] {
        let error = redis.command(refused).await.unwrap_err();
        assert!(matches!(error, Error::Auth(_)), "{error:?}");
        assert_eq!((error.code(), error.may_have_executed()), (Some("NOPERM"), false));
    }
    let mut subscriber = client(&url).subscriber(["other"]);
    assert!(matches!(subscriber.next().await, Event::Disconnected(Error::Auth(_))));

    let socket = RedisServer::start().unwrap();
    let url = socket.acl_user("app", "p@ss/word", &rights(&[])).unwrap();
    assert!(url.starts_with("redis+unix://"), "{url}");
    all_of_it(&client(&url)).await;
}

#[tokio::test]
async fn a_service_of_sentinels_needs_no_more() {
    let sentinels = Sentinels::start().await.unwrap();
    let url = sentinels.acl_user("app", "secret", &rights(&[])).unwrap();
    all_of_it(&client(&url)).await;
}

#[tokio::test]
async fn a_silent_subscription_needs_no_right_to_ask_for_the_role() {
    let server = RedisServer::start().unwrap();
    let url = server.acl_user("app", "secret", &["&app:*", "+ssubscribe"]).unwrap();
    let mut subscriber = client(&url).subscriber(["app:c"]);
    assert!(matches!(subscriber.next().await, Event::Subscribed));
    let asked = async || {
        let list: String = server.query(cmd("CLIENT").arg("LIST").arg("TYPE").arg("pubsub")).unwrap();
        list.contains("cmd=hello")
    };
    tokio::select! {
        event = subscriber.next() => panic!("{event:?}"),
        () = eventually(SOON, "a question", asked) => {}
    }
    server.query::<()>(cmd("SPUBLISH").arg("app:c").arg("m")).unwrap();
    assert!(matches!(subscriber.next().await, Event::Message(_)));
}

#[tokio::test]
async fn a_cluster_needs_its_slots_and_asking_too() {
    let cluster = Cluster::start().await.unwrap();
    let url = cluster.acl_user("app", "secret", &rights(&["+cluster|slots", "+asking"])).unwrap();
    let client = client(&url);
    all_of_it(&client).await;
    let redis = client.commands();
    let to = (cluster.owner(slot("app:n")).await.unwrap() + 1) % 3;
    let migration = cluster.begin_migration(slot("app:n"), to).await.unwrap();
    while migration.move_keys(10).unwrap() > 0 {}
    redis.command(cmd("INCR").arg("app:n")).await.unwrap();
    // The error says why the user may not ask, and not where it is redirected to.
    let less = cluster.acl_user("less", "secret", &rights(&["+cluster|slots"])).unwrap();
    let error = self::client(&less).commands().command(cmd("INCR").arg("app:n")).await.unwrap_err();
    assert!(matches!(error, Error::Auth(_)), "{error:?}");
    migration.finish().await.unwrap();
    eventually(SOON, "the new owner", async || redis.command(cmd("INCR").arg("app:n")).await).await;
}

#[tokio::test]
async fn a_wrong_password_is_an_error_at_once_wherever_it_is_wrong() {
    let (cluster, sentinels) = tokio::join!(
        Cluster::builder().password("secret").start(),
        Sentinels::builder().password("secret").start()
    );
    let (cluster, sentinels) = (cluster.unwrap(), sentinels.unwrap());
    for url in [cluster.url(), sentinels.url()] {
        let client = client(&url.replace("secret", "guess"));
        let error = client.commands().command(&cmd("PING")).await.unwrap_err();
        assert!(matches!(error, Error::Auth(_)) && error.code() == Some("WRONGPASS"), "{error:?}");
        let error = client.blocking().command(&cmd("PING"), Duration::ZERO).await.unwrap_err();
        assert!(matches!(error, Error::Auth(_)), "{error:?}");
        let event = client.subscriber(["c"]).next().await;
        assert!(matches!(event, Event::Disconnected(Error::Auth(_))), "{event:?}");
        assert!(!format!("{client:?} {error:?}").contains("guess"));
    }
}

#[tokio::test]
async fn a_user_without_a_password_needs_none_in_the_url() {
    let server = RedisServer::builder().tcp().start().unwrap();
    let mut user = cmd("ACL");
    user.arg("SETUSER").arg("app").arg(&["on", "nopass", "~*", "+@all"]);
    let _: Value = server.query(&user).unwrap();
    for login in ["app@", "app:@", "app:anything@"] {
        let url = server.url().replace("redis://", &format!("redis://{login}"));
        let who = client(&url).commands().command(cmd("ACL").arg("WHOAMI")).await.unwrap();
        assert_eq!(who, Value::BulkString(b"app".to_vec()), "{login}");
    }
    let default = server.url();
    for refused in ["me:wrong@", "me@", ":wrong@"] {
        let url = default.replace("redis://", &format!("redis://{refused}"));
        let error = client(&url).commands().command(&cmd("PING")).await.unwrap_err();
        assert_eq!(
            (error.class(), error.may_have_executed()),
            (Class::Refused, false),
            "{refused} {error:?}"
        );
    }
}

#[tokio::test]
async fn a_right_that_a_script_lacks_is_a_missing_right() {
    let server = RedisServer::start().unwrap();
    let script =
        Script::new("adder", "redis.call('SET', KEYS[1], 1) return redis.call('XADD', KEYS[1], '*', 'a', 1)");
    for (user, lacks) in [("one", "-xadd"), ("two", "-evalsha"), ("three", "-set")] {
        let url = server.acl_user(user, "x", &["~*", "&*", "+@all", lacks]).unwrap();
        let redis = client(&url).commands();
        let error = redis.script::<_, &str>(&script, &["k"], &[]).await.unwrap_err();
        assert_eq!((error.class(), error.is_transient()), (Class::Forbidden, false), "{lacks}: {error:?}");
    }
    let url = server.acl_user("four", "x", &["~other:*", "&*", "+@all"]).unwrap();
    let error = client(&url).commands().script::<_, &str>(&script, &["k"], &[]).await.unwrap_err();
    assert_eq!(error.class(), Class::Forbidden, "a key: {error:?}");
}
