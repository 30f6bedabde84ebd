//! Nobody reads the log of the node.

use super::stderr::Unread;
use super::world::{SCRIPT, Worker, World};

#[tokio::test(flavor = "multi_thread")]
async fn jobs_go_on_whatever_becomes_of_the_log() {
    for kind in Unread::ALL {
        let world = World::new().await;
        let (stderr, _reader) = kind.stderr();
        let mut command = world.command("w");
        command.args(["--log-level", "debug", "--logs", "null"]).args(SCRIPT).stderr(stderr);
        let worker = Worker { guard: command.spawn().unwrap() };
        world.up("w").await;
        world.node.dispatch(("good", "exec sleep 1000")).await.unwrap();
        let before = world.node.inspect().job("good").await.unwrap().unwrap();
        // Each of them is told in the log.
        world.node.dispatch(("bad", "echo no; exit 3")).await.unwrap_err();
        world.node.dispatch(("other", "exec sleep 1000")).await.unwrap();
        let after = world.node.inspect().job("good").await.unwrap().unwrap();
        assert_eq!(after.token, before.token, "{kind:?}: it runs on");
        worker.leave().await;
    }
}
