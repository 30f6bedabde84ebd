//! The outcomes of changes, as they are shown.

use serde::Serialize;
use tenure_pool::JobKey;

use crate::out::{Cell, Column, Row, Tone, shown};

/// The outcome for one job.
#[derive(Serialize)]
pub(crate) struct Steered {
    key: Option<String>,
    key64: Option<String>,
    /// `stopped` and so on; `would_stop`, `gone` or `failed`.
    outcome: String,
    error: Option<String>,
    #[serde(skip)]
    title: String,
    #[serde(skip)]
    tone: Tone,
}

impl Steered {
    pub(crate) fn new(key: &JobKey, outcome: impl Into<String>, tone: Tone) -> Self {
        let (text, key64) = shown::key_fields(key);
        Self { key: text, key64, outcome: outcome.into(), error: None, title: shown::key(key), tone }
    }

    pub(crate) fn failed(key: &JobKey, error: &str) -> Self {
        Self { error: Some(error.to_owned()), ..Self::new(key, "failed", Tone::Bad) }
    }
}

impl Row for Steered {
    const KIND: &'static str = "outcomes";
    const COLUMNS: &'static [Column] = &[Column::new("KEY"), Column::new("OUTCOME"), Column::new("WHY")];

    fn cells(&self, _: bool) -> Vec<Cell> {
        let why = self.error.as_deref().map(shown::plain);
        vec![Cell::new(&self.title), Cell::new(&self.outcome).tone(self.tone), Cell::maybe(why)]
    }

    fn name(&self) -> String {
        self.title.clone()
    }
}

/// Workers that were told to drain.
#[derive(Serialize)]
pub(crate) struct Leaving {
    pub(crate) workers: Vec<u64>,
    /// How many of them were found.
    pub(crate) drained: usize,
    pub(crate) gone: bool,
}

/// A node whose cordon was set or lifted.
#[derive(Serialize)]
pub(crate) struct Marked<'a> {
    pub(crate) node: &'a str,
    pub(crate) cordoned: bool,
    pub(crate) dry_run: bool,
    pub(crate) workers: usize,
}

/// A pool whose hold was set or lifted.
#[derive(Serialize)]
pub(crate) struct Held {
    pub(crate) pool: String,
    pub(crate) on_hold: bool,
    pub(crate) dry_run: bool,
}
