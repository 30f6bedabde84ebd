//! Data that somebody else has damaged, and servers that no set can be kept on. A step that meets the first is not sent again.

use tenure_connection::Client;
use tenure_jobs::store::{Boot, OnRedis, RedisStore, SettleReply, StoreError, TakeJobs};
use tenure_jobs::{Incarnation, SetName, Token};
use tenure_testing::RedisServer;

use super::lab::{Lab, Which, done, taking};

/// A take of the queue `a` after this command about the hash of the jobs: why it was refused.
async fn take_after(command: &str, words: &[&str]) -> (Lab, String) {
    let lab = Lab::new(Which::Redis, &[("a", "")]).await;
    lab.add("a", &["j"]).await;
    lab.raw(command, "jobs", words).await;
    let taken = lab.ask(lab.inc.get(), TakeJobs(lab.lane("an1"), taking("a", 9))).await;
    let Err(StoreError::Damaged(why)) = taken else { panic!("{taken:?}") };
    (lab, why.to_string())
}

#[tokio::test]
async fn a_record_that_cannot_be_read_holds_up_no_other_job() {
    let lab = Lab::new(Which::Redis, &[("a", "")]).await;
    lab.add("a", &["j", "k"]).await;
    lab.raw("HSET", "jobs", &["j", "1|Q|0|0||strange"]).await;
    assert_eq!(lab.take("a").await, ["k"]);
}

#[tokio::test]
async fn a_watched_record_that_cannot_be_read_holds_up_no_other_job() {
    let lab = Lab::new(Which::Redis, &[("a", "")]).await;
    lab.add("a", &["j", "k"]).await;
    lab.raw("HSET", "jobs", &["j", "1|Q|0|0|||w|strange"]).await;
    assert_eq!(lab.take("a").await, ["k"]);
}

#[tokio::test]
async fn a_record_whose_end_is_damaged_keeps_no_slot() {
    for (words, group) in [("conc=1", ""), ("g gconc=1", "t")] {
        let lab = Lab::new(Which::Redis, &[("a", words)]).await;
        let add = async |id| lab.add_one("a", id, |kind| kind.group = super::lab::group(group)).await;
        add("j").await;
        let record = lab.dump().await.value("jobs", "j").unwrap().to_owned();
        let beginning = record.rsplitn(3, '|').last().unwrap();
        lab.raw("HSET", "jobs", &["j", beginning]).await;
        // Its consumer cannot read it, and leaves it.
        assert_eq!(lab.take("a").await, [""; 0], "{words}");
        add("k").await;
        assert_eq!(lab.take("a").await, [""; 0], "{words}: the slot is taken");
        lab.advance(60_000).await;
        for _ in 0..2 {
            lab.tick_after(9_000).await;
        }
        assert_eq!(lab.take("a").await, ["k"], "{words}");
        // Its consumer comes back, and the slot is another job's.
        let token = lab.dump().await.value("jobs", "j").unwrap().split('|').nth(2).unwrap().parse().unwrap();
        assert_ne!(lab.settle_as("j", Token(token), done()).await, SettleReply::Ended, "{words}");
        add("l").await;
        assert_eq!(lab.take("a").await, [""; 0], "{words}: the slot is taken");
    }
}

#[tokio::test]
async fn a_key_of_another_type_is_damage() {
    let (_, why) = take_after("SET", &["a text"]).await;
    assert!(why.contains("WRONGTYPE"), "{why}");
}

#[tokio::test]
async fn a_server_that_evicts_is_unusable() {
    let server = RedisServer::builder().config("maxmemory-policy", "allkeys-lru").start().unwrap();
    let client = Client::open(&server.url()).unwrap();
    let store = RedisStore::open(&client, &SetName::new("s").unwrap());
    let booted = Boot(Token(0)).send(&store, Incarnation(0)).await;
    let Err(StoreError::Unusable(why)) = booted else { panic!("{booted:?}") };
    assert_eq!(why.to_string(), "redis runs with maxmemory-policy allkeys-lru, jobs need noeviction");
}
