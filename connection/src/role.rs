//! A server's present role, from its answer to `HELLO`. That command needs no right, and works beside a subscription.

use redis::{Cmd, Value};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Role {
    Master,
    Replica,
}

/// The protocol of a connection: pushes, and commands beside subscriptions, need the third.
#[derive(Clone, Copy)]
pub(crate) enum Protocol {
    Two,
    Three,
}

/// The command that chooses the protocol and asks for the server's role.
pub(crate) fn hello(protocol: Protocol) -> Cmd {
    let number = match protocol {
        Protocol::Two => 2,
        Protocol::Three => 3,
    };
    redis::cmd("HELLO").arg(number).take()
}

/// The same command, which also names the connection at the server.
pub(crate) fn hello_as(protocol: Protocol, name: Option<&str>) -> Cmd {
    let mut hello = hello(protocol);
    if let Some(name) = name {
        hello.arg("SETNAME").arg(name);
    }
    hello
}

impl Role {
    /// Reads an answer to [`hello`] in either protocol.
    pub(crate) fn read(answer: &Value) -> Option<Self> {
        let role = match answer {
            Value::Map(pairs) => pairs.iter().find(|(name, _)| is(name, b"role")).map(|(_, role)| role),
            Value::Array(words) => {
                words.chunks_exact(2).find(|pair| is(&pair[0], b"role")).map(|pair| &pair[1])
            }
            _ => None,
        }?;
        if is(role, b"master") { Some(Self::Master) } else { is(role, b"replica").then_some(Self::Replica) }
    }
}

fn is(value: &Value, word: &[u8]) -> bool {
    matches!(value, Value::BulkString(bytes) if bytes == word)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn read(text: &str) -> Option<Role> {
        Role::read(&redis::parse_redis_value(text.as_bytes()).unwrap())
    }

    #[test]
    fn the_role_is_read_in_both_protocols() {
        let (proto, role) = ("$5\r\nproto\r\n:3\r\n", "$4\r\nrole\r\n");
        for (start, word, expected) in [
            ("*4", "$6\r\nmaster\r\n", Some(Role::Master)),
            ("%2", "$6\r\nmaster\r\n", Some(Role::Master)),
            ("%2", "$7\r\nreplica\r\n", Some(Role::Replica)),
            ("*4", "$8\r\nsentinel\r\n", None),
            ("*4", ":1\r\n", None),
        ] {
            assert_eq!(read(&format!("{start}\r\n{proto}{role}{word}")), expected, "{start} {word}");
        }
        for other in ["+OK\r\n", "*0\r\n", "%0\r\n", "*1\r\n$4\r\nrole\r\n"] {
            assert_eq!(read(other), None, "{other:?}");
        }
    }
}
