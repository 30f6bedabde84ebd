//! The script itself refuses these, because a client may have another version, or may not use this crate.
#![allow(clippy::unwrap_used, clippy::expect_used)]

use redis::{Connection, Value, cmd};
use tenure_testing::RedisServer;

use super::super::*;
use super::{file, text};
use crate::model::id::{PoolName, WorkerId};
use crate::model::settings::Settings;

struct Pool {
    keys: Keys,
    redis: Connection,
    _server: RedisServer,
}

impl Pool {
    fn new() -> Self {
        let server = RedisServer::start().unwrap();
        let mut redis = redis::Client::open(server.url()).unwrap().get_connection().unwrap();
        let keys = Keys::new(&PoolName::new("p").unwrap());
        let settings = Settings { payload_max: 100, ..Settings::default() };
        let () = cmd("HSET").arg(keys.named("settings")).arg(settings.fields()).query(&mut redis).unwrap();
        let facts = [
            ("incarnation", "7"),
            ("phase", "N"),
            ("token", "1"),
            ("queued", "0"),
            ("workers_revision", "1"),
            ("settings_revision", "1"),
        ];
        let () = cmd("HSET").arg(keys.named("pool")).arg(&facts).query(&mut redis).unwrap();
        Self { keys, redis, _server: server }
    }

    /// Dispatches these jobs in one call.
    fn dispatch(&mut self, jobs: &[(&[u8], &str, &[u8])]) -> Vec<String> {
        let names = file("dispatch").keys();
        let time: Vec<u64> = cmd("TIME").query(&mut self.redis).unwrap();
        let mut call = cmd("EVAL");
        call.arg(text("dispatch")).arg(names.len());
        call.arg(names.iter().map(|name| self.keys.named(name)).collect::<Vec<_>>());
        call.arg(&["7", "", "", "", "0", "0", "0"]).arg(vec![0_u8; jobs.len()]).arg(vec![0_u8; jobs.len()]);
        call.arg(vec![b'B'; jobs.len()]);
        call.arg(jobs.iter().map(|(key, ..)| *key).collect::<Vec<_>>());
        call.arg(jobs.iter().map(|(_, id, _)| *id).collect::<Vec<_>>());
        call.arg(vec![time[0] * 1_000 + 10_000; jobs.len()]);
        call.arg(jobs.iter().map(|(.., payload)| *payload).collect::<Vec<_>>());
        call.query(&mut self.redis).unwrap()
    }

    /// Acknowledges all notifications of these jobs as the worker 5, `each` of every job, in one call.
    fn acknowledge(&mut self, jobs: usize, each: usize) -> Vec<Value> {
        let mut names: Vec<_> = file("take").keys().iter().map(|name| self.keys.named(name)).collect();
        names.push(self.keys.worker(WorkerId(5)));
        let mut call = cmd("EVAL");
        call.arg(text("take")).arg(names.len()).arg(names).arg(&["7", "5", "0"]);
        let mut keys = Vec::new();
        for job in 0..jobs {
            let (key, notifications) = (format!("k{job}"), self.keys.named("notifications"));
            let record = "1|R|5|9|1|2|1000|n.i|1000||0|";
            let () = cmd("HSET")
                .arg(self.keys.named("jobs"))
                .arg(&key)
                .arg(record)
                .query(&mut self.redis)
                .unwrap();
            let mut kept = cmd("HSET");
            kept.arg(notifications).arg(format!("h:{key}")).arg(format!("0|{each}|{each}"));
            for number in 0..each {
                kept.arg(format!("{number}:{key}")).arg("x");
            }
            let () = kept.query(&mut self.redis).unwrap();
            keys.push(key);
        }
        call.arg("1").arg("9").arg(vec![1_u8; jobs]).arg(keys).arg(vec![each; jobs]);
        call.query(&mut self.redis).unwrap()
    }

    /// Dispatches this job, in this turn or none, to the worker with this number. One worker is named. Returns the
    /// beginning of the record.
    fn place(&mut self, key: &str, turn: [&str; 3], number: &[u8]) -> String {
        let mut names: Vec<_> = file("dispatch").keys().iter().map(|name| self.keys.named(name)).collect();
        names.push(self.keys.worker(WorkerId(5)));
        let time: Vec<u64> = cmd("TIME").query(&mut self.redis).unwrap();
        let mut call = cmd("EVAL");
        call.arg(text("dispatch")).arg(names.len()).arg(names);
        call.arg("7").arg(&turn).arg("1").arg("1").arg("5").arg("0").arg(b"\0").arg(number).arg("B");
        call.arg(key).arg("n.i").arg(time[0] * 1_000 + 10_000).arg("");
        let said: Vec<String> = call.query(&mut self.redis).unwrap();
        assert_eq!(said, ["OK", "A"], "{key}");
        let record: String =
            cmd("HGET").arg(self.keys.named("jobs")).arg(key).query(&mut self.redis).unwrap();
        record[..4].to_owned()
    }

