//! Each line that a mutant can break matters: a whole core behaves differently from a broken one.

mod granting;

use super::bench::{Bench, config, key, millis, present, secs, up};
use super::fencing::gone;
use super::observing::{beat, until_expired};
use super::opening::{created, doubtful, tombstone};
use super::saving::full;
use super::shutting_down::{hear_of_stopping, purged};
use super::updating::{event as another_payload, in_hand, reads, says};
use crate::core::call::Call;
use crate::core::ctx::{Config, Purpose};
use crate::core::input::{Command, HandlerEvent, Input, ReplyTo};
use crate::core::lease::Timing;
use crate::core::lease::table::LeaseTable;
use crate::core::time::Time;
use crate::model::id::{Incarnation, WorkerId};
use crate::model::member::MemberState;
use crate::model::record::Begun;
use crate::model::settings::{Settings, ShardId};
use crate::mutation::{Mutation, Mutations};
use crate::step::AttestReply::Kept;
use crate::step::{Attest, Expired, LaterPayload, PoolState, Reaped, ShutdownMode, Way};

/// A whole bench, and one that is broken in this way.
fn whole_and_broken(mutation: Mutation) -> [Bench; 2] {
    [Mutations::default(), Mutations::of([mutation])]
        .map(|broken| Bench::with_worker_as(Config { broken, ..config() }))
}

#[test]
fn a_fenced_worker_attests_nothing() {
    let said = whole_and_broken(Mutation::FencedAttests).map(|mut bench| {
        bench.running(3, &["k"]);
        bench.step([Input::LeaseLost(WorkerId(1))]);
        bench.lost(2);
        bench.of(&["attest"])
    });
    assert_eq!(said, [vec![], vec!["attest 1: k@3 started".to_owned()]]);
}

#[test]
fn the_journal_is_sent() {
    let said = whole_and_broken(Mutation::JournalNotSent).map(|mut bench| {
        bench.running(3, &["k"]);
        bench.leaves(1, "k", 3, HandlerEvent::Ended(Ok(())));
        bench.lost(2);
        bench.of(&["attest"])
    });
    assert_eq!(said.concat(), ["attest 1: k@3 ended", "attest 1: "]);
}

#[test]
fn a_refused_checkpoint_is_the_one_that_was_sent() {
    let leaves = whole_and_broken(Mutation::RefusalOfNewest).map(|mut bench| {
        bench.running(3, &["k"]);
        for number in [1, 2] {
            let event = HandlerEvent::Checkpoint { number, bytes: "state".into() };
            bench.handler(1, "k", 3, event);
        }
        bench.handler(1, "k", 3, HandlerEvent::Ended(Ok(())));
        bench.fail_with("save", full());
        bench.is_calling("release")
    });
    assert_eq!(leaves, [false, true]);
}

#[test]
fn an_end_after_a_loss_names_its_payload() {
    for mutation in [Mutation::LossEndIsSure, Mutation::EndNamesNoPayload] {
        let said = whole_and_broken(mutation).map(|mut bench| {
            bench.running(3, &["k"]);
            bench.handler(1, "k", 3, HandlerEvent::Ended(Ok(())));
            bench.fail("release");
            bench.lost(2);
            bench.attested(&[]);
            bench.advance(secs(1));
            bench.released();
            let call = bench.in_flight_call("attest");
            let Call::Attest(report, _) = call else { panic!("{call:?}") };
            report.items.iter().map(|item| item.what.clone()).collect::<Vec<_>>()
        });
        let later = LaterPayload { than: 0, begun: Begun::Started, rest: None };
        let ended = [Some(later), None].map(|unless| Attest::Ended { outcome: String::new(), unless });
        assert_eq!(said.concat(), ended, "{mutation:?}");
    }
}

#[test]
fn a_journal_that_was_not_said_is_forgotten() {
    let said = whole_and_broken(Mutation::SilentKeepsJournal).map(|mut bench| {
        bench.running(3, &["k"]);
        bench.leaves(1, "k", 3, HandlerEvent::Ended(Ok(())));
        bench.step([Input::LeaseLost(WorkerId(1))]);
        bench.lost(2);
        gone(&mut bench);
        bench.reopened(2);
        bench.seat(5, 0);
        bench.lost(3);
        bench.of(&["attest"])
    });
    assert_eq!(said.concat(), ["attest 5: ", "attest 5: k@3 ended"]);
}

