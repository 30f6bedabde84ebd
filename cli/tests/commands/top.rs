//! `tenure top` on a terminal of its own.

use std::io::{Read, Write};
use std::num::NonZero;
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};

use portable_pty::{Child, CommandBuilder, MasterPty, PtySize, native_pty_system};
use rustix::process::{Pid, Signal, kill_process};
use rustix::termios::{LocalModes, tcgetattr};
use tenure_pool::JobState;
use tenure_testing::eventually;

use crate::world::{PATIENCE, World, said, status, tenure};

/// The command on a terminal, and the screen that one would see.
struct Top {
    master: Box<dyn MasterPty + Send>,
    child: Box<dyn Child + Send + Sync>,
    typing: Box<dyn Write + Send>,
    screen: Arc<Mutex<vt100::Parser>>,
    reading: Option<JoinHandle<()>>,
    /// Keeps the terminal, so that its modes can be read after the end.
    tty: std::fs::File,
    before: LocalModes,
}

fn size(n: u16) -> NonZero<u16> {
    NonZero::new(n).unwrap()
}

impl Top {
    fn start(world: &World, pool: &str, args: &[&str]) -> Self {
        let pty = native_pty_system().openpty(PtySize { rows: 24, cols: 80, ..PtySize::default() }).unwrap();
        let tty = std::fs::File::open(pty.master.tty_name().unwrap()).unwrap();
        let before = tcgetattr(&tty).unwrap().local_modes;
        let mut command = CommandBuilder::new(snapbox::cmd::cargo_bin!("tenure"));
        command.args(["top", "--every", "200ms", "--url", &world.server.url(), "--pool", pool]);
        command.args(args);
        command.env("TERM", "xterm-256color");
        command.env_remove("NO_COLOR");
        let child = pty.slave.spawn_command(command).unwrap();
        drop(pty.slave);
        let screen = Arc::new(Mutex::new(vt100::Parser::new(size(24), size(80), 0)));
        let (seen, mut output) = (screen.clone(), pty.master.try_clone_reader().unwrap());
        let reading = thread::spawn(move || {
            let mut part = [0; 4_096];
            while let Ok(read @ 1..) = output.read(&mut part) {
                seen.lock().unwrap().process(&part[..read]);
            }
        });
        let typing = pty.master.take_writer().unwrap();
        Self { master: pty.master, child, typing, screen, reading: Some(reading), tty, before }
    }

    fn seen(&self) -> String {
        self.screen.lock().unwrap().screen().contents()
    }

    /// Waits until the screen has this text.
    async fn shows(&self, text: &str) {
        let what = format!("the screen to have: {text}");
        let look = async || Some(self.seen()).filter(|seen| !seen.contains(text)).map_or(Ok(()), Err);
        eventually(PATIENCE, &what, look).await;
    }

    fn types(&mut self, keys: &str) {
        self.typing.write_all(keys.as_bytes()).unwrap();
        self.typing.flush().unwrap();
    }

    /// Types, and waits until the screen has this text.
    async fn types_until(&mut self, keys: &str, text: &str) {
        self.types(keys);
        self.shows(text).await;
    }

    fn resize(&self, rows: u16, cols: u16) {
        self.screen.lock().unwrap().screen_mut().set_size(size(rows), size(cols));
        self.master.resize(PtySize { rows, cols, ..PtySize::default() }).unwrap();
    }

    fn signal(&self, signal: Signal) {
        kill_process(self.pid(), signal).unwrap();
    }

    fn pid(&self) -> Pid {
        Pid::from_raw(i32::try_from(self.child.process_id().unwrap()).unwrap()).unwrap()
    }

    fn modes(&self) -> LocalModes {
        tcgetattr(&self.tty).unwrap().local_modes
    }

