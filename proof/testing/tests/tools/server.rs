//! A private server starts, pauses, restarts, and leaves nothing behind, however its parent ends.

use std::{
    io::{BufRead, BufReader, Read},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    time::Duration,
};

use tenure_testing::{Data, Endpoint, RedisServer, eventually};

const SOON: Duration = Duration::from_secs(20);

fn connect(server: &RedisServer) -> redis::Connection {
    redis::Client::open(server.url()).unwrap().get_connection_with_timeout(SOON).unwrap()
}

fn set(server: &RedisServer) {
    redis::cmd("SET").arg("key").arg("value").query::<()>(&mut connect(server)).unwrap();
}

fn get(server: &RedisServer) -> Option<String> {
    redis::cmd("GET").arg("key").query(&mut connect(server)).unwrap()
}

fn directive(server: &RedisServer, name: &str) -> String {
    let (_, value): (String, String) =
        redis::cmd("CONFIG").arg("GET").arg(name).query(&mut connect(server)).unwrap();
    value
}

fn is_running(pid: u32) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat"));
    stat.is_ok_and(|stat| !stat.contains(") Z "))
}

#[test]
fn a_dropped_server_leaves_neither_process_nor_folder() {
    let server = RedisServer::start().unwrap();
    set(&server);
    let (pid, dir) = (server.pid().unwrap(), server.dir());
    assert!(is_running(pid) && dir.exists());
    drop(server);
    assert!(!is_running(pid) && !dir.exists());
}

#[tokio::test]
async fn a_dropped_server_takes_its_saving_child_with_it() {
    let server = RedisServer::start().unwrap();
    set(&server);
    let connection = &mut connect(&server);
    // Longer than the test.
    redis::cmd("CONFIG")
        .arg("SET")
        .arg("rdb-key-save-delay")
        .arg(100_000_000)
        .query::<()>(connection)
        .unwrap();
    redis::cmd("BGSAVE").query::<()>(connection).unwrap();
    let pid = server.pid().unwrap();
    let children = std::fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).unwrap();
    let child: u32 = children.trim().parse().unwrap();
    assert!(is_running(child));
    drop(server);
    eventually(SOON, "the end of the saving child", async || !is_running(child)).await;
}

#[test]
fn a_server_stays_in_the_session_of_its_test() {
    let server = RedisServer::start().unwrap();
    let session = |process: &str| {
        let stat = std::fs::read_to_string(format!("/proc/{process}/stat")).unwrap();
        stat.rsplit_once(") ").unwrap().1.split(' ').nth(3).unwrap().to_owned()
    };
    assert_eq!(session(&server.pid().unwrap().to_string()), session("self"));
}

#[test]
fn servers_are_private_and_keep_nothing_on_disk() {
    let (one, two) = (RedisServer::start().unwrap(), RedisServer::start().unwrap());
    set(&one);
    assert_eq!((get(&one).as_deref(), get(&two)), (Some("value"), None));
    assert_eq!((directive(&one, "save").as_str(), directive(&one, "appendonly").as_str()), ("", "no"));
}

#[test]
fn a_server_on_tcp_keeps_its_address_over_restarts() {
    let server = RedisServer::builder().tcp().start().unwrap();
    let url = server.url();
    assert!(url.starts_with("redis://127.0.0.1:"), "{url}");
    server.restart(Data::Wipe).unwrap();
    assert_eq!(server.url(), url);
    set(&server);
}

#[test]
fn a_password_is_required_and_is_part_of_the_url() {
    for builder in [RedisServer::builder(), RedisServer::builder().tcp()] {
        let server = builder.password("p@ss/w?rd %").start().unwrap();
        set(&server);
        let bare = server.url().replace(":p%40ss%2Fw%3Frd%20%25@", "");
        let bare = bare.split('?').next().unwrap().to_owned();
        assert_ne!(bare, server.url());
        let refused = redis::Client::open(bare)
            .unwrap()
            .get_connection()
            .and_then(|mut connection| redis::cmd("GET").arg("key").query::<Option<String>>(&mut connection));
        assert!(refused.is_err());
    }
}

#[test]
fn directives_reach_the_server() {
    let server = RedisServer::builder().config("maxmemory-policy", "allkeys-lru").start().unwrap();
    assert_eq!(directive(&server, "maxmemory-policy"), "allkeys-lru");
}

#[test]
fn a_server_that_cannot_start_is_an_error_with_its_log() {
    let error = RedisServer::builder().config("maxmemory-policy", "nonsense").start().err().unwrap();
    assert!(error.to_string().contains("maxmemory-policy"), "{error}");
}

