//! A flow: the queues that a job goes through.

use std::time::Duration;

use crate::error::Error;
use crate::model::id::QueueName;

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

    /// The next stage. A queue is one stage at most: a node does not join with a flow that names it twice.
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

    /// Checks its stages.
    pub(crate) fn check(&self) -> Result<(), Error> {
        for (at, (stage, _)) in self.stages.iter().enumerate() {
            let queue = QueueName::new(stage)?;
            if self.stages[..at].iter().any(|(former, _)| former == stage) {
                return Err(Error::SameStage { flow: self.name.clone(), queue });
            }
        }
        Ok(())
    }

    /// The stage that follows a queue; `None` after the last one.
    pub(crate) fn after(&self, queue: &QueueName) -> Result<Option<&(String, Option<i8>)>, Error> {
        let of_queue = self.stages.iter().position(|(stage, _)| *queue == **stage);
        let missing = || Error::NoStage { flow: self.name.clone(), queue: queue.clone() };
        Ok(self.stages.get(of_queue.ok_or_else(missing)? + 1))
    }
}
