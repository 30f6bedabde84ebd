//! Strange writes into the pool's keys on Redis. Every step still works, whatever is beside its own values.

use tenure_pool::store::{
    Attend, Cursors, DispatchReply, ListJobs, ListOwned, ListParked, Notify, NotifyItem, NotifyReply,
    OpenNormal, ReadHeartbeats, ReadIdentity, ReadNode, Recover, Refusal, ReleaseMode, ReleaseReply, Renew,
    Stop, StopReply, StoreError, Sweep, Unpark, UnparkReply,
};
use tenure_protocol::model::id::WorkerId;
use tenure_protocol::model::record::JobState;

use super::lab::{Kind, Lab, key, ms, node, recovery, renew, stop};

/// A command on one of the pool's keys; `W` is the id of a worker.
type Write = (&'static str, &'static str, &'static [&'static str]);

/// The write, and the one that undoes it.
const DAMAGES: [(Write, Write); 27] = [
    (("HSET", "notifications", &["x", "y"]), ("HDEL", "notifications", &["x"])),
    (("HSET", "notifications", &["h:ghost", "1|900|5"]), ("HDEL", "notifications", &["h:ghost"])),
    (("HSET", "workers", &["garbage", "Z||"]), ("HDEL", "workers", &["garbage"])),
    (("HSET", "workers", &["x", "P|-|1|n|m|"]), ("HDEL", "workers", &["x"])),
    (("HSET", "workers", &["7", "U|99999999999999999999|1|n|m|"]), ("HDEL", "workers", &["7"])),
    (("HSET", "expired", &["garbage", "x"]), ("HDEL", "expired", &["garbage"])),
    (("HSET", "expired", &["99", "x|99999999999999999999"]), ("HDEL", "expired", &["99"])),
    (("HSET", "heartbeats", &["W", "x"]), ("HDEL", "heartbeats", &["x"])),
    (("HSET", "heartbeats", &["x", "y"]), ("HDEL", "heartbeats", &["x"])),
    (("ZADD", "queue", &["0.5", "ghost"]), ("ZREM", "queue", &["ghost"])),
    (("ZADD", "queue", &["1760000400000.5", "ghost"]), ("ZREM", "queue", &["ghost"])),
    (("ZADD", "queue", &["-inf", "ghost"]), ("ZREM", "queue", &["ghost"])),
    (("ZADD", "queue", &["inf", "ghost"]), ("ZREM", "queue", &["ghost"])),
    (("HSET", "outcomes", &["x", "y"]), ("HDEL", "outcomes", &["x"])),
    (("HSET", "pool", &["queued", "x"]), ("HSET", "pool", &["queued", "0"])),
    (("HSET", "pool", &["notified", "x"]), ("HDEL", "pool", &["zz"])),
    (("HDEL", "pool", &["notified"]), ("HDEL", "pool", &["zz"])),
    (("HSET", "settings", &["later", "x|y"]), ("HDEL", "settings", &["later"])),
    (("ZADD", "owners", &["0", "W:ghost", "0", "W:", "0", "x"]), ("ZREM", "owners", &["W:ghost", "W:", "x"])),
    (("ZADD", "ended", &["0.5", "x", "inf", "!y", "0", "!"]), ("ZREM", "ended", &["x", "!y", "!"])),
    (("HSET", "schedules", &["s:x", "y"]), ("HDEL", "schedules", &["s:x"])),
    (("ZADD", "planned", &["0", "x"]), ("ZREM", "planned", &["x"])),
    (("ZADD", "parked", &["0.5", "ghost"]), ("ZREM", "parked", &["ghost"])),
    (("HSET", "errors", &["ghost", "x"]), ("HDEL", "errors", &["ghost"])),
    (("XADD", "starts", &["*", "x", "y"]), ("HDEL", "pool", &["zz"])),
    (("XADD", "worker:W", &["*", "x", "y"]), ("HDEL", "pool", &["zz"])),
    (("HSET", "jobs", &["ghost", "1|S|W|1|1|1|1|node1.g|1||99999999999|"]), ("HDEL", "jobs", &["ghost"])),
];

