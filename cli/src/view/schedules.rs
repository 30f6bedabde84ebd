//! Schedules and tickers, as they are shown.

use std::time::{Duration, SystemTime};

use serde::Serialize;
use tenure_pool::inspect::{ScheduleInfo, ScheduleKind};

use crate::out::when::{as_stamp, brief, stamp};
use crate::out::{Cell, Column, Row, Tone};

/// A schedule or a ticker.
#[derive(Serialize)]
pub(crate) struct Shown {
    shard: usize,
    kind: &'static str,
    name: String,
    period_ms: u64,
    #[serde(serialize_with = "as_stamp")]
    next: SystemTime,
    ticks: u64,
    holder: Option<String>,
    term: u64,
}

/// The word for a kind.
pub(crate) fn kind(kind: ScheduleKind) -> &'static str {
    match kind {
        ScheduleKind::Plan => "plan",
        ScheduleKind::Ticker => "ticker",
        _ => "schedule",
    }
}

impl From<ScheduleInfo> for Shown {
    fn from(schedule: ScheduleInfo) -> Self {
        Self {
            shard: schedule.shard,
            kind: kind(schedule.kind),
            name: schedule.name.to_string(),
            period_ms: u64::try_from(schedule.period.as_millis()).unwrap_or(u64::MAX),
            next: schedule.next,
            ticks: schedule.ticks,
            holder: schedule.holder.map(|holder| holder.to_string()),
            term: schedule.term.0,
        }
    }
}

impl Row for Shown {
    const KIND: &'static str = "schedules";
    const COLUMNS: &'static [Column] = &[
        Column::new("SHARD").right().wide(),
        Column::new("NAME"),
        Column::new("KIND"),
        Column::new("PERIOD").right(),
        Column::new("NEXT").right(),
        Column::new("TICKS").right(),
        Column::new("HOLDER"),
        Column::new("TERM").right().wide(),
    ];

    fn cells(&self, utc: bool) -> Vec<Cell> {
        let next = match self.next.duration_since(SystemTime::now()) {
            _ if utc => Cell::new(stamp(self.next)),
            Ok(left) => Cell::new(format!("in {}", brief(left))),
            Err(late) => Cell::new(format!("{} late", brief(late.duration()))).tone(Tone::Warn),
        };
        vec![
            Cell::of(self.shard),
            Cell::new(&self.name),
            Cell::new(self.kind),
            Cell::new(brief(Duration::from_millis(self.period_ms))),
            next,
            Cell::of(self.ticks),
            Cell::maybe(self.holder.as_ref()),
            Cell::of(self.term),
        ]
    }

    fn name(&self) -> String {
        self.name.clone()
    }
}
