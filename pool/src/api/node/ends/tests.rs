//! That a node ends, and leaves nobody waiting.
#![allow(clippy::unwrap_used)]
use tenure_testing::eventually;
use tokio::sync::oneshot;

use super::*;
use crate::core::input::{Command, ReplyTo};
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
