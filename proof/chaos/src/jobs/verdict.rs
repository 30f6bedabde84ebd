//! The judges: each accepted job has ended as its kind wants, by the execution that the world outside has heard last.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use serde_json::json;
use tenure_jobs::{JobId, JobView, Jobs, State};
use tokio::time::{Instant, sleep};

use super::JobsFault;
use super::excuse::{Accepted, Losses};
use super::node::{CHILDREN, Ended, Kind};
use super::over::Answer;
use crate::Result;
use crate::resource::{Counts, Resource, Run};

/// The longest part of the findings that is printed.
const SHOWN: usize = 20;

/// The findings.
#[derive(Debug, Default)]
pub(super) struct Verdict {
    faults: BTreeMap<JobsFault, u32>,
    unanswered: usize,
    accepted: usize,
    counts: Counts,
    last_attempts: u64,
    /// Jobs that are gone, as a loss of data allows.
    excused: u64,
    /// Accepted jobs that have not ended, or are gone.
    lost: Vec<String>,
    /// Jobs that have ended otherwise than they should.
    wrong: Vec<String>,
    /// Jobs that were cancelled, or whose executions were asked to end.
    cancelled: u64,
    /// Those of them that were tried again.
    tried_again: Vec<String>,
    /// Jobs whose end somebody has seen while others still came.
    ends_seen: u64,
    /// Those of them that ran once more.
    ran_again: Vec<String>,
    /// Jobs of which two executions had one token.
    of_one_token: Vec<String>,
    strange: Vec<String>,
}

impl Verdict {
    pub(super) fn new(faults: BTreeMap<JobsFault, u32>, unanswered: usize) -> Self {
        Self { faults, unanswered, ..Self::default() }
    }

    /// Sums up.
    pub(super) fn join(&mut self, act: Self) {
        for (fault, times) in act.faults {
            *self.faults.entry(fault).or_default() += times;
        }
        self.unanswered += act.unanswered;
        self.accepted += act.accepted;
        self.counts.accepted += act.counts.accepted;
        self.counts.refused += act.counts.refused;
        self.counts.stale_accepted += act.counts.stale_accepted;
        self.last_attempts += act.last_attempts;
        self.excused += act.excused;
        self.lost.extend(act.lost);
        self.wrong.extend(act.wrong);
        self.cancelled += act.cancelled;
        self.tried_again.extend(act.tried_again);
        self.ends_seen += act.ends_seen;
        self.ran_again.extend(act.ran_again);
        self.of_one_token.extend(act.of_one_token);
        self.strange.extend(act.strange);
    }

    pub(super) fn add(&mut self, strange: Vec<String>) {
        self.strange.extend(strange);
    }

    /// Waits until all jobs have ended, or so much time has passed.
    pub(super) async fn await_ends(
        &mut self,
        jobs: &Jobs,
        accepted: &BTreeMap<String, Accepted>,
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
        accepted: &BTreeMap<String, Accepted>,
        resource: &Resource,
        losses: &Losses,
    ) -> Result<()> {
        let ids = ids(accepted)?;
        self.accepted = ids.len();
        self.counts = resource.ledger().counts();
        self.of_one_token = resource.ledger().keys_of_one_token();
        for ((id, job), view) in ids.iter().zip(accepted.values()).zip(jobs.get_many(&ids).await?) {
            let runs = resource.ledger().runs(id.as_str()).to_vec();
            self.judge_cancellation(id, job, &runs, losses);
            self.judge_end(id, job, &runs, losses);
            let Some(view) = view else {
                let run = runs.last();
                if losses.excuse(job, run) {
                    self.excused += 1;
                } else {
                    self.lost.push(format!("{id} is gone, {:?}, last run: {run:?}", job.kind));
                }
                continue;
            };
            self.last_attempts += u64::from(view.attempts());
            if !view.state().is_over() {
                self.lost.push(format!("{id} is {:?} after {} attempts", view.state(), view.attempts()));
                continue;
            }
            if let Err(why) = ended_well(&view, job, runs.last(), losses) {
                self.wrong.push(format!("{id}, {:?}: {why}", job.kind));
            }
        }
        Ok(())
    }

