//! The state file of a bulk dispatch. Its first line names the run and the jobs' file; each further line is the number of
//! a job that is done.
//!
//! The run is a part of the ids of its dispatches. So a job that the pool has and whose line is missing is dispatched again
//! under its id, and starts no second time.

use std::collections::BTreeSet;
use std::fs::{File, OpenOptions};
use std::io::{self, BufReader, Read, Seek, SeekFrom, Write};
use std::path::Path;
use std::time::SystemTime;

use rustix::fs::{FlockOperation, flock};
use xxhash_rust::xxh3::Xxh3;

use crate::exit::Failure;

/// The first word of a state file, with its version.
const HEAD: &str = "tenure-resume-1";

/// The progress of a run.
#[derive(Debug)]
pub(crate) struct Resume {
    file: File,
    run: String,
    taken: BTreeSet<u64>,
}

impl Resume {
    /// Opens the state file, or makes it, for the run of these jobs.
    ///
    /// # Errors
    /// It cannot be read or written, another command uses it, or it is of another file of jobs.
    pub(crate) fn open(path: &Path, jobs: &Path) -> Result<Self, Failure> {
        if jobs.as_os_str() == "-" {
            return Err(Failure::usage("--resume needs a file of jobs: stdin cannot be read again"));
        }
        let unusable =
            |error: io::Error| Failure::usage(format!("{} cannot be used: {error}", path.display()));
        let digest = digest(jobs).map_err(unusable)?;
        let open = OpenOptions::new().read(true).append(true).create(true).open(path);
        let mut file = open.map_err(unusable)?;
        flock(&file, FlockOperation::NonBlockingLockExclusive)
            .map_err(|_| Failure::usage(format!("{} is in use by another command", path.display())))?;
        let mut text = String::new();
        file.read_to_string(&mut text).map_err(unusable)?;
        // A line that was cut off by the end of its process does not count.
        let whole = text.rfind('\n').map_or(0, |end| end + 1);
        if whole < text.len() {
            file.set_len(whole as u64).map_err(unusable)?;
            file.seek(SeekFrom::End(0)).map_err(unusable)?;
        }
        let mut lines = text[..whole].lines();
        let Some(head) = lines.next() else {
            let run = new_run();
            writeln!(file, "{HEAD} {run} {digest}").map_err(unusable)?;
            return Ok(Self { file, run, taken: BTreeSet::new() });
        };
        let strange = || Failure::usage(format!("{} is no state file of this version", path.display()));
        let mut words = head.split(' ');
        let (Some(HEAD), Some(run), Some(of)) = (words.next(), words.next(), words.next()) else {
            return Err(strange());
        };
        if of != digest {
            let text = format!("{} is of another file than {}", path.display(), jobs.display());
            return Err(Failure::usage(format!("{text}, or that has changed")));
        }
        let taken = lines.map(str::parse).collect::<Result<_, _>>().map_err(|_| strange())?;
        Ok(Self { run: run.to_owned(), taken, file })
    }

    /// The name of the run.
    pub(crate) fn run(&self) -> &str {
        &self.run
    }

    /// The jobs that were done before.
    pub(crate) fn taken(&self) -> BTreeSet<u64> {
        self.taken.clone()
    }

    /// This job is done.
    ///
    /// # Errors
    /// The file cannot be written.
    pub(crate) fn done(&mut self, number: u64) -> io::Result<()> {
        self.file.write_all(format!("{number}\n").as_bytes())
    }
}

/// Tells runs apart, of this machine and others.
fn new_run() -> String {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    let host = rustix::system::uname();
    let mut hash = Xxh3::new();
    hash.update(host.nodename().to_bytes());
    hash.update(&std::process::id().to_le_bytes());
    hash.update(&since.as_nanos().to_le_bytes());
    format!("bulk-{:032x}", hash.digest128())
}

fn digest(path: &Path) -> io::Result<String> {
    let (mut reader, mut hash) = (BufReader::new(File::open(path)?), Xxh3::new());
    let mut bytes = vec![0; 64 << 10];
    loop {
        match reader.read(&mut bytes)? {
            0 => return Ok(format!("{:032x}", hash.digest128())),
            count => hash.update(&bytes[..count]),
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::fs;

    use super::*;

    #[test]
    fn a_run_goes_on_where_it_was_also_after_a_cut_line() {
        let folder = tempfile::tempdir().unwrap();
        let (state, jobs) = (folder.path().join("state"), folder.path().join("jobs"));
        fs::write(&jobs, "key\na\nb\n").unwrap();
        let mut first = Resume::open(&state, &jobs).unwrap();
        first.done(1).unwrap();
        first.done(12).unwrap();
        let run = first.run().to_owned();
        assert!(Resume::open(&state, &jobs).is_err(), "somebody has it");
        drop(first);
        let mut text = fs::read_to_string(&state).unwrap();
        text.push_str("13");
        fs::write(&state, text).unwrap();
        let mut again = Resume::open(&state, &jobs).unwrap();
        assert_eq!((again.run(), again.taken()), (&*run, [1, 12].into()));
        again.done(7).unwrap();
        drop(again);
        assert_eq!(Resume::open(&state, &jobs).unwrap().taken(), [1, 7, 12].into());
    }

    #[test]
    fn a_state_file_is_of_one_file_of_jobs() {
        let folder = tempfile::tempdir().unwrap();
        let (state, jobs) = (folder.path().join("state"), folder.path().join("jobs"));
        fs::write(&jobs, "key\na\n").unwrap();
        drop(Resume::open(&state, &jobs).unwrap());
        fs::write(&jobs, "key\nb\n").unwrap();
        assert!(Resume::open(&state, &jobs).unwrap_err().to_string().contains("another file"));
        fs::write(&state, "something else\n").unwrap();
        assert!(Resume::open(&state, &jobs).unwrap_err().to_string().contains("no state file"));
        assert!(Resume::open(&state, Path::new("-")).is_err());
    }
}
