//! Writes words, tables and boxes into a buffer. Nothing is ever written beyond its area, so any size will do.

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::{Color, Modifier, Style};
use unicode_width::UnicodeWidthStr;

use crate::out::{Cell, Column, Tone};

/// Between two columns.
const GAP: usize = 2;
/// From this width on, tables have all columns.
const WIDE: u16 = 110;

/// How the terminal can show things.
#[derive(Clone, Copy, Debug)]
pub(in crate::top) struct Look {
    pub(in crate::top) colour: bool,
    /// Nothing but ASCII is drawn. Keys and errors are shown as they are.
    pub(in crate::top) ascii: bool,
}

impl Look {
    pub(super) fn style(self, tone: Tone) -> Style {
        let style = Style::new();
        match (tone, self.colour) {
            (Tone::Plain, _) | (Tone::Good, false) => style,
            (Tone::Dim, _) => style.add_modifier(Modifier::DIM),
            (Tone::Good, true) => style.fg(Color::Green),
            (Tone::Warn, true) => style.fg(Color::Yellow),
            (Tone::Bad, true) => style.fg(Color::Red),
            (Tone::Warn | Tone::Bad, false) => style.add_modifier(Modifier::BOLD),
        }
    }

    /// A horizontal bar of this many columns.
    pub(super) fn bar(self, part: f64, width: u16) -> String {
        let eighths = (part.clamp(0.0, 1.0) * f64::from(width) * 8.0).round() as usize;
        let (full, rest) = (eighths / 8, eighths % 8);
        if self.ascii {
            return "#".repeat(full + usize::from(rest >= 4));
        }
        let last = ["", "▏", "▎", "▍", "▌", "▋", "▊", "▉"][rest];
        format!("{}{last}", "█".repeat(full))
    }

    /// A little curve, one column for each figure.
    pub(super) fn curve(self, figures: &[u64]) -> String {
        let signs: &[char] = if self.ascii {
            &['_', '.', '-', '=', '*', '#']
        } else {
            &['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█']
        };
        let most = figures.iter().copied().max().unwrap_or(0).max(1);
        let last = signs.len() as u64 - 1;
        let sign = |figure: u64| signs[(figure.saturating_mul(last)).div_ceil(most) as usize];
        figures.iter().map(|figure| sign(*figure)).collect()
    }

    fn ellipsis(self) -> &'static str {
        if self.ascii { "~" } else { "…" }
    }
}

pub(super) struct Canvas<'a> {
    pub(super) buffer: &'a mut Buffer,
    pub(super) look: Look,
}

