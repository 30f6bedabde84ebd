//! The judges of the poison are shown broken worlds, and what they must say of each.
#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::process::Command;
use std::time::Duration;

use tenure_chaos::poison::{
    Choice, Evidence, Kind, Manner, Shape, Target, Touched, Worked, Wound, Wrong, all, chosen, deletion_of,
    judge, rests,
};
use tenure_testing::history::{Event, History};

/// A history of starts (`true`) and ends of keys by tokens.
fn history(events: &[(bool, &str, u64, &str)]) -> History {
    let history = History::new();
    for (at, (starts, key, token, worker)) in events.iter().enumerate() {
        let (key, token, worker) = ((*key).to_owned(), *token, (*worker).to_owned());
        let event = if *starts {
            Event::Started { key, token, worker }
        } else {
            Event::Stopped { key, token, worker }
        };
        history.record_at(at as u64 + 1, event);
    }
    history
}

fn process(name: &str) -> Worked {
    Worked { name: name.into(), busy: Duration::from_secs(1), lines: 50, panics: Vec::new(), ended: false }
}

/// A minute in which all was well: `a` and `b` run, and `c` of the neighbour.
fn sound() -> Evidence {
    Evidence {
        wounds: Vec::new(),
        watched: Duration::from_secs(60),
        processes: vec![process("redis"), process("n1")],
        panics: 0,
        pool: history(&[(true, "a", 1, "n1"), (true, "b", 1, "n1")]).entries(),
        neighbour: history(&[(true, "c", 1, "m1")]).entries(),
        keys: vec!["a".into(), "b".into()],
        neighbour_keys: vec!["c".into()],
        began: 2,
        stale_accepted: 0,
    }
}

fn wound(manner: Manner, touched: Touched) -> Wound {
    let kind = Kind { key: "jobs", shape: Shape::Hash, manner };
    Wound { what: "a record".into(), kind, at: Duration::ZERO, touched }
}

fn wrongs(evidence: &Evidence) -> Vec<Wrong> {
    judge(evidence).into_iter().map(|finding| finding.wrong).collect()
}

#[test]
fn a_world_in_which_all_is_well_is_not_complained_of() {
    assert_eq!(wrongs(&sound()), []);
}

#[test]
fn panics_and_ends_are_found_wherever_they_are() {
    let mut world = sound();
    world.panics = 1;
    assert_eq!(wrongs(&world), [Wrong::Panic]);
    let mut world = sound();
    world.processes[1].panics.push("thread 'main' panicked at".into());
    assert_eq!(wrongs(&world), [Wrong::Panic]);
    let mut world = sound();
    world.processes[0].ended = true;
    assert_eq!(wrongs(&world), [Wrong::Panic]);
}

#[test]
fn a_busy_process_and_a_flooded_log_are_found() {
    let mut world = sound();
    world.processes[0].busy = Duration::from_secs(31);
    world.processes[1].lines = 201;
    assert_eq!(wrongs(&world), [Wrong::Spin, Wrong::Flood]);
}

#[test]
fn whatever_happens_to_the_neighbour_is_found() {
    let mut world = sound();
    world.neighbour = history(&[(true, "c", 1, "m1"), (false, "c", 1, "m1"), (true, "c", 2, "m1")]).entries();
    assert_eq!(wrongs(&world), [Wrong::Neighbour]);
    world.neighbour.truncate(2);
    assert_eq!(wrongs(&world), [Wrong::Neighbour, Wrong::Neighbour]);
}

#[test]
fn a_job_that_is_gone_is_found_unless_its_values_were_touched() {
    let mut world = sound();
    world.pool.truncate(1);
    assert_eq!(wrongs(&world), [Wrong::Lost]);
    world.wounds.push(wound(Manner::Lose, Touched::Key(Some("a".into()))));
    assert_eq!(wrongs(&world), [Wrong::Lost]);
    world.wounds.push(wound(Manner::Lose, Touched::Key(Some("b".into()))));
    assert_eq!(wrongs(&world), []);
    world.wounds = vec![wound(Manner::Delete, Touched::All)];
    assert_eq!(wrongs(&world), []);
}

#[test]
fn two_handlers_are_excused_on_the_way_and_never_at_the_end() {
    let both = [(true, "a", 1, "n1"), (true, "b", 1, "n1"), (true, "b", 2, "n2"), (false, "b", 1, "n1")];
    let mut world = sound();
    world.pool = history(&both).entries();
    assert_eq!(wrongs(&world), [Wrong::Doubled]);
    world.wounds.push(wound(Manner::Lose, Touched::Key(Some("b".into()))));
    assert_eq!(wrongs(&world), []);
    world.pool = history(&both[..3]).entries();
    assert_eq!(wrongs(&world), [Wrong::Doubled]);
}

