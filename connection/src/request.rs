//! A request: a command, and the script that the server may need before it.

use redis::Cmd;

use crate::{Call, Script};

#[derive(Clone, Copy)]
pub(crate) struct Request<'a> {
    pub(crate) command: &'a Cmd,
    pub(crate) script: Option<&'a Script>,
}

impl<'a> From<&'a Cmd> for Request<'a> {
    fn from(command: &'a Cmd) -> Self {
        Self { command, script: None }
    }
}

impl<'a> From<&'a Call> for Request<'a> {
    fn from(call: &'a Call) -> Self {
        Self { command: call.command(), script: Some(call.script()) }
    }
}
