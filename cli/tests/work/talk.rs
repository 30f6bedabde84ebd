//! A program and its node talk: readiness, notifications, checkpoints, the environment.

use std::os::unix::net::UnixDatagram;
use std::time::Duration;

use tenure_pool::error::NotHandled;
use tenure_pool::{AskError, JobKey, JobSpec, JobState, RestartPolicy};
use tenure_testing::eventually;

use super::world::{PATIENCE, SCRIPT, World, signal};

/// The command, for scripts.
fn tenure() -> String {
    snapbox::cmd::cargo_bin!("tenure").display().to_string()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_program_gets_its_job_in_its_environment() {
    let world = World::new().await;
    let command = [
        "--",
        "sh",
        "-c",
        "cat > $FOLDER/in; echo $1 $2 > $FOLDER/args; env > $FOLDER/env; echo 1 > $FOLDER/all; exec sleep 1000",
    ];
    let worker = world.worker("w", command.iter().chain(&["sh", "a {key}", "{token}-{worker}-{else}"])).await;
    world.node.dispatch(JobSpec::new("eu acme", "line\nlast").id("mine")).await.unwrap();
    world.line_in("all").await;
    let read = |name: &str| std::fs::read_to_string(world.file(name)).unwrap();
    let job = world.node.inspect().job("eu acme").await.unwrap().unwrap();
    let (token, id) = (job.token, job.owner.unwrap());
    assert_eq!(
        (read("in"), read("args")),
        ("line\nlast".into(), format!("a eu acme {token}-{id}-{{else}}\n"))
    );
    let env = read("env");
    let expected = [
        ("KEY", "eu acme".to_owned()),
        ("KEY64", "ZXUgYWNtZQ==".to_owned()),
        ("POOL", "feeds".to_owned()),
        ("NODE", "w".to_owned()),
        ("TOKEN", token.to_string()),
        ("WORKER", id.to_string()),
        ("DISPATCH_ID", "asks.!mine".to_owned()),
        ("ATTEMPT", "1".to_owned()),
        ("TTL_MS", "600000".to_owned()),
    ];
    for (name, value) in expected {
        assert!(env.lines().any(|line| line == format!("TENURE_{name}={value}")), "{name}: {env}");
    }
    assert!(!env.contains("REDIS_URL") && !env.contains("TENURE_GUARD"), "{env}");
    worker.leave().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_variable_is_passed_on_when_it_is_named() {
    let (world, worker) = World::with_worker("w", ["--pass-env", "REDIS_URL"].iter().chain(&SCRIPT)).await;
    world.node.dispatch(("acme", "echo $REDIS_URL > $FOLDER/url; exec sleep 1000")).await.unwrap();
    assert_eq!(world.line_in("url").await.trim(), world.server.url());
    worker.leave().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_key_that_no_argument_can_hold_is_parked() {
    let (world, worker) = World::with_worker("w", ["--", "sh", "-c", "exec sleep 1000", "{key}"]).await;
    let key = JobKey::new(&b"a\0'\"\xff"[..]).unwrap();
    world.node.dispatch((key, "")).await.unwrap_err();
    let parked = world.node.inspect().parked().await.unwrap();
    assert!(parked[0].error.contains("TENURE_KEY64"), "{parked:?}");
    worker.leave().await;
    let worker =
        world.worker("w2", ["--", "sh", "-c", "echo $TENURE_KEY64 > $FOLDER/key; exec sleep 1000"]).await;
    let key = JobKey::new([&[0, b'\n', b'\'', b'"', 0xff][..], &[b'k'; 507]].concat()).unwrap();
    world.node.dispatch((key, "")).await.unwrap();
    assert!(world.line_in("key").await.starts_with("AAonIv9ra2tr"));
    worker.leave().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_payload_comes_in_a_file_that_only_its_user_reads() {
    let world = World::new().await;
    let script = "ls -l $TENURE_PAYLOAD_FILE | cut -c1-10 > $FOLDER/mode; cp $TENURE_PAYLOAD_FILE $FOLDER/body; echo 1 > $FOLDER/all; exec sleep 1000";
    let worker = world.worker("w", ["--payload", "file", "--", "sh", "-c", script]).await;
    let body = vec![7; 300_000];
    world.node.dispatch(("acme", body.clone())).await.unwrap();
    world.line_in("all").await;
    assert_eq!(world.line_in("mode").await, "-rw-------\n");
    assert_eq!(std::fs::read(world.file("body")).unwrap(), body);
    worker.leave().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_dispatch_returns_when_its_program_says_that_it_is_ready() {
    let (world, worker) = World::with_worker("w", ["--ready", "notify"].iter().chain(&SCRIPT)).await;
    let script = format!(
        "until test -e $FOLDER/go; do sleep 0.01; done; echo 1 > $FOLDER/ready; {} ctl ready; exec sleep 1000",
        tenure()
    );
    let dispatch = world.node.dispatch(("ctl", script));
    let dispatch = tokio::spawn(async move { dispatch.await });
    let begun =
        || async { world.node.inspect().job("ctl").await.unwrap().is_some_and(|job| job.attempts == 1) };
    eventually(PATIENCE, "it is begun", begun).await;
    assert!(!dispatch.is_finished() && !world.file("ready").exists());
    std::fs::write(world.file("go"), "").unwrap();
    dispatch.await.unwrap().unwrap();
    assert!(world.file("ready").exists());
    // By systemd's protocol, spoken by this test.
    let dispatch = world.node.dispatch(("sd", "echo $NOTIFY_SOCKET > $FOLDER/socket; exec sleep 1000"));
    let dispatch = tokio::spawn(async move { dispatch.await });
    let socket = world.line_in("socket").await;
    UnixDatagram::unbound().unwrap().send_to(b"STATUS=here\nREADY=1\n", socket.trim()).unwrap();
    dispatch.await.unwrap().unwrap();
    worker.leave().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_program_that_asks_for_more_time_to_start_gets_it() {
    let world = World::new().await;
    let args = ["--ready", "notify", "--start-timeout", "1s", "--grace", "1s"];
    let worker = world.worker("w", args.iter().chain(&SCRIPT)).await;
    let script = "echo $NOTIFY_SOCKET > $FOLDER/socket; exec sleep 1000";
    let slow = world.node.dispatch(("slow", script));
    let slow = tokio::spawn(async move { slow.await });
    let socket = world.line_in("socket").await;
    let says = |words: &[u8]| UnixDatagram::unbound().unwrap().send_to(words, socket.trim());
    says(b"EXTEND_TIMEOUT_USEC=60000000").unwrap();
    // One that begins later, and does not ask, is late first.
    let script = format!("{} ctl status connecting; exec sleep 1000", tenure());
    world.node.submit(("late", script)).await.unwrap();
    let error = || async { world.node.inspect().job("late").await.unwrap().and_then(|job| job.error) };
    let error = eventually(PATIENCE, "it fails", error).await;
    assert_eq!(error, "it was not ready within 1s; its last status was: connecting");
    assert!(!slow.is_finished());
    says(b"READY=1").unwrap();
    slow.await.unwrap().unwrap();
    assert_eq!(world.node.inspect().job("slow").await.unwrap().unwrap().attempts, 1);
    world.stop("late").await;
    worker.leave().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_program_that_triggers_its_watchdog_is_killed() {
    // Whether it runs, or has not said that it is ready.
    for ready in ["exec", "notify"] {
        let world = World::new().await;
        let options = ["--watchdog", "10m", "--ready", ready, "--start-timeout", "10m"];
        let worker = world.worker("w", options.iter().chain(&SCRIPT)).await;
        let script = "echo $NOTIFY_SOCKET > $FOLDER/socket; exec sleep 1000";
        world.node.submit(JobSpec::new("broken", script).restart(RestartPolicy::OnFailure)).await.unwrap();
        let socket = world.line_in("socket").await;
        UnixDatagram::unbound().unwrap().send_to(b"WATCHDOG=trigger", socket.trim()).unwrap();
        let error = || async { world.node.inspect().job("broken").await.unwrap().and_then(|job| job.error) };
        let error = eventually(PATIENCE, "it fails", error).await;
        assert_eq!(error, "it has triggered its watchdog", "{ready}");
        world.stop("broken").await;
        worker.leave().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_notification_is_taken_once_and_in_order() {
    let (world, worker) = World::with_worker("w", SCRIPT).await;
    let script = format!(
        "while {0} ctl next > $FOLDER/note; do cat $FOLDER/note >> $FOLDER/notes; echo >> $FOLDER/notes; done",
        tenure()
    );
    world.node.dispatch(("acme", script)).await.unwrap();
    for body in ["one", "two", "three"] {
        world.node.notify("acme", body).await.unwrap();
    }
    let all = || async {
        std::fs::read_to_string(world.file("notes")).is_ok_and(|text| text == "one\ntwo\nthree\n")
    };
    eventually(PATIENCE, "all notes", all).await;
    let taken = || async { world.node.inspect().notifications("acme").await.unwrap().is_empty() };
    eventually(PATIENCE, "they count as taken", taken).await;
    worker.leave().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_notification_that_was_not_done_comes_to_the_next_owner() {
    let (world, worker) = World::with_worker("w", SCRIPT).await;
    let script = format!(
        "{} ctl next > $FOLDER/note-$TENURE_NODE; echo >> $FOLDER/note-$TENURE_NODE; exec sleep 1000",
        tenure()
    );
    world.node.dispatch(("acme", script)).await.unwrap();
    world.node.notify("acme", "one").await.unwrap();
    assert_eq!(world.line_in("note-w").await, "one\n");
    let other = world.worker("other", SCRIPT).await;
    worker.leave().await;
    assert_eq!(world.line_in("note-other").await, "one\n");
    other.leave().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_command_takes_notifications_until_it_succeeds() {
    let world = World::new().await;
    let command = "cat >> $FOLDER/tries; echo >> $FOLDER/tries; test -e $FOLDER/open";
    let worker = world.worker("w", ["--on-notify", command].iter().chain(&SCRIPT)).await;
    world.node.dispatch(("acme", "exec sleep 1000")).await.unwrap();
    world.node.notify("acme", "one").await.unwrap();
    assert_eq!(world.line_in("tries").await, "one\n");
    assert_eq!(world.node.inspect().notifications("acme").await.unwrap().len(), 1);
    std::fs::write(world.file("open"), "").unwrap();
    let taken = || async { world.node.inspect().notifications("acme").await.unwrap().is_empty() };
    eventually(PATIENCE, "it counts as taken", taken).await;
    assert!(std::fs::read_to_string(world.file("tries")).unwrap().starts_with("one\none\n"));
    worker.leave().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_command_answers_asks() {
    let world = World::new().await;
    // Beside the program, as its job, and in the order of the asks.
    let command = "read question; echo \"$TENURE_KEY $TENURE_TOKEN $question\"";
    let worker = world.worker("w", ["--on-ask", command].iter().chain(&SCRIPT)).await;
    world.node.dispatch(("acme", "exec sleep 1000")).await.unwrap();
    let token = world.node.inspect().job("acme").await.unwrap().unwrap().token;
    for question in ["how many?", "and now?"] {
        let answer = world.node.ask("acme", question).deadline(PATIENCE).await.unwrap();
        assert_eq!(answer, format!("acme {} {question}\n", token.0));
    }
    worker.leave().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_ask_that_cannot_be_answered_is_refused_by_name() {
    let world = World::new().await;
    // The question is what runs.
    let worker = world.worker("w", ["--on-ask", "eval \"$(cat)\""].iter().chain(&SCRIPT)).await;
    world.node.dispatch(("acme", "exec sleep 1000")).await.unwrap();
    let refused =
        async |question: &str| match world.node.ask("acme", question.to_owned()).deadline(PATIENCE).await {
            Err(AskError::Refused(why)) => why,
            other => panic!("{question}: {other:?}"),
        };
    assert_eq!(
        refused("echo half; echo no such account >&2; exit 3").await,
        "exit status 3: no such account"
    );
    assert_eq!(refused("kill -9 $$").await, "killed by SIGKILL");
    let sent_on = "test -e $FOLDER/asked && echo here || { touch $FOLDER/asked; exit 75; }";
    assert_eq!(
        world.node.ask("acme", sent_on).deadline(PATIENCE).await.unwrap(),
        "here\n",
        "it is asked again"
    );
    assert_eq!(refused("head -c 1000000 /dev/zero").await, "the answer has more than 65536 bytes");
    assert_eq!(
        world.node.ask("acme", "head -c 65536 /dev/zero").deadline(PATIENCE).await.unwrap().len(),
        65_536
    );
    worker.leave().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_command_that_does_not_answer_delays_its_ask_only() {
    let world = World::new().await;
    let command =
        "read question; test \"$question\" = easy || { echo 1 > $FOLDER/has; sleep 1000; }; echo done";
    let worker = world.worker("w", ["--on-ask", command].iter().chain(&SCRIPT)).await;
    world.node.dispatch(("acme", "exec sleep 1000")).await.unwrap();
    // The command may not have the question in time.
    let mut is_unknown = false;
    while !is_unknown || !world.file("has").exists() {
        let late = world.node.ask("acme", "hard").deadline(Duration::from_secs(3)).await.unwrap_err();
        match late {
            AskError::Unknown { .. } => is_unknown = true,
            AskError::NotHandled(NotHandled::Late) => {}
            other => panic!("{other:?}"),
        }
    }
    assert_eq!(world.node.ask("acme", "easy").deadline(PATIENCE).await.unwrap(), "done\n");
    worker.leave().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_worker_without_a_command_for_asks_takes_none() {
    let (world, worker) = World::with_worker("w", SCRIPT).await;
    world.node.dispatch(("acme", "exec sleep 1000")).await.unwrap();
    let error = world.node.ask("acme", "how many?").await.unwrap_err();
    assert!(matches!(error, AskError::NotHandled(NotHandled::TakesNone)), "{error:?}");
    worker.leave().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_program_dispatches_and_notifies_other_keys() {
    let (world, worker) = World::with_worker("w", SCRIPT).await;
    let ctl = format!("{} ctl", tenure());
    let child = format!("{ctl} next > $FOLDER/note; echo >> $FOLDER/note; exec sleep 1000");
    std::fs::write(world.file("child"), child).unwrap();
    let script = format!(
        "{ctl} dispatch child --body-file $FOLDER/child && {ctl} notify child hello; echo $? > $FOLDER/said; \
         {ctl} notify nobody hello 2> $FOLDER/error; exec sleep 1000"
    );
    world.node.dispatch(("parent", script)).await.unwrap();
    assert_eq!(world.line_in("said").await, "0\n");
    assert_eq!(world.line_in("note").await, "hello\n");
    assert!(world.line_in("error").await.contains("no job has the key nobody"));
    assert_eq!(world.node.inspect().job("child").await.unwrap().unwrap().state, JobState::Running);
    worker.leave().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_checkpoint_comes_to_the_next_owner() {
    let world = World::new().await;
    let script = format!(
        "if test -e \"$TENURE_CHECKPOINT_FILE\"; then cat $TENURE_CHECKPOINT_FILE > $FOLDER/got; echo >> $FOLDER/got; \
         else echo state-17 | tr -d '\\n' | {} ctl checkpoint; echo $? > $FOLDER/left; fi; exec sleep 1000",
        tenure()
    );
    let worker = world.worker("w", SCRIPT).await;
    world.node.dispatch(("acme", script)).await.unwrap();
    assert_eq!(world.line_in("left").await, "0\n");
    let other = world.worker("other", SCRIPT).await;
    worker.leave().await;
    assert_eq!(world.line_in("got").await, "state-17\n");
    other.leave().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_program_asks_how_long_its_lease_lasts() {
    let (world, worker) = World::with_worker("w", SCRIPT).await;
    let script = format!("{} ctl lease > $FOLDER/lease; exec sleep 1000", tenure());
    world.node.dispatch(("acme", script)).await.unwrap();
    let left: u64 = world.line_in("lease").await.trim().parse().unwrap();
    assert!((1..=360_000).contains(&left), "{left}");
    worker.leave().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stop_is_a_signal_that_a_program_may_answer() {
    let (world, worker) = World::with_worker("w", ["--stop-signal", "USR1"].iter().chain(&SCRIPT)).await;
    let script = "trap 'echo stopped > $FOLDER/stopped; exit 9' USR1; echo 1 > $FOLDER/on; while :; do sleep 0.01; done";
    world.node.dispatch(("acme", script)).await.unwrap();
    world.line_in("on").await;
    world.node.stop_job("acme").until_stopped().await.unwrap();
    assert_eq!(std::fs::read_to_string(world.file("stopped")).unwrap(), "stopped\n");
    signal(worker.guard(), rustix::process::Signal::INT);
    let mut worker = worker;
    assert_eq!(worker.ended().await.code(), Some(0));
}
