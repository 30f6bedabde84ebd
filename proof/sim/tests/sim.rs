//! The simulator itself: seeds that pass, runs that repeat, and mutations that it sees.
#![allow(clippy::unwrap_used, clippy::expect_used)]

#[path = "../../pool/tests/store/mutants/core.rs"]
#[allow(dead_code, reason = "other tests read the other rows of the table")]
mod core;

use std::sync::Mutex;

use tenure_pool::store::needs_memory;
use tenure_protocol::core::call::STEPS;
use tenure_protocol::mutation::{Mutation, Mutations};
use tenure_sim::transitions::table;
use tenure_sim::{Fault, Options, Report, run};

/// A short run: enough for a few leases to run out.
fn short() -> Options {
    Options { steps: 200, ..Options::default() }
}

fn passes(report: &Report) {
    assert!(
        report.violations.is_empty(),
        "replay it: TRACE=1 make sim SEEDS=1 START={}\n{report}",
        report.seed
    );
}

#[test]
fn without_faults_all_that_is_asked_for_happens() {
    let mut answers = 0;
    for seed in 1..=10 {
        let report = run(seed, &Options { faults: [].into(), ..short() });
        passes(&report);
        assert!(report.starts > 0 && report.faults.is_empty(), "{report}");
        answers += report.answers;
    }
    assert!(answers > 100, "{answers}");
}

#[test]
fn nothing_is_violated_under_faults() {
    for seed in 1..=25 {
        passes(&run(seed, &short()));
    }
}

/// Its release under the earlier token is answered after the one under the later token.
#[test]
fn a_job_that_came_again_and_has_left_is_not_taken_back() {
    passes(&run(21_652_544_751_105, &Options::default()));
}

#[test]
fn every_kind_of_fault_happens() {
    let happened: std::collections::BTreeSet<Fault> =
        (1..=40).flat_map(|seed| run(seed, &short()).faults.into_keys()).collect();
    assert_eq!(happened, Options::default().faults);
}

#[test]
fn some_handlers_take_other_payloads_and_send_asks_on() {
    let (mut taken, mut sent_on) = (0, 0);
    for seed in 1..=40 {
        let report = run(seed, &short());
        taken += report.taken;
        sent_on += report.sent_on;
    }
    assert!(taken > 0 && sent_on > 0, "{taken} {sent_on}");
}

#[test]
fn a_seed_is_a_run() {
    let reports = [1, 1, 2].map(|seed| run(seed, &short()));
    let digests = reports.map(|report| (report.digest, report.events));
    assert_eq!(digests[0], digests[1]);
    assert_ne!(digests[0], digests[2]);
}

/// The first seed, from this one on, with which a pool broken in this way violates one of these properties.
fn caught(mutation: Mutation, from: u64, properties: &[&str]) -> Option<Report> {
    caught_under(Options::default(), mutation, from, properties)
}

fn caught_under(options: Options, mutation: Mutation, from: u64, properties: &[&str]) -> Option<Report> {
    let options = Options { broken: Mutations::of([mutation]), steps: 400, ..options };
    let shows = |report: &Report| {
        report.violations.iter().any(|found| properties.iter().any(|property| found.starts_with(property)))
    };
    (from..from + 1_000).map(|seed| run(seed, &options)).find(shows)
}

/// The first seed that violates this property with the broken line, and violates nothing with the whole protocol.
fn noticed(mutation: Mutation, property: &str) -> Option<u64> {
    let whole = Options { steps: 400, ..Options::default() };
    let broken = Options { broken: Mutations::of([mutation]), ..whole.clone() };
    (1..=200).find(|&seed| {
        let violations = run(seed, &broken).violations;
        violations.iter().any(|found| found.starts_with(property)) && run(seed, &whole).violations.is_empty()
    })
}

#[test]
fn mutants_of_the_core_that_it_notices_are_caught() {
    let wanted = std::env::var("MUTANT").ok();
    let is_wanted = |name: &str| wanted.as_ref().is_none_or(|words| name.contains(words));
    let rows = core::MUTANTS.iter().filter_map(|(mutation, by)| match by {
        core::By::Simulator(property) if is_wanted(&format!("{mutation:?}")) => Some((*mutation, *property)),
        _ => None,
    });
    let (queue, survivors) = (Mutex::new(rows), Mutex::new(Vec::new()));
    std::thread::scope(|scope| {
        for _ in 0..std::thread::available_parallelism().map_or(1, std::num::NonZero::get) {
            scope.spawn(|| {
                loop {
                    let Some((mutation, property)) = queue.lock().unwrap().next() else { break };
                    match noticed(mutation, property) {
                        Some(seed) => println!("{mutation:?}: {property} is violated by seed {seed}"),
                        None => survivors.lock().unwrap().push(mutation),
                    }
                }
            });
        }
    });
    let survivors = survivors.into_inner().unwrap();
    assert!(survivors.is_empty(), "these survive: {survivors:?}");
}

