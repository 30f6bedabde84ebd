//! Mutants of the scripts that add, acknowledge and destroy: each leaves one line out or inverts it. Those of a
//! consumer's scripts are in `src/sink/tests/mutants.rs`.

use tenure_testing::mutants::{self, Mutant};

/// The broken promise, the file, the original text, its replacement, and the test that notices.
const MUTANTS: &[Mutant] = tenure_testing::mutants! {
    "removed entries stay pending": "ack_and_remove.lua", "redis.call('XACK', KEYS[1], ARGV[1], unpack(ARGV, 2))"
        => "0", by "sink::consumers_share_a_cursor_and_other_groups_get_copies";
    "acknowledged entries stay": "ack_and_remove.lua", "redis.call('XDEL', KEYS[1], unpack(ARGV, 2))"
        => "", by "sink::consumers_share_a_cursor_and_other_groups_get_copies";
    "an entry that needs a stream makes one": "add.lua", "if ARGV[1] == '1' and redis.call('EXISTS', key) == 0 then return false end"
        => "", by "stream::a_topic_goes_along_and_only_if_exists_creates_nothing";
    "an absolute life begins anew": "add.lua", "if ARGV[5] == 'NX' then"
        => "if false then", by "stream::each_entry_extends_a_sliding_life_but_not_an_absolute_one";
    "somebody else's key expires": "add.lua", "  redis.call('XLEN', key)\n"
        => "", by "stream::another_kind_of_key_is_a_typed_error";
    "a life that cannot be set is found too late": "add.lua", "expires = expire() == 1"
        => "", by "stream::an_add_that_fails_in_part_adds_nothing_however_often_tried";
    "a stream that begins has no life": "add.lua", "if not expires then expire() end"
        => "", by "stream::each_entry_extends_a_sliding_life_but_not_an_absolute_one";
    "a batch has no greatest length": "add.lua", "if max == '' then"
        => "if true then", by "stream::a_batch_is_added_in_order_in_one_step";
    "no id is known": "add_once.lua", "if ends and tonumber(ends) > now then"
        => "if false then", by "stream::an_entry_is_added_once_for_an_id";
    "an id is known for ever": "add_once.lua", "if ends and tonumber(ends) > now then"
        => "if ends then", by "stream::ids_are_forgotten_when_their_window_is_over";
    "an id without an entry is known": "add_once.lua", "if known and #known > 40 then"
        => "if known then", by "stream::an_add_that_fails_in_part_adds_nothing_however_often_tried";
    "other content is the same entry": "add_once.lua", "if string.sub(known, 1, 40) ~= digest then"
        => "if false then", by "stream::an_entry_is_added_once_for_an_id";
    "fields have no borders": "add_once.lua", "#ARGV[i] .. ':' .. ARGV[i]"
        => "ARGV[i]", by "stream::an_entry_is_added_once_for_an_id";
    "an entry that is known is added": "add_once.lua", "return {entry, 1}"
        => "return {entry, 0}", by "stream::an_entry_is_added_once_for_an_id";
    "another kind of key is found too late": "add_once.lua", "redis.call('XLEN', key)\n"
        => "", by "stream::another_kind_of_key_is_a_typed_error";
    "an entry with an id makes a stream": "add_once.lua", "if ARGV[1] == '1' and redis.call('EXISTS', key) == 0 then return false end"
        => "", by "stream::a_topic_goes_along_and_only_if_exists_creates_nothing";
    "the digests of ids are kept for ever": "add_once.lua", "  redis.call('HDEL', ids, unpack(over))\n"
        => "", by "stream::ids_are_forgotten_when_their_window_is_over";
    "ids are kept for ever": "add_once.lua", "  redis.call('ZREM', due, unpack(over))\n"
        => "", by "stream::ids_are_forgotten_when_their_window_is_over";
    "ids that are known are forgotten": "add_once.lua", "'-inf', now, 'LIMIT', 0, 16)"
        => "'-inf', '+inf', 'LIMIT', 0, 16)", by "stream::ids_are_forgotten_when_their_window_is_over";
    "a wrong type of the ids is found too late": "add_once.lua", "redis.call('HSET', ids, id, digest)\n"
        => "", by "stream::an_add_that_fails_in_part_adds_nothing_however_often_tried";
    "an id has no window": "add_once.lua", "redis.call('ZADD', due, now + window, id)"
        => "", by "stream::an_entry_is_added_once_for_an_id";
    "a short window ends a long one": "add_once.lua", "if redis.call('PTTL', due) < window then"
        => "if true then", by "stream::ids_are_forgotten_when_their_window_is_over";
    "the digests outlive their ids": "add_once.lua", "  redis.call('PEXPIRE', ids, window)\n"
        => "", by "stream::ids_are_forgotten_when_their_window_is_over";
    "ids outlive their windows": "add_once.lua", "  redis.call('PEXPIRE', due, window)\n"
        => "", by "stream::ids_are_forgotten_when_their_window_is_over";
    "an absolute life begins anew with an id": "add_once.lua", "if ARGV[5] == 'NX' then"
        => "if false then", by "stream::each_entry_extends_a_sliding_life_but_not_an_absolute_one";
    "a stream that begins with an id has no life": "add_once.lua", "if not expires then expire() end"
        => "", by "stream::each_entry_extends_a_sliding_life_but_not_an_absolute_one";
    "an entry with an id does not trim": "add_once.lua", "if ARGV[3] == '' then"
        => "if true then", by "stream::a_stream_has_a_greatest_length";
    "an id does not know its entry": "add_once.lua", "redis.call('HSET', ids, id, digest .. entry)"
        => "", by "stream::an_entry_is_added_once_for_an_id";
    "a destroyed stream leaves its ids": "destroy.lua", "redis.call('UNLINK', KEYS[2], KEYS[3])\n"
        => "", by "stream::an_entry_is_added_once_for_an_id";
    "a destroyed stream leaves when ids end": "destroy.lua", "KEYS[2], KEYS[3])"
        => "KEYS[2])", by "stream::an_entry_is_added_once_for_an_id";
    "a destroyed stream stays": "destroy.lua", "return redis.call('UNLINK', KEYS[1])"
        => "return 1", by "stream::entries_are_added_looked_at_and_removed";
    "a filtered sink gets into any group": "agree.lua", "if others and is_shared then"
        => "if false then", by "settings::a_filtered_sink_takes_nothing_from_one_that_wants_all";
    "a group begins at its oldest entry": "agree.lua", "'CREATE', key, group, ARGV[3]"
        => "'CREATE', key, group, '0'", by "sink::a_new_group_begins_where_it_is_told_to";
    "a sink that lost its settings reads on": "claim.lua", "ARGV[7]) == 1 then"
        => "ARGV[7]) == 2 then", by "settings::a_sink_notices_that_its_group_has_other_settings";
};

#[test]
fn mutants_of_scripts_are_caught() {
    mutants::check(concat!(env!("CARGO_MANIFEST_DIR"), "/src/lua"), MUTANTS);
}
