//! That a node ends, and leaves nobody waiting.
#![allow(clippy::unwrap_used)]
use tenure_testing::eventually;
use tokio::sync::oneshot;

use super::*;
use crate::api::node::joining::Limit;
use crate::core::input::{Command, ReplyTo};
use crate::model::id::Incarnation;
use crate::runtime::driver::Message;
use crate::store::MemoryStore;

const PATIENCE: Duration = Duration::from_secs(30);

async fn node() -> Node {
    let builder = Node::builder("ends", MemoryStore::new()).worker_ttl(Duration::from_secs(60));
    builder.assume_fresh(true).join().await.unwrap()
}

#[tokio::test]
async fn a_node_that_has_left_ends_though_nothing_happens() {
    let node = node().await;
    assert!(node.close().await.unwrap().complete);
    eventually(PATIENCE, "its driver to end", async || node.shards[0].shared.messages.is_closed()).await;
}

#[tokio::test]
async fn a_command_sent_while_a_node_ends_is_dropped() {
    let node = node().await;
    let sending = node.shards[0].shared.messages.reserve().await.unwrap();
    assert!(node.close().await.unwrap().complete);
    let let_go = async || node.shards[0].shared.settings.has_changed().is_err();
    eventually(PATIENCE, "the driver to let go of all else", let_go).await;
    let (answer, answered) = oneshot::channel();
    sending.send(Message::Command(Command::Attach { reply: ReplyTo(7) }, answer));
    let answered = tokio::time::timeout(PATIENCE, answered).await.unwrap();
    assert!(answered.is_err());
}

/// The next pool of this name, and one whose shutdown nobody asked for.
#[tokio::test]
async fn no_other_pool_is_hastened_than_the_one_that_was_seen() {
    let store = MemoryStore::new();
    let builder = Node::builder("ends", &store).worker_ttl(Duration::from_secs(60)).assume_fresh(true);
    let node = builder.clone().join().await.unwrap();
    node.submit(("never begun", "")).await.unwrap();
    let part = builder.part(None, Limit::new(PATIENCE)).await.unwrap();
    let (seen, is_ending) = part.look(1).await.unwrap().unwrap();
    assert!(!is_ending && !part.hasten(seen).await.unwrap(), "the pool is open");
    let ends = tokio::spawn({
        let node = node.clone();
        async move { node.shutdown().closing(PATIENCE * 10).await }
    });
    let is_closing = async || part.look(1).await.unwrap().unwrap().1;
    eventually(PATIENCE, "the shutdown", is_closing).await;
    assert!(!part.hasten(Incarnation(seen.0 - 1)).await.unwrap(), "another pool");
    assert_eq!(node.inspect().jobs().await.unwrap().len(), 1);
    assert!(part.hasten(seen).await.unwrap());
    assert!(ends.await.unwrap().unwrap().complete);
    assert!(!part.hasten(seen).await.unwrap(), "it has ended");
}
