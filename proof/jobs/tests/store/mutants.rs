//! Every line of a script that a promise rests on is left out once, and the scenario of its row must notice.
//!
//! `MUTANT="words"` tries only the mutants whose name has the words, and lists every scenario that notices them.

use std::sync::Mutex;

use tenure_jobs::store::ScriptPatch;
use tenure_testing::mutants::{self, Missed, Mutant, Trial};

use crate::lab::{PATCHES, Which};
use crate::{SUITES, Scenario};

const THREADS: usize = 4;

/// The name of each mutant, its script, the text, its replacement, and the scenario that notices it.
const MUTANTS: &[Mutant] = tenure_testing::mutants! {
    "counts of late queues stay wrong": "tick", "from_first or at ~= '' and ticks[4] == '1'"
        => "from_first", by "counts_of_more_queues_than_a_tick_sees_are_mended";
    "a count of delayed jobs stays wrong": "tick", "write_counts(bounded, 'delayed')"
        => "", by "delayed_jobs_that_are_none_fill_no_bounded_queue";
    "delayed jobs of all queues count": "tick", "if by_queue[queue] then by_queue[queue] = by_queue[queue] + 1 end"
        => "for name in pairs(by_queue) do by_queue[name] = by_queue[name] + 1 end", by "delayed_jobs_that_are_none_fill_no_bounded_queue";
    "a lost turn stays lost": "tick", "return not call('ZSCORE', TURNS, turn_member(g, g.tag))"
        => "return false", by "a_group_with_ready_jobs_comes_back_to_its_place";
    "a group without a timer waits for it": "tick", "return not call('ZSCORE', TIMERS, 'g:' .. g.key)"
        => "return false", by "a_group_with_ready_jobs_comes_back_to_its_place";
    "a group that stands nowhere stays there": "tick", "return g.paused == '' and (room > 0 or till > t)"
        => "return false", by "a_group_with_ready_jobs_comes_back_to_its_place";
    "a group is full for nothing": "tick", "if g.running ~= crowded[g.key] then"
        => "if false then", by "a_group_with_ready_jobs_comes_back_to_its_place";
    "a group that is mended wakes nobody": "tick", "local q = queue_of(with_groups[i])\n    if q.added > 0"
        => "local q = queue_of(with_groups[i])\n    if false", by "a_group_with_ready_jobs_comes_back_to_its_place";
    "late groups are not mended": "tick", "if at ~= '' then call('HSET', META, 'mended', at) elseif"
        => "if", by "groups_behind_many_others_come_back_to_their_place";
    "other queues hide late groups": "tick", "(with_groups[first] or is_last) and '' or from"
        => "''", by "groups_behind_many_others_come_back_to_their_place";
    "later ticks begin with their first groups": "tick", "if from ~= '' and from < began then return from end"
        => "", by "groups_behind_many_others_come_back_to_their_place";
    "nobody knows that a queue had groups": "declare", "redis.pcall('HSET', COUNTS, kind, pinned and 2 or 1)"
        => "do end", by "a_name_does_not_make_an_idle_queue_with_groups_plain";
    "jobs lose their groups with the settings": "", "q.grouped or not q.known and group ~= ''"
        => "q.grouped", by "jobs_keep_their_groups_while_settings_are_lost";
    "plain jobs are not kept as their queue says": "add", "if keep == '' then keep = kept end"
        => "if keep == '' then keep = '0' end", by "a_job_has_the_keep_of_its_queue";
    "jobs are not kept as their queue says": "add", "keep = keep == '' and num(q.keep) or keep"
        => "keep = keep == '' and '0' or keep", by "a_job_has_the_keep_of_its_queue";
    "plain executions have no terms": "take", "terms ~= '' and lease .. ',' .. terms or lease"
        => "lease", by "executions_have_the_terms_of_their_queue";
    "executions have no terms": "take", "(q.terms ~= '' and ',' .. q.terms or '')"
        => "''", by "executions_have_the_terms_of_their_queue";
    "a name declares a queue": "declare", "(q.known or had_groups())"
        => "had_groups()", by "a_queue_that_is_named_stays_as_it_is";
    "a name makes a queue with groups plain": "declare", "(q.known or had_groups())"
        => "q.known", by "a_name_does_not_make_a_queue_with_groups_plain";
    "a queue that was only named loses groups": "add", "kind.q.shut or kind.is_early"
        => "kind.q.shut", by "a_queue_that_was_only_named_becomes_of_any_kind";
    "a queue that was only named stays without groups": "declare", "and not (is_named(q) and is_blank())"
        => "", by "a_queue_that_was_only_named_becomes_of_any_kind";
    "a queue that was declared becomes of another kind": "declare", "is_named(q) and is_blank()"
        => "is_blank()", by "a_queue_that_was_only_named_becomes_of_any_kind";
    "a queue with jobs becomes of another kind": "declare", "is_named(q) and is_blank()"
        => "is_named(q)", by "a_queue_that_was_only_named_becomes_of_any_kind";
    "notes take the place of the data": "settle", "if mode == 'n' then set_notes(j, y) end"
        => "if mode == 'n' then set_body(j.id, y) end", by "notes_stay_through_failures_waits_and_a_replay";
    "a take without notes": "take", "'^%d*|%a*[wn]'"
        => "'^%d*|%a*w'", by "notes_stay_through_failures_waits_and_a_replay";
    "a take of groups without notes": "take", "local notes = find(flags, 'n', 1, true) and"
        => "local notes = false and", by "notes_stay_through_failures_waits_and_a_replay";
    "a repeated take without notes": "take", "local notes = has(j, 'n') and"
        => "local notes = false and", by "notes_stay_through_failures_waits_and_a_replay";
    "notes go to the next queue": "settle", "  forget_notes(j)\n  enter(j, 'Q')"
        => "  enter(j, 'Q')", by "notes_are_forgotten_in_the_next_queue";
    "notes meet other data": "add", "    forget_notes(j)\n    outdate(j)"
        => "    outdate(j)", by "other_data_from_outside_forget_the_notes";
    "notes meet other data at another time": "add", "if data or not waiting then forget_notes(j) end"
        => "", by "other_data_from_outside_forget_the_notes";
    "a child of a former life finds notes": "add", "  forget_notes(j)\n  begin(j, kind)"
        => "  begin(j, kind)", by "a_child_of_a_former_life_begins_without_notes";
    "a run once more finds notes": "settle", "and birth or nil)\n    forget_notes(j)"
        => "and birth or nil)", by "a_job_that_runs_once_more_begins_without_notes";
    "notes outlive their job": "settle", "if has(j, 'n') then noted[j.id] = false end"
        => "", by "notes_go_with_their_job";
    "watchers hear of no notes": "settle", "tell(j, body, nil, mode == 'n' and y)"
        => "tell(j, body)", by "watchers_hear_of_notes";
    "a start hides the last notes": "attest", "if data and (is_first or not runs) then"
        => "if data and not runs then", by "the_last_notes_come_back_where_data_have_the_start";
    "a late word takes notes back": "attest", "if data and (is_first or not runs) then"
        => "if data then", by "the_last_notes_come_back_where_data_have_the_start";
    "a second loss takes notes back": "attest", " or token == before and heard_in[id] ~= argv[1] then"
        => " then", by "the_last_notes_come_back_after_each_of_two_losses";
    "notes of another queue are adopted": "attest", "or j.queue ~= own.queue then forget_notes(j) end"
        => "then forget_notes(j) end", by "notes_of_another_queue_are_not_adopted";
    "older notes stay with a lost execution": "attest", "if notes then set_notes(j, notes) else forget_notes(j) end"
        => "if notes then set_notes(j, notes) end", by "notes_come_back_with_a_lost_execution";
    "a step is for any incarnation": "figures", "if meta[1] ~= argv[1] or"
        => "if", by "the_first_of_many_recovers";
    "a lane that cannot be read stops its caller": "settle", "local before = redis.pcall('GET', LANE)"
        => "local before = call('GET', LANE)", by "a_lane_that_cannot_be_read_is_none";
    "a lane that cannot be read stops a worker": "take", "local before = redis.pcall('GET', LANE)"
        => "local before = call('GET', LANE)", by "a_lane_that_cannot_be_read_is_none";
    "a lane without a number is compared": "add", "if number then\n"
        => "do number = tonumber(number) + 0\n", by "a_lane_that_cannot_be_read_is_none";
    "a count that is no number stops its queue": "take", "redis.pcall('HINCRBY', COUNTS, field, num(by))"
        => "call('HINCRBY', COUNTS, field, num(by))", by "a_count_that_cannot_be_read_stops_no_queue";
    "a count below nothing stays": "settle", "if n < 0 then call('HSET', COUNTS, field, 0) end"
        => "", by "a_count_that_cannot_be_read_stops_no_queue";
    "a full queue is counted once": "tick", "write_counts(full, 'running')"
        => "", by "a_count_that_is_full_for_nothing_is_counted_again";
    "a head without a counter is whole": "take", "or not (last and last >= 0) then"
        => "then last = last or 0", by "a_head_that_cannot_be_read_is_a_loss";
    "a damaged incarnation is told": "take", "incarnation_of(meta[1], meta[2])"
        => "meta[1]", by "a_head_that_cannot_be_read_is_a_loss";
    "a damaged head is found whole": "boot", "incarnation_of(head[1], head[2])"
        => "head[1]", by "a_head_that_cannot_be_read_is_a_loss";
    "a set is on hold for ever": "take", "return at <= t + 120000 and at or 0"
        => "return at", by "a_set_that_waits_for_longer_than_any_does_not_wait";
    "a set takes when its tokens are used up": "take", "if last >= LAST_TOKEN then return { 'NOTOKENS' } end"
        => "", by "tokens_end_before_one_comes_twice";
    "a set adds when its tokens are used up": "add", "if last >= LAST_TOKEN then return { 'NOTOKENS' } end"
        => "", by "tokens_end_before_one_comes_twice";
    "a step counts behind the last token": "settle", "if minted > LAST_TOKEN then minted = LAST_TOKEN else"
        => "do", by "tokens_end_before_one_comes_twice";
    "a recovery gives tokens out again": "recover", "if not (last and last >= token) then"
        => "if true then", by "tokens_end_before_one_comes_twice";
    "any token is believed": "recover", "return n and n >= 0 and n <= LAST_TOKEN and n or 0"
        => "return n or 0", by "a_token_that_no_set_gives_is_not_believed";
    "a group forgets what is ready": "take", "g.ready, strayed = ready_in(g), true"
        => "strayed = true", by "a_group_that_cannot_be_read_begins_anew";
    "a group is placed with its jobs only": "take", "if #ids > 0 or strayed then"
        => "if #ids > 0 then", by "a_group_that_cannot_be_read_begins_anew";
    "a damaged turn stops its queue": "add", "counted(redis.pcall('HGET', COUNTS, q.name .. '|turn'))"
        => "tonumber(call('HGET', COUNTS, q.name .. '|turn') or 0)", by "a_turn_that_cannot_be_read_begins_anew";
    "a member with a score stays": "tick", "call('ZADD', key, 0, found[i])"
        => "", by "a_member_with_a_score_hides_no_queue";
    "a stray waiter stays": "tick", "call('ZREM', WAITING, member)\n"
        => "\n", by "a_stray_waiter_holds_up_no_wake_up";
    "a damaged figure hides others": "figures", "num(counted(of[1]))"
        => "of[1] or '0'", by "figures_that_cannot_be_read_are_none";
    "a take writes before it knows its keys": "take", "call('ZADD', LEASES, unpack(leases))\n      call('ZREM', READY, unpack(members, 1, count))\n      call('HSET', JOBS, unpack(records))"
        => "call('ZREM', READY, unpack(members, 1, count))\n      call('HSET', JOBS, unpack(records))\n      call('ZADD', LEASES, unpack(leases))", by "a_step_that_is_refused_for_a_key_has_written_nothing";
    "an add writes before it knows its keys": "add", "call('ZSCORE', READY, '')\n    call('HSET', BODIES"
        => "call('HSET', BODIES", by "a_step_that_is_refused_for_a_key_has_written_nothing";
    "an end writes before it knows its keys": "settle", "call('HGET', BODIES, '')\n    call('ZREM', LEASES"
        => "call('ZREM', LEASES", by "a_step_that_is_refused_for_a_key_has_written_nothing";
    "a wait for nothing is no attempt": "settle", "if not is_news then"
        => "if false then", by "a_wait_for_nothing_again_is_an_attempt";
    "no child has ended before a wait": "settle", "flag(parent, 'h')\n"
        => "\n", by "a_child_that_ends_before_the_wait_is_news";
    "a child that has ended is news for ever": "settle", "unflag(j, 'oh')"
        => "unflag(j, 'o')", by "a_child_that_ends_before_the_wait_is_news";
    "a token comes twice": "take", "minted = max(floor(last) + 1, floor_at(t))"
        => "minted = max(floor(last), floor_at(t))", by "each_of_many_acceptors_gets_one_job";
    "an add that comes twice is made twice": "add", "if number == argv[2] then return { 'OK', answer } end"
        => "", by "an_add_that_is_sent_again_adds_once";
    "a late call is made": "add", "if #number > #argv[2] or #number == #argv[2] and number > argv[2] then return { 'LATE' } end"
        => "", by "a_late_call_does_nothing";
    "a late take is made": "take", "if #number > #argv[2] or #number == #argv[2] and number > argv[2] then return { 'LATE' } end"
        => "", by "a_late_call_does_nothing";
    "a former owner takes": "take", "#number == #argv[2] and number > argv[2] then"
        => "tonumber(number) > tonumber(argv[2]) then", by "a_former_owner_comes_too_late";
    "anybody takes from a pinned queue": "take", "if q.pinned ~= (q.group ~= nil) then return 0 end"
        => "", by "nobody_but_an_owner_takes_from_a_pinned_queue";
    "a former owner waits": "take", "if #former > 0 then call('ZREM', WAITING, unpack(former)) end"
        => "", by "nobody_but_the_last_owner_waits";
    "an owner is not woken": "add", "if q.pinned and more > 0 then"
        => "if false then", by "an_owner_is_woken_for_its_group_alone";
    "all of a pinned queue is woken": "add", "if not q.pinned then return wake(q.name, q.added) end"
        => "do return wake(q.name, q.added) end", by "an_owner_is_woken_for_its_group_alone";
    "a resumed queue forgets its owners": "steer", "if q.pinned then stir_pinned(q) end"
        => "", by "a_pinned_queue_that_is_resumed_wakes_its_owners";
    "owners that wait hold up other queues": "tick", "'^([^|/]+)([|/]?)'"
        => "'^([^|]+)|'", by "owners_that_wait_hold_up_no_other_queue";
    "owners that wait hide other queues": "tick", "if mark == '/' then"
        => "if false then", by "owners_that_wait_hide_no_queue_of_a_longer_name";
    "a job without a group enters a pinned queue": "add", "if kind.q.pinned and kind.group == '' then return 'G' end"
        => "", by "a_job_without_a_group_enters_no_pinned_queue";
    "a job without a group moves to a pinned queue": "settle", "if q.pinned and group == '' then return 'G' end"
        => "", by "a_job_without_a_group_enters_no_pinned_queue";
    "a group of a pinned queue runs several jobs": "steer", "if how == 'c' and value ~= '' and q.pinned then return 'O' end"
        => "", by "a_group_of_a_pinned_queue_has_no_other_concurrency";
    "a pinned queue becomes another": "declare", "q.pinned ~= pinned)"
        => "false)", by "a_queue_stays_pinned_or_not";
    "a take that comes twice gives what was lost": "take", "if j and j.state == 'R' and j.token == of then"
        => "if j then", by "a_take_that_is_sent_again_gives_nothing_that_was_lost";
    "jobs begin right after a loss": "take", "if hold > t then"
        => "if false then", by "no_job_begins_and_no_lease_is_lost_right_after_a_recovery";
    "a running job stays ready": "take", "call('ZREM', READY, unpack(members, 1, count))"
        => "", by "each_of_many_acceptors_gets_one_job";
    "a job runs without a lease": "take", "call('ZADD', LEASES, unpack(leases))"
        => "", by "a_job_begins_with_a_lease_under_a_token";
    "attempts are not counted": "take", "num(attempts + 1)"
        => "attempts", by "a_lost_lease_is_an_attempt";
    "a queue's running jobs are not counted": "take", "add_count(name .. '|running', taken[k])"
        => "", by "a_job_begins_with_a_lease_under_a_token";
    "a paused queue gives jobs": "take", "if q.shut or q.paused then return 0 end"
        => "if q.shut then return 0 end", by "a_paused_queue_gives_nothing";
    "a concurrency is none": "take", "if q.concurrency > 0 then\n    q.running"
        => "if false then\n    q.running", by "a_queue_has_a_concurrency";
    "a limit of a queue is not used up": "take", "q.meter.used = q.meter.used + q.taken"
        => "", by "a_queue_has_a_limit_in_each_window";
    "the end of a window wakes nobody": "take", "call('ZADD', TIMERS, num(q.till), 'g:' .. q.name)"
        => "", by "a_limit_that_is_over_wakes_a_node";
    "a limit of a group is not used up": "take", "if limit_of(g) > 0 then g.used = g.used + 1 end"
        => "", by "ten_jobs_of_two_groups_keep_to_their_reservoir";
    "a weight says nothing": "take", "g.tag + max(1, floor(100 / (tonumber(g.weight) or 1)))"
        => "g.tag + 100", by "a_group_has_turns_by_its_weight";
    "what is due later is taken": "take", "return until_ms ~= '' and not q.grouped and"
        => "return false and", by "only_what_is_scheduled_until_a_time_is_taken";
    "a node waits beside ready jobs": "take", "        if more then\n          out[4] = '1'\n        elseif slots > 0 then"
        => "        if slots > 0 then", by "a_large_answer_ends_early_and_says_so";
    "an answer has no bound": "take", "if bytes > 1048576 then break end"
        => "", by "a_large_answer_ends_early_and_says_so";
    "who is full keeps the wake-up": "take", "for i = 1, #others do wake(others[i], 1) end"
        => "", by "a_node_that_is_full_wakes_the_next";
    "who may take less is woken as soon": "take", "local behind = until_ms == '' and '' or fmt("
        => "local behind = true and '' or fmt(", by "a_node_that_may_take_a_job_is_woken_first";
    "who may take least is woken first": "take", "max(0, 8796093022208 - until_ms)"
        => "max(0, until_ms)", by "a_node_that_may_take_a_job_is_woken_first";
    "a registration stays": "take", "  redis.pcall('ZREM', WAITING, unpack(members))\nend\n\n-- The end of a call"
        => "end\n\n-- The end of a call", by "a_registration_is_taken_back";
    "a watched job begins unseen": "take", "find(flags, 'w', 1, true) and parse(id, record)"
        => "false", by "every_transition_is_told_once_with_its_number";
    "a late word takes a later watch back": "watch", "if last and last > own then own, stays = last, true end"
        => "", by "a_late_end_takes_back_no_later_watch";
    "an end is not kept for who did not hear": "settle", "flag(j, 'v')"
        => "", by "an_end_is_kept_for_a_node_that_did_not_hear";
    "a later end is not kept for who did not hear": "settle", "  unflag(j, 'xpoh')\n  if"
        => "  unflag(j, 'xpov')\n  if", by "an_end_is_kept_for_a_node_that_did_not_hear";
    "nobody is woken": "add", "if call('EXISTS', WAITING) == 0 then return end"
        => "do return end", by "a_node_that_waits_is_woken_by_a_job";
    "who is gone counts as woken": "add", "call('SPUBLISH', CHANNEL .. node, 'w|' .. queue) > 0"
        => "call('SPUBLISH', CHANNEL .. node, 'w|' .. queue) >= 0", by "a_node_that_is_gone_is_passed_over";
    "a job is added over another": "add", "if j and (mode == 'k' or parent or"
        => "if j and (parent or", by "a_job_is_added_once";
    "look-ups of one that is added again are lost": "add", "letter == 'A' or letter == 'U' or letter == 'N'"
        => "letter == 'A'", by "one_that_is_added_again_is_found_by_its_new_look_ups";
    "a running job gets other look-ups": "add", "letter == 'A' or letter == 'U' or letter == 'N'"
        => "letter == 'A' or letter == 'U' or letter == 'R' or letter == 'N'", by "one_that_runs_is_found_as_before";
    "a job that comes anew belongs to its former work": "add", "j.correlation = kind.correlation\n    set_body(j.id, data)"
        => "set_body(j.id, data)", by "a_job_belongs_to_the_work_that_added_it_last";
    "a job that has other data belongs to its former work": "add", "j.correlation = kind.correlation\n    set_body(j.id, body)"
        => "set_body(j.id, body)", by "a_job_belongs_to_the_work_that_added_it_last";
    "former look-ups stay": "add", "if has(j, 'l') then drop_lookups(j) end"
        => "", by "one_that_is_added_again_is_found_by_its_new_look_ups";
    "a job of another queue is added again": "add", "j and j.queue ~= kind.q.name and not"
        => "j and false and not", by "one_of_another_queue_stays";
    "a queue has no bound": "add", "  if over and not has_room(kind.q) then return 'B' end\n  if j then return again"
        => "  if j then return again", by "a_queue_that_is_full_refuses_more";
    "a delay counts from nowhere": "add", "byte(text) == 43 and t + sub(text, 2)"
        => "byte(text) == 43 and 0 + sub(text, 2)", by "a_delay_and_a_life_count_from_the_call";
    "a delay is none": "add", "if state == 'Q' and j.due > t then state = 'D' end"
        => "", by "nothing_runs_before_its_time";
    "a head start is none": "add", "(tonumber(due) > 0 and due or t) - priority * step"
        => "(tonumber(due) > 0 and due or t)", by "a_strict_priority_goes_first";
    "a later state gives way to an attested one": "attest", "tonumber(j.token) >= token)"
        => "false)", by "a_later_state_stays";
    "a new life gives way to an attested one": "attest", "j.birth > own.birth or"
        => "", by "a_new_life_of_a_job_is_no_execution_of_the_old_one";
    "what was said to have ended is made again": "attest", "if not j and (body == '' or"
        => "if not j and (", by "what_runs_is_made_again_after_a_loss_of_all_data";
    "an attested job loses its data": "attest", "    set_body(id, data)\n"
        => "", by "an_older_state_gives_way_to_what_runs";
    "an attested job has no lease": "attest", "if #leases > 0 then call('ZADD', LEASES, unpack(leases)) end"
        => "", by "what_runs_is_made_again_after_a_loss_of_all_data";
    "an attested token comes again": "attest", "call('HSET', META, 'token', num(highest))"
        => "local _ = 0", by "what_runs_is_made_again_after_a_loss_of_all_data";
    "an attested job is not counted": "attest", "count(q.name, 'running', 1)"
        => "", by "an_older_state_gives_way_to_what_runs";
    "an attested job of a group is not counted": "attest", "g.running = g.running + 1"
        => "", by "what_runs_is_made_again_after_a_loss_of_all_data";
    "an attested job keeps its old place": "attest", "leave(j)\n  -- Notes"
        => "-- Notes", by "an_older_state_gives_way_to_what_runs";
    "a lost child is not counted again": "attest", "parent.open = parent.open + 1"
        => "", by "a_lost_child_is_counted_again";
    "a parent that comes back has no children": "attest", "  count_children(own)\n"
        => "", by "a_lost_child_is_counted_again";
    "a counted child counts again": "attest", "or call('ZSCORE', INDEX, 'c:' .. child) then"
        => "then", by "a_lost_child_is_counted_again";
    "an execution is made again twice": "attest", " or token <= before"
        => "", by "an_execution_is_made_again_once";
    "an execution that was made again is forgotten": "attest", "bury(id, q.lease, token)"
        => "false", by "an_execution_is_made_again_once";
    "a job is made again after its lease": "attest", " or t >= hold + q.lease"
        => "", by "a_job_is_made_again_while_its_lease_lasts";
    "what was heard of stays": "tick", "no_extras[#no_extras + 1] = 'a:' .. of"
        => "", by "an_execution_is_made_again_once";
    "what waits is met by an earlier run": "add", "forget_notes(j)\n    outdate(j)"
        => "forget_notes(j)", by "a_request_after_a_loss_is_not_met_by_what_ran_before_it";
    "what waits for another time is met by an earlier run": "add", "if waiting then\n    outdate(j)\n  else"
        => "if not waiting then", by "a_request_after_a_loss_is_not_met_by_what_ran_before_it";
    "the same again is met by an earlier run": "add", "if t < grace then outdate(j) end"
        => "", by "a_request_after_a_loss_is_not_met_by_what_ran_before_it";
    "a cancelled job goes on": "steer", "  outdate(j)\n  leave(j)\n  finish"
        => "  leave(j)\n  finish", by "what_is_removed_or_cancelled_after_a_loss_stays_so";
    "a cancelled job that is not kept comes back": "steer", "changed[j.id] = j\n  bury(j.id, queue_of(j.queue).lease)"
        => "changed[j.id] = j", by "what_is_removed_or_cancelled_after_a_loss_stays_so";
    "a removed job comes back": "steer", "local may_come = bury(j.id, queue_of(j.queue).lease)"
        => "local may_come = true", by "what_is_removed_or_cancelled_after_a_loss_stays_so";
    "a job that is there anew has its former birth": "add", "  j.birth = birth or birth_at(999)\n"
        => "", by "each_life_has_a_birth_of_its_own";
    "a job that runs again has its former birth": "settle", "  j.birth = birth or birth_at(999)\n"
        => "", by "each_life_has_a_birth_of_its_own";
    "an end that is repeated makes another life": "settle", "renew_life(j, birth > j.birth and birth or nil)"
        => "renew_life(j)", by "a_repeated_end_leaves_the_run_after_it_alone";
    "a replayed job has its former birth": "steer", "  j.birth = birth or birth_at(999)\n"
        => "", by "each_life_has_a_birth_of_its_own";
    "a birth follows the clock": "add", "local birth = fmt('%011x%03x', floor(mint() / 4096) + 1735689600000, mint() % 4096)"
        => "local birth = line", by "each_life_has_a_birth_of_its_own";
    "a tick does what it has settled": "tick", "if timers[due[i]] ~= nil then"
        => "if false then", by "a_parent_that_ends_while_its_own_goes_takes_all_along";
    "a tick clears all children": "tick", "children = children - abandon(of, children)"
        => "abandon(of, most)", by "a_tick_clears_so_many_children_of_all_parents";
    "a later failure of a child is named": "settle", "and not is_over(parent) and not has(parent, 'b') then"
        => "and not is_over(parent) then", by "a_parent_that_comes_to_wait_names_the_first_failure";
    "a parent that ends keeps the name of a failed child": "settle", "  forget_failure(j)\n  unflag(j, 'xpoh')"
        => "  unflag(j, 'xpobh')", by "the_failure_of_a_child_is_forgotten_with_its_parents_life";
    "a parent that is removed leaves the name of a failed child": "steer", "if has(j, 'b') then no_extras[#no_extras + 1] = 'b:' .. j.id .. '#' .. j.birth end\n"
        => "", by "the_failure_of_a_child_is_forgotten_with_its_parents_life";
    "a child fails another life of its parent": "settle", "  forget_failure(j)\n  if has(j, 'e') then"
        => "  if has(j, 'e') then", by "the_failure_of_a_child_is_forgotten_with_its_parents_life";
    "a child of a former life is not counted": "add", "if j and parent and is_former(j, parent) then"
        => "if false then", by "children_of_a_former_life_run_for_the_new_one";
    "a former life keeps its child": "add", "if j.parent ~= '' then call('ZREM', INDEX, 'o:' .. j.parent .. '|' .. j.id) end"
        => "", by "children_of_a_former_life_run_for_the_new_one";
    "a child keeps the deadline of its former life": "add", "  leave(j)\n  set_deadline(j, kind)\n"
        => "  leave(j)\n", by "a_child_that_is_taken_over_has_its_new_deadline";
    "a running child keeps the deadline of its former life": "add", "    set_deadline(j, kind)\n    j.again"
        => "    j.again", by "a_child_that_is_taken_over_has_its_new_deadline";
    "a lost child of a removed parent goes on": "attest", "timers[taken] = t\n"
        => "", by "a_lost_child_of_a_removed_parent_goes_with_it";
    "a lost child is not found by its removed parent": "attest", "if id and call('ZSCORE', TIMERS, taken) then"
        => "if false then", by "a_lost_child_of_a_removed_parent_goes_with_it";
    "a removed parent has no children to come": "steer", "if has(j, 'c') or may_come then"
        => "if has(j, 'c') then", by "a_lost_child_of_a_removed_parent_goes_with_it";
    "a removed parent takes along the first children alone": "tick", "tonumber(call('ZSCORE', TIMERS, 'a:' .. match(of, '^[^#]*'))) or false"
        => "false", by "a_lost_child_of_a_removed_parent_goes_with_it";
    "a lost child of an ended life goes on": "attest", "if is_over_there then flag(j, 'x') end"
        => "", by "a_lost_child_of_an_ended_life_is_cancelled";
    "a stranger with the name of a child becomes one": "add", "return (is_over(j) or has(j, 'x')) and"
        => "return", by "a_stranger_with_the_name_of_a_child_stays";
    "a stranger becomes a child": "add", "  return (is_over(j) or has(j, 'x')) and sub"
        => "  do return true end\n  return sub", by "children_of_a_former_life_run_for_the_new_one";
    "a call takes any number of jobs": "take", "want - #ids, 128 - #ids,"
        => "want - #ids,", by "a_call_takes_so_many_jobs_at_most";
    "what is not there is resubmitted": "add", "if not j and mode == 'e' then return 'M' end"
        => "", by "what_is_not_there_is_not_resubmitted";
    "a resubmitted job loses its data": "add", "(mode ~= 'e' or body ~= '') and body or nil"
        => "body", by "a_resubmit_keeps_the_data_unless_there_are_others";
    "a run that was resubmitted is lost": "settle", "elseif mode == 'a' then\n    call('ZADD', LEASES, 'XX', num(t + queue_of(j.queue).lease), j.id)"
        => "elseif mode == 'a' then", by "a_run_asks_for_another_one_under_its_token";
    "a resubmit is forgotten": "settle", "j.again = num(tonumber(x))"
        => "", by "a_run_asks_for_another_one_under_its_token";
    "a resubmit outweighs a request to cancel": "settle", "if has(j, 'x') then return 'Z' end\n    j.again"
        => "j.again", by "a_run_that_is_cancelled_asks_for_no_other";
    "the same again is written": "add", "if mode == 's' or mode == 'e' then"
        => "if false then", by "one_that_waits_gets_another_time_and_data";
    "data of the same moment are not written": "add", "if mode == 's' or mode == 'e' then"
        => "if true then", by "one_that_waits_gets_other_data_and_keeps_its_place";
    "data of the same moment are not told": "add", "tell(j, body)\n    return 'U'"
        => "return 'U'", by "one_that_waits_gets_other_data_and_keeps_its_place";
    "a job with data of the same moment goes to the back": "add", "if waiting and j.due == kind.due then"
        => "if waiting and j.due == kind.due and mode == 's' then", by "one_that_waits_gets_other_data_and_keeps_its_place";
    "a running job gets other data": "add", "j.again = num(kind.due)"
        => "j.again = num(kind.due)\n    set_body(j.id, body)", by "one_that_runs_runs_once_more_with_its_data";
    "a child is made twice": "add", "if child and (call('ZSCORE', INDEX, 'o:' .. child) or call('ZSCORE', INDEX, 'c:' .. child)) then return 'E' end"
        => "", by "children_are_made_once_though_their_parent_runs_again";
    "anybody adds children": "add", "if not takes(parent) then return 'H' end"
        => "if not parent then return 'H' end", by "a_stranger_adds_no_children";
    "a child is not counted": "add", "parent.open = parent.open + 1"
        => "", by "a_parent_goes_on_when_the_last_child_has_ended";
    "a parent without children waits for ever": "add", "if j.open == 0 and not has(j, 'o') then"
        => "if false then", by "a_parent_without_children_waits_for_nothing";
    "a deadline is none": "add", "    timers['r:' .. id] = kind.deadline\n    arm(kind.deadline)\n  end\nend\n\n-- The deadline of"
        => "  end\nend\n\n-- The deadline of", by "a_job_fails_at_its_deadline";
    "any token ends an execution": "settle", "elseif j and j.state == 'R' and j.token == token then"
        => "elseif j and j.state == 'R' then", by "another_token_changes_nothing";
    "a lease outlives its execution": "settle", "  unleased[#unleased + 1] = id\n"
        => "", by "a_job_moves_on_in_the_same_step";
    "a lease outlives an execution that failed": "settle", "unleased[#unleased + 1] = j.id"
        => "", by "a_job_that_is_given_back_keeps_its_attempts";
    "any token ends a plain execution": "settle", "and sub(record, 1, #start) == start\n      and match"
        => "and match", by "another_token_changes_nothing";
    "a plain execution ends twice": "settle", "record and not seen[id] and"
        => "record and", by "an_execution_is_settled_once_in_a_call";
    "a free slot of a plain queue wakes nobody": "settle", "|%d+|[^|]*|%d+|%-?%d+|%-?%d+|%d+|%d+|0|') ~= nil"
        => "|') ~= nil", by "a_slot_that_is_free_again_wakes_a_node";
    "a plain job that is done has its lease": "settle", "call('ZREM', LEASES, unpack(argv, base + 1, base + n))"
        => "", by "a_plain_job_that_is_done_leaves_nothing";
    "a plain job that is done is there": "settle", "call('HDEL', JOBS, unpack(argv, base + 1, base + n))"
        => "", by "a_plain_job_that_is_done_leaves_nothing";
    "a plain job that is done has its data": "settle", "call('HDEL', BODIES, unpack(argv, base + 1, base + n))"
        => "", by "a_plain_job_that_is_done_leaves_nothing";
    "a parent that is kept forgets its children": "settle", "||([djl]*)||0|([1-9]%d*)|"
        => "||([cdjl]*)||%d+|([1-9]%d*)|", by "a_kept_parent_that_ends_first_leaves_no_open_child";
    "a deadline outlives its job": "settle", "flags = gsub(flags, 'd', '')"
        => "", by "what_is_kept_is_kept_without_its_deadline";
    "whoever is watched moves on unseen": "settle", "||([dfjl]*|[^|]*|"
        => "||([dfjlw]*|[^|]*|", by "a_watched_job_moves_on_in_sight";
    "a job that moves on wakes nobody": "settle", "  q.added = q.added + 1\n  return true"
        => "  return true", by "a_job_that_moves_on_wakes_a_node";
    "a watched job begins unseen by those of a plain queue": "take", "if not attempts or find(rest, '^%d*|%a*[wn]') then"
        => "if not attempts then", by "every_transition_is_told_once_with_its_number";
    "a paused queue is plain": "take", "'^%-|(%d+)|([^|]*)|%d+|%-?%d+|%-?%d+|%d+|%d+|0|0|'"
        => "'^[p-]+|(%d+)|([^|]*)|%d+|%-?%d+|%-?%d+|%d+|%d+|0|0|'", by "a_paused_queue_gives_nothing";
    "a limited queue is plain": "take", "%d+|%d+|0|0|')"
        => "%d+|%d+|0|')", by "a_queue_has_a_limit_in_each_window";
    "attempts have no end": "settle", "or most > 0 and j.attempts >= most then"
        => "then", by "a_job_fails_for_good_after_its_last_attempt";
    "an error is not kept": "settle", "  set_result(j, text)\n  if delay > 0"
        => "  if delay > 0", by "a_failed_job_goes_before_what_came_later";
    "giving back is an attempt": "settle", "j.attempts = max(0, j.attempts - 1)"
        => "", by "a_job_that_is_given_back_keeps_its_attempts";
    "a job takes its attempts along": "settle", "'1|Q', of, '0', '', ''"
        => "'1|Q', of, '1', '', ''", by "a_job_moves_on_in_the_same_step";
    "a job moves to nowhere": "settle", "if not q or q.shut then return 'P' end"
        => "", by "a_job_that_moves_to_nowhere_still_runs";
    "a cancelled job is tried again": "settle", "if has(j, 'x') then return finish(j, 'X', 'cancelled') end\n  if j.again"
        => "if j.again", by "a_job_that_runs_is_asked_to_end";
    "a job that was asked for again is gone": "settle", "if j.again ~= '' then\n    -- This end"
        => "if false then\n    -- This end", by "one_that_runs_runs_once_more_with_its_data";
    "another life has the children of the former": "settle", "    unflag(j, 'ch')\n    j.open = 0\n"
        => "", by "children_of_another_life_do_not_count";
    "a result is kept for ever": "settle", "timers['r:' .. id] = t + keep"
        => "", by "a_result_is_kept_for_its_time";
    "a dead letter is not listed": "settle", "if state == 'F' then call('ZADD', INDEX"
        => "if false then call('ZADD', INDEX", by "a_dead_letter_is_listed_and_replayed";
    "look-ups stay": "settle", "if has(j, 'l') then"
        => "if false then", by "look_ups_come_and_go_with_their_jobs";
    "a parent does not hear of its children": "settle", "if counts_for(j) then count_child(j, state, text) end"
        => "", by "a_parent_goes_on_when_the_last_child_has_ended";
    "an open parent does not wait for more": "settle", "elseif parent.open == 0 and not has(parent, 'o') then"
        => "elseif parent.open == 0 then", by "an_open_parent_waits_for_more";
    "a first failure fails nobody": "settle", "if state ~= 'C' and has(parent, 'f') then"
        => "if false then", by "the_first_failure_fails_a_parent_that_wants_it";
    "a failure before its parent waits is forgotten": "settle", "if has(j, 'b') then\n      local child"
        => "if false then\n      local child", by "a_failure_counts_though_its_parent_does_not_wait_yet";
    "what a child came to is not kept": "settle", "call('HSET', EXTRAS, 'c:' .. of .. '|' .. j.id, state .. text)"
        => "", by "a_parent_goes_on_when_the_last_child_has_ended";
    "a limited group goes on": "settle", "g.blocked = max(g.blocked, tonumber(argument))"
        => "", by "a_limited_group_waits_and_others_go_on";
    "a window is forgotten with its jobs": "settle", "if n > 0 and g.used > 0 then ends = max(ends, g.window + w) end"
        => "", by "a_window_outlives_the_jobs_of_its_group";
    "a group's running jobs are not counted down": "settle", "    local g = group_of(q, group)\n    g.running = max(0, g.running - 1)"
        => "", by "a_group_of_concurrency_one_is_in_order";
    "a free slot wakes nobody": "settle", "  if q.concurrency > 0 then q.free = q.free + 1 end\nend\n\n-- A success that nobody"
        => "end\n\n-- A success that nobody", by "a_slot_that_is_free_again_wakes_a_node";
    "news have no numbers": "settle", "j.news = j.news + 1"
        => "", by "every_transition_is_told_once_with_its_number";
    "what is watched is dropped at once": "settle", "if keep >= 0 and (has(j, 'w') or has(j, 'v')) then keep = max(keep, 60000) end"
        => "", by "what_is_watched_is_kept_for_a_minute";
    "who does not hear is told for ever": "settle", "if call('SPUBLISH', CHANNEL .. node, message) > 0 then"
        => "if call('SPUBLISH', CHANNEL .. node, message) >= 0 then", by "a_node_that_does_not_hear_is_forgotten";
    "a running job of a group stays ready": "take", "if #gone > 0 then call('ZREM', READY, unpack(gone)) end"
        => "", by "ten_jobs_of_two_groups_keep_to_their_reservoir";
    "a job of a group runs without a lease": "take", "unpack(leases))\n    out[2] = of_token"
        => "unpack({ 1, 'x' }))\n    out[2] = of_token", by "a_job_that_comes_back_keeps_its_turn";
    "attempts in a group are not counted": "take", "local record = attempts and start .. num(attempts + 1)"
        => "local record = attempts and start .. attempts", by "a_limited_group_waits_and_others_go_on";
    "running jobs of a limited queue are not counted": "take", "add_count(q.name .. '|running', q.taken)"
        => "", by "a_queue_has_a_concurrency";
    "a node waits beside ready jobs of a group": "take", "    if can then\n      out[4] = '1'\n    elseif slots > 0 then"
        => "    if slots > 0 then", by "a_large_answer_ends_early_and_says_so";
    "an answer with limited jobs has no bound": "take", "full = bytes > 1048576"
        => "full = false", by "a_large_answer_ends_early_and_says_so";
    "a call takes any number of limited jobs": "take", "want - #ids, 128 - #ids, q.most"
        => "want - #ids, q.most", by "a_call_takes_so_many_jobs_at_most";
    "a head start in a group is none": "add", "return (due > 0 and due or t) - priority * q.step"
        => "return due > 0 and due or t", by "a_strict_priority_goes_first";
    "a birth in a group follows the clock": "add", "return birth_of(mint(), item) end"
        => "return place_at(t, item) end", by "each_life_has_a_birth_of_its_own";
    "a deadline of a parent is none": "add", "    timers['r:' .. id] = kind.deadline\n    arm(kind.deadline)\n  end\n  begin(j, kind)"
        => "  end\n  begin(j, kind)", by "a_parent_that_is_never_closed_fails_at_its_deadline";
    "a child that is taken over is not counted": "add", "  unflag(j, 'e')\n  parent.open = parent.open + 1"
        => "  unflag(j, 'e')", by "children_of_a_former_life_run_for_the_new_one";
    "a running child gets other data": "add", "    j.again = num(kind.due)\n    return 'R'\n  end\n  local over"
        => "    j.again = num(kind.due)\n    set_body(j.id, body)\n    return 'R'\n  end\n  local over", by "a_running_child_that_is_taken_over_keeps_its_data";
    "a new job of a bounded queue wakes nobody": "add", "kind.stir.added = kind.stir.added + 1"
        => "", by "a_node_that_waits_is_woken_by_a_job";
    "any token ends an execution whose result is kept": "settle", "jobs[id] == nil and sub(record, 1, #start) == start then"
        => "jobs[id] == nil then", by "another_token_changes_nothing";
    "an execution whose result is kept ends twice": "settle", "  jobs[id] = false\n  unleased"
        => "  unleased", by "an_execution_is_settled_once_in_a_call";
    "a job takes its attempts along to a group": "settle", "j.attempts, j.due, j.place = 0, 0,"
        => "j.due, j.place = 0,", by "a_job_moves_on_in_the_same_step";
    "a dead letter is kept for ever": "settle", "timers['r:' .. j.id] = t + keep"
        => "", by "a_job_fails_for_good_after_its_last_attempt";
    "a free slot of one that failed wakes nobody": "settle", "    if q.concurrency > 0 then q.free = q.free + 1 end\n  elseif state"
        => "  elseif state", by "a_slot_that_is_free_again_wakes_a_node";
    "jobs of a group that failed are not counted down": "settle", "      g.running = max(0, g.running - 1)\n    end\n    if q.concurrency"
        => "    end\n    if q.concurrency", by "a_job_that_comes_back_keeps_its_turn";
    "a job that is tried again wakes nobody": "settle", "      q.added = q.added + 1\n    end\n  elseif state == 'D'"
        => "    end\n  elseif state == 'D'", by "a_job_that_is_tried_again_wakes_a_node";
    "a cancelled job is given back": "settle", "if has(j, 'x') then return finish(j, 'X', 'cancelled') end\n  if j.again ~= '' then return finish(j, 'F', '') end"
        => "if j.again ~= '' then return finish(j, 'F', '') end", by "a_job_that_runs_is_asked_to_end";
    "a job that has ended is there": "settle", "call('HDEL', JOBS, unpack(gone))"
        => "", by "look_ups_come_and_go_with_their_jobs";
    "a job that has ended has its data": "settle", "call('HDEL', BODIES, unpack(gone))"
        => "", by "look_ups_come_and_go_with_their_jobs";
    "any token renews a lease": "extend", "sub(record, 1, #running) == running"
        => "sub(record, 1, 4) == '1|R|'", by "another_token_changes_nothing";
    "a lease is not renewed": "extend", "if #leases > 0 then call('ZADD', LEASES, unpack(leases)) end"
        => "", by "a_lease_is_renewed_by_a_word";
    "a cancellation is not said": "extend", "find(flags, 'x', 1, true) and 'Z' or"
        => "", by "a_job_that_runs_is_asked_to_end";
    "a lease is lost right after a gap": "tick", "if t >= grace then"
        => "if true then", by "nobody_loses_a_lease_after_a_gap_between_ticks";
    "a gap is not noticed": "tick", "if gap > pause + 1000 and spared < 8 then"
        => "if false then", by "nobody_loses_a_lease_after_a_gap_between_ticks";
    "a short gap is not noticed": "tick", "if gap > pause + 1000 and"
        => "if gap > pause + 7000 and", by "a_gap_between_ticks_gives_leases_as_much_time";
    "a gap spares leases for too long": "tick", "t + min(gap, tonumber(argv[5]))"
        => "t + argv[5]", by "a_gap_between_ticks_gives_leases_as_much_time";
    "a gap shortens the grace after a loss": "tick", "grace = max(grace, t + min(gap"
        => "grace = max(0, t + min(gap", by "a_gap_does_not_shorten_the_grace_after_a_loss";
    "late ticks spare leases for ever": "tick", " and spared < 8 then"
        => " then", by "ticks_that_are_always_late_take_leases_in_the_end";
    "leases are spared once": "tick", "call('HDEL', META, 'spared')"
        => "local _ = 0", by "ticks_that_are_always_late_take_leases_in_the_end";
    "a flow that has ended stays": "add", " and not (over and kind.flow ~= '' and j.flow == kind.flow)"
        => "", by "a_flow_that_has_ended_begins_anew";
    "a flow is there anew where it ended": "add", "    if kind.flow ~= '' then\n      -- It begins"
        => "    if false then\n      -- It begins", by "a_flow_that_has_ended_begins_anew";
    "a job that is there anew has no deadline": "add", "    j.attempts = 0\n    set_deadline(j, kind)\n"
        => "    j.attempts = 0\n", by "a_flow_that_has_ended_begins_anew";
    "any flow is there anew": "add", "(over and kind.flow ~= '' and j.flow == kind.flow)"
        => "over", by "a_flow_that_has_ended_begins_anew";
    "two nodes are on duty": "tick", "then\n  return { 'DUTY', num(armed + 250 - t) }\nend"
        => "then end", by "one_node_is_on_duty_and_another_follows";
    "nobody takes over when the clock steps back": "tick", " and armed < t + 60000 then"
        => " then", by "one_node_is_on_duty_and_another_follows";
    "deadlines pass": "tick", "elseif has(j, 'd') then"
        => "elseif false then", by "a_job_fails_at_its_deadline";
    "a lost wake-up is lost": "tick", "    q.free = q.free + 1\n    if looks"
        => "    if looks", by "a_lost_wake_up_is_made_up_for_by_a_tick";
    "a tick stops at the queues that it looks at": "tick", "if left == 0 then\n    more = true"
        => "if left == 0 then", by "lost_wake_ups_of_many_queues_are_made_up_for_at_once";
    "a tick looks at the same queues again": "tick", "from_first and '' or ticks[2] or '', 64"
        => "'', 64", by "lost_wake_ups_of_many_queues_are_made_up_for_at_once";
    "a tick forgets whom it has not reached": "tick", "if earliest and earliest <= t then more, at = true, '' end"
        => "", by "a_node_behind_many_that_are_gone_is_woken_at_once";
    "whoever is behind many deaf ones waits": "add", "  -- More are left: a tick comes at once, and goes on.\n  arm(t)\n"
        => "", by "a_node_behind_many_that_are_gone_is_woken_at_once";
    "an opened queue does not want a tick": "declare", "wake(name, 1000) end\n  tell_duty()"
        => "wake(name, 1000) end", by "a_node_behind_many_that_are_gone_is_woken_at_once";
    "delays come too late": "tick", "if first then next_ = min(next_, max(t + 1, tonumber(first))) end"
        => "", by "nothing_runs_before_its_time";
    "children of a parent that has ended stay": "tick", "if children > 0 then children = children - abandon(of, children) end"
        => "", by "a_cancelled_parent_takes_its_children_with_it";
    "children of a removed parent stay": "tick", "if j and j.parent == of then\n        remove(j)"
        => "if false then\n        remove(j)", by "a_removed_parent_takes_its_children_with_it";
    "children of a removed parent that have ended stay": "tick", "ipairs({ 'o:', 'c:' })"
        => "ipairs({ 'o:' })", by "a_removed_parent_takes_its_children_with_it";
    "a removed parent takes a stranger with it": "tick", "if j and j.parent == of then\n        remove(j)"
        => "if j then\n        remove(j)", by "a_removed_parent_takes_its_own_children_only";
    "a removed parent clears all children at once": "tick", "    children = children - #members\n"
        => "", by "a_tick_removes_so_many_children_of_all_parents";
    "children of a child that is removed stay": "tick", "timers['w:' .. of], timers['x:' .. of] = false, t"
        => "", by "a_removed_parent_takes_its_children_with_it";
    "a child that ends beside the removal stays": "settle", "if timers[taken] or call('ZSCORE', TIMERS, taken) then"
        => "if timers[taken] then", by "a_child_that_ends_while_its_parent_goes_goes_too";
    "a child that is cancelled with the removal stays": "steer", "if timers[taken] or call('ZSCORE', TIMERS, taken) then"
        => "if call('ZSCORE', TIMERS, taken) then", by "a_child_that_ends_while_its_parent_goes_goes_too";
    "one that is asked for by itself goes with its parent": "add", "if has(j, 'e') then\n    unflag(j, 'e')\n    j.parent = ''\n  end"
        => "", by "a_removed_parent_takes_its_own_children_only";
    "a later life of a child goes with its former parent": "attest", "if has(j, 'e') then\n      unflag(j, 'e')\n      j.parent = ''\n    end"
        => "", by "a_later_life_of_a_child_is_its_own";
    "a child of a new life is counted no more": "add", "unflag(j, 'e')\n  parent.open"
        => "parent.open", by "children_of_a_former_life_run_for_the_new_one";
    "what children came to stays": "tick", "if children > 0 and not parent then children = children - forget(of, children) end"
        => "", by "a_parent_that_ends_first_leaves_no_children";
    "an earlier timer is not told": "add", "if earliest < counted(meta[5]) then"
        => "if false then", by "an_earlier_timer_is_told_to_the_node_on_duty";
    "a removed child is not counted": "steer", "if counts_for(j) then count_child(j, 'X', 'removed') end"
        => "", by "a_removed_or_cancelled_child_counts";
    "a replay goes over the capacity": "steer", "if not has_room(queue_of(j.queue)) then return 'B' end"
        => "", by "an_accepted_job_goes_over_the_capacity";
    "a job that leaves makes no room": "steer", "if state == 'Q' or state == 'D' then q.grown = q.grown - 1 end"
        => "", by "a_call_knows_the_room_that_it_has_made_itself";
    "a job that enters takes no room": "steer", "if state == 'Q' or state == 'D' then q.grown = q.grown + 1 end"
        => "", by "a_call_knows_the_room_that_it_has_made_itself";
    "plain jobs take no room": "add", "  q.grown = q.grown + 1\n"
        => "", by "a_queue_that_is_full_refuses_more";
    "parents that may wait take no room": "add", "waits[j.id], kind.q.grown = j, kind.q.grown + 1"
        => "waits[j.id] = j", by "a_parent_takes_room_until_its_children_are_known";
    "an older state keeps its work": "attest", "  j.flow, j.correlation = own.flow, own.correlation\n"
        => "", by "an_older_state_gives_way_to_what_runs";
    "a limit without a window is none": "steer", "not n or is_endless"
        => "not n", by "a_limit_without_a_window_is_refused";
    "a replayed job has no attempts left": "steer", "j.attempts, j.due = 0, tonumber(due)"
        => "j.due = tonumber(due)", by "a_dead_letter_is_listed_and_replayed";
    "a pause is none": "", "if (state == 'Q' or state == 'D') and has(j, 'p') then state = 'P' end"
        => "", by "a_paused_job_waits_until_it_is_resumed";
    "a closed parent waits on": "steer", "if j.state == 'W' and j.open == 0 then"
        => "if false then", by "an_open_parent_waits_for_more";
    "whoever runs a removed job is not told": "steer", "if j.state == 'R' then call('SPUBLISH', CHANNEL .. j.node, 'h|' .. j.id .. '|' .. j.token) end\n  local may_come"
        => "local may_come", by "a_removed_job_halts_whoever_runs_it";
    "an answer about jobs has no bound": "peek", "if behind or bytes > 1048576 then break end"
        => "if behind then break end", by "an_answer_with_much_data_ends_early";
    "ends of children count for nothing": "peek", "bytes, ends = bytes + #behind + #text, ends + 1"
        => "ends = ends + 1", by "an_answer_with_much_data_ends_early";
    "an answer has all ends of a parent": "peek", "if bytes > 1048576 or ends == 4096 then"
        => "if ends == 4096 then", by "long_results_of_children_come_page_by_page";
    "an answer has any number of ends": "peek", "if bytes > 1048576 or ends == 4096 then"
        => "if bytes > 1048576 then", by "ends_of_many_children_come_page_by_page";
    "a page of ends begins with the last one of the former": "peek", "'(' .. prefix .. '|' .. behind\n"
        => "'[' .. prefix .. '|' .. behind\n", by "long_results_of_children_come_page_by_page";
    "a page of ends is the first one again": "peek", "goes_on and argv[3] or ''"
        => "''", by "long_results_of_children_come_page_by_page";
    "a page of ends has the data again": "peek", "if not goes_on then"
        => "if true then", by "long_results_of_children_come_page_by_page";
    "jobs follow one that is not whole": "peek", "if behind or bytes > 1048576 then break end"
        => "if bytes > 1048576 then break end", by "ends_of_many_children_come_page_by_page";
    "an answer to a watcher has no bound": "watch", "if bytes > 1048576 then break end"
        => "", by "an_answer_with_much_data_ends_early";
    "what has ended is watched": "watch", "on and (last or not is_over(j))"
        => "on", by "what_has_ended_is_answered_and_not_watched";
    "a watcher is told twice": "watch", "if name == node then last = tonumber(of) else nodes[#nodes + 1] = entry end"
        => "nodes[#nodes + 1] = entry", by "every_transition_is_told_once_with_its_number";
    "another lease is for later jobs": "declare", "if #anew > 0 then\n"
        => "if false then\n", by "another_lease_holds_for_what_runs";
    "another limit is for later": "declare", "if of == name then group_of(q, group) end"
        => "", by "another_limit_counts_at_once";
    "a declaration resumes a queue": "declare", "if q.paused then text"
        => "if false then text", by "a_paused_queue_gives_nothing";
    "tokens begin anew after a loss": "boot", "max(floor_at(t), counted(head[2]), seen_token(argv[1]))"
        => "floor_at(t)", by "tokens_rise_also_after_a_loss_of_all_data";
    "a recovery forgets tokens": "recover", "max(floor_at(t), seen_token(argv[2]))"
        => "floor_at(t)", by "the_first_of_many_recovers";
    "a recovery does not hold": "recover", "'hold', num(t + argv[4])"
        => "'hold', 0", by "no_job_begins_and_no_lease_is_lost_right_after_a_recovery";
    "a recovery gives no grace": "recover", "num(t + argv[5])"
        => "0", by "no_job_begins_and_no_lease_is_lost_right_after_a_recovery";
};

