//! A flow: the queues that a job goes through.

use std::time::Duration;

/// A flow of jobs through queues, one stage after the other. A handler goes on with
/// [`Outcome::next`](crate::Outcome::next); the last stage ends the job.
#[derive(Clone, Debug)]
pub struct Flow {
    pub(crate) name: String,
    pub(crate) stages: Vec<(String, Option<i8>)>,
    pub(crate) life: Duration,
    pub(crate) lookups: Vec<String>,
}

impl Flow {
    /// A flow of this name. A job of it is kept for 24 h after it has ended, and fails 24 h after its start.
    pub fn new(name: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            stages: Vec::new(),
            life: Duration::from_secs(24 * 60 * 60),
            lookups: Vec::new(),
        }
    }

    /// The next stage.
    #[must_use]
    pub fn then(mut self, queue: impl Into<String>) -> Self {
        self.stages.push((queue.into(), None));
        self
    }

    /// The next stage, in which jobs of this flow have this priority, from -9 to 9.
    #[must_use]
    pub fn then_at(mut self, queue: impl Into<String>, priority: i8) -> Self {
        self.stages.push((queue.into(), Some(priority)));
        self
    }

    /// A field of the first data by which jobs are found with [`Jobs::find`](crate::Jobs::find): by its value for a text
    /// or a number, by each item for a list. Other values are ignored.
    #[must_use]
    pub fn lookup(mut self, field: impl Into<String>) -> Self {
        self.lookups.push(field.into());
        self
    }

    /// The time from its start in which a job must end, and for which it is kept afterwards.
    #[must_use]
    pub fn life(mut self, life: Duration) -> Self {
        self.life = life;
        self
    }

    /// The stage that follows a queue.
    pub(crate) fn after(&self, queue: &str) -> Option<&(String, Option<i8>)> {
        let at = self.stages.iter().position(|(stage, _)| stage == queue)?;
        self.stages.get(at + 1)
    }
}
