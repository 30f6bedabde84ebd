//! What every step needs: names, scripts, a connection; and how a call says what its jobs share.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, PoisonError};

use redis::{Cmd, Value};
use tenure_connection::{Call, Connection};

use super::keys::Keys;
use super::reply::{Reply, Values, failed};
use super::script::Scripts;
use crate::store::{Refusal, Result, StoreError, check_batch};

/// Sends scripts and commands of one pool over one connection.
#[derive(Clone, Debug)]
pub(super) struct Steps {
    pub(super) keys: Keys,
    pub(super) scripts: Arc<Scripts>,
    pub(super) connection: Connection,
    pub(super) told: Told,
}

/// What has been told of what answers have in them that cannot be read.
#[derive(Clone, Debug, Default)]
pub(super) struct Told(Arc<Mutex<BTreeSet<String>>>);

/// How much is kept in mind that was told; beyond it all of it is told anew.
const TOLD_MAX: usize = 1_000;

impl Told {
    /// Which of these have not been told yet.
    fn news<'a>(&self, strange: &'a [String]) -> Vec<&'a String> {
        if strange.is_empty() {
            return Vec::new();
        }
        let mut told = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if told.len() > TOLD_MAX {
            told.clear();
        }
        strange.iter().filter(|text| told.insert((*text).clone())).collect()
    }
}

impl Steps {
    /// Tells once what was passed over in an answer.
    pub(super) fn tell(&self, values: &Values) {
        for strange in self.told.news(values.strange()) {
            tracing::error!(
                keys = self.keys.prefix(),
                strange,
                "what a key of the pool holds cannot be read, it is passed over"
            );
        }
    }

    /// Sends a script's call.
    pub(super) async fn run(&self, name: &'static str, call: Call) -> Result<Reply> {
        Reply::of(name, self.connection.call(&call).await.map_err(failed)?)
    }

    /// Sends a command.
    pub(super) async fn command(&self, command: &Cmd) -> Result<Value> {
        self.connection.command(command).await.map_err(failed)
    }
}

/// What jobs of a call share, each named once: streams that the call may write to, whose keys follow the script's own, or
/// tokens. A job says which it has by the number, counted from 1; 0 is none.
pub(super) struct Targets<T> {
    list: Vec<T>,
}

impl<T: PartialEq> Targets<T> {
    pub(super) fn new() -> Self {
        Self { list: Vec::new() }
    }

    /// The number of a target.
    pub(super) fn number(&mut self, target: Option<T>) -> usize {
        let Some(target) = target else { return 0 };
        if let Some(at) = self.list.iter().position(|known| *known == target) {
            return at + 1;
        }
        self.list.push(target);
        self.list.len()
    }

    /// The keys of the targets' streams, in the order of their numbers.
    pub(super) fn keys(&self, key: impl Fn(&T) -> String) -> Vec<String> {
        self.list.iter().map(key).collect()
    }

    /// The targets in the order of their numbers.
    pub(super) fn iter(&self) -> impl ExactSizeIterator<Item = &T> {
        self.list.iter()
    }
}

/// The numbers of the jobs of a call as a script takes them: in one argument, a byte for each, since Redis and Lua make a
/// text of each argument. Of more jobs than a step takes, and so of a number that is no byte, the call is refused.
pub(super) fn column(numbers: impl IntoIterator<Item = usize>) -> Result<Vec<u8>> {
    let byte = |number| u8::try_from(number).map_err(|_| StoreError::Refused(Refusal::BadArgument));
    let column = numbers.into_iter().map(byte).collect::<Result<Vec<_>>>()?;
    check_batch(column.len())?;
    Ok(column)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_strange_is_told_once() {
        let told = Told::default();
        let strange = ["a", "b"].map(str::to_owned);
        assert_eq!(told.news(&strange).len(), 2);
        assert_eq!(told.clone().news(&strange).len(), 0);
        assert_eq!(told.news(&["c".to_owned()]), ["c"]);
    }

    #[test]
    fn targets_are_numbered_from_one_and_named_once() {
        let mut targets = Targets::new();
        let numbers: Vec<_> = [Some("a"), None, Some("b"), Some("a")].map(|t| targets.number(t)).into();
        assert_eq!(numbers, [1, 0, 2, 1]);
        assert_eq!(targets.keys(|t| format!("ns:{t}")), ["ns:a", "ns:b"]);
        assert!(column(numbers).is_ok_and(|column| column == [1, 0, 2, 1]));
    }
}