    /// Stops these jobs, each with its record, in one call, with no owner guessed.
    fn stop(&mut self, jobs: &[(&str, &str, &str)]) -> Vec<String> {
        let names: Vec<_> = file("stop").keys().iter().map(|name| self.keys.named(name)).collect();
        for (key, _, record) in jobs {
            let jobs_key = self.keys.named("jobs");
            let () = cmd("HSET").arg(jobs_key).arg(key).arg(record).query(&mut self.redis).unwrap();
        }
        let mut call = cmd("EVAL");
        call.arg(text("stop")).arg(names.len()).arg(names);
        call.arg(&["7", "", "", "", "0", "", "0", ""]).arg(vec![0_u8; jobs.len()]);
        call.arg(jobs.iter().map(|(key, ..)| *key).collect::<Vec<_>>());
        call.arg(jobs.iter().map(|(_, id, _)| *id).collect::<Vec<_>>());
        call.query(&mut self.redis).unwrap()
    }

    fn written(&mut self) -> Vec<String> {
        let mut keys: Vec<String> = cmd("KEYS").arg("*").query(&mut self.redis).unwrap();
        keys.sort();
        keys
    }
}

#[test]
fn keys_ids_and_payloads_out_of_bounds_are_refused_unwritten() {
    let mut pool = Pool::new();
    let before = pool.written();
    let long = "i".repeat(65);
    let ids = ["", "n", "n.", ".i", "n 1.i", "n.a|b", "n.!", &format!("n.{long}"), &format!("{long}.i")];
    let mut jobs: Vec<(&[u8], &str, &[u8])> = ids.iter().map(|id| (&b"k"[..], *id, &b""[..])).collect();
    jobs.extend([(&b""[..], "n.i", &b""[..]), (&[b'k'; 513], "n.i", b""), (b"k", "n.i", &[0; 101])]);
    assert_eq!(pool.dispatch(&jobs), ["OK", &"X".repeat(jobs.len())]);
    assert_eq!(pool.written(), before);
    let longest: (&[u8], &str, &[u8]) = (&[b'k'; 512], &format!("n.{}", &long[1..]), &[0; 100]);
    let mixed = pool.dispatch(&[(b"", "n.i", b""), longest]);
    assert_eq!(mixed, ["OK", "XA"], "one that is refused hinders no other");
    let stored: Vec<Value> = cmd("HVALS").arg(pool.keys.named("payloads")).query(&mut pool.redis).unwrap();
    assert_eq!(stored, [Value::BulkString(vec![0; 100])]);
}

#[test]
fn a_job_is_placed_only_outside_a_plan_and_with_a_named_worker() {
    let mut pool = Pool::new();
    let none = ["", "", ""];
    assert_eq!(pool.place("placed", none, &[1]), "1|R|");
    for number in [&[0][..], &[2], &[255], &[]] {
        assert_eq!(pool.place(&format!("number {number:?}"), none, number), "1|Q|");
    }
    let schedule = "1|4|0|1000|0|0|7|3|0|n|1";
    let () = cmd("HSET")
        .arg(pool.keys.named("schedules"))
        .arg("s:plan")
        .arg(schedule)
        .query(&mut pool.redis)
        .unwrap();
    assert_eq!(pool.place("planned", ["plan", "4", "3"], &[1]), "1|Q|");
}

#[test]
fn a_stop_that_names_what_is_no_id_hinders_no_other() {
    let mut pool = Pool::new();
    let said = pool.stop(&[
        ("a", "n.i", "1|Q||9|0|0|1000|n.i|1000||0|"),
        ("damaged", "ni13", "1|A|5|9|0|0|1000|ni13|1000||0|"),
        ("b", "n.j", "1|Q||9|0|0|1000|n.j|1000||0|"),
    ]);
    assert_eq!(said, ["OK", "DXD"]);
    let left: Vec<String> = cmd("HKEYS").arg(pool.keys.named("jobs")).query(&mut pool.redis).unwrap();
    assert_eq!(left, ["damaged"]);
}

/// Lua passes no more than about 8,000 values to one command.
#[test]
fn a_call_deletes_all_notifications_that_it_may_acknowledge() {
    let mut pool = Pool::new();
    let (jobs, each) = (20, 1_000);
    let said = pool.acknowledge(jobs, each);
    assert_eq!(said[1], Value::BulkString(vec![b'E'; jobs]), "nothing waits");
    let left: u64 = cmd("EXISTS").arg(pool.keys.named("notifications")).query(&mut pool.redis).unwrap();
    assert_eq!(left, 0);
}
