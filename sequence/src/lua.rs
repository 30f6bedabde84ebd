//! The table of scripts. The header of each file states the contract.

use tenure_connection::scripts;

// Claims and saves need next to no memory. Done jobs must not run again, and no consumer must stand still, because others
// have filled the server.
scripts! {
    pub(crate) static in "lua/";
    APPEND = "sequence.append" ["#!lua"]: "append-5";
    CLAIM = "sequence.claim" ["#!lua flags=allow-oom"]: "decimal", "claim-1";
    READ = "sequence.read" ["#!lua flags=no-writes"]: "read-3";
    SAVE = "sequence.save" ["#!lua flags=allow-oom"]: "decimal", "save-1";
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_script_changes_by_accident() {
        let list = concat!(env!("CARGO_MANIFEST_DIR"), "/src/lua/pins.txt");
        tenure_testing::pins::check(list.as_ref(), ALL.iter().map(|script| (script.name(), script.source())));
    }
}
