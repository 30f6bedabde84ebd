//! Jobs in a file: JSON lines, or CSV with a line of names.

use std::fs::File;
use std::io::{self, BufRead, BufReader};
use std::path::{Path, PathBuf};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use clap::ValueEnum;
use serde::Deserialize;
use serde_json::Value;
use tenure_pool::JobKey;

use crate::cmd::dispatch::Policy;
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

impl Lines {
    /// Opens the file. It is JSON if it begins with `{`.
    ///
    /// # Errors
    /// It cannot be read.
    pub(crate) fn open(path: &Path, policy: Policy) -> Result<Self, Failure> {
        let unreadable =
            |error: io::Error| Failure::usage(format!("{} cannot be read: {error}", path.display()));
        let reader: Box<dyn BufRead> = if path.as_os_str() == "-" {
            Box::new(BufReader::new(io::stdin()))
        } else {
            Box::new(BufReader::new(File::open(path).map_err(unreadable)?))
        };
        Self::of(reader, path, policy).map_err(unreadable)
    }

    fn of(mut reader: Box<dyn BufRead>, path: &Path, policy: Policy) -> io::Result<Self> {
        let is_json = reader.fill_buf()?.iter().find(|byte| !byte.is_ascii_whitespace()) == Some(&b'{');
        let source = if is_json {
            Source::Json(reader.lines())
        } else {
            Source::Csv(csv::ReaderBuilder::new().from_reader(reader).into_deserialize())
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
        assert!(lines("kex\na\n")[0].is_err());
        assert!(lines("").is_empty());
    }
}
