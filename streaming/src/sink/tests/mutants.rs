//! Mutants of a consumer's scripts: each leaves one line out or inverts it.

use tenure_testing::mutants::{self, Mutant};

/// The broken promise, the file, the original text, its replacement, and the test that notices.
const MUTANTS: &[Mutant] = tenure_testing::mutants! {
    "other settings do not matter": "agree.lua", "if others and is_shared then return {0, others} end"
        => "", by "sink::calls::tests::settings_hold_while_another_consumer_lives";
    "settings hold for ever": "agree.lua", " and consumer.idle < tonumber(ARGV[7]) then"
        => " then", by "sink::calls::tests::settings_hold_while_another_consumer_lives";
    "a consumer holds up itself": "agree.lua", "name ~= own and name ~= ARGV[6]"
        => "name ~= ARGV[6]", by "sink::calls::tests::settings_hold_while_another_consumer_lives";
    "those who have left hold settings": "agree.lua", "name ~= own and name ~= ARGV[6]"
        => "name ~= own", by "sink::calls::tests::settings_hold_while_another_consumer_lives";
    "a look gets in": "agree.lua", "if ARGV[8] == '1' then"
        => "if true then", by "sink::calls::tests::settings_hold_while_another_consumer_lives";
    "old settings stay beside the new ones": "agree.lua", "if others then redis.call('XGROUP', 'DELCONSUMER', key, group, others) end"
        => "", by "sink::calls::tests::settings_hold_while_another_consumer_lives";
    "settings are not written down": "agree.lua", "if not is_agreed then redis.call('XGROUP', 'CREATECONSUMER', key, group, settings) end"
        => "", by "sink::calls::tests::settings_hold_while_another_consumer_lives";
    "a consumer that has not read holds no settings": "agree.lua", "redis.call('XGROUP', 'CREATECONSUMER', key, group, own)"
        => "", by "sink::calls::tests::settings_hold_while_another_consumer_lives";
    "a group that is gone is an error": "agree.lua", "is_missing = consumers.err and string.find(consumers.err, 'NOGROUP', 1, true)"
        => "is_missing = false", by "sink::calls::tests::a_group_without_settings_gets_those_of_its_first_sink";
    "any error is a group that is gone": "agree.lua", "if consumers.err and not is_missing then return consumers end"
        => "", by "sink::calls::tests::a_group_without_settings_gets_those_of_its_first_sink";
    "a missing group is not made": "agree.lua", "if is_missing then redis.call('XGROUP', 'CREATE', key, group, ARGV[3], 'MKSTREAM') end"
        => "", by "sink::calls::tests::a_group_without_settings_gets_those_of_its_first_sink";
    "a consumer with pending entries is deleted": "bury.lua", " and consumer.pending == 0 then"
        => " then", by "sink::calls::tests::a_consumer_is_never_deleted_with_something_pending";
    "a live consumer is deleted": "bury.lua", " and consumer.idle >= idle"
        => "", by "sink::calls::tests::a_consumer_is_never_deleted_with_something_pending";
    "a consumer deletes itself": "bury.lua", "consumer.name ~= ARGV[2] and "
        => "", by "sink::calls::tests::a_consumer_is_never_deleted_with_something_pending";
    "settings are buried": "bury.lua", "    is_agreed = true\n  elseif"
        => "    is_agreed = true\n  end\n  if", by "sink::calls::tests::a_consumer_is_never_deleted_with_something_pending";
    "a burial under other settings": "bury.lua", "if not is_agreed then"
        => "if false then", by "sink::calls::tests::settings_hold_while_another_consumer_lives";
    "a look for the dead is no sign of life": "bury.lua", "redis.call('XREADGROUP', 'GROUP', ARGV[1], ARGV[2], 'COUNT', 1, 'STREAMS', KEYS[1],\n  '18446744073709551615-18446744073709551614')\n"
        => "", by "sink::calls::tests::a_consumer_that_looks_for_dead_ones_counts_as_alive";
    "a sign of life takes what is new": "bury.lua", "'18446744073709551615-18446744073709551614'"
        => "'>'", by "sink::calls::tests::a_consumer_that_looks_for_dead_ones_counts_as_alive";
    "a claim under other settings": "claim.lua", "ARGV[7]) == 1 then"
        => "ARGV[7]) == 2 then", by "sink::calls::tests::settings_hold_while_another_consumer_lives";
    "a look for settings leaves its own": "claim.lua", "  redis.call('XGROUP', 'DELCONSUMER', KEYS[1], ARGV[1], ARGV[7])\n"
        => "", by "sink::calls::tests::settings_hold_while_another_consumer_lives";
    "a claim looks at one page": "claim.lua", "until #claimed[2] > 0 or from == '0-0' or looked_at >= tonumber(ARGV[6])"
        => "until true", by "sink::calls::tests::old_entries_are_claimed_behind_any_number_of_young_ones";
    "young entries are claimed": "claim.lua", "ARGV[2], ARGV[3], from"
        => "ARGV[2], 0, from", by "sink::calls::tests::old_entries_are_claimed_behind_any_number_of_young_ones";
    "each claim is the first delivery": "claim.lua", "pending[1] and pending[1][4] or 1"
        => "1", by "sink::calls::tests::a_consumer_is_never_deleted_with_something_pending";
    "another's entries are taken": "take.lua", "ARGV[i], ARGV[i], 1, ARGV[2])"
        => "ARGV[i], ARGV[i], 1)", by "sink::calls::tests::a_consumer_takes_keeps_and_releases_its_own_entries_only";
    "removed entries are counted": "take.lua", "if entry[1] then"
        => "if true then", by "sink::calls::tests::an_entry_taken_again_counts_its_own_deliveries";
    "a delivery is not counted": "take.lua", "pending[1][4] + 1"
        => "pending[1][4]", by "sink::calls::tests::a_consumer_takes_keeps_and_releases_its_own_entries_only";
    "another's entries are kept": "hold.lua", "ARGV[i], ARGV[i], 1, ARGV[2])[1]"
        => "ARGV[i], ARGV[i], 1)[1]", by "sink::calls::tests::a_consumer_takes_keeps_and_releases_its_own_entries_only";
    "removed entries are kept": "hold.lua", "if claimed[1] then held[#held + 1] = claimed[1] end"
        => "held[#held + 1] = ARGV[i]", by "sink::calls::tests::a_consumer_takes_keeps_and_releases_its_own_entries_only";
    "released entries are kept": "hold.lua", "ARGV[i], 'TIME', 1, 'JUSTID')"
        => "ARGV[i], 'IDLE', 0, 'JUSTID')", by "sink::calls::tests::old_entries_are_claimed_behind_any_number_of_young_ones";
    "kept entries are released": "hold.lua", "ARGV[i], 'IDLE', 0, 'JUSTID')"
        => "ARGV[i], 'TIME', 1, 'JUSTID')", by "sink::calls::tests::a_kept_entry_is_not_claimed_by_others";
    "a page of what is left is all": "leave.lua", "1, ARGV[2]) > 0 then return 1 end"
        => "1, ARGV[2]) > 0 then return 0 end", by "sink::calls::tests::a_consumer_leaves_all_it_has_to_others";
    "a leaving consumer is deleted with its entries": "leave.lua", "if #redis.call('XPENDING', KEYS[1], ARGV[1], '-', '+', 1, ARGV[2]) > 0 then return 1 end"
        => "", by "sink::calls::tests::a_consumer_leaves_all_it_has_to_others";
    "entries left wait for the grace": "leave.lua", "  ids[#ids + 1] = 'TIME'\n  ids[#ids + 1] = 1\n"
        => "", by "sink::calls::tests::a_consumer_leaves_all_it_has_to_others";
    "a consumer that leaves stays": "leave.lua", "redis.call('XGROUP', 'DELCONSUMER', KEYS[1], ARGV[1], ARGV[2])"
        => "", by "sink::calls::tests::a_consumer_leaves_all_it_has_to_others";
};

#[test]
fn mutants_of_a_consumers_scripts_are_caught() {
    mutants::check(concat!(env!("CARGO_MANIFEST_DIR"), "/src/lua"), MUTANTS);
}
