//! The Lua of replicated maps.

use tenure_connection::scripts;

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

// When the memory is full, only scripts that free memory work. The header of each file states the contract.
scripts! {
    pub(crate) static in "lua/";
    READ = "rmap.read": "read-2+";
    DESTROY = "rmap.destroy": "destroy-3";
    EXPIRE = "rmap.expire" ["#!lua flags=allow-oom"]: "change", "expire-3";
    SET = "rmap.set" ["#!lua"]: "change", "own", "set-3";
    SET_MANY = "rmap.set_many" ["#!lua"]: "change", "own", "set_many-3";
    SET_IF_ABSENT = "rmap.set_if_absent" ["#!lua"]: "change", "own", "set_if_absent-3";
    TEST_AND_SET = "rmap.test_and_set" ["#!lua"]: "change", "own", "test_and_set-3";
    TEST_AND_DELETE = "rmap.test_and_delete" ["#!lua flags=allow-oom"]: "change", "own", "test_and_delete-3";
    TEST_AND_RESET = "rmap.test_and_reset" ["#!lua flags=allow-oom"]: "change", "own", "test_and_reset-3";
    INCREMENT = "rmap.increment" ["#!lua"]: "change", "own", "increment-3";
    APPEND = "rmap.append" ["#!lua"]: "change", "own", "list", "append-3";
    APPEND_UNIQUE = "rmap.append_unique" ["#!lua"]: "change", "own", "list", "append_unique-3";
    REMOVE_VALUES = "rmap.remove_values" ["#!lua flags=allow-oom"]: "change", "own", "list", "remove_values-3";
    DELETE = "rmap.delete" ["#!lua flags=allow-oom"]: "change", "own", "delete-3";
    DELETE_MANY = "rmap.delete_many" ["#!lua flags=allow-oom"]: "change", "own", "delete_many-3";
    RESET = "rmap.reset" ["#!lua flags=allow-oom"]: "change", "own", "reset-3";
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Layout;

    #[test]
    fn no_script_changes_by_accident() {
        let list = concat!(env!("CARGO_MANIFEST_DIR"), "/src/lua/pins.txt");
        tenure_testing::pins::check(list.as_ref(), ALL.iter().map(|script| (script.name(), script.source())));
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
        for script in ALL {
            let shebang = match script.name() {
                "rmap.read" => "#!lua flags=no-writes\n",
                name if freeing.iter().any(|script| script.name() == name) => "#!lua flags=allow-oom\n",
                _ => "#!lua\n",
            };
            assert!(script.source().starts_with(shebang), "{}", script.name());
            assert_eq!(script.source().matches("#!lua").count(), 1, "{}", script.name());
            for word in ["KEYS", "ARGV", "Returns: "] {
                assert!(script.source().contains(word), "{}: {word}", script.name());
            }
        }
    }
}
