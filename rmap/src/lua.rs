//! The Lua of replicated maps.

use std::sync::LazyLock;

use tenure_connection::Script;

/// Lua source of a function that changes a replicated map inside a bigger script:
///
/// ```lua
/// local function mapput(name, hash, meta, rev_field, channel, inc, changes)
/// ```
///
/// `changes` is `{ field, value or false, ... }`; `false` deletes. The function writes the fields into `hash`, adds
/// one to `rev_field` of `meta`, publishes one message of that revision on `channel` and returns the revision as
/// text. The caller has read `inc`, the incarnation in `meta`, in the same script; it declares `hash` and `meta` as
/// keys. Nothing in it raises once it has begun to write, provided that the keys have the right types.
///
/// A script that changes a map in another way (a new incarnation, a deleted hash) publishes
/// `cmsgpack.pack({'*', inc})` or `cmsgpack.pack({'closed', inc})`: every map on that channel is read again.
pub const CHANGE: &str = include_str!("lua/change.lua");

/// KEYS: meta hash. See the file for the rest.
pub(crate) static READ: LazyLock<Script> =
    LazyLock::new(|| Script::new("rmap.read", include_str!("lua/read.lua")));

macro_rules! write_script {
    ($name:ident, $file:literal, $flags:literal) => {
        /// KEYS: meta hash. See the file for the rest.
        pub(crate) static $name: LazyLock<Script> = LazyLock::new(|| {
            let source = concat!(
                "#!lua",
                $flags,
                "\n",
                include_str!("lua/incarnation.lua"),
                include_str!("lua/change.lua"),
                include_str!(concat!("lua/", $file, ".lua")),
            );
            Script::new(concat!("rmap.", $file), source)
        });
    };
}

write_script!(SET, "set", "");
write_script!(SET_IF_ABSENT, "set_if_absent", "");
write_script!(TEST_AND_SET, "test_and_set", "");
write_script!(DELETE, "delete", " flags=allow-oom");
write_script!(RESET, "reset", " flags=allow-oom");
