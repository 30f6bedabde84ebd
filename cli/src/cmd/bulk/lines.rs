//! Jobs in a file: JSON lines, or CSV with a line of names.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Seek};
use std::path::{Path, PathBuf};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use clap::ValueEnum;
use serde::Deserialize;
use serde_json::Value;
use tenure_pool::JobKey;

use crate::act::Policy;
use crate::exit::Failure;

/// A job of a file.
#[derive(Debug, PartialEq)]
pub(crate) struct Line {
    /// The number of its job in the file, from 1.
    pub(crate) number: u64,
    pub(crate) key: JobKey,
    pub(crate) payload: Vec<u8>,
    pub(crate) id: Option<String>,
    pub(crate) policy: Policy,
}

/// A job as it is written. Empty fields of CSV count as absent.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct Written {
    key: Option<String>,
    key64: Option<String>,
    payload: Option<Value>,
    payload64: Option<String>,
    id: Option<String>,
    policy: Option<String>,
}

/// The jobs of a file, read one by one.
pub(crate) struct Lines {
    source: Source,
    path: PathBuf,
    policy: Policy,
    number: u64,
    ended: bool,
}

enum Source {
    Json(io::Lines<Box<dyn BufRead>>),
    Csv(csv::DeserializeRecordsIntoIter<Box<dyn BufRead>, Written>),
}

/// The names that the first line of a CSV may have.
const FIELDS: [&str; 6] = ["key", "key64", "payload", "payload64", "id", "policy"];
/// Some editors begin a file with this mark.
const MARK: &[u8] = b"\xef\xbb\xbf";

impl Lines {
    /// Opens the file, and checks all lines first, so no job of a file with an error is tried. A file with `{` at the start is
    /// JSON. Returns the number of jobs, too.
    ///
    /// # Errors
    /// The file cannot be read, has a line without a job, or has no jobs.
    pub(crate) fn open(path: &Path, policy: Policy) -> Result<(Self, u64), Failure> {
        let unreadable =
            |error: io::Error| Failure::usage(format!("{} cannot be read: {error}", path.display()));
        let mut file = readable_twice(path).map_err(unreadable)?;
        let again = file.try_clone().map_err(unreadable)?;
        let mut count = 0;
        for line in Self::of(Box::new(BufReader::new(again)), path, policy)? {
            line?;
            count += 1;
        }
        if count == 0 {
            return Err(Failure::usage(format!("{} has no jobs", path.display())));
        }
        file.rewind().map_err(unreadable)?;
        Ok((Self::of(Box::new(BufReader::new(file)), path, policy)?, count))
    }

    fn of(mut reader: Box<dyn BufRead>, path: &Path, policy: Policy) -> Result<Self, Failure> {
        let wrong = |why: String| Failure::usage(format!("{}: {why}", path.display()));
        let unreadable = |error: &dyn std::fmt::Display| wrong(format!("it cannot be read: {error}"));
        if reader.fill_buf().map_err(|error| unreadable(&error))?.starts_with(MARK) {
            reader.consume(MARK.len());
        }
        let start = reader.fill_buf().map_err(|error| unreadable(&error))?;
        let source = match start.iter().find(|byte| !byte.is_ascii_whitespace()) {
            Some(b'{') => Source::Json(reader.lines()),
            Some(b'[') => {
                let why = "it is a JSON array; write every job on a separate line, as jq -c '.[]' does";
                return Err(wrong(why.to_owned()));
            }
            _ => {
                let mut records = csv::ReaderBuilder::new().from_reader(reader);
                let names = records.headers().map_err(|error| unreadable(&error))?;
                if let Some(name) = names.iter().find(|name| !FIELDS.contains(name)) {
                    let known = FIELDS.join(", ");
                    return Err(wrong(format!(
                        "the first line must name fields; {name:?} is unknown, the known fields are {known}"
                    )));
                }
                Source::Csv(records.into_deserialize())
            }
        };
        Ok(Self { source, path: path.to_owned(), policy, number: 0, ended: false })
    }

    fn read(&mut self) -> Option<Result<Written, String>> {
        match &mut self.source {
            Source::Json(lines) => loop {
                match lines.next()? {
                    Ok(line) if line.trim().is_empty() => {}
                    Ok(line) => return Some(serde_json::from_str(&line).map_err(|error| error.to_string())),
                    Err(error) => return Some(Err(error.to_string())),
                }
            },
            Source::Csv(records) => Some(records.next()?.map_err(|error| error.to_string())),
        }
    }
}

/// The file, or a copy of a pipe, as nobody can read a pipe twice.
fn readable_twice(path: &Path) -> io::Result<File> {
    let mut from: Box<dyn io::Read> = if path.as_os_str() == "-" {
        Box::new(io::stdin())
    } else {
        let file = File::open(path)?;
        if file.metadata()?.is_file() {
            return Ok(file);
        }
        Box::new(file)
    };
    let mut copy = tempfile::tempfile()?;
    io::copy(&mut from, &mut copy)?;
    copy.rewind()?;
    Ok(copy)
}

impl Iterator for Lines {
    type Item = Result<Line, Failure>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.ended {
            return None;
        }
        let written = self.read()?;
        self.number += 1;
        let line = written.and_then(|written| job(written, self.number, self.policy));
        self.ended = line.is_err();
        let at = |why: String| Failure::usage(format!("{}, job {}: {why}", self.path.display(), self.number));
        Some(line.map_err(at))
    }
}