#[test]
fn a_paused_server_does_not_answer_until_it_is_resumed() {
    let server = RedisServer::start().unwrap();
    let mut connection = connect(&server);
    server.pause().unwrap();
    connection.set_read_timeout(Some(Duration::from_millis(50))).unwrap();
    let error = redis::cmd("PING").query::<()>(&mut connection).unwrap_err();
    assert!(error.is_timeout(), "{error}");
    server.resume().unwrap();
    redis::cmd("PING").query::<()>(&mut connect(&server)).unwrap();
}

#[test]
fn a_live_server_restarts_with_its_data_or_without() {
    let server = RedisServer::start().unwrap();
    set(&server);
    let pid = server.pid();
    server.restart(Data::Keep).unwrap();
    assert_ne!(server.pid(), pid);
    assert_eq!(get(&server).as_deref(), Some("value"));
    server.pause().unwrap();
    server.restart(Data::Keep).unwrap();
    assert_eq!(get(&server).as_deref(), Some("value"));
    server.restart(Data::Wipe).unwrap();
    assert_eq!(get(&server), None);
}

#[test]
fn a_killed_server_comes_back_with_what_it_wrote_to_disk() {
    let volatile = RedisServer::start().unwrap();
    let durable = RedisServer::builder().append_only().start().unwrap();
    for (server, kept) in [(volatile, None), (durable, Some("value"))] {
        set(&server);
        server.kill().unwrap();
        assert_eq!(server.pid(), None);
        assert!(redis::Client::open(server.url()).unwrap().get_connection().is_err());
        server.restart(Data::Keep).unwrap();
        assert_eq!(get(&server).as_deref(), kept);
        server.restart(Data::Wipe).unwrap();
        assert_eq!(get(&server), None);
    }
}

#[test]
fn an_endpoint_is_the_given_redis_or_a_private_one() {
    let given = Endpoint::at(Some("redis://example:6379".into())).unwrap();
    assert!(given.url() == "redis://example:6379" && given.private().is_none());
    for none in [None, Some(String::new())] {
        let private = Endpoint::at(none).unwrap();
        let server = private.private().unwrap();
        assert_eq!(private.url(), server.url());
        set(server);
    }
}

/// Not a test by itself: the parent process that other tests kill.
#[test]
#[ignore = "run as a process of its own by other tests"]
fn a_parent_to_be_killed() {
    let server = RedisServer::builder().append_only().start().unwrap();
    if std::env::var_os("PAUSED").is_some() {
        server.pause().unwrap();
    }
    // Ends a line that the test harness began.
    println!("\nserver {} {}", server.pid().unwrap(), server.dir().display());
    // The test that kills this process holds the other end.
    std::io::stdin().read_to_end(&mut Vec::new()).unwrap();
}

fn parent(paused: bool) -> (Child, u32, PathBuf) {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", "server::a_parent_to_be_killed", "--ignored", "--nocapture"]);
    if paused {
        command.env("PAUSED", "1");
    }
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let line = BufReader::new(child.stdout.take().unwrap())
        .lines()
        .map(Result::unwrap)
        .find(|line| line.starts_with("server "))
        .unwrap();
    let mut words = line.split(' ').skip(1);
    let pid = words.next().unwrap().parse().unwrap();
    (child, pid, words.next().unwrap().into())
}

async fn nothing_is_left(pid: u32, dir: &Path) {
    eventually(SOON, "the server and its folder to be gone", async || {
        if is_running(pid) || dir.exists() { Err((is_running(pid), dir.exists())) } else { Ok(()) }
    })
    .await;
}

#[tokio::test]
async fn a_parent_killed_by_sigkill_leaves_no_process_and_no_folder() {
    for paused in [false, true] {
        let (mut parent, pid, dir) = parent(paused);
        assert!(is_running(pid) && dir.exists());
        parent.kill().unwrap();
        nothing_is_left(pid, &dir).await;
        parent.wait().unwrap();
    }
}

#[tokio::test]
async fn a_child_of_the_parent_does_not_keep_the_server_alive() {
    let server = RedisServer::start().unwrap();
    let (pid, dir) = (server.pid().unwrap(), server.dir());
    let mut bystander = Command::new("cat").stdin(Stdio::piped()).spawn().unwrap();
    drop(server);
    nothing_is_left(pid, &dir).await;
    bystander.kill().unwrap();
    bystander.wait().unwrap();
}

#[tokio::test]
async fn a_signal_to_the_guard_does_not_keep_it_from_cleaning_up() {
    let (mut parent, pid, dir) = parent(false);
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
    let guard = stat.rsplit_once(") ").unwrap().1.split(' ').nth(1).unwrap().to_owned();
    for signal in ["-HUP", "-INT", "-TERM"] {
        assert!(Command::new("kill").args([signal, &guard]).status().unwrap().success());
    }
    parent.kill().unwrap();
    parent.wait().unwrap();
    nothing_is_left(pid, &dir).await;
}
