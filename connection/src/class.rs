//! One table for all crates: the meaning of an error of Redis for the caller.

use tenure_steps::Class;

use crate::Error;

/// How Redis 7.0 and later versions begin the answer to a script whose user lacks a right for a command, a key or a
/// channel. The code may be `ERR`.
const FORBIDDEN: [&str; 2] = ["The user executing the script ", "ACL failure in script"];

impl Error {
    /// The meaning of the error for the caller.
    pub fn class(&self) -> Class {
        match self {
            Self::Config { .. } => Class::Config,
            Self::Auth(source) if source.code() == Some("NOPERM") => Class::Forbidden,
            Self::Auth(_) | Self::Certificate(_) | Self::ClientCertificate(_) | Self::Unsuitable { .. } => {
                Class::Refused
            }
            Self::Unreachable(source) if source.is_timeout() => Class::Silent,
            Self::Unreachable(_) => Class::Unreachable,
            Self::Lost(_) | Self::TimedOut(_) => Class::Unanswered,
            Self::Server { code, detail } => of_answer(code, detail),
            Self::OtherServer { .. } => Class::OtherServer,
            Self::Reply { .. } => Class::Unusable,
        }
    }

    /// Whether a command inside a script was refused. Earlier commands of the script may have written.
    pub fn is_of_a_script(&self) -> bool {
        let detail = match self {
            Self::Server { detail, .. } => Some(&**detail),
            Self::Auth(source) => source.detail(),
            _ => None,
        };
        detail.is_some_and(|detail| detail.contains(", on @user_script:"))
    }

    /// Whether the same call may succeed later without a change of the call, the settings or the user's rights.
    pub fn is_transient(&self) -> bool {
        matches!(
            self.class(),
            Class::Silent | Class::Unreachable | Class::NotNow | Class::Full | Class::Unanswered
        )
    }
}

/// The class of an answer to a command.
fn of_answer(code: &str, detail: &str) -> Class {
    match code {
        _ if FORBIDDEN.iter().any(|words| detail.starts_with(words)) => Class::Forbidden,
        "NOPERM" => Class::Forbidden,
        "OOM" => Class::Full,
        "LOADING" | "BUSY" | "TRYAGAIN" | "CLUSTERDOWN" | "MOVED" | "ASK" | "MASTERDOWN" | "READONLY"
        | "UNBLOCKED" | "NOREPLICAS" | "MISCONF" | "NOSCRIPT" => Class::NotNow,
        "ERR" | "WRONGTYPE" => Class::Raised,
        _ => Class::Unusable,
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::io;
    use std::time::Duration;

    use redis::RedisError;

    use super::*;

    fn server(code: &str, detail: &str) -> Error {
        Error::Server { code: code.into(), detail: detail.into() }
    }

    #[test]
    fn a_missing_right_is_one_class_in_all_versions_of_redis() {
        for (code, detail) in [
            (
                "ERR",
                "The user executing the script can't run this command or subcommand script: ab, on @user_script:3.",
            ),
            (
                "ERR",
                "The user executing the script can't access at least one of the keys mentioned in the command",
            ),
            (
                "ERR",
                "The user executing the script can't publish to the channel mentioned in the command script: ab",
            ),
            ("ERR", "ACL failure in script: User u has no permissions to run the 'xadd' command script: ab"),
            (
                "NOPERM",
                "ACL failure in script: User u has no permissions to run the 'xadd' command script: ab",
            ),
            ("NOPERM", "User u has no permissions to run the 'evalsha' command"),
        ] {
            let error = server(code, detail);
            assert_eq!((error.class(), error.is_transient()), (Class::Forbidden, false), "{code} {detail}");
            let answered = redis::parse_redis_value(format!("-{code} {detail}\r\n").as_bytes());
            let error = answered.map_err(Error::in_flight).and_then(Error::checked).unwrap_err();
            assert_eq!(error.class(), Class::Forbidden, "as it comes from the wire: {error:?}");
        }
        // A script may quote stored data, which may hold anything.
        assert_eq!(server("ERR", "bad record: 'ACL failure in script'").class(), Class::Raised);
    }

    #[test]
    fn only_passing_conditions_are_transient() {
        let passing = [
            "LOADING",
            "BUSY",
            "TRYAGAIN",
            "CLUSTERDOWN",
            "MOVED",
            "ASK",
            "MASTERDOWN",
            "READONLY",
            "UNBLOCKED",
            "NOREPLICAS",
            "NOSCRIPT",
            "OOM",
            "MISCONF",
        ];
        for code in passing {
            assert!(server(code, "why").is_transient(), "{code}");
        }
        for code in ["ERR", "WRONGTYPE", "NOGROUP", "CROSSSLOT"] {
            assert!(!server(code, "why").is_transient(), "{code}");
        }
        assert!(Error::connect_timed_out().is_transient());
        assert!(Error::TimedOut(Duration::ZERO).is_transient());
    }

    #[test]
    fn silence_is_told_from_a_cause_that_is_known() {
        assert_eq!(Error::connect_timed_out().class(), Class::Silent);
        let refused = Error::Unreachable(RedisError::from(io::Error::from(io::ErrorKind::ConnectionRefused)));
        assert_eq!(refused.class(), Class::Unreachable);
        assert_eq!(Error::unreachable("the name is unknown").class(), Class::Unreachable);
        assert_eq!(Error::TimedOut(Duration::ZERO).class(), Class::Unanswered);
    }

    #[test]
    fn a_full_memory_and_damage_are_no_refusal() {
        assert_eq!(server("OOM", "command not allowed").class(), Class::Full);
        assert_eq!(server("WRONGTYPE", "Operation against a key").class(), Class::Raised);
        let unsuitable = server("ERR", "This instance has cluster support disabled").during_setup();
        assert_eq!(unsuitable.class(), Class::Refused);
        assert_eq!(server("LOADING", "dataset").during_setup().class(), Class::NotNow);
    }
}
