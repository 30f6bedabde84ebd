//! One error for all roles. Its variants are what a caller branches on: was the command sent, was it applied, may it be
//! sent again.

use std::fmt;
use std::io;
use std::time::Duration;

use redis::{ErrorKind, RedisError, ServerError, Value};
use tokio_rustls::rustls;

/// The reason why a call to Redis did not return its reply.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Error {
    /// The URL or a setting is unusable. Nothing was sent.
    Config {
        /// The reason.
        what: &'static str,
        /// The cause, for a file or a certificate that cannot be used.
        source: Option<RedisError>,
    },
    /// Redis refused the user, the password or the permission. Nothing was applied.
    Auth(RedisError),
    /// The server's certificate is not trusted, for its name or at this time. Nothing was sent.
    Certificate(RedisError),
    /// The server refuses this client's certificate, or wants one. The command was not sent.
    ClientCertificate(RedisError),
    /// Redis refused to open the connection, and time does not mend the cause: the URL names a cluster and the server is
    /// none, or the server lacks the database. The command was not sent.
    Unsuitable {
        /// The first word of the answer, such as `ERR`.
        code: Box<str>,
        /// The rest of the answer.
        detail: Box<str>,
    },
    /// No connection could be made within the deadline. The command was not sent.
    Unreachable(RedisError),
    /// The connection broke after the command was handed to it. The command may have been executed.
    Lost(RedisError),
    /// No reply within the deadline. The command may have been executed, or may be executed later.
    TimedOut(Duration),
    /// Redis answered with an error.
    ///
    /// The command was not applied, with one exception: a script that raises after its first write keeps that write.
    Server {
        /// The first word of the answer, such as `NOGROUP`.
        code: Box<str>,
        /// The rest of the answer.
        detail: Box<str>,
    },
    /// The [`Admission`](crate::Admission) refused the server at the other end. The command was not sent.
    OtherServer {
        /// The [`identity`](crate::ServerInfo::identity) of the server at the other end: its run id, and its last
        /// promotion, if there was any.
        run_id: Box<str>,
    },
    /// The reply has a shape that the command never returns. The command was executed.
    Reply {
        /// The expected kind of reply.
        expected: &'static str,
    },
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Config { what, .. } => write!(f, "{what}, nothing was sent"),
            Self::Auth(_) => {
                f.write_str("redis refused the credentials or the permission, nothing was applied")
            }
            Self::Certificate(_) => f.write_str("the server's certificate is refused, nothing was sent"),
            Self::ClientCertificate(_) => {
                f.write_str("the server refuses this client's certificate, or wants one, nothing was sent")
            }
            Self::Unsuitable { code, detail } => {
                write!(f, "redis refused the connection with {code}: {detail}, nothing was sent")
            }
            Self::Unreachable(_) => f.write_str("redis cannot be reached, the command was not sent"),
            Self::Lost(_) => f.write_str("the connection broke, the command may have been executed"),
            Self::TimedOut(within) => {
                write!(f, "no reply within {within:?}, the command may have been executed")
            }
            Self::Server { code, detail } => write!(f, "redis answered {code}: {detail}"),
            Self::OtherServer { run_id } => {
                write!(f, "the server with run id {run_id} is not admitted, the command was not sent")
            }
            Self::Reply { expected } => write!(f, "the reply is not {expected}, the command was executed"),
        }
    }
}

impl std::error::Error for Error {
    /// An error of the `redis` crate has the same text as its source, if it has one: the chain holds the source.
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        let cause = match self {
            Self::Config { source, .. } => source.as_ref()?,
            Self::Auth(cause)
            | Self::Certificate(cause)
            | Self::ClientCertificate(cause)
            | Self::Unreachable(cause)
            | Self::Lost(cause) => cause,
            _ => return None,
        };
        cause.source().or(Some(cause))
    }
}

impl Error {
    /// The code of the server's answer, such as `NOSCRIPT`, if the server refused the call.
    pub fn code(&self) -> Option<&str> {
        match self {
            Self::Server { code, .. } | Self::Unsuitable { code, .. } => Some(code),
            Self::Auth(source) => source.code(),
            _ => None,
        }
    }

