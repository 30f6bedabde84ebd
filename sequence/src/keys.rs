//! Names, and the keys and channels of Redis that are made of them. All of one set lie in one hash slot.
//!
//! | key | |
//! |---|---|
//! | `tenure:sequence:{<set>}:progress` | hash: consumer → `1\|token\|index` |
//! | `tenure:sequence:{<set>}:heads` | hash: log → the last index that it has given out |
//! | `tenure:sequence:{<set>}:floors` | hash: log → the input up to which its feeder is done for good |
//! | `tenure:sequence:{<set>}:log:<log>` | stream: index `n` has the id `0-n` |
//! | `tenure:sequence:{<set>}:inputs:<log>` | sorted set: what inputs above the floor have been appended for |
//! | `tenure:sequence:{<set>}:appended` | channel: `<head> <log>` |

use crate::error::Error;

/// The longest name of a set, a log or a consumer.
pub(crate) const NAME_MAX: usize = 256;

/// Refuses a name that cannot be part of a key: 1 to 256 bytes, no control characters, no braces.
pub(crate) fn check(what: &'static str, name: &str) -> Result<(), Error> {
    let bad = |c: char| c.is_control() || matches!(c, '{' | '}');
    if name.is_empty() || name.len() > NAME_MAX || name.contains(bad) {
        return Err(Error::Setting {
            name: what,
            why: "has 1 to 256 bytes, without control characters and braces",
        });
    }
    Ok(())
}

pub(crate) fn progress(set: &str) -> String {
    format!("tenure:sequence:{{{set}}}:progress")
}

pub(crate) fn heads(set: &str) -> String {
    format!("tenure:sequence:{{{set}}}:heads")
}

pub(crate) fn floors(set: &str) -> String {
    format!("tenure:sequence:{{{set}}}:floors")
}

pub(crate) fn log(set: &str, log: &str) -> String {
    format!("tenure:sequence:{{{set}}}:log:{log}")
}

pub(crate) fn inputs(set: &str, log: &str) -> String {
    format!("tenure:sequence:{{{set}}}:inputs:{log}")
}

pub(crate) fn appended(set: &str) -> String {
    format!("tenure:sequence:{{{set}}}:appended")
}
