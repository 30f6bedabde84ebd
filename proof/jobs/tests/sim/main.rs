//! The simulator: real nodes over the store in memory, with a clock of its own, users, and mishaps. Words are lost,
//! doubled or late. Nodes die, are cut off, or are closed. The store is away, and its data are lost or go back. A seed is
//! a run.
//!
//! `make sim-jobs` plays other seeds: `SEEDS`, `START` and `STEPS`; `TRACE=1` tells what happens. It also plays the broken
//! worlds, to which the judge must object. They take long in a build that is not optimized.

#![allow(clippy::unwrap_used, clippy::expect_used)]

mod judge;
mod rng;
mod wire;
mod world;

use tenure_jobs::store::Breakage;

use self::world::{Report, run};

fn number(variable: &str, default: u64) -> u64 {
    std::env::var(variable).ok().and_then(|text| text.parse().ok()).unwrap_or(default)
}

fn passes(report: &Report, steps: u64) {
    let seed = report.seed;
    assert!(
        report.violations.is_empty(),
        "replay it: TRACE=1 make sim-jobs SEEDS=1 START={seed} STEPS={steps}\n{:#?}",
        report.violations
    );
}

#[test]
fn nothing_is_violated_under_mishaps() {
    let (seeds, start, steps) = (number("SEEDS", 8), number("START", 1), number("STEPS", 150));
    let threads = std::thread::available_parallelism().map_or(1, usize::from) as u64;
    let reports: Vec<Report> = std::thread::scope(|scope| {
        let share = |nth: u64| {
            move || {
                (start..start + seeds)
                    .filter(|seed| seed % threads == nth)
                    .map(|seed| run(seed, steps, None))
                    .collect::<Vec<_>>()
            }
        };
        let shares: Vec<_> = (0..threads).map(|nth| scope.spawn(share(nth))).collect();
        shares.into_iter().flat_map(|share| share.join().unwrap()).collect()
    });
    for report in &reports {
        passes(report, steps);
    }
    let sum = |of: fn(&Report) -> u64| reports.iter().map(of).sum::<u64>();
    let (played, begins, losses) = (sum(|one| one.steps), sum(|one| one.begins), sum(|one| one.losses));
    println!("{seeds} seeds: {played} steps, {begins} executions, {losses} losses of data, nothing violated");
    assert!(begins > seeds * 10, "too little happens: {begins}");
}

#[test]
fn a_seed_is_a_run() {
    let digests = [7, 7, 8].map(|seed| run(seed, 100, None).digest);
    assert_eq!(digests[0], digests[1]);
    assert_ne!(digests[0], digests[2]);
}

/// The judge objects to a world that is broken in this way, with one of these words, in one of these seeds.
fn caught(breakage: Breakage, words: &[&str]) {
    let mut others = Vec::new();
    for seed in 1..=60 {
        let report = run(seed, 150, Some(breakage));
        if report.violations.iter().any(|what| words.iter().any(|words| what.contains(words))) {
            return;
        }
        others.extend(report.violations);
    }
    panic!("nothing of {words:?}, but {others:#?}");
}

macro_rules! broken {
    ($($name:ident: $breakage:ident by $($words:literal)|+;)*) => {
        $(#[test] #[ignore = "make sim-jobs plays them, optimized"] fn $name() { caught(Breakage::$breakage, &[$($words),+]); })*
    };
}

broken! {
    a_job_that_is_lost_is_noticed: LosesDelayed by "is lost";
    a_settling_without_a_token_is_noticed: AnyTokenSettles by "is not valid" | "was taken from who runs it";
    a_call_that_counts_twice_is_noticed: CallsTwice by "took effect twice";
    attempts_without_an_end_are_noticed: AttemptsUnbounded by "a wrong attempt";
    a_lost_lease_that_counts_nothing_is_noticed: LossUncounted by "lost its lease and an attempt";
    a_limit_of_a_group_that_is_none_is_noticed: GroupLimitOff by "began in a window";
    a_concurrency_that_is_none_is_noticed: ConcurrencyOff by "run in bound";
    a_child_that_counts_twice_is_noticed: ChildCountsTwice by "open children";
    children_that_are_left_behind_are_noticed: RemovesAlone by "was left behind by its parent";
    a_parent_that_sleeps_on_is_noticed: ParentSleeps by "waits for nothing";
    a_token_that_comes_again_is_noticed: TokensRepeat by "a lower token" | "that was given before";
    a_job_that_runs_early_is_noticed: RunsEarly by "before its time";
    data_that_stay_are_noticed: LeavesData by "bodies and the records differ";
    a_lease_that_is_taken_early_is_noticed: LeasesTakenEarly by "was taken from who runs it";
    a_lease_that_lasts_for_ever_is_noticed: LeasesLast by "this is left";
    an_end_that_is_kept_for_ever_is_noticed: KeepsForEver by "timers of retention" | "this is left";
    a_handler_that_outlives_its_lease_is_noticed: NoAbort by "two handlers of a job";
    a_silent_node_after_a_loss_is_noticed: NothingAttested by "was ended by a loss of data" | "do not know it";
    an_end_that_is_lost_for_good_is_noticed: NoJournal by "after its end was answered";
    an_execution_made_again_twice_is_noticed: MadeAgainTwice by "after its end was answered" | "which goes on";
    a_request_met_by_an_earlier_run_is_noticed: RequestsMetEarly by "was asked for after this run of it began";
}