#[test]
fn a_journal_that_was_being_said_is_forgotten() {
    let said = whole_and_broken(Mutation::FencedKeepsJournal).map(|mut bench| {
        bench.running(3, &["k"]);
        bench.leaves(1, "k", 3, HandlerEvent::Ended(Ok(())));
        bench.lost(2);
        bench.step([Input::LeaseLost(WorkerId(1))]);
        gone(&mut bench);
        bench.reopened(2);
        bench.seat(5, 0);
        bench.all();
        bench.lost(3);
        bench.of(&["attest"])
    });
    assert_eq!(said.concat(), ["attest 5: ", "attest 5: k@3 ended"]);
}

#[test]
fn a_pool_that_was_made_after_the_end_is_another_one() {
    let asks = [Mutations::default(), Mutations::of([Mutation::NewPoolJoined])].map(|broken| {
        let said =
            super::shutting_down::meets_another(Bench::attached_with(Config { broken, ..config() }), 1);
        said.iter().any(|line| line.starts_with("shutdown"))
    });
    assert_eq!(asks, [false, true]);
}

#[test]
fn notifications_taken_by_an_ending_job_are_acknowledged() {
    let says = whole_and_broken(Mutation::TakenForgotten).map(|mut bench| {
        super::notifying::give_three(&mut bench);
        bench.handler(1, "k", 7, HandlerEvent::Took(1));
        bench.handler(1, "k", 7, HandlerEvent::Ended(Err("bad".into())));
        bench.is_calling("take")
    });
    assert_eq!(says, [true, false]);
}

#[test]
fn a_cleanup_of_a_former_pool_does_not_end_this_one() {
    let ends = [Mutations::default(), Mutations::of([Mutation::FormerCleanupEnds])].map(|broken| {
        let mut bench = Bench::attached_with(Config { broken, ..config() });
        hear_of_stopping(&mut bench);
        purged(&mut bench, vec![]);
        assert!(bench.is_calling("cleanup"));
        bench.lost(2);
        bench.answer_with("cleanup", 0_u64);
        bench.is_calling("forget-node")
    });
    assert_eq!(ends, [false, true]);
}

#[test]
fn a_tombstone_from_before_the_pool_is_not_its_end() {
    let makes = whole_and_broken(Mutation::OlderTombstoneEnds).map(|bench| {
        let done = super::opening::meets_tombstone(bench, 1);
        done.iter().any(|line| line.starts_with("bootstrap"))
    });
    assert_eq!(makes, [true, false]);
}

#[test]
fn a_tombstone_may_have_come_back() {
    for server in doubtful() {
        let waits = [Mutations::default(), Mutations::of([Mutation::TombstoneTrusted])].map(|broken| {
            let mut bench = Bench::new(Config { broken, ..config() });
            bench.survey_of(tombstone(1), server.clone());
            created(&mut bench, 2, true);
            bench.of(&["!"])
        });
        assert_eq!(waits.concat(), ["! recovering 2 for 10s", "! recovering 2 for 0ms"]);
    }
}

#[test]
fn the_last_word_comes_after_everything_else() {
    let names: Vec<_> = (0..200).map(|i| format!("k{i}")).collect();
    let names: Vec<_> = names.iter().map(String::as_str).collect();
    let next = whole_and_broken(Mutation::AttendBeforeAttested).map(|mut bench| {
        bench.running(3, &names[..100]);
        bench.running(4, &names[100..]);
        bench.lost(2);
        bench.all();
        bench.attested(&[Kept; 128]);
        bench.of(&["attest", "attend"])[0].split(' ').next().map(str::to_owned)
    });
    assert_eq!(next.map(Option::unwrap), ["attest", "attend"]);
}

#[test]
fn the_lease_is_looked_at_again_after_begin() {
    let done = whole_and_broken(Mutation::NoRecheckAfterBegin).map(|mut bench| {
        bench.assign(1, 5, 7, &["k"]);
        bench.leases.insert(WorkerId(1), bench.now);
        bench.begun();
        bench.of(&["RUN", "release"])
    });
    assert_eq!(done.concat(), ["release 1: k@7 b tell=n", "RUN k@7"]);
}

#[test]
fn a_start_for_what_runs_here_is_ignored() {
    let done = whole_and_broken(Mutation::RedeliveredStartRefused).map(|mut bench| {
        bench.running(3, &["k"]);
        bench.assign(1, 9, 3, &["k"]);
        bench.of(&["release"])
    });
    assert_eq!(done, [vec![], vec!["release 1: k@3 d; done 9".to_owned()]]);
}

