//! The findings of the judges.

use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::io;

use serde_json::json;

use super::ChildrenFault;
use super::traces::Traces;
use crate::resource::Counts;

/// The longest part of the findings that is printed.
const SHOWN: usize = 20;

/// The findings.
#[derive(Debug, Default)]
pub(super) struct Verdict {
    pub(super) faults: BTreeMap<ChildrenFault, u32>,
    pub(super) counts: Counts,
    pub(super) calls: u64,
    pub(super) alive: usize,
    /// Jobs that were accepted and do not run at the end.
    pub(super) lost: Vec<String>,
    /// Processes that are left when their node has ended.
    pub(super) left_behind: Vec<String>,
    pub(super) strange: Vec<String>,
    /// How often programs of jobs began, and those that ran beside another one.
    pub(super) starts: usize,
    pub(super) overlaps: Vec<String>,
}

impl Verdict {
    /// Reads what the programs of jobs have noted.
    pub(super) fn read(&mut self, traces: &Traces) -> io::Result<()> {
        self.overlaps = traces.notes("overlaps")?;
        let starts = traces.notes("starts")?;
        self.starts = starts.len();
        self.strange.extend(falling_tokens(&starts));
        Ok(())
    }

    pub(super) fn violations(&self) -> Vec<String> {
        let mut found = Vec::new();
        for list in [&self.overlaps, &self.lost, &self.left_behind, &self.strange] {
            found.extend(list.iter().take(SHOWN).cloned());
        }
        if self.counts.stale_accepted > 0 {
            let count = self.counts.stale_accepted;
            found.push(format!("{count} writes were accepted of programs that had a follower"));
        }
        if self.starts == 0 || self.faults.is_empty() {
            found.push("nothing has happened".to_owned());
        }
        found
    }

    pub(super) fn json(&self, seed: u64) -> String {
        json!({
            "overlaps": self.overlaps.len(),
            "lost": self.lost.len(),
            "stale_writes_accepted": self.counts.stale_accepted,
            "left_behind": self.left_behind.len(),
            "violations": self.violations().len(),
            "faults": self.faults.values().sum::<u32>(),
            "starts": self.starts,
            "writes": self.counts.accepted,
            "stale_writes_refused": self.counts.refused,
            "calls": self.calls,
            "seed": seed,
        })
        .to_string()
    }
}

/// The keys whose tokens do not rise from start to start.
fn falling_tokens(starts: &[String]) -> Vec<String> {
    let (mut last, mut found) = (HashMap::new(), Vec::new());
    for start in starts {
        let Some((key, token)) = start.split_once(' ') else { continue };
        let token = token.parse::<u64>().unwrap_or_default();
        if let Some(before) = last.insert(key, token).filter(|before| *before >= token) {
            found.push(format!("{key} started with token {token} after {before}"));
        }
    }
    found
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (fault, count) in &self.faults {
            writeln!(f, "{:<14} {count:>4}", format!("{fault:?}"))?;
        }
        let (starts, alive, lost) = (self.starts, self.alive, self.lost.len());
        write!(f, "{starts} starts; of {alive} jobs at the end, {lost} do not run")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_that_does_not_rise_is_found() {
        let starts = ["a 5", "b 6", "a 7", "b 6"].map(str::to_owned);
        assert_eq!(falling_tokens(&starts), ["b started with token 6 after 6"]);
    }
}
