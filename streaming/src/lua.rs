//! The table of scripts. The header of each file states the contract.

use tenure_connection::scripts;

scripts! {
    pub(crate) static in "lua/";
    ACK_AND_REMOVE = "streaming.ack_and_remove": "ack_and_remove";
    ADD = "streaming.add": "add";
    ADD_ONCE = "streaming.add_once": "add_once";
    AGREE = "streaming.agree": "agree";
    BURY = "streaming.bury": "bury";
    CLAIM = "streaming.claim": "claim";
    DESTROY = "streaming.destroy": "destroy";
    HOLD = "streaming.hold": "hold";
    LEAVE = "streaming.leave": "leave";
    TAKE = "streaming.take": "take";
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
