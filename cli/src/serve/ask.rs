//! The wishes of a request: the parameters of its address, and its body.

use std::fmt;
use std::ops::RangeInclusive;
use std::str::FromStr;
use std::time::Duration;

use axum::body::Body;
use axum::extract::{FromRequest, Request};
use axum::http::header::{CONTENT_LENGTH, CONTENT_TYPE};
use axum::http::{StatusCode, Uri};
use base64::Engine;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use clap::ValueEnum;
use http_body_util::{BodyExt, LengthLimitError, Limited};
use serde::de::DeserializeOwned;
use tenure_pool::JobKey;
use tokio::time::timeout;

use super::problem::Problem;
use crate::args::{Which, number, time, worker};

/// The longest body.
const BODY: usize = 64 * 1_024;
/// How long a body may take to come.
const BODY_TIME: Duration = Duration::from_secs(5);

/// The parameters of an address. Each stands there at most once, with a value.
#[derive(Debug)]
pub(super) struct Params(Vec<(String, String)>);

impl Params {
    /// # Errors
    /// A parameter is not known, is empty, or stands in the query twice.
    pub(super) fn of(uri: &Uri, known: &[&str]) -> Result<Self, Problem> {
        let mut params: Vec<(String, String)> = Vec::new();
        for (name, value) in form_urlencoded::parse(uri.query().unwrap_or_default().as_bytes()) {
            if !known.contains(&&*name) {
                let known = if known.is_empty() { "none".to_owned() } else { known.join(", ") };
                return Err(Problem::usage(format!(
                    "the parameter {name:?} is not known; there are {known}"
                )));
            }
            if value.is_empty() {
                return Err(Problem::usage(format!("the parameter {name} is empty")));
            }
            if params.iter().any(|(given, _)| *given == name) {
                return Err(Problem::usage(format!("the parameter {name} is given twice")));
            }
            params.push((name.into_owned(), value.into_owned()));
        }
        Ok(Self(params))
    }

    pub(super) fn text(&self, name: &str) -> Option<&str> {
        self.0.iter().find(|(given, _)| given == name).map(|(_, value)| value.as_str())
    }

    /// # Errors
    /// The value is none.
    pub(super) fn parsed<T: FromStr>(&self, name: &str) -> Result<Option<T>, Problem>
    where
        T::Err: fmt::Display,
    {
        self.with(name, |value| value.parse::<T>().map_err(|error| error.to_string()))
    }

    /// A whole number, of digits only.
    ///
    /// # Errors
    /// The value is none of this range.
    pub(super) fn number<T>(&self, name: &str, range: RangeInclusive<T>) -> Result<Option<T>, Problem>
    where
        T: FromStr + PartialOrd + fmt::Display + Clone + Send + Sync + 'static,
    {
        let parse = number(range);
        self.with(name, |value| parse(if value.starts_with('+') { "" } else { value }))
    }

    fn with<T>(&self, name: &str, read: impl Fn(&str) -> Result<T, String>) -> Result<Option<T>, Problem> {
        let read = self.text(name).map(|value| {
            read(value).map_err(|error| Problem::usage(format!("the parameter {name}: {error}")))
        });
        read.transpose()
    }

    /// A length of time.
    pub(super) fn time(&self, name: &str) -> Result<Option<Duration>, Problem> {
        self.with(name, time)
    }

    /// Several values with commas between them.
    pub(super) fn list<T: FromStr>(&self, name: &str) -> Result<Vec<T>, Problem>
    where
        T::Err: fmt::Display,
    {
        let read = |value: &str| {
            value.split(',').map(|one| one.parse::<T>().map_err(|error| error.to_string())).collect()
        };
        Ok(self.with(name, read)?.unwrap_or_default())
    }

    pub(super) fn flag(&self, name: &str) -> Result<bool, Problem> {
        Ok(self.parsed(name)?.unwrap_or_default())
    }

    /// How many items are wanted.
    pub(super) fn limit(&self, usual: usize, most: usize) -> Result<usize, Problem> {
        Ok(self.number("limit", 1..=most)?.unwrap_or(usual))
    }

    /// The key in `key`, or in base 64 in `key64`.
    pub(super) fn maybe_key(&self) -> Result<Option<JobKey>, Problem> {
        Named { key: self.text("key").map(str::to_owned), key64: self.text("key64").map(str::to_owned) }
            .maybe()
    }

    pub(super) fn key(&self) -> Result<JobKey, Problem> {
        self.maybe_key()?.ok_or_else(unnamed)
    }

    /// The jobs that are meant, by the names of [`WHICH`].
    pub(super) fn which(&self) -> Result<Which, Problem> {
        let states = self.text("state").into_iter().flat_map(|states| states.split(','));
        let state = states.map(|state| ValueEnum::from_str(state, false)).collect::<Result<Vec<_>, _>>();
        Ok(Which {
            state: state.map_err(|error| Problem::usage(format!("the parameter state: {error}")))?,
            pattern: self.parsed("match")?,
            worker: self.with("worker", worker)?,
            node: self.text("node").map(str::to_owned),
            plan: self.text("plan").map(str::to_owned),
            older: self.time("older")?,
            failing: self.flag("failing")?,
        })
    }
}

