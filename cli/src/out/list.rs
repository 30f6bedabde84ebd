//! Lists: rows of one kind, in every format.

use std::io::{self, Write};

use serde::Serialize;

use super::table::{Cell, Column, print};
use super::{Document, Format, Out, VERSION};

/// A row of a list. Its serialized form is a flat struct that always has all its fields.
pub(crate) trait Row: Serialize {
    /// The name of the list in JSON.
    const KIND: &'static str;
    /// The columns of its table.
    const COLUMNS: &'static [Column];

    /// The cells of all columns.
    fn cells(&self, utc: bool) -> Vec<Cell>;

    /// The name that other commands take.
    fn name(&self) -> String;
}

/// A list that is printed row by row, as far as its format can: a table is printed at its end.
pub(crate) struct List<'a, R: Row> {
    out: &'a mut Out,
    rows: Vec<Vec<Cell>>,
    count: usize,
    kind: std::marker::PhantomData<R>,
}

impl<'a, R: Row> List<'a, R> {
    /// Begins the list.
    pub(crate) fn new(out: &'a mut Out) -> io::Result<Self> {
        if out.format == Format::Json {
            write!(out.to, "{{\"v\":{VERSION},\"kind\":\"{}\",\"items\":[", R::KIND)?;
        }
        Ok(Self { out, rows: Vec::new(), count: 0, kind: std::marker::PhantomData })
    }

    /// A list of which `count` rows are printed already, line by line.
    pub(crate) fn go_on(out: &'a mut Out, count: usize) -> Self {
        Self { out, rows: Vec::new(), count, kind: std::marker::PhantomData }
    }

    /// Prints a whole list.
    pub(crate) fn print(out: &'a mut Out, rows: impl IntoIterator<Item = R>) -> io::Result<()> {
        let mut list = Self::new(out)?;
        for row in rows {
            list.row(&row)?;
        }
        list.end()
    }

    /// Prints a row, or keeps its cells for the table.
    pub(crate) fn row(&mut self, row: &R) -> io::Result<()> {
        self.count += 1;
        let Out { format, utc, to, .. } = &mut *self.out;
        match format {
            Format::Table | Format::Wide => {
                let wide = *format == Format::Wide;
                let shown = R::COLUMNS.iter().zip(row.cells(*utc));
                let shown = shown.filter(|(column, _)| wide || !column.wide).map(|(_, cell)| cell);
                self.rows.push(shown.collect());
            }
            Format::Json => {
                to.write_all(if self.count == 1 { b"\n" } else { b",\n" })?;
                serde_json::to_writer(to, row)?;
            }
            Format::Jsonl => {
                serde_json::to_writer(&mut *to, &Document::of(row))?;
                to.write_all(b"\n")?;
            }
            Format::Csv => {
                // A writer of its own for each row, because a flush of it would flush the output.
                let mut csv = csv::WriterBuilder::new().has_headers(self.count == 1).from_writer(Vec::new());
                csv.serialize(row).map_err(io::Error::other)?;
                to.write_all(&csv.into_inner().map_err(|error| io::Error::other(error.to_string()))?)?;
            }
            Format::Name => writeln!(to, "{}", row.name())?,
        }
        Ok(())
    }

    /// Ends the list: prints the table.
    pub(crate) fn end(self) -> io::Result<()> {
        let Out { format, colour, width, to, .. } = self.out;
        match format {
            Format::Table | Format::Wide => {
                let wide = *format == Format::Wide;
                let columns: Vec<_> =
                    R::COLUMNS.iter().copied().filter(|column| wide || !column.wide).collect();
                print(to, &columns, &self.rows, *width, *colour)?;
            }
            Format::Json => writeln!(to, "{}]}}", if self.count == 0 { "" } else { "\n" })?,
            Format::Jsonl | Format::Csv | Format::Name => {}
        }
        to.flush()
    }
}
