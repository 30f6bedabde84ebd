//! Scripts with one broken line each, and the tests that must notice: the common part of such tables.
//!
//! Only another process sees a broken script: the same test binary, which runs one test of the table.
//! `tenure_connection` with its feature `sim` reads the two environment variables.

use std::io::Write as _;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Mutex;
use std::time::{Duration, Instant};

/// The original text of a script, in the environment.
pub const WHOLE: &str = "TENURE_SCRIPT";
/// Its replacement.
pub const BROKEN: &str = "TENURE_SCRIPT_BROKEN";

/// Longer than any test takes. A test that takes longer has noticed nothing.
const LONG: Duration = Duration::from_secs(180);
const THREADS: usize = 4;

/// A mutant: a line that a promise rests on, and its replacement.
#[derive(Clone, Copy, Debug)]
pub struct Mutant {
    /// The promise as it reads when it is broken.
    pub what: &'static str,
    /// The file of the script, in the folder of scripts.
    pub file: &'static str,
    /// The original text, which occurs there once.
    pub from: &'static str,
    /// Its replacement.
    pub to: &'static str,
    /// The test that notices, by its full name.
    pub caught_by: &'static str,
}

/// Rows of a table: `"what": "file", "from" => "to", by "test";`.
#[macro_export]
macro_rules! mutants {
    ($($what:literal: $file:literal, $from:literal => $to:literal, by $caught_by:literal;)*) => {
        &[$($crate::mutants::Mutant { what: $what, file: $file, from: $from, to: $to, caught_by: $caught_by },)*]
    };
}

/// Runs each row's test on its broken script, and reports the rows that survive. `MUTANT="words"` in the environment
/// selects the rows whose name contains the words, and tries all tests of the binary on them: it lists all that notice.
///
/// # Panics
/// When a row survives, when its text does not occur in its file exactly once, or when its test does not exist.
pub fn check(scripts: impl AsRef<Path>, table: &[Mutant]) {
    let (scripts, wanted) = (scripts.as_ref(), std::env::var("MUTANT").ok());
    let is_tried = |mutant: &&Mutant| wanted.as_ref().is_none_or(|words| mutant.what.contains(words));
    let tried: Vec<_> = table.iter().filter(is_tried).collect();
    let (queue, survivors) = (Mutex::new(tried.iter()), Mutex::new(Vec::new()));
    let work = || {
        loop {
            let next = queue.lock().ok().and_then(|mut queue| queue.next());
            let Some(mutant) = next else { break };
            let noticed = noticed_by(scripts, mutant, wanted.is_some());
            let noticed = noticed.unwrap_or_else(|why| panic!("{}: {why}", mutant.what));
            // Bypasses the harness, which hides the output of a passing test.
            let _ = writeln!(std::io::stdout(), "{:<60} {}", mutant.what, noticed.join(" "));
            if noticed.is_empty()
                && let Ok(mut survivors) = survivors.lock()
            {
                survivors.push(mutant.what);
            }
        }
    };
    std::thread::scope(|scope| (0..THREADS).for_each(|_| drop(scope.spawn(work))));
    let survivors = survivors.into_inner().unwrap_or_default();
    assert!(survivors.is_empty(), "{} of {} survive: {survivors:?}", survivors.len(), tried.len());
}

fn noticed_by(scripts: &Path, mutant: &Mutant, all: bool) -> Result<Vec<String>, String> {
    let whole = std::fs::read_to_string(scripts.join(mutant.file)).map_err(|error| error.to_string())?;
    if whole.matches(mutant.from).count() != 1 {
        return Err(format!("{:?} does not stand in {} once", mutant.from, mutant.file));
    }
    let broken = whole.replace(mutant.from, mutant.to);
    let binary = std::env::current_exe().map_err(|error| error.to_string())?;
    let mut command = Command::new(binary);
    if all {
        command.args(["--skip", "mutants"])
    } else {
        command.args([mutant.caught_by, "--exact"])
    };
    command.env(WHOLE, whole).env(BROKEN, broken).env_remove("MUTANT").env("RUST_BACKTRACE", "0");
    let child = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn();
    let Some(said) = read_in_time(child.map_err(|error| error.to_string())?)? else { return Ok(Vec::new()) };
    if !all && !said.contains("running 1 test\n") {
        return Err(format!("there is no test {}", mutant.caught_by));
    }
    let failed = |line: &str| Some(line.strip_prefix("test ")?.strip_suffix(" ... FAILED")?.to_owned());
    Ok(said.lines().filter_map(failed).collect())
}

/// The output of a process; `None` when it takes too long.
fn read_in_time(mut child: Child) -> Result<Option<String>, String> {
    let stdout = child.stdout.take().ok_or("no output")?;
    let reading = std::thread::spawn(move || std::io::read_to_string(stdout));
    let end = Instant::now() + LONG;
    while !reading.is_finished() {
        if Instant::now() > end {
            child.kill().and_then(|()| child.wait()).map_err(|error| error.to_string())?;
            return Ok(None);
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    child.wait().map_err(|error| error.to_string())?;
    let said = reading.join().map_err(|_| "its output could not be read")?;
    said.map(Some).map_err(|error| error.to_string())
}
