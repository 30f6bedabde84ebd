//! The last line, and the boxes that lie over the lists.

use ratatui::layout::Rect;
use ratatui::style::{Modifier, Style};

use super::canvas::{Canvas, wrapped};
use crate::out::{Cell, Tone};
use crate::top::filter::WORDS;
use crate::top::model::{Answer, Model, Question, Screen};

/// The typed text, the last answer, or the keys that mean something here.
pub(super) fn foot(canvas: &mut Canvas<'_>, model: &Model, area: Rect) {
    if let Some(prompt) = &model.prompt {
        let name = if model.screen == Screen::Ring { "key" } else { "filter" };
        let typed = crate::out::shown::plain(&prompt.typed);
        let cursor = if canvas.look.ascii { "_" } else { "▏" };
        let hint = match (&prompt.error, model.screen) {
            (Some(error), _) => Cell::new(format!("  {error}")).tone(Tone::Bad),
            (None, Screen::Ring) => Cell::new("  enter shows who is asked for it in turn").tone(Tone::Dim),
            (None, Screen::Events) => Cell::new("  words that an event has").tone(Tone::Dim),
            (None, _) => Cell::new(format!("  {WORDS}")).tone(Tone::Dim),
        };
        canvas.line(area, 0, &[Cell::new(format!(" {name}: {typed}{cursor}")), hint]);
        return;
    }
    if let Some((_, tone, text)) = &model.said {
        canvas.line(area, 0, &[Cell::new(format!(" {}", crate::out::shown::plain(text))).tone(*tone)]);
        return;
    }
    if let Some(act) = &model.acting {
        canvas.line(area, 0, &[Cell::new(format!(" {act}: under way")).tone(Tone::Warn)]);
        return;
    }
    let mut x = area.x;
    for (at, screen) in Screen::ALL.into_iter().enumerate() {
        let style = if screen == model.screen && model.detail.is_none() {
            Style::new().add_modifier(Modifier::REVERSED)
        } else {
            Style::new()
        };
        x = canvas.write(area, 0, x, &format!(" {} {} ", at + 1, screen.word()), style);
    }
    let acts = match model.screen {
        _ if model.called.read_only => "",
        _ if model.detail.is_some() => "  x stop  p park  P pause  r retry  b bounce",
        Screen::Pool => "  d drain  c cordon",
        Screen::Jobs => "  x stop  p park  P pause  r retry  b bounce",
        Screen::Parked => "  r retry  R retry all  x stop",
        Screen::Events | Screen::Ring | Screen::Simulate => "",
    };
    let more = match model.screen {
        _ if model.detail.is_some() => "  esc back",
        Screen::Pool if model.by_node => "  enter jobs  n workers",
        Screen::Pool => "  enter jobs  n nodes",
        Screen::Jobs | Screen::Parked => "  enter explain  / filter",
        Screen::Events => "  enter explain  / search",
        Screen::Ring => "  / key",
        Screen::Simulate => "  - goes  N node goes  + joins",
    };
    canvas.write(area, 0, x, &format!("  ? help{more}{acts}  q quit"), Style::new());
}

/// Every key.
pub(super) fn help(canvas: &mut Canvas<'_>, area: Rect) {
    const LINES: &[&str] = &[
        "1-6, tab   the screens: pool, jobs, parked, events, ring, moves",
        "up, down   choose; also k and j, page up, page down, g, G",
        "enter      the jobs of a worker or node; why a job is where it is",
        "esc        back; on a list: no filter",
        "/          filter the list; on the ring: who is asked for a key",
        "s          another order of the list",
        "n          nodes in place of workers, and back",
        "w          the jobs that would move if the worker or node went",
        "-, N, +    on moves: it goes or stays, so does its node, one joins",
        "space      freeze the picture, and go on",
        "d          drain the worker or node        c   cordon or uncordon its node",
        "x          stop the job                    p   park it",
        "r          retry it                        R   retry all that are listed",
        "b          bounce it to the next worker    P   pause it, or resume it",
        "",
        "ctrl-z     suspend                         q   quit",
    ];
    let width = LINES.iter().map(|line| line.len()).max().unwrap_or(0) as u16 + 4;
    let inner = canvas.frame(area, "help: any key closes it", width, LINES.len() as u16 + 2);
    for (at, line) in LINES.iter().enumerate() {
        canvas.write(inner, at as u16, inner.x, line, Style::new());
    }
}

/// A change that waits for a yes.
pub(super) fn question(canvas: &mut Canvas<'_>, question: &Question, area: Rect) {
    const WIDTH: u16 = 68;
    let width = WIDTH.min(area.width);
    let mut lines: Vec<String> = Vec::new();
    for text in &question.text {
        lines.extend(wrapped(text, width.saturating_sub(4)));
    }
    lines.push(String::new());
    lines.push(match &question.answer {
        Answer::Yes => "y does it, esc leaves".to_owned(),
        Answer::Word { word, typed } => {
            let cursor = if canvas.look.ascii { "_" } else { "▏" };
            format!("type {word} and enter, esc leaves: {}{cursor}", crate::out::shown::plain(typed))
        }
    });
    let title = question.act.title();
    let inner = canvas.frame(area, &title, width, lines.len() as u16 + 2);
    for (at, line) in lines.iter().enumerate() {
        canvas.write(inner, at as u16, inner.x, line, Style::new());
    }
}