#[test]
fn a_begin_is_sent_until_it_is_answered() {
    let done = whole_and_broken(Mutation::BeginGivenUp).map(|mut bench| {
        bench.assign(1, 5, 7, &["k"]);
        bench.all();
        bench.fail("begin");
        bench.advance(secs(5));
        bench.of(&["begin"])
    });
    assert_eq!(done.concat(), ["begin 1: k@7; done 5", "begin 1: ; done 5"]);
}

#[test]
fn a_job_is_handed_off_after_its_handler_has_ended() {
    let done = whole_and_broken(Mutation::HandOffBeforeStop).map(|mut bench| {
        bench.running(3, &["a", "b", "c", "d", "e", "f"]);
        bench.set_member(2, up(1));
        bench.advance(secs(6));
        assert!(!bench.of(&["STOP"]).is_empty(), "{:?}", key("a"));
        bench.is_calling("release")
    });
    assert_eq!(done, [false, true]);
}

#[test]
fn a_fenced_worker_says_good_bye_when_nothing_of_it_runs() {
    let said = whole_and_broken(Mutation::ExpireBeforeJoined).map(|mut bench| {
        bench.running(3, &["k"]);
        bench.step([Input::LeaseLost(WorkerId(1))]);
        bench.is_calling("leave")
    });
    assert_eq!(said, [false, true]);
}

/// Two observers of worker 2, a whole one and one that is broken in this way.
fn observers(mutation: Mutation) -> [Bench; 2] {
    [Mutations::default(), Mutations::of([mutation])].map(|broken| {
        let mut bench = Bench::attached_with(Config { broken, ..config() });
        bench.set_member(2, up(0));
        bench
    })
}

/// Waits for the next look.
fn look(bench: &mut Bench) {
    while !bench.is_calling("heartbeats") {
        bench.advance(millis(100));
    }
}

#[test]
fn an_observer_that_gets_no_answer_watches_on() {
    let waited = observers(Mutation::ResetOnReconnect).map(|mut bench| {
        beat(&mut bench, &[(2, 5)]);
        let since = bench.now;
        while bench.now.since(since) < secs(5) {
            beat(&mut bench, &[(2, 5)]);
        }
        look(&mut bench);
        bench.fail("heartbeats");
        until_expired(&mut bench, since, &[(2, 5)])
    });
    assert!((10..12).contains(&waited[0]) && waited[1] >= 15, "{waited:?}");
}

#[test]
fn an_observer_counts_from_after_the_reply() {
    let waited = observers(Mutation::FirstSeenBeforeReply).map(|mut bench| {
        look(&mut bench);
        bench.advance(secs(8));
        beat(&mut bench, &[(2, 5)]);
        let since = bench.now;
        until_expired(&mut bench, since, &[(2, 5)])
    });
    assert!((10..12).contains(&waited[0]) && waited[1] < 4, "{waited:?}");
}

#[test]
fn a_lease_counts_from_the_sending_of_its_renewal() {
    let at = |s| Time(0) + secs(s);
    let until = [Mutations::default(), Mutations::of([Mutation::RenewalFromReply])].map(|broken| {
        let mut leases = LeaseTable::new(Timing::of(secs(10)), broken);
        leases.hold(Incarnation(1), WorkerId(1), at(0));
        leases.renewed(at(2), at(4), &[WorkerId(1)], &[Some(MemberState::Up)]);
        leases.holds_until(WorkerId(1))
    });
    assert_eq!(until, [at(8), at(10)]);
}

/// The first of four shards, in a pool whose settings say that it is the shard `stored`.
fn first_of_four(broken: Mutations, stored: &str) -> Bench {
    let settings = Settings { shard: Some(ShardId { index: 0, count: 4 }), ..Settings::default() };
    let mut bench = Bench::new(Config { settings, broken, ..config() });
    bench.stored.fields.insert("shard".into(), stored.into());
    bench.command(|reply| Command::Attach { reply });
    bench.survey(present(1, false, "a"));
    bench.maps(1);
    bench
}

#[test]
fn a_shard_of_another_number_is_not_joined() {
    let said = [Mutations::default(), Mutations::of([Mutation::OtherShardsJoin])].map(|broken| {
        let mut bench = first_of_four(broken, "0/8");
        bench.of(&["reply", "renew"])
    });
    let refused = said[0].join(" ");
    assert!(refused.contains("shard") && refused.contains("0/8") && refused.contains("0/4"), "{said:?}");
    assert!(!said[1].join(" ").contains("0/8"), "{said:?}");
    assert!(!refused.contains("renew") && said[1].join(" ").contains("renew"), "{said:?}");
}

