//! The envelope of a payload: a `MessagePack` map `{v, trace, policy, progress, type, body}`, version first, body last.
//! Fields with default values are left out. A reader skips the fields of later versions, and the store keeps them.

use std::num::NonZeroU32;
use std::time::Duration;

use bytes::Bytes;
use serde::de::IgnoredAny;
use serde::{Deserialize, Serialize};
use xxhash_rust::xxh3::Xxh3;

use crate::model::id::JobKey;
use crate::model::policy::RestartPolicy;
use crate::model::trace::TraceContext;

/// The version of envelopes that this crate writes, and the newest that it reads.
pub const VERSION: u64 = 1;

/// The envelope of a job without options up to its body. Most jobs have none, and need fewer instructions this way.
const PLAIN: &[u8] = b"\x82\xa1v\x01\xa4body";

/// The most levels in an envelope, itself included. Each level takes more of the stack to read.
const LEVELS: usize = 8;

/// The contents of an envelope.
#[derive(Debug, Serialize)]
pub struct Envelope<'a> {
    /// The version.
    pub v: u64,
    /// The caller's trace.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub trace: Option<TraceContext>,
    /// Whether the job is restarted at its end. A new policy needs a new version of the envelope, because a node that
    /// does not know the policy must refuse the job.
    #[serde(skip_serializing_if = "RestartPolicy::is_never")]
    pub policy: RestartPolicy,
    /// How long the job may make no progress.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub progress: Option<ProgressTimeout>,
    /// The name of a typed payload's type.
    #[serde(rename = "type", skip_serializing_if = "Option::is_none")]
    pub kind: Option<&'a str>,
    /// The user's bytes.
    #[serde(with = "serde_bytes")]
    pub body: &'a [u8],
}

/// An envelope as it is read. A later version may have values that this one does not know.
#[derive(Deserialize)]
struct Read<'a> {
    v: u64,
    #[serde(default)]
    trace: Value<TraceContext>,
    #[serde(default)]
    policy: Value<RestartPolicy>,
    #[serde(default)]
    progress: Value<ProgressTimeout>,
    #[serde(default, rename = "type", borrow)]
    kind: Option<&'a str>,
    #[serde(with = "serde_bytes", borrow)]
    body: &'a [u8],
}

/// How long a job may make no progress, in ms. It is small, because a node has one for each job that it holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct ProgressTimeout(NonZeroU32);

impl ProgressTimeout {
    /// `None` for less than a millisecond, and for more than 49 days.
    pub fn new(timeout: Duration) -> Option<Self> {
        u32::try_from(timeout.as_millis()).ok().and_then(NonZeroU32::new).map(Self)
    }

    /// The time.
    pub fn get(self) -> Duration {
        Duration::from_millis(self.0.get().into())
    }
}

/// The value of a field.
#[derive(Default, Deserialize)]
#[serde(untagged)]
enum Value<T> {
    Known(T),
    /// A value of a later version.
    Unknown(IgnoredAny),
    #[default]
    #[serde(skip)]
    Absent,
}

#[derive(Deserialize)]
struct Version {
    v: u64,
}

/// An opened envelope. The body is a slice of the envelope's bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Opened {
    /// The user's bytes.
    pub body: Bytes,
    /// What happens after the job has ended.
    pub policy: RestartPolicy,
    /// How long the job may make no progress.
    pub progress: Option<ProgressTimeout>,
    /// The trace of the caller.
    pub trace: Option<Box<TraceContext>>,
    /// The kind of the body.
    pub kind: Option<Box<str>>,
}

/// Why an envelope cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum EnvelopeError {
    /// The bytes are no envelope.
    #[error("the payload's envelope is damaged")]
    Damaged(#[source] rmp_serde::decode::Error),
    /// A newer version has written the envelope.
    #[error("the payload's envelope has version {0}, this node reads up to {VERSION}")]
    Newer(u64),
    /// A newer version wrote it, but left the version number as it was.
    #[error("the payload's envelope has a restart policy that this node does not know")]
    UnknownPolicy,
}

