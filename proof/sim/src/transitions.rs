//! The legal changes of a record's state: one table for the simulator, the model and `docs/concepts.md`.

use tenure_protocol::model::record::JobState::{self, Assigned, Parked, Queued, Running, Stopping};

/// A state before and after, `None` where there is no job, and the steps that may make the change.
type Transition = (Option<JobState>, Option<JobState>, &'static [&'static str]);

/// All changes but those of `attest`, which writes what workers report after a loss of data. A shutdown deletes what workers
/// that have gone left behind.
const TRANSITIONS: &[Transition] = &[
    (None, Some(Queued), &["dispatch", "notify_or_start", "plan"]),
    (None, Some(Assigned), &["dispatch", "notify_or_start"]),
    (None, Some(Running), &["dispatch", "notify_or_start"]),
    (Some(Queued), Some(Queued), &["release", "reap", "sweep", "started", "attend", "steer"]),
    (Some(Queued), Some(Assigned), &["route"]),
    (Some(Queued), Some(Running), &["route"]),
    (Some(Queued), Some(Parked), &["steer"]),
    (Some(Queued), None, &["stop", "plan", "shutdown"]),
    (Some(Assigned), Some(Running), &["begin"]),
    (Some(Assigned), Some(Queued), &["release", "reap", "sweep", "started", "attend", "steer"]),
    (Some(Assigned), Some(Parked), &["release", "reap", "sweep", "started", "attend", "steer"]),
    (Some(Assigned), None, &["stop", "plan", "release", "reap", "shutdown"]),
    (Some(Running), Some(Queued), &["release", "reap", "sweep", "started", "attend"]),
    (Some(Running), Some(Parked), &["release", "reap", "sweep", "started", "attend"]),
    (Some(Running), Some(Stopping), &["stop", "plan"]),
    (Some(Running), None, &["release", "reap", "shutdown"]),
    (Some(Stopping), None, &["release", "reap", "attend", "shutdown"]),
    (Some(Parked), Some(Queued), &["unpark", "steer", "sweep"]),
    (Some(Parked), None, &["stop", "plan", "shutdown"]),
];

/// Whether the step may make this change of a state.
pub fn may(step: &str, from: Option<JobState>, to: Option<JobState>) -> bool {
    TRANSITIONS.iter().any(|(before, after, steps)| (*before, *after) == (from, to) && steps.contains(&step))
}

/// The changes as a table of Markdown.
pub fn table() -> String {
    let shown = |state: &Option<JobState>| state.map_or("no job".to_owned(), |state| format!("{state:?}"));
    let rows = TRANSITIONS.iter().map(|(from, to, steps)| {
        let steps: Vec<_> = steps.iter().map(|step| format!("`{step}`")).collect();
        format!("| {} | {} | {} |\n", shown(from), shown(to), steps.join(", "))
    });
    "| from | to | by |\n|---|---|---|\n".to_owned() + &rows.collect::<String>()
}
