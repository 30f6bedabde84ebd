//! A job's key on the command line.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStringExt;

use clap::builder::TypedValueParser;
use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{Arg, Command, Error};
use tenure_pool::JobKey;

/// Takes any bytes that the shell can pass on.
#[derive(Clone, Debug)]
pub(crate) struct KeyArg;

impl TypedValueParser for KeyArg {
    type Value = JobKey;

    fn parse_ref(&self, cmd: &Command, arg: Option<&Arg>, value: &OsStr) -> Result<JobKey, Error> {
        self.parse(cmd, arg, value.to_owned())
    }

    fn parse(&self, cmd: &Command, arg: Option<&Arg>, value: OsString) -> Result<JobKey, Error> {
        let shown = value.to_string_lossy().into_owned();
        JobKey::new(value.into_vec()).map_err(|_| {
            let mut error = Error::new(ErrorKind::InvalidValue).with_cmd(cmd);
            if let Some(arg) = arg {
                error.insert(ContextKind::InvalidArg, ContextValue::String(arg.to_string()));
            }
            error.insert(ContextKind::InvalidValue, ContextValue::String(shown));
            error
        })
    }
}