impl<T> Value<T> {
    fn known(self) -> Option<T> {
        match self {
            Self::Known(value) => Some(value),
            Self::Unknown(_) | Self::Absent => None,
        }
    }
}

impl<'a> Envelope<'a> {
    /// An envelope with nothing but a body.
    pub fn new(body: &'a [u8]) -> Self {
        Self { v: VERSION, trace: None, policy: RestartPolicy::Never, progress: None, kind: None, body }
    }

    /// It has no options.
    fn is_plain(&self) -> bool {
        let has_options = self.trace.is_some() || self.progress.is_some() || self.kind.is_some();
        !has_options && self.policy.is_never() && self.v == VERSION
    }

    /// The envelope's bytes.
    ///
    /// # Errors
    /// The encoder's.
    pub fn seal(&self) -> Result<Bytes, rmp_serde::encode::Error> {
        let mut sealed = Vec::with_capacity(self.body.len() + 64);
        if self.is_plain() {
            sealed.extend_from_slice(PLAIN);
            rmp_serde::encode::write(&mut sealed, serde_bytes::Bytes::new(self.body))?;
        } else {
            rmp_serde::encode::write_named(&mut sealed, self)?;
        }
        Ok(sealed.into())
    }

    /// A digest of the caller's request, the same in every version of this crate. It is XXH3 (128 bits) of the key,
    /// then the type, the policy, the progress timeout and the body, each with its length. Default values are left out. The trace is not
    /// included, because a retry has another one.
    pub fn digest(&self, key: &JobKey) -> String {
        let mut hasher = Xxh3::new();
        let mut part = |name: u8, bytes: &[u8]| {
            hasher.update(&[name]);
            hasher.update(&(bytes.len() as u64).to_le_bytes());
            hasher.update(bytes);
        };
        part(b'k', key.as_bytes());
        if let Some(kind) = self.kind {
            part(b't', kind.as_bytes());
        }
        match self.policy {
            RestartPolicy::Never => {}
            RestartPolicy::OnFailure => part(b'p', b"on_failure"),
            RestartPolicy::Always => part(b'p', b"always"),
        }
        if let Some(ProgressTimeout(ms)) = self.progress {
            part(b'w', ms.to_string().as_bytes());
        }
        part(b'b', self.body);
        format!("{:032x}", hasher.digest128())
    }
}

/// Whether two envelopes mean the same: they differ in the trace at most.
pub fn means_the_same(a: &Bytes, b: &Bytes) -> bool {
    let parts = |opened: Opened| (opened.body, opened.policy, opened.progress, opened.kind);
    let opened = |envelope| open(envelope).ok().map(parts);
    a == b || opened(a).is_some_and(|a| opened(b) == Some(a))
}

/// Digests of a key, and of what an envelope means for it. They serve the memory of one process only.
pub fn digests(key: &JobKey, envelope: &Bytes) -> (u64, u64) {
    let mut hasher = Xxh3::new();
    hasher.update(key.as_bytes());
    let of_key = hasher.digest();
    match open(envelope) {
        Ok(opened) => {
            let Opened { body, policy, progress, kind, .. } = &opened;
            let options = format!("{policy:?}|{progress:?}|{kind:?}|");
            hasher.update(options.as_bytes());
            hasher.update(body);
        }
        Err(_) => hasher.update(envelope),
    }
    (of_key, hasher.digest())
}

