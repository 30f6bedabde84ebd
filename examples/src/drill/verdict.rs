//! The result of a rolling deploy, and its bounds.

use std::time::Duration;

use serde::Serialize;
use tenure_testing::history::{Fault, Report};

/// The most moves per job: each job once, and a little for events that the deploy cannot foresee.
const MOST_MOVES: f64 = 1.2;
/// The longest time that a job may be without a handler.
const LONGEST_GAP_MS: u64 = 1_000;

/// The figures. As JSON, one line in this order.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Verdict {
    /// Jobs that ran throughout.
    pub jobs: usize,
    /// Nodes that were replaced.
    pub deploys: usize,
    /// The average number of moves of a job.
    pub moves_per_job: f64,
    /// The number of times that two handlers of one job ran at once.
    pub overlaps: usize,
    /// Jobs that did not run when the pool had come to rest.
    pub lost: usize,
    /// The median time that a move left its job without a handler, in ms, rounded up.
    pub gap_ms_p50: u64,
    /// The 99th percentile of that time.
    pub gap_ms_p99: u64,
    /// The longest such time.
    pub gap_ms_max: u64,
    /// Other broken promises, in words.
    #[serde(skip)]
    pub others: Vec<String>,
}

impl Verdict {
    /// Reads the figures from the judgement of a history.
    pub fn of(jobs: usize, deploys: usize, report: &Report) -> Self {
        let (mut overlaps, mut lost, mut others) = (0, 0, Vec::new());
        for fault in &report.faults {
            match fault {
                Fault::Overlap { .. } => overlaps += 1,
                Fault::Lost { .. } => lost += 1,
                other => others.push(other.to_string()),
            }
        }
        let moves = report.starts.saturating_sub(report.keys) as f64 / jobs.max(1) as f64;
        let gaps = report.gap_percentiles();
        Self {
            jobs,
            deploys,
            moves_per_job: (moves * 1e3).round() / 1e3,
            overlaps,
            lost,
            gap_ms_p50: ms(gaps.p50),
            gap_ms_p99: ms(gaps.p99),
            gap_ms_max: ms(gaps.max),
            others,
        }
    }

    /// The exceeded bounds, in words; empty when all is well.
    pub fn faults(&self) -> Vec<String> {
        let bounds = [
            (self.moves_per_job > MOST_MOVES)
                .then(|| format!("{} moves per job, allowed are {MOST_MOVES}", self.moves_per_job)),
            (self.overlaps > 0).then(|| format!("{} overlaps", self.overlaps)),
            (self.lost > 0).then(|| format!("{} jobs are lost", self.lost)),
            (self.gap_ms_max > LONGEST_GAP_MS)
                .then(|| format!("a gap of {} ms, allowed are {LONGEST_GAP_MS}", self.gap_ms_max)),
        ];
        bounds.into_iter().flatten().chain(self.others.iter().cloned()).collect()
    }

    /// The figures as one line of JSON.
    pub fn json(&self) -> String {
        serde_json::to_string(self).unwrap_or_default()
    }
}

fn ms(duration: Duration) -> u64 {
    duration.as_micros().div_ceil(1_000) as u64
}
