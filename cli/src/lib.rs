#![doc = include_str!("../README.md")]
// They panic when nobody reads them any more: see `journal`.
#![cfg_attr(not(test), warn(clippy::print_stdout, clippy::print_stderr))]
// The last lines would be lost: `journal` ends the process.
#![warn(clippy::exit)]

mod act;
mod args;
mod cmd;
mod connect;
mod exit;
mod host;
mod http;
mod journal;
mod out;
mod probes;
mod serve;
mod signals;
mod socket;
mod top;
mod turn;
mod view;
mod work;

use std::process::ExitCode;

use clap::Parser;

use crate::exit::Code;

/// Runs the command that the process was called with.
pub fn main() -> ExitCode {
    let _journal = journal::Ends;
    if let Some(code) = work::part(std::env::args_os()) {
        return code;
    }
    let cli = match cmd::Cli::try_parse() {
        Ok(cli) => cli,
        Err(help) => {
            // Nobody may listen any more.
            let _ = help.print();
            return if help.use_stderr() { Code::Usage } else { Code::Done }.into();
        }
    };
    let cmd::Cli { global, command } = cli;
    let output = global.output;
    match command.run(global) {
        Ok(code) => code.into(),
        Err(failure) => failure.report(output.is_json()).into(),
    }
}
