//! Why a step has no answer: the class of the error, and the error itself.

use std::error::Error;
use std::fmt;
use std::ops::Deref;
use std::sync::Arc;

/// The meaning of an error for the caller: whether waiting helps, or a person has to mend something, and whether the command
/// may have been executed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Class {
    /// The URL, a setting or the call cannot be meant. Nothing was sent.
    Config,
    /// The server did not answer within the time for a connection, and no cause is known. The command was not sent.
    Silent,
    /// No connection can be made, and the error names the cause: an unknown name, a port where nobody listens, TLS on one
    /// side only, a server without room for more clients. The cause may pass. The command was not sent.
    Unreachable,
    /// Client and server do not fit together: the password is wrong, a certificate is refused, or the URL names a cluster or a
    /// sentinel and the server is none. The command was not sent.
    Refused,
    /// The user lacks a right for the command, or for a command inside the script. Earlier writes of the script stay.
    Forbidden,
    /// The server cannot execute the command now: the server loads data, is a replica, lacks replicas, is busy with a
    /// script, or loses its scripts. The command was not executed, and may be sent again.
    NotNow,
    /// The server's memory is full. The command was not executed, and may be sent again.
    Full,
    /// There is no answer. The command may have been executed, or may be executed later.
    Unanswered,
    /// The client expects another server process. The command was not sent.
    OtherServer,
    /// The command failed on what is stored: a script raised an error, or a key holds a value of another type.
    Raised,
    /// The server refuses the call for good: repeating the call changes nothing.
    Unusable,
}

/// The error of a step that has no answer, with its class if a server or the way there gave the error. Clones share
/// the error.
///
/// ```
/// use tenure_steps::{Failure, Class};
///
/// let full = Failure::of(Class::Full, std::io::Error::other("the memory is full"));
/// assert_eq!((full.class(), full.to_string().as_str()), (Some(Class::Full), "the memory is full"));
/// assert!(full.is::<std::io::Error>() && Failure::new(std::fmt::Error).class().is_none());
/// ```
#[derive(Clone)]
pub struct Failure {
    class: Option<Class>,
    error: Arc<dyn Error + Send + Sync>,
}

impl Failure {
    /// An error without a class.
    pub fn new(error: impl Error + Send + Sync + 'static) -> Self {
        Self { class: None, error: Arc::new(error) }
    }

    /// An error of a class.
    pub fn of(class: Class, error: impl Error + Send + Sync + 'static) -> Self {
        Self { class: Some(class), ..Self::new(error) }
    }

    /// The class of the error. `None` for an error that neither a server nor the way there gave.
    pub fn class(&self) -> Option<Class> {
        self.class
    }
}

impl Deref for Failure {
    type Target = dyn Error + Send + Sync;

    fn deref(&self) -> &Self::Target {
        &*self.error
    }
}

impl fmt::Debug for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.error, f)
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.error, f)
    }
}
