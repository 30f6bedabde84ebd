//! The input: a CSV file of tenants, one job each.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::Path;

use csv::{ByteRecord, ReaderBuilder, StringRecord, Trim};
use serde::{Deserialize, Serialize};

/// The header that the file must have.
pub const COLUMNS: [&str; 4] = ["id", "name", "region", "symbol"];

/// The longest id, in bytes: as long as a job key may be.
pub const ID_MAX: usize = 512;

/// A tenant: its id is the key of its job, and the whole record is the payload.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Tenant {
    /// Unique in the file.
    pub id: String,
    /// The name, for people.
    pub name: String,
    /// The region.
    pub region: String,
    /// The symbol that its feed quotes.
    pub symbol: String,
}

/// The input cannot be used. Nothing has been started.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TenantsError {
    /// The file cannot be opened or read.
    #[error("{file}: cannot be read")]
    Read {
        /// The file.
        file: String,
        /// The reason.
        source: io::Error,
    },
    /// A line is wrong.
    #[error("{file}:{line}: {fault}")]
    Line {
        /// The file.
        file: String,
        /// The line, from 1.
        line: u64,
        /// The fault of the line.
        fault: LineFault,
    },
    /// The file has no tenants.
    #[error("{file}: has no tenants")]
    Empty {
        /// The file.
        file: String,
    },
}

/// A fault of a line.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum LineFault {
    /// The first line does not name the columns.
    #[error("the header must be {:?}, found {found:?}", COLUMNS.join(","))]
    Header {
        /// The first line.
        found: String,
    },
    /// Too few or too many fields.
    #[error("has {found} fields, expected {} ({})", COLUMNS.len(), COLUMNS.join(","))]
    Fields {
        /// The number of fields.
        found: usize,
    },
    /// The line is not UTF-8.
    #[error("is not UTF-8")]
    Encoding,
    /// The id is empty.
    #[error("the id is empty")]
    EmptyId,
    /// The id is longer than a job key may be.
    #[error("the id has {len} bytes, at most {ID_MAX} are allowed")]
    LongId {
        /// Its length, in bytes.
        len: usize,
    },
    /// An earlier line has the same id.
    #[error("the id {id:?} stands in line {first} already")]
    DuplicateId {
        /// The id.
        id: String,
        /// The earlier line.
        first: u64,
    },
}

/// Reads a file of tenants.
///
/// # Errors
/// The first fault of the file, with its line.
pub fn load(path: &Path) -> Result<Vec<Tenant>, TenantsError> {
    let file = path.display().to_string();
    match fs::read(path) {
        Ok(text) => read(&file, &text),
        Err(source) => Err(TenantsError::Read { file, source }),
    }
}

/// Reads tenants; `file` names the input in errors.
///
/// # Errors
/// The first fault of the input, with its line.
pub fn read(file: &str, text: &[u8]) -> Result<Vec<Tenant>, TenantsError> {
    let wrong = |line, fault| TenantsError::Line { file: file.to_owned(), line, fault };
    let mut reader = ReaderBuilder::new().has_headers(false).flexible(true).trim(Trim::All).from_reader(text);
    let mut record = ByteRecord::new();
    let mut lines = Lines { text, offset: 0, line: 1 };
    let mut lines_of_ids = BTreeMap::new();
    let mut tenants = Vec::new();
    let mut header_seen = false;
    while reader.read_byte_record(&mut record).map_err(|error| unreadable(file, error))? {
        let line = lines.of(&record);
        let fields =
            StringRecord::from_byte_record(record.clone()).map_err(|_| wrong(line, LineFault::Encoding))?;
        if !header_seen {
            if !fields.iter().eq(COLUMNS) {
                let found = fields.iter().collect::<Vec<_>>().join(",");
                return Err(wrong(line, LineFault::Header { found }));
            }
            header_seen = true;
            continue;
        }
        let tenant = parse(&fields).map_err(|fault| wrong(line, fault))?;
        if let Some(first) = lines_of_ids.insert(tenant.id.clone(), line) {
            return Err(wrong(line, LineFault::DuplicateId { id: tenant.id, first }));
        }
        tenants.push(tenant);
    }
    if tenants.is_empty() { Err(TenantsError::Empty { file: file.to_owned() }) } else { Ok(tenants) }
}

fn parse(fields: &StringRecord) -> Result<Tenant, LineFault> {
    let mut values = fields.iter().map(str::to_owned);
    let (Some(id), Some(name), Some(region), Some(symbol), None) =
        (values.next(), values.next(), values.next(), values.next(), values.next())
    else {
        return Err(LineFault::Fields { found: fields.len() });
    };
    match id.len() {
        0 => Err(LineFault::EmptyId),
        1..=ID_MAX => Ok(Tenant { id, name, region, symbol }),
        len => Err(LineFault::LongId { len }),
    }
}

fn unreadable(file: &str, error: csv::Error) -> TenantsError {
    TenantsError::Read { file: file.to_owned(), source: io::Error::other(error) }
}

/// The lines on which records begin. The reader's own count is before the blank lines that it skips.
struct Lines<'a> {
    text: &'a [u8],
    offset: usize,
    line: u64,
}

impl Lines<'_> {
    /// The line on which this record begins. Ask for records in their order.
    fn of(&mut self, record: &ByteRecord) -> u64 {
        let start = record.position().map_or(self.offset, |at| at.byte() as usize).min(self.text.len());
        let blank = self.text[start..].iter().take_while(|b| matches!(b, b'\r' | b'\n')).count();
        for &byte in &self.text[self.offset..start + blank] {
            self.line += u64::from(byte == b'\n');
        }
        self.offset = start + blank;
        self.line
    }
}
