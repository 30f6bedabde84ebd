//! The tours of the documents: their programs are saved, and their commands typed into a shell line by line. The output is
//! compared with that of the pages.
#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};
use std::{env, fs, thread};

use tenure_testing::RedisServer;

/// Long enough for everything on the slowest machine.
const PATIENCE: Duration = Duration::from_secs(60);
/// Commands that only look. Their answer becomes that of the page in time, so they may be typed again.
const LOOKS: [&str; 3] = ["tenure workers", "tenure explain", "tenure ask"];
/// Printed after the output of each command.
const PROMPT: &str = "the next command, please";

/// A thing that a reader of a page does.
#[derive(Debug, PartialEq)]
enum Step {
    /// Saves a file: a block whose type is followed by its name.
    Save { name: String, text: String },
    /// Types a command of a block of type `console`, and sees what it prints.
    Type { command: String, printed: String },
}

fn steps(page: &str) -> Vec<Step> {
    let mut steps: Vec<Step> = Vec::new();
    let mut fence = None;
    for line in page.lines() {
        if let Some(info) = line.strip_prefix("```") {
            fence = if fence.is_some() { None } else { Some(info.split_once(' ').unwrap_or((info, ""))) };
            if let Some((_, name)) = fence.filter(|(_, name)| !name.is_empty()) {
                steps.push(Step::Save { name: name.to_owned(), text: String::new() });
            }
            continue;
        }
        match (fence, steps.last_mut()) {
            (Some(("console", _)), last) => {
                if let Some(command) = line.strip_prefix("$ ") {
                    steps.push(Step::Type { command: command.to_owned(), printed: String::new() });
                } else if let Some(Step::Type { command, printed }) = last {
                    match line.strip_prefix("> ") {
                        Some(more) if printed.is_empty() => command.extend(["\n", more]),
                        _ => printed.extend([line, "\n"]),
                    }
                } else {
                    panic!("a block begins with a command, and not with {line}");
                }
            }
            (Some((_, name)), Some(Step::Save { text, .. })) if !name.is_empty() => text.extend([line, "\n"]),
            _ => {}
        }
    }
    steps
}

/// The text with the same sign for all numbers, units of time, names of hosts and widths of columns. The order of its lines
/// is by the alphabet: that of two workers is by chance.
fn alike(text: &str) -> String {
    let host = rustix::system::uname().nodename().to_string_lossy().into_owned();
    let mut alike = String::new();
    for line in text.lines() {
        for word in line.split_whitespace() {
            let word = if word == host { "laptop" } else { word };
            let mut of_number = false;
            for c in word.chars() {
                if !(of_number && (c.is_ascii_digit() || matches!(c, '.' | ':'))) {
                    alike.push(if c.is_ascii_digit() { '#' } else { c });
                }
                of_number = c.is_ascii_digit() || of_number && matches!(c, '.' | ':');
            }
            alike.push(' ');
        }
        alike.push('\n');
    }
    for unit in ["ms", "s", "min"] {
        alike = alike.replace(&format!("# {unit} ago"), "# ago").replace(&format!("# {unit}, "), "#, ");
    }
    let lines = alike.lines().map(|line| match line.split_once("ago from node ") {
        Some((before, _)) => format!("{before}ago from a node\n"),
        None => format!("{line}\n"),
    });
    let mut lines: Vec<_> = lines.collect();
    lines.sort();
    lines.concat()
}

struct Shell {
    process: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
}

