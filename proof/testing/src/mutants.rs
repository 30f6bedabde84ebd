//! Scripts with one broken line each, and the tests that must notice: the common part of such tables.
//!
//! Only another process sees a broken script: the same test binary, which runs one test of the table.
//! `tenure_connection` with its feature `sim` reads the two environment variables.

use std::io::Write as _;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// The original text of a script, in the environment.
pub const WHOLE: &str = "TENURE_SCRIPT";
/// Its replacement.
pub const BROKEN: &str = "TENURE_SCRIPT_BROKEN";

/// Longer than any test takes, also on a busy machine. A slower test shows nothing: the broken line may be noticed a
/// moment later.
pub const LONG: Duration = Duration::from_secs(180);
const THREADS: usize = 4;

/// A mutant: a line that a promise rests on, and its replacement.
#[derive(Clone, Copy, Debug)]
pub struct Mutant {
    /// The promise as it reads when it is broken.
    pub what: &'static str,
    /// The script: its name, or its file in the folder of scripts.
    pub file: &'static str,
    /// The original text.
    pub from: &'static str,
    /// Its replacement.
    pub to: &'static str,
    /// The test or scenario that notices, by its full name.
    pub caught_by: &'static str,
}

/// The end of a test on broken scripts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Trial {
    /// The test notices the broken line.
    Fails,
    /// The line makes no difference to the test.
    Passes,
    /// The test takes longer than [`LONG`].
    TakesTooLong,
}

impl Trial {
    /// Runs a test on a thread named `mutant`, for at most [`LONG`]. A panic is a failure.
    ///
    /// # Panics
    /// When there is no thread or no runtime for the test.
    pub fn of<F: Future<Output = ()>>(test: impl FnOnce() -> F + Send + 'static) -> Self {
        Self::within(LONG, test)
    }

    fn within<F: Future<Output = ()>>(limit: Duration, test: impl FnOnce() -> F + Send + 'static) -> Self {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let runtime = runtime.unwrap_or_else(|why| panic!("no runtime: {why}"));
        let run = move || runtime.block_on(async { tokio::time::timeout(limit, test()).await.is_err() });
        let thread = std::thread::Builder::new().name("mutant".into()).spawn(run);
        match thread.unwrap_or_else(|why| panic!("no thread: {why}")).join() {
            Err(_) => Self::Fails,
            Ok(false) => Self::Passes,
            Ok(true) => Self::TakesTooLong,
        }
    }
}

/// Prints a line past the harness, which hides the output of passing tests.
pub fn say(line: &str) {
    let _ = writeln!(std::io::stdout(), "{line}");
}

/// Panics of [`Trial`]s are expected: nothing reports them from now on.
pub fn hush() {
    let report = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        if std::thread::current().name() != Some("mutant") {
            report(panic);
        }
    }));
}

/// The mutants that no test has noticed.
#[derive(Debug, Default)]
pub struct Missed(Mutex<(Vec<String>, Vec<String>)>);

impl Missed {
    /// No test has noticed this mutant. `is_late`: a test took too long, so the survival of the mutant is unknown.
    pub fn add(&self, what: impl Into<String>, is_late: bool) {
        let mut missed = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let (survivors, late) = &mut *missed;
        if is_late { late } else { survivors }.push(what.into());
    }

    /// Nothing was missed.
    ///
    /// # Panics
    /// When a mutant survives, or a test took too long. The text tells both apart.
    pub fn assert_none(&self) {
        let missed = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let (survivors, late) = &*missed;
        assert!(survivors.is_empty(), "these survive: {survivors:?}; tests took too long for {late:?}");
        assert!(late.is_empty(), "no test of these ended within {LONG:?}, so nothing is known: {late:?}");
    }
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
/// When a row survives, or its test takes too long or does not exist. When its text does not occur in its file exactly
/// once.
pub fn check(scripts: impl AsRef<Path>, table: &[Mutant]) {
    let (scripts, wanted) = (scripts.as_ref(), std::env::var("MUTANT").ok());
    let is_tried = |mutant: &&Mutant| wanted.as_ref().is_none_or(|words| mutant.what.contains(words));
    let tried: Vec<_> = table.iter().filter(is_tried).collect();
    let (queue, missed) = (Mutex::new(tried.iter()), Missed::default());
    let work = || {
        loop {
            let next = queue.lock().ok().and_then(|mut queue| queue.next());
            let Some(mutant) = next else { break };
            let noticed = noticed_by(scripts, mutant, wanted.is_some());
            let noticed = noticed.unwrap_or_else(|why| panic!("{}: {why}", mutant.what));
            let names =
                noticed.as_deref().map_or_else(|| "TOOK TOO LONG".to_owned(), |names| names.join(" "));
            say(&format!("{:<60} {names}", mutant.what));
            if noticed.as_ref().is_none_or(Vec::is_empty) {
                missed.add(mutant.what, noticed.is_none());
            }
        }
    };
    std::thread::scope(|scope| (0..THREADS).for_each(|_| drop(scope.spawn(work))));
    missed.assert_none();
}

/// The tests that notice; `None` when the process takes too long.
fn noticed_by(scripts: &Path, mutant: &Mutant, all: bool) -> Result<Option<Vec<String>>, String> {
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
    let Some(said) = read_within(LONG, child.map_err(|error| error.to_string())?)? else { return Ok(None) };
    if !all && !said.contains("running 1 test\n") {
        return Err(format!("there is no test {}", mutant.caught_by));
    }
    let failed = |line: &str| Some(line.strip_prefix("test ")?.strip_suffix(" ... FAILED")?.to_owned());
    Ok(Some(said.lines().filter_map(failed).collect()))
}

/// The output of a process; `None` when it takes too long.
fn read_within(limit: Duration, mut child: Child) -> Result<Option<String>, String> {
    let stdout = child.stdout.take().ok_or("no output")?;
    let reading = std::thread::spawn(move || std::io::read_to_string(stdout));
    let end = Instant::now() + limit;
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

#[cfg(test)]
mod tests {
    use super::*;

    const SHORT: Duration = Duration::from_millis(20);

    #[test]
    fn a_test_that_takes_too_long_neither_fails_nor_passes() {
        assert_eq!(Trial::within(SHORT, std::future::pending), Trial::TakesTooLong);
        assert_eq!(Trial::within(LONG, || async {}), Trial::Passes);
        assert_eq!(Trial::within(LONG, || async { panic!("noticed") }), Trial::Fails);
    }

    #[test]
    fn a_process_that_takes_too_long_has_said_nothing() {
        let said = |limit, seconds: &str| {
            let mut command = Command::new("sleep");
            let child =
                command.arg(seconds).stdout(Stdio::piped()).spawn().map_err(|error| error.to_string());
            child.and_then(|child| read_within(limit, child))
        };
        assert_eq!((said(SHORT, "600"), said(LONG, "0")), (Ok(None), Ok(Some(String::new()))));
    }

    #[test]
    #[should_panic(expected = "so nothing is known: [\"slow\"]")]
    fn a_slow_test_is_a_failure_of_its_own_name() {
        let missed = Missed::default();
        missed.add("slow", true);
        missed.assert_none();
    }

    #[test]
    #[should_panic(expected = "these survive: [\"unseen\"]; tests took too long for [\"slow\"]")]
    fn a_survivor_is_told_from_a_slow_test() {
        let missed = Missed::default();
        missed.add("slow", true);
        missed.add("unseen", false);
        missed.assert_none();
    }
}
