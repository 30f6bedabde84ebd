//! The Lua of replicated maps.

use std::sync::LazyLock;

use tenure_connection::Script;

/// Lua source of a function that changes a replicated map inside a bigger script:
///
/// ```lua
/// local function mapput(name, hash, meta, rev_field, channel, inc, changes, deadlines)
/// ```
///
/// The first five and `deadlines` are those of the map's [`Layout`](crate::Layout). `inc` is the value that the script
/// has read from the field `inc_field` of `meta`. `changes` is `{ field, value, ... }`, each field once, where a value
/// is
/// - a string: the entry is permanent,
/// - `{ string, deadline }`: the entry ends at that time of the server's clock, in ms since the Unix epoch, as text
///   (`string.format('%.0f', ms)`); only with `deadlines`, the key of the sorted set that keeps them,
/// - `false`: the entry is deleted.
///
/// `changes.clear = true` deletes all existing entries first. The function makes one revision: it writes the fields,
/// the revision and its stamp, publishes one message, and returns revision and stamp as text. The change extends a
/// sliding life of the map (`Expiry`).
///
/// The script declares `hash`, `meta` and `deadlines` as keys, which lie in one slot with the channel. It may call the
/// function any number of times. A key of another type, or a deadline without `deadlines`, raises before anything is
/// written. A right that the user lacks may raise later: then the copies read the map. Values of a map in its own keys
/// have at most [`Layout::MAX_VALUE`](crate::Layout::MAX_VALUE) bytes.
///
/// A script that changes a map in another way (a new incarnation, a deleted hash) publishes `cmsgpack.pack({'*', inc})`
/// or `cmsgpack.pack({'closed', inc})`. All copies then read every map on that channel again.
pub const CHANGE: &str = include_str!("lua/change.lua");

/// Reads a map.
pub(crate) static READ: LazyLock<Script> =
    LazyLock::new(|| Script::new("rmap.read", include_str!("lua/read-2+.lua")));

/// Deletes a map.
pub(crate) static DESTROY: LazyLock<Script> =
    LazyLock::new(|| Script::new("rmap.destroy", include_str!("lua/destroy-3.lua")));

/// Deletes due entries of a map.
pub(crate) static EXPIRE: LazyLock<Script> = LazyLock::new(|| {
    let source =
        concat!("#!lua flags=allow-oom\n", include_str!("lua/change.lua"), include_str!("lua/expire-3.lua"));
    Script::new("rmap.expire", source)
});

macro_rules! change {
    ($name:ident, $file:literal, $flags:literal $(, $part:literal)?) => {
        /// The file's header states the contract.
        pub(crate) static $name: LazyLock<Script> = LazyLock::new(|| {
            let source = concat!(
                "#!lua", $flags, "\n",
                include_str!("lua/change.lua"),
                include_str!("lua/own.lua"),
                $(include_str!(concat!("lua/", $part, ".lua")),)?
                include_str!(concat!("lua/", $file, "-3.lua")),
            );
            Script::new(concat!("rmap.", $file), source)
        });
    };
}

// When the memory is full, only scripts that free memory work.
change!(SET, "set", "");
change!(SET_MANY, "set_many", "");
change!(SET_IF_ABSENT, "set_if_absent", "");
change!(TEST_AND_SET, "test_and_set", "");
change!(TEST_AND_DELETE, "test_and_delete", " flags=allow-oom");
change!(TEST_AND_RESET, "test_and_reset", " flags=allow-oom");
change!(INCREMENT, "increment", "");
change!(APPEND, "append", "", "list");
change!(APPEND_UNIQUE, "append_unique", "", "list");
change!(REMOVE_VALUES, "remove_values", " flags=allow-oom", "list");
change!(DELETE, "delete", " flags=allow-oom");
change!(DELETE_MANY, "delete_many", " flags=allow-oom");
change!(RESET, "reset", " flags=allow-oom");

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Layout;

    #[test]
    fn no_script_changes_by_accident() {
        let scripts = [
            &READ,
            &DESTROY,
            &EXPIRE,
            &SET,
            &SET_MANY,
            &SET_IF_ABSENT,
            &TEST_AND_SET,
            &TEST_AND_DELETE,
            &TEST_AND_RESET,
            &INCREMENT,
            &APPEND,
            &APPEND_UNIQUE,
            &REMOVE_VALUES,
            &DELETE,
            &DELETE_MANY,
            &RESET,
        ];
        let list = concat!(env!("CARGO_MANIFEST_DIR"), "/src/lua/pins.txt");
        tenure_testing::pins::check(list.as_ref(), scripts.map(|script| (script.name(), script.source())));
    }

    #[test]
    fn lists_grow_as_long_as_values_may_be() {
        let limits = format!("local LONGEST, MOST = {}, {}\n", Layout::MAX_VALUE, Layout::MAX_ITEMS);
        assert!(APPEND.source().contains(&limits));
    }

    #[test]
    fn scripts_state_their_contract_and_delete_when_memory_is_full() {
        let freeing = [
            &DESTROY,
            &EXPIRE,
            &TEST_AND_DELETE,
            &TEST_AND_RESET,
            &REMOVE_VALUES,
            &DELETE,
            &DELETE_MANY,
            &RESET,
        ];
        let adding = [&SET, &SET_MANY, &SET_IF_ABSENT, &TEST_AND_SET, &INCREMENT, &APPEND, &APPEND_UNIQUE];
        for (script, shebang) in freeing
            .map(|script| (script, "#!lua flags=allow-oom\n"))
            .into_iter()
            .chain(adding.map(|script| (script, "#!lua\n")))
            .chain([(&READ, "#!lua flags=no-writes\n")])
        {
            assert!(script.source().starts_with(shebang), "{}", script.name());
            assert_eq!(script.source().matches("#!lua").count(), 1, "{}", script.name());
            for word in ["KEYS", "ARGV", "Returns: "] {
                assert!(script.source().contains(word), "{}: {word}", script.name());
            }
        }
    }
}
