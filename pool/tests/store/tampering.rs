//! Strange writes into the pool's keys on Redis. Every step still works, whatever is beside its own values.

use tenure_pool::id::{Token, WorkerId};
use tenure_pool::record::JobState;
use tenure_pool::store::{
    Cursors, DispatchReply, NotifyItem, NotifyReply, Refusal, ReleaseMode, ReleaseReply, Seen, StopReply,
    StoreError, UnparkReply,
};

use super::lab::{Kind, Lab, key, ms, node, stop};

/// A command on one of the pool's keys; `W` is the id of a worker.
type Write = (&'static str, &'static str, &'static [&'static str]);

/// The write, and the one that undoes it.
const DAMAGES: [(Write, Write); 27] = [
    (("HSET", "jn", &["x", "y"]), ("HDEL", "jn", &["x"])),
    (("HSET", "jn", &["h:ghost", "1|900|5"]), ("HDEL", "jn", &["h:ghost"])),
    (("HSET", "w", &["garbage", "Z||"]), ("HDEL", "w", &["garbage"])),
    (("HSET", "w", &["x", "P|-|1|n|m|"]), ("HDEL", "w", &["x"])),
    (("HSET", "w", &["7", "U|99999999999999999999|1|n|m|"]), ("HDEL", "w", &["7"])),
    (("HSET", "dw", &["garbage", "x"]), ("HDEL", "dw", &["garbage"])),
    (("HSET", "dw", &["99", "x|99999999999999999999"]), ("HDEL", "dw", &["99"])),
    (("HSET", "hb", &["W", "x"]), ("HDEL", "hb", &["x"])),
    (("HSET", "hb", &["x", "y"]), ("HDEL", "hb", &["x"])),
    (("ZADD", "q", &["0.5", "ghost"]), ("ZREM", "q", &["ghost"])),
    (("ZADD", "q", &["1760000400000.5", "ghost"]), ("ZREM", "q", &["ghost"])),
    (("ZADD", "q", &["-inf", "ghost"]), ("ZREM", "q", &["ghost"])),
    (("ZADD", "q", &["inf", "ghost"]), ("ZREM", "q", &["ghost"])),
    (("HSET", "od", &["x", "y"]), ("HDEL", "od", &["x"])),
    (("HSET", "m", &["nq", "x"]), ("HSET", "m", &["nq", "0"])),
    (("HSET", "m", &["nt", "x"]), ("HDEL", "m", &["zz"])),
    (("HDEL", "m", &["nt"]), ("HDEL", "m", &["zz"])),
    (("HSET", "cf", &["later", "x|y"]), ("HDEL", "cf", &["later"])),
    (("ZADD", "bw", &["0", "W:ghost", "0", "W:", "0", "x"]), ("ZREM", "bw", &["W:ghost", "W:", "x"])),
    (("ZADD", "tb", &["0.5", "x", "inf", "!y", "0", "!"]), ("ZREM", "tb", &["x", "!y", "!"])),
    (("HSET", "sc", &["s:x", "y"]), ("HDEL", "sc", &["s:x"])),
    (("ZADD", "pi", &["0", "x"]), ("ZREM", "pi", &["x"])),
    (("ZADD", "pk", &["0.5", "ghost"]), ("ZREM", "pk", &["ghost"])),
    (("HSET", "je", &["ghost", "x"]), ("HDEL", "je", &["ghost"])),
    (("XADD", "ps", &["*", "x", "y"]), ("HDEL", "m", &["zz"])),
    (("XADD", "ws:W", &["*", "x", "y"]), ("HDEL", "m", &["zz"])),
    (("HSET", "jo", &["ghost", "1|S|W|1|1|1|1|node1.g|1||99999999999|"]), ("HDEL", "jo", &["ghost"])),
];

async fn write(lab: &Lab, worker: WorkerId, (command, name, args): Write) {
    let args: Vec<_> = args.iter().map(|arg| arg.replace('W', &worker.to_string())).collect();
    let args: Vec<_> = args.iter().map(String::as_str).collect();
    lab.backend.write(command, &name.replace('W', &worker.to_string()), &args).await;
}

