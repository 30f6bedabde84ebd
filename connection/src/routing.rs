//! The cluster slot of a command. Pure.
//!
//! An unknown command is assumed to have its key in front, as nearly all have. A wrongly routed command is not
//! executed: its node answers `MOVED`.

use redis::{Arg, Cmd};

use crate::Error;
use crate::slot::slot;

/// The slot of the command's key; `None` for a command that any master may answer.
///
/// # Errors
/// [`Error::Config`] for a script whose keys are in several slots.
pub(crate) fn slot_of(command: &Cmd) -> Result<Option<u16>, Error> {
    let words = command.args_iter().map(|arg| match arg {
        Arg::Simple(word) => word,
        _ => &[],
    });
    let word = |index: usize| words.clone().nth(index);
    let name = word(0).unwrap_or_default().to_ascii_uppercase();
    let first_key = match name.as_slice() {
        b"EVAL" | b"EVALSHA" | b"EVAL_RO" | b"EVALSHA_RO" | b"FCALL" | b"FCALL_RO" => {
            return slot_of_all(words.clone().skip(3).take(number(word(2))));
        }
        b"XREAD" => return slot_of_all(streams(words.clone().skip(1))),
        // A group and a consumer may have any name, even STREAMS.
        b"XREADGROUP" => return slot_of_all(streams(words.clone().skip(4))),
        b"XGROUP" | b"XINFO" | b"OBJECT" | b"MEMORY" | b"BITOP" | b"DEBUG" | b"ZUNION" | b"ZINTER"
        | b"ZDIFF" | b"SINTERCARD" | b"ZINTERCARD" | b"LMPOP" | b"ZMPOP" => Some(2),
        // A cursor belongs to one node, so this must always be the same one.
        b"SCAN" => return Ok(Some(0)),
        b"BLMPOP" | b"BZMPOP" | b"MIGRATE" => Some(3),
        b"ACL" | b"ASKING" | b"AUTH" | b"BGREWRITEAOF" | b"BGSAVE" | b"CLIENT" | b"CLUSTER" | b"COMMAND"
        | b"CONFIG" | b"DBSIZE" | b"ECHO" | b"EXEC" | b"FAILOVER" | b"FLUSHALL" | b"FLUSHDB"
        | b"FUNCTION" | b"HELLO" | b"INFO" | b"KEYS" | b"LASTSAVE" | b"LATENCY" | b"LOLWUT" | b"MODULE"
        | b"MULTI" | b"PING" | b"PUBLISH" | b"PUBSUB" | b"RANDOMKEY" | b"READONLY" | b"READWRITE"
        | b"REPLICAOF" | b"ROLE" | b"SAVE" | b"SCRIPT" | b"SELECT" | b"SLOWLOG" | b"SWAPDB" | b"TIME"
        | b"UNWATCH" | b"WAIT" => None,
        _ => Some(1),
    };
    Ok(first_key.and_then(word).map(slot))
}

fn slot_of_all<'a>(keys: impl Iterator<Item = &'a [u8]>) -> Result<Option<u16>, Error> {
    let mut common = None;
    for key in keys {
        let slot = slot(key);
        if *common.get_or_insert(slot) != slot {
            return Err(Error::Config {
                what: "the keys of one call or read are in several slots of the cluster, and must be in one slot",
                source: None,
            });
        }
    }
    Ok(common)
}

/// The first half of the words after `STREAMS`; the other half are positions.
fn streams<'a>(words: impl Iterator<Item = &'a [u8]>) -> impl Iterator<Item = &'a [u8]> {
    let mut words = words.skip_while(|word| !word.eq_ignore_ascii_case(b"STREAMS"));
    words.next();
    let rest: Vec<_> = words.collect();
    let half = rest.len() / 2;
    rest.into_iter().take(half)
}

fn number(word: Option<&[u8]>) -> usize {
    word.and_then(|word| std::str::from_utf8(word).ok()?.parse().ok()).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn of(words: &str) -> Result<Option<u16>, Error> {
        let mut command = Cmd::new();
        words.split(' ').for_each(|word| {
            command.arg(word);
        });
        slot_of(&command)
    }

    #[test]
    fn a_key_is_found_wherever_it_stands() {
        for words in [
            "GET k",
            "get k",
            "SET k v",
            "XADD k * f v",
            "SPUBLISH k message",
            "NEWCOMMAND k other",
            "EVALSHA sha 1 k other",
            "EVAL script 2 k {k}2 other",
            "FCALL f 1 k",
            "XREAD COUNT 1 BLOCK 5 STREAMS k 0",
            "XREADGROUP GROUP g c STREAMS k {k}2 > >",
            "XREADGROUP GROUP streams streams COUNT 1 STREAMS k >",
            "xgroup CREATE k g 0",
            "XINFO STREAM k",
            "OBJECT ENCODING k",
            "BLMPOP 0 1 k LEFT",
            "ZMPOP 1 k MIN",
        ] {
            assert_eq!(of(words).unwrap(), Some(slot("k")), "{words}");
        }
    }

    #[test]
    fn a_command_without_a_key_goes_anywhere() {
        for words in ["PING", "INFO server", "SCRIPT LOAD k", "EVALSHA sha 0 k", "TIME", "XREAD", "GET"] {
            assert_eq!(of(words).unwrap(), None, "{words}");
        }
        assert_eq!(slot_of(&Cmd::new()).unwrap(), None);
        assert_eq!(of("SCAN 17").unwrap(), of("SCAN 0").unwrap());
        assert_eq!(of("SCAN 0").unwrap(), Some(0));
    }

    #[test]
    fn a_script_or_a_read_over_several_slots_is_refused() {
        for words in ["EVALSHA sha 2 a b", "XREAD STREAMS a b 0 0", "EVAL s 3 a a b"] {
            assert!(matches!(of(words), Err(Error::Config { .. })), "{words}");
        }
        assert_eq!(of("EVALSHA sha 1 a b").unwrap(), Some(slot("a")));
    }
}