    /// Whether a job was tried again although it was cancelled. A loss of data may have forgotten that it was.
    fn judge_cancellation(&mut self, id: &JobId, job: &Accepted, runs: &[Run], losses: &Losses) {
        let Some(cancelled) = job.cancelled.filter(|cancelled| cancelled.answer != Answer::Unknown) else {
            return;
        };
        self.cancelled += 1;
        let broken_by = cancelled.broken_by(job.again.as_ref(), runs);
        if let Some(run) =
            broken_by.filter(|run| !losses.had_forgotten((cancelled.asked, cancelled.answered), run))
        {
            let again = job.again;
            self.tried_again
                .push(format!("{id} began after it was cancelled: {run:?}, {cancelled:?}, {again:?}"));
        }
    }

    /// Whether a job ran once more although it had ended. A node that dies after a loss of data may not have told its ends
    /// again. The ends of cancelled jobs are judged above.
    fn judge_end(&mut self, id: &JobId, job: &Accepted, runs: &[Run], losses: &Losses) {
        let Some(end) = job.ended.filter(|_| job.cancelled.is_none()) else { return };
        self.ends_seen += 1;
        let Some(run) = end.broken_by(job.again.as_ref(), runs) else { return };
        let by = runs.iter().find(|run| run.token == end.token);
        if !by.is_some_and(|by| losses.had_forgotten_end(&end, by, run)) {
            self.ran_again.push(format!("{id} began after it had ended: {run:?}, {end:?}, by {by:?}"));
        }
    }

    pub(super) fn violations(&self) -> Vec<String> {
        let mut found: Vec<_> = self.strange.clone();
        found.extend(self.lost.iter().take(SHOWN).cloned());
        found.extend(self.wrong.iter().take(SHOWN).cloned());
        found.extend(self.tried_again.iter().take(SHOWN).cloned());
        found.extend(self.ran_again.iter().take(SHOWN).cloned());
        let of_one_token = self.of_one_token.iter().take(SHOWN);
        found.extend(of_one_token.map(|id| format!("two executions of {id} had one token")));
        if self.counts.stale_accepted > 0 {
            found.push(format!(
                "{} writes were accepted of executions that had a follower",
                self.counts.stale_accepted
            ));
        }
        if self.unanswered > 0 {
            found.push(format!("{} adds were not answered in time", self.unanswered));
        }
        if [self.accepted as u64, self.cancelled, self.ends_seen].contains(&0) || self.faults.is_empty() {
            found.push("nothing has happened".to_owned());
        }
        found
    }

    pub(super) fn json(&self, seed: u64) -> String {
        json!({
            "accepted": self.accepted,
            "lost": self.lost.len(),
            "forgotten": self.excused,
            "wrong_ends": self.wrong.len(),
            "cancelled": self.cancelled,
            "tried_after_cancel": self.tried_again.len(),
            "run_after_end": self.ran_again.len(),
            "tokens_repeated": self.of_one_token.len(),
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
            "{} jobs were accepted, {} are gone with lost data, {} are lost, {} ended wrong",
            self.accepted,
            self.excused,
            self.lost.len(),
            self.wrong.len()
        )
    }
}

fn ids(accepted: &BTreeMap<String, Accepted>) -> Result<Vec<JobId>> {
    Ok(accepted.keys().map(JobId::new).collect::<std::result::Result<Vec<_>, _>>()?)
}

/// Whether a job has ended as its kind wants, by its last execution, or as whoever cancelled it wants.
fn ended_well(
    view: &JobView,
    job: &Accepted,
    last: Option<&Run>,
    losses: &Losses,
) -> std::result::Result<(), String> {
    if let Some(cancelled) = &job.cancelled {
        let was_said_again = job.again.is_some_and(|again| {
            again.answered.is_some_and(|answered| !losses.forget(again.asked, answered))
        });
        if view.state() == State::Cancelled && !was_said_again {
            return Ok(());
        }
        let may_run = job.again.is_some() || losses.forget(cancelled.asked, cancelled.answered);
        if cancelled.answer == Answer::AtOnce && !may_run {
            return Err(format!("{:?} after it was cancelled", view.state()));
        }
    }
    let (kind, last) = (job.kind, last.map(|run| (run.token, run.holder.clone())));
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
