//! What is sent: a command, or a call of a script that the server may have to be told first.

use redis::Cmd;

use crate::{Call, Script};

/// One step of a pipeline.
#[derive(Clone, Debug)]
pub(crate) enum Request {
    Command(Cmd),
    Call(Call),
}

impl Request {
    pub(crate) fn command(&self) -> &Cmd {
        match self {
            Self::Command(command) => command,
            Self::Call(call) => call.command(),
        }
    }

    pub(crate) fn script(&self) -> Option<&Script> {
        match self {
            Self::Command(_) => None,
            Self::Call(call) => Some(call.script()),
        }
    }
}
