//! Lua scripts and prepared calls of them.

use std::fmt;
use std::sync::Arc;

use redis::{Cmd, ToRedisArgs};

/// A Lua script with a name for logs and the hash by which Redis knows it. Cheap to clone.
///
/// The script must not return an error in the exact words with which Redis refuses to execute a call. These are
/// `NOSCRIPT No matching script…`, `MOVED` or `ASK` with a slot and an address, `TRYAGAIN Multiple keys request…`,
/// `CLUSTERDOWN The cluster is down` and `…Hash slot not served`. A call that is refused in these words is sent again.
/// Other words after these codes, and errors that the script raises, are the result of the call.
#[derive(Clone)]
pub struct Script(Arc<Inner>);

struct Inner {
    name: Box<str>,
    source: Box<str>,
    sha: Box<str>,
}

impl Script {
    /// Names a script and computes its hash, once.
    pub fn new(name: &str, source: &str) -> Self {
        #[cfg(feature = "sim")]
        let source: &str = &broken(source);
        let sha = redis::Script::new(source).get_hash().into();
        Self(Arc::new(Inner { name: name.into(), source: source.into(), sha }))
    }

    /// The script's name.
    pub fn name(&self) -> &str {
        &self.0.name
    }

    /// The script's Lua source.
    pub fn source(&self) -> &str {
        &self.0.source
    }

    /// The SHA-1 of the source in lower-case hex, for `EVALSHA`.
    pub fn sha(&self) -> &str {
        &self.0.sha
    }

    /// Prepares a call with these keys; arguments are appended to it.
    pub fn call<K: ToRedisArgs>(&self, keys: &[K]) -> Call {
        let mut command = redis::cmd("EVALSHA");
        command.arg(self.sha()).arg(keys.len());
        for key in keys {
            command.arg(key);
        }
        Call { script: self.clone(), command }
    }

    pub(crate) fn load(&self) -> Cmd {
        let mut command = redis::cmd("SCRIPT");
        command.arg("LOAD").arg(self.source());
        command
    }
}

/// The script as a proof has broken it: an environment variable names a text and its replacement.
#[cfg(feature = "sim")]
fn broken(source: &str) -> String {
    match (std::env::var("TENURE_SCRIPT"), std::env::var("TENURE_SCRIPT_BROKEN")) {
        (Ok(whole), Ok(broken)) => source.replace(&whole, &broken),
        _ => source.to_owned(),
    }
}

impl fmt::Debug for Script {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Script").field("name", &self.name()).field("sha", &self.sha()).finish_non_exhaustive()
    }
}

/// A prepared call of a script. Keys and arguments are copied once, into one buffer. The same call can be sent any
/// number of times.
#[derive(Clone)]
pub struct Call {
    script: Script,
    command: Cmd,
}

impl Call {
    /// Appends one `ARGV`, or several when the argument is a slice of values.
    pub fn arg<A: ToRedisArgs>(&mut self, arg: A) -> &mut Self {
        self.command.arg(arg);
        self
    }

    /// Appends arguments, each as [`arg`](Self::arg) does.
    pub fn args<A: ToRedisArgs>(&mut self, args: impl IntoIterator<Item = A>) -> &mut Self {
        for arg in args {
            self.command.arg(arg);
        }
        self
    }

    /// The script that is called.
    pub fn script(&self) -> &Script {
        &self.script
    }

    pub(crate) fn command(&self) -> &Cmd {
        &self.command
    }
}

impl fmt::Debug for Call {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Arguments may be payloads or secrets: only their number is shown.
        f.debug_struct("Call")
            .field("script", &self.script.name())
            .field("words", &self.command.args_iter().len())
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_call_counts_its_keys_and_appends_arguments() {
        let script = Script::new("echo", "return KEYS[1]");
        assert_eq!(script.sha(), "4a2267357833227dd98abdedb8cf24b15a986445");
        let mut call = script.call(&["k1", "k2"]);
        call.arg(7).arg(&["a", "b"][..]);
        let packed = call.command().get_packed_command();
        let tail = b"$1\r\n2\r\n$2\r\nk1\r\n$2\r\nk2\r\n$1\r\n7\r\n$1\r\na\r\n$1\r\nb\r\n";
        assert!(packed.ends_with(tail), "{}", packed.escape_ascii());
        assert!(packed.starts_with(b"*8\r\n$7\r\nEVALSHA\r\n"));
    }
}
