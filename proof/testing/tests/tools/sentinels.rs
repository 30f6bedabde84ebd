//! Sentinels, their master and their replica connect, fail over, and leave nothing behind.

use std::time::Duration;

use redis::cmd;
use tenure_testing::{Data, RedisServer, Sentinels, eventually, sentinels::SERVICE, tls::Authority};

const SOON: Duration = Duration::from_secs(60);

fn set(server: &RedisServer, value: &str) -> Result<(), tenure_testing::Error> {
    server.query(cmd("SET").arg("key").arg(value))
}

fn get(server: &RedisServer) -> Option<String> {
    server.query(cmd("GET").arg("key")).unwrap()
}

fn port(server: &RedisServer) -> u16 {
    server.url().rsplit(':').next().unwrap().parse().unwrap()
}

/// The port of the first sentinel in the address.
fn named(url: &str) -> u16 {
    let (hosts, service) = url.split_once("redis+sentinel://").unwrap().1.split_once('/').unwrap();
    assert_eq!((hosts.split(',').count(), service), (3, SERVICE));
    let hosts = hosts.rsplit('@').next().unwrap();
    let mut ports = Vec::new();
    for host in hosts.split(',') {
        let client = redis::Client::open(format!("redis://{host}")).unwrap();
        let mut question = cmd("SENTINEL");
        question.arg("GET-MASTER-ADDR-BY-NAME").arg(service);
        let (host, port): (String, u16) = question.query(&mut client.get_connection().unwrap()).unwrap();
        assert_eq!(host, "127.0.0.1");
        ports.push(port);
    }
    assert!(ports.iter().all(|port| *port == ports[0]), "{ports:?}");
    ports[0]
}

#[tokio::test]
async fn an_ordered_fail_over_swaps_master_and_replica() {
    let sentinels = Sentinels::start().await.unwrap();
    let old = sentinels.master().await.unwrap();
    assert_eq!(named(&sentinels.url()), port(old));
    set(old, "one").unwrap();
    let replica = sentinels.replica().await.unwrap();
    eventually(SOON, "the write to be replicated", async || get(replica).as_deref() == Some("one")).await;
    assert!(set(replica, "refused").unwrap_err().to_string().contains("refused a command"));
    let new = sentinels.fail_over().await.unwrap();
    assert_eq!((port(new), named(&sentinels.url())), (port(replica), port(replica)));
    set(new, "two").unwrap();
    sentinels.await_replica().await.unwrap();
    assert!(set(old, "refused").is_err());
    eventually(SOON, "the old master to follow", async || get(old).as_deref() == Some("two")).await;
    // The same in the other direction.
    assert_eq!(port(sentinels.fail_over().await.unwrap()), port(old));
}

#[tokio::test]
async fn a_killed_master_is_replaced_and_comes_back_as_a_replica() {
    let sentinels = Sentinels::with_password("secret").await.unwrap();
    assert!(sentinels.url().starts_with("redis+sentinel://:secret@127.0.0.1:"), "{}", sentinels.url());
    let old = sentinels.kill_master().await.unwrap();
    let new = sentinels.await_new_master(old).await.unwrap();
    assert_ne!(port(new), port(old));
    set(new, "kept").unwrap();
    old.restart(Data::Wipe).unwrap();
    sentinels.await_replica().await.unwrap();
    eventually(SOON, "the old master to follow", async || get(old).as_deref() == Some("kept")).await;
}

#[tokio::test]
async fn a_promoted_replica_that_lagged_forks_the_history() {
    let sentinels = Sentinels::start().await.unwrap();
    let (master, replica) = (sentinels.master().await.unwrap(), sentinels.replica().await.unwrap());
    set(master, "old").unwrap();
    eventually(SOON, "the write to be replicated", async || get(replica).as_deref() == Some("old")).await;
    sentinels.hold_replica_back().await.unwrap();
    set(master, "new").unwrap();
    sentinels.kill_master().await.unwrap();
    let promoted = sentinels.await_new_master(master).await.unwrap();
    assert_eq!((port(promoted), get(promoted).as_deref()), (port(replica), Some("old")));
}

