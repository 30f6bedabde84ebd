//! The serialized form of listings and health: times are milliseconds, keys and reasons are text.

#![expect(clippy::missing_errors_doc, reason = "each fails as its serializer does")]

use std::fmt::Display;
use std::time::{Duration, SystemTime};

use serde::{Serialize, Serializer};

use crate::model::id::{DispatchId, Incarnation, JobKey, Revision, Token, WorkerId};

fn ms(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

/// Milliseconds.
pub fn lapse<S: Serializer>(time: &Duration, to: S) -> Result<S::Ok, S::Error> {
    ms(*time).serialize(to)
}

/// Milliseconds, if there are any.
#[allow(clippy::ref_option, reason = "serde gives a reference to the field")]
pub fn maybe_lapse<S: Serializer>(time: &Option<Duration>, to: S) -> Result<S::Ok, S::Error> {
    time.map(ms).serialize(to)
}

/// Each name with its milliseconds.
pub fn lapses<S: Serializer>(times: &[(&'static str, Duration)], to: S) -> Result<S::Ok, S::Error> {
    to.collect_seq(times.iter().map(|(name, time)| (name, ms(*time))))
}

fn since_1970(time: SystemTime) -> u64 {
    time.duration_since(SystemTime::UNIX_EPOCH).map(ms).unwrap_or_default()
}

/// Milliseconds since 1970.
pub fn time<S: Serializer>(time: &SystemTime, to: S) -> Result<S::Ok, S::Error> {
    since_1970(*time).serialize(to)
}

/// Milliseconds since 1970, if it is known.
#[allow(clippy::ref_option, reason = "serde gives a reference to the field")]
pub fn maybe_time<S: Serializer>(time: &Option<SystemTime>, to: S) -> Result<S::Ok, S::Error> {
    time.map(since_1970).serialize(to)
}

/// As text.
pub fn text<S: Serializer>(shown: &impl Display, to: S) -> Result<S::Ok, S::Error> {
    to.collect_str(shown)
}

/// As text, if there is any.
#[allow(clippy::ref_option, reason = "serde gives a reference to the field")]
pub fn maybe_text<S: Serializer>(shown: &Option<impl Display>, to: S) -> Result<S::Ok, S::Error> {
    shown.as_ref().map(ToString::to_string).serialize(to)
}

/// As text if it is UTF-8, else as it is displayed.
impl Serialize for JobKey {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        match self.as_str() {
            Some(key) => key.serialize(to),
            None => text(self, to),
        }
    }
}

impl Serialize for DispatchId {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        text(self, to)
    }
}

impl Serialize for WorkerId {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        self.0.serialize(to)
    }
}

impl Serialize for Token {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        self.0.serialize(to)
    }
}

impl Serialize for Incarnation {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        self.0.serialize(to)
    }
}

impl Serialize for Revision {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        self.0.serialize(to)
    }
}