#[test]
fn leases_go_by_the_worker_ttl_of_the_pool() {
    let kept = [Mutations::default(), Mutations::of([Mutation::OwnTtlKept])].map(|broken| {
        let mut bench = Bench::new(Config { broken, ..config() });
        bench.stored.fields.insert("worker_ttl".into(), "2000".into());
        bench.survey(present(1, false, "a"));
        bench.maps(1);
        // Before the first renewal, which the leases count from.
        let seen = bench.of(&["settings", "renew"]);
        assert!(seen[0].starts_with("settings") && seen[1].starts_with("renew"), "{seen:?}");
        bench.engine.ctx.config.timing.ttl
    });
    assert_eq!(kept, [secs(2), secs(10)]);
}

#[test]
fn the_first_shard_is_cleaned_up_last() {
    let done = [Mutations::default(), Mutations::of([Mutation::FirstShardEndsAlone])].map(|broken| {
        let mut bench = first_of_four(broken, "0/4");
        bench.renewed();
        assert_eq!(bench.of(&["reply"]), ["reply 1 attached ok"]);
        hear_of_stopping(&mut bench);
        purged(&mut bench, vec![]);
        bench.advance(secs(5));
        let alone = bench.is_calling("cleanup");
        bench.step([Input::OthersEnded]);
        (alone, bench.is_calling("cleanup"))
    });
    assert_eq!(done, [(false, true), (true, true)]);
}

#[test]
fn a_shards_own_shutdown_goes_before_hearsay() {
    let sent = [Mutations::default(), Mutations::of([Mutation::HearsayGoesFirst])].map(|broken| {
        let mut bench = first_of_four(broken, "0/4");
        bench.renewed();
        bench.seen();
        let (mode, deadline) = (ShutdownMode::Closing(secs(30)), bench.now + secs(60));
        let ask = Input::Command(Command::Shutdown { reply: ReplyTo(9), mode, deadline });
        bench.step([ask, Input::OtherShutDown(ShutdownMode::DropQueued)]);
        bench.of(&["shutdown"])
    });
    assert_eq!(sent, [["shutdown Closing(30s)"], ["shutdown DropQueued"]]);
}

#[test]
fn a_joiner_that_knows_all_shards_cleans_up_the_first() {
    let purposes = [Purpose::Part, Purpose::PartAfter(Incarnation(2)), Purpose::PartAfter(Incarnation(1))];
    let done = purposes.map(|purpose| {
        let settings = Settings { shard: Some(ShardId { index: 0, count: 4 }), ..Settings::default() };
        let mut bench = Bench::new(Config { settings, purpose, ..config() });
        bench.stored.fields.extend([("shard".into(), "0/4".into()), ("shutdown".into(), "S||m".into())]);
        bench.command(|reply| Command::Attach { reply });
        bench.survey(present(1, false, "a"));
        bench.maps(1);
        bench.renewed();
        purged(&mut bench, vec![]);
        bench.advance(secs(1));
        (bench.of(&["reply"]).concat(), bench.is_calling("cleanup"))
    });
    let refused = ("reply 1 attached ShuttingDown".to_owned(), false);
    assert_eq!(done, [refused.clone(), refused, (String::new(), true)]);
}

#[test]
fn a_node_that_joins_for_the_end_creates_no_pool() {
    for state in [PoolState::Absent, PoolState::Closed { incarnation: Incarnation(1) }] {
        let mut bench = Bench::new(Config { purpose: Purpose::End, ..config() });
        bench.command(|reply| Command::Attach { reply });
        bench.survey(state);
        bench.answer_with("forget-node", ());
        assert_eq!(bench.of(&["bootstrap", "reply"]), ["reply 1 attached PoolClosed"]);
    }
}

#[test]
fn a_worker_hears_that_another_node_drains_it() {
    let leaves = whole_and_broken(Mutation::DrainsUnheard).map(|mut bench| {
        bench.change_members(|members| members.get_mut(&WorkerId(1)).unwrap().state = MemberState::Draining);
        bench.advance(secs(600));
        bench.is_calling("leave")
    });
    assert_eq!(leaves, [true, false]);
}