/// The parameters of a filter of jobs.
pub(super) const WHICH: [&str; 7] = ["state", "match", "worker", "node", "plan", "older", "failing"];

fn unnamed() -> Problem {
    Problem::usage("name the job: by key, or by key64 in base 64")
}

/// A job by its key. A key that is no text stands in `key64`, in base 64.
#[derive(Clone, Debug, Default)]
pub(super) struct Named {
    pub(super) key: Option<String>,
    pub(super) key64: Option<String>,
}

/// The bytes of a text in base 64.
///
/// # Errors
/// It is none. The name says which.
pub(super) fn decoded(name: &str, text: &str) -> Result<Vec<u8>, Problem> {
    let decoded = STANDARD.decode(text).or_else(|_| URL_SAFE_NO_PAD.decode(text));
    decoded.map_err(|_| Problem::usage(format!("{name} is no base 64")))
}

impl Named {
    /// # Errors
    /// No job is named, or none can have that key.
    pub(super) fn key(self) -> Result<JobKey, Problem> {
        self.maybe()?.ok_or_else(unnamed)
    }

    fn maybe(self) -> Result<Option<JobKey>, Problem> {
        let bytes = match (self.key, self.key64) {
            (None, None) => return Ok(None),
            (Some(key), None) => key.into_bytes(),
            (None, Some(key)) => decoded("key64", &key)?,
            (Some(_), Some(_)) => return Err(Problem::usage("name the job by key or by key64, not by both")),
        };
        JobKey::new(bytes).map(Some).map_err(|error| Problem::usage(error.to_string()))
    }
}

/// A body in JSON.
pub(super) struct Asked<T>(pub(super) T);

impl<T: DeserializeOwned, S: Send + Sync> FromRequest<S> for Asked<T> {
    type Rejection = Problem;

    async fn from_request(request: Request, _: &S) -> Result<Self, Problem> {
        // A form of another site cannot send this type.
        let kind =
            request.headers().get(CONTENT_TYPE).and_then(|kind| kind.to_str().ok()).unwrap_or_default();
        if !kind.split(';').next().is_some_and(|kind| kind.trim().eq_ignore_ascii_case("application/json")) {
            let text = "the body must be application/json, and say so";
            return Err(Problem::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, "type", text));
        }
        // Its length is known before it comes, mostly.
        let length =
            request.headers().get(CONTENT_LENGTH).and_then(|length| length.to_str().ok()?.parse().ok());
        if length.is_some_and(|length: u64| length > BODY as u64) {
            return Err(too_long());
        }
        let body = read(request.into_body()).await?;
        // Serde would take the items of an array as the fields of an object.
        if body.iter().find(|byte| !byte.is_ascii_whitespace()) != Some(&b'{') {
            return Err(Problem::usage("the body must be a JSON object"));
        }
        serde_json::from_slice(&body).map(Self).map_err(|error| Problem::usage(format!("the body: {error}")))
    }
}

fn too_long() -> Problem {
    let text = format!("a body has at most {BODY} bytes");
    Problem::new(StatusCode::PAYLOAD_TOO_LARGE, "length", text)
}

async fn read(body: Body) -> Result<bytes::Bytes, Problem> {
    match timeout(BODY_TIME, Limited::new(body, BODY).collect()).await {
        Ok(Ok(body)) => Ok(body.to_bytes()),
        Ok(Err(error)) if error.is::<LengthLimitError>() => Err(too_long()),
        Ok(Err(error)) => Err(Problem::usage(format!("the body cannot be read: {error}"))),
        Err(_) => Err(Problem::new(StatusCode::REQUEST_TIMEOUT, "late", "the body has not come in time")),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn params(query: &str) -> Result<Params, Problem> {
        Params::of(
            &format!("/v1/jobs?{query}").parse().unwrap(),
            &["key", "key64", "limit", "state", "match", "older"],
        )
    }

    #[test]
    fn a_parameter_is_known_and_given_once() {
        assert_eq!(params("key=a%2Fb+c%26").unwrap().text("key"), Some("a/b c&"));
        assert!(params("colour=red").is_err() && params("key=a&key=b").is_err());
        assert!(
            params("limit=0").unwrap().limit(10, 100).is_err()
                && params("limit=x").unwrap().limit(10, 100).is_err()
        );
        assert_eq!(params("").unwrap().limit(10, 100).unwrap(), 10);
        assert!(params("limit=").is_err() && params("limit=%2B5").unwrap().limit(10, 100).is_err());
        assert!(params("state=running,rubbish").unwrap().which().is_err());
        assert!(
            params("match=[").unwrap().which().is_err() && params("older=soon").unwrap().which().is_err()
        );
    }

    #[test]
    fn a_key_of_any_bytes_is_named_in_base_64() {
        for text in ["/w==", "_w"] {
            let named = Named { key: None, key64: Some(text.to_owned()) };
            assert_eq!(named.maybe().unwrap().unwrap().as_bytes(), b"\xff");
        }
        let both = Named { key: Some("a".to_owned()), key64: Some("YQ==".to_owned()) };
        assert!(both.maybe().is_err());
        assert!(params("").unwrap().key().is_err() && params("key64=*").unwrap().key().is_err());
        assert!(params(&format!("key={}", "x".repeat(513))).unwrap().key().is_err());
    }
}