/// The broken line, for the rest of this process.
fn patches(mutant: &Mutant) -> &'static [ScriptPatch] {
    Vec::leak(vec![ScriptPatch { script: mutant.file, from: mutant.from, to: mutant.to }])
}

fn trial(scenario: Scenario, patches: &'static [ScriptPatch]) -> Trial {
    Trial::of(move || {
        PATCHES.set(patches);
        (scenario.1)(Which::Redis)
    })
}

#[test]
fn mutants_of_scripts_are_caught() {
    mutants::hush();
    let wanted = std::env::var("MUTANT").ok();
    let is_tried = |mutant: &&Mutant| wanted.as_ref().is_none_or(|words| mutant.what.contains(words));
    let scenarios: Vec<Scenario> = SUITES.iter().flat_map(|suite| suite.iter().copied()).collect();
    let (queue, missed) = (Mutex::new(MUTANTS.iter().filter(is_tried)), Missed::default());
    std::thread::scope(|scope| {
        for _ in 0..THREADS {
            scope.spawn(|| {
                loop {
                    let Some(mutant) = queue.lock().unwrap().next() else { break };
                    let patches = patches(mutant);
                    let tried =
                        scenarios.iter().filter(|(name, _)| wanted.is_some() || *name == mutant.caught_by);
                    let tried: Vec<_> =
                        tried.map(|scenario| (scenario.0, trial(*scenario, patches))).collect();
                    let all =
                        |end| tried.iter().filter(move |(_, trial)| *trial == end).map(|(name, _)| *name);
                    let names: Vec<_> = all(Trial::Fails).collect();
                    mutants::say(&format!("{:<55} {}", mutant.what, names.join(" ")));
                    if names.is_empty() {
                        missed.add(mutant.what, all(Trial::TakesTooLong).next().is_some());
                    }
                }
            });
        }
    });
    missed.assert_none();
    // A scenario that fails on whole scripts shows nothing.
    for mutant in MUTANTS.iter().filter(is_tried) {
        let scenario = scenarios.iter().find(|(name, _)| *name == mutant.caught_by).unwrap();
        assert_eq!(trial(*scenario, &[]), Trial::Passes, "{} on whole scripts", mutant.caught_by);
    }
}

/// A text that is missing panics when the store is opened, and that looks like a scenario that notices.
#[test]
fn every_line_stands_in_its_script() {
    let client = tenure_jobs::Client::open("redis://127.0.0.1:1").unwrap();
    let set = tenure_jobs::SetName::new("mutants").unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let _inside = runtime.enter();
    for mutant in MUTANTS {
        drop(tenure_jobs::store::RedisStore::open_patched(&client, &set, patches(mutant)));
    }
}
