//! The jobs that would move if workers went or came.

use ratatui::layout::Rect;

use super::canvas::{Canvas, number};
use super::listed::below;
use crate::out::{Cell, Column, Tone, shown};
use crate::top::model::{If, Model};
use crate::view::fleet::percent;

pub(super) fn draw(canvas: &mut Canvas<'_>, model: &Model, area: Rect) {
    const COLUMNS: &[Column] = &[
        Column::new("WORKER").right(),
        Column::new("NODE"),
        Column::new("IF IT"),
        Column::new("BEFORE").right(),
        Column::new("AFTER").right(),
        Column::new("CHANGE").right(),
        Column::new("SHARE").right(),
    ];
    let rows = model.supposed_rows();
    let all: u64 = rows.iter().filter_map(|row| row.figures).map(|(_, after)| after).sum();
    let is_sharded = rows.iter().any(|row| row.shard > 0);
    let row = |at: usize| {
        let Some(row) = rows.get(at) else { return Vec::new() };
        let name = match row.worker {
            Some(id) if is_sharded => Cell::new(format!("{}:{id}", row.shard)),
            Some(id) => Cell::of(id),
            None => Cell::new("new").tone(Tone::Good),
        };
        let what = match row.what {
            If::Stays => Cell::new("stays").tone(Tone::Dim),
            If::Goes => Cell::new("goes").tone(Tone::Warn),
            If::Drains => Cell::new("drains").tone(Tone::Warn),
            If::Joins => Cell::new("joins").tone(Tone::Good),
        };
        let none = || Cell::maybe(None::<String>);
        let change = |(before, after): (u64, u64)| {
            let sign = if after < before { "-" } else { "+" };
            let tone = if after == before { Tone::Dim } else { Tone::Plain };
            Cell::new(format!("{sign}{}", number(after.abs_diff(before)))).tone(tone)
        };
        vec![
            name,
            Cell::maybe(row.node.as_deref().map(shown::plain)),
            what,
            row.figures.map_or_else(none, |(before, _)| Cell::new(number(before))),
            row.figures.map_or_else(none, |(_, after)| Cell::new(number(after))),
            row.figures.map_or_else(none, change),
            row.figures.map_or_else(none, |(_, after)| Cell::new(format!("{:.1} %", percent(after, all)))),
        ]
    };
    canvas.line(area, 0, &title(model));
    canvas.table(below(area, 1), COLUMNS, (rows.len(), Some(model.chosen())), row);
}

/// The supposition, and what comes of it.
fn title(model: &Model) -> Vec<Cell> {
    let supposed = &model.supposed;
    if supposed.is_nothing() {
        let text = " nothing is supposed: - the worker goes, N its whole node, + one more joins";
        return vec![Cell::new(text).tone(Tone::Dim)];
    }
    let mut parts = Vec::new();
    match supposed.goes.len() {
        0 => {}
        1 => parts.push("1 worker goes".to_owned()),
        count => parts.push(format!("{count} workers go")),
    }
    let is_sharded = model.workers().iter().any(|worker| worker.shard > 0);
    match (supposed.joins, is_sharded) {
        (0, _) => {}
        (1, false) => parts.push("1 joins".to_owned()),
        (count, false) => parts.push(format!("{count} join")),
        (count, true) => parts.push(format!("{count} join in each shard")),
    }
    let mut words = vec![Cell::new(format!(" if {}:", parts.join(" and "))).tone(Tone::Warn)];
    let Some(seen) = model.simulated() else {
        words.push(Cell::new(" being read").tone(Tone::Dim));
        return words;
    };
    let forecast = &seen.forecast;
    let (moves, jobs) = (number(forecast.moves), number(forecast.jobs));
    words.push(Cell::new(format!(" {moves} of {jobs} jobs move ({:.1} %)", forecast.moves_percent)));
    let waiting = forecast.waits();
    if waiting > 0 {
        words.push(Cell::new(format!(", {} wait", number(waiting))).tone(Tone::Bad));
    }
    if !seen.whole {
        words.push(Cell::new("  of those looked at so far").tone(Tone::Dim));
    }
    words
}
