//! A table in plain text: aligned columns, no lines. On a terminal each row stays in its line.

use std::io::{self, Write};

use anstyle::{AnsiColor, Style};
use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};

/// A column.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Column {
    pub(crate) head: &'static str,
    /// It is shown only in wide tables.
    pub(crate) wide: bool,
    /// It is aligned to the right.
    pub(crate) right: bool,
}

impl Column {
    pub(crate) const fn new(head: &'static str) -> Self {
        Self { head, wide: false, right: false }
    }

    /// Of numbers.
    pub(crate) const fn right(self) -> Self {
        Self { right: true, ..self }
    }

    /// In wide tables only.
    pub(crate) const fn wide(self) -> Self {
        Self { wide: true, ..self }
    }
}

/// How a cell looks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Tone {
    #[default]
    Plain,
    Good,
    Warn,
    Bad,
    Dim,
}

impl Tone {
    pub(crate) fn style(self) -> Style {
        match self {
            Self::Plain => Style::new(),
            Self::Good => AnsiColor::Green.on_default(),
            Self::Warn => AnsiColor::Yellow.on_default(),
            Self::Bad => AnsiColor::Red.on_default(),
            Self::Dim => Style::new().dimmed(),
        }
    }
}

/// A cell.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Cell {
    pub(crate) text: String,
    pub(crate) tone: Tone,
}

impl Cell {
    pub(crate) fn new(text: impl Into<String>) -> Self {
        Self { text: text.into(), tone: Tone::Plain }
    }

    /// A number, or what else can be displayed.
    #[allow(clippy::needless_pass_by_value, reason = "most values are numbers")]
    pub(crate) fn of(value: impl ToString) -> Self {
        Self::new(value.to_string())
    }

    /// `-` for nothing.
    pub(crate) fn maybe(value: Option<impl ToString>) -> Self {
        value.map_or_else(|| Self::new("-").tone(Tone::Dim), Self::of)
    }

    pub(crate) fn tone(self, tone: Tone) -> Self {
        Self { tone, ..self }
    }
}

/// Between two columns.
const GAP: usize = 2;

/// Prints a table. With a width, no row is wider: its last columns are cut.
pub(crate) fn print(
    to: &mut impl Write,
    columns: &[Column],
    rows: &[Vec<Cell>],
    width: Option<usize>,
    colour: bool,
) -> io::Result<()> {
    let mut widths: Vec<_> = columns.iter().map(|column| column.head.width()).collect();
    for row in rows {
        for (widest, cell) in widths.iter_mut().zip(row) {
            *widest = (*widest).max(cell.text.width());
        }
    }
    let heads = columns.iter().map(|column| Cell::new(column.head)).collect::<Vec<_>>();
    for row in std::iter::once(&heads).chain(rows) {
        line(to, columns, &widths, row, width, colour)?;
    }
    Ok(())
}

fn line(
    to: &mut impl Write,
    columns: &[Column],
    widths: &[usize],
    row: &[Cell],
    width: Option<usize>,
    colour: bool,
) -> io::Result<()> {
    let mut left = width.unwrap_or(usize::MAX);
    for (at, (cell, (column, wide))) in row.iter().zip(columns.iter().zip(widths)).enumerate() {
        let is_last = at + 1 == row.len();
        let text = cut(&cell.text, left);
        let pad = wide.min(&left).saturating_sub(text.width());
        let style = if colour { cell.tone.style() } else { Style::new() };
        let (before, after) = if column.right { (pad, 0) } else { (0, pad) };
        let after = if is_last { 0 } else { after };
        write!(to, "{:before$}{style}{text}{style:#}{:after$}", "", "")?;
        left = left.saturating_sub(wide + GAP);
        if is_last || left == 0 {
            break;
        }
        write!(to, "{:GAP$}", "")?;
    }
    writeln!(to)
}

/// The beginning of a text that is at most this wide. A cut text ends with `…`.
fn cut(text: &str, width: usize) -> String {
    if text.width() <= width {
        return text.to_owned();
    }
    let mut cut = String::new();
    let mut used = 1;
    for c in text.chars() {
        used += c.width().unwrap_or(0);
        if used > width {
            break;
        }
        cut.push(c);
    }
    if width > 0 {
        cut.push('…');
    }
    cut
}

#[cfg(test)]
mod tests {
    use super::*;

    const COLUMNS: [Column; 3] = [Column::new("KEY"), Column::new("JOBS").right(), Column::new("WHY")];

    fn table(width: Option<usize>, colour: bool) -> String {
        let row =
            |key: &str, jobs, why: &str| vec![Cell::new(key), Cell::of(jobs).tone(Tone::Bad), Cell::new(why)];
        let rows = [row("acme", 7, "a long reason"), row("日本", 1_200, "-")];
        let mut to = Vec::new();
        let printed = print(&mut to, &COLUMNS, &rows, width, colour);
        assert!(printed.is_ok());
        String::from_utf8_lossy(&to).into_owned()
    }

    #[test]
    fn columns_are_aligned_by_their_width_on_a_screen() {
        assert_eq!(table(None, false), "KEY   JOBS  WHY\nacme     7  a long reason\n日本  1200  -\n");
    }

    #[test]
    fn on_a_terminal_no_row_is_wider_than_it() {
        assert_eq!(table(Some(18), false), "KEY   JOBS  WHY\nacme     7  a lon…\n日本  1200  -\n");
        assert!(table(Some(5), false).lines().all(|line| line.width() <= 5));
    }

    #[test]
    fn colour_is_only_there_if_it_is_wanted() {
        assert!(table(None, true).contains("\u{1b}[31m7\u{1b}[0m"));
        assert!(!table(None, false).contains('\u{1b}'));
    }
}
