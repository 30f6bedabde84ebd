//! Which jobs a command means.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::str::FromStr;
use std::time::{Duration, SystemTime};

use clap::{Args, ValueEnum};
use globset::{GlobBuilder, GlobMatcher};
use tenure_pool::inspect::WorkerInfo;
use tenure_pool::{JobInfo, JobState};

use super::named::Named;
use super::time;

/// A state, by its word or its letter.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum StateArg {
    #[value(alias = "Q")]
    Queued,
    #[value(alias = "A")]
    Assigned,
    #[value(alias = "R")]
    Running,
    #[value(alias = "S")]
    Stopping,
    #[value(alias = "P")]
    Parked,
    Paused,
}

impl StateArg {
    pub(crate) fn is(self, state: JobState, is_paused: bool) -> bool {
        let wanted = match self {
            Self::Queued => JobState::Queued,
            Self::Assigned => JobState::Assigned,
            Self::Running => JobState::Running,
            Self::Stopping => JobState::Stopping,
            Self::Parked | Self::Paused => JobState::Parked,
        };
        state == wanted && is_paused == (self == Self::Paused)
    }
}

/// A worker, and no node.
///
/// # Errors
/// The text names none.
pub(crate) fn worker(text: &str) -> Result<Named, String> {
    match text.parse() {
        Ok(named @ Named::Worker { .. }) => Ok(named),
        _ => Err("a worker is ID, or SHARD:ID".to_owned()),
    }
}

/// A pattern of keys: `*`, `?`, `[a-c]`, `{one,two}`.
#[derive(Clone, Debug)]
pub(crate) struct Pattern(GlobMatcher);

impl FromStr for Pattern {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let glob = GlobBuilder::new(text).literal_separator(false).backslash_escape(true).build();
        glob.map(|glob| Self(glob.compile_matcher())).map_err(|error| error.to_string())
    }
}

impl Pattern {
    pub(crate) fn fits(&self, bytes: &[u8]) -> bool {
        self.0.is_match(OsStr::from_bytes(bytes))
    }
}

/// A filter of jobs. A job must fit every part that is given.
#[derive(Args, Clone, Debug, Default)]
#[command(next_help_heading = "Which jobs")]
pub(crate) struct Which {
    /// Jobs in these states
    #[arg(long, value_enum, value_delimiter = ',', value_name = "STATE")]
    pub(crate) state: Vec<StateArg>,
    /// Jobs whose key fits this pattern: `*`, `?`, `[a-c]`, `{one,two}`
    #[arg(long = "match", value_name = "GLOB")]
    pub(crate) pattern: Option<Pattern>,
    /// Jobs of this worker
    #[arg(long, value_name = "[SHARD:]ID", value_parser = worker)]
    pub(crate) worker: Option<Named>,
    /// Jobs of this node's workers
    #[arg(long, value_name = "NAME")]
    pub(crate) node: Option<String>,
    /// Jobs of this plan
    #[arg(long, value_name = "NAME")]
    pub(crate) plan: Option<String>,
    /// Jobs that have been as they are for longer than this
    #[arg(long, value_name = "TIME", value_parser = time)]
    pub(crate) older: Option<Duration>,
    /// Jobs that are parked, or whose last attempt has failed
    #[arg(long)]
    pub(crate) failing: bool,
}

impl Which {
    /// Whether every job is meant.
    pub(crate) fn is_empty(&self) -> bool {
        let Self { state, pattern, worker, node, plan, older, failing } = self;
        let names_a_part = pattern.is_some() || worker.is_some() || node.is_some() || plan.is_some();
        state.is_empty() && !names_a_part && older.is_none() && !failing
    }

    /// Whether jobs of this worker may be meant.
    pub(crate) fn means_worker(&self, worker: &WorkerInfo) -> bool {
        self.worker.as_ref().is_none_or(|named| named.means(worker))
            && self.node.as_ref().is_none_or(|node| worker.node == *node)
    }

    /// Whether this job is meant. Its worker is checked where the jobs are read.
    pub(crate) fn means(&self, job: &JobInfo, now: SystemTime) -> bool {
        let is_old = |older| now.duration_since(job.since).is_ok_and(|age| age > older);
        (self.state.is_empty() || self.state.iter().any(|state| state.is(job.state, job.paused.is_some())))
            && self.pattern.as_ref().is_none_or(|pattern| pattern.fits(job.key.as_bytes()))
            && self.node.as_ref().is_none_or(|node| job.node.as_ref() == Some(node))
            && self.plan.as_ref().is_none_or(|plan| job.plan.as_ref() == Some(plan))
            && self.older.is_none_or(is_old)
            && (!self.failing || job.error.is_some())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pattern_fits_whole_keys_of_any_bytes() {
        let fits = |pattern: &str, key: &[u8]| pattern.parse::<Pattern>().is_ok_and(|p| p.fits(key));
        assert!(fits("eu/*", b"eu/a/b") && fits("a?c", b"abc") && fits("{acme,hooli}-*", b"hooli-1"));
        assert!(fits("*", b"\xff\x00") && fits("\\*", b"*"));
        assert!(!fits("acme", b"acme-1") && !fits("\\*", b"x") && !fits("a?", b"a"));
        assert!("[".parse::<Pattern>().is_err());
    }
}
