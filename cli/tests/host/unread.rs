//! Nobody reads the log of the node.

use super::stderr::Unread;
use super::world::{Host, World, raw};

#[tokio::test(flavor = "multi_thread")]
async fn hosted_jobs_go_on_whatever_becomes_of_the_log() {
    for kind in Unread::ALL {
        let world = World::new().await;
        let (stderr, _reader) = kind.stderr();
        let mut command = world.command("h", 1, &["--log-level", "debug", "--logs", "null"]);
        command.arg("--").args(raw("good")).stderr(stderr);
        let host = Host { guard: command.spawn().unwrap() };
        world.up("h", 1).await;
        world.node.dispatch(("good", "")).await.unwrap();
        let before = world.running("good").await;
        world.node.dispatch(("other", "")).await.unwrap();
        world.node.stop_job("other").until_stopped().await.unwrap();
        assert_eq!(world.running("good").await.token, before.token, "{kind:?}: it runs on");
        host.leave().await;
    }
}
