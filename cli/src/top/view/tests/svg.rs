//! A buffer as a picture in SVG.

use std::fmt::Write;

use ratatui::buffer::{Buffer, Cell};
use ratatui::style::{Color, Modifier};
use unicode_width::UnicodeWidthStr;

/// The size of a sign, in units of the picture.
const WIDTH: u16 = 9;
const HEIGHT: u16 = 19;
/// Around the screen.
const MARGIN: u16 = 12;
const PAPER: &str = "#14181d";
const INK: &str = "#d7dde4";

fn colour(colour: Color) -> &'static str {
    match colour {
        Color::Green => "#7fd88f",
        Color::Yellow => "#e8c268",
        Color::Red => "#f07f7f",
        _ => INK,
    }
}

/// The look of a cell.
fn look(cell: &Cell) -> (&'static str, Modifier) {
    (colour(cell.fg), cell.modifier & (Modifier::BOLD | Modifier::DIM | Modifier::REVERSED))
}

/// The picture: a text for each word of a run of cells that look alike.
pub(super) fn of(buffer: &Buffer) -> String {
    let (columns, lines) = (buffer.area.width, buffer.area.height);
    let (width, height) = (columns * WIDTH + 2 * MARGIN, lines * HEIGHT + 2 * MARGIN);
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {height}\" role=\"img\" \
         aria-label=\"tenure top: workers, their jobs and the last events of a pool\">\n\
         <rect width=\"{width}\" height=\"{height}\" rx=\"8\" fill=\"{PAPER}\"/>\n\
         <g font-family=\"ui-monospace,SFMono-Regular,Menlo,Consolas,'DejaVu Sans Mono',monospace\" font-size=\"15\">\n"
    );
    for y in 0..lines {
        let mut x = 0;
        while x < columns {
            let (start, now) = (x, look(&buffer[(x, y)]));
            let mut text = String::new();
            while x < columns && look(&buffer[(x, y)]) == now {
                let symbol = buffer[(x, y)].symbol();
                text.push_str(symbol);
                x += (symbol.width() as u16).max(1);
            }
            run(&mut svg, (start, y, x - start), &text, now);
        }
    }
    svg.push_str("</g>\n</svg>\n");
    svg
}

fn run(svg: &mut String, (x, y, cells): (u16, u16, u16), text: &str, (ink, modifier): (&str, Modifier)) {
    let is_reversed = modifier.contains(Modifier::REVERSED);
    let (left, top) = (MARGIN + x * WIDTH, MARGIN + y * HEIGHT);
    if is_reversed {
        let wide = cells * WIDTH;
        let _ = writeln!(
            svg,
            "<rect x=\"{left}\" y=\"{top}\" width=\"{wide}\" height=\"{HEIGHT}\" fill=\"{ink}\"/>"
        );
    }
    let bold = if modifier.contains(Modifier::BOLD) { " font-weight=\"bold\"" } else { "" };
    let dim = if modifier.contains(Modifier::DIM) { " opacity=\"0.55\"" } else { "" };
    let fill = if is_reversed { PAPER } else { ink };
    let base = top + 14;
    // Spaces in a row are one in a picture, so that each word has its own place.
    let mut at = 0;
    for word in text.split(' ') {
        let wide = word.width() as u16;
        if wide > 0 {
            let (left, length) = (left + at * WIDTH, wide * WIDTH);
            let word = word.replace('&', "&amp;").replace('<', "&lt;");
            let _ = writeln!(
                svg,
                "<text x=\"{left}\" y=\"{base}\" fill=\"{fill}\" textLength=\"{length}\" \
                 lengthAdjust=\"spacingAndGlyphs\"{bold}{dim}>{word}</text>"
            );
        }
        at += wide + 1;
    }
}
