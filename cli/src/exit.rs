//! How the command ends: its exit status, and the error that it prints.

use std::fmt;
use std::io::{self, ErrorKind};
use std::process::ExitCode;

use serde_json::json;
use tenure_pool::error::{IdError, NotHandled};
use tenure_pool::{AskError, DispatchError, Error};

use crate::journal;

/// The exit status. Programs rely on the numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Code {
    /// It was done.
    Done = 0,
    /// It was tried, and failed.
    Failed = 1,
    /// The command line, or a file that it names, is wrong. Nothing was tried.
    Usage = 2,
    /// There is no such pool, job, worker, node or context.
    NotFound = 3,
    /// The pool refused: the job exists, the queue is full, the job is parked, and so on. Nothing was changed.
    Refused = 4,
    /// The time was up. It may still happen.
    Late = 5,
    /// It looked, and found what it was to look for.
    Finding = 6,
    /// Redis does not answer, refuses, or cannot be used.
    Redis = 7,
    /// Some of many failed. The others were done.
    SomeFailed = 8,
    /// A program that the command runs cannot serve, and would not the next time.
    Unfit = 78,
    /// Ctrl-C ended the wait. The act itself goes on.
    Interrupted = 130,
}

impl Code {
    /// Its name in JSON.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Done => "done",
            Self::Failed => "failed",
            Self::Usage => "usage",
            Self::NotFound => "not_found",
            Self::Refused => "refused",
            Self::Late => "late",
            Self::Finding => "finding",
            Self::Redis => "redis",
            Self::SomeFailed => "some_failed",
            Self::Unfit => "unfit",
            Self::Interrupted => "interrupted",
        }
    }
}

impl From<Code> for ExitCode {
    fn from(code: Code) -> Self {
        Self::from(code as u8)
    }
}

/// Why a command did not do what it was asked.
#[derive(Debug)]
pub(crate) struct Failure {
    pub(crate) code: Code,
    text: String,
    /// Nobody reads the output any more. That is no failure, and nobody is told.
    unread: bool,
}

impl Failure {
    pub(crate) fn new(code: Code, text: impl Into<String>) -> Self {
        Self { code, text: text.into(), unread: false }
    }

    /// The same failure as one of the command line.
    pub(crate) fn of_usage(self) -> Self {
        Self { code: Code::Usage, ..self }
    }

    /// One of Redis names the server, by this URL.
    pub(crate) fn of_server(self, url: &str) -> Self {
        match self.code {
            Code::Redis => {
                Self { text: format!("{}. The server is {url}", self.text.trim_end_matches('.')), ..self }
            }
            _ => self,
        }
    }

    /// The command line is wrong.
    pub(crate) fn usage(text: impl Into<String>) -> Self {
        Self::new(Code::Usage, text)
    }

    /// Nobody can be served at a place, for this reason. A busy address may be free at the next attempt, so a supervisor should try
    /// again.
    pub(crate) fn of_place(place: impl fmt::Display, error: &io::Error) -> Self {
        let may_pass = matches!(error.kind(), ErrorKind::AddrInUse | ErrorKind::AddrNotAvailable);
        let code = if may_pass { Code::Failed } else { Code::Usage };
        Self::new(code, format!("nobody can be served at {place}: {error}"))
    }

