//! What an idle pool costs: a few commands a second, and none for the jobs that it holds.

use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

use tenure_testing::RedisServer;

use crate::world::World;

const WATCHED: Duration = Duration::from_secs(10);

/// How many commands clients send within a while; those that scripts run are not counted.
fn commands_within(socket: &Path, time: Duration) -> u32 {
    let mut stream = UnixStream::connect(socket).unwrap();
    stream.write_all(b"MONITOR\r\n").unwrap();
    let mut lines = BufReader::new(stream.try_clone().unwrap()).lines();
    assert_eq!(lines.next().unwrap().unwrap(), "+OK");
    let end = std::time::Instant::now() + time;
    let mut commands = 0;
    loop {
        let left = end.saturating_duration_since(std::time::Instant::now());
        if left.is_zero() {
            return commands;
        }
        stream.set_read_timeout(Some(left)).unwrap();
        match lines.next() {
            Some(Ok(line)) if line.contains(" lua] ") => {}
            Some(Ok(_)) => commands += 1,
            _ => return commands,
        }
    }
}

async fn idle_commands(server: &RedisServer) -> u32 {
    let socket = server.dir().join("redis.sock");
    tokio::task::spawn_blocking(move || commands_within(&socket, WATCHED)).await.unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn held_jobs_cost_no_commands() {
    let world = World::on_redis();
    let (a, _b) = (world.node_with("a", 2).await, world.node_with("b", 2).await);
    let without = idle_commands(world.server()).await;
    let keys = world.dispatch(&a, 1_000).await;
    world.placed(&a, &keys).await;
    let with = idle_commands(world.server()).await;
    assert!(without < 100 && with < 100, "{without} without jobs, {with} with 1,000, within {WATCHED:?}");
    // The roles' periods are jittered.
    assert!(with.abs_diff(without) <= without / 5 + 5, "{without} without jobs, {with} with 1,000");
}
