//! Every interleaving of the protocol's steps at a small scope, checked by stateright. Each step is one atomic
//! transition of the real store in memory. Workers, routers and users are small state machines that may be late, lose
//! answers, send twice, or die. Start events are only hints, so routers may route any job at any time. Events of
//! workers may come at any time, any number of times.
//!
//! `make model` walks the larger scopes and prints how many states it saw.
//!
//! Safety (S1 to S11, S14, S15, S17, S22) holds in every state. Liveness (L1, L2, L3, L5) is judged at the ends of walks, in scopes in
//! which faults end and each event comes once or is lost.
//!
//! The limits of the model: handlers and roles are coarser than the real ones, which the simulator runs. The server's
//! clock stands still, and its time-outs are over at once. Only the first worker has a lease, and only one observer
//! watches it. A role may be late for any time, but no process is paused together with its lease thread. There is at
//! most one loss of data, and none beside leases, notifications or a shutdown. The simulator covers the rest: L4
//! (every notification comes), L6 to L8, and doubled events in scopes that end.

#![allow(clippy::unwrap_used, clippy::expect_used)]

mod act;
mod asks;
mod clock;
mod grants;
mod judge;
mod loss;
mod notes;
mod pauses;
mod properties;
mod scope;
mod settle;
mod states;
mod step;
mod updates;
mod world;

use std::time::Instant;

use stateright::{Checker, Expectation, HasDiscoveries, Model};
use tenure_protocol::mutation::Mutation;

use self::scope::{Lapse, Scope};
use self::world::Pool;

/// Walks every state of a scope. Each `always` must hold, and each `sometimes` must be seen.
fn holds(name: &str, scope: Scope) {
    let began = Instant::now();
    let checker = Pool::new(scope).checker().threads(2).spawn_bfs().join();
    println!(
        "{name}: {} states, {} different ones, depth {}, {:.1} s",
        checker.state_count(),
        checker.unique_state_count(),
        checker.max_depth(),
        began.elapsed().as_secs_f32()
    );
    for property in checker.model().properties() {
        let found = checker.discovery(property.name);
        let wanted = matches!(property.expectation, Expectation::Sometimes);
        let path = found.as_ref().map(|path| path.clone().into_actions());
        assert_eq!(found.is_some(), wanted, "{name}: {:?}: {path:#?}", property.name);
    }
}

/// Walks a broken protocol until it violates the property whose name begins with this word.
fn fails(name: &str, scope: Scope, property: &str) {
    let pool = Pool { only: Some(format!("{property} ")), ..Pool::new(scope) };
    let checker = pool.checker().threads(2).finish_when(HasDiscoveries::Any).spawn_bfs().join();
    let states = checker.unique_state_count();
    let found = checker.discoveries();
    let (found, path) = found.iter().next().unwrap_or_else(|| panic!("{name} survives {states} states"));
    println!(
        "{name}: {found} is violated after {} steps, {states} states",
        path.clone().into_actions().len()
    );
}