    /// Waits for the end, and checks that the terminal is as it was. Returns the exit status.
    async fn ends(mut self) -> u32 {
        let ended = tokio::task::spawn_blocking(move || {
            let status = self.child.wait().unwrap().exit_code();
            (self, status)
        });
        let (mut top, status) = tokio::time::timeout(PATIENCE, ended).await.unwrap().unwrap();
        assert_eq!(top.modes(), top.before);
        drop(top.tty);
        top.reading.take().unwrap().join().unwrap();
        let parser = top.screen.lock().unwrap();
        assert!(!parser.screen().alternate_screen() && !parser.screen().hide_cursor());
        status
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn top_shows_workers_jobs_and_why_they_are_where_they_are() {
    let world = World::running(2, &["acme", "hooli"]).await;
    let mut top = Top::start(&world, "feeds", &[]);
    top.shows("WORKER").await;
    top.shows("jobs 2  on workers 2").await;
    assert!(!top.modes().contains(LocalModes::ICANON), "keys come one by one");
    top.types_until("2", "hooli").await;
    top.types_until("/acm\r", "jobs  acm  1 jobs").await;
    top.types_until("\r", "acme: running on worker").await;
    top.types_until("\x1b", "jobs  acm  1 jobs").await;
    top.types("q");
    assert_eq!(top.ends().await, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn top_hears_events_over_a_read_that_the_server_holds() {
    let world = World::with_workers(1).await;
    let mut top = Top::start(&world, "feeds", &[]);
    top.shows("jobs 0  on workers 0").await;
    // The node's own reads end with it.
    world.node.abandon();
    world.node.closed().await;
    let held = || world.server.clients().unwrap().iter().filter(|client| client.flags.contains('b')).count();
    eventually(PATIENCE, "one held read", async || held() == 1).await;
    let desk = world.another("desk").await;
    desk.operate().cordon("elsewhere").await.unwrap();
    top.types_until("4", "cordon of elsewhere").await;
    top.types("q");
    assert_eq!(top.ends().await, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn top_changes_the_pool_only_after_a_yes() {
    let world = World::running(1, &["acme"]).await;
    let state = async || world.node.inspect().job("acme").await.unwrap().map(|job| job.state);
    let mut top = Top::start(&world, "feeds", &[]);
    top.types_until("2", "acme").await;
    top.types_until("p", "park acme").await;
    top.types_until("n", "nothing was done").await;
    assert_eq!(state().await, Some(JobState::Running));
    top.types_until("py", "acme is parked").await;
    assert_eq!(state().await, Some(JobState::Parked));
    top.types_until("3", "parked  1 jobs").await;
    top.shows("parked by hand").await;
    top.types_until("ry", "acme is retried").await;
    top.types_until("2", "running").await;
    top.types_until("Py", "acme is paused").await;
    let is_paused =
        async || world.node.inspect().job("acme").await.unwrap().is_some_and(|job| job.paused.is_some());
    assert!(is_paused().await);
    // The listing says so before the key means the other thing.
    top.shows("paused by hand").await;
    top.types_until("P", "resume acme").await;
    top.types_until("y", "acme is resumed").await;
    eventually(PATIENCE, "the job to run", async || state().await == Some(JobState::Running)).await;
    top.types_until("1n", "n1").await;
    top.types_until("cy", "node n1 is cordoned").await;
    let is_cordoned =
        async || world.node.inspect().workers().await.unwrap().iter().all(|worker| worker.cordoned);
    eventually(PATIENCE, "the node to know its cordon", is_cordoned).await;
    top.types_until("w", "if 1 worker goes: 1 of 1 jobs move (100.0 %), 1 wait").await;
    top.types_until("+", "if 1 worker goes and 1 joins: 1 of 1 jobs move (100.0 %)").await;
    top.types_until("1d", "workers that leave the ring: 1").await;
    top.shows("1 wait").await;
    top.types_until("n1\r", "node n1 drains").await;
    top.types("q");
    assert_eq!(top.ends().await, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn top_keeps_its_picture_while_redis_is_silent() {
    let world = World::running(1, &["acme"]).await;
    let mut top = Top::start(&world, "feeds", &[]);
    top.shows("jobs 1  on workers 1").await;
    world.server.kill().unwrap();
    top.shows("Redis silent for").await;
    assert!(top.seen().contains("n1"), "{}", top.seen());
    top.types("\x03");
    assert_eq!(top.ends().await, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn top_gives_the_terminal_back_after_a_signal() {
    let world = World::with_workers(1).await;
    for signal in [Signal::TERM, Signal::INT, Signal::HUP] {
        let top = Top::start(&world, "feeds", &[]);
        top.shows("WORKER").await;
        top.signal(signal);
        assert_eq!(top.ends().await, 130, "{signal:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn top_gives_the_terminal_back_while_it_is_suspended() {
    let world = World::with_workers(1).await;
    let mut top = Top::start(&world, "feeds", &[]);
    top.shows("WORKER").await;
    top.types("\x1a");
    let is_plain = async || !top.screen.lock().unwrap().screen().alternate_screen();
    eventually(PATIENCE, "the plain screen", is_plain).await;
    eventually(PATIENCE, "the modes of before", async || top.modes() == top.before).await;
    let path = format!("/proc/{}/stat", top.pid().as_raw_nonzero());
    let is_stopped = async || std::fs::read_to_string(&path).unwrap().contains(") T ");
    eventually(PATIENCE, "the process to stop", is_stopped).await;
    top.signal(Signal::CONT);
    let is_back = async || top.screen.lock().unwrap().screen().alternate_screen();
    eventually(PATIENCE, "its own screen", is_back).await;
    top.shows("WORKER").await;
    top.types("q");
    assert_eq!(top.ends().await, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn top_takes_another_size_of_the_terminal() {
    let world = World::with_workers(1).await;
    let mut top = Top::start(&world, "feeds", &[]);
    top.shows("WORKER").await;
    top.resize(40, 130);
    top.shows("VERSION").await;
    top.resize(3, 9);
    top.shows("tenure").await;
    top.types("q");
    assert_eq!(top.ends().await, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn top_says_that_it_needs_a_terminal_and_a_pool() {
    let world = World::with_workers(1).await;
    let done = world.run(&["top"]).await;
    assert_eq!(status(&done), Some(2));
    assert!(said(&done).contains("top needs a terminal"), "{}", said(&done));
    assert_eq!(status(&tenure(["top"]).assert()), Some(2));
    let top = Top::start(&world, "typo", &[]);
    let screen = top.screen.clone();
    assert_eq!(top.ends().await, 3);
    let seen = screen.lock().unwrap().screen().contents();
    assert!(seen.contains("there is no pool \"typo\""), "{seen}");
}
