//! `tenure man`.

use std::fs;
use std::path::{Path, PathBuf};

use clap::{Args, CommandFactory};

use super::Cli;
use super::Session;
use crate::exit::{Code, Failure};

/// Print the manual page, or write all pages into a folder
#[derive(Args, Debug)]
pub(crate) struct Man {
    /// Write the pages of all commands there
    #[arg(long, value_name = "FOLDER")]
    into: Option<PathBuf>,
}

impl Man {
    pub(crate) fn run(self, session: &mut Session) -> Result<Code, Failure> {
        let command = Cli::command();
        let Some(folder) = self.into else {
            clap_mangen::Man::new(command).render(&mut session.out)?;
            return Ok(Code::Done);
        };
        fs::create_dir_all(&folder).map_err(|error| unwritable(&folder, &error))?;
        clap_mangen::generate_to(command, &folder).map_err(|error| unwritable(&folder, &error))?;
        Ok(Code::Done)
    }
}

fn unwritable(folder: &Path, error: &std::io::Error) -> Failure {
    Failure::new(Code::Failed, format!("{} cannot be written: {error}", folder.display()))
}