#[test]
fn the_dead_are_reaped_in_turns() {
    let reaped = whole_and_broken(Mutation::ReapedOneByOne).map(|mut bench| {
        bench.change_members(|members| members.extend([2, 3].map(|id| (WorkerId(id), up(id as u32 - 1)))));
        beat(&mut bench, &[(1, 1), (2, 5), (3, 5)]);
        let mut own = 2;
        while !bench.is_calling("expire") {
            beat(&mut bench, &[(1, own), (2, 5), (3, 5)]);
            own += 1;
        }
        bench.answer_with("expire", vec![Expired::Done; 2]);
        let more = Reaped { done: false, count: 256, outcomes: vec![] };
        bench.answer_with("reap", more.clone());
        bench.fail("reap");
        bench.advance(millis(1_000));
        bench.of(&["reap"]).join(", ")
    });
    assert_eq!(reaped, ["reap 2, reap 3, reap 2", "reap 2, reap 2, reap 2"]);
}

#[test]
fn a_member_whose_counter_is_lost_is_expired() {
    let expires = whole_and_broken(Mutation::UncountedLive).map(|mut bench| {
        bench.set_member(2, up(1));
        (0..20).for_each(|seq| beat(&mut bench, &[(1, seq)]));
        bench.of(&["expire"]).contains(&"expire 2 seq=0".to_owned())
    });
    assert_eq!(expires, [true, false]);
}

#[test]
fn an_ask_comes_to_its_handler_once() {
    let asked = whole_and_broken(Mutation::AsksUnremembered).map(|mut bench| {
        bench.running(7, &["k"]);
        bench.ask_event(20, 1, false);
        bench.ask_event(21, 1, false);
        bench.of(&["ASK"]).len()
    });
    assert_eq!(asked, [1, 2]);
}

#[test]
fn an_ask_that_may_have_been_handled_is_not_sent_again() {
    let sent = whole_and_broken(Mutation::DoubtfulAskSentAgain).map(|mut bench| {
        bench.sent(false);
        bench.advance(secs(1));
        let record = super::bench::record("k", 9, WorkerId(6));
        bench.looked(Some(record));
        bench.is_calling("ask")
    });
    assert_eq!(sent, [false, true]);
}

#[test]
fn an_ask_comes_after_the_notifications_before_it() {
    let asked = whole_and_broken(Mutation::AsksBeforeNotes).map(|mut bench| {
        bench.running(7, &["k"]);
        bench.notify_event(1, 19, "k", 7);
        bench.ask_event(20, 1, false);
        let early = bench.of(&["ASK"]).len();
        bench.taken(0, &["note"]);
        bench.handler(1, "k", 7, HandlerEvent::Delivered);
        bench.taken(1, &[]);
        (early, bench.of(&["ASK"]).len())
    });
    assert_eq!(asked, [(0, 1), (1, 0)]);
}

#[test]
fn a_release_waits_for_what_the_handler_has_said() {
    let released = whole_and_broken(Mutation::ReleaseBeforeReply).map(|mut bench| {
        bench.running(7, &["k"]);
        bench.ask_event(20, 1, false);
        bench.answers(1);
        bench.handler(1, "k", 7, HandlerEvent::Ended(Ok(())));
        bench.is_calling("release")
    });
    assert_eq!(released, [false, true]);
}

#[test]
fn who_had_a_job_reads_once_more_before_it_leaves() {
    let reads = whole_and_broken(Mutation::LastReadLeftOut).map(|mut bench| {
        super::asking::leaves_after_a_job(&mut bench);
        bench.of(&["read-last", "leave"])
    });
    assert_eq!(reads.concat(), ["read-last 1", "leave 1"]);
}

#[test]
fn a_worker_reads_the_other_payload_of_its_job() {
    let reads = whole_and_broken(Mutation::UpdateUnheard).map(|mut bench| {
        bench.running(7, &["k"]);
        another_payload(&mut bench, 9, 7, 1);
        reads(&mut bench)
    });
    assert_eq!(reads, [true, false]);
}

#[test]
fn a_payload_counts_once_its_handler_has_taken_it() {
    let ran = whole_and_broken(Mutation::HandedCountsAsTaken).map(|mut bench| {
        in_hand(&mut bench);
        bench.handler(1, "k", 7, HandlerEvent::Ended(Ok(())));
        let Call::Release(release) = bench.call("release") else { panic!("a release") };
        release.items[0].ran
    });
    assert_eq!(ran, [Some(0), Some(1)]);
}

