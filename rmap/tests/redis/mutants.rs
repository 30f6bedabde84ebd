//! Mutants of the scripts: each leaves one line out or inverts it.

use tenure_testing::mutants::{self, Mutant};

/// The broken promise, the file, the original text, its replacement, and the test that notices.
const MUTANTS: &[Mutant] = tenure_testing::mutants! {
    "a change makes no revision": "change.lua", "(tonumber(head[1]) or 0) + 1"
        => "(tonumber(head[1]) or 0)", by "operations::writes_reach_every_copy_and_conditions_hold_for_all";
    "a cleared map is told as any change": "change.lua", "size, message[6] = 6, true"
        => "size = 5", by "operations::a_reset_map_is_empty_everywhere_and_stays_usable";
    "a field that goes keeps its deadline": "change.lua", "gone[#gone + 1], lasting[#lasting + 1] = field, field"
        => "gone[#gone + 1] = field", by "expiry::an_entry_ends_everywhere_and_its_end_is_told_as_a_change";
    "a field that stays keeps its deadline": "change.lua", "set[#set + 1], lasting[#lasting + 1] = field, field"
        => "set[#set + 1] = field", by "expiry::each_write_gives_its_entries_the_life_of_its_handle";
    "deadlines are not written": "change.lua", "each('ZADD', deadlines, dated)"
        => "", by "expiry::each_write_gives_its_entries_the_life_of_its_handle";
    "deadlines stay": "change.lua", "if not head.undated then each('ZREM', deadlines, lasting) end"
        => "", by "expiry::each_write_gives_its_entries_the_life_of_its_handle";
    "a thousand words and no more": "change.lua", "for i = 1, #words, 1000 do"
        => "for i = 1, 1 do", by "operations::many_keys_change_as_one_revision";
    "a deadline without a place for it": "change.lua", "if dated[1] and not deadlines then"
        => "if false then", by "scripts::a_deadline_needs_a_key_for_deadlines";
    "another type is found too late": "change.lua", "call('HGET', hash, '')"
        => "", by "following::a_write_to_keys_of_another_type_writes_nothing";
    "another type of the deadlines is found too late": "change.lua", "if deadlines then call('ZSCORE', deadlines, '') end"
        => "", by "halves::a_key_of_another_type_is_found_before_anything_is_written";
    "a place has no stamp": "change.lua", "rev_field, rev, at_field, stamp)"
        => "rev_field, rev)", by "operations::writes_reach_every_copy_and_conditions_hold_for_all";
    "a cleared map keeps its entries": "change.lua", "call('UNLINK', hash, deadlines or hash)"
        => "call('UNLINK', deadlines or hash)", by "scripts::a_custom_script_changes_a_map_with_deadlines_and_clears_it";
    "a cleared map keeps its deadlines": "change.lua", "call('UNLINK', hash, deadlines or hash)"
        => "call('UNLINK', hash)", by "scripts::a_custom_script_changes_a_map_with_deadlines_and_clears_it";
    "a change does not move the end of the map": "change.lua", "if head[3] then"
        => "if false then", by "expiry::every_write_moves_the_end_of_a_map_with_a_sliding_life";
    "the entries outlive the map": "change.lua", "{ meta, hash, deadlines } or {}"
        => "{ meta, deadlines } or {}", by "expiry::every_write_moves_the_end_of_a_map_with_a_sliding_life";
    "the deadlines outlive the map": "change.lua", "{ meta, hash, deadlines } or {}"
        => "{ meta, hash } or {}", by "expiry::every_write_moves_the_end_of_a_map_with_a_sliding_life";
    "nobody is told of a change": "change.lua", "call('SPUBLISH', channel, cmsgpack.pack(message))"
        => "", by "operations::many_keys_change_as_one_revision";
    "leftovers are taken for the map": "own.lua", "    redis.call('UNLINK', META, HASH, DUE)\n"
        => "", by "operations::leftovers_under_the_keys_are_not_taken_for_the_map";
    "leftovers count as present values": "own.lua", "  if not inc then\n    local none = {}"
        => "  if false then\n    local none = {}", by "operations::leftovers_under_the_keys_are_not_taken_for_the_map";
    "each change begins another map": "own.lua", "redis.call('HSET', META, 'inc', inc)"
        => "", by "operations::writes_reach_every_copy_and_conditions_hold_for_all";
    "a map has no life": "own.lua", "if life ~= '' then redis.call('HSET', META, 'rev:ttl', life) end"
        => "", by "expiry::every_write_moves_the_end_of_a_map_with_a_sliding_life";
    "an absolute life counts from 1970": "own.lua", "if from_now then life = string.format('@%.0f', now + from_now) end"
        => "", by "expiry::a_map_with_an_absolute_life_ends_as_a_whole_and_begins_anew";
    "entries have no life": "own.lua", "return { value, string.format('%.0f', now + ARGV[4]) }"
        => "return value", by "expiry::each_write_gives_its_entries_the_life_of_its_handle";
    "entries end as they begin": "own.lua", "now + ARGV[4])"
        => "now)", by "expiry::each_write_gives_its_entries_the_life_of_its_handle";
    "due entries stay": "own.lua", "if first[1] and tonumber(first[2]) <= now then"
        => "if false then", by "expiry::conditions_are_judged_by_the_servers_clock";
    "due entries after the first are not looked for": "own.lua", "'-inf', now, 'LIMIT', 0, 16)"
        => "'-inf', now, 'LIMIT', 0, 1)", by "expiry::conditions_are_judged_by_the_servers_clock";
    "due entries that were left are found": "own.lua", "if deadline and tonumber(deadline) <= now then values[i] = false end"
        => "", by "expiry::conditions_are_judged_by_the_servers_clock";
    "entries that are not due are absent": "own.lua", "if deadline and tonumber(deadline) <= now then"
        => "if deadline then", by "expiry::entries_that_are_not_due_stay_however_many_others_are_due";
    "a deletion of nothing is a revision": "delete-3.lua", "if not before then return {} end"
        => "", by "operations::writes_reach_every_copy_and_conditions_hold_for_all";
    "a deletion does not say what was there": "delete-3.lua", "return { inc, rev, stamp, before }"
        => "return { inc, rev, stamp }", by "operations::writes_reach_every_copy_and_conditions_hold_for_all";
    "absent keys count as deleted": "delete_many-3.lua", "if present(ARGV[i]) then"
        => "if true then", by "operations::many_keys_change_as_one_revision";
    "a deletion of none is a revision": "delete_many-3.lua", "if size == 0 then return {} end"
        => "", by "operations::many_keys_change_as_one_revision";
    "a destroyed map leaves its deadlines": "destroy-3.lua", "KEYS[1], KEYS[2], KEYS[3])"
        => "KEYS[1], KEYS[2])", by "operations::a_destroyed_map_leaves_no_key_and_can_be_begun_again";
    "a destroyed map leaves its entries": "destroy-3.lua", "KEYS[1], KEYS[2], KEYS[3])"
        => "KEYS[1], KEYS[3])", by "operations::a_destroyed_map_leaves_no_key_and_can_be_begun_again";
    "nobody is told of the end of a map": "destroy-3.lua", "if inc then redis.call('SPUBLISH'"
        => "if false then redis.call('SPUBLISH'", by "operations::a_destroyed_map_leaves_no_key_and_can_be_begun_again";
    "there always was a map": "destroy-3.lua", "return inc and 1 or 0"
        => "return 1", by "operations::a_destroyed_map_leaves_no_key_and_can_be_begun_again";
    "entries end before they are due": "expire-3.lua", "'-inf', now, 'LIMIT'"
        => "'-inf', '+inf', 'LIMIT'", by "expiry::an_entry_ends_at_its_own_deadline_not_with_others";
    "entries end one by one": "expire-3.lua", "'LIMIT', 0, ARGV[5])"
        => "'LIMIT', 0, 1)", by "expiry::many_entries_end_with_one_revision_for_many";
    "due entries are deleted without a message": "expire-3.lua", "if #due > 0 then mapput("
        => "if #due > 0 then redis.call('HDEL', KEYS[2], unpack(due)) redis.call('ZREM', KEYS[3], unpack(due)) end if false then mapput(",
        by "expiry::an_entry_ends_everywhere_and_its_end_is_told_as_a_change";
    "a number begins anew": "increment-3.lua", "if before then"
        => "if false then", by "operations::increment_counts_with_64_bits_and_refuses_other_values";
    "an overflow counts as a malformed number": "increment-3.lua", "if string.find(sum.err, 'overflow', 1, true) then"
        => "if false then", by "operations::increment_counts_with_64_bits_and_refuses_other_values";
    "text is an error of another kind": "increment-3.lua", "if string.find(sum.err, 'not an integer', 1, true) then"
        => "if false then", by "operations::increment_counts_with_64_bits_and_refuses_other_values";
    "a sum stays": "increment-3.lua", "put({ ARGV[5], entry(sum) })"
        => "put({ ARGV[5], sum })", by "expiry::each_write_gives_its_entries_the_life_of_its_handle";
    "bytes after a list belong to it": "list.lua", "if not fine or rest ~= -1 then"
        => "if not fine then", by "lists::a_value_that_is_no_list_is_left_as_it_is";
    "a list may have numbers": "list.lua", "if type(list[i]) ~= 'string' then return nil end"
        => "", by "lists::a_value_that_is_no_list_is_left_as_it_is";
    "a map is a list": "list.lua", "if not length then return nil end"
        => "length = length or 0", by "lists::a_value_that_is_no_list_is_left_as_it_is";
    "a list has fifteen items": "list.lua", "if kind == 220 and b then return a * 256 + b end"
        => "", by "lists::a_list_grows_with_each_kind_of_header";
    "a list has 65,535 items": "list.lua", "if kind == 221 and d then return ((a * 256 + b) * 256 + c) * 256 + d end"
        => "", by "lists::a_list_does_not_grow_beyond_the_most_items";
    "a list of too many items cannot shrink": "list.lua", "if #list > MOST and #list > before then"
        => "if #list > MOST then", by "lists::a_list_that_is_too_long_may_be_shortened";
    "a list has any number of items": "list.lua", "if #list > MOST and #list > before then"
        => "if false then", by "lists::a_list_does_not_grow_beyond_the_most_items";
    "a list that is too long cannot shrink": "list.lua", "if #value > LONGEST and #list > before then"
        => "if #value > LONGEST then", by "lists::a_list_that_is_too_long_may_be_shortened";
    "a list has any length": "list.lua", "if #value > LONGEST and #list > before then"
        => "if false then", by "lists::a_list_does_not_grow_beyond_the_longest_value";
    "an empty list is a value": "list.lua", "if #list > 0 then"
        => "if true then", by "lists::a_list_that_becomes_empty_is_deleted";
    "a list stays": "list.lua", "    value = entry(value)\n"
        => "", by "expiry::each_write_gives_its_entries_the_life_of_its_handle";
    "a list is appended to what is none": "append-3.lua", "if not list then return no_list end"
        => "list = list or {}", by "lists::a_value_that_is_no_list_is_left_as_it_is";
    "an appended item takes another's place": "append-3.lua", "list[length + i - 5] = ARGV[i]"
        => "list[i - 5] = ARGV[i]", by "lists::items_of_any_bytes_survive";
    "append says how long a list was": "append-3.lua", "length + #ARGV - 5)"
        => "length)", by "lists::items_of_any_bytes_survive";
    "append_unique takes anything for a list": "append_unique-3.lua", "if not list then return no_list end"
        => "list = list or {}", by "lists::a_value_that_is_no_list_is_left_as_it_is";
    "items in a list are appended again": "append_unique-3.lua", "for i = 1, length do known[list[i]] = true end"
        => "", by "lists::append_unique_appends_each_missing_item_once";
    "an item given twice is appended twice": "append_unique-3.lua", "known[ARGV[i]], length = true, length + 1"
        => "length = length + 1", by "lists::append_unique_appends_each_missing_item_once";
    "nothing appended is a revision": "append_unique-3.lua", "if length == before then return {} end"
        => "", by "lists::append_unique_appends_each_missing_item_once";
    "remove_values takes anything for a list": "remove_values-3.lua", "if not list then return no_list end"
        => "list = list or {}", by "lists::a_value_that_is_no_list_is_left_as_it_is";
    "nothing is removed": "remove_values-3.lua", "if not unwanted[item] then"
        => "if true then", by "lists::a_list_that_becomes_empty_is_deleted";
    "nothing removed is a revision": "remove_values-3.lua", "if length == #list then return {} end"
        => "", by "lists::a_list_that_becomes_empty_is_deleted";
    "remove_values says how many are left": "remove_values-3.lua", "#list, #list - length)"
        => "#list, length)", by "lists::a_list_that_becomes_empty_is_deleted";
    "a known map is read again": "read-2+.lua", "if is_same then return reply end"
        => "", by "following::comparing_and_reconnecting_transfer_no_known_entries";
    "another history at a revision is the same": "read-2+.lua", "rev == ARGV[5] and stamp == ARGV[6]"
        => "rev == ARGV[5]", by "following::another_history_at_one_revision_is_found_without_a_message";
    "a map that is gone is the same": "read-2+.lua", "(not inc or rev == ARGV[5] and stamp == ARGV[6])"
        => "true", by "following::a_history_that_goes_back_is_found_without_a_message";
    "a map that is too big is read": "read-2+.lua", "if most and length > most then"
        => "if false then", by "big::a_big_map_gets_its_own_connection_which_is_not_kept";
    "deadlines are not read": "read-2+.lua", "local deadlines = KEYS[3] and redis"
        => "local deadlines = false and redis", by "expiry::each_write_gives_its_entries_the_life_of_its_handle";
    "the end of a map is not read": "read-2+.lua", "redis.call('PEXPIRETIME', KEYS[1])"
        => "-1", by "expiry::the_servers_expiry_decides_when_a_map_ends";
    "a reset begins a map": "reset-3.lua", "if not inc then return {} end"
        => "", by "operations::a_reset_map_is_empty_everywhere_and_stays_usable";
    "a reset deletes nothing": "reset-3.lua", "clear = true"
        => "", by "operations::a_reset_map_is_empty_everywhere_and_stays_usable";
    "set does not say what was there": "set-3.lua", "return { inc, rev, stamp, unpack(before) }"
        => "return { inc, rev, stamp, false }", by "operations::writes_reach_every_copy_and_conditions_hold_for_all";
    "a set entry is permanent": "set-3.lua", "entry(ARGV[i + 1])"
        => "ARGV[i + 1]", by "expiry::each_write_gives_its_entries_the_life_of_its_handle";
    "an existing key is set": "set_if_absent-3.lua", "if found then return { false, false, false, found } end"
        => "", by "operations::writes_reach_every_copy_and_conditions_hold_for_all";
    "an entry set if absent is permanent": "set_if_absent-3.lua", "entry(ARGV[6])"
        => "ARGV[6]", by "expiry::each_write_gives_its_entries_the_life_of_its_handle";
    "entries set together are permanent": "set_many-3.lua", "entry(ARGV[i + 1])"
        => "ARGV[i + 1]", by "expiry::each_write_gives_its_entries_the_life_of_its_handle";
    "test_and_delete deletes any value": "test_and_delete-3.lua", "if found ~= ARGV[6] then"
        => "if not found then", by "operations::test_and_delete_deletes_only_that_value";
    "test_and_reset resets at any value": "test_and_reset-3.lua", "if found ~= ARGV[6] then"
        => "if not found then", by "operations::test_and_reset_takes_all_or_nothing";
    "test_and_set sets over any value": "test_and_set-3.lua", "if found ~= ARGV[7] then"
        => "if not found then", by "operations::writes_reach_every_copy_and_conditions_hold_for_all";
    "an entry set over a value is permanent": "test_and_set-3.lua", "entry(ARGV[6])"
        => "ARGV[6]", by "expiry::each_write_gives_its_entries_the_life_of_its_handle";
};

#[test]
fn mutants_of_scripts_are_caught() {
    mutants::check(concat!(env!("CARGO_MANIFEST_DIR"), "/src/lua"), MUTANTS);
}
