//! The core, the lease and the store in memory, each with one line left out.

use std::path::Path;

#[allow(clippy::enum_glob_use, reason = "the table names them all")]
use tenure_pool::mutation::Mutation::{self, *};
use tenure_pool::mutation::Mutations;
use tenure_pool::sim::{Options, run};

/// The test that notices the broken line.
#[derive(Clone, Copy, Debug)]
pub(crate) enum By {
    /// The simulator, by a violation that begins with this text.
    Simulator(&'static str),
    /// This scenario of the conformance suite, on the store in memory.
    Scenario(&'static str),
    /// Rules of the core, each by a test that runs a whole core and a broken one: a part of `cargo test mutants`.
    Core(&'static str),
    /// The runtime's calls of handlers, by this test, which runs them whole and broken: a part of `cargo test mutants`.
    Runtime(&'static str),
    /// The model, by this test: a part of `cargo test mutants`.
    Model(&'static str),
    /// A known failure. Its case in this file of `failures.rs` fails for its own reason when the line is left out.
    Failure(&'static str, &'static str),
}

use By::{Core, Failure, Model, Runtime, Scenario, Simulator};

impl By {
    /// Whether it runs for the table; otherwise its test runs separately.
    pub(crate) fn runs_here(self) -> bool {
        matches!(self, Simulator(_) | Scenario(_))
    }
}

/// Each variant of [`Mutation`], and the test that notices it.
pub(crate) const MUTANTS: &[(Mutation, By)] = &[
    (NoSelfFence, Simulator("S1")),
    (BeginUnchecked, Simulator("S2")),
    (ReleaseBeforeCheckpoint, Simulator("S15")),
    (StateNotSavedAgain, Simulator("S15")),
    (LateSaveWins, Scenario("a_late_copy_of_a_save_undoes_nothing")),
    (LateUpdateWins, Scenario("a_late_copy_of_an_update_undoes_nothing")),
    (UpdateEndsWithRun, Scenario("a_job_that_ends_before_its_update_goes_on")),
    (LateSteerWins, Scenario("a_late_copy_of_a_steer_does_nothing")),
    (SteerUnheard, Core("a_worker_ends_what_an_operator_wants_to_end")),
    (UpdateUnheard, Core("a_worker_reads_the_other_payload_of_its_job")),
    (HandedCountsAsTaken, Core("a_payload_counts_once_its_handler_has_taken_it")),
    (HungUpdateStays, Core("a_handler_has_a_payload_in_hand_for_its_time")),
    (NextUpdateForgotten, Core("a_payload_behind_one_in_hand_is_read")),
    (LostUpdateTaken, Core("a_payload_in_hand_counts_nothing_after_a_loss")),
    (AsksBeforeUpdates, Core("an_ask_comes_after_the_update_before_it")),
    (AskUnderAnyToken, Simulator("S14")),
    (AsksUnremembered, Simulator("S14")),
    (DoubtfulAskSentAgain, Simulator("S14")),
    (AsksBeforeNotes, Simulator("S16")),
    (ReleaseBeforeReply, Core("a_release_waits_for_what_the_handler_has_said")),
    (MovesUntold, Failure("asks", "b02_a_deploy_leaves_no_ask_unknown")),
    (LastReadLeftOut, Core("who_had_a_job_reads_once_more_before_it_leaves")),
    (RepliesUnfenced, Simulator("S14")),
    (StatesStay, Scenario("what_deletes_a_job_deletes_its_checkpoint")),
    (LossUnsaid, Simulator("why")),
    (ReleaseMints, Model("mutants_of_steps_violate_a_property")),
    // Together with `UnownedOutranks`: either alone costs no runner its job.
    (AttendMints, Model("mutants_in_pairs_violate_a_property")),
    (HandedOffMints, Model("mutants_in_pairs_violate_a_property")),
    (UnownedOutranks, Scenario("what_nobody_owns_outranks_nobody")),
    (NextDispatchGivesWay, Scenario("what_was_begun_later_outranks_an_earlier_dispatch")),
    (RouteUnchecked, Simulator("S9")),
    (EngineAtHome, Failure("handlers", "a50_a_handler_that_blocks_the_only_thread_costs_no_lease")),
    (StalledStays, Simulator("L11")),
    (CordonPassedOver, Simulator("cordon")),
    (LateCordonCounts, Scenario("a_late_copy_of_a_cordon_undoes_nothing")),
    (HoldPassedOver, Simulator("hold")),
    (StartsTogether, Failure("brakes", "b09_the_jobs_of_a_lost_node_start_at_a_rate")),
    (CapacityPassedOver, Failure("brakes", "b08_a_full_machine_gets_no_more")),
    (ElsewhereIsAStrike, Core("a_full_worker_does_not_wait_for_strikes")),
    (RoomUnheard, Core("what_was_sent_elsewhere_waits_for_more_room")),
    (StartsInTurn, Failure("handlers", "a23_a_start_that_hangs_holds_up_nothing_else")),
    (GoneCallersEndNode, Failure("handlers", "a24_an_answer_for_a_caller_that_has_gone_does_no_harm")),
    (EarlyAnswersUnheard, Failure("handlers", "a25_an_answer_that_overtakes_the_acceptance_is_heard")),
    (FailedStopKeepsJob, Failure("stops", "a29_a_stop_handler_that_fails_ends_its_job")),
    (FailedStopUntold, Failure("stops", "a29_a_stop_handler_that_fails_is_logged")),
    (ShutdownAskedOnce, Failure("life", "a35_a_shutdown_that_cannot_be_written_says_so_and_goes_on")),
    // Together with copies that do not catch up, either of which finds the flag.
    (FlagNotPolled, Failure("life", "a36_a_node_that_missed_the_shutdown_ends_all_the_same")),
    (LeavingStopsDraining, Failure("life", "a38_a_node_that_closes_with_events_in_hand_ends")),
    (GroupStaysLost, Simulator("liveness: the pool's stream")),
    (FormerCleanupEnds, Core("a_cleanup_of_a_former_pool_does_not_end_this_one")),
    (RefusedPassedOver, Simulator("S11")),
    (TakenForgotten, Core("notifications_taken_by_an_ending_job_are_acknowledged")),
    (NewPoolJoined, Core("a_pool_that_was_made_after_the_end_is_another_one")),
    (OlderTombstoneEnds, Core("a_tombstone_from_before_the_pool_is_not_its_end")),
    (TombstoneTrusted, Core("a_tombstone_may_have_come_back")),
    (LateBootstrapMakes, Scenario("a_bootstrap_from_before_the_pool_leaves_its_tombstone")),
    (RecoveryStays, Simulator("liveness: the pool is in phase R")),
    (PackedRing, Failure("life", "a42_a_worker_that_goes_moves_only_its_own_keys")),
    // Together with `NoSelfFence`: else the lease thread has aborted the handlers by then.
    (FencedForgets, Failure("duplicates", "a03_a_worker_that_was_given_up_ends_its_jobs_for_good")),
    (AbortedStartsOn, Runtime("mutants_call_handlers_of_a_worker_whose_tasks_were_aborted")),
    (HandOffBeforeStop, Simulator("S2")),
    (RedeliveredStartRefused, Core("a_start_for_what_runs_here_is_ignored")),
    // Together with a `route` that assigns anything: else no second start comes to the worker.
    (StartsWhatItHolds, Failure("duplicates", "a01_a_start_event_that_comes_again_starts_nothing")),
    (FormerRunKept, Failure("duplicates", "a45_a_record_that_is_lost_alone_doubles_no_job")),
    (PanicUntold, Failure("losses", "a22_a_panic_is_told")),
    (PanicEndsReading, Failure("losses", "a22_a_worker_whose_handlers_panic_goes_on")),
    (FencedAttests, Core("a_fenced_worker_attests_nothing")),
    (JournalNotSent, Core("the_journal_is_sent")),
    (SilentKeepsJournal, Core("a_journal_that_was_not_said_is_forgotten")),
    (FencedKeepsJournal, Core("a_journal_that_was_being_said_is_forgotten")),
    (AttendBeforeAttested, Simulator("S2")),
    (NoRecheckAfterBegin, Core("the_lease_is_looked_at_again_after_begin")),
    (BeginGivenUp, Core("a_begin_is_sent_until_it_is_answered")),
    (StopUnnamed, Model("mutants_of_steps_violate_a_property")),
    (ReapEnds, Model("mutants_of_steps_violate_a_property")),
    (TokensBelowSeen, Model("mutants_of_recovery_violate_a_property")),
    (TokenAssignedAgain, Model("mutants_of_steps_violate_a_property")),
    (BegunStaysQueued, Model("mutants_of_steps_violate_a_property")),
    (NotesNumberedAnew, Model("mutants_of_notifications_violate_a_property")),
    (OwnIdsUncompared, Simulator("L8")),
    (OwnIdsForgotten, Simulator("S5")),
    (CancelsForgotten, Scenario("a_dispatch_that_is_forbidden_is_never_accepted")),
    (NotesRefusedEarly, Simulator("S11")),
    (StartedWithoutNote, Simulator("S11")),
    (FloorUnchecked, Simulator("S13")),
    (FloorPassesMembers, Simulator("S13")),
    (FloorForgotten, Scenario("a_recovery_keeps_the_higher_floor")),
    (DrainsUnheard, Core("a_worker_hears_that_another_node_drains_it")),
    (RenewalForgetsFloor, Scenario("a_renewal_brings_back_the_floor_that_was_seen")),
    (IncarnationUnchecked, Model("mutants_of_recovery_violate_a_property")),
    (ScriptBeforeIdentity, Scenario("an_unblessed_client_sends_nothing")),
    (
        NeverInspects,
        Failure("losses", "a49_a_worker_that_dies_with_all_that_told_of_it_leaves_its_jobs_to_others"),
    ),
    (UncountedLive, Core("a_member_whose_counter_is_lost_is_expired")),
    (ReapedOneByOne, Core("the_dead_are_reaped_in_turns")),
    (ResetOnReconnect, Core("an_observer_that_gets_no_answer_watches_on")),
    (FirstSeenBeforeReply, Core("an_observer_counts_from_after_the_reply")),
    (RenewalFromReply, Core("a_lease_counts_from_the_sending_of_its_renewal")),
    (ExpireBeforeJoined, Simulator("S1")),
    (LossesNeverForgiven, Scenario("a_job_that_has_proven_itself_is_not_blamed")),
    (SuspectsTogether, Scenario("a_loss_soon_after_another_one_costs_a_pause")),
    (FirstTakesAll, Scenario("who_comes_to_jobs_while_nobody_is_up_waits_for_the_others")),
    (SilentAreUp, Scenario("the_silent_are_not_up")),
    (OtherTtlJoins, Scenario("other_settings_are_refused_before_anything_is_written")),
    (OwnTtlKept, Core("leases_go_by_the_worker_ttl_of_the_pool")),
    (OtherShardsJoin, Core("a_shard_of_another_number_is_not_joined")),
    (FirstShardEndsAlone, Core("the_first_shard_is_cleaned_up_last")),
    (HearsayGoesFirst, Core("a_shards_own_shutdown_goes_before_hearsay")),
];

/// Seeds that the simulator tries.
const SEEDS: u64 = 80;

/// The sign that the line is noticed; `None` if there is none.
pub(crate) fn noticed(mutation: Mutation, by: By) -> Option<String> {
    match by {
        Simulator(property) => simulated(mutation, property),
        Scenario(name) => {
            let scenario = crate::scenario(name)?;
            crate::notices_in_memory(scenario, mutation).then(|| name.to_owned())
        }
        Core(name) => named("src/core/tests/mutants.rs", mutation, name),
        Runtime(name) => named("src/runtime/actors/tests.rs", mutation, name),
        Model(name) => named("tests/model/main.rs", mutation, name),
        Failure(file, name) => named(&format!("tests/failures/{file}.rs"), mutation, name),
    }
}

/// The first seed that violates this property with the broken line, and violates nothing with the whole protocol.
fn simulated(mutation: Mutation, property: &str) -> Option<String> {
    let whole = Options { steps: 400, ..Options::default() };
    let broken = Options { broken: Mutations::of([mutation]), ..whole.clone() };
    (1..=SEEDS).find_map(|seed| {
        let mut violations = run(seed, &broken).violations.into_iter();
        let violation = violations.find(|violation| violation.starts_with(property))?;
        let violated = format!("seed {seed}: {}", violation.chars().take(60).collect::<String>());
        run(seed, &whole).violations.is_empty().then_some(violated)
    })
}

/// Checks that the test exists and leaves the line out, itself or by a constant of its file that it names.
fn named(file: &str, mutation: Mutation, name: &str) -> Option<String> {
    let text = std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join(file)).ok()?;
    let from = |start: &str, end: &str| {
        let rest = &text[text.find(start)?..];
        Some(rest[..rest.find(end)?].to_owned())
    };
    let registered = from(&format!("    {name}:"), "\",").or_else(|| from(&format!("    {name}:"), "\";"));
    let test = registered.or_else(|| from(&format!("fn {name}()"), "\n}\n"))?;
    let words = test.split(|c: char| !c.is_alphanumeric() && c != '_');
    let constants = words.filter_map(|word| {
        from(&format!("const {word}:"), ";\n").or_else(|| from(&format!("const fn {word}("), "\n}\n"))
    });
    let whole = constants.fold(test.clone(), |whole, constant| whole + &constant);
    let asked = format!("{mutation:?}");
    let has = whole.split(|c: char| !c.is_alphanumeric()).any(|word| word == asked);
    has.then(|| format!("{file} {name}"))
}

/// The names of all mutations, as their file has them.
pub(crate) fn all() -> Vec<String> {
    let text = include_str!("../../src/mutation.rs");
    let variants = text.split("pub enum Mutation {").nth(1).and_then(|rest| rest.split("\n}").next());
    let name = |line: &str| line.strip_prefix("    ")?.strip_suffix(',').map(str::to_owned);
    variants.unwrap_or_default().lines().filter_map(name).collect()
}