async fn write(lab: &Lab, worker: WorkerId, (command, name, args): Write) {
    let args: Vec<_> = args.iter().map(|arg| arg.replace('W', &worker.to_string())).collect();
    let args: Vec<_> = args.iter().map(String::as_str).collect();
    lab.backend.write(command, &name.replace('W', &worker.to_string()), &args).await;
}

/// Damage that looks like a loss leads to one recovery, as a node makes it.
async fn recovered(lab: &mut Lab, worker: WorkerId) {
    let renewal = lab.step(&renew(&[worker])).await;
    let Err(StoreError::Refused(Refusal::Lost(signs))) = renewal else { return };
    let run_id = lab.read(&ReadIdentity).await.unwrap().run_id;
    lab.inc = lab.step(&Recover { lost: signs, ..recovery(&run_id) }).await.unwrap();
    for member in lab.read(&ReadHeartbeats { workers: None }).await.unwrap().into_keys() {
        assert_eq!(lab.step(&Attend { worker: member, after: None, limit: 128 }).await.unwrap(), None);
    }
    assert_eq!(lab.step(&OpenNormal).await.unwrap(), None);
}

/// Jobs go through their lives, and a worker through its own, on all steps. The names begin with these letters.
async fn lives(lab: &mut Lab, worker: WorkerId, of: &str) {
    recovered(lab, worker).await;
    let name = |what: &str| format!("{of}-{what}");
    let [ends, stops, parks] = ["ends", "stops", "parks"].map(name);
    for job in [&ends, &stops, &parks] {
        assert_eq!(lab.dispatch(job, &format!("node1.!{job}")).await, DispatchReply::Accepted);
    }
    lab.route_all(&[&ends, &stops, &parks], Some(worker)).await;
    for job in [&ends, &stops, &parks] {
        lab.run_assigned(job, worker).await;
    }
    assert!(lab.started(&ends, worker).await);
    assert_eq!(lab.notify(&ends, Some(worker), "body").await, NotifyReply::Kept);
    let note = NotifyItem { key: key("ghost"), guess: None, body: "body".into() };
    lab.step(&Notify { items: vec![note] }).await.unwrap();
    let token = lab.token(&ends).await;
    let taken = lab.take(&ends, worker, token, 0).await.unwrap();
    assert_eq!(taken.bodies, ["body"]);
    let renewal = lab.step(&Renew { node: Some(node("node1")), ..renew(&[worker]) }).await.unwrap();
    assert!(renewal.states[0].is_some());
    assert!(lab.read(&ReadHeartbeats { workers: None }).await.unwrap().contains_key(&worker));
    assert_eq!(lab.stop(&stops, &format!("node1.!{stops}"), Some(worker)).await, StopReply::Stopping);
    lab.backend.advance(2_000).await;
    let swept = lab.step(&Sweep { limit: 100, kick: None }).await.unwrap();
    assert!(swept.stops.iter().any(|(key, ..)| key.to_string() == stops), "{swept:?}");
    lab.step(&Stop {
        turn: None,
        repeat: true,
        waiting: None,
        items: vec![stop("ghost", "node1.g", Some(worker))],
    })
    .await
    .unwrap();
    assert_eq!(lab.release(&stops, worker, ReleaseMode::Delete).await, ReleaseReply::Deleted);
    assert_eq!(lab.release(&ends, worker, ReleaseMode::Delete).await, ReleaseReply::Deleted);
    assert_eq!(lab.release(&parks, worker, ReleaseMode::Fail).await, ReleaseReply::Parked);
    let parked = lab.read(&ListParked { cursor: 0, limit: 100 }).await.unwrap();
    assert!(parked.jobs.iter().any(|job| job.key.to_string() == parks), "{parked:?}");
    let job = (key(&parks), lab.record(&parks).await.unwrap().id);
    assert_eq!(lab.step(&Unpark { jobs: vec![job] }).await.unwrap(), [UnparkReply::Queued]);
    let id = format!("node1.!{parks}");
    assert_eq!(lab.stop(&parks, &id, None).await, StopReply::Deleted);
    let cursors = Cursors { workers: [(worker, Cursors::default().node)].into(), ..Cursors::default() };
    lab.read(&ReadNode { node: node("node1"), cursors, max: 100, block: ms(0) }).await.unwrap();
    lab.step(&ListOwned { worker, after: None, limit: 10 }).await.unwrap();
    lab.read(&ListJobs { cursor: 0, limit: 100 }).await.unwrap();
    let other = lab.worker().await;
    lab.run(&name("moves"), &format!("node1.!{}", name("moves")), other).await;
    lab.leave(other).await;
    assert_eq!(lab.record(&name("moves")).await.unwrap().state, JobState::Parked, "its only attempt is lost");
    let id = format!("node1.!{}", name("moves"));
    assert_eq!(lab.stop(&name("moves"), &id, None).await, StopReply::Deleted);
}

