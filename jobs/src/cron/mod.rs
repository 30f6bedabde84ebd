//! Jobs that come by the calendar.

mod planner;
mod times;

pub use planner::{CronInfo, Planner};

use std::time::Duration;

use bytes::Bytes;
use serde::{Deserialize, Serialize};
use serde_bytes::ByteBuf;

use self::times::Times;
use crate::api::queue::millis;
use crate::data;
use crate::error::Error;
use crate::model::id::{GroupName, JobId, QueueName};

/// An occurrence is kept at least so long after it has succeeded: then nobody adds it again.
const KEEP: Duration = Duration::from_secs(600);
/// The most occurrences that are caught up.
const MOST_MISSED: u32 = 1_000;

/// The fate of occurrences that were missed, because no node was there to plan them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum CatchUp {
    /// They are left out.
    #[default]
    None,
    /// The last one runs.
    Last,
    /// The last ones run, at most this number: up to 1,000.
    Most(u32),
}

/// A job that comes by the calendar: give it to [`Jobs::plan`](crate::Jobs::plan).
#[derive(Clone, Debug)]
#[must_use = "a cron is planned by Jobs::plan"]
pub struct Cron {
    name: String,
    expression: String,
    zone: String,
    queue: String,
    body: Result<Bytes, Error>,
    group: Option<Vec<u8>>,
    priority: i8,
    attempts: u32,
    keep: Duration,
    catch_up: CatchUp,
}

/// The moments of a cron.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Calendar {
    expression: String,
    zone: String,
}

impl Calendar {
    fn times(&self) -> Result<Times, String> {
        Times::parse(&self.expression, &self.zone)
    }
}

/// The description of a cron, as its planning job has it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Spec {
    calendar: Calendar,
    queue: String,
    body: ByteBuf,
    group: Option<String>,
    priority: i8,
    attempts: u32,
    /// ms
    keep: u64,
    /// The most that are caught up.
    missed: u32,
}

impl Cron {
    /// A job of this queue at each moment of the expression, in UTC unless it has a [`zone`](Self::zone). The expression has
    /// five fields: minute, hour, day of the month, month, day of the week. Seconds may stand before them. A word such as
    /// `@daily` is one, too.
    pub fn new<T: Serialize + ?Sized>(
        name: impl Into<String>,
        expression: impl Into<String>,
        queue: impl Into<String>,
        payload: &T,
    ) -> Self {
        Self {
            name: name.into(),
            expression: expression.into(),
            zone: "UTC".to_owned(),
            queue: queue.into(),
            body: data::encode(payload),
            group: None,
            priority: 0,
            attempts: 0,
            keep: KEEP,
            catch_up: CatchUp::None,
        }
    }

    /// The time zone, such as `Europe/Berlin`. A time that its clocks skip comes when they go on; one that they repeat comes
    /// once. An expression whose hours are `*` or a step, such as `*/2`, comes in both hours.
    pub fn zone(mut self, name: impl Into<String>) -> Self {
        self.zone = name.into();
        self
    }

    /// The fate of occurrences that were missed. They are left out by default.
    pub fn catch_up(mut self, catch_up: CatchUp) -> Self {
        self.catch_up = catch_up;
        self
    }

    /// The group of its jobs, in a queue with groups.
    pub fn group(mut self, group: impl AsRef<[u8]>) -> Self {
        self.group = Some(group.as_ref().to_vec());
        self
    }

    /// The priority of its jobs, from -9 to 9.
    pub fn priority(mut self, priority: i8) -> Self {
        self.priority = priority;
        self
    }

    /// The most attempts of each job, in place of those of its queue.
    pub fn attempts(mut self, most: u32) -> Self {
        self.attempts = most;
        self
    }

    /// How long each job is kept after it has succeeded: 10 minutes, unless this is longer.
    pub fn keep(mut self, time: Duration) -> Self {
        self.keep = time.max(KEEP);
        self
    }

    /// Its planning job's id, and what is kept of it.
    fn checked(self) -> Result<(JobId, Spec), Error> {
        let refused = |reason: String| Error::Cron { name: self.name.clone(), reason };
        let id = planning_id(&self.name)?;
        let calendar = Calendar { expression: self.expression.clone(), zone: self.zone.clone() };
        let times = calendar.times().map_err(refused)?;
        // 2020: the calendar of a leap year is ahead.
        if times.after(1_577_836_800_000).is_none() {
            return Err(refused("it has no moment".to_owned()));
        }
        let missed = match self.catch_up {
            CatchUp::None => 0,
            CatchUp::Last => 1,
            CatchUp::Most(most) if most <= MOST_MISSED => most,
            CatchUp::Most(_) => {
                return Err(refused(format!("it catches up at most {MOST_MISSED} occurrences")));
            }
        };
        if !(-9..=9).contains(&self.priority) {
            return Err(Error::Setting("a priority is from -9 to 9"));
        }
        let group = self.group.as_ref().map(|group| GroupName::new(JobId::encoded(group)?.as_str()));
        let spec = Spec {
            queue: QueueName::new(&self.queue)?.to_string(),
            group: group.transpose()?.map(|group| group.to_string()),
            body: ByteBuf::from(self.body?.to_vec()),
            calendar,
            priority: self.priority,
            attempts: self.attempts,
            keep: millis(self.keep),
            missed,
        };
        Ok((id, spec))
    }
}

/// The id of the job that plans a cron of this name.
fn planning_id(name: &str) -> Result<JobId, Error> {
    let id = JobId::encoded(name)?;
    // Ids of occurrences are longer by a moment.
    if id.as_str().len() > 128 {
        return Err(Error::Cron {
            name: name.to_owned(),
            reason: "its name is longer than 128 bytes".to_owned(),
        });
    }
    Ok(JobId::new(format!("cron:{id}"))?)
}

/// The id of an occurrence.
fn occurrence_id(planning: &JobId, ms: u64) -> String {
    format!("{}@{}", planning.as_str().trim_start_matches("cron:"), times::text(ms))
}