/// Takes a payload out of its envelope, without a copy.
///
/// # Errors
/// The bytes are damaged, or of a newer version.
pub fn open(envelope: &Bytes) -> Result<Opened, EnvelopeError> {
    match read::<Read<'_>>(envelope) {
        Ok(Read { v, .. }) if v > VERSION => Err(EnvelopeError::Newer(v)),
        Ok(Read { policy: Value::Unknown(_), .. }) => Err(EnvelopeError::UnknownPolicy),
        Ok(Read { trace, policy, progress, kind, body, .. }) => Ok(Opened {
            body: envelope.slice_ref(body),
            policy: policy.known().unwrap_or_default(),
            // A job can run without either.
            progress: progress.known(),
            trace: trace.known().map(Box::new),
            kind: kind.map(Into::into),
        }),
        // A newer envelope may have another body. Its version can be read all the same.
        Err(damage) => Err(match read::<Version>(envelope) {
            Ok(Version { v }) if v > VERSION => EnvelopeError::Newer(v),
            _ => EnvelopeError::Damaged(damage),
        }),
    }
}

fn read<'a, T: Deserialize<'a>>(envelope: &'a [u8]) -> Result<T, rmp_serde::decode::Error> {
    let mut deserializer = rmp_serde::Deserializer::from_read_ref(envelope);
    deserializer.set_max_depth(LEVELS + 1);
    T::deserialize(&mut deserializer)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Opens an envelope on a small stack.
    fn opened_on_a_small_stack(envelope: Bytes) -> Option<Result<Opened, EnvelopeError>> {
        let thread = std::thread::Builder::new().stack_size(256 << 10);
        thread.spawn(move || open(&envelope)).ok()?.join().ok()
    }

    #[test]
    fn an_envelope_that_nests_too_deep_is_damaged() {
        for field in ["trace", "policy", "more", "body"] {
            for opening in [&b"\x91"[..], b"\x81\xa1k"] {
                let with = |levels| {
                    let head: &[u8] = match field {
                        "body" => b"\x82\xa1v\x01",
                        _ => b"\x83\xa1v\x01\xa4body\xc4\x00",
                    };
                    let name = [&[0xa0 | field.len() as u8], field.as_bytes()].concat();
                    Bytes::from([head, &name, &opening.repeat(levels), b"\x05"].concat())
                };
                let deep = opened_on_a_small_stack(with(100_000));
                assert!(matches!(deep, Some(Err(EnvelopeError::Damaged(_)))), "{field}: {deep:?}");
                if field == "more" {
                    assert!(open(&with(LEVELS - 1)).is_ok(), "the envelope is one level");
                    assert!(matches!(open(&with(LEVELS)), Err(EnvelopeError::Damaged(_))));
                }
            }
        }
    }

    fn plain(body: &'static [u8]) -> Opened {
        let (policy, progress) = (RestartPolicy::Never, None);
        Opened { body: Bytes::from_static(body), policy, progress, trace: None, kind: None }
    }

    #[test]
    fn golden_bytes() {
        let sealed = Envelope::new(b"hi").seal().unwrap_or_default();
        assert_eq!(&sealed[..], b"\x82\xa1v\x01\xa4body\xc4\x02hi");
        assert_eq!(open(&sealed).ok(), Some(plain(b"hi")));
    }

    #[test]
    fn golden_bytes_of_a_full_one() {
        let trace = TraceContext::new("00-a-b-01", "v=1").ok();
        let policy = RestartPolicy::OnFailure;
        let progress = ProgressTimeout::new(Duration::from_secs(30));
        let envelope =
            Envelope { trace: trace.clone(), policy, progress, kind: Some("feed"), ..Envelope::new(b"hi") };
        let sealed = envelope.seal().unwrap_or_default();
        let golden = b"\x86\xa1v\x01\xa5trace\x82\xabtraceparent\xa900-a-b-01\xaatracestate\xa3v=1\
            \xa6policy\xaaon_failure\xa8progress\xcdu0\xa4type\xa4feed\xa4body\xc4\x02hi";
        assert_eq!(sealed.escape_ascii().to_string(), golden.escape_ascii().to_string());
        let kind = Some("feed".into());
        assert_eq!(
            open(&sealed).ok(),
            Some(Opened { policy, progress, trace: trace.map(Box::new), kind, ..plain(b"hi") })
        );
    }

    #[test]
    fn unknown_fields_are_passed_over_and_a_newer_version_is_named() {
        let more = Bytes::from_static(b"\x83\xa1v\x01\xa4more\xa1t\xa4body\xc4\x02hi");
        assert_eq!(open(&more).ok(), Some(plain(b"hi")));
        for newer in [&b"\x82\xa1v\x02\xa4body\xc4\x02hi"[..], b"\x82\xa1v\x02\xa5parts\x90"] {
            assert!(matches!(open(&Bytes::from_static(newer)), Err(EnvelopeError::Newer(2))));
        }
        for damaged in [&b"x"[..], b"", b"\x81\xa1v\x01"] {
            assert!(matches!(open(&Bytes::from_static(damaged)), Err(EnvelopeError::Damaged(_))));
        }
    }

    #[test]
    fn a_later_progress_timeout_is_passed_over() {
        for later in [&b"\xa5never"[..], b"\x00", b"\xcb\x40\x00\x00\x00\x00\x00\x00\x00", b"\xc0"] {
            let envelope = [b"\x83\xa1v\x01\xa8progress", later, b"\xa4body\xc4\x02hi"].concat();
            assert_eq!(open(&Bytes::from(envelope)).ok(), Some(plain(b"hi")));
        }
    }

    #[test]
    fn a_later_trace_is_passed_over_and_a_later_policy_is_not() {
        let traces = [
            &b"\x83\xa1v\x01\xa5trace\x07\xa4body\xc4\x02hi"[..],
            b"\x83\xa1v\x01\xa5trace\x81\xa2id\xa1x\xa4body\xc4\x02hi",
            b"\x83\xa1v\x01\xa5trace\xc0\xa4body\xc4\x02hi",
        ];
        for trace in traces {
            assert_eq!(open(&Bytes::from_static(trace)).ok(), Some(plain(b"hi")));
        }
        let policies = [
            &b"\x83\xa1v\x01\xa6policy\xa5later\xa4body\xc4\x02hi"[..],
            b"\x83\xa1v\x01\xa6policy\x81\xa5later\x07\xa4body\xc4\x02hi",
        ];
        for policy in policies {
            assert!(matches!(open(&Bytes::from_static(policy)), Err(EnvelopeError::UnknownPolicy)));
        }
    }

    #[test]
    fn a_digest_tells_apart_what_the_caller_means_and_nothing_else() {
        let key = |text: &str| JobKey::try_from(text).unwrap_or_else(|error| panic!("{error}"));
        let hi = Envelope::new(b"hi");
        let traced = Envelope { trace: TraceContext::new("00-a-b-01", "").ok(), ..Envelope::new(b"hi") };
        assert_eq!(hi.digest(&key("k")), GOLDEN_DIGEST);
        assert_eq!(traced.digest(&key("k")), GOLDEN_DIGEST);
        let timed = |seconds| {
            let progress = ProgressTimeout::new(Duration::from_secs(seconds));
            Envelope { progress, ..Envelope::new(b"hi") }
        };
        let others = [
            hi.digest(&key("j")),
            Envelope::new(b"ho").digest(&key("k")),
            Envelope { kind: Some("t"), ..Envelope::new(b"hi") }.digest(&key("k")),
            Envelope { policy: RestartPolicy::Always, ..Envelope::new(b"hi") }.digest(&key("k")),
            Envelope { policy: RestartPolicy::OnFailure, ..Envelope::new(b"hi") }.digest(&key("k")),
            timed(30).digest(&key("k")),
            timed(31).digest(&key("k")),
        ];
        let all: std::collections::BTreeSet<_> =
            others.iter().map(String::as_str).chain([GOLDEN_DIGEST]).collect();
        assert_eq!(all.len(), 8);
    }

    const GOLDEN_DIGEST: &str = "5d2bedeacae47fa31ac384761f71c9c3";
}