#[tokio::test]
async fn every_step_goes_on_beside_what_somebody_else_wrote() {
    for (at, (damage, repair)) in DAMAGES.into_iter().enumerate() {
        println!("{damage:?}");
        let settings = tenure_protocol::model::settings::Settings { max_attempts: 1, ..Default::default() };
        let mut lab = Lab::with(Kind::Redis, settings).await;
        let worker = lab.worker().await;
        write(&lab, worker, damage).await;
        lives(&mut lab, worker, &format!("a{at}")).await;
        write(&lab, worker, repair).await;
        lives(&mut lab, worker, &format!("b{at}")).await;
    }
}

#[tokio::test]
async fn one_strange_member_or_flag_costs_no_other_its_lease() {
    let lab = Lab::new(Kind::Redis).await;
    let (worker, other) = (lab.worker().await, lab.worker().await);
    for entry in ["Z|x", "", "\u{e9}"] {
        lab.backend.write("HSET", "workers", &[&other.to_string(), entry]).await;
        lab.backend.write("HSET", "settings", &["shutdown", "\u{e9}"]).await;
        let renewal = lab.step(&renew(&[worker, other])).await.unwrap();
        assert_eq!(
            renewal.states.iter().map(Option::is_some).collect::<Vec<_>>(),
            [true, false],
            "{entry:?}"
        );
        assert_eq!(renewal.flag, None);
    }
}

#[tokio::test]
async fn jobs_end_though_their_notifications_are_of_another_type() {
    let lab = Lab::new(Kind::Redis).await;
    let worker = lab.worker().await;
    lab.dispatch("k", "node1.k").await;
    lab.backend.write("SET", "notifications", &["x"]).await;
    lab.run_again("k", worker).await;
    assert_eq!(lab.release("k", worker, ReleaseMode::Delete).await, ReleaseReply::Deleted);
}

#[tokio::test]
async fn a_sweep_puts_off_what_a_client_cannot_read() {
    let lab = Lab::new(Kind::Redis).await;
    let long = "x".repeat(65);
    for (name, record) in [
        ("id", format!("1|S|5|1|1|1|1|node1.{long}|1||0|")),
        ("node", format!("1|S|5|1|1|1|1|{long}.g|1||0|")),
        ("owner", "1|S|18446744073709551616|1|1|1|1|node1.g|1||0|".to_owned()),
        ("strikes", "1|Q||1|1|1|1|node1.g|1||4294967296|".to_owned()),
    ] {
        lab.backend.write_record(&key(name), record.as_bytes()).await;
        lab.backend.write("ZADD", "queue", &["1", name]).await;
    }
    let swept = lab.step(&Sweep { limit: 100, kick: None }).await.unwrap();
    let mut bad: Vec<_> = swept.bad.iter().map(ToString::to_string).collect();
    bad.sort_unstable();
    assert_eq!(bad, ["id", "node", "owner", "strikes"]);
    assert!(swept.stops.is_empty());
}

#[tokio::test]
async fn a_key_of_another_type_costs_no_lease() {
    for name in ["jobs", "payloads", "owners", "queue", "parked"] {
        let lab = Lab::new(Kind::Redis).await;
        let worker = lab.worker().await;
        lab.run("a", "node1.a", worker).await;
        lab.backend.write("SET", name, &["x"]).await;
        let renewal = lab.step(&renew(&[worker])).await.unwrap();
        assert!(renewal.states[0].is_some() && renewal.damage.is_empty(), "{name}");
    }
}