/// A test for each row: it walks these scopes.
macro_rules! walks {
    ($($(#[$meta:meta])* $name:ident: $($scope:ident),+;)*) => {
        $(#[test] $(#[$meta])* fn $name() { $(holds(stringify!($scope), scope::$scope());)+ })*
    };
}

walks! {
    #[ignore = "`make model` walks it"]
    faults_together_do_no_harm: network_and_members, two_routers, two_keys;
    #[ignore = "`make model` walks it"]
    running_jobs_outlive_a_loss_of_data_and_a_death: recovery_of_fewer, recovery_and_stops;
    #[ignore = "`make model` walks it"]
    a_lease_that_is_renewed_again_does_no_harm: longer_leases;
    late_and_lost_calls_do_no_harm: network;
    deaths_and_lost_answers_together_do_no_harm: network_and_deaths;
    members_come_and_go: members;
    a_key_has_several_lives: successors;
    running_jobs_outlive_a_loss_of_data: recovery;
    calls_of_another_incarnation_do_nothing: recovery_and_late_calls;
    notifications_come_in_order_and_none_is_lost: notifications, many_notifications;
    each_owner_is_given_what_the_one_before_has_left: checkpoints;
    #[ignore = "`make model` walks it"]
    what_was_left_outlives_a_death_and_not_its_dispatch: checkpoints_and_deaths;
    each_payload_comes_to_run_and_none_is_undone: updates;
    an_end_with_a_former_payload_ends_no_updated_job: updates_and_losses;
    #[ignore = "`make model` walks it"]
    no_payload_is_lost_with_a_worker: updates_and_deaths;
    an_ask_comes_to_one_handler_and_ends_as_it_was_told: asks, idempotent_asks, asks_that_start;
    #[ignore = "`make model` walks it"]
    an_ask_outlives_the_owner_that_it_was_sent_to: asks_and_deaths;
    a_paused_job_runs_when_it_is_resumed_and_not_before: pauses;
    #[ignore = "`make model` walks it"]
    a_pause_holds_whatever_becomes_of_its_worker: pauses_and_deaths;
    a_grant_starts_one_handler_and_nothing_that_has_ended: grants, grants_to_full_workers;
    #[ignore = "`make model` walks it"]
    a_grant_dies_with_its_worker: grants_and_deaths;
    #[ignore = "`make model` walks it"]
    a_grant_holds_in_one_incarnation: grants_and_losses;
    what_users_want_of_a_granted_job_comes_to_its_handler: grants_and_updates, grants_and_states, grants_and_asks,
        grants_and_pauses;
    a_worker_is_silent_before_another_one_takes_over: leases;
    every_job_runs_at_last_and_every_stop_ends: settling;
    a_shutdown_ends: closing;
}

#[test]
fn mutants_of_leases_violate_a_property() {
    for lapse in [Lapse::NoSelfFence, Lapse::RenewalFromReply, Lapse::ObserverHasty] {
        fails(&format!("{lapse:?}"), scope::leases().lapsing(lapse), "S1");
    }
    fails("no look at the lease after begin", scope::members().lapsing(Lapse::NoRecheckAfterBegin), "S1");
}

#[test]
fn mutants_of_notifications_violate_a_property() {
    let anew = scope::notifications().breaking([Mutation::NotesNumberedAnew]);
    fails("notifications numbered anew", anew, "S11");
}

#[test]
fn mutants_of_checkpoints_violate_a_property() {
    fails("a late checkpoint wins", scope::checkpoints().breaking([Mutation::LateSaveWins]), "S15");
    fails("left before kept", scope::checkpoints().lapsing(Lapse::LeftBeforeKept), "S15");
}

#[test]
fn mutants_of_updates_violate_a_property() {
    fails("a late update wins", scope::updates().breaking([Mutation::LateUpdateWins]), "S17");
    fails("an update ends with the run", scope::updates().breaking([Mutation::UpdateEndsWithRun]), "S17");
    let unnamed = scope::updates_and_losses().lapsing(Lapse::EndNamesNoPayload);
    fails("an end names no payload", unnamed, "S17");
    let sure = scope::updates_and_losses().lapsing(Lapse::LossEndIsSure);
    fails("an end in phase R is sure", sure, "S17");
    let earlier = scope::updates_and_losses().breaking([Mutation::EarlierRunEnds]);
    fails("an earlier run ends a later one", earlier, "S17");
}

#[test]
fn mutants_of_asks_violate_a_property() {
    fails("asks under any token", scope::asks().breaking([Mutation::AskUnderAnyToken]), "S14");
    fails("replies unfenced", scope::asks().breaking([Mutation::RepliesUnfenced]), "S14");
    for lapse in [
        Lapse::AsksUnremembered,
        Lapse::PokedAndHandedOver,
        Lapse::HandedUnderAnyToken,
        Lapse::DoubtfulAskSentAgain,
        Lapse::SentCountsAsUnhandled,
    ] {
        fails(&format!("{lapse:?}"), scope::asks().lapsing(lapse), "S14");
    }
    let starts = Scope { dispatches: vec![0, 0], ..scope::asks_that_start() };
    fails("starts unnamed", starts.lapsing(Lapse::StartsUnnamed), "S14");
}

#[test]
fn mutants_of_pauses_violate_a_property() {
    fails("a late pause wins", scope::pauses().breaking([Mutation::LateSteerWins]), "S22");
    fails("a retry resumes", scope::pauses().breaking([Mutation::UnparkResumes]), "S22");
    fails("paused under any token", scope::pauses().lapsing(Lapse::PausedUnderAnyToken), "S22");
}

#[test]
fn mutants_of_grants_violate_a_property() {
    fails("a grant twice", scope::grants().lapsing(Lapse::GrantTwice), "S2");
    fails("a stop that raises nothing", scope::grants().lapsing(Lapse::StopRaisesNothing), "S5");
    fails("a job begun unread", scope::grants().lapsing(Lapse::BeginsUnread), "S2");
    fails("an assignment as a grant", scope::grants_and_deaths().lapsing(Lapse::AssignedAsGrant), "S2");
    let without = scope::grants_and_deaths().lapsing(Lapse::GrantWithoutLease);
    fails("a grant without a lease", without, "S1");
    let any = scope::grants_and_losses().lapsing(Lapse::GrantOfAnyIncarnation);
    fails("a grant of any incarnation", any, "S2");
    fails("a grant is counted on", scope::grants().breaking([Mutation::ConfirmUncounted]), "S8");
}

#[test]
fn mutants_of_what_comes_at_last_violate_a_property() {
    fails("begin given up", scope::settling().lapsing(Lapse::BeginGivenUp), "L1");
    fails("stop not repeated", scope::settling().lapsing(Lapse::StopNotRepeated), "L2");
    fails("never reaped", scope::settling().lapsing(Lapse::NeverReaped), "L3");
    fails("never reaped, while closing", scope::closing().lapsing(Lapse::NeverReaped), "L5");
}

#[test]
fn mutants_of_recovery_violate_a_property() {
    fails("attend before attested", scope::recovery().lapsing(Lapse::AttendBeforeAttested), "S1");
    fails("tokens below seen", scope::loss_and_death().breaking([Mutation::TokensBelowSeen]), "S3");
    fails("journal not sent", scope::recovery().lapsing(Lapse::JournalNotSent), "S5");
    fails("opened too soon", scope::recovery().lapsing(Lapse::OpenUnobserved), "S1");
    let unchecked = scope::recovery_and_late_calls().breaking([Mutation::IncarnationUnchecked]);
    fails("incarnation unchecked", unchecked, "S10");
}

/// A token that is minted in the wrong place does no harm while a record without an owner outranks no running job.
/// The reverse holds, too. Both together cost a worker its job.
#[test]
fn mutants_in_pairs_violate_a_property() {
    for mints in [Mutation::ReleaseMints, Mutation::AttendMints, Mutation::HandedOffMints] {
        let pair = scope::late_recovery().breaking([mints, Mutation::UnownedOutranks]);
        fails(&format!("{mints:?} and UnownedOutranks"), pair, "S2");
    }
}

#[test]
fn mutants_of_steps_violate_a_property() {
    fails("begin unchecked", scope::members().breaking([Mutation::BeginUnchecked]), "S1");
    fails("reap ends", scope::members().breaking([Mutation::ReapEnds]), "S4");
    fails("token assigned again", scope::members().breaking([Mutation::TokenAssignedAgain]), "S7");
    fails("begun stays queued", scope::members().breaking([Mutation::BegunStaysQueued]), "S8");
    fails("stop unnamed", scope::successors().breaking([Mutation::StopUnnamed]), "S6");
    fails("route unchecked", scope::members().breaking([Mutation::RouteUnchecked]), "S9");
    fails("release mints", scope::network().breaking([Mutation::ReleaseMints]), "S10");
}

#[test]
fn mutants_of_workers_violate_a_property() {
    fails("hand-off before stop", scope::members().lapsing(Lapse::HandOffBeforeStop), "S1");
    fails("leave before handlers have ended", scope::members().lapsing(Lapse::LeaveBeforeJoined), "S1");
    fails("redelivered start refused", scope::network().lapsing(Lapse::RedeliveredStartRefused), "S2");
    fails("begin given up", scope::network().lapsing(Lapse::BeginGivenUp), "Somebody");
}
