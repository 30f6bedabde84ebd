//! Mutants of the scripts: each leaves one line out or inverts it.

use tenure_testing::mutants::{self, Mutant};

/// The broken promise, the file, the original text, its replacement, and the test that notices.
const MUTANTS: &[Mutant] = tenure_testing::mutants! {
    "numbers are compared as Lua's": "decimal.lua", "if #a ~= #b then return #a < #b end\n  return a < b"
        => "return tonumber(a) < tonumber(b)", by "failing::a_former_owner_can_neither_save_nor_claim";
    "numbers are compared as words": "decimal.lua", "if #a ~= #b then return #a < #b end"
        => "", by "stores::a_stored_progress_is_never_lowered";
    "a former owner claims": "claim-1.lua", "if less(ARGV[2], token) then return { 'FENCED', token } end"
        => "", by "failing::a_former_owner_can_neither_save_nor_claim";
    "a claim does not raise the token": "claim-1.lua", "'1|' .. ARGV[2] .. '|' .. index)"
        => "'1|0|' .. index)", by "failing::a_former_owner_can_neither_save_nor_claim";
    "a claim begins anew": "claim-1.lua", "token, index = string.match(kept"
        => "token = string.match(kept", by "checklist::initialising_is_idempotent";
    "a damaged progress is claimed": "claim-1.lua", "if not token then return { 'DAMAGED' } end"
        => "if not token then token, index = '0', '0' end", by "failing::a_damaged_progress_is_an_error_and_stays";
    "a former owner saves": "save-1.lua", "if less(ARGV[2], token) then return { 'FENCED', token } end"
        => "", by "failing::a_former_owner_can_neither_save_nor_claim";
    "a save lowers": "save-1.lua", "if less(index, stored) then index = stored end"
        => "", by "stores::a_stored_progress_is_never_lowered";
    "a damaged progress is saved over": "save-1.lua", "if not token then return { 'DAMAGED' } end"
        => "if not token then token, stored = '0', '0' end", by "failing::a_damaged_progress_is_an_error_and_stays";
    "an input appends twice": "append-5.lua", "if before then"
        => "if false then", by "logs::an_input_appends_once";
    "a late input appends": "append-5.lua", "if input <= floor then"
        => "if false then", by "logs::an_input_appends_once";
    "inputs are kept for ever": "append-5.lua", "redis.call('ZREMRANGEBYSCORE', inputs, '-inf', floor)"
        => "", by "logs::an_input_appends_once";
    "the floor is forgotten": "append-5.lua", "redis.call('HSET', floors, log, string.format('%.0f', floor))"
        => "", by "logs::an_input_appends_once";
    "an input is not noted": "append-5.lua", "redis.call('ZADD', inputs, input, ARGV[3] .. ':' .. first .. ':' .. count)"
        => "", by "logs::an_input_appends_once";
    "another type is found too late": "append-5.lua", "redis.call('XLEN', stream)"
        => "", by "logs::keys_of_another_kind_are_found_before_anything_is_written";
    "another type of the heads is found too late": "append-5.lua", "redis.call('HLEN', heads)"
        => "", by "logs::keys_of_another_kind_are_found_before_anything_is_written";
    "the head stays": "append-5.lua", "redis.call('HSET', heads, log, last)"
        => "", by "logs::a_log_numbers_its_bodies_without_a_hole";
    "nobody is told": "append-5.lua", "redis.call('SPUBLISH', channel, last .. ' ' .. log)"
        => "", by "logs::an_append_tells_the_consumer_of_the_log_at_once";
    "a read goes on behind a hole": "read-3.lua", "if i == 1 then return { 1, index } end\n    break"
        => "", by "logs::a_hole_in_a_log_ends_the_read_before_it";
    "what is gone is missing": "read-3.lua", "if i == 1 then return { 1, index } end"
        => "", by "logs::a_trimmed_index_is_gone_and_not_missing";
    "what is gone at the end is missing": "read-3.lua", "if tonumber(head) >= first then"
        => "if false then", by "logs::a_trimmed_index_is_gone_and_not_missing";
    "numbers that were given again are waited for": "read-3.lua", "if head + 1 < first then return { 2, head } end"
        => "", by "logs::a_log_that_has_lost_its_end_ends_its_consumers";
    "an entry has no mark": "append-5.lua", ", 'm', mark)"
        => ")", by "logs::indexes_that_a_loss_has_freed_are_not_taken_for_those_read";
    "another entry is taken for the one that was read": "read-3.lua", "if mark ~= '' and reply[2] ~= mark then return { 3 } end"
        => "", by "logs::indexes_that_a_loss_has_freed_are_not_taken_for_those_read";
    "a read without a body learns no mark": "read-3.lua", "reply[2] = entries[1][2][4] or ''"
        => "if mark ~= '' then reply[2] = entries[1][2][4] end", by "logs::indexes_that_a_loss_has_freed_are_not_taken_for_those_read";
    "a read gives more than it was asked for": "read-3.lua", "entries[most + 1] = nil"
        => "", by "logs::a_log_that_is_trimmed_up_to_the_progress_is_read_on";
};

#[test]
fn mutants_of_the_scripts_are_noticed() {
    mutants::check(concat!(env!("CARGO_MANIFEST_DIR"), "/src/lua"), MUTANTS);
}
