//! Many commands at once, each with its own result.

use std::fmt;

use redis::{Cmd, Value};

use crate::connection::Connection;
use crate::request::Request;
use crate::{Call, Error};

/// Commands and calls of scripts that are sent together, in one write to each server that they concern.
///
/// It is no transaction: each command takes effect, or fails, by itself. Redis executes them in the order in which they
/// were added. Two kinds come after the rest: a call of a script that the server did not know, and a command whose
/// cluster slot has moved. Two commands of one pipeline should not depend on each other.
#[derive(Clone)]
pub struct Pipeline {
    connection: Connection,
    steps: Vec<Step>,
}

#[derive(Clone)]
enum Step {
    Command(Cmd),
    Call(Call),
}

impl Pipeline {
    pub(crate) fn new(connection: Connection) -> Self {
        Self { connection, steps: Vec::new() }
    }

    /// Appends a command.
    pub fn command(&mut self, command: Cmd) -> &mut Self {
        self.steps.push(Step::Command(command));
        self
    }

    /// Appends a call of a script.
    pub fn call(&mut self, call: Call) -> &mut Self {
        self.steps.push(Step::Call(call));
        self
    }

    /// The number of commands and calls.
    pub fn len(&self) -> usize {
        self.steps.len()
    }

    /// Whether it has no commands and no calls.
    pub fn is_empty(&self) -> bool {
        self.steps.is_empty()
    }

    /// Sends all and returns their results, in the order in which they were added. The connection's deadline holds for
    /// all together. The pipeline may be sent again.
    ///
    /// # Errors
    /// Each result has its own [`Error`], of every class. If the connection breaks or the deadline passes, every
    /// command of that server without a full answer gets that error: any of them may have been executed.
    ///
    /// # Cancel safety
    /// As [`Connection::command`].
    pub async fn send(&self) -> Vec<Result<Value, Error>> {
        let requests: Vec<Request<'_>> = self
            .steps
            .iter()
            .map(|step| match step {
                Step::Command(command) => command.into(),
                Step::Call(call) => call.into(),
            })
            .collect();
        self.connection.send_all(&requests).await
    }
}

impl fmt::Debug for Pipeline {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Pipeline").field("len", &self.len()).finish_non_exhaustive()
    }
}