    /// Whether the command may have taken effect.
    pub fn may_have_executed(&self) -> bool {
        matches!(self, Self::Lost(_) | Self::TimedOut(_) | Self::Reply { .. })
    }

    /// Whether the connection must not be used again after this error.
    pub(crate) fn ends_connection(&self) -> bool {
        match self {
            Self::Lost(_) | Self::TimedOut(_) | Self::Unreachable(_) => true,
            // The answers of a server that has become a replica: the master is another one.
            Self::Server { code, .. } => matches!(&**code, "READONLY" | "MASTERDOWN" | "UNBLOCKED"),
            _ => false,
        }
    }

    /// The reply, unless it is an error of the server.
    pub(crate) fn checked(reply: Value) -> Result<Value, Self> {
        match reply {
            Value::ServerError(error) => Err(Self::answered(error)),
            value => Ok(value),
        }
    }

    /// The class of an error that the server answered.
    fn answered(error: ServerError) -> Self {
        match error.code() {
            "WRONGPASS" | "NOAUTH" | "NOPERM" => Self::Auth(error.into()),
            code if is_full(code, error.details()) => Self::Unreachable(error.into()),
            code => Self::Server { code: code.into(), detail: error.details().unwrap_or_default().into() },
        }
    }

    /// The class of a failure after the command was handed to the connection.
    pub(crate) fn in_flight(error: RedisError) -> Self {
        match Self::refusal(&error) {
            Some(refusal) => refusal,
            None => Self::Lost(error),
        }
    }

    /// The class of a failure before the caller's command was handed to the connection.
    pub(crate) fn connecting(error: RedisError) -> Self {
        match Self::refusal(&error) {
            Some(refusal) => refusal,
            None => Self::Unreachable(error),
        }
    }

    /// The class of a failure during the set-up of the connection.
    pub(crate) fn during_setup(self) -> Self {
        match self {
            Self::Lost(source) => Self::Unreachable(source),
            // The command executed then was not a caller's.
            Self::Reply { expected } => {
                Self::Unreachable(RedisError::from(io::Error::other(format!("its answer is not {expected}"))))
            }
            Self::Server { code, detail }
                if !Self::Server { code: code.clone(), detail: detail.clone() }.is_transient() =>
            {
                Self::Unsuitable { code, detail }
            }
            other => other,
        }
    }

    /// Adds the most likely reason to the error of a server that has hung up.
    pub(crate) fn hinting(self, hint: &str) -> Self {
        match self {
            Self::Lost(source) if source.is_connection_dropped() => {
                let what = format!("the server hung up before it answered; {hint}");
                Self::Lost(RedisError::from(io::Error::new(io::ErrorKind::ConnectionReset, what)))
            }
            other => other,
        }
    }

    /// The class of a failed read. A server refuses the client's certificate after the handshake.
    pub(crate) fn reading(error: io::Error) -> Self {
        if refused_certificate(&error) {
            Self::ClientCertificate(error.into())
        } else {
            Self::Lost(error.into())
        }
    }

    /// The class of an error of a login. Servers repeat the words of an unknown command, and here those are the user
    /// and the password.
    pub(crate) fn during_login(self) -> Self {
        match self {
            Self::Server { code, detail } if !detail.starts_with("AUTH <password> called") => {
                Self::Server { code, detail: "it accepts no login".into() }
            }
            other => other,
        }
    }

    pub(crate) fn unreachable(why: &'static str) -> Self {
        Self::Unreachable(RedisError::from(io::Error::other(why)))
    }

    pub(crate) fn connect_timed_out() -> Self {
        Self::Unreachable(RedisError::from(io::Error::from(io::ErrorKind::TimedOut)))
    }

    /// The error of a connection that was not made in its time. With TLS, the port may be one without.
    pub(crate) fn not_made_within(within: Duration, tls: bool) -> Self {
        let hint = if tls { "; is it a port for tls (rediss://)?" } else { "" };
        let what = format!("no connection was made within {within:?}{hint}");
        Self::Unreachable(RedisError::from(io::Error::new(io::ErrorKind::TimedOut, what)))
    }

