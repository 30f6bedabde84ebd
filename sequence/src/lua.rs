//! The table of scripts. The header of each file states the contract.

use std::sync::LazyLock;

use tenure_connection::Script;

macro_rules! scripts {
    ($($(#[$doc:meta])* $name:ident = $script:literal: $flags:literal $(, $file:literal)+;)*) => {
        $(
            $(#[$doc])*
            pub(crate) static $name: LazyLock<Script> = LazyLock::new(|| {
                let source = concat!("#!lua", $flags, "\n", $(include_str!(concat!("lua/", $file, ".lua"))),+);
                Script::new(concat!("sequence.", $script), source)
            });
        )*

        #[cfg(test)]
        const ALL: &[&LazyLock<Script>] = &[$(&$name),*];
    };
}

// Claims and saves need next to no memory. Done jobs must not run again, and no consumer must stand still, because others
// have filled the server.
scripts! {
    /// Adds bodies to a log.
    APPEND = "append": "", "append-5";
    /// Claims the progress of a consumer.
    CLAIM = "claim": " flags=allow-oom", "decimal", "claim-1";
    /// Reads bodies of a log.
    READ = "read": " flags=no-writes", "read-3";
    /// Saves the progress of a consumer.
    SAVE = "save": " flags=allow-oom", "decimal", "save-1";
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
