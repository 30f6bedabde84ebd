//! The writes of a dispatch's steps, without their reads and decisions.

use redis::aio::MultiplexedConnection;
use tenure_pool::store::BATCH_MAX;

use crate::Error;
use crate::arena::{PAYLOAD, key};
use crate::usage::redis_us;

/// The least writes of a dispatch, its route, its begin and its start, as bare commands, each once for a whole batch.
/// Returns µs of Redis's CPU for each job.
pub(super) async fn writes(
    redis: &mut MultiplexedConnection,
    batches: usize,
    workers: usize,
) -> Result<f64, Error> {
    let record = "1|R|1|12345678|1|1|1760000000000|node.00000000000000000000000001|1760000000000||0|";
    let names: Vec<_> = (0..BATCH_MAX as u64).map(key).collect();
    let before = redis_us(redis).await?;
    for batch in 0..batches {
        let names: Vec<_> = names.iter().map(|name| format!("{batch}{name}")).collect();
        let mut pipe = redis::pipe();
        write_each(&mut pipe, "HSET", "bare:jobs", &names, |name| vec![name.into(), record.into()]);
        write_each(&mut pipe, "HSET", "bare:payloads", &names, |name| vec![name.into(), PAYLOAD.to_vec()]);
        write_each(&mut pipe, "ZADD", "bare:queue", &names, |name| vec!["1760000000000".into(), name.into()]);
        add(&mut pipe, "bare:starts", &names);
        write_each(&mut pipe, "HSET", "bare:jobs", &names, |name| vec![name.into(), record.into()]);
        write_each(&mut pipe, "ZADD", "bare:owners", &names, |name| vec!["0".into(), name.into()]);
        write_each(&mut pipe, "ZADD", "bare:queue", &names, |name| vec!["1760000005000".into(), name.into()]);
        for part in names.chunks(BATCH_MAX / workers) {
            add(&mut pipe, "bare:worker", part);
        }
        write_each(&mut pipe, "HSET", "bare:jobs", &names, |name| vec![name.into(), record.into()]);
        write_each(&mut pipe, "ZREM", "bare:queue", &names, |name| vec![name.into()]);
        write_each(&mut pipe, "HSET", "bare:jobs", &names, |name| vec![name.into(), record.into()]);
        add(&mut pipe, "bare:node", &names);
        pipe.query_async::<()>(redis).await?;
    }
    let used = redis_us(redis).await? - before;
    let keys = [
        "bare:jobs",
        "bare:payloads",
        "bare:queue",
        "bare:owners",
        "bare:starts",
        "bare:worker",
        "bare:node",
    ];
    redis::cmd("DEL").arg(&keys).query_async::<()>(redis).await?;
    Ok(used / (batches * BATCH_MAX) as f64)
}

fn write_each(
    pipe: &mut redis::Pipeline,
    command: &str,
    key: &str,
    names: &[String],
    words: impl Fn(&str) -> Vec<Vec<u8>>,
) {
    pipe.cmd(command).arg(key);
    for name in names {
        pipe.arg(words(name));
    }
    pipe.ignore();
}

fn add(pipe: &mut redis::Pipeline, stream: &str, names: &[String]) {
    pipe.cmd("XADD").arg(stream).arg("*");
    for name in names {
        pipe.arg("s").arg(name);
    }
    pipe.ignore();
}
