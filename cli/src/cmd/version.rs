//! `tenure version`.

use clap::Args;
use serde::Serialize;

use super::Session;
use crate::exit::{Code, Failure};

/// Print the version of this command, and the formats that it prints
#[derive(Args, Debug)]
pub(crate) struct Version {}

#[derive(Serialize)]
struct Shown {
    version: &'static str,
    json: u32,
}

pub(crate) fn run(session: &mut Session) -> Result<Code, Failure> {
    let shown = Shown { version: env!("CARGO_PKG_VERSION"), json: crate::out::VERSION };
    let text = format!("tenure {} (JSON version {})", shown.version, shown.json);
    session.out.one(&shown, text)?;
    Ok(Code::Done)
}
