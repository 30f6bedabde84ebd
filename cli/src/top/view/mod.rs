//! The screens, drawn into a buffer. They depend on the model alone.

mod canvas;
mod detail;
mod fleet;
mod head;
mod listed;
mod over;
mod suppose;
#[cfg(test)]
mod tests;

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::{Modifier, Style};

use self::canvas::Canvas;
pub(super) use self::canvas::Look;
use super::model::{Model, Screen};
use crate::out::{Cell, Tone};

/// How many lines are above the lists.
const HEAD: u16 = 3;
/// The most lines that events have on the first screen.
const EVENTS: u16 = 12;

/// Draws what the model shows.
pub(super) fn draw(model: &Model, look: Look, area: Rect, buffer: &mut Buffer) {
    let canvas = &mut Canvas { buffer, look };
    let foot = Rect { y: area.bottom().saturating_sub(1), height: area.height.min(1), ..area };
    let head = Rect { height: HEAD.min(area.height - foot.height), ..area };
    let body = Rect { y: head.bottom(), height: area.height - foot.height - head.height, ..area };
    head::draw(canvas, model, head);
    if model.picture.is_none() {
        canvas.line(body, 1, &[Cell::new(" reading the pool")]);
    } else if model.detail.is_some() {
        detail::draw(canvas, model, body);
    } else {
        match model.screen {
            Screen::Pool => pool(canvas, model, body),
            Screen::Jobs | Screen::Parked => listed::jobs(canvas, model, body),
            Screen::Events => listed::events(canvas, model, body),
            Screen::Ring => fleet::ring(canvas, model, body),
            Screen::Simulate => suppose::draw(canvas, model, body),
        }
    }
    if model.silent_for().is_some() {
        // An old picture looks old.
        let old = Style::new().add_modifier(Modifier::DIM);
        canvas.buffer.set_style(body.intersection(canvas.buffer.area), old);
    }
    over::foot(canvas, model, foot);
    if model.help {
        over::help(canvas, area);
    }
    if let Some(question) = &model.question {
        over::question(canvas, question, area);
    }
}

/// The workers or nodes, and the last events below them.
fn pool(canvas: &mut Canvas<'_>, model: &Model, body: Rect) {
    let below = if body.height < 9 { 0 } else { (body.height / 3).min(EVENTS) };
    let above = Rect { height: body.height - below, ..body };
    let below = Rect { y: above.bottom(), height: below, ..body };
    if model.by_node {
        fleet::nodes(canvas, model, above);
    } else {
        fleet::workers(canvas, model, above);
    }
    if below.height == 0 {
        return;
    }
    canvas.line(below, 0, &[Cell::new(" the last events").tone(Tone::Dim)]);
    let list = Rect { y: below.y + 1, height: below.height - 1, ..below };
    listed::happenings(canvas, model, list, None);
}
