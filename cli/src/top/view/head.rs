//! The lines above the lists: the pool, its figures, and how new they are.

use std::time::Duration;

use ratatui::layout::Rect;
use ratatui::style::{Modifier, Style};
use tenure_pool::event::EventKind;
use tenure_pool::inspect::{MemberState, PoolPhase};
use unicode_width::UnicodeWidthStr;

use super::canvas::{Canvas, number};
use crate::out::when::{brief, stamp};
use crate::out::{Cell, Tone};
use crate::top::model::Model;
use crate::top::picture::Picture;

/// The time that the counts of events are of.
const LATELY: Duration = Duration::from_secs(60);
/// The width of the bar of the jobs that workers have, and of a screen that has room for it.
const BAR: u16 = 12;
const ROOM: u16 = 92;
/// The columns of the curve, on a narrow screen and on one with room.
const CURVE: [usize; 2] = [6, 24];

pub(super) fn draw(canvas: &mut Canvas<'_>, model: &Model, area: Rect) {
    title(canvas, model, area);
    let Some(picture) = &model.picture else { return silence(canvas, model, area) };
    figures(canvas, picture, area);
    if model.silent_for().is_some() {
        silence(canvas, model, area);
    } else {
        lately(canvas, model, picture, area);
    }
}

fn title(canvas: &mut Canvas<'_>, model: &Model, area: Rect) {
    let mut words = vec![Cell::new(format!(" tenure top  {}  ", model.called.pool))];
    if let Some(picture) = &model.picture {
        words.extend(state(picture));
        words.push(Cell::new(format!("  T {}", brief(picture.ttl))).tone(Tone::Dim));
    }
    let end = canvas.line(area, 0, &words);
    canvas.paint(Rect { width: area.width.min(end.saturating_sub(area.x)), ..area }, 0, bold());
    let time = stamp(model.now).get(11..19).unwrap_or_default().to_owned();
    let pace =
        if model.paused { "frozen".to_owned() } else { format!("every {}", brief(model.called.every)) };
    let only = if model.called.read_only { "read only  " } else { "" };
    let right = format!("{only}{pace}  {time} ");
    let at = area.right().saturating_sub(u16::try_from(right.width()).unwrap_or(u16::MAX));
    if at > end {
        canvas.write(area, 0, at, &right, Style::new());
    }
}

/// How the pool is, in a few words.
fn state(picture: &Picture) -> Vec<Cell> {
    let (word, tone) = match picture.phase {
        PoolPhase::Open => ("open", Tone::Good),
        PoolPhase::Recovering => ("is being opened", Tone::Warn),
        PoolPhase::Closing | PoolPhase::Stopping => ("is being shut down", Tone::Warn),
        PoolPhase::Closed => ("was shut down", Tone::Bad),
        _ => ("is not there", Tone::Bad),
    };
    let mut words = vec![Cell::new(word).tone(tone)];
    if picture.hold {
        words.push(Cell::new("  on hold").tone(Tone::Warn));
    }
    if picture.server_changed {
        words.push(Cell::new("  another server").tone(Tone::Warn));
    }
    if !picture.workers.iter().any(|worker| worker.state == MemberState::Up && !worker.cordoned) {
        words.push(Cell::new("  no worker takes jobs").tone(Tone::Bad));
    }
    words
}

fn figures(canvas: &mut Canvas<'_>, picture: &Picture, area: Rect) {
    let counts = picture.counts;
    let on: u64 = picture.workers.iter().map(|worker| worker.jobs).sum();
    let said = || picture.workers.iter().filter_map(|worker| worker.said.as_ref());
    let (to_start, stuck) =
        said().fold((0, 0), |(start, stuck), said| (start + said.to_start, stuck + said.stuck));
    let part = if counts.jobs == 0 { 0.0 } else { on as f64 / counts.jobs as f64 };
    let count = |name: &str, n: u64, tone: Tone| {
        [Cell::new(format!("  {name} ")), Cell::new(number(n)).tone(if n > 0 { tone } else { Tone::Plain })]
    };
    let mut words = vec![Cell::new(format!(" jobs {}  on workers {} ", number(counts.jobs), number(on)))];
    if area.width >= ROOM {
        words.push(Cell::new(canvas.look.bar(part, BAR)).tone(Tone::Good));
    }
    words.extend(count("starting", to_start, Tone::Plain));
    words.extend(count("waiting", counts.waiting, Tone::Warn));
    words.extend(count("parked", counts.parked, Tone::Bad));
    words.extend(count("stuck", stuck, Tone::Bad));
    canvas.line(area, 1, &words);
}

fn lately(canvas: &mut Canvas<'_>, model: &Model, picture: &Picture, area: Rect) {
    let figures: Vec<_> = model.waiting.iter().copied().collect();
    let columns = CURVE[usize::from(area.width >= ROOM)];
    let figures = &figures[figures.len().saturating_sub(columns)..];
    let mut words = vec![Cell::new(" waiting "), Cell::new(canvas.look.curve(figures))];
    if let Some(oldest) = picture.counts.oldest {
        words.push(Cell::new(format!(
            "  unstarted {}, oldest {}",
            number(picture.counts.queued),
            brief(oldest)
        )));
    }
    let since = model.now.checked_sub(LATELY).unwrap_or(model.now);
    let count = |kind: EventKind| {
        let lately = model.events.iter().filter(|(_, event)| event.at >= since && event.kind == kind);
        lately.map(|(_, event)| event.count.max(1)).sum::<u64>()
    };
    words.push(Cell::new("  last minute:").tone(Tone::Dim));
    for (name, kind, tone) in [
        ("failed", EventKind::Failed, Tone::Bad),
        ("moved", EventKind::Moved, Tone::Plain),
        ("lost", EventKind::Lost, Tone::Bad),
    ] {
        let n = count(kind);
        let tone = if n > 0 { tone } else { Tone::Plain };
        words.push(Cell::new(format!(" {name} {}", number(n))).tone(tone));
    }
    canvas.line(area, 2, &words);
}

/// Why the picture is old, in place of what happened lately.
fn silence(canvas: &mut Canvas<'_>, model: &Model, area: Rect) {
    let age = model.silent_for().unwrap_or_default();
    let why = match &model.silence {
        Some(silence) => format!(": {}", crate::out::shown::plain(&silence.why)),
        None if model.read.is_none() => return,
        None => String::new(),
    };
    let of = if model.read.is_some() { format!(" for {}", brief(age)) } else { String::new() };
    let text = Cell::new(format!(" Redis silent{of}{why} ")).tone(Tone::Bad);
    canvas.line(area, 2, &[text]);
    canvas.paint(area, 2, Style::new().add_modifier(Modifier::REVERSED));
}

fn bold() -> Style {
    Style::new().add_modifier(Modifier::BOLD)
}
