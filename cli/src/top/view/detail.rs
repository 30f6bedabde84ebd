//! One job: where it is, why, what can be done, and what has happened to it.

use ratatui::layout::Rect;
use ratatui::style::Modifier;

use super::canvas::{Canvas, wrapped};
use super::listed::{below, table};
use crate::out::{Cell, Tone, shown};
use crate::top::model::Model;

pub(super) fn draw(canvas: &mut Canvas<'_>, model: &Model, area: Rect) {
    let Some(key) = &model.detail else { return };
    let seen = model.picture.as_ref().and_then(|picture| picture.explained.as_ref());
    let Some(seen) = seen.filter(|seen| seen.key == *key) else {
        canvas.line(area, 1, &[Cell::new(format!(" {}: being read", shown::key(key)))]);
        return;
    };
    let mut line = 1;
    let first = canvas.look.style(seen.tone).add_modifier(Modifier::BOLD);
    let plain = canvas.look.style(Tone::Plain);
    let width = area.width.saturating_sub(2);
    for (at, paragraph) in seen.text.lines().enumerate() {
        let style = if at == 0 { first } else { plain };
        for text in wrapped(paragraph, width) {
            canvas.write(area, line, area.x.saturating_add(1), &text, style);
            line += 1;
        }
    }
    if let Some(remedy) = &seen.remedy {
        line += 1;
        for text in wrapped(&format!("to do: {remedy}"), width) {
            canvas.write(area, line, area.x.saturating_add(1), &text, plain);
            line += 1;
        }
    }
    line += 1;
    let of_key = model.events.iter().map(|(_, event)| event).filter(|event| event.keys.contains(key));
    let events: Vec<_> = of_key.collect();
    let heading = if events.is_empty() { " no event of the last hour names it" } else { " its events" };
    canvas.line(area, line, &[Cell::new(heading).tone(Tone::Dim)]);
    if !events.is_empty() {
        table(canvas, &events, below(area, line + 1), None);
    }
}
