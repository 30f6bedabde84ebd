//! The terminal of a child of this test, which is this program again.
#![allow(clippy::unwrap_used)]

use std::io::Read;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::thread;

use portable_pty::{CommandBuilder, PtySize, native_pty_system};
use rustix::stdio::{dup2_stderr, dup2_stdout, stdout};
use rustix::termios::{LocalModes, tcgetattr};

use super::super::sample;
use super::super::view::Look;
use super::Terminal;

/// Names what the child does.
const CHILD: &str = "TENURE_TEST_TERMINAL";

/// Takes the terminal, and ends as it is told.
#[test]
#[ignore = "it is run by the others, on a terminal of their own"]
fn child() {
    let Ok(end) = std::env::var(CHILD) else { return };
    let mut terminal = Terminal::take().unwrap();
    terminal.draw(&sample::model(), Look { colour: false, ascii: true }).unwrap();
    assert!(!tcgetattr(std::io::stdin()).unwrap().local_modes.contains(LocalModes::ICANON));
    match end.as_str() {
        "panic" => panic!("the screen broke"),
        "elsewhere" => {
            let reader = thread::spawn(|| panic!("the reader broke"));
            assert!(reader.join().is_err());
            assert!(!tcgetattr(std::io::stdin()).unwrap().local_modes.contains(LocalModes::ICANON));
            println!("kept: {:?}", terminal.leave());
        }
        "gone" => {
            let tty = rustix::io::dup(stdout()).unwrap();
            let (_, unread) = std::io::pipe().unwrap();
            dup2_stdout(&unread).unwrap();
            dup2_stderr(&unread).unwrap();
            let left = catch_unwind(AssertUnwindSafe(|| terminal.leave()));
            dup2_stdout(&tty).unwrap();
            println!("it ended in order: {}", left.is_ok());
        }
        _ => drop(terminal),
    }
}

/// Runs the child on a new terminal, and returns the terminal's modes before and after, and all that it was sent.
fn run(end: &str) -> (LocalModes, LocalModes, String) {
    let pty = native_pty_system().openpty(PtySize { rows: 24, cols: 80, ..PtySize::default() }).unwrap();
    let tty = std::fs::File::open(pty.master.tty_name().unwrap()).unwrap();
    let before = tcgetattr(&tty).unwrap().local_modes;
    let mut command = CommandBuilder::new(std::env::current_exe().unwrap());
    command.args(["--exact", "top::terminal::tests::child", "--ignored", "--nocapture", "--test-threads=1"]);
    command.env(CHILD, end);
    let mut child = pty.slave.spawn_command(command).unwrap();
    drop(pty.slave);
    let mut output = pty.master.try_clone_reader().unwrap();
    let reading = thread::spawn(move || {
        let mut sent = Vec::new();
        let mut part = [0; 4_096];
        // It ends with an error when nobody has the terminal open any more.
        while let Ok(read @ 1..) = output.read(&mut part) {
            sent.extend_from_slice(&part[..read]);
        }
        String::from_utf8_lossy(&sent).into_owned()
    });
    child.wait().unwrap();
    let after = tcgetattr(&tty).unwrap().local_modes;
    drop(tty);
    (before, after, reading.join().unwrap())
}

const ENTER: &str = "\u{1b}[?1049h";
const LEAVE: &str = "\u{1b}[?1049l";

#[test]
fn the_terminal_is_given_back_before_a_panic_is_reported() {
    let (before, after, sent) = run("panic");
    assert_eq!(before, after);
    let (_, rest) = sent.split_once(ENTER).unwrap();
    let (_, seen) = rest.split_once(LEAVE).unwrap();
    assert!(seen.contains("the screen broke"), "{sent:?}");
    assert!(rest.contains("\u{1b}[?25h"), "the cursor is back");
}

#[test]
fn a_panic_elsewhere_is_kept_until_the_terminal_is_back() {
    let (before, after, sent) = run("elsewhere");
    assert_eq!(before, after);
    let (taken, seen) = sent.split_once(LEAVE).unwrap();
    assert!(!taken.contains("the reader broke") && seen.contains("the reader broke"), "{sent:?}");
}

#[test]
fn the_terminal_is_given_back_at_a_normal_end() {
    let (before, after, sent) = run("drop");
    assert_eq!(before, after);
    assert!(sent.contains(ENTER) && sent.contains(LEAVE), "{sent:?}");
}

#[test]
fn a_terminal_that_has_gone_ends_nothing_by_a_panic() {
    let (before, after, sent) = run("gone");
    assert_eq!(before, after);
    assert!(sent.contains("it ended in order: true"), "{sent:?}");
}
