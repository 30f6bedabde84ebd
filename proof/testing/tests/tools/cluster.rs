//! A cluster forms, moves slots in steps, loses and replaces nodes, and leaves nothing behind.

use std::time::Duration;

use redis::{Cmd, FromRedisValue, cmd};
use tenure_testing::{Cluster, Data, Error, RedisServer, eventually, tls::Authority};

const SOON: Duration = Duration::from_secs(60);

fn port(server: &RedisServer) -> u16 {
    server.url().rsplit(':').next().unwrap().parse().unwrap()
}

/// Sends one command, as a client without knowledge of the slots does.
fn send<T: FromRedisValue>(server: &RedisServer, command: &Cmd) -> Result<T, (String, String)> {
    server.query(command).map_err(|error| match error {
        Error::Redis(error) => {
            let code = error.code().unwrap_or_default().to_owned();
            (code, error.detail().unwrap_or_default().to_owned())
        }
        other => panic!("{other}"),
    })
}

fn set(key: &str) -> Cmd {
    let mut command = cmd("SET");
    command.arg(key).arg("value");
    command
}

fn get(key: &str) -> Cmd {
    let mut command = cmd("GET");
    command.arg(key);
    command
}

#[tokio::test]
async fn three_masters_share_the_slots_and_redirect_clients() {
    let cluster = Cluster::start().await.unwrap();
    let ports: Vec<_> = (0..cluster.size()).map(|number| port(cluster.node(number))).collect();
    assert_eq!(
        cluster.url(),
        format!("redis+cluster://127.0.0.1:{},127.0.0.1:{},127.0.0.1:{}", ports[0], ports[1], ports[2])
    );
    for (slot, owner) in [(0, 0), (5460, 0), (5461, 1), (10921, 1), (10922, 2), (16383, 2)] {
        assert_eq!(cluster.owner(slot).await.unwrap(), owner, "of slot {slot}");
    }
    // The slot of the documented example.
    assert_eq!(cluster.slot("123456789").unwrap(), 12739);
    for number in 0..3 {
        let result = send::<()>(cluster.node(number), &set("123456789"));
        match number {
            2 => assert_eq!(result, Ok(())),
            _ => assert_eq!(result, Err(("MOVED".into(), format!("12739 127.0.0.1:{}", ports[2])))),
        }
    }
}

#[tokio::test]
async fn a_slot_moves_in_steps_with_ask_and_moved_between() {
    let cluster = Cluster::start().await.unwrap();
    let (slot, from, to) = (cluster.slot("{tag}").unwrap(), 1, 2);
    assert_eq!(cluster.owner(slot).await.unwrap(), from);
    for number in 0..5 {
        send::<()>(cluster.node(from), &set(&format!("{{tag}}{number}"))).unwrap();
    }
    let migration = cluster.begin_migration(slot, to).await.unwrap();
    assert_eq!(migration.from(), from);
    // Present keys are still served; absent ones may be at the other node.
    assert!(send::<String>(cluster.node(from), &get("{tag}0")).is_ok());
    let ask = Err(("ASK".to_owned(), format!("{slot} 127.0.0.1:{}", port(cluster.node(to)))));
    assert_eq!(send::<()>(cluster.node(from), &get("{tag}none")), ask);
    assert_eq!(send::<()>(cluster.node(to), &get("{tag}none")).unwrap_err().0, "MOVED");
    assert_eq!(migration.move_keys(3).unwrap(), 3);
    let mut both = cmd("MGET");
    (0..5).for_each(|number| {
        both.arg(format!("{{tag}}{number}"));
    });
    assert_eq!(send::<()>(cluster.node(from), &both).unwrap_err().0, "TRYAGAIN");
    assert_eq!(migration.move_keys(3).unwrap(), 2);
    assert_eq!(migration.move_keys(3).unwrap(), 0);
    assert_eq!(cluster.owner(slot).await.unwrap(), from);
    migration.finish().await.unwrap();
    assert_eq!(cluster.owner(slot).await.unwrap(), to);
    let moved = Err(("MOVED".to_owned(), format!("{slot} 127.0.0.1:{}", port(cluster.node(to)))));
    assert_eq!(send::<()>(cluster.node(from), &get("{tag}0")), moved);
    assert!(send::<String>(cluster.node(to), &get("{tag}4")).is_ok());
}

