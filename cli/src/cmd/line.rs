//! The command line as a whole.

#![allow(clippy::doc_markdown, reason = "these texts are the help")]

use clap::Parser;
use clap::builder::styling::{AnsiColor, Styles};

use super::Command;
use crate::args::Global;

const STYLES: Styles = Styles::styled()
    .header(AnsiColor::Green.on_default().bold())
    .usage(AnsiColor::Green.on_default().bold())
    .literal(AnsiColor::Cyan.on_default().bold())
    .placeholder(AnsiColor::Cyan.on_default());

/// Said below the help of the whole command.
const AFTER: &str = "\
Exit status: 0 done, 1 failed, 2 wrong usage, 3 not found, 4 refused, 5 no answer in time, 6 a finding, \
7 Redis unreachable or unsuitable, 8 some of many failed, 70 a node was lost, 78 a program cannot serve, 130 interrupted.";

/// See, explain and steer a Tenure pool.
///
/// Commands that look never write: a mistyped pool is an error, and makes no pool.
#[derive(Debug, Parser)]
#[command(name = "tenure", version, styles = STYLES, after_help = AFTER, max_term_width = 110)]
#[command(disable_help_subcommand = true, infer_subcommands = false)]
pub(crate) struct Cli {
    #[command(flatten)]
    pub(crate) global: Global,
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use clap::{Command, CommandFactory};

    use super::*;

    /// The texts of the standard library for a number that cannot be read, and that of the parser for its ranges.
    const FOREIGN: [&str; 6] =
        ["invalid digit", "empty string", "too large", "too small", "non-zero", " is not in "];

    /// The errors for wrong values of all options, of a command and of its subcommands.
    fn complaints(command: &Command, path: &[&str], seen: &mut Vec<(String, String)>) {
        for option in command.get_arguments().filter(|arg| arg.get_action().takes_values()) {
            let Some(long) = option.get_long() else { continue };
            for value in ["1x", "", "-1", "0", "99999999999999999999999"] {
                let value = format!("--{long}={value}");
                let args = std::iter::once("tenure").chain(path.iter().copied()).chain([&*value]);
                if let Err(error) = Cli::try_parse_from(args) {
                    seen.push((format!("{} {value}", path.join(" ")), error.to_string()));
                }
            }
        }
        for below in command.get_subcommands() {
            complaints(below, &[path, &[below.get_name()]].concat(), seen);
        }
    }

    #[test]
    fn a_wrong_number_is_told_in_our_words() {
        let mut seen = Vec::new();
        complaints(&Cli::command(), &[], &mut seen);
        for (line, error) in &seen {
            assert!(!FOREIGN.iter().any(|text| error.contains(text)), "{line}: {error}");
        }
        let of = |line: &str| &seen.iter().find(|(found, _)| found == line).unwrap().1;
        for (line, option, range) in [
            ("work --workers=0", "--workers <COUNT>", "from 1 to 65535"),
            ("work --max-jobs=0", "--max-jobs <COUNT>", "from 1 to 1000000"),
            ("host --nice=-1", "--nice <NUMBER>", "from 0 to 19"),
            ("dispatch --rate=1x", "--rate <COUNT>", "from 1 to 4294967295"),
            ("ls --limit=1x", "--limit <COUNT>", "from 0 to 18446744073709551615"),
        ] {
            let (option, range) = (format!("for '{option}'"), format!("it must be a whole number {range}"));
            assert!(of(line).contains(&option) && of(line).contains(&range), "{line}: {}", of(line));
        }
    }
}