#[test]
fn a_handler_has_a_payload_in_hand_for_its_time() {
    let stops = whole_and_broken(Mutation::HungUpdateStays).map(|mut bench| {
        in_hand(&mut bench);
        bench.advance(secs(31));
        bench.of(&["STOP"])
    });
    assert_eq!(stops.concat(), ["STOP k@7 Updated"]);
}

#[test]
fn a_payload_behind_one_in_hand_is_read() {
    let reads = whole_and_broken(Mutation::NextUpdateForgotten).map(|mut bench| {
        in_hand(&mut bench);
        another_payload(&mut bench, 10, 7, 2);
        says(&mut bench, 1, Ok(()));
        reads(&mut bench)
    });
    assert_eq!(reads, [true, false]);
}

#[test]
fn a_payload_in_hand_counts_nothing_after_a_loss() {
    let stops = whole_and_broken(Mutation::LostUpdateTaken).map(|mut bench| {
        in_hand(&mut bench);
        bench.lost(2);
        bench.of(&["STOP"])
    });
    assert_eq!(stops.concat(), ["STOP k@7 Updated"]);
}

#[test]
fn an_ask_comes_after_the_update_before_it() {
    let asked = whole_and_broken(Mutation::AsksBeforeUpdates).map(|mut bench| {
        in_hand(&mut bench);
        bench.ask_event(20, 1, false);
        bench.of(&["ASK"])
    });
    assert_eq!(asked.concat(), ["ASK k@7 ask-1"]);
}

#[test]
fn a_worker_ends_what_an_operator_wants_to_end() {
    let stops = whole_and_broken(Mutation::SteerUnheard).map(|mut bench| {
        bench.running(7, &["k"]);
        super::steering::event(&mut bench, 9, 7, Way::Park);
        bench.of(&["STOP"])
    });
    assert_eq!(stops.concat(), ["STOP k@7 Parked"]);
}

#[test]
fn a_full_worker_does_not_wait_for_strikes() {
    let said = whole_and_broken(Mutation::ElsewhereIsAStrike).map(|mut bench| {
        bench.begin(1, 5, 7, &["k"]);
        bench.handler(1, "k", 7, HandlerEvent::Elsewhere { why: String::new() });
        bench.of(&["release"])
    });
    assert_eq!(said.concat(), ["release 1: k@7 e tell=n", "release 1: k@7 r tell=n"]);
}

#[test]
fn what_was_sent_elsewhere_waits_for_more_room() {
    let kicked = [Mutations::default(), Mutations::of([Mutation::RoomUnheard])].map(|broken| {
        let mut bench = super::capacity::full(Bench::attached_with(Config { broken, ..config() }));
        bench.assign(1, 6, 8, &["c"]);
        bench.released();
        super::capacity::more_room(&mut bench)
    });
    assert_eq!(kicked, [true, false]);
}

#[test]
fn what_is_astray_moves_at_once_when_that_is_wanted() {
    let rests = whole_and_broken(Mutation::MoveNowUnheard).map(|mut bench| {
        bench.running(7, &super::rebalancing::NAMES);
        bench.set_member(2, up(1));
        bench.all();
        super::rebalancing::moves(&mut bench, 0, 1);
        super::rebalancing::looked(&mut bench, 0);
        bench.of(&["STOP"]).is_empty()
    });
    assert_eq!(rests, [false, true]);
}

#[test]
fn what_moves_at_once_goes_by_the_present_ring() {
    let early = whole_and_broken(Mutation::MoveNowByAnyRing).map(|mut bench| {
        bench.running(7, &super::rebalancing::NAMES);
        bench.set_member(2, up(1));
        bench.all();
        super::rebalancing::moves(&mut bench, 0, 1);
        super::rebalancing::looked(&mut bench, 1);
        !bench.of(&["STOP"]).is_empty()
    });
    assert_eq!(early, [false, true]);
}

#[test]
fn workers_share_the_rate_of_moves() {
    let [shared, unshared] = whole_and_broken(Mutation::MoveRateUnshared).map(|mut bench| {
        bench.running(7, &super::rebalancing::NAMES);
        super::rebalancing::moves(&mut bench, 1, 0);
        bench.set_member(2, up(1));
        bench.all();
        bench.advance(secs(6));
        bench.advance(secs(4));
        bench.of(&["STOP"]).len()
    });
    assert!(shared > 0 && shared < unshared, "{shared} and {unshared}");
}
