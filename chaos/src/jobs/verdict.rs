//! The judges: each accepted job has ended as its kind wants, by the execution that the world outside has heard last.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use serde_json::json;
use tenure_jobs::{JobId, JobView, Jobs, State};
use tokio::time::{Instant, sleep};

use super::JobsFault;
use super::node::{CHILDREN, Ended, Kind};
use crate::Result;
use crate::resource::{Counts, Resource};

/// The longest part of the findings that is printed.
const SHOWN: usize = 20;

/// The findings.
#[derive(Debug)]
pub(super) struct Verdict {
    faults: BTreeMap<JobsFault, u32>,
    unanswered: usize,
    accepted: usize,
    counts: Counts,
    last_attempts: u64,
    /// Accepted jobs that have not ended, or are gone.
    lost: Vec<String>,
    /// Jobs that have ended otherwise than they should.
    wrong: Vec<String>,
    strange: Vec<String>,
}

impl Verdict {
    pub(super) fn new(faults: BTreeMap<JobsFault, u32>, unanswered: usize) -> Self {
        let (counts, strange) = (Counts::default(), Vec::new());
        let (lost, wrong) = (Vec::new(), Vec::new());
        Self { faults, unanswered, accepted: 0, counts, last_attempts: 0, lost, wrong, strange }
    }

    pub(super) fn add(&mut self, strange: Vec<String>) {
        self.strange.extend(strange);
    }

    /// Waits until all jobs have ended, or so much time has passed.
    pub(super) async fn await_ends(
        &mut self,
        jobs: &Jobs,
        accepted: &BTreeMap<String, Kind>,
        patience: Duration,
    ) -> Result<()> {
        let mut left = ids(accepted)?;
        let began = Instant::now();
        while !left.is_empty() && began.elapsed() < patience {
            let views = jobs.get_many(&left).await?;
            let over = |view: &Option<JobView>| view.as_ref().is_none_or(|view| view.state().is_over());
            let zipped = left.into_iter().zip(views);
            left = zipped.filter(|(_, view)| !over(view)).map(|(id, _)| id).collect();
            sleep(Duration::from_millis(500)).await;
        }
        Ok(())
    }

    /// Compares the ends of all jobs with the world outside.
    pub(super) async fn judge(
        &mut self,
        jobs: &Jobs,
        accepted: &BTreeMap<String, Kind>,
        resource: &Resource,
    ) -> Result<()> {
        let ids = ids(accepted)?;
        self.accepted = ids.len();
        self.counts = resource.counts();
        for ((id, kind), view) in ids.iter().zip(accepted.values()).zip(jobs.get_many(&ids).await?) {
            let Some(view) = view else {
                self.lost.push(format!("{id} is gone"));
                continue;
            };
            self.last_attempts += u64::from(view.attempts());
            if !view.state().is_over() {
                self.lost.push(format!("{id} is {:?} after {} attempts", view.state(), view.attempts()));
                continue;
            }
            if let Err(why) = ended_well(&view, *kind, resource.last_writer(id.as_str())) {
                self.wrong.push(format!("{id}, {kind:?}: {why}"));
            }
        }
        Ok(())
    }

    pub(super) fn violations(&self) -> Vec<String> {
        let mut found: Vec<_> = self.strange.clone();
        found.extend(self.lost.iter().take(SHOWN).cloned());
        found.extend(self.wrong.iter().take(SHOWN).cloned());
        if self.counts.stale_accepted > 0 {
            found.push(format!(
                "{} writes were accepted of executions that had a follower",
                self.counts.stale_accepted
            ));
        }
        if self.unanswered > 0 {
            found.push(format!("{} adds were not answered in time", self.unanswered));
        }
        if self.accepted == 0 || self.faults.is_empty() {
            found.push("nothing has happened".to_owned());
        }
        found
    }

    pub(super) fn json(&self, seed: u64) -> String {
        json!({
            "accepted": self.accepted,
            "lost": self.lost.len(),
            "wrong_ends": self.wrong.len(),
            "stale_writes_accepted": self.counts.stale_accepted,
            "stale_writes_refused": self.counts.refused,
            "writes": self.counts.accepted,
            "faults": self.faults.values().sum::<u32>(),
            "last_attempts": self.last_attempts,
            "seed": seed,
        })
        .to_string()
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (fault, count) in &self.faults {
            writeln!(f, "{:<14} {count:>4}", format!("{fault:?}"))?;
        }
        write!(
            f,
            "{} jobs were accepted, {} are lost, {} ended wrong",
            self.accepted,
            self.lost.len(),
            self.wrong.len()
        )
    }
}

fn ids(accepted: &BTreeMap<String, Kind>) -> Result<Vec<JobId>> {
    Ok(accepted.keys().map(JobId::new).collect::<std::result::Result<Vec<_>, _>>()?)
}

/// Whether a job has ended as its kind wants, by its last execution.
fn ended_well(view: &JobView, kind: Kind, last: Option<(u64, String)>) -> std::result::Result<(), String> {
    let last = last.ok_or("nobody outside has heard of it")?;
    if kind == Kind::Fails {
        let by = view.error().unwrap_or_default();
        let right = view.state() == State::Failed && by == format!("{} {}", last.0, last.1);
        return if right {
            Ok(())
        } else {
            Err(format!("{:?} by {by}, the last one was {last:?}", view.state()))
        };
    }
    if view.state() != State::Done {
        return Err(format!("{:?}: {}", view.state(), view.error().unwrap_or_default()));
    }
    let ended: Ended = view.result().map_err(|error| error.to_string())?;
    if (ended.token, &ended.holder) != (last.0, &last.1) {
        return Err(format!("ended by {ended:?}, the last one was {last:?}"));
    }
    if ended.early {
        return Err("it began before its time".to_owned());
    }
    if ended.children != if kind == Kind::Parent { CHILDREN } else { 0 } {
        return Err(format!("{} children have ended well", ended.children));
    }
    Ok(())
}