#[test]
fn a_worker_that_does_not_fence_itself_is_caught() {
    let report = caught(Mutation::NoSelfFence, 8, &["S1"]).expect("no seed has seen it");
    assert!(!report.trace.is_empty(), "a run that fails shows how it came to that");
}

/// A test for each row: from this seed on, a pool that is broken in this way violates one of these properties.
macro_rules! catches {
    ($($name:ident: $mutation:ident, $from:literal, $properties:expr;)*) => {
        $(#[test] fn $name() {
            assert!(caught(Mutation::$mutation, $from, &$properties).is_some(), "no seed has seen it");
        })*
    };
}

catches! {
    a_begin_that_checks_nothing_is_caught: BeginUnchecked, 4, ["S1", "S2", "S7", "S10"];
    a_worker_that_hides_its_ended_jobs_after_a_loss_is_caught: JournalNotSent, 180, ["S5"];
    a_last_word_before_all_jobs_are_attested_is_caught: AttendBeforeAttested, 12, ["S2"];
    a_recovery_that_does_not_end_is_caught: RecoveryStays, 2, ["liveness: the pool is in phase R"];
    a_fenced_worker_that_says_what_it_runs_is_caught: FencedAttests, 16, ["S9"];
    an_observer_that_counts_from_before_the_reply_is_caught: FirstSeenBeforeReply, 658, ["S1", "S2"];
    a_step_from_below_the_floor_is_caught: FloorUnchecked, 2, ["S13"];
    a_floor_that_rises_above_a_member_is_caught: FloorPassesMembers, 6, ["S13"];
    a_recovery_that_forgets_the_floor_is_caught: FloorForgotten, 725, ["S13"];
    records_at_which_nobody_looks_are_caught: NeverInspects, 13, ["liveness"];
    a_handler_that_hangs_for_ever_is_caught: StalledStays, 28, ["L11"];
    a_hold_that_is_passed_over_is_caught: HoldPassedOver, 6, ["hold"];
    a_cordon_that_is_passed_over_is_caught: CordonPassedOver, 3, ["cordon"];
    a_worker_that_takes_more_than_its_capacity_is_caught: CapacityPassedOver, 13, ["capacity"];
    an_owner_that_goes_by_no_update_is_caught: UpdateUnheard, 118, ["liveness: L10"];
    an_ask_that_comes_to_its_handler_twice_is_caught: AsksUnremembered, 3, ["S14"];
    an_ask_that_goes_to_two_owners_is_caught: DoubtfulAskSentAgain, 6, ["S14"];
    an_ask_under_a_dead_token_is_caught: AskUnderAnyToken, 13, ["S14"];
    an_answer_of_a_former_owner_is_caught: RepliesUnfenced, 3, ["S14"];
    an_ask_before_earlier_notifications_is_caught: AsksBeforeNotes, 1, ["S16"];
}

#[test]
fn an_ask_that_a_drain_leaves_unknown_is_caught() {
    let calm = Options { faults: [].into(), ..Options::default() };
    let report = caught_under(calm, Mutation::LastReadLeftOut, 171, &["L9"]);
    assert!(report.is_some(), "no seed has seen it");
}

/// Commands of Redis, and no scripts.
const COMMANDS: [&str; 9] = [
    "survey",
    "pool_state",
    "server_time",
    "node_events",
    "tell",
    "heartbeats",
    "pool_events",
    "claim",
    "forget_node",
];

#[test]
fn each_step_has_the_name_of_its_script() {
    let unknown: Vec<_> = STEPS.iter().filter(|step| needs_memory(step).is_none()).collect();
    for step in unknown {
        assert!(COMMANDS.contains(step), "{step}");
    }
}

#[test]
fn the_legal_changes_of_a_state_stand_in_the_concepts() {
    let page = include_str!("../../../docs/concepts.md");
    assert!(page.contains(&table()), "docs/concepts.md must have this table:\n{}", table());
}