#[tokio::test]
async fn a_slot_moves_there_and_back_in_one_call_or_stays() {
    let cluster = Cluster::builder().password("secret").start().await.unwrap();
    assert!(cluster.url().starts_with("redis+cluster://:secret@127.0.0.1:"), "{}", cluster.url());
    let slot = cluster.slot("key").unwrap();
    let owner = cluster.owner(slot).await.unwrap();
    let other = (owner + 1) % 3;
    send::<()>(cluster.node(owner), &set("key")).unwrap();
    for to in [other, owner] {
        cluster.migrate_slot(slot, to).await.unwrap();
        assert_eq!(send(cluster.node(to), &get("key")), Ok("value".to_owned()));
    }
    cluster.begin_migration(slot, other).await.unwrap().call_off().unwrap();
    assert_eq!(send(cluster.node(owner), &get("nothing{key}")), Ok(None::<String>));
    assert!(cluster.begin_migration(slot, owner).await.is_err());
}

#[tokio::test]
async fn a_cluster_that_lost_a_node_is_down_until_it_is_back() {
    let cluster = Cluster::start().await.unwrap();
    send::<()>(cluster.node(2), &set("123456789")).unwrap();
    cluster.node(0).kill().unwrap();
    cluster.await_state("fail").await.unwrap();
    assert_eq!(send::<()>(cluster.node(2), &get("123456789")).unwrap_err().0, "CLUSTERDOWN");
    cluster.node(0).restart(Data::Keep).unwrap();
    cluster.await_state("ok").await.unwrap();
    assert_eq!(send(cluster.node(2), &get("123456789")), Ok("value".to_owned()));
}

#[tokio::test]
async fn a_replica_takes_over_after_a_kill_or_on_order() {
    let cluster = Cluster::builder().replicas(1).start().await.unwrap();
    assert_eq!((cluster.size(), cluster.url().split(',').count()), (6, 3));
    send::<()>(cluster.node(0), &set("key{0}")).unwrap_err();
    let slot = cluster.slot("key{0}").unwrap();
    let master = cluster.owner(slot).await.unwrap();
    send::<()>(cluster.node(master), &set("key{0}")).unwrap();
    let replica = cluster.node(master + 3);
    eventually(SOON, "the write to be replicated", async || replica.keys().unwrap() == ["key{0}"]).await;
    cluster.node(master).kill().unwrap();
    assert_eq!(cluster.await_new_owner(slot, master).await.unwrap(), master + 3);
    assert_eq!(send(replica, &get("key{0}")), Ok("value".to_owned()));
    cluster.node(master).restart(Data::Keep).unwrap();
    assert_eq!(cluster.await_replica(master).await.unwrap(), master + 3);
    assert_eq!(cluster.promote(master).await.unwrap(), master + 3);
    assert_eq!(cluster.owner(slot).await.unwrap(), master);
}

#[tokio::test]
async fn nodes_with_tls_move_slots_and_take_over() {
    let authority = Authority::new().unwrap();
    let builder = Cluster::builder().replicas(1).password("secret").tls(&authority).unwrap();
    let cluster = builder.start().await.unwrap();
    assert!(cluster.url().starts_with("rediss+cluster://:secret@127.0.0.1:"), "{}", cluster.url());
    assert!(cluster.node(3).url().starts_with("rediss://:secret@127.0.0.1:"));
    let slot = cluster.slot("key").unwrap();
    let owner = cluster.owner(slot).await.unwrap();
    send::<()>(cluster.node(owner), &set("key")).unwrap();
    let other = (owner + 1) % 3;
    cluster.migrate_slot(slot, other).await.unwrap();
    assert_eq!(cluster.promote(other + 3).await.unwrap(), other);
    assert_eq!(cluster.owner(slot).await.unwrap(), other + 3);
    assert_eq!(send(cluster.node(other + 3), &get("key")), Ok("value".to_owned()));
}

#[tokio::test]
async fn a_user_has_the_same_rights_on_every_node() {
    let cluster = Cluster::builder().config("maxmemory", "100mb").start().await.unwrap();
    let url = cluster.acl_user("reader", "pass", &["~*", "+get"]).unwrap();
    assert!(url.starts_with("redis+cluster://reader:pass@127.0.0.1:"), "{url}");
    for number in 0..cluster.size() {
        let (_, maxmemory): (String, u64) =
            cluster.node(number).query(cmd("CONFIG").arg("GET").arg("maxmemory")).unwrap();
        assert_eq!(maxmemory, 100 << 20);
        let url = cluster.node(number).url().replace("redis://", "redis://reader:pass@");
        let mut connection = redis::Client::open(url).unwrap().get_connection().unwrap();
        assert!(set("key").exec(&mut connection).unwrap_err().code() == Some("NOPERM"));
    }
}

#[tokio::test]
async fn a_dropped_cluster_leaves_no_process() {
    let cluster = Cluster::start().await.unwrap();
    let pids: Vec<_> = (0..cluster.size()).map(|number| cluster.node(number).pid().unwrap()).collect();
    drop(cluster);
    for pid in pids {
        assert!(!std::fs::exists(format!("/proc/{pid}/stat")).unwrap());
    }
}
