//! Jobs, parked jobs and events.

use std::time::Duration;

use ratatui::layout::Rect;

use super::canvas::{Canvas, number};
use crate::out::when::{brief, stamp};
use crate::out::{Cell, Column, Tone, shown};
use crate::top::model::{Model, Screen};
use crate::top::picture::Happening;
use crate::view::{events, jobs as shown_jobs};

pub(super) fn jobs(canvas: &mut Canvas<'_>, model: &Model, area: Rect) {
    const JOBS: &[Column] = &[
        Column::new("KEY"),
        Column::new("STATE"),
        Column::new("WORKER").right(),
        Column::new("NODE"),
        Column::new("TOKEN").right().wide(),
        Column::new("ATT").right(),
        Column::new("SINCE").right(),
        Column::new("PLAN").wide(),
        Column::new("WHY"),
    ];
    const PARKED: &[Column] =
        &[Column::new("KEY"), Column::new("ATT").right(), Column::new("SINCE").right(), Column::new("WHY")];
    let jobs = model.jobs();
    let age = |since| brief(model.now.duration_since(since).unwrap_or(Duration::ZERO));
    let is_parked = model.screen == Screen::Parked;
    let row = |at: usize| {
        let Some(job) = jobs.get(at) else { return Vec::new() };
        let key = Cell::new(shown::key(&job.key));
        let why = shown_jobs::why(
            job.paused.as_ref().map(|(by, reason, until)| (&**by, &**reason, *until)),
            shown_jobs::trouble(job.error.as_deref(), job.refusal.as_deref()).as_deref(),
        );
        if is_parked {
            return vec![key, Cell::of(job.attempts), Cell::new(age(job.since)), why];
        }
        vec![
            key,
            shown_jobs::state(job.state, job.paused.is_some()),
            Cell::maybe(job.worker),
            Cell::maybe(job.node.as_deref().map(shown::plain)),
            Cell::of(job.token),
            Cell::of(job.attempts),
            Cell::new(age(job.since)),
            Cell::maybe(job.plan.as_deref().map(shown::plain)),
            why,
        ]
    };
    canvas.line(area, 0, &title(model));
    let list = below(area, 1);
    let columns = if is_parked { PARKED } else { JOBS };
    canvas.table(list, columns, (jobs.len(), Some(model.chosen())), row);
}

/// The filter, how many jobs it means, and how far the search is.
fn title(model: &Model) -> Vec<Cell> {
    let filter = shown::plain(model.filter(model.screen));
    let mut words = vec![Cell::new(format!(" {}", model.screen.word()))];
    if !filter.is_empty() {
        words.push(Cell::new(format!("  {filter}")).tone(Tone::Warn));
    }
    let found = model.picture.as_ref().and_then(|picture| match model.screen {
        Screen::Parked => picture.parked.as_ref(),
        _ => picture.jobs.as_ref(),
    });
    match found.filter(|found| found.filter == model.filter(model.screen)) {
        Some(found) => {
            let (shown, all) = (found.jobs.len() as u64, found.matching);
            let of = if shown < all { format!("the first {} of ", number(shown)) } else { String::new() };
            words.push(Cell::new(format!("  {of}{} jobs", number(all))));
            if let Some(looked) = found.looked {
                let of = model.picture.as_ref().map_or(0, |picture| picture.counts.jobs);
                let text = format!("  looked at {} of {}", number(looked), number(of));
                words.push(Cell::new(text).tone(Tone::Dim));
            }
        }
        None => words.push(Cell::new("  being read").tone(Tone::Dim)),
    }
    words.push(Cell::new(format!("  by {}", model.order())).tone(Tone::Dim));
    words
}

pub(super) fn events(canvas: &mut Canvas<'_>, model: &Model, area: Rect) {
    let filter = shown::plain(model.filter(Screen::Events));
    let mut words = vec![Cell::new(format!(" events of the last hour, and since: {}", model.events.len()))];
    if !filter.is_empty() {
        words.push(Cell::new(format!("  {filter}")).tone(Tone::Warn));
    }
    if model.dropped > 0 {
        words.push(Cell::new(format!("  {} were dropped", number(model.dropped))).tone(Tone::Warn));
    }
    canvas.line(area, 0, &words);
    happenings(canvas, model, below(area, 1), Some(model.chosen()));
}

/// The table of events, the newest first.
pub(super) fn happenings(canvas: &mut Canvas<'_>, model: &Model, area: Rect, chosen: Option<usize>) {
    let all: Vec<_> = match chosen {
        Some(_) => model.happenings().into_iter().map(|(_, event)| event).collect(),
        None => model.events.iter().map(|(_, event)| event).collect(),
    };
    table(canvas, &all, area, chosen);
}

/// A table of these events.
pub(super) fn table(canvas: &mut Canvas<'_>, all: &[&Happening], area: Rect, chosen: Option<usize>) {
    const COLUMNS: &[Column] = &[
        Column::new("AT"),
        Column::new("KIND"),
        Column::new("KEY"),
        Column::new("WORKER").right(),
        Column::new("WHY"),
        Column::new("NOTED BY"),
    ];
    let row = |at: usize| {
        let Some(event) = all.get(at) else { return Vec::new() };
        vec![
            Cell::new(stamp(event.at).get(11..19).unwrap_or_default()),
            events::kind(event.kind),
            Cell::new(event.title()),
            Cell::maybe(event.worker),
            Cell::maybe(Some(&event.why).filter(|why| !why.is_empty())),
            Cell::new(&event.node).tone(Tone::Dim),
        ]
    };
    canvas.table(area, COLUMNS, (all.len(), chosen), row);
}

/// The area without its first lines.
pub(super) fn below(area: Rect, lines: u16) -> Rect {
    let lines = lines.min(area.height);
    Rect { y: area.y + lines, height: area.height - lines, ..area }
}