/// Damage that looks like a loss leads to one recovery, as a node makes it.
async fn recovered(lab: &mut Lab, worker: WorkerId) {
    let renewal = lab.store().renew(lab.inc, Token(0), None, &[worker]).await;
    let Err(StoreError::Refused(Refusal::Lost(signs))) = renewal else { return };
    let run_id = lab.store().server_identity().await.unwrap().run_id;
    lab.inc = lab.store().recover(lab.inc, Seen::default(), &run_id, &signs).await.unwrap();
    for member in lab.store().heartbeats(None).await.unwrap().into_keys() {
        assert_eq!(lab.store().attend(lab.inc, member, None, 128).await.unwrap(), None);
    }
    assert_eq!(lab.store().open_normal(lab.inc).await.unwrap(), None);
}

/// Jobs go through their lives, and a worker through its own, on all steps. The names begin with these letters.
async fn lives(lab: &mut Lab, worker: WorkerId, of: &str) {
    recovered(lab, worker).await;
    let store = lab.store();
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
    store.notify(lab.inc, &[note]).await.unwrap();
    let token = lab.token(&ends).await;
    let taken = lab.take(&ends, worker, token, 0).await.unwrap();
    assert_eq!(taken.bodies, ["body"]);
    let renewal = store.renew(lab.inc, Token(0), Some(&node("node1")), &[worker]).await.unwrap();
    assert!(renewal.states[0].is_some());
    assert!(store.heartbeats(None).await.unwrap().contains_key(&worker));
    assert_eq!(lab.stop(&stops, &format!("node1.!{stops}"), Some(worker)).await, StopReply::Stopping);
    lab.backend.advance(2_000).await;
    let swept = store.sweep(lab.inc, 100, false).await.unwrap();
    assert!(swept.stops.iter().any(|(key, ..)| key.to_string() == stops), "{swept:?}");
    store.stop(lab.inc, true, None, &[stop("ghost", "node1.g", Some(worker))]).await.unwrap();
    assert_eq!(lab.release(&stops, worker, ReleaseMode::Delete).await, ReleaseReply::Deleted);
    assert_eq!(lab.release(&ends, worker, ReleaseMode::Delete).await, ReleaseReply::Deleted);
    assert_eq!(lab.release(&parks, worker, ReleaseMode::Fail).await, ReleaseReply::Parked);
    let parked = store.parked_page(0, 100).await.unwrap();
    assert!(parked.jobs.iter().any(|job| job.key.to_string() == parks), "{parked:?}");
    let job = (key(&parks), lab.record(&parks).await.unwrap().id);
    assert_eq!(store.unpark(lab.inc, &[job]).await.unwrap(), [UnparkReply::Queued]);
    let id = format!("node1.!{parks}");
    assert_eq!(lab.stop(&parks, &id, None).await, StopReply::Deleted);
    let cursors = Cursors { workers: [(worker, Cursors::default().node)].into(), ..Cursors::default() };
    store.node_events(&node("node1"), &cursors, 100, ms(0)).await.unwrap();
    store.owned(lab.inc, worker, None, 10).await.unwrap();
    store.jobs_page(0, 100).await.unwrap();
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
        let settings = tenure_pool::settings::Settings { max_attempts: 1, ..Default::default() };
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
        lab.backend.write("HSET", "w", &[&other.to_string(), entry]).await;
        lab.backend.write("HSET", "cf", &["sd", "\u{e9}"]).await;
        let renewal = lab.store().renew(lab.inc, Token(0), None, &[worker, other]).await.unwrap();
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
    lab.backend.write("SET", "jn", &["x"]).await;
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
        ("mix", "1|Q||1|1|1|1|node1.g|1||4294967296|".to_owned()),
    ] {
        lab.backend.write_record(&key(name), record.as_bytes()).await;
        lab.backend.write("ZADD", "q", &["1", name]).await;
    }
    let swept = lab.store().sweep(lab.inc, 100, false).await.unwrap();
    let mut bad: Vec<_> = swept.bad.iter().map(ToString::to_string).collect();
    bad.sort_unstable();
    assert_eq!(bad, ["id", "mix", "node", "owner"]);
    assert!(swept.stops.is_empty());
}

#[tokio::test]
async fn a_key_of_another_type_costs_no_lease() {
    for name in ["jo", "jp", "bw", "q", "pk"] {
        let lab = Lab::new(Kind::Redis).await;
        let worker = lab.worker().await;
        lab.run("a", "node1.a", worker).await;
        lab.backend.write("SET", name, &["x"]).await;
        let renewal = lab.store().renew(lab.inc, Token(0), None, &[worker]).await.unwrap();
        assert!(renewal.states[0].is_some() && renewal.damage.is_empty(), "{name}");
    }
}