#[tokio::test]
async fn a_replica_is_in_step_again_when_it_may_follow() {
    let sentinels = Sentinels::with_password("secret").await.unwrap();
    let replica = sentinels.hold_replica_back().await.unwrap();
    set(sentinels.master().await.unwrap(), "new").unwrap();
    sentinels.let_replica_follow().unwrap();
    sentinels.await_replica().await.unwrap();
    assert_eq!(get(replica).as_deref(), Some("new"));
}

#[tokio::test]
async fn two_sentinels_of_three_are_enough() {
    let sentinels = Sentinels::start().await.unwrap();
    sentinels.sentinels()[0].kill().unwrap();
    let old = sentinels.kill_master().await.unwrap();
    assert_ne!(port(sentinels.await_new_master(old).await.unwrap()), port(old));
    sentinels.sentinels()[0].restart(Data::Keep).unwrap();
    eventually(SOON, "the sentinel that was away to know", async || {
        sentinels.master().await.is_ok_and(|master| port(master) != port(old))
    })
    .await;
}

#[tokio::test]
async fn servers_and_sentinels_with_tls_and_passwords_fail_over() {
    let authority = Authority::new().unwrap();
    let builder = Sentinels::builder().password("p@ss").sentinel_password("\"other\" \\ word");
    let sentinels = builder.tls(&authority).unwrap().config("maxmemory", "100mb").start().await.unwrap();
    let url = sentinels.url();
    assert!(url.starts_with("rediss+sentinel://:p%40ss@127.0.0.1:"), "{url}");
    assert!(url.ends_with("/mymaster?sentinel_password=%22other%22%20%5C%20word"), "{url}");
    let (master, replica) = (sentinels.master().await.unwrap(), sentinels.replica().await.unwrap());
    assert!(master.url().starts_with("rediss://:p%40ss@127.0.0.1:"), "{}", master.url());
    let old = sentinels.kill_master().await.unwrap();
    assert_eq!(port(sentinels.await_new_master(old).await.unwrap()), port(replica));
    let (_, maxmemory): (String, u64) = replica.query(cmd("CONFIG").arg("GET").arg("maxmemory")).unwrap();
    assert_eq!(maxmemory, 100 << 20);
}

#[tokio::test]
async fn a_user_has_the_same_rights_on_either_master() {
    let sentinels = Sentinels::start().await.unwrap();
    let url = sentinels.acl_user("reader", "pass", &["~*", "+get"]).unwrap();
    assert!(
        url.starts_with("redis+sentinel://reader:pass@127.0.0.1:") && url.ends_with("/mymaster"),
        "{url}"
    );
    for server in [sentinels.master().await.unwrap(), sentinels.replica().await.unwrap()] {
        let url = server.url().replace("redis://", "redis://reader:pass@");
        let mut connection = redis::Client::open(url).unwrap().get_connection().unwrap();
        cmd("GET").arg("key").query::<Option<String>>(&mut connection).unwrap();
        assert!(cmd("SET").arg("key").arg(1).exec(&mut connection).unwrap_err().code() == Some("NOPERM"));
    }
}

#[tokio::test]
async fn dropped_sentinels_leave_no_process() {
    let sentinels = Sentinels::start().await.unwrap();
    let (master, replica) = (sentinels.master().await.unwrap(), sentinels.replica().await.unwrap());
    let pids: Vec<_> =
        sentinels.sentinels().iter().chain([master, replica]).map(|server| server.pid().unwrap()).collect();
    assert_eq!(pids.len(), 5);
    drop(sentinels);
    for pid in pids {
        assert!(!std::fs::exists(format!("/proc/{pid}/stat")).unwrap());
    }
}
