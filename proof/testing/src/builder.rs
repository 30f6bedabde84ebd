//! Settings and start of a private server.

use std::{
    env, fs,
    path::{Path, PathBuf},
};

use crate::{
    Error, RedisServer,
    address::{Address, Login},
    binary,
    guard::Guard,
    port::Port,
    tls::{Authority, Identity},
};

/// A unix socket's path has at most 107 bytes, of which the private folder and the socket's name need about 30.
const LONGEST_BASE: usize = 70;

/// Settings for starting a [`RedisServer`].
#[derive(Debug, Clone, Default)]
#[must_use]
pub struct Builder {
    tcp: bool,
    tls: Option<Tls>,
    asks_clients: bool,
    password: Option<String>,
    append_only: bool,
    cluster: bool,
    sentinel: bool,
    config: Vec<Directive>,
}

/// The name of a directive and its words.
type Directive = (String, Vec<String>);

#[derive(Debug, Clone)]
struct Tls {
    ca_pem: String,
    server: Identity,
}

impl Builder {
    /// Listens on a free port of 127.0.0.1 instead of a unix socket.
    pub fn tcp(mut self) -> Self {
        self.tcp = true;
        self
    }

    /// Listens with TLS on a free port of 127.0.0.1. `authority` issues the certificate, for `127.0.0.1` and
    /// `localhost`. Clients need no certificate.
    ///
    /// # Errors
    /// As [`Authority::issue`].
    pub fn tls(self, authority: &Authority) -> Result<Self, Error> {
        let server = authority.issue(&["127.0.0.1", "localhost"])?;
        Ok(self.tls_as(authority, server))
    }

    /// Listens with TLS like [`tls`](Self::tls), with this certificate, which may be for another host or from another
    /// authority.
    pub fn tls_as(mut self, authority: &Authority, server: Identity) -> Self {
        self.tls = Some(Tls { ca_pem: authority.ca_pem().to_owned(), server });
        self
    }

    /// Refuses TLS clients without a certificate of the server's authority.
    pub fn ask_for_client_certificates(mut self) -> Self {
        self.asks_clients = true;
        self
    }

    /// Requires this password, which becomes part of [`RedisServer::url`].
    pub fn password(mut self, password: impl Into<String>) -> Self {
        self.password = Some(password.into());
        self
    }

    /// Writes an append-only file, so that a killed server returns with every write that it answered.
    pub fn append_only(mut self) -> Self {
        self.append_only = true;
        self
    }

    /// Sets one directive of `redis.conf`, such as `("maxmemory-policy", "allkeys-lru")`.
    pub fn config(self, name: &str, value: &str) -> Self {
        self.directive(name, &[value])
    }

    /// Sets a directive that takes several words.
    pub(crate) fn directive(mut self, name: &str, words: &[&str]) -> Self {
        self.config.push((name.to_owned(), words.iter().map(|&word| word.to_owned()).collect()));
        self
    }

    /// Makes the server a node of a cluster, on TCP, with a bus on a port of its own.
    pub(crate) fn cluster(mut self) -> Self {
        self.cluster = true;
        self.tcp()
    }

    /// Makes the server a sentinel, on TCP.
    pub(crate) fn sentinel(mut self) -> Self {
        self.sentinel = true;
        self.tcp()
    }

    /// Starts the server and waits until it answers.
    ///
    /// # Errors
    /// When there is no binary, or the server ends or does not answer in time; nothing is left behind then.
    pub fn start(self) -> Result<RedisServer, Error> {
        let binary = binary::find()?;
        let ports = match (self.tcp || self.tls.is_some(), self.cluster) {
            (false, _) => vec![],
            (true, false) => vec![Port::reserve()?],
            (true, true) => vec![Port::reserve()?, Port::reserve()?],
        };
        let numbers: Vec<_> = ports.iter().map(Port::number).collect();
        let mut guard = Guard::spawn(&base_dir(), &self.command_line(&binary, &numbers))?;
        self.write_files(guard.dir(), &numbers)?;
        let login = self.password.map(|password| Login { user: String::new(), password });
        let socket = Address::in_folder(guard.dir());
        let (address, control) = match (numbers.first(), self.tls) {
            (None, _) => (socket.clone(), socket),
            (Some(&port), None) => (Address::Tcp(port), Address::Tcp(port)),
            (Some(&port), Some(_)) => (Address::Tls(port), socket),
        };
        guard.start()?;
        let durable = self.append_only || self.sentinel;
        RedisServer::started(guard, address, &control, login, durable, ports)
    }

    fn command_line(&self, binary: &Path, ports: &[u16]) -> Vec<String> {
        let mut line = vec![binary.to_string_lossy().into_owned()];
        if self.sentinel {
            line.extend(["../sentinel.conf".to_owned(), "--sentinel".to_owned()]);
            return line;
        }
        for (name, words) in self.directives(ports) {
            line.push(format!("--{name}"));
            line.extend(words);
        }
        line
    }

    fn directives(&self, ports: &[u16]) -> Vec<Directive> {
        let mut directives = Vec::new();
        let mut set = |name: &str, word: &str| directives.push((name.to_owned(), vec![word.to_owned()]));
        let port = ports.first().map_or("0".to_owned(), u16::to_string);
        if self.tls.is_some() {
            set("port", "0");
            set("tls-port", &port);
            set("tls-cert-file", "../server.pem");
            set("tls-key-file", "../server.key");
            set("tls-ca-cert-file", "../ca.pem");
            set("tls-auth-clients", if self.asks_clients { "yes" } else { "no" });
        } else {
            set("port", &port);
        }
        if !ports.is_empty() {
            set("bind", "127.0.0.1");
        }
        if ports.is_empty() || self.tls.is_some() {
            // Relative to data/, where the guard runs the server.
            set("unixsocket", "../redis.sock");
            set("unixsocketperm", "700");
        }
        if let Some(bus) = ports.get(1) {
            set("cluster-enabled", "yes");
            set("cluster-port", &bus.to_string());
        }
        if !self.sentinel {
            set("save", "");
            set("appendonly", if self.append_only { "yes" } else { "no" });
        }
        set("loglevel", "warning");
        if let Some(password) = &self.password {
            set("requirepass", password);
        }
        directives.extend_from_slice(&self.config);
        directives
    }

    fn write_files(&self, dir: &Path, ports: &[u16]) -> Result<(), Error> {
        let write = |name: &str, text: &str| {
            let path = dir.join(name);
            fs::write(&path, text).map_err(|source| Error::Path { path, source })
        };
        if let Some(tls) = &self.tls {
            write("ca.pem", &tls.ca_pem)?;
            write("server.pem", &tls.server.certificate_pem)?;
            write("server.key", &tls.server.key_pem)?;
        }
        if self.sentinel {
            // A sentinel writes its knowledge into this file.
            let lines: Vec<_> = self.directives(ports).iter().map(line).collect();
            write("sentinel.conf", &lines.concat())?;
        }
        Ok(())
    }
}

/// A directive in the syntax of a configuration file.
fn line((name, words): &Directive) -> String {
    let words: Vec<_> = words.iter().map(|word| word.replace('\\', r"\\").replace('"', r#"\""#)).collect();
    format!("{name} \"{}\"\n", words.join("\" \""))
}

fn base_dir() -> PathBuf {
    let dir = env::temp_dir();
    if dir.is_absolute() && dir.as_os_str().len() <= LONGEST_BASE { dir } else { PathBuf::from("/tmp") }
}
