//! Looks up the master that Sentinel has chosen. Sentinel is asked before every connect, so that each new connection follows a
//! fail-over.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use futures::FutureExt;
use redis::Value;

use crate::Error;
use crate::address::{Address, Credentials};
use crate::link::{self, Settings, Step};
use crate::reach::reach;
use crate::turns::first_answer;

/// The sentinels of a service.
pub(crate) struct Sentinels {
    addresses: Vec<Address>,
    service: Box<str>,
    credentials: Option<Credentials>,
    /// The number of the first one to ask: the one that answered last.
    first: AtomicUsize,
}

impl Sentinels {
    pub(crate) fn new(
        addresses: Vec<Address>,
        service: Box<str>,
        credentials: Option<Credentials>,
    ) -> Arc<Self> {
        Arc::new(Self { addresses, service, credentials, first: AtomicUsize::new(0) })
    }

    pub(crate) fn addresses(&self) -> &[Address] {
        &self.addresses
    }

    /// Asks the sentinels for the address of the master. Every sentinel has the whole connect timeout.
    pub(crate) async fn master(&self, settings: &Settings) -> Result<Address, Error> {
        let count = self.addresses.len();
        let start = self.first.load(Ordering::Relaxed) % count.max(1);
        let (before, after) = self.addresses.split_at(start);
        // Until one answers, the next question begins with another.
        self.first.store(start + 1, Ordering::Relaxed);
        let questions =
            after.iter().chain(before).map(|sentinel| self.ask(sentinel, settings).boxed()).collect();
        let (number, master) = first_answer(questions, settings.connect_timeout).await?;
        self.first.store(start + number, Ordering::Relaxed);
        Ok(master)
    }

    async fn ask(&self, sentinel: &Address, settings: &Settings) -> Result<Address, Error> {
        self.named_by(sentinel, settings).await.inspect_err(|error| {
            let error = error as &dyn std::error::Error;
            tracing::debug!(%sentinel, error, "a sentinel does not name the master");
        })
    }

    async fn named_by(&self, sentinel: &Address, settings: &Settings) -> Result<Address, Error> {
        let question = redis::cmd("SENTINEL").arg("GET-MASTER-ADDR-BY-NAME").arg(&*self.service).take();
        let login = self.credentials.as_ref().map(|credentials| (Step::Login, credentials.auth()));
        let steps: Vec<_> = login.into_iter().chain([(Step::Question, question)]).collect();
        let steps = &steps;
        let asked = reach(sentinel, settings, |mut wire| async move { link::ask(&mut wire, steps).await });
        match asked.await? {
            Value::Nil => Err(Error::unreachable("no master of this name is known to the sentinel")),
            reply => {
                let wrong = Error::Reply { expected: "a host and a port" };
                address(&reply).ok_or_else(|| wrong.during_setup())
            }
        }
    }
}

fn address(reply: &Value) -> Option<Address> {
    let Value::Array(words) = reply else { return None };
    let text = |word: &Value| match word {
        Value::BulkString(bytes) => String::from_utf8(bytes.clone()).ok(),
        _ => None,
    };
    let [host, port] = &words[..] else { return None };
    Some(Address::Tcp(text(host)?.into(), text(port)?.parse().ok()?))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn reply(text: &str) -> Value {
        redis::parse_redis_value(text.as_bytes()).unwrap()
    }

    #[test]
    fn a_master_is_a_host_and_a_port() {
        let named = reply("*2\r\n$3\r\n::1\r\n$4\r\n6379\r\n");
        assert_eq!(address(&named).unwrap().to_string(), "[::1]:6379");
        for other in ["*1\r\n$1\r\na\r\n", "*2\r\n$1\r\na\r\n$1\r\nb\r\n", "+OK\r\n"] {
            assert_eq!(address(&reply(other)), None, "{other:?}");
        }
    }
}