impl Canvas<'_> {
    /// Writes words one after another into a line of an area, and returns the column behind them.
    pub(super) fn line(&mut self, area: Rect, line: u16, words: &[Cell]) -> u16 {
        let mut x = area.x;
        for word in words {
            let style = self.look.style(word.tone);
            x = self.write(area, line, x, &word.text, style);
        }
        x
    }

    /// Writes a text from a column on, and returns the column behind it. A text that does not fit is cut, and its end shows that.
    pub(super) fn write(&mut self, area: Rect, line: u16, x: u16, text: &str, style: Style) -> u16 {
        let area = area.intersection(self.buffer.area);
        let y = area.y.saturating_add(line);
        if y >= area.bottom() || x >= area.right() || x < area.x {
            return x;
        }
        let room = usize::from(area.right() - x);
        let (end, _) = self.buffer.set_stringn(x, y, text, room, style);
        if text.width() > room {
            self.buffer.set_stringn(area.right() - 1, y, self.look.ellipsis(), 1, style);
        }
        end
    }

    /// Changes how a line of an area looks.
    pub(super) fn paint(&mut self, area: Rect, line: u16, style: Style) {
        let row = Rect { y: area.y.saturating_add(line), height: 1, ..area };
        self.buffer.set_style(row.intersection(area), style);
    }

    /// A table with a line of names. The chosen row is always among those that are seen.
    pub(super) fn table(
        &mut self,
        area: Rect,
        columns: &[Column],
        (count, chosen): (usize, Option<usize>),
        row: impl Fn(usize) -> Vec<Cell>,
    ) {
        let seen = usize::from(area.height.saturating_sub(1));
        let first = chosen.unwrap_or(0).saturating_sub(seen / 2).min(count.saturating_sub(seen));
        let is_shown = |column: &&Column| area.width >= WIDE || !column.wide;
        let shown: Vec<_> = columns.iter().filter(is_shown).collect();
        let cells = |cells: Vec<Cell>| {
            columns.iter().zip(cells).filter(|(column, _)| is_shown(column)).map(|(_, cell)| cell).collect()
        };
        let rows: Vec<Vec<Cell>> = (first..count.min(first + seen)).map(|at| cells(row(at))).collect();
        let mut widths: Vec<_> = shown.iter().map(|column| column.head.width()).collect();
        for row in &rows {
            for (widest, cell) in widths.iter_mut().zip(row) {
                *widest = (*widest).max(cell.text.width());
            }
        }
        let head = self.look.style(Tone::Plain).add_modifier(Modifier::BOLD);
        let heads: Vec<_> = shown.iter().map(|column| Cell::new(column.head)).collect();
        self.row(area, 0, &shown, &widths, &heads, Some(head));
        for (at, cells) in rows.iter().enumerate() {
            let line = u16::try_from(at + 1).unwrap_or(u16::MAX);
            self.row(area, line, &shown, &widths, cells, None);
            if chosen == Some(first + at) {
                self.paint(area, line, Style::new().add_modifier(Modifier::REVERSED));
            }
        }
    }

    fn row(
        &mut self,
        area: Rect,
        line: u16,
        columns: &[&Column],
        widths: &[usize],
        cells: &[Cell],
        style: Option<Style>,
    ) {
        let mut x = usize::from(area.x) + 1;
        for (cell, (column, width)) in cells.iter().zip(columns.iter().zip(widths)) {
            let pad = if column.right { width.saturating_sub(cell.text.width()) } else { 0 };
            let style = style.unwrap_or_else(|| self.look.style(cell.tone));
            let at = u16::try_from(x + pad).unwrap_or(u16::MAX);
            self.write(area, line, at, &cell.text, style);
            x += width + GAP;
        }
    }

    /// An empty box with a title, in the middle of an area. Returns its inner part.
    pub(super) fn frame(&mut self, area: Rect, title: &str, width: u16, height: u16) -> Rect {
        let (width, height) = (width.min(area.width), height.min(area.height));
        let outer = Rect {
            x: area.x + (area.width - width) / 2,
            y: area.y + (area.height - height) / 2,
            width,
            height,
        };
        let (line, side, corners) = if self.look.ascii {
            ("-", "|", ["+", "+", "+", "+"])
        } else {
            ("─", "│", ["┌", "┐", "└", "┘"])
        };
        for y in 0..height {
            let row = " ".repeat(usize::from(width));
            self.write(outer, y, outer.x, &row, Style::reset());
            self.write(outer, y, outer.x, side, Style::new());
            self.write(outer, y, outer.right().saturating_sub(1), side, Style::new());
        }
        let edge = line.repeat(usize::from(width.saturating_sub(2)));
        for (y, [left, right]) in
            [(0, [corners[0], corners[1]]), (height.saturating_sub(1), [corners[2], corners[3]])]
        {
            self.write(outer, y, outer.x, &format!("{left}{edge}{right}"), Style::new());
        }
        let title = format!(" {title} ");
        let bold = Style::new().add_modifier(Modifier::BOLD);
        let top = Rect { width: width.saturating_sub(1), height: height.min(1), ..outer };
        self.write(top, 0, outer.x.saturating_add(1), &title, bold);
        Rect {
            x: outer.x.saturating_add(2),
            y: outer.y.saturating_add(1),
            width: width.saturating_sub(4),
            height: height.saturating_sub(2),
        }
    }
}

/// A text in lines of at most this width, broken between words where that is possible.
pub(super) fn wrapped(text: &str, width: u16) -> Vec<String> {
    let width = usize::from(width.max(1));
    let mut lines = Vec::new();
    for line in text.lines() {
        let indent = line.len() - line.trim_start().len();
        let mut now = " ".repeat(indent);
        let mut is_empty = true;
        for word in line.split_whitespace() {
            let gap = usize::from(!is_empty);
            if !is_empty && now.width() + gap + word.width() > width {
                lines.push(std::mem::replace(&mut now, " ".repeat((indent + 2).min(width / 2))));
                is_empty = true;
            }
            if !is_empty {
                now.push(' ');
            }
            now.push_str(word);
            is_empty = false;
        }
        lines.push(now);
    }
    lines
}

/// A number with a comma between thousands.
pub(super) fn number(n: u64) -> String {
    let digits = n.to_string();
    let mut shown = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            shown.push(',');
        }
        shown.push(digit);
    }
    shown
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_a_comma_between_thousands() {
        assert_eq!([0, 999, 1_000, 1_234_567].map(number), ["0", "999", "1,000", "1,234,567"]);
    }

    #[test]
    fn a_text_is_broken_between_words() {
        assert_eq!(wrapped("one two three\n  four five", 8), ["one two", "  three", "  four", "    five"]);
        assert_eq!(wrapped("", 0), Vec::<String>::new());
    }

    #[test]
    fn bars_and_curves_are_in_proportion() {
        let look = Look { colour: false, ascii: false };
        assert_eq!([0.0, 0.5, 0.53, 2.0].map(|part| look.bar(part, 4)), ["", "██", "██▏", "████"]);
        assert_eq!(look.curve(&[0, 1, 7]), "▁▂█");
        let ascii = Look { ascii: true, ..look };
        assert_eq!((ascii.bar(0.5, 4), ascii.curve(&[0, 5, 5])), ("##".to_owned(), "_##".to_owned()));
    }
}