    /// The class of a failure to open a stream. A refused certificate keeps its class: somebody must change it, or the
    /// trusted authorities.
    pub(crate) fn opening(error: io::Error) -> Self {
        let tls = error.get_ref().and_then(|inner| inner.downcast_ref());
        match tls {
            Some(rustls::Error::InvalidCertificate(_)) => Self::Certificate(error.into()),
            Some(_) if refused_certificate(&error) => Self::ClientCertificate(error.into()),
            Some(rustls::Error::InvalidMessage(_)) => Self::Unreachable(RedisError::from(io::Error::new(
                error.kind(),
                format!("{error}; is it a port for tls (rediss://)?"),
            ))),
            _ => Self::Unreachable(error.into()),
        }
    }

    fn refusal(error: &RedisError) -> Option<Self> {
        if error.kind() == ErrorKind::AuthenticationFailed {
            return Some(Self::Auth(error.clone()));
        }
        match error.code()? {
            "WRONGPASS" | "NOAUTH" | "NOPERM" => Some(Self::Auth(error.clone())),
            code if is_full(code, error.detail()) => Some(Self::Unreachable(error.clone())),
            code => {
                Some(Self::Server { code: code.into(), detail: error.detail().unwrap_or_default().into() })
            }
        }
    }
}

/// Whether this is the answer of a server without room for another client before it hangs up. It has read no command.
fn is_full(code: &str, detail: Option<&str>) -> bool {
    code == "ERR" && detail.is_some_and(|detail| detail.starts_with("max number of clients"))
}

/// Whether the server ended the conversation because of this client's certificate, or because the client has none.
fn refused_certificate(error: &io::Error) -> bool {
    use rustls::AlertDescription as Alert;
    let told = error.get_ref().and_then(|inner| inner.downcast_ref());
    let Some(rustls::Error::AlertReceived(alert)) = told else { return false };
    matches!(
        alert,
        Alert::CertificateRequired
            | Alert::NoCertificate
            | Alert::BadCertificate
            | Alert::UnsupportedCertificate
            | Alert::CertificateRevoked
            | Alert::CertificateExpired
            | Alert::CertificateUnknown
            | Alert::UnknownCA
            | Alert::DecryptError
            | Alert::AccessDenied
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn server(code: &str) -> Error {
        Error::Server { code: code.into(), detail: "why".into() }
    }

    #[test]
    fn only_an_unanswered_command_may_have_executed() {
        assert!(Error::TimedOut(Duration::ZERO).may_have_executed());
        assert!(
            Error::Lost(RedisError::from(io::Error::from(io::ErrorKind::BrokenPipe))).may_have_executed()
        );
        assert!(!server("OOM").may_have_executed());
        assert!(!Error::connect_timed_out().may_have_executed());
        assert!(!Error::OtherServer { run_id: "a".into() }.may_have_executed());
    }

    #[test]
    fn a_malformed_answer_while_connecting_answers_no_command() {
        let error = Error::Reply { expected: "a role" }.during_setup();
        assert!(error.is_transient() && !error.may_have_executed(), "{error:?}");
    }

    #[test]
    fn a_login_that_fails_repeats_no_words_of_it() {
        let repeated = "unknown command 'AUTH', with args beginning with: 'me' 'secret' ";
        let error = Error::Server { code: "ERR".into(), detail: repeated.into() }.during_login();
        assert_eq!(error.code(), Some("ERR"));
        assert!(!format!("{error} {error:?}").contains("secret"));
        let helpful = "AUTH <password> called without any password configured for the default user.";
        let error = Error::Server { code: "ERR".into(), detail: helpful.into() }.during_login();
        assert!(error.to_string().contains(helpful));
    }

    #[test]
    fn a_demoted_master_ends_the_connection() {
        for code in ["READONLY", "MASTERDOWN", "UNBLOCKED"] {
            assert!(server(code).ends_connection(), "{code}");
        }
        for code in ["OOM", "MOVED", "ERR"] {
            assert!(!server(code).ends_connection(), "{code}");
        }
    }
}