impl Shell {
    fn start(server: &RedisServer, folder: &Path) -> Self {
        let tenure = snapbox::cmd::cargo_bin!("tenure");
        let mut places = vec![tenure.parent().unwrap().to_owned()];
        places.extend(env::split_paths(&env::var_os("PATH").unwrap()));
        let mut shell = Command::new("bash");
        shell
            .args(["--noprofile", "--norc"])
            .current_dir(folder)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped());
        shell.env("PATH", env::join_paths(places).unwrap()).env("REDIS_URL", server.url());
        shell.env("PYTHONPATH", root().join("sdk/python")).env("PYTHONDONTWRITEBYTECODE", "1");
        for name in ["TENURE_POOL", "TENURE_CONTEXT", "XDG_CONFIG_HOME", "POD_NAME"] {
            shell.env_remove(name);
        }
        let mut process = shell.spawn().unwrap();
        let (input, output) = (process.stdin.take().unwrap(), process.stdout.take().unwrap());
        let mut shell = Self { process, input, output: BufReader::new(output) };
        shell.typed("exec 2>&1");
        shell
    }

    /// Types a command, and returns what it prints.
    fn typed(&mut self, command: &str) -> String {
        writeln!(self.input, "{command}\necho '{PROMPT}'").unwrap();
        let mut printed = String::new();
        loop {
            let mut line = String::new();
            assert!(self.output.read_line(&mut line).unwrap() > 0, "the shell has ended: {printed}");
            if line.trim_end() == PROMPT {
                return printed;
            }
            // The shell tells of the process that was killed.
            if !(line.contains(" line ") && line.contains("Killed")) {
                printed += &line;
            }
        }
    }
}

impl Drop for Shell {
    fn drop(&mut self) {
        // Its workers end with a signal; after the tour there are none.
        let _ = writeln!(self.input, "kill $(jobs -p) 2>/dev/null; exit");
        let _ = self.process.wait();
    }
}

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap()
}

/// Does what the page says, and compares what it shows.
fn follow(page: &str) {
    let steps = steps(&fs::read_to_string(root().join("docs").join(page)).unwrap());
    assert!(steps.len() > 15, "the page has {} steps", steps.len());
    let server = RedisServer::start().unwrap();
    let folder = tempfile::tempdir().unwrap();
    let mut shell = Shell::start(&server, folder.path());
    for step in steps {
        let (command, expected) = match step {
            Step::Save { name, text } => {
                println!("{name} is saved");
                fs::write(folder.path().join(name), text).unwrap();
                continue;
            }
            Step::Type { command, printed } => (command, printed),
        };
        println!("$ {command}");
        let until = Instant::now() + PATIENCE;
        let printed = loop {
            let printed = shell.typed(&command);
            let is_look = LOOKS.iter().any(|look| command.starts_with(look));
            if alike(&printed) == alike(&expected) || !is_look || Instant::now() > until {
                break printed;
            }
            thread::sleep(Duration::from_millis(100));
        };
        print!("{printed}");
        let logs = || shell_logs(folder.path());
        assert_eq!(alike(&printed), alike(&expected), "$ {command}\n{}", logs());
    }
}

#[test]
fn the_tour_of_a_shell_prints_what_its_page_says() {
    follow("getting-started-any-language.md");
}

#[test]
fn the_tour_of_python_prints_what_its_page_says() {
    let python = Command::new("python3").arg("--version").stdout(Stdio::null()).status();
    if python.is_ok_and(|status| status.success()) {
        follow("getting-started-python.md");
    } else {
        println!("skipped: there is no python3");
    }
}

/// The logs of the workers, for a failure.
fn shell_logs(folder: &Path) -> String {
    let read = |name| fs::read_to_string(folder.join(name)).unwrap_or_default();
    ["a.log", "b.log", "c.log"].map(read).concat()
}

#[test]
fn a_page_is_read_step_by_step() {
    let page = "text\n```sh\n$ not this\n```\n```python a.py\nx = 1\n```\n```console\n$ cat <<E\n> in\n> E\nout\n\n$ true\n```\n";
    let typed =
        |command: &str, printed: &str| Step::Type { command: command.into(), printed: printed.into() };
    let saved = Step::Save { name: "a.py".into(), text: "x = 1\n".into() };
    assert_eq!(steps(page), [saved, typed("cat <<E\nin\nE", "out\n\n"), typed("true", "")]);
}

#[test]
fn outputs_differ_in_words_and_not_in_numbers() {
    let told = "for 851 ms, attempt 1\n  accepted 12 s ago from node x-1\n";
    assert_eq!(alike(told), alike("for 2 s, attempt 1\n accepted 851 ms ago from node y-22\n"));
    assert_eq!(alike("a  44.0 %\n"), alike("a 100.0 %\n"));
    assert_ne!(alike("a 44 up\n"), alike("a 44 standby\n"));
    assert_ne!(alike("one\ntwo\n"), alike("one two\n"));
}
