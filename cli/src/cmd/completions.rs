//! `tenure completions`.

use clap::{Args, CommandFactory};
use clap_complete::Shell;

use super::Cli;
use super::Session;
use crate::exit::{Code, Failure};

/// Print the completions of a shell
#[derive(Args, Debug)]
pub(crate) struct Completions {
    /// The shell
    #[arg(value_enum)]
    shell: Shell,
}

impl Completions {
    pub(crate) fn run(self, session: &mut Session) -> Result<Code, Failure> {
        // The generator panics when a write fails.
        let mut text = Vec::new();
        clap_complete::generate(self.shell, &mut Cli::command(), "tenure", &mut text);
        std::io::Write::write_all(&mut session.out, &text)?;
        Ok(Code::Done)
    }
}
