//! The address of a private server, and the URLs made from it.

use std::path::{Path, PathBuf};

/// The address of a server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Address {
    Unix(PathBuf),
    Tcp(u16),
    Tls(u16),
}

/// A login; an empty name is Redis's default user.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Login {
    pub(crate) user: String,
    pub(crate) password: String,
}

impl Address {
    /// The port; `None` for a unix socket.
    pub(crate) fn port(&self) -> Option<u16> {
        match self {
            Self::Unix(_) => None,
            Self::Tcp(port) | Self::Tls(port) => Some(*port),
        }
    }

    /// The address of the unix socket in this folder.
    pub(crate) fn in_folder(dir: &Path) -> Self {
        Self::Unix(dir.join("redis.sock"))
    }

    /// The same kind of connection to another port.
    pub(crate) fn at_port(&self, port: u16) -> Self {
        match self {
            Self::Unix(_) | Self::Tcp(_) => Self::Tcp(port),
            Self::Tls(_) => Self::Tls(port),
        }
    }

    /// The URL for a client.
    pub(crate) fn url(&self, login: Option<&Login>) -> String {
        match self {
            Self::Tcp(port) => format!("redis://{}127.0.0.1:{port}", before_host(login)),
            Self::Tls(port) => format!("rediss://{}127.0.0.1:{port}", before_host(login)),
            Self::Unix(path) => {
                let query = match login {
                    None => String::new(),
                    Some(Login { user, password }) if user.is_empty() => {
                        format!("?pass={}", encoded(password))
                    }
                    Some(Login { user, password }) => {
                        format!("?user={}&pass={}", encoded(user), encoded(password))
                    }
                };
                format!("redis+unix://{}{query}", path.display())
            }
        }
    }
}

/// `scheme://user:password@127.0.0.1:port,127.0.0.1:port`, for clients that know many servers.
pub(crate) fn url_of_many(scheme: &str, login: Option<&Login>, ports: impl Iterator<Item = u16>) -> String {
    let hosts: Vec<_> = ports.map(|port| format!("127.0.0.1:{port}")).collect();
    format!("{scheme}://{}{}", before_host(login), hosts.join(","))
}

fn before_host(login: Option<&Login>) -> String {
    login
        .map_or(String::new(), |Login { user, password }| format!("{}:{}@", encoded(user), encoded(password)))
}

/// Percent-encoded text for a URL.
pub(crate) fn encoded(text: &str) -> String {
    text.bytes()
        .map(|byte| match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'_' | b'.' | b'~' => {
                char::from(byte).to_string()
            }
            _ => format!("%{byte:02X}"),
        })
        .collect()
}