    /// Prints the failure, for programs `as_json`, and returns the exit status.
    pub(crate) fn report(&self, as_json: bool) -> Code {
        if self.unread {
            return Code::Done;
        }
        let (code, name, text) = (self.code as u8, self.code.name(), &self.text);
        if as_json {
            journal::tell(json!({"v": 1, "error": {"code": code, "name": name, "text": text}}));
        } else {
            journal::tell(format_args!("tenure: {text}"));
        }
        self.code
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl From<io::Error> for Failure {
    /// A failed write of the output.
    fn from(error: io::Error) -> Self {
        let unread = error.kind() == ErrorKind::BrokenPipe;
        Self { unread, ..Self::new(Code::Failed, format!("the output cannot be written: {error}")) }
    }
}

impl From<IdError> for Failure {
    fn from(error: IdError) -> Self {
        Self::usage(error.to_string())
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        let forbidden = matches!(&error, Error::Store(store) if store.is_forbidden());
        Self::new(code_of(&error), with_hint(error.to_string(), forbidden))
    }
}

impl From<DispatchError> for Failure {
    fn from(error: DispatchError) -> Self {
        let forbidden = matches!(&error, DispatchError::Store(store) if store.is_forbidden());
        Self::new(code_of_dispatch(&error), with_hint(error.to_string(), forbidden))
    }
}

impl From<AskError> for Failure {
    fn from(error: AskError) -> Self {
        let code = match &error {
            AskError::NotHandled(NotHandled::NoJob) => Code::NotFound,
            AskError::NotHandled(NotHandled::Late) | AskError::Unknown { .. } => Code::Late,
            AskError::NotHandled(_) | AskError::Refused(_) => Code::Refused,
            AskError::Failed(error) => code_of(error),
            _ => Code::Failed,
        };
        let forbidden = matches!(&error, AskError::Failed(Error::Store(store)) if store.is_forbidden());
        Self::new(code, with_hint(error.to_string(), forbidden))
    }
}

/// An error of a missing right, with the way to the right.
fn with_hint(text: String, forbidden: bool) -> String {
    if !forbidden {
        return text;
    }
    format!(
        "{}. The user of Redis lacks a right: `tenure doctor` names the right",
        text.trim_end_matches('.')
    )
}

fn code_of(error: &Error) -> Code {
    match error {
        Error::Name(_) | Error::Setting(_) | Error::TooLong { .. } | Error::Encode { .. } => Code::Usage,
        Error::NoPool { .. } | Error::PoolClosed | Error::JobNotFound(_) | Error::WorkerNotFound(_) => {
            Code::NotFound
        }
        Error::SettingMismatch { .. }
        | Error::TooOld(_)
        | Error::MemberBelow { .. }
        | Error::OtherShards { .. }
        | Error::FixedSetting { .. }
        | Error::LoweredSetting { .. }
        | Error::OutOfTokens
        | Error::NotParked(_)
        | Error::Parked(_)
        | Error::Paused(_)
        | Error::NotWaiting(_)
        | Error::WrongStart { .. }
        | Error::OtherGeneration { .. }
        | Error::NotifyFull(_)
        | Error::ScheduleEnded
        | Error::ShuttingDown
        | Error::ClientOnly
        | Error::StaleCursor
        | Error::Renumbered(_) => Code::Refused,
        Error::NotStarted(error) => code_of_dispatch(error),
        Error::NotJoined { last: Some(_), .. } | Error::Store(_) => Code::Redis,
        Error::NotJoined { .. }
        | Error::StillStopping { .. }
        | Error::Deadline { .. }
        | Error::UpdateInDoubt(_) => Code::Late,
        _ => Code::Failed,
    }
}

fn code_of_dispatch(error: &DispatchError) -> Code {
    match error {
        DispatchError::Key(_)
        | DispatchError::PayloadTooLong { .. }
        | DispatchError::Option(_)
        | DispatchError::Encode { .. } => Code::Usage,
        DispatchError::Unknown => Code::NotFound,
        DispatchError::JobExists { .. }
        | DispatchError::PoolFull
        | DispatchError::OutOfTokens
        | DispatchError::TooOld(_)
        | DispatchError::Conflict
        | DispatchError::Parked
        | DispatchError::Paused
        | DispatchError::ShuttingDown => Code::Refused,
        DispatchError::Deadline { .. } => Code::Late,
        DispatchError::Store(_) => Code::Redis,
        _ => Code::Failed,
    }
}

#[cfg(test)]
mod tests {
    use tenure_pool::error::StoreError;

    use super::*;

    #[test]
    fn each_error_of_a_missing_right_names_the_doctor() {
        let (code, detail) = ("NOPERM".into(), "User u has no permissions to run the 'xadd' command".into());
        let error = tenure_connection::Error::Server { code, detail };
        let forbidden = StoreError::Unusable(tenure_connection::Failure::of(error.class(), error));
        let failures = [
            Failure::from(Error::Store(forbidden.clone())),
            Failure::from(DispatchError::Store(forbidden.clone())),
            Failure::from(AskError::Failed(Error::Store(forbidden))),
        ];
        for failure in failures {
            assert_eq!(failure.code, Code::Redis, "{failure}");
            assert!(failure.text.contains("'xadd'") && failure.text.contains("`tenure doctor`"), "{failure}");
        }
    }
}
