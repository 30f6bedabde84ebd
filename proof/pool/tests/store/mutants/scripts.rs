//! The scripts, each with one line left out or inverted.

use tenure_testing::mutants::Mutant;

/// The name of each mutant, its script (empty: every script that shares the part), the text, its replacement, and the
/// scenario that notices it.
pub(crate) const MUTANTS: &[Mutant] = tenure_testing::mutants! {
    "an ask goes under any token": "ask", " or argv[of_tokens + y] ~= token then"
        => " then", by "an_ask_under_another_token_is_told_who_owns_it";
    "an ask goes to whoever is guessed": "ask", " or argv[6 + x] ~= owner"
        => "", by "an_ask_under_another_token_is_told_who_owns_it";
    "an ask names another ask's token": "ask", "local x, y = byte(guess_of, i), byte(token_of, i)"
        => "local x, y = byte(guess_of, i), byte(token_of, 1)", by "an_ask_reaches_the_owner_under_its_token";
    "a job that stops is asked": "ask", "if state ~= 'R' then return state end"
        => "", by "an_ask_of_what_nobody_runs_is_told_the_state";
    "what is assigned is asked": "ask", "if state == 'Q' or state == 'A' then return 'W' end"
        => "if state == 'A' then state = 'R' end", by "an_ask_of_what_nobody_runs_is_told_the_state";
    "asks make a stream that nobody reads": "ask", "if not event.member then return 'G' end"
        => "event.waiting = event.member and event.waiting or 0", by "an_ask_of_a_worker_that_is_gone_makes_no_stream";
    "an ask comes after its time": "ask", "ends < t or "
        => "", by "a_late_ask_is_refused";
    "an ask lasts for any time": "ask", " or ends > t + late_ms"
        => "", by "a_late_ask_is_refused";
    "an ask is of any length": "ask", " or #body > 65536"
        => "", by "an_ask_that_is_too_long_is_refused";
    "a stream takes any number of asks": "ask", "event.waiting > 4096 or "
        => "", by "a_crowded_stream_takes_no_asks";
    "a stream takes any bytes of asks": "ask", " or event.waiting * bytes > 16777216"
        => "", by "a_stream_takes_so_many_bytes_of_asks";
    "an ask of a pool that recovers is refused": "ask", "return head[2] == 'R' and 'R' or 'N'"
        => "return 'N'", by "asks_go_on_while_the_pool_recovers";
    "who is no owner says what was done": "reply", "not ((start == running or start == stopping) and"
        => "not (", by "a_reply_of_who_is_no_owner_is_stale";
    "a stopping job says nothing": "reply", "start == running or start == stopping"
        => "start == running", by "a_stopping_job_may_still_reply";
    "a reply that comes before its record is not made again": "reply", "letter = not r and head[2] == 'R' and 'R' or 'S'"
        => "letter = 'S'", by "a_reply_before_the_record_is_made_again";
    "what a worker will not do is for the owner to say": "reply", "if owners[byte(said)] then"
        => "do", by "a_refusal_to_do_it_needs_no_owner";
    "a refusal in words is anybody's": "reply", "[101] = true, "
        => "", by "a_reply_of_who_is_no_owner_is_stale";
    "replies make streams": "reply", "'NOMKSTREAM', "
        => "", by "a_reply_tells_the_asker";
    "replies fill the memory of the server": "reply", "event.bytes <= 4096 and 1024 or"
        => "true and 1024 or", by "big_replies_keep_the_stream_short";
    "a reply leaves finished entries": "reply", "if entries > 0 then"
        => "if false then", by "a_reply_deletes_finished_entries";
    "a release gives no reason": "release", "because(p, way.why, way.why == 'r' and way.result)"
        => "", by "a_release_says_why_and_whose_the_job_was";
    "a later payload is no reason": "release", "{ mode = 'h', why = 'c', delay"
        => "{ mode = 'h', why = 'm', delay", by "a_job_with_a_later_payload_says_so";
    "a pause never ends": "sweep", "local over = wake_all()"
        => "local over = 0", by "a_pause_that_is_over_lets_its_job_go_on";
    "a pause ends when its index says so": "sweep", "if tonumber(at) > t then return"
        => "if false then return", by "a_pause_lasts_as_long_as_its_record_says";
    "nobody is told when the next pause ends": "sweep", "if wakes and wakes < 9e15 then"
        => "if false then", by "a_pause_that_is_over_lets_its_job_go_on";
    "a pause that is over is told as an unpark": "sweep", "because(p, 'w')"
        => "because(p, 'u')", by "a_pause_that_is_over_lets_its_job_go_on";
    "a pause is made no longer": "steer", "and not (way == 'z' and lasts(p, reason))"
        => "", by "a_pause_is_made_longer_and_not_shorter";
    "a pause is made shorter": "steer", "(not ends or ends > has)"
        => "true", by "a_pause_is_made_longer_and_not_shorter";
    "a late resume ends a longer pause": "steer", "and not ends_as(p, reason)"
        => "and false", by "a_late_resume_ends_no_longer_pause";
    "a longer pause is another one": "steer", "at = tonumber(p.since) end -- it"
        => "at = t end -- it", by "a_pause_is_made_longer_and_not_shorter";
    "a pause forgets its end": "", "if ends then p.tail = gsub"
        => "if false then p.tail = gsub", by "a_pause_that_is_over_lets_its_job_go_on";
    "a lost index has pauses end at once": "inspect", "p.state == 'P' and wakes_at(p) or t"
        => "t", by "a_pause_with_an_end_outlives_the_index_of_parked_jobs";
    "a later payload ends a pause": "release", "if way.why == 'p' or way.why == 'z' then"
        => "if false then", by "a_job_that_ends_before_its_update_rests_if_it_is_paused";
    "a lost worker is no reason": "reap", "because(p, 'l')"
        => "", by "a_job_of_a_lost_worker_says_so";
    "an assignment that nobody began is no reason": "sweep", "because(p, 't')"
        => "", by "an_assignment_that_nobody_began_says_so";
    "an unpark gives no reason": "unpark", "because(p, 'u')"
        => "", by "an_unparked_job_knows_where_it_failed";
    "a bounce gives no reason": "steer", "because(p, 'b')"
        => "", by "a_steered_job_says_so";
    "an operator's park gives no reason": "steer", "because(p, way)\n"
        => "\n", by "a_steered_job_says_so";
    "an operator's retry gives no reason": "steer", "because(p, way == 'y' and 'y' or 'u')"
        => "", by "a_steered_job_says_so";
    "a job that has run elsewhere is taken back": "attest", "if back and mine and not ended and p.owner == '' and tonumber(p.token) > token then return '-' end"
        => "", by "a_job_that_has_run_elsewhere_is_not_taken_back";
    "a job that was not released is not taken back": "attest", "if back and mine and not ended and p.owner == '' and tonumber(p.token) > token then return '-' end"
        => "if back and mine and p.owner == '' then return '-' end", by "a_job_that_has_run_elsewhere_is_not_taken_back";
    "a report gives no reason": "attest", "if not begun_here then because(p, 'a') end"
        => "", by "an_attested_job_says_so";
    "each report is a reason": "attest", "if not begun_here then because(p, 'a') end"
        => "because(p, 'a')", by "a_run_that_the_data_know_has_no_new_reason";
    "a hand-off before a loss gives no reason": "attest", "because(p, sub(name, 2))"
        => "", by "a_hand_off_before_a_loss_says_why";
    "a last word gives no reason": "attend", "because(p, 'n')"
        => "", by "a_job_that_its_worker_does_not_have_says_so";
    "a reason takes the generation's place": "", "p.tail = '|' .. generation .. '|' .. letter .. former .. said .. rest"
        => "p.tail = '|' .. letter .. former .. said .. rest", by "a_job_with_a_later_payload_says_so";
    "a reason takes later fields away": "", "p.tail = '|' .. generation .. '|' .. letter .. former .. said .. rest"
        => "p.tail = '|' .. generation .. '|' .. letter .. former .. said", by "fields_behind_the_reason_are_kept";
    "a reason forgets the former worker": "", "former = match(why, '^%l(%d+)$') or match(why, '^z(%d+)%+%d+$') or match(why, '^r(%d+)%+') or ''"
        => "former = ''", by "an_unparked_job_knows_where_it_failed";
    "a refusal has no reason": "release", "way.why == 'r' and way.result"
        => "''", by "a_refusal_keeps_its_reason_until_the_next_one";
    "every reason is that of a refusal": "release", "way.why == 'r' and way.result"
        => "way.result", by "a_refusal_keeps_its_reason_until_the_next_one";
    "a refusal without a reason takes the former one away": "", "if letter == 'r' and said == '' and find(why, '^r%d*%+.') then return end"
        => "", by "a_refusal_keeps_its_reason_until_the_next_one";
    "a refusal's reason hides who refused": "", " or match(why, '^r(%d+)%+')"
        => "", by "a_refusal_keeps_its_reason_until_the_next_one";
    "a refusal's reason breaks its record": "", "gsub(shortened(said, REFUSAL_MAX), '[|%c]', ' ')"
        => "shortened(said, REFUSAL_MAX)", by "a_refusal_is_kept_in_bounds";
    "a refusal's reason has any length": "", "local REFUSAL_MAX = 200"
        => "local REFUSAL_MAX = 1024", by "a_refusal_is_kept_in_bounds";
    "a history keeps everything": "note", "'MAXLEN', most, "
        => "", by "a_history_keeps_as_many_entries_as_it_is_told";
    "a late entry makes a history": "note", "if not head then return refusal end"
        => "", by "there_is_no_history_without_a_pool";
    "a history of another type stays": "note", "call('UNLINK', HISTORY)"
        => "", by "a_history_of_another_type_begins_anew";
    "a history that takes no entry is deleted": "note", "type(id) == 'table' and find(id.err, 'WRONGTYPE', 1, true)"
        => "type(id) == 'table'", by "a_history_that_takes_no_entry_says_so";
    "an entry is lost in silence": "note", "if type(id) == 'table' then return id end"
        => "", by "a_history_that_takes_no_entry_says_so";
    "a page begins anew": "history", "'(' .. argv[1]"
        => "'-'", by "a_page_goes_on_after_the_last_one";
    "a history of another type breaks the read": "history", "redis.pcall('XRANGE'"
        => "call('XRANGE'", by "a_history_of_another_type_begins_anew";
    "the history outlives its pool": "cleanup", ", HISTORY"
        => "", by "only_the_tombstone_is_left";
    "a node without a member says something": "renew", "if lives and argv[4]"
        => "if argv[4]", by "who_has_no_member_says_nothing";
    "an empty word takes the last one away": "renew", " and argv[5] ~= ''"
        => "", by "a_node_says_the_last_thing_that_it_said";
    "what a node says is not kept": "renew", "redis.pcall('HSET', NODES, argv[4], argv[5])"
        => "redis.pcall('HLEN', NODES)", by "a_node_says_the_last_thing_that_it_said";
    "a status of another type costs a lease": "renew", "redis.pcall('HSET', NODES"
        => "call('HSET', NODES", by "a_status_of_another_type_costs_no_lease";
    "a status of another type stays": "renew", "find(said.err, 'WRONGTYPE', 1, true)"
        => "false", by "a_status_of_another_type_begins_anew";
    "what a node said outlives it": "expire", "  forget_nodes()\nend"
        => "end", by "what_a_node_said_goes_with_its_last_worker";
    "what all nodes said goes with a worker": "expire", "if not living[node] then"
        => "if true then", by "what_a_node_said_goes_with_its_last_worker";
    "what nodes said outlives the pool": "cleanup", ", NODES)"
        => ")", by "a_stray_status_goes_with_the_pool";
    "an update follows any generation": "update", "if num(generation) ~= argv[of_generations + i] then"
        => "if false then", by "a_late_copy_of_an_update_undoes_nothing";
    "the same payload is another one": "update", "if present and (present == payload or meaning(present) == meaning(payload)) then"
        => "if false then", by "the_same_payload_is_no_update";
    "another trace is another payload": "update", " or meaning(present) == meaning(payload)"
        => "", by "a_trace_is_no_update";
    "a long trace is another payload": "update", "if b == 217 then"
        => "if false then", by "a_trace_is_no_update";
    "the longest trace is another payload": "update", "if b == 218 then"
        => "if false then", by "a_trace_is_no_update";
    "a payload of another length is another one": "update", "#payload) >= 1024 then"
        => "#payload) >= 1 then", by "a_trace_is_no_update";
    "an update takes no field away": "update", ".. sub(envelope, rest) or"
        => "or", by "a_trace_is_no_update";
    "an update is of any dispatch": "update", "if p.id ~= argv[of_ids + i] then return 'N' end"
        => "", by "an_update_is_of_its_dispatch";
    "a planner whose turn is over updates": "update", "if plan ~= '' and not is_turn('s:' .. plan, argv[3], argv[4]) then"
        => "if false then", by "a_planner_whose_turn_is_over_changes_nothing";
    "a plan updates another's job": "update", "if plan ~= '' and p.plan ~= plan then return 'N' end"
        => "", by "a_plan_updates_only_its_own_jobs";
    "a job that stops is updated": "update", "if p.state == 'S' then return 'S' end"
        => "", by "a_stopping_job_is_not_updated";
    "an update is of any length": "update", "if #payload > payload_max then return 'L' end"
        => "", by "an_update_has_the_limit_of_payloads";
    "an update goes to whoever is guessed": "update", "if event.owner ~= p.owner then"
        => "if false then", by "an_update_of_an_owner_that_is_wrong_changes_nothing";
    "an owner hears of no update": "update", "if p.state == 'R' then"
        => "if false then", by "the_owner_of_a_running_job_is_told_of_its_update";
    "the updates of a batch do not see each other": "update", "changed[key] = {"
        => "local _ = {", by "the_updates_of_a_batch_see_each_other";
    "a pool that recovers updates jobs": "update", "if head[2] == 'R' then return 'R' end"
        => "", by "no_job_is_updated_while_the_pool_recovers";
    "an update leaves the payload": "update", "call('HSET', PAYLOADS, unpack(payloads))"
        => "", by "an_update_changes_the_payload_and_the_generation_only";
    "an update leaves the generation": "update", "p.tail = '|' .. generation .. rest"
        => "", by "an_update_changes_the_payload_and_the_generation_only";
    "an owner's newer payload is not taken": "attest", "not mine or newer or"
        => "not mine or", by "an_attested_job_keeps_its_newer_payload";
    "an owner's newer payload has no generation": "attest", "if tonumber(generation) ~= known then p.tail ="
        => "if false then p.tail =", by "an_attested_job_keeps_its_newer_payload";
    "an owner's older payload is taken": "attest", "local newer = tonumber(generation) > known"
        => "local newer = true", by "an_attested_job_takes_no_older_payload";
    "a lost job comes back without its generation": "attest", "newer and '|' .. num(generation) or ''"
        => "''", by "a_lost_job_comes_back_with_its_generation";
    "an end with an older payload ends an updated job": "attest", "if p and p.state ~= 'S' and generation_of(p.tail) > tonumber(ran) then"
        => "if false then", by "an_end_with_an_older_payload_ends_no_updated_job";
    "a stopped job goes on with its later payload": "attest", "if p and p.state ~= 'S' and generation_of(p.tail) > tonumber(ran) then\n    return handed_off("
        => "if p and generation_of(p.tail) > tonumber(ran) then\n    p.state = 'R'\n    return handed_off(", by "an_end_with_an_older_payload_ends_no_updated_job";
    "a paused job goes on with its later payload": "attest", "return handed_off(key, p, token, id, begun, '0', '0', name, reason)"
        => "return handed_off(key, p, token, id, begun, '0', '0', 'hc', '')", by "an_end_with_an_older_payload_lets_a_paused_job_rest";
    "an end with an older payload forgets the start": "attest", "return handed_off(key, p, token, id, begun, '0', '0', name, reason)"
        => "return handed_off(key, p, token, id, '1', '0', '0', name, reason)", by "an_end_with_an_older_payload_ends_no_updated_job";
    "an end with its own payload ends no job": "attest", "generation_of(p.tail) > tonumber(ran)"
        => "generation_of(p.tail) >= tonumber(ran)", by "an_end_with_the_payload_of_the_record_is_one";
    "the end of an earlier run ends a later one": "attest", "local goes_on = ended and (ended_by_run(id, created) or token) < token"
        => "local goes_on = false", by "a_later_run_outlives_the_end_of_an_earlier_one";
    "the end of a run is none of its own": "attest", "(ended_by_run(id, created) or token) < token"
        => "(ended_by_run(id, created) or token + 1) <= token", by "the_end_of_a_run_ends_that_and_earlier_ones";
    "a run that goes on has still ended": "attest", "call('ZREM', ENDED, id, run_field(id))"
        => "", by "a_later_run_outlives_the_end_of_an_earlier_one";
    "a run that goes on keeps the end of the one before": "attest", "  if goes_on then
    call('ZREM', ENDED, id, run_field(id))
    end_for_good(id)"
        => "  if goes_on then
    call('ZREM', ENDED, id, run_field(id))", by "a_later_run_outlives_the_end_of_an_earlier_one";
    "a run that goes on has still an outcome": "attest", "or goes_on and entry.outcome ~= 'ok'"
        => "", by "a_later_run_outlives_the_end_of_an_earlier_one";
    "an end is of a run, whatever it names": "attest", "if name == '' or p and p.state == 'S' then"
        => "if p and p.state == 'S' then", by "an_end_whatever_the_run_ends_later_ones";
    "a run ends a stop": "attest", "if name == '' or p and p.state == 'S' then"
        => "if name == '' then", by "an_end_whatever_the_run_ends_later_ones";
    "an end for good leaves that of a run": "attest", "if before then end_for_good(id) end"
        => "", by "an_end_whatever_the_run_ends_later_ones";
    "the end of a run undoes one for good": "attest", "elseif before or not has_ended(key, id, p and p.created) then"
        => "else", by "an_end_whatever_the_run_ends_later_ones";
    "the end of a run counts once": "attest", "elseif before or not has_ended("
        => "elseif not has_ended(", by "the_latest_end_of_a_run_counts";
    "the end of the earliest run counts": "attest", "math.max(before or 0, token)"
        => "token", by "the_latest_end_of_a_run_counts";
    "the end of a run is one of another use of its id": "attest", "(created == nil or tonumber(created) <= tonumber(at))"
        => "true", by "the_end_of_a_run_says_nothing_of_another_use_of_its_id";
    "a release ends later runs": "release", "if by_run then end_by_run(id, token, at, at + late_ms) end"
        => "", by "a_later_run_outlives_the_release_of_an_earlier_one";
    "the release of a run is not remembered": "release", "if mode ~= 'd' or by_run then"
        => "if mode ~= 'd' then", by "a_later_run_outlives_the_release_of_an_earlier_one";
    "any release is that of a run": "release", "head[2] == 'R' and way.ran and not to_stop"
        => "way.ran and not to_stop", by "a_release_that_is_sure_ends_later_runs";
    "a release whatever the payload is that of a run": "release", "head[2] == 'R' and way.ran and not to_stop"
        => "head[2] == 'R' and not to_stop", by "a_release_that_is_sure_ends_later_runs";
    "a stopped job's release is that of a run": "release", "head[2] == 'R' and way.ran and not to_stop"
        => "head[2] == 'R' and way.ran", by "a_release_that_is_sure_ends_later_runs";
    "a stop believes the end of a run": "stop", "if recovering and ended_by_run(id) then return 'R' end"
        => "", by "a_stop_waits_for_later_runs_and_sticks";
    "a stop leaves the end to the run": "stop", "end_for_good(id)\n    return 'T'"
        => "return 'T'", by "a_stop_waits_for_later_runs_and_sticks";
    "the ends of runs stay": "sweep", "kind == 33 or kind == 35"
        => "kind == 33", by "the_end_of_a_run_is_forgotten_with_its_dispatch";
    "the end of a run is never forgotten": "", "call('ZADD', ENDED, lasts, run_field(id))"
        => "", by "the_end_of_a_run_is_forgotten_with_its_dispatch";
    "a caller's id has an end for each node": "", "(match(id, '%.(!.+)$') or id)"
        => "id", by "the_end_of_a_run_is_known_from_every_node";
    "any generation is attested": "attest", " and #argv[at + 10] <= 15"
        => "", by "a_generation_that_no_pool_gives_is_not_attested";
    "who is no owner keeps a checkpoint": "save", "find(r, running, 1, true) == 1 or"
        => "true or", by "a_checkpoint_is_the_owners_to_write";
    "a checkpoint is kept under any token": "save", "'1|R|' .. wid .. '|' .. token .. '|', '1|S|'"
        => "'1|R|' .. wid .. '|', '1|S|'", by "a_new_owner_begins_to_count_again";
    "a token is that of another with the same first digits": "save", "token .. '|', '1|S|'"
        => "token, '1|S|'", by "a_checkpoint_is_the_owners_to_write";
    "a token is that of a longer one where the job stops": "save", "'1|S|' .. wid .. '|' .. token .. '|'"
        => "'1|S|' .. wid .. '|' .. token", by "a_stopping_job_may_still_save";
    "a stopping job keeps no checkpoint": "save", " or find(r, stopping, 1, true) == 1"
        => "", by "a_stopping_job_may_still_save";
    "a late copy of a save wins": "save", "return #count > #number or #count == #number and count >= number"
        => "return false", by "a_late_copy_of_a_save_undoes_nothing";
    "numbers of checkpoints compare as texts": "save", "#count > #number or #count == #number and count >= number"
        => "count >= number", by "a_late_copy_of_a_save_undoes_nothing";
    "an owner's first checkpoint counts as late": "save", "if theirs == of then return"
        => "do return", by "a_new_owner_begins_to_count_again";
    "what was inherited wins": "save", "return of ~= token and tonumber(theirs) > tonumber(of)"
        => "return false", by "one_that_was_inherited_gives_way_to_a_newer_one";
    "saves of a call do not see each other": "save", "written[key] or known[i]"
        => "known[i]", by "saves_of_one_call_see_each_other";
    "a checkpoint is of any length": "save", "if not late and #state > most then"
        => "if false then", by "a_checkpoint_that_is_too_long_is_refused";
    "a kept checkpoint may be too long": "save", "if not late and #state > most then"
        => "if #state > most then", by "a_lower_limit_refuses_no_checkpoint_that_is_kept";
    "a save that comes before its record is not made again": "save", "letter = head[2] == 'R' and 'R' or 'S'"
        => "letter = 'S'", by "a_save_that_comes_before_the_record_is_made_again";
    "a job that nobody has begun is given a checkpoint": "begin", "        if news == 1 then\n"
        => "        if false then\n", by "a_job_that_nobody_has_begun_is_given_none";
    "a stray checkpoint waits for its next begin": "begin", "redis.pcall('HDEL', CHECKPOINTS, 'h:' .. key, 'b:' .. key)"
        => "", by "a_job_that_nobody_has_begun_is_given_none";
    "begin leaves a checkpoint behind": "begin", "header and state and given(header)"
        => "false", by "begin_brings_the_checkpoint";
    "a checkpoint hides that notifications wait": "begin", "letter = letter == 'N' and 'D' or 'C'"
        => "letter = 'C'", by "begin_brings_the_checkpoint";
    "checkpoints make an answer of any size": "begin", "bytes = bytes + #state"
        => "", by "checkpoints_count_for_the_size_of_an_answer";
    "a job is given another one's checkpoint": "begin", "kept[2 * (i - page) + 1], kept[2 * (i - page) + 2]"
        => "kept[1], kept[2]", by "begin_brings_the_checkpoint";
    "checkpoints stay when their jobs go": "", "  delete_checkpoints()\n"
        => "", by "what_deletes_a_job_deletes_its_checkpoint";
    "a loss of the members is not noticed": "renew", "sign('m', not sized, sized)"
        => "", by "a_key_that_is_lost_alone_is_noticed_by_the_next_renewal";
    "a loss of records is not noticed": "renew", "sign('r', jobs and owned and owned > jobs,"
        => "sign('r', false,", by "a_key_that_is_lost_alone_is_noticed_by_the_next_renewal";
    "a loss of the owners' lists is not noticed": "renew", "sign('o', all and owned == 0"
        => "sign('o', false", by "a_key_that_is_lost_alone_is_noticed_by_the_next_renewal";
    "a loss of the payloads is not noticed": "renew", "sign('p', jobs and jobs > 0 and paid == 0,"
        => "sign('p', false,", by "a_key_that_is_lost_alone_is_noticed_by_the_next_renewal";
    "a pool without jobs has lost their payloads": "renew", "sign('p', jobs and jobs > 0 and paid == 0,"
        => "sign('p', jobs and paid == 0,", by "a_pool_of_any_size_shows_no_loss";
    "a payload that was lost is not asked for": "attest", "not mine or newer or call('HEXISTS', PAYLOADS, key) == 0"
        => "not mine or newer", by "a_payload_that_was_lost_is_asked_for_and_written_again";
    "a payload that was lost is not written": "attest", "if lacks and sent == '1' then
      call('HSET', PAYLOADS, key, payload)"
        => "if lacks and sent == '1' then", by "a_payload_that_was_lost_is_asked_for_and_written_again";
    "a pool without jobs has lost them": "renew", "owned == 0 and jobs > due + parked,"
        => "owned == 0 and jobs > 0,", by "a_pool_of_any_size_shows_no_loss";
    "a pool that never had members has lost them": "renew", "head[3] == '1' or call('HEXISTS'"
        => "call('HEXISTS'", by "a_pool_of_any_size_shows_no_loss";
    "a chance fit has healed a loss of payloads": "renew", "jobs and paid == jobs)"
        => "paid and paid > 0)", by "a_damage_that_stays_asks_for_one_recovery";
    "a chance fit has healed a loss of the lists": "renew", "all and jobs <= math.max(owned, due) + parked)"
        => "owned ~= 0)", by "a_damage_that_stays_asks_for_one_recovery";
    "a chance fit has healed a loss of records": "renew", "all and due == 0 and owned == jobs - parked)"
        => "all and owned <= jobs)", by "a_damage_that_stays_asks_for_one_recovery";
    "a counter beyond exactness stands still": "renew", "#text < 16 and tonumber(match(text, '^%d+$')) or 0"
        => "tonumber(text) or 0", by "a_damaged_counter_of_a_worker_beats_on";
    "notifications are numbered beyond their headers": "notify", "(#counted > 14 or counted ~= '0' and not find(counted, '^[1-9]%d*$'))"
        => "(counted ~= '0' and not find(counted, '^[1-9]%d*$'))", by "a_damaged_count_of_notifications_loses_none";
    "a loss that stays asks for ever": "renew", "gsub(found, '[' .. known .. '-]', '') ~= ''"
        => "found ~= ''", by "a_loss_that_stays_is_answered_and_asks_for_one_recovery";
    "a loss that has gone is known for ever": "renew", "if found == '' then call('HDEL', POOL, 'lost') else"
        => "if found ~= '' then", by "a_loss_that_stays_is_answered_and_asks_for_one_recovery";
    "an incarnation that no pool has is counted from": "recover", "return n <= LAST_TOKEN and n + 1 or 0"
        => "return n + 1", by "an_incarnation_that_no_pool_has_is_not_counted_from";
    "members are counted from a revision that no map has": "recover",
        "if not counted(head[3]) then call('HSET', POOL, 'workers_revision', '0') end"
        => "", by "a_revision_that_no_map_has_begins_anew";
    "settings are counted from a revision that no map has": "recover",
        "if not counted(head[4]) then call('HSET', POOL, 'settings_revision', '0') end"
        => "", by "a_revision_that_no_map_has_begins_anew";
    "a damaged count fills the pool": "dispatch", "queued > call('HLEN', JOBS) then"
        => "false then", by "a_damaged_count_of_jobs_fills_no_pool";
    "a damaged count goes on": "dispatch", "  call('HSET', POOL, 'queued', queued)\n"
        => "", by "a_damaged_count_of_jobs_fills_no_pool";
    "a recovery does not say what for": "recover", "if argv[6] ~= '' then call('HSET', POOL, 'lost', lost) end"
        => "", by "a_loss_that_stays_is_answered_and_asks_for_one_recovery";
    "a recovery forgets the signs of the one before": "recover", "match(head[9] or '', '^%l*$') or ''"
        => "''", by "a_recovery_keeps_the_signs_that_are_known";
    "a tombstone that no pool has left stops a new pool": "bootstrap", "local closed = counted(known[2]) or 0"
        => "local closed = tonumber(known[2]) or 0", by "a_tombstone_that_no_pool_has_left_is_none";
    "a pool that cannot have ended is written back": "recover", "counted(head[8]) or 0"
        => "tonumber(head[8]) or 0", by "a_tombstone_that_no_pool_has_left_is_none";
    "a join hides that the members were lost": "join", "return { 'LOST', 'm' }"
        => "", by "who_joins_does_not_hide_that_the_members_were_lost";
    "nobody joins a pool that has lost its members": "join", "and not find(call('HGET', POOL, 'lost') or '', 'm', 1, true)"
        => "", by "who_joins_does_not_hide_that_the_members_were_lost";
    "a member without a counter lives for ever": "expire", "<= '18446744073709551615') and n or '0'"
        => "<= '18446744073709551615') and n", by "a_lost_counter_counts_as_0";
    "a strange counter lives for ever": "expire", "'^%+?(%d+)$'"
        => "'^(.+)$'", by "a_counter_that_is_no_number_counts_as_0";
    "a stranger is not seen": "inspect", "strangers[#strangers + 1] = p.owner"
        => "", by "an_owner_that_nobody_knows_is_expired_and_reaped";
    "who is to be reaped is a stranger": "inspect", "and call('HEXISTS', EXPIRED, p.owner) == 0 then"
        => "then", by "an_owner_that_is_to_be_reaped_is_no_stranger";
    "a stranger has no counter": "inspect", "call('HSET', HEARTBEATS, wid, t)"
        => "", by "an_owner_that_nobody_knows_is_expired_and_reaped";
    "a stranger's counter moves": "inspect", "if redis.pcall('HEXISTS', HEARTBEATS, wid) == 0 then"
        => "if true then", by "an_owner_that_nobody_knows_is_expired_and_reaped";
    "counters of another type hold up the look": "inspect", "if redis.pcall('HEXISTS', HEARTBEATS"
        => "if call('HEXISTS', HEARTBEATS", by "counters_of_another_type_hold_up_no_look";
    "who is no member is never expired": "expire", "observed == '' or not beats[i]"
        => "true", by "an_owner_that_nobody_knows_is_expired_and_reaped";
    "an owner's list is not mended": "inspect", "put(OWNERS, owned)"
        => "", by "a_job_that_no_index_names_is_put_where_it_belongs";
    "a score that hides others stays": "inspect", "call('ZADD', index, 0, member)"
        => "", by "a_score_that_hides_others_is_put_right";
    "the queue is not mended": "inspect", "put(QUEUE, due)"
        => "", by "a_job_that_no_index_names_is_put_where_it_belongs";
    "the last job is due first": "due", "'ZRANGE', QUEUE,"
        => "'ZREVRANGE', QUEUE,", by "the_jobs_that_are_due_come_in_their_order";
    "nothing is due unless somebody asks for it": "due", "math.max(1, math.min(tonumber(argv[1]), 1024))"
        => "tonumber(argv[1])", by "the_jobs_that_are_due_come_in_their_order";
    "what is parked is not listed again": "inspect", "put(PARKED, parked)"
        => "", by "a_job_that_no_index_names_is_put_where_it_belongs";
    "an index of another type holds up the look": "inspect", "redis.pcall('ZADD', index, 'NX'"
        => "call('ZADD', index, 'NX'", by "an_index_of_another_type_holds_up_no_other";
    "one of another type holds up the scores": "inspect", "redis.pcall('ZRANGEBYSCORE', index"
        => "call('ZRANGEBYSCORE', index", by "an_index_of_another_type_holds_up_no_other";
    "a look changes sound scores": "inspect", "pcall('ZADD', index, 'NX', unpack"
        => "pcall('ZADD', index, unpack", by "a_look_at_sound_records_changes_nothing";
    "a job that runs is due": "inspect", "or p.state ~= 'R' and due)"
        => "or due)", by "a_look_at_sound_records_changes_nothing";
    "an outranked run is not told": "inspect", "tonumber(p.token) > tonumber(argv[i + 2]) and 'O' or 'K'"
        => "false and 'O' or 'K'", by "what_is_held_is_compared_with_the_records";
    "a missing record is not told": "inspect", "letters[#letters + 1] = 'M'"
        => "letters[#letters + 1] = 'K'", by "what_is_held_is_compared_with_the_records";
    "who is fenced has lost its records": "inspect", "if call('HEXISTS', WORKERS, argv[i]) == 0 then"
        => "if false then", by "what_a_stranger_holds_is_left_to_its_renewal";
    "begin takes every record": "begin", "first, begun_first = '^1|A' .. mine .. '|0|0|%d+('"
        => "first, begun_first = '^1|%u|%d*|%d+|%d+|%d|%d+('", by "begin_needs_the_worker_the_token_and_the_state";
    "begin under any token": "begin", "if token ~= of_token then"
        => "token = match(r, '^1|%u|%d*|(%d+)|') or token\n      if token ~= of_token then", by "begin_needs_the_worker_the_token_and_the_state";
    "begin by a fenced worker": "begin", "not members[w] and 'F' or "
        => "", by "a_fenced_worker_begins_nothing";
    "a begin of one worker for all": "begin", "local wid, jobs = argv[2 + w]"
        => "local wid, jobs = argv[3]", by "workers_that_begin_together_are_answered_each_for_itself";
    "a fenced worker deletes entries": "begin", "(not heard or heard[w] == 'O')"
        => "true", by "workers_that_begin_together_are_answered_each_for_itself";
    "a full answer of each worker": "begin", "local of_token, mine, first, begun_first = nil, nil, nil, nil"
        => "bytes = 0\n  local of_token, mine, first, begun_first = nil, nil, nil, nil", by "an_answer_is_full_for_all_workers_of_a_call";
    "the payloads of one worker for all": "begin", "payloads[i - page + 1]"
        => "payloads[i - last - page + 1]", by "workers_that_begin_together_are_answered_each_for_itself";
    "a note of starts leaves finished entries": "started", "finish(5, of_entries, of_finished, workers)"
        => "", by "starts_of_workers_are_noted_together";
    "a note of starts tells the workers": "started", "tell_nodes(5 + workers, events)"
        => "tell_nodes(5, events)", by "nodes_that_wait_are_told";
    "a note of one worker for all": "started", "local wid, of_token, running, stopping, length = argv[2 + w]"
        => "local wid, of_token, running, stopping, length = argv[3]", by "starts_of_workers_are_noted_together";
    "every begin counts as the first": "begin", "if flag == '0' then"
        => "if true then", by "a_success_is_noted_once";
    "a begun job stays queued": "begin", "call('ZREM', QUEUE, unpack(unqueued))"
        => "", by "a_begun_job_is_the_workers";
    "begin while stopping": "begin", "stopping and 'Z' or "
        => "", by "a_stopping_pool_begins_nothing";
    "begin counts again when it is sent again": "begin", "if is_new or find(r, '^1|R' .. mine .. REST) then"
        => "if is_new then", by "begin_may_be_repeated";
    "begin reads the beginning of a record only": "begin", "|%d+()' .. BEHIND"
        => "|%d+()'", by "begin_and_started_read_a_record_to_its_end";
    "the first begin reads the beginning of a record only": "begin", "|0|0|%d+(' .. BEHIND .. ')'"
        => "|0|0|%d+(.*)'", by "begin_and_started_read_a_record_to_its_end";
    "started takes anything for an id": "started", "|%d+|()' .. ID .. '()|"
        => "|%d+|()[^|]*()|", by "begin_and_started_read_a_record_to_its_end";
    "started takes nothing for a time": "started", "()|%d+|%d*|()%d+()|"
        => "()|%d*|%d*|()%d+()|", by "begin_and_started_read_a_record_to_its_end";
    "started takes what is cut short": "started", "|()%d+()|', length"
        => "|()%d+()', length", by "begin_and_started_read_a_record_to_its_end";
    "the start of what was handed off is forgotten": "attest", "  p.begun = higher(higher(p.begun, begun), '1')"
        => "", by "what_was_handed_off_had_started";
    "a start that is said with a hand-off settles nothing": "attest", "  if p.begun == '2' then settle(p.id, 'ok', t, retention_ms) end\n  if p.state == 'S' then"
        => "  if p.state == 'S' then", by "what_was_handed_off_had_started";
    "the number of shards may change": "change_settings", "hash_keys = true, shard = true,"
        => "hash_keys = true,", by "what_a_pool_keeps_for_its_life_is_refused";
    "strikes may be nothing": "change_settings", "if name == 'strikes' and tonumber(to) == 0 then"
        => "if false then", by "what_a_pool_keeps_for_its_life_is_refused";
    "an own id that was attested and has ended lives again": "", "(given_up or p.ainc == argv[1]) and math.max(t"
        => "(given_up or not own and p.ainc == argv[1]) and math.max(t", by "what_was_said_late_or_twice_changes_nothing";
    "an own id that has ended lives again": "", "local given_up = p.begun ~= '0' and"
        => "local given_up = not own and p.begun ~= '0' and", by "a_stop_of_what_was_given_up_long_after_its_dispatch_sticks";
    "release under any token": "release", " or p.token ~= token"
        => "", by "only_the_owner_releases";
    "release by anybody": "release", "p.owner ~= wid or "
        => "", by "only_the_owner_releases";
    "elsewhere is a strike": "release", "delay = elsewhere(p, delay)"
        => "p.strikes = num(p.strikes + 1) delay = 0", by "elsewhere_is_the_next_worker";
    "elsewhere costs an attempt": "release", "if running then p.attempts = num(math.max(0, p.attempts - 1)) end\n    delay"
        => "delay", by "what_was_begun_goes_elsewhere_without_an_attempt";
    "elsewhere keeps the refusals": "", "local strikes = turned_away * most"
        => "local strikes = p.strikes + most", by "elsewhere_drops_the_refusals_of_the_present_worker";
    "a full pool never rests": "", "return 1000 * math.min(2 ^ (again / round), 30)"
        => "return 0", by "who_was_sent_on_by_all_pauses";
    "the first lap has a pause": "", "if again < 0 or again % round ~= 0 then return 0 end"
        => "if again % round ~= 0 then return 0 end", by "a_long_chain_is_asked_eight_at_a_time";
    "a long chain is asked all at once": "", "math.min(workers, 8)"
        => "workers", by "a_long_chain_is_asked_eight_at_a_time";
    "strikes grow beyond what is read": "", "strikes <= 4294967295 and strikes or 0"
        => "strikes", by "the_chain_begins_anew_when_the_strikes_run_out";
    "a kick goes on where the chain was": "sweep", "p.strikes = '0'"
        => "", by "a_kick_begins_the_chain_anew";
    "what went elsewhere before a loss comes back": "attest", "if mode == 'e' then elsewhere(p, 1) elseif"
        => "if", by "a_handed_off_job_comes_back_in_its_last_state";
    "a stop does not stick at release": "release", "mode == 'd' or to_stop or stopping"
        => "mode == 'd' or stopping", by "a_stopping_job_ends_whatever_the_mode";
    "release keeps jobs while stopping": "release", "mode == 'd' or to_stop or stopping"
        => "mode == 'd' or to_stop", by "a_stopping_pool_keeps_nothing";
    "a failed start costs no attempt": "release", "elseif running and t - p.since >= stable_ms then"
        => "else", by "a_job_given_back_after_its_begin_loses_that_attempt_only";
    "a cordon hides that the members were lost": "cordon", "return { 'LOST', 'm' }"
        => "", by "a_cordon_does_not_hide_that_the_members_were_lost";
    "a late copy of a cordon counts": "cordon", "if head[3] ~= argv[2] then"
        => "if false then", by "a_late_copy_of_a_cordon_undoes_nothing";
    "a cordon that is there makes a revision": "cordon", "if (call('HEXISTS', WORKERS, field) == 1) == on then"
        => "if false then", by "a_cordon_makes_one_revision_and_may_be_repeated";
    "a first cordon looks like a loss": "cordon", "grow(changes, 0)"
        => "", by "a_cordon_before_the_first_worker_is_no_sign_of_a_loss";
    "a job that is to be parked is tried again": "release", "most = 0"
        => "", by "a_job_is_parked_at_once_and_its_attempt_does_not_count";
    "a job that was parked is tried again after a loss": "attest", "mode == 'p' and 0 or max_attempts"
        => "max_attempts", by "a_job_that_was_parked_at_once_is_parked_again_after_a_loss";
    "the error of a stop is its dispatch's outcome": "release", "outcome == '' or way.stop_failed then"
        => "outcome == '' then", by "who_waits_for_a_stop_is_told_the_error_of_its_handler";
    "any error may be one of a stop": "release", "argv[at] == 'd' and sub("
        => "sub(", by "who_waits_for_a_stop_is_told_the_error_of_its_handler";
    "started under any token": "started", "if start == running or start == stopping then"
        => "local past = match(r, '^1|[RS]|' .. wid .. '|%d+|()') if past then length = past - 1", by "only_the_owner_reports_success";
    "dispatch in phase R": "dispatch", "if head[2] == 'R' then letter = 'R' break end"
        => "", by "phase_r_asks_to_retry_what_may_run_unseen";
    "dispatch of what has ended": "dispatch", "if ended[i] then letter = 'T' break end"
        => "", by "an_ended_dispatch_is_remembered_until_its_deadline";
    "an own id stands for anything": "dispatch", "if not stands_for(entry, key, hash) then letter = 'C' break end"
        => "", by "an_own_id_stands_for_one_key_and_one_payload";
    "no bound of queued jobs": "dispatch", "if queued >= max_queued then letter = 'B' break end"
        => "", by "the_bound_of_queued_jobs_is_exact";
    "dispatch after its deadline": "dispatch", "if not_after < t or not_after > latest then letter = 'L' break end"
        => "", by "deadlines_are_checked_by_the_servers_clock";
    "dispatch while closing": "dispatch", "if flag then letter = 'Z' break end"
        => "", by "a_closing_pool_accepts_nothing_new";
    "dispatch out of turn": "dispatch", "if plan ~= '' and not is_turn('s:' .. plan, argv[3], argv[4]) then return { 'STALETERM' } end"
        => "", by "a_planner_whose_turn_is_over_changes_nothing";
    "stop of any dispatch": "stop", "if not r or its ~= id and not same(its, id) then"
        => "if not r then", by "a_stop_never_ends_a_successor";
    "stop of an id that another begins with": "stop", "and find(r, '^|%d+|%d*|%d+|', at + #id) then"
        => "then", by "a_stop_of_an_id_that_anothers_begins_with_changes_nothing";
    "who waits later is not named": "stop", "again or waiting ~= ''"
        => "again", by "who_waits_for_a_stop_that_was_told_is_named_to_its_owner";
    "a repeated stop is told twice": "stop", "    told[key] = r\n"
        => "", by "the_sweeper_says_it_again";
    "an id is remembered as long as the one before": "", "local text = lasting[since]"
        => "local _, text = next(lasting)", by "ids_are_remembered_each_from_its_own_dispatch_on";
    "a job that was to stop stays queued": "release", "collect(key, wid, to_stop, id,"
        => "collect(key, wid, false, id,", by "a_job_that_was_to_stop_leaves_nothing_to_the_sweeper";
    "stop in phase R of what may run": "stop", "if recovering and not owned then return 'R' end"
        => "", by "phase_r_asks_to_retry_what_may_run_unseen";
    "a running job is deleted at once": "stop", "local owned = state == 'R' or state == 'S'"
        => "local owned = state == 'S'", by "a_running_jobs_owner_is_told";
    "a stop is told to whom the caller guesses": "stop", "if event.owner ~= owner then"
        => "if false then", by "a_wrong_guess_changes_nothing";
    "who is gone gets a stream again": "", "if redis.pcall('HEXISTS', WORKERS, event.owner) == 1 then"
        => "do", by "who_is_gone_gets_no_stream_again";
    "a lost stream stays lost": "", "if redis.pcall('HEXISTS', WORKERS, event.owner) == 1 then"
        => "if false then", by "a_member_without_a_stream_is_told";
    "stop out of turn": "stop", "if plan ~= '' and not is_turn('s:' .. plan, argv[3], argv[4]) then return { 'STALETERM' } end"
        => "", by "a_planner_whose_turn_is_over_changes_nothing";
    "a plan stops others' jobs": "stop", "if plan ~= '' and of_plan ~= plan then return 'N' end"
        => "", by "a_plan_stops_only_its_own_jobs";
    "dispatch places by a stale ring": "dispatch", "head[3] == argv[5]"
        => "true", by "a_ring_that_has_changed_places_nothing";
    "a placement without its event": "dispatch", "call('XADD', KEYS[fixed + x], '*', unpack(event, 1, event.n))"
        => "", by "a_job_that_names_its_worker_is_assigned_at_once";
    "a placement its worker does not own": "dispatch", "call('ZADD', OWNERS, unpack(owned))"
        => "", by "a_job_that_names_its_worker_is_assigned_at_once";
    "a placement with an old token": "dispatch", "token, due_begun = token or num(call('HINCRBY', POOL, 'token', 1))"
        => "token, due_begun = token or call('HGET', POOL, 'token')", by "a_job_that_names_its_worker_is_assigned_at_once";
    "a grant with an old token": "dispatch", "    token = token or num(call('HINCRBY', POOL, 'token', 1))"
        => "    token = token or call('HGET', POOL, 'token')", by "a_granted_job_is_its_workers_at_once";
    "a grant is due for its start": "dispatch", "if scored > 0 then call('ZADD', QUEUE, unpack(scores)) end"
        => "call('ZADD', QUEUE, due_at, records[1])", by "a_granted_job_is_its_workers_at_once";
    "a grant its worker does not own": "dispatch", "'0', grant.member .. key"
        => "'0', 'nobody:' .. key", by "a_worker_that_does_not_attest_has_tried_its_grants";
    "a grant of another incarnation": "dispatch", "'i', argv[1], n = 4"
        => "'i', '0', n = 4", by "a_granted_job_is_its_workers_at_once";
    "a grant has begun": "dispatch", "grant.front .. '0|' .. ts"
        => "grant.front .. '1|' .. ts", by "a_granted_job_is_its_workers_at_once";
    "long payloads are granted": "dispatch", "#payload <= grant_most"
        => "grant_most > 0", by "a_long_payload_is_assigned";
    "a grant without a bound": "dispatch", "grant.bytes + #payload <= GRANT_BYTES"
        => "true", by "a_grant_has_a_bound_of_bytes";
    "a grant behind what is assigned": "dispatch", "if not grants[x] then call('XADD', KEYS[fixed + x], '*', unpack(event, 1, event.n)) end"
        => "call('XADD', KEYS[fixed + x], '*', unpack(event, 1, event.n))", by "a_grant_comes_before_what_is_assigned_with_it";
    "a grant over what is left": "dispatch", " and not strays[i]"
        => "", by "nothing_is_granted_over_a_former_jobs_checkpoint";
    "a grant hides that notifications wait": "dispatch", "if noted[i] then news = news == 'B' and 'N' or 'n' end"
        => "", by "nothing_is_granted_over_a_former_jobs_checkpoint";
    "all grants are awaited": "dispatch", "sub(awaited, i, i)"
        => "'B'", by "the_news_say_whether_somebody_waits";
    "a first notification is not in the news": "notify_or_start", "argv[5 + x], 'n'"
        => "argv[5 + x], 'b'", by "a_job_started_by_a_notification_is_granted";
    "a routed grant is due for its start": "route", "if #unqueued > 0 then call('ZREM', QUEUE, unpack(unqueued)) end"
        => "", by "a_routed_job_is_granted";
    "a routed grant forgets that its job ran": "route", "grant.front .. flag .. '|'"
        => "grant.front .. '0|'", by "a_moved_job_is_granted_with_all_that_is_left";
    "a routed grant without its checkpoint": "route", "if header and given(header) then"
        => "if false then", by "a_moved_job_is_granted_with_all_that_is_left";
    "a routed grant hides that notifications wait": "route", "letters_of[i] = any_notes and"
        => "letters_of[i] = false and", by "a_moved_job_is_granted_with_all_that_is_left";
    "jobs that failed are granted": "route", "'^1|Q||%d+|0|([012])|%d+()'"
        => "'^1|Q||%d+|%d+|([012])|%d+()'", by "what_failed_or_was_lost_or_is_long_is_assigned";
    "checkpoints weigh nothing": "route", "bytes = bytes + call('HSTRLEN', CHECKPOINTS, 'b:' .. key)"
        => "", by "what_failed_or_was_lost_or_is_long_is_assigned";
    "a router grants long payloads": "route", "return bytes <= most and bytes or nil"
        => "return bytes", by "a_long_payload_is_assigned";
    "a router assigns before it grants": "route", "if grants[x].n > 4 then send_grant(stream, grants[x]) end\n      if event.n > 2 then redis.pcall('XADD', stream, '*', unpack(event, 1, event.n)) end"
        => "if event.n > 2 then redis.pcall('XADD', stream, '*', unpack(event, 1, event.n)) end\n      if grants[x].n > 4 then send_grant(stream, grants[x]) end", by "what_failed_or_was_lost_or_is_long_is_assigned";
    "a router grants over a checkpoint": "route", "if begun == '0' then return nil end"
        => "", by "a_router_grants_nothing_over_a_former_jobs_checkpoint";
    "a worker that does not attest has not tried a grant": "attend", "if p.state == 'R' then confirm(p) end"
        => "", by "a_worker_that_does_not_attest_has_tried_its_grants";
    "a begin leaves a grant unbegun": "begin", "if found == 1 then begun, is_granted = text, true end"
        => "", by "a_begin_confirms_a_grant_and_is_answered_as_a_first";
    "a begin of a grant is not counted": "begin", "(is_granted and 1 or news)"
        => "news", by "a_begin_confirms_a_grant_and_is_answered_as_a_first";
    "the start of a grant is not counted": "started", "if byte(r, flag) == 48 then never_begun = never_begun + 1 end"
        => "", by "a_start_confirms_a_grant";
    "a checkpoint leaves a grant unbegun": "save", "if granted == 1 then"
        => "if false then", by "a_checkpoint_confirms_a_grant_and_outlives_the_begin";
    "a stop leaves a grant unbegun": "stop", "r = granted == 1 and stopped or gsub"
        => "r = gsub", by "a_stop_confirms_a_grant_and_asks_the_owner";
    "a stop of a grant is not counted": "stop", "if granted == 1 then confirmed = confirmed + 1 end"
        => "", by "a_stop_confirms_a_grant_and_asks_the_owner";
    "a lost worker has not tried a grant": "reap", "    if p.state == 'R' then confirm(p) end\n    local delay"
        => "    local delay", by "a_lost_worker_has_tried_what_it_was_granted";
    "a grant that is given back has begun": "release", "local nobody_had = mode == 'b'"
        => "local nobody_had = false", by "a_granted_job_that_is_given_back_has_not_begun";
    "a grant that is sent elsewhere has begun": "release", " or mode == 'e' and way.result == ''"
        => "", by "a_granted_job_that_is_given_back_has_not_begun";
    "a grant that a handler refuses has not begun": "release", " and way.result == ''\n"
        => "\n", by "a_granted_job_that_is_given_back_has_not_begun";
    "a grant that ends has not begun": "release", "if p.state == 'R' and not nobody_had then confirm(p) end"
        => "", by "a_granted_job_that_ends_has_begun";
    "news of a grant stay lost": "steer", "if way == 'n' and p.begun ~= '2' and event.owner == p.owner then"
        => "if false then", by "a_granted_job_whose_news_are_lost_is_assigned_once_more";
    "news of what has begun are told again": "steer", "way == 'n' and p.begun ~= '2' and"
        => "way == 'n' and", by "a_granted_job_whose_news_are_lost_is_assigned_once_more";
    "a placement sent again is made again": "dispatch", "letter = not p and 'X' or same(p.id, id) and 'A' or p.state == 'P' and (is_paused(p) and 'Y' or 'P') or 'E'\n      break"
        => "if not same(p.id, id) then letter = 'E' break end", by "a_placed_job_sent_again_is_assigned_once";
    "an error outlasts the next begin": "begin", "if #explained > 0 then redis.pcall('HDEL', ERRORS, unpack(explained)) end"
        => "", by "an_error_goes_with_the_next_begin_or_the_job";
    "an error outlasts its job": "stop", "local waits = (p.state == 'Q' or p.state == 'A') and p.attempts ~= '0'"
        => "local waits = false", by "an_error_goes_with_the_next_begin_or_the_job";
    "route by a stale ring": "route", "if head[3] ~= argv[2] then return { 'STALERING', head[3] } end"
        => "", by "a_stale_ring_assigns_nothing";
    "route of what is not queued": "route", "'^1|Q||%d+('"
        => "'^1|%u|%d*|%d+('", by "a_job_is_assigned_once";
    "route while stopping": "route", "if is_stopping(flag) then return { 'SHUTDOWN' } end"
        => "", by "a_closing_pool_still_routes";
    "an assignment without its event": "route", "redis.pcall('XADD', stream, '*', unpack(event, 1, event.n))"
        => "call('EXISTS', stream)", by "a_routed_job_is_assigned_and_its_worker_told";
    "start events are not acknowledged": "route", "call('XACK', STARTS, 'routers', unpack(argv, 5, 4 + entries))"
        => "", by "a_job_is_assigned_once";
    "sweep leaves an assignment with its worker": "sweep", "if requeue(key, p, t, 0, route_ms, max_attempts, 'not begun in time') == 'P' then"
        => "if announce(key, p.strikes, t + route_ms) then", by "an_assignment_that_nobody_began_is_taken_back";
    "sweep does not repeat start events": "sweep", "announce(key, p.strikes, t + route_ms)"
        => "call('ZADD', QUEUE, t + route_ms, key)", by "an_assignment_that_nobody_began_is_taken_back";
    "sweep forgets stops": "sweep", "stops[j + 1], stops[j + 2], stops[j + 3] = key, p.id, p.owner"
        => "", by "the_sweeper_says_it_again";
    "nothing is ever forgotten": "sweep", "call('ZREM', ENDED, unpack(old))"
        => "", by "it_forgets_at_most_512_at_once_and_says_if_more_may_follow";
    "expire of a worker that has renewed": "expire", "if observed ~= '' and heard ~= observed then return 'R' end"
        => "", by "an_outdated_counter_expires_nobody";
    "an expired slot is not handed off": "expire", "if #free > 0 then"
        => "if false then", by "an_expired_slot_goes_to_the_oldest_standby";
    "a drained slot is not handed off": "drain", "if #free > 0 then"
        => "if false then", by "a_drained_slot_goes_to_the_oldest_standby";
    "a drained slot goes to another that drains": "drain", "ring(leaving)\n  hand_off(changes, used, free, all, leaving)"
        => "ring()\n  hand_off(changes, used, free, all, {})", by "workers_that_drain_together_hand_nothing_to_each_other";
    "a drain before the report of a worker says that it has left": "drain", "not entry and head[2] == 'R'"
        => "false", by "phase_r_does_not_say_that_a_worker_has_left";
    "a counter falls behind the clock": "renew", "math.max(count + 1, t)"
        => "count + 1", by "a_counter_moves_with_each_heartbeat_and_follows_the_clock";
    "a counter goes back with the clock": "renew", "math.max(count + 1, t)"
        => "t", by "a_counter_moves_with_each_heartbeat_and_follows_the_clock";
    "a silent worker counts as heard of when it is expired": "expire", "heard .. '|'"
        => "num(t) .. '|'", by "time_that_nobody_heard_of_proves_nothing";
    "jobs of a lost worker begin together": "reap", "local delay = p.state == 'R' and suspect(key, p, heard, stable_ms, ttl) or 0"
        => "local delay = 0", by "a_loss_soon_after_another_one_costs_a_pause";
    "a job that has proven itself is blamed": "", "if ran >= proven then"
        => "if false then", by "a_job_that_has_proven_itself_is_not_blamed";
    "what ran for a while is blamed like what was starting": "", "(ran < ttl and 2 or 5)"
        => "2", by "what_ran_for_a_while_waits_from_the_fifth_loss_on";
    "all suspects wait for the same time": "", "(100 + h % 901)"
        => "1000", by "suspects_of_one_loss_wait_for_different_times";
    "a kick looks at the same suspects again": "sweep", "passed = passed + 1"
        => "", by "a_kick_leaves_suspects_waiting";
    "a kick ends pauses": "sweep", " and (tonumber(p.attempts) < 2 or find(p.tail, '^|[^|]*|o'))"
        => "", by "a_kick_leaves_suspects_waiting";
    "a kick takes no job that has failed": "sweep", " or find(p.tail, '^|[^|]*|o')"
        => "", by "a_kick_takes_failed_jobs_that_found_no_worker";
    "a job that finds no worker does not say so": "route", "because(p, 'o')"
        => "", by "a_kick_takes_failed_jobs_that_found_no_worker";
    "reap of a living worker": "reap", "if not dead then return { 'GONE' } end"
        => "dead = dead or ''", by "a_living_worker_is_not_reaped";
    "reap of another's job": "reap", "if not p or p.owner ~= wid then"
        => "if not p then", by "an_index_is_no_truth";
    "a stop does not stick at reap": "reap", "elseif p.state == 'S' or stopping then"
        => "elseif stopping then", by "a_dead_owners_stopping_job_ends";
    "reap leaves the stream": "reap", "call('DEL', WORKER)"
        => "", by "reaping_goes_in_pages";
    "renewals are not counted": "renew", "if entry then beat(argv[i]) end"
        => "", by "a_heartbeat_counts_members_only";
    "renewals of fenced workers are counted": "renew", "if entry then beat(argv[i]) end"
        => "beat(argv[i])", by "a_heartbeat_counts_members_only";
    "a stream that was made anew is not told": "renew", "out[8] = '1'"
        => "", by "a_heartbeat_opens_the_nodes_stream";
    "a renewal names no entry of a stream": "renew", "return first and first[1] or '',"
        => "return '',", by "a_heartbeat_names_the_oldest_entry_of_each_workers_stream";
    "a renewal looks at the streams of others": "renew", "argv[4] == '' and 10 or 11"
        => "10", by "a_heartbeat_names_the_oldest_entry_of_each_workers_stream";
    "a renewal looks at the stream of a fenced worker": "renew", "if entry then oldest,"
        => "if true then oldest,", by "a_heartbeat_looks_at_no_stream_of_a_fenced_worker";
    "a stream of another type costs a lease": "renew", "redis.pcall('XINFO', 'STREAM', key)"
        => "call('XINFO', 'STREAM', key)", by "a_stream_of_another_type_costs_no_lease";
    "a renewal counts the entries that are left": "renew", "num(known['entries-added'] or 0)"
        => "num(known['length'] or 0)", by "a_heartbeat_counts_the_entries_that_were_ever_added";
    "renewals do not raise the token": "renew", "raise(head[7], seen_token(argv[2]))"
        => "raise(head[7], 0)", by "a_heartbeat_raises_the_token_counter";
    "renewals do not tell the token": "renew", "num(highest)"
        => "'0'", by "a_heartbeat_raises_the_token_counter";
    "a join that is sent again joins twice": "join", "'^%u|[^|]*|%d+|([^|]*)|') == nonce then"
        => "'^%u|[^|]*|%d+|([^|]*)|') == '' then", by "a_repeated_join_gets_its_entry_again";
    "two workers in one slot": "join", "preferred % 1 == 0 and not used[preferred] then"
        => "preferred % 1 == 0 then", by "a_free_preferred_slot_is_given";
    "join with other settings": "join", "if theirs and theirs ~= ours then"
        => "if false then", by "other_settings_are_refused_before_anything_is_written";
    "a floor is not checked": "", "if level_of(head[6]) > LEVEL then"
        => "if false then", by "a_floor_refuses_older_scripts";
    "the floor passes its members": "raise_level", "if oldest then return"
        => "if false then return", by "the_floor_waits_for_every_member";
    "any level is taken for the floor": "raise_level", "if level < 1 or level > LEVEL then"
        => "if false then", by "a_level_that_the_script_does_not_know_is_refused";
    "the floor goes down": "raise_level", "if level <= floor then return { 'OK', num(floor) } end"
        => "", by "a_floor_refuses_older_scripts";
    "a floor is raised while members are missing": "raise_level", "local head, refusal = guard()"
        => "local head, refusal = guard(true)", by "a_recovering_pool_keeps_its_floor";
    "a recovery forgets the floor": "recover", "if floor > level_of(head[6]) then"
        => "if false then", by "a_recovery_keeps_the_higher_floor";
    "a recovery lowers the floor": "recover", "if floor > level_of(head[6]) then"
        => "if true then", by "a_recovery_keeps_the_higher_floor";
    "a renewal forgets the floor": "renew", "if seen > floor and seen <= LEVEL then"
        => "if false then", by "a_renewal_brings_back_the_floor_that_was_seen";
    "a renewal lowers the floor": "renew", "if seen > floor and seen <= LEVEL then"
        => "if seen ~= floor and seen <= LEVEL then", by "a_renewal_brings_back_the_floor_that_was_seen";
    "a renewal raises the floor above its script": "renew", "if seen > floor and seen <= LEVEL then"
        => "if seen > floor then", by "a_renewal_brings_back_the_floor_that_was_seen";
    "a new pool forgets the floor": "bootstrap", "'floor', argv[5])"
        => "'floor', 1)", by "a_new_pool_begins_at_the_floor_that_was_seen";
    "any address is published": "join", "if #address > 128 or find(address, '[^!-{}~]') then return { 'BADARG' } end"
        => "", by "an_address_that_is_none_is_refused";
    "a long address is attested": "attest", "or #address > 128 then"
        => "then", by "bad_arguments_change_nothing";
    "a member does not name its level": "join", "meta, LEVEL, address"
        => "meta, 1, address", by "a_member_names_its_level_and_its_address";
    "join while closing": "join", "if call('HEXISTS', SETTINGS, 'shutdown') == 1 then return { 'SHUTDOWN' } end"
        => "", by "a_closing_pool_takes_no_worker";
    "settle in a slot that is taken": "settle", "repeat slot = slot + 1 until not used[slot]"
        => "slot = slot + 1", by "a_standby_settles_on_the_lowest_hole";
    "a slot that is taken is given where no job is": "join", "while used[slot] do slot = slot + 1 end"
        => "", by "where_no_job_is_every_worker_is_up_at_once";
    "who comes first to waiting jobs takes them all": "join", "if up == 0 and not empty then\n  slot = nil"
        => "if up == 0 and not empty then\n  slot = 0", by "who_comes_to_jobs_while_nobody_is_up_waits_for_the_others";
    "a newcomer takes a slot beside jobs": "join", "if not slot and empty then"
        => "if not slot then", by "the_first_worker_gets_slot_zero";
    "a standby settles alone while nobody is up": "settle", "if up > 0 then waiting = {} end"
        => "waiting = {}", by "who_comes_to_jobs_while_nobody_is_up_waits_for_the_others";
    "all standbys settle at once beside others": "settle", "if up > 0 then waiting = {} end"
        => "", by "a_standby_settles_alone_beside_others";
    "the silent count as up": "", "if beat and (beat == 1 or beat + ttl > t) then"
        => "if beat then", by "the_silent_are_not_up";
    "who has not renewed yet is silent": "", "if beat and (beat == 1 or beat + ttl > t) then"
        => "if beat and beat + ttl > t then", by "the_silent_are_not_up";
    "the last one that is up leaves its slot to one": "expire", "if up == 0 and next(waiting) then"
        => "if false then", by "the_last_one_that_is_up_leaves_room_for_all";
    "a standby that ends takes a slot": "expire", "if match(all[i], '^%d+$') and not but[all[i]] and match("
        => "if match(all[i], '^%d+$') and match(", by "slots_of_workers_that_end_together_go_to_oldest_standbys";
    "those that end together count as up": "expire", "living(all, t, ending)"
        => "living(all, t)", by "those_that_end_together_leave_room_for_all";
    "those that end together keep their slots": "expire", "ring(ending)"
        => "ring()", by "those_that_end_together_leave_room_for_all";
    "one standby for all slots": "expire", "taken, used[slot] = taken + 1, true"
        => "taken, used[slot] = 1, true", by "slots_of_workers_that_end_together_go_to_oldest_standbys";
    "a worker that is named twice has not ended": "expire", "if ending[wid] or not entry and buried[i]"
        => "if not entry and buried[i]", by "those_that_end_together_are_answered_each_for_itself";
    "an end that is said again is unknown": "expire", "if ending[wid] or not entry and buried[i]"
        => "if ending[wid]", by "expiry_is_final_and_may_be_repeated";
    "a stop deletes all notifications": "stop", "if is_full() then return 'L' end"
        => "", by "a_stop_deletes_a_page_of_notifications";
    "a release deletes all notifications": "release", "if ends and is_full() then return 'L' end"
        => "", by "a_release_deletes_a_page_of_notifications";
    "a release of what goes on waits": "release", "if ends and is_full() then"
        => "if is_full() then", by "a_release_deletes_a_page_of_notifications";
    "a reap deletes all notifications": "reap", "if is_full() then break end"
        => "", by "a_reap_deletes_a_page_of_notifications";
    "a reap ends with its page": "reap", "if freed == #members and freed < limit then"
        => "if freed < limit then", by "a_reap_deletes_a_page_of_notifications";
    "a purge deletes all notifications": "purge", "if is_full() then break end"
        => "", by "a_purge_deletes_a_page_of_notifications";
    "an attestation deletes all notifications": "attest", "local later = is_full()"
        => "local later = false", by "an_attestation_deletes_a_page_of_notifications";
    "a last word deletes all notifications": "attend", "if is_full() then break end"
        => "", by "a_last_word_deletes_a_page_of_notifications";
    "a last word ends with its page": "attend", "if seen == limit or seen < #members then"
        => "if seen == limit then", by "a_last_word_deletes_a_page_of_notifications";
    "a start keeps what it has kept": "notify_or_start", "if p.id == id then return 'A' end"
        => "", by "a_start_sent_again_starts_and_keeps_once";
    "a start begins again what has ended": "notify_or_start", "if ended[i] then return 'T' end"
        => "", by "a_start_sent_again_after_the_end_starts_nothing";
    "a start while closing": "notify_or_start", "if flag then return 'Z' end"
        => "", by "a_closing_pool_starts_nothing_and_notifies";
    "a start after its time": "notify_or_start", "not_after < t or "
        => "", by "a_start_comes_in_its_time_or_not_at_all";
    "a start for any time": "notify_or_start", " or not_after > latest"
        => "", by "a_start_comes_in_its_time_or_not_at_all";
    "a start in phase R": "notify_or_start", "if head[2] == 'R' then return 'R' end"
        => "", by "phase_r_notifies_what_is_there_and_starts_nothing";
    "no bound of started jobs": "notify_or_start", "if queued >= max_queued then return 'F' end"
        => "", by "the_bounds_hold_for_started_jobs";
    "a batch of starts passes the bound": "notify_or_start", "queued = queued + 1"
        => "", by "the_bounds_hold_for_started_jobs";
    "a start without tokens": "notify_or_start", "if not tokens_left then return 'N' end"
        => "", by "at_its_end_the_counter_refuses_what_mints";
    "a job without its notification": "notify_or_start", "if letter ~= 'K' then return letter end"
        => "", by "no_job_is_started_without_its_notification";
    "a start places by a stale ring": "notify_or_start", "head[3] == argv[2]"
        => "true", by "a_started_job_of_another_ring_is_left_to_the_routers";
    "a stopping job is notified by a start": "notify_or_start", "if p.state == 'S' then return 'S' end"
        => "", by "a_stopping_job_is_neither_notified_nor_started";
    "a start wakes nobody": "notify_or_start", "local owner = p.state == 'R' and p.owner"
        => "local owner = nil", by "a_job_that_is_there_is_notified_and_not_started";
    "a start is under its caller's id": "notify_or_start", "'^[0-9A-Za-z_:-]+()%.()[0-9A-Za-z_:.-]+$'"
        => "'^[0-9A-Za-z_:-]+()%.!?()[0-9A-Za-z_:.-]+$'", by "a_start_with_a_bad_argument_is_refused";
    "the notification of a start is lost": "notify_or_start", "write_kept(11)"
        => "", by "a_job_that_is_not_there_is_accepted_with_its_first";
    "two for one key start it twice": "notify_or_start", "accepted[key] or stored[i]"
        => "stored[i]", by "several_for_one_key_start_it_once";
    "no bound of notifications": "notify", "if count >= cap or"
        => "if", by "the_bounds_are_exact";
    "no wake-up for a notification": "notify", "send(KEYS[fixed + x], event)"
        => "", by "the_first_of_a_running_job_wakes_its_owner";
    "notifications are numbered from 0": "notify", "number = from or tonumber(counted)"
        => "number = 0", by "a_late_acknowledgement_swallows_nothing";
    "a stopping job is notified": "notify", "if state == 'S' then return 'N' end"
        => "", by "a_running_jobs_owner_is_told";
    "take under any token": "take", "sub(r, 1, length) == running and find(r, rest, length + 1)"
        => "find(r, '^1|R|' .. wid .. '|%d+' .. REST)", by "only_the_owner_takes";
    "acknowledged notifications stay": "take", "acknowledge(key, was, ending, size, tonumber(argv[of_acks + i]), text)"
        => "was", by "the_first_of_a_running_job_wakes_its_owner";
    "a dropped notification stays": "drop_notifications", "call('HDEL', NOTIFICATIONS, unpack(gone))"
        => "", by "those_that_are_dropped_are_not_taken";
    "bytes of a dropped notification count on": "drop_notifications", "size = size - call('HSTRLEN', NOTIFICATIONS, field)"
        => "", by "those_that_are_dropped_are_not_taken";
    "a drop takes one too many": "drop_notifications", "math.min(through + 1, next_)"
        => "math.min(through + 2, next_)", by "a_drop_may_be_repeated";
    "a page of notifications without end": "notifications", "and at < first + 16"
        => "", by "those_that_wait_are_listed_in_pages";
    "unpark of any dispatch": "unpark", "if not p or p.id ~= id then return 'N' end"
        => "if not p then return 'N' end", by "only_the_dispatch_that_was_named_is_unparked";
    "an unparked job keeps its attempts": "unpark", "p.attempts, p.strikes = '0', '0'"
        => "", by "an_unparked_job_starts_anew";
    "a steer is of any dispatch": "steer", "if p.id ~= argv[of_ids + i] then return 'N' end"
        => "", by "a_steer_is_of_its_dispatch";
    "a job that stops is steered": "steer", "if p.state == 'S' then return 'S' end"
        => "", by "a_stopping_job_is_not_steered";
    "a steer goes by no token": "steer", "p.token ~= argv[of_tokens + i] or "
        => "", by "a_late_copy_of_a_steer_finds_another_token";
    "a steer goes by no time": "steer", " or p.since ~= argv[of_sinces + i]"
        => "", by "a_late_copy_of_a_steer_does_nothing";
    "a steer leaves no trace within its moment": "steer", "since >= t and since < t + 60000 and since + 1 or t"
        => "t", by "a_late_copy_of_a_steer_of_the_same_moment_does_nothing";
    "a parked job is steered anew": "steer", "if not paused and way ~= 'n' and way ~= 'z' then return 'P' end"
        => "", by "a_parked_job_stays_parked";
    "a steer goes to whoever is guessed": "steer", " or event.owner ~= p.owner then"
        => " then", by "a_steer_that_guesses_the_owner_wrong_does_nothing";
    "a job that runs is retried": "steer", "if way == 'n' or event.owner"
        => "if event.owner", by "a_job_that_somebody_has_is_not_retried";
    "an assigned job is retried": "steer", "    if way == 'n' then return 'C' end\n"
        => "", by "a_job_that_somebody_has_is_not_retried";
    "a retried job keeps its attempts": "steer", "p.attempts, p.strikes = '0', '0'"
        => "", by "a_parked_job_that_is_retried_starts_anew";
    "a retried job stays in the list": "steer", "call('ZREM', PARKED, unpack(unparked))"
        => "", by "a_parked_job_that_is_retried_starts_anew";
    "a retried job keeps its error": "steer", "redis.pcall('HDEL', ERRORS, unpack(unparked))"
        => "", by "a_parked_job_that_is_retried_starts_anew";
    "a job is parked without its reason": "steer", "place(key, p, at, 0, reason)"
        => "place(key, p, at, 0, '')", by "a_job_that_nobody_has_begun_is_parked_with_the_reason";
    "an assigned job goes nowhere else": "steer", "else elsewhere(p, 4294967296) end"
        => "end", by "an_assigned_job_goes_to_the_next_worker_or_home";
    "an assigned job does not go home": "steer", "if way == 'h' then p.strikes = '0' else"
        => "if way ~= 'h' then", by "an_assigned_job_goes_to_the_next_worker_or_home";
    "a pool that recovers steers jobs": "steer", "if head[2] == 'R' then return 'R' end"
        => "", by "a_recovering_pool_steers_nothing";
    "a pool that stops steers jobs": "steer", "if is_stopping(flag) then return { 'SHUTDOWN' } end"
        => "", by "a_stopping_pool_steers_nothing";
    "an owner hears of no steer": "steer", "if event.n > 0 then send"
        => "if false then send", by "the_owner_of_a_running_job_is_told_what_is_wanted";
    "a pause is made longer once in a call": "steer", "if not stays then p.since = '' end"
        => "p.since = ''", by "a_pause_is_made_longer_twice_in_one_call";
    "a batch steers one job twice": "steer", "if not stays then p.since = '' end"
        => "", by "a_record_that_a_call_has_made_is_none_that_was_seen";
    "the steers of a batch do not see each other": "steer", "  jobs[key] = p\n"
        => "", by "the_steers_of_a_batch_see_each_other";
    "a retry starts a paused job": "steer", "if paused and way ~= 'y' and not (way == 'z' and lasts(p, reason)) then return 'Y' end"
        => "if paused and way ~= 'y' and way ~= 'n' and not (way == 'z' and lasts(p, reason)) then return 'Y' end", by "nothing_but_a_resume_starts_a_paused_job";
    "a pause is repeated anew": "steer", "if paused and way ~= 'y' and not (way == 'z' and lasts(p, reason)) then return 'Y' end"
        => "if paused and way ~= 'y' and way ~= 'z' then return 'Y' end", by "a_pause_may_be_repeated";
    "a resume starts a parked job": "steer", "way ~= 'n' and way ~= 'z' then return 'P'"
        => "way ~= 'n' and way ~= 'z' and way ~= 'y' then return 'P'", by "a_resume_of_what_is_not_paused_does_nothing";
    "a resume reaches a job that runs": "steer", "elseif way == 'y' then"
        => "elseif false then", by "a_resume_of_what_is_not_paused_does_nothing";
    "a pause is said to be a park": "steer", "return way == 'z' and 'Y' or 'P'"
        => "return 'P'", by "a_job_that_nobody_has_begun_is_paused_at_once";
    "a job is parked where it is to be paused": "steer", "because(p, way)"
        => "because(p, 'p')", by "a_job_that_nobody_has_begun_is_paused_at_once";
    "a resume gives no reason": "steer", "because(p, way == 'y' and 'y' or 'u')"
        => "because(p, 'u')", by "a_resumed_job_starts_anew";
    "an unpark starts a paused job": "unpark", "if is_paused(p) then return 'Y' end"
        => "", by "nothing_but_a_resume_starts_a_paused_job";
    "a pause is told as a park": "release", "way.why == 'z' and 'paused' or 'parked'"
        => "'parked'", by "a_job_that_its_owner_has_paused_rests";
    "a dispatch takes a paused job for a parked one": "dispatch", "(is_paused(p) and 'Y' or 'P')"
        => "'P'", by "a_paused_key_says_so_to_all_who_want_it";
    "an ask takes a paused job for a parked one": "ask", "return p and is_paused(p) and 'Y' or 'P'"
        => "return 'P'", by "a_paused_key_says_so_to_all_who_want_it";
    "every parked job is paused": "", "find(p.tail, '^|[^|]*|z') ~= nil"
        => "true", by "a_paused_key_says_so_to_all_who_want_it";
    "a parked job stays its worker's": "", "if p.owner ~= '' then released[#released + 1]"
        => "if p.owner ~= '' and tonumber(p.attempts) < max_attempts then released[#released + 1]", by "an_unparked_job_starts_anew";
    "jobs are never parked": "", "if tonumber(p.attempts) >= max_attempts then"
        => "if false then", by "a_job_given_back_after_its_begin_loses_that_attempt_only";
    "a deleted job leaves its notifications": "", "\n  if any_notes ~= false then collect_notes(key) end\n"
        => "\n", by "they_end_with_their_job";
    "a header of any length is believed": "", "local NOTES_MAX = 1000"
        => "local NOTES_MAX = 10000", by "a_damaged_header_is_answered_and_heals";
    "a reversed header is believed": "", "ending <= first or "
        => "", by "a_damaged_header_is_answered_and_heals";
    "numbers are believed that Lua cannot tell apart": "", " or #next_ > 15 or #bytes > 15"
        => "", by "a_damaged_header_is_answered_and_heals";
    "a damaged header stays without its job": "", "  if not text then return end\n"
        => "  if not text then notes[n] = nil return end\n", by "a_job_goes_with_its_damaged_header_by_every_way";
    "an ended dispatch is not remembered": "", "text = since + late_ms > t and num(since + late_ms)"
        => "text = false", by "an_ended_dispatch_is_remembered_until_its_deadline";
    "an outcome is told of any key": "", "entry and entry.key == key and entry.outcome or false"
        => "entry and entry.outcome or false", by "explain_remembers_an_ended_dispatch";
    "a worker that has just joined lives no more": "explain", "if count == 1 then count = t end"
        => "", by "explain_knows_when_a_worker_was_heard_last";
    "what was attested before a loss counts": "explain", " and facts[i + 1] == phase[1] then"
        => " then", by "explain_names_who_has_attested";
    "one silent worker is all": "explain", "math.max(highest or 0, count)"
        => "count", by "explain_knows_when_a_worker_was_heard_last";
    "damaged errors hide the parked jobs": "parked", "redis.pcall('HMGET', ERRORS"
        => "call('HMGET', ERRORS", by "parked_jobs_are_listed_and_unparked_without_their_errors";
    "damaged memories of dispatches hide a job": "explain", "pcall(remembered_of, key, id)"
        => "true, remembered_of(key, id)", by "explain_and_figures_pass_over_keys_of_another_type";
    "figures of no entry are of all": "figures", "math.max(1, math.min(tonumber(argv[1]), 1024))"
        => "math.min(tonumber(argv[1]), 1024)", by "figures_look_at_no_more_jobs_than_they_are_told";
    "figures never tell that there is more": "figures", "size('ZCARD', QUEUE) > look and 1"
        => "size('ZCARD', QUEUE) > 1024 and 1", by "figures_look_at_no_more_jobs_than_they_are_told";
    "a job that has failed counts as new": "figures", "flag and (flag == '0' or attempts == '0')"
        => "flag", by "a_job_that_comes_back_before_its_first_start_is_new";
    "a job that has started counts as new": "figures", "|([01])|%d+|"
        => "|([012])|%d+|", by "a_job_that_comes_back_before_its_first_start_is_new";
    "a job that comes back is not new": "figures", "(flag == '0' or attempts == '0')"
        => "flag == '0'", by "a_job_that_comes_back_before_its_first_start_is_new";
    "jobs that come back are not counted": "figures", "returned = returned + tonumber(flag)"
        => "", by "a_job_that_comes_back_before_its_first_start_is_new";
    "every job is each worker's": "figures", "'[' .. argv[i] .. ':', '(' .. argv[i] .. ';'"
        => "'-', '+'", by "figures_count_the_jobs_of_each_state";
    "the last outcome stays": "", "if entry and not entry.outcome and entry.gen == id then"
        => "if entry and entry.gen == id then", by "the_first_outcome_stays";
    "steps of another incarnation": "", "if head[1] ~= argv[1] then return nil, { 'STALEINC', head[1] } end"
        => "", by "another_incarnation_is_refused_by_every_step";
    "phase R refuses nothing": "", "if head[2] == 'R' and not recovering_too then return nil, { 'RECOVERING' } end"
        => "", by "phase_r_refuses_what_starts_jobs";
    "a schedule is made anew": "sched", "  if not s then\n"
        => "  if true then\n", by "a_schedule_is_made_once";
    "a schedule is ended out of turn": "sched", "if argv[5] ~= '' and not is_turn(name, argv[4], argv[5]) then return { 'STALETERM' } end"
        => "", by "ticks_need_the_turn";
    "a late change of the period": "sched", "if s.rev == argv[5] then"
        => "if true then", by "a_late_change_of_the_period_undoes_no_other";
    "a turn is taken from who lives": "term", "elseif not held or s.term == argv[at + 4] and s.seq == argv[at + 5] then"
        => "elseif true then", by "one_at_a_time_has_the_turn";
    "another life of the same node holds the turn": "term", "and s.node == node and s.life == life"
        => "and s.node == node", by "another_schedule_of_the_same_node_is_another_holder";
    "a turn outlasts a recovery": "term", "local held = s.node ~= '' and s.inc == inc"
        => "local held = s.node ~= ''", by "a_recovery_ends_every_turn";
    "tick out of turn": "tick", "if not is_turn(name, argv[3], argv[4]) then return { 'STALETERM' } end"
        => "", by "a_turn_that_was_left_is_anybodys";
    "a tick whose answer was lost is lost": "tick", "if number == s.ticks and number > 0 then"
        => "if false then", by "a_tick_whose_answer_was_lost_is_given_again";
    "a tick before its time": "tick", "or s.next > t then"
        => "then", by "a_tick_is_given_out_once_when_it_is_due";
    "closing ends at once": "shutdown", "(t >= tonumber(deadline) or nothing_queued)"
        => "true", by "closing_turns_into_stopping_when_nothing_is_queued";
    "stopping forgets its deadline": "shutdown", "'S|' .. deadline .. '|'"
        => "'S||'", by "closing_turns_into_stopping_at_its_deadline";
    "purge while running": "purge", "if not is_stopping(flag) then return { 'NOTSTOPPING' } end"
        => "", by "purge_needs_a_stopping_pool";
    "a page beyond the end begins anywhere": "notifications", "math.min(math.max(first, from), next_)"
        => "math.max(first, from)", by "those_that_wait_are_listed_in_pages";
    "garbage among the members keeps a pool": "cleanup", "if is_member(all[i], all[i + 1]) then"
        => "if all[i] ~= 'size' then", by "cleanup_waits_for_no_garbage";
    "garbage among the dead keeps a pool": "cleanup", "if match(wid, '^%d+$') and #wid <= 19 then members"
        => "if true then members", by "cleanup_waits_for_no_garbage";
    "cleanup under living members": "cleanup", "if members > 0 then return { 'MEMBERS', members } end"
        => "", by "cleanup_waits_for_the_last_member";
    "bootstrap over a pool": "bootstrap", "if known[1] then return { 'EXISTS', known[1] } end"
        => "", by "a_pool_is_created_once";
    "no token floor after a loss": "bootstrap", "math.max(floor_at(t), seen_token(argv[1]))"
        => "seen_token(argv[1])", by "tokens_begin_above_all_that_was_seen";
    "no token floor after a rollback": "recover", "if not stored or stored < begins then"
        => "if not stored then", by "tokens_begin_above_all_that_was_seen";
    "recovery keeps the incarnation": "recover", "math.max(after(head[1]), after(argv[3]), t)"
        => "tonumber(head[1])", by "the_first_recovery_wins";
    "an incarnation that was seen comes again": "recover", "after(argv[3]), t)"
        => "t)", by "incarnations_begin_above_all_that_was_seen";
    "a pool made anew begins below what was seen": "bootstrap", "math.max(tonumber(argv[2]) + 1, t)"
        => "t", by "incarnations_begin_above_all_that_was_seen";
    "a dead worker attests": "attest", "if call('HEXISTS', EXPIRED, wid) == 1 then return { 'FENCED' } end"
        => "", by "attestations_belong_to_phase_r";
    "attestation in phase N": "attest", "if head[2] ~= 'R' then return { 'NORMAL' } end"
        => "", by "attestations_belong_to_phase_r";
    "attend takes away what was attested": "attend", "elseif p and p.ainc ~= argv[1] then"
        => "elseif p then", by "a_running_job_is_kept";
    "attend finds nothing missing": "attend", "elseif p and p.ainc ~= argv[1] then"
        => "elseif false then", by "what_is_not_attested_is_queued";
    "attend in phase N": "attend", "if head[2] ~= 'R' then return { 'NORMAL' } end"
        => "", by "attestations_belong_to_phase_r";
    "the pool opens without waiting": "open_normal", "if lowest then return { 'WAIT', lowest } end"
        => "", by "the_pool_waits_for_members_until_they_have_attested";
    "a late bootstrap makes the pool again": "bootstrap", "if closed > tonumber(argv[2]) then return { 'CLOSED' } end"
        => "", by "a_bootstrap_from_before_the_pool_leaves_its_tombstone";
    "what has ended pushes out what was accepted since": "attest", "if ended and p and not mine and p.owner == '' then return 'E' end"
        => "", by "what_has_ended_pushes_out_nothing_that_was_accepted_since";
    "a new pool forgets the one that has ended": "bootstrap", "local closed = counted(known[2]) or 0"
        => "local closed = 0", by "a_pool_says_which_one_has_ended_before_it";
    "a pool made anew forgets the one that has ended": "bootstrap", "math.max(tonumber(argv[4]), closed)"
        => "closed", by "a_pool_says_which_one_has_ended_before_it";
    "a recovered pool forgets the one that has ended": "recover", "math.max(ended, counted(head[8]) or 0)"
        => "counted(head[8]) or 0", by "a_recovery_writes_back_which_pool_has_ended";
    "a recovered pool takes up the flag of one that has ended": "recover", "if tonumber(head[1]) <= ended and"
        => "if false and", by "the_flag_of_a_pool_that_has_ended_goes_with_its_recovery";
    "a recovered pool loses its flag": "recover", "if tonumber(head[1]) <= ended and"
        => "if", by "the_flag_of_a_pool_that_has_ended_goes_with_its_recovery";
    "an update ends with the run before it": "release", "if way.ran and not to_stop and"
        => "if false and", by "a_job_that_ends_before_its_update_goes_on";
    "an update outlasts a stop": "release", "way.ran and not to_stop and not stopping and"
        => "way.ran and not stopping and", by "a_job_that_ends_before_its_update_goes_on";
    "an update outlasts its pool": "release", "way.ran and not to_stop and not stopping and"
        => "way.ran and not to_stop and", by "a_stopping_pool_ends_updated_jobs";
    "a job runs again with the payload that it had": "release", "generation_of(p.tail) > way.ran"
        => "generation_of(p.tail) >= way.ran", by "a_job_that_ends_before_its_update_goes_on";
    "release mints": "release", "local reply = requeue(key, p, t, delay"
        => "p.token = num(call('HINCRBY', POOL, 'token', 1))\n  local reply = requeue(key, p, t, delay", by "phase_r_lets_work_end";
    "dispatch mints": "dispatch", "'1|Q||0|0|0|' .. ts"
        => "'1|Q||' .. num(call('HINCRBY', POOL, 'token', 1)) .. '|0|0|' .. ts", by "an_accepted_job_is_queued_with_one_event";
    "sweep mints": "sweep", "p.strikes = num(p.strikes + 1)"
        => "p.strikes, p.token = num(p.strikes + 1), num(call('HINCRBY', POOL, 'token', 1))", by "an_assignment_that_nobody_began_is_taken_back";
    "reap mints": "reap", "local delay = p.state == 'R' and suspect"
        => "p.token = num(call('HINCRBY', POOL, 'token', 1))\n    local delay = p.state == 'R' and suspect", by "the_loss_of_its_worker_keeps_a_jobs_attempts";
    "what has ended leaves a queued record": "attest", "if p and p.owner ~= '' and tonumber(p.token) > token then return '-' end"
        => "if p and (p.owner == '' or tonumber(p.token) > token) then return '-' end", by "what_ended_is_gone_and_never_accepted_again";
    "what has ended outranks": "attest", "if p and p.owner ~= '' and tonumber(p.token) > token then return '-' end"
        => "", by "an_end_is_no_end_for_another_owner_or_dispatch";
    "a lower token is attested over another owner": "attest", "if p and tonumber(p.token) > token and (p.owner ~= '' or not mine) then return 'O' end"
        => "", by "a_runner_under_a_lower_token_is_outranked";
    "what was handed off outranks": "attest", "or p.owner == '' or tonumber(p.token) > token then return '-' end"
        => "or p.owner == '' then return '-' end", by "only_the_owners_word_hands_off";
    "what has ended is not remembered": "attest", "call('ZADD', ENDED, at + late_ms, id)"
        => "", by "what_ended_is_gone_and_never_accepted_again";
    "a later dispatch gives way to an earlier one": "attest", "if p and tonumber(p.token) > token and (p.owner ~= '' or not mine) then return 'O' end"
        => "if p and tonumber(p.token) > token and p.owner ~= '' then return 'O' end", by "what_was_begun_later_outranks_an_earlier_dispatch";
    "a queued record outranks its runner": "attest", "if p and tonumber(p.token) > token and (p.owner ~= '' or not mine) then return 'O' end"
        => "if p and tonumber(p.token) > token then return 'O' end", by "what_nobody_owns_outranks_nobody";
    "what has ended runs on when attested": "attest", "local stops = ended or p.state == 'S'"
        => "local stops = p.state == 'S'", by "a_runner_whose_dispatch_has_ended_must_stop";
    "a former use of an id ends the next one": "attest", "return has_outcome and not is_former(entry, created)"
        => "return has_outcome", by "a_runner_of_an_id_that_is_used_again_keeps_its_job";
    "an id keeps the outcome of its former use": "attest", "local is_over = entry and (is_former(entry, created) or"
        => "local is_over = entry and (false or", by "a_runner_of_an_id_that_is_used_again_keeps_its_job";
    "an outcome has no time": "", "entry.outcome, entry.at = outcome, math.max(t, tonumber(entry.at) or 0)"
        => "entry.outcome, entry.at = outcome, nil", by "a_runner_of_an_id_that_is_used_again_keeps_its_job";
    "a cancelled id has no time": "stop", "outcome = 'cancelled', at = t,"
        => "outcome = 'cancelled',", by "a_runner_of_an_id_that_is_used_again_keeps_its_job";
    "an attestation that comes late takes the job back": "attest", "if mine and p.owner == '' and p.ainc == argv[1] and tonumber(p.token) >= token then return '-' end"
        => "", by "what_was_said_late_or_twice_changes_nothing";
    "a stop does not stick when attested": "attest", "local stops = ended or p.state == 'S'"
        => "local stops = ended", by "a_stop_sticks";
    "an adopted id is given again": "attest", "seen_token(wid)"
        => "0", by "the_id_of_an_adopted_worker_is_not_given_again";
    "attested tokens do not count": "attest", "raise(head[7], top)"
        => "", by "attested_tokens_are_never_minted_again";
    "the pool waits for garbage": "open_normal", "or call('HEXISTS', HEARTBEATS, wid) == 1"
        => "or true", by "a_recovery_waits_for_members_and_for_nothing_else";
    "the pool opens without a member whose entry is damaged": "open_normal", "or call('HEXISTS', HEARTBEATS, wid) == 1"
        => "", by "a_recovery_waits_for_members_and_for_nothing_else";
    "garbage keeps the pool from opening": "open_normal", "if not match(wid, '^%d+$') or #wid > 19 then return false end"
        => "", by "a_recovery_waits_for_members_and_for_nothing_else";
    "an old mark counts": "open_normal", "marked[wid] = facts[i + 1] == argv[1]"
        => "marked[wid] = true", by "the_pool_waits_for_members_until_they_have_attested";
    "a stop does not stick at attend": "attend", "if p.state == 'S' then"
        => "if false then", by "what_is_not_attested_and_was_to_end_is_gone";
    "attend mints": "attend", "if p.state == 'R' and t - p.since"
        => "p.token = num(call('HINCRBY', POOL, 'token', 1))\n      if p.state == 'R' and t - p.since", by "what_is_not_attested_is_queued";
    "tokens beyond what Lua counts": "", "return n and n <= LAST_TOKEN - 128"
        => "return true", by "at_its_end_the_counter_refuses_what_mints";
    "the last tokens are those that a call may pass": "", "return n and n <= LAST_TOKEN - 128"
        => "return n", by "at_its_end_the_counter_refuses_what_mints";
    "a damaged counter mints": "", "num(n) == text and"
        => "", by "a_damaged_counter_mints_nothing";
    "join without tokens": "join", "if not has_tokens(head[7]) then return { 'NOTOKENS' } end"
        => "", by "at_its_end_the_counter_refuses_what_mints";
    "route without tokens": "route", "if not has_tokens(head[7]) then return { 'NOTOKENS' } end"
        => "", by "at_its_end_the_counter_refuses_what_mints";
    "dispatch without tokens": "dispatch", "if not tokens_left then letter = 'N' break end"
        => "", by "at_its_end_the_counter_refuses_what_mints";
    "a schedule without tokens": "sched", "if not has_tokens(head[7]) then return { 'NOTOKENS' } end"
        => "", by "at_its_end_the_counter_refuses_what_mints";
    "a turn without tokens": "term", "if not has_tokens(head[7]) then return 'T' end"
        => "", by "at_its_end_the_counter_refuses_what_mints";
    "a wrong clock uses up the tokens": "", "math.min((t - 1735689600000) * 4096, 2 ^ 52)"
        => "(t - 1735689600000) * 4096", by "a_wrong_clock_leaves_half_of_the_tokens";
    "what no pool mints is believed": "", "return n and n >= 0 and n <= LAST_TOKEN and n or 0"
        => "return n", by "what_no_pool_mints_is_not_believed";
    "what no pool mints is attested": "attest", "tonumber(argv[at + 2]) <= LAST_TOKEN and"
        => "", by "what_no_pool_mints_is_not_believed";
    "a recovery gives used-up tokens out again": "recover", "if not stored or stored < begins then"
        => "if true then", by "a_counter_beyond_its_end_stays_there";
    "a former use that its own node remembers ends the next one": "attest", "(created == nil or tonumber(created) <= tonumber(lasts))"
        => "true", by "a_runner_of_an_id_that_is_used_again_keeps_its_job";
    "a cancel believes what is remembered of a former use": "stop", "if own and recovering and not another then return 'R' end"
        => "", by "phase_r_asks_to_retry_what_may_run_unseen";
    "what the next worker ended is forgotten": "release", "math.max(since, created)"
        => "created", by "a_job_that_ended_with_the_next_worker_is_not_taken_back";
    "what the next worker ended under a caller's id is forgotten": "", "and math.max(t, p.created) or begun or not own"
        => "and t or not own", by "a_job_that_ended_with_the_next_worker_is_not_taken_back";
    "an adopted worker takes a slot in use": "attest", "or ring()[slot]) then"
        => ") then", by "a_worker_is_adopted_in_its_old_slot";
};