fn job(written: Written, number: u64, policy: Policy) -> Result<Line, String> {
    let Written { key, key64, payload, payload64, id, policy: named } = written;
    let given = |text: &String| !text.is_empty();
    let decoded = |text: &String| STANDARD.decode(text).map_err(|error| format!("bad base 64: {error}"));
    let key = match (key.filter(given), key64.filter(given)) {
        (Some(key), None) => JobKey::new(key),
        (None, Some(key)) => JobKey::new(decoded(&key)?),
        (None, None) => return Err("it has no key".to_owned()),
        (Some(_), Some(_)) => return Err("it has key and key64".to_owned()),
    };
    let payload = match (payload, payload64.filter(given)) {
        (Some(_), Some(_)) => return Err("it has payload and payload64".to_owned()),
        (Some(Value::String(text)), None) => text.into_bytes(),
        (Some(Value::Null) | None, None) => Vec::new(),
        (Some(other), None) => other.to_string().into_bytes(),
        (None, Some(payload)) => decoded(&payload)?,
    };
    let policy = match named.filter(given) {
        Some(name) => Policy::from_str(&name.replace('_', "-"), true)
            .map_err(|_| format!("{name:?} is no policy: never, on-failure or always"))?,
        None => policy,
    };
    let key = key.map_err(|error| error.to_string())?;
    Ok(Line { number, key, payload, id: id.filter(given), policy })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn lines(text: &'static str) -> Vec<Result<Line, String>> {
        let lines = Lines::of(Box::new(text.as_bytes()), Path::new("jobs"), Policy::Never).unwrap();
        lines.map(|line| line.map_err(|failure| failure.to_string())).collect()
    }

    fn line(number: u64, key: &str, payload: &str, id: Option<&str>, policy: Policy) -> Line {
        let (key, id) = (JobKey::new(key.to_owned()).unwrap(), id.map(str::to_owned));
        Line { number, key, payload: payload.into(), id, policy }
    }

    #[test]
    fn jobs_are_read_from_json_lines() {
        let text = "{\"key\":\"a\",\"payload\":{\"x\":1},\"id\":\"one\"}\n\n{\"key64\":\"Yg==\",\"payload64\":\"eA==\"}\n{\"key\":\"c\",\"payload\":\"text\",\"policy\":\"on_failure\"}";
        assert_eq!(
            lines(text),
            [
                Ok(line(1, "a", "{\"x\":1}", Some("one"), Policy::Never)),
                Ok(line(2, "b", "x", None, Policy::Never)),
                Ok(line(3, "c", "text", None, Policy::OnFailure)),
            ]
        );
    }

    #[test]
    fn jobs_are_read_from_csv() {
        let text = "key,payload,policy\na,\"x, y\",always\nb,,\n";
        let read =
            [Ok(line(1, "a", "x, y", None, Policy::Always)), Ok(line(2, "b", "", None, Policy::Never))];
        assert_eq!(lines(text), read);
    }

    #[test]
    fn a_line_that_is_no_job_ends_the_reading() {
        for (text, why) in [
            ("{\"key\":\"a\"}\n{\"payload\":1}\n{\"key\":\"b\"}", "jobs, job 2: it has no key"),
            ("{\"key\":\"a\"}\n{\"key\":\"\"}", "jobs, job 2: it has no key"),
            (
                "{\"key\":\"a\"}\n{\"key\":\"b\",\"policy\":\"odd\"}",
                "jobs, job 2: \"odd\" is no policy: never, on-failure or always",
            ),
        ] {
            let read = lines(text);
            assert_eq!(read.len(), 2, "{text}");
            assert_eq!(read[1], Err(why.to_owned()));
        }
        assert!(lines("{\"key\":\"a\",\"odd\":1}")[0].is_err(), "a mistyped field is no field");
    }

    #[test]
    fn a_file_is_checked_as_a_whole_before_its_first_job() {
        let of = |text: &str| {
            let mut file = tempfile::NamedTempFile::new().unwrap();
            io::Write::write_all(&mut file, text.as_bytes()).unwrap();
            Lines::open(file.path(), Policy::Never)
                .map(|(lines, count)| (lines.count() as u64, count))
                .map_err(|failure| {
                    assert_eq!(failure.code, crate::exit::Code::Usage);
                    failure.to_string()
                })
        };
        assert_eq!(of("{\"key\":\"a\"}\n{\"key\":\"b\"}\n"), Ok((2, 2)));
        assert_eq!(of("\u{feff}{\"key\":\"a\"}"), Ok((1, 1)), "a mark before the first byte");
        assert_eq!(of("\u{feff}key\na\n"), Ok((1, 1)));
        for (text, why) in [
            ("{\"key\":\"a\"}\n{\"kex\":\"b\"}\n", "job 2: unknown field"),
            ("[{\"key\":\"a\"},{\"key\":\"b\"}]", "it is a JSON array"),
            ("kex\na\n", "\"kex\" is unknown"),
            ("acme,x", "\"acme\" is unknown"),
            ("", "has no jobs"),
            ("\n\n", "has no jobs"),
            ("key,payload\n", "has no jobs"),
        ] {
            let said = of(text).unwrap_err();
            assert!(said.contains(why), "{text:?}: {said}");
        }
    }
}
