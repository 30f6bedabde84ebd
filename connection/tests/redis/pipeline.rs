//! Pipelines: a result for each step, unknown scripts, one deadline.

use std::time::Duration;

use redis::{Cmd, Value, cmd};
use tenure_connection::{Client, Connection, Error, Script};
use tenure_testing::{RedisServer, eventually};

const SOON: Duration = Duration::from_secs(20);

fn connection(server: &RedisServer) -> Connection {
    Client::builder(&server.url()).response_timeout(SOON).build().unwrap().commands()
}

fn incr(key: &str) -> Cmd {
    cmd("INCR").arg(key).take()
}

fn adding() -> Script {
    Script::new("add", "return redis.call('INCRBY', KEYS[1], ARGV[1])")
}

/// The number of calls that loaded a script.
async fn loads(redis: &Connection) -> String {
    let info = redis.command(cmd("INFO").arg("commandstats")).await.unwrap();
    let info: String = redis::from_redis_value(info).unwrap();
    let line = info.lines().find_map(|line| line.strip_prefix("cmdstat_script|load:calls="));
    line.map_or("0", |line| line.split(',').next().unwrap()).to_owned()
}

#[tokio::test]
async fn each_step_has_its_own_result_in_order() {
    let server = RedisServer::start().unwrap();
    let redis = connection(&server);
    redis.command(cmd("SET").arg("text").arg("x")).await.unwrap();
    let mut pipeline = redis.pipeline();
    assert!(pipeline.is_empty() && pipeline.send().await.is_empty(), "nothing to send");
    pipeline
        .command(incr("n"))
        .command(incr("text"))
        .command(incr("n"))
        .command(cmd("XLEN").arg("text").take());
    let results = pipeline.send().await;
    assert_eq!(results.len(), pipeline.len());
    assert!(matches!((&results[0], &results[2]), (Ok(Value::Int(1)), Ok(Value::Int(2)))), "{results:?}");
    assert_eq!(results[1].as_ref().unwrap_err().code(), Some("ERR"));
    assert_eq!(results[3].as_ref().unwrap_err().code(), Some("WRONGTYPE"));
    assert!(matches!(pipeline.send().await[0], Ok(Value::Int(3))), "a pipeline may be sent again");
}

#[tokio::test]
async fn unknown_scripts_are_loaded_once_and_only_their_calls_repeat() {
    let server = RedisServer::start().unwrap();
    let redis = connection(&server);
    let (add, other) = (adding(), Script::new("other", "return redis.call('INCR', KEYS[1]) + 1000"));
    let mut pipeline = redis.pipeline();
    let mut pipeline_call = |script: &Script, key: &str| {
        let mut call = script.call(&[key]);
        call.arg(10);
        pipeline.command(incr("plain")).call(call);
    };
    for _ in 0..50 {
        pipeline_call(&add, "a");
        pipeline_call(&other, "b");
    }
    for round in 1_i64..=3 {
        let results = pipeline.send().await;
        for (step, result) in (0_i64..).zip(&results) {
            let Ok(Value::Int(value)) = result else { panic!("{step}: {result:?}") };
            let before = round - 1;
            let expected = match step % 4 {
                1 => (before * 50 + step / 4 + 1) * 10,
                3 => before * 50 + step / 4 + 1 + 1000,
                _ => before * 100 + step / 2 + 1,
            };
            assert_eq!(*value, expected, "step {step} of round {round}: executed exactly once and in order");
        }
        // The second round finds the scripts known.
        assert_eq!(loads(&redis).await, if round == 3 { "4" } else { "2" });
        if round == 2 {
            redis.command(cmd("SCRIPT").arg("FLUSH")).await.unwrap();
        }
    }
}

#[tokio::test]
async fn a_script_that_cannot_be_loaded_fails_alone_with_its_reason() {
    let server = RedisServer::start().unwrap();
    let redis = connection(&server);
    let broken = Script::new("broken", "this is not lua");
    let mut pipeline = redis.pipeline();
    pipeline.call(broken.call(&["k"])).command(incr("n"));
    let mut add = adding().call(&["n"]);
    add.arg(5);
    pipeline.call(add);
    let results = pipeline.send().await;
    let error = results[0].as_ref().unwrap_err();
    assert!(
        matches!(error, Error::Server { code, detail } if &**code == "ERR" && detail.contains("compiling"))
    );
    assert!(!error.may_have_executed());
    assert!(matches!((&results[1], &results[2]), (Ok(Value::Int(1)), Ok(Value::Int(6)))), "{results:?}");
}

#[tokio::test]
async fn one_deadline_holds_for_the_whole_pipeline() {
    let server = RedisServer::start().unwrap();
    let redis = connection(&server).with_response_timeout(Duration::from_millis(200));
    eventually(SOON, "a connection", async || redis.command(&cmd("PING")).await).await;
    server.pause().unwrap();
    let mut pipeline = redis.pipeline();
    for _ in 0..1000 {
        pipeline.command(incr("n"));
    }
    let results = tokio::time::timeout(SOON, pipeline.send()).await.expect("bounded");
    assert_eq!(results.len(), 1000);
    assert!(results.iter().all(|result| matches!(result, Err(Error::TimedOut(_)))), "{:?}", results[0]);
    server.kill().unwrap();
    let error = eventually(SOON, "the loss to be noticed", async || {
        match redis.pipeline().command(incr("n")).send().await.remove(0) {
            Err(error @ Error::Unreachable(_)) => Some(error),
            _ => None,
        }
    });
    assert!(!error.await.may_have_executed());
}
