//! The options of commands that change something.

use std::io::{self, BufRead, IsTerminal, Write};

use clap::Args;

use crate::exit::Failure;

/// Whether a change is made, and whether somebody is asked first.
#[derive(Args, Clone, Copy, Debug)]
pub(crate) struct Steer {
    /// Say what would be done, and change nothing
    #[arg(long)]
    pub(crate) dry_run: bool,
    /// Do not ask. Needed where no terminal can be asked
    #[arg(short, long)]
    pub(crate) yes: bool,
}

impl Steer {
    /// Has this word typed, on the terminal: for what cannot be taken back.
    ///
    /// # Errors
    /// Another word is typed, or there is nobody to ask.
    pub(crate) fn type_out(self, question: &str, word: &str) -> Result<(), Failure> {
        self.answered(question, |answer| answer == word, &format!("type {word}"))
    }

    /// Asks for a yes, on the terminal.
    ///
    /// # Errors
    /// The answer is another one, or there is nobody to ask.
    pub(crate) fn confirm(self, question: &str) -> Result<(), Failure> {
        self.answered(question, |answer| matches!(answer, "y" | "yes"), "y/N")
    }

    fn answered(self, question: &str, is_yes: impl Fn(&str) -> bool, hint: &str) -> Result<(), Failure> {
        if self.yes {
            return Ok(());
        }
        if !(io::stdin().is_terminal() && io::stderr().is_terminal()) {
            return Err(Failure::usage(format!("{question} Say --yes, as there is no terminal to ask")));
        }
        write!(io::stderr(), "{question} [{hint}] ")?;
        let mut answer = String::new();
        io::stdin().lock().read_line(&mut answer)?;
        if is_yes(answer.trim()) { Ok(()) } else { Err(Failure::usage("nothing was done")) }
    }
}