#[test]
fn a_key_that_is_deleted_excuses_no_second_handler() {
    let mut world = sound();
    world.pool =
        history(&[(true, "a", 1, "n1"), (true, "b", 1, "n1"), (true, "b", 2, "n2"), (false, "b", 1, "n1")])
            .entries();
    world.wounds = vec![wound(Manner::Delete, deletion_of("jobs"))];
    assert_eq!(wrongs(&world), [Wrong::Doubled]);
    world.pool =
        history(&[(true, "a", 1, "n1"), (true, "b", 1, "n1"), (false, "b", 1, "n1"), (true, "b", 1, "n2")])
            .entries();
    assert_eq!(wrongs(&world), [Wrong::Token]);
    world.wounds = vec![wound(Manner::Mutate, Touched::All)];
    assert_eq!(wrongs(&world), [Wrong::Token], "a limit of the pool is no token");
}

#[test]
fn a_deleted_index_excuses_nothing() {
    for (key, expected) in [
        ("jobs", Vec::new()),
        ("payloads", Vec::new()),
        ("owners", vec![Wrong::Lost]),
        ("queue", vec![Wrong::Lost]),
    ] {
        let mut world = sound();
        world.pool.truncate(1);
        world.wounds = vec![wound(Manner::Delete, deletion_of(key))];
        assert_eq!(wrongs(&world), expected, "{key}");
    }
}

#[test]
fn a_token_of_two_is_found_unless_its_record_was_changed() {
    let mut world = sound();
    world.pool =
        history(&[(true, "a", 1, "n1"), (true, "b", 1, "n1"), (false, "b", 1, "n1"), (true, "b", 1, "n2")])
            .entries();
    assert_eq!(wrongs(&world), [Wrong::Token]);
    world.wounds.push(wound(Manner::Lose, Touched::Key(Some("b".into()))));
    assert_eq!(wrongs(&world), [Wrong::Token]);
    world.wounds.push(wound(Manner::Mutate, Touched::Key(Some("b".into()))));
    assert_eq!(wrongs(&world), []);
    world.stale_accepted = 1;
    assert_eq!(wrongs(&world), [Wrong::Token]);
}

#[test]
fn a_pool_in_which_a_job_moves_is_not_at_rest() {
    let moves = [(true, "a", 1, "n1"), (true, "b", 1, "n1"), (false, "b", 1, "n1"), (true, "b", 2, "n2")];
    let keys = sound().keys;
    let rests_after =
        |count: usize, sound: &[String]| rests(&history(&moves[..count]).entries(), &keys, sound);
    assert!(rests_after(2, &keys));
    assert!(!rests_after(3, &keys), "b is on its way");
    assert!(rests_after(3, &keys[..1]), "what was touched may be gone");
    assert!(rests_after(4, &keys));
    let twice = history(&[(true, "a", 1, "n1"), (true, "b", 1, "n1"), (true, "b", 2, "n2")]).entries();
    assert!(!rests(&twice, &keys, &keys[..1]), "what was touched may not run twice");
}

#[test]
fn kinds_are_chosen_by_key_by_manner_and_by_both() {
    let names = |only: &[&str]| -> Vec<String> {
        let choices: Vec<Choice> = only.iter().map(|name| name.parse().unwrap()).collect();
        chosen(Target::Pool, &choices).iter().map(ToString::to_string).collect()
    };
    assert_eq!(names(&[]).len(), all(Target::Pool).len());
    assert_eq!(names(&["jobs-lose", "changes"]), ["jobs-lose", "changes-stray"]);
    assert_eq!(names(&["starts"]), ["starts-lose", "starts-stray", "starts-mistype", "starts-delete"]);
    assert!("jobs-eat".parse::<Choice>().is_err());
}

#[test]
fn jobs_that_are_stopped_unseen_are_found_in_both_pools() {
    let arguments = ["poison", "--control", "--seed", "1"];
    let output = Command::new(env!("CARGO_BIN_EXE_tenure-chaos")).args(arguments).output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(!output.status.success(), "{said}");
    assert!(said.contains("FOUND lost: poisoned-0 does not run at the end"), "{said}");
    assert!(said.contains("FOUND neighbour_down: neighbour-0 ended on"), "{said}");
}

#[test]
fn a_queue_and_a_job_that_are_stopped_unseen_are_found_in_sets() {
    let arguments = ["poison", "--of", "set", "--control", "--seed", "1"];
    let output = Command::new(env!("CARGO_BIN_EXE_tenure-chaos")).args(arguments).output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(!output.status.success(), "{said}");
    assert!(said.contains("FOUND lost: queue more runs nothing"), "{said}");
    assert!(said.contains("FOUND neighbour_down: "), "{said}");
}
