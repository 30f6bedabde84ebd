//! The table of scripts. The header of each file states the contract.

use std::sync::LazyLock;

use tenure_connection::Script;

macro_rules! scripts {
    ($($name:ident = $file:literal),* $(,)?) => {
        $(
            pub(crate) static $name: LazyLock<Script> = LazyLock::new(|| {
                Script::new(concat!("streaming.", $file), include_str!(concat!("lua/", $file, ".lua")))
            });
        )*

        #[cfg(test)]
        const ALL: &[&LazyLock<Script>] = &[$(&$name),*];
    };
}

scripts! {
    ACK_AND_REMOVE = "ack_and_remove",
    ADD = "add",
    ADD_ONCE = "add_once",
    AGREE = "agree",
    BURY = "bury",
    CLAIM = "claim",
    DESTROY = "destroy",
    HOLD = "hold",
    LEAVE = "leave",
    TAKE = "take",
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
